/* tuff-recorder: records what kernels take on a device, and says how well searches do on such recordings. For those who
   work on the tuner; bench/README.md shows how it is used. */
#include "bench/recorder/verbs.h"

static const cli_verb *const verbs[] = {&recorder_record, &recorder_portfolio, &recorder_replay};

static const cli_group recorder = {
    .name = "tuff-recorder",
    .summary = "Records kernel times and replays searches on them, for work on the tuner.",
    .about = "Exit codes: 0 done, 1 the work failed, 2 wrong use.\n",
    .verbs = verbs,
    .verb_count = sizeof verbs / sizeof *verbs,
};

int main(int count, char **arguments)
{
    cli_show_warnings();
    return cli_run_verb(&recorder, count - 1, arguments + 1);
}
