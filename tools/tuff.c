/* tuff: the command-line tool. Finds the verb and passes it the rest of the command line. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/verbs.h"
#include "worker/worker_process.h"

static const cli_verb *const verbs[] = {
    &verb_devices, &verb_doctor, &verb_verify, &verb_train, &verb_generate, &verb_plan,
    &verb_profile, &verb_kernel, &verb_bench, &verb_cache,
#if TUFF_WITH_AUTOTUNE
    &verb_tune,
#endif
};

static const cli_group tuff = {
    .name = "tuff",
    .about = "tuff --version prints the version.\nExit codes: 0 success, 1 failure, 2 usage error.\n",
    .verbs = verbs,
    .verb_count = sizeof verbs / sizeof *verbs,
};

#if TUFF_WITH_AUTOTUNE
/* Makes this executable the worker that tunes in the background, as it is for other programs. */
static void name_worker(void)
{
    static char own[4096];
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length > 0)
        tuff__worker_own_path = own;
}
#endif

int main(int count, char **arguments)
{
    const char *name = count > 1 ? arguments[1] : "";
#if TUFF_WITH_AUTOTUNE
    name_worker();
#endif
    cli_show_warnings();
    if (strcmp(name, "--version") == 0) {
        printf("tuff %s\n", tuff_version());
        return EXIT_DONE;
    }
    const cli_verb *verb = cli_find_verb(&tuff, name);
    if (verb && !verb->repeats)
        (void)unsetenv("TUFF_TUNE_BACKGROUND"); /* these verbs wait for tuning that the user requests */
    const int code = cli_run_verb(&tuff, count - 1, arguments + 1);
    if (fflush(stdout) == 0)
        return code;
    fputs("tuff: cannot write to standard output\n", stderr);
    return EXIT_FAILED;
}
