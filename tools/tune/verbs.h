/* The verbs of `tuff tune`, one file each; what tools/tune/tune.c lists. */
#ifndef TUFF_TOOLS_TUNE_VERBS_H
#define TUFF_TOOLS_TUNE_VERBS_H

#include "tools/cli/cli.h"

extern const cli_verb tune_verb_warm, tune_verb_report;
/* For programs that tune in the background: not for people. */
extern const cli_verb tune_verb_worker;

#endif
