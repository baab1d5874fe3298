/* tuff: the command-line tool. Finds the verb and hands it the rest of the line. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/worker_process.h"
#include "tools/verbs.h"

static const cli_verb *const verbs[] = {&verb_devices, &verb_verify, &verb_train, &verb_generate, &verb_plan,
                                        &verb_kernel,  &verb_bench,  &verb_cache, &verb_tune};

static void print_usage(FILE *out)
{
    fputs("usage: tuff VERB [OPTIONS]\n\n", out);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        fprintf(out, "  %-10s %s\n", verbs[i]->name, verbs[i]->summary);
    fputs("\ntuff VERB --help lists the options of a verb; tuff --version prints the version.\n"
          "Exit codes: 0 done, 1 the work failed, 2 wrong use.\n",
          out);
}

/* What the library warns of is for the person at the terminal. */
static void print_warning(void *user, tuff_log_level level, const char *text)
{
    (void)user;
    if (level <= TUFF_LOG_WARNING)
        fprintf(stderr, "tuff: %s\n", text);
}

/* The tool tunes in the background for programs, and so it does for itself. */
static void name_worker(void)
{
    static char own[4096];
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length > 0)
        tuff__worker_own = own;
}

int main(int count, char **arguments)
{
    const char *name = count > 1 ? arguments[1] : "";
    name_worker();
    tuff_set_log(print_warning, NULL);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_usage(stdout);
        return EXIT_DONE;
    }
    if (strcmp(name, "--version") == 0) {
        printf("tuff %s\n", tuff_version());
        return EXIT_DONE;
    }
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(name, verbs[i]->name) == 0) {
            if (!verbs[i]->repeats)
                (void)unsetenv("TUFF_TUNE_BACKGROUND"); /* who asks for tuning there waits for it */
            const int code = verbs[i]->run(count - 2, arguments + 2);
            if (fflush(stdout) == 0)
                return code;
            return cli_fail(verbs[i], EXIT_FAILED, "the output could not be written");
        }
    if (name[0])
        fprintf(stderr, "tuff: there is no verb \"%s\"\n", name);
    print_usage(stderr);
    return EXIT_WRONG_USE;
}
