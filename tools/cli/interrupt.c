/* Ctrl-C and the terminal: a first interrupt asks for a clean end, a second one ends the process. */
#define _POSIX_C_SOURCE 200809L

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/cli.h"

static volatile sig_atomic_t interrupted;

static void record_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

void cli_catch_interrupt(void)
{
    struct sigaction action = {.sa_handler = record_interrupt};
    action.sa_flags = (int)(SA_RESETHAND | SA_RESTART);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static void mask_interrupt(int how)
{
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    (void)pthread_sigmask(how, &both, NULL);
}

void cli_hold_interrupt(void)
{
    mask_interrupt(SIG_BLOCK);
}

void cli_release_interrupt(void)
{
    mask_interrupt(SIG_UNBLOCK);
}

bool cli_is_interrupted(void)
{
    return interrupted != 0;
}

bool cli_is_terminal(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDERR_FILENO) && kind && strcmp(kind, "dumb") != 0;
}
