/* tuff tune: finds the verb among its own, such as warm and worker, and runs it. */
#include "tools/tune/verbs.h"
#include "tools/verbs.h"

static const cli_verb *const verbs[] = {&tune_verb_warm, &tune_verb_report, &tune_verb_worker};

static const cli_group group = {
    .name = "tuff tune",
    .summary = "Tunes kernels ahead of time, and reports the results.",
    .about = "Exit codes: 0 success, 1 failure, 2 usage error.\n",
    .verbs = verbs,
    .verb_count = sizeof verbs / sizeof *verbs,
};

static int tune(int count, char **arguments)
{
    return cli_run_verb(&group, count, arguments);
}

const cli_verb verb_tune = {
    .name = "tune",
    .operand = "VERB",
    .summary = "Tunes the kernels of a model or of a graph file ahead of time.",
    .run = tune,
};
