/* The verbs of `tuff tune`, one file each; tools/tune/tune.c lists them. */
#ifndef TUFF_TOOLS_TUNE_VERBS_H
#define TUFF_TOOLS_TUNE_VERBS_H

#include "tools/cli/cli.h"

extern const cli_verb tune_verb_warm, tune_verb_report;
/* Started by programs that tune in another process, not by users. */
extern const cli_verb tune_verb_worker;

#endif
