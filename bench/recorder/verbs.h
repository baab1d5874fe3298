/* The verbs of tuff-recorder, one file each. */
#ifndef TUFF_BENCH_RECORDER_VERBS_H
#define TUFF_BENCH_RECORDER_VERBS_H

#include "tools/cli/cli.h"

extern const cli_verb recorder_record, recorder_portfolio, recorder_replay;

#endif
