/* tuff-recorder: records kernel times on a device, and reports how well searches do on such recordings. It is a tool
   for work on the tuner; bench/README.md shows how to use it. */
#include "bench/recorder/verbs.h"

static const cli_verb *const verbs[] = {&recorder_record, &recorder_portfolio, &recorder_replay};

static const cli_group recorder = {
    .name = "tuff-recorder",
    .summary = "Records kernel times and replays searches on them, for work on the tuner.",
    .about = "Exit codes: 0 success, 1 failure, 2 usage error.\n",
    .verbs = verbs,
    .verb_count = sizeof verbs / sizeof *verbs,
};

int main(int count, char **arguments)
{
    cli_show_warnings();
    return cli_run_verb(&recorder, count - 1, arguments + 1);
}
