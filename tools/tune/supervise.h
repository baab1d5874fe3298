/* Work that may end its process, such as running kernels that a driver does not survive, in a process of its own. */
#ifndef TUFF_TOOLS_TUNE_SUPERVISE_H
#define TUFF_TOOLS_TUNE_SUPERVISE_H

#include "tools/cli/cli.h"

typedef enum isolation { ISOLATE_AUTO, ISOLATE_ON, ISOLATE_OFF } isolation;

/* A row of an option table. */
#define ISOLATE_OPTION(isolate)                                                                                       \
    {                                                                                                                 \
        "--isolate", CLI_CHOICE, (isolate), "auto|on|off",                                                            \
            "measure in a worker process, which is restarted after a crash; auto: $TUFF_TUNE_ISOLATE, else on", 0, 0, \
            NULL                                                                                                      \
    }

/* The exit code of a process that did what it could: it is to be started again, as after a crash. */
enum { EXIT_AGAIN = 75 };

/* Called before any driver is opened. True: this process is to do the work itself. False: another one did it, by the
   same program with the words of the command in front of its arguments; *code is its exit code. It prints where this
   one would have. One that a signal ended, or that showed no sign of life for TUFF_TUNE_WATCHDOG seconds (60), is
   started again, some twenty times at most. Ctrl-C is passed on. */
bool supervise(const cli_verb *verb, isolation isolate, const char *const *words, int count, char **arguments,
               int *code);

/* Whether this process was started by another's `supervise`; until it calls that itself. */
bool is_supervised(void);

/* In a process that works: milliseconds that earlier ones of the same command had before they were ended. */
uint64_t supervised_before(void);

#endif
