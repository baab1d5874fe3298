/* The verbs of the tool, one file each. */
#ifndef TUFF_TOOLS_VERBS_H
#define TUFF_TOOLS_VERBS_H

#include "tools/cli.h"

extern const cli_verb verb_devices, verb_verify, verb_train, verb_generate, verb_plan, verb_kernel, verb_bench,
    verb_cache, verb_tune;

/* tuff tune record and tuff tune report, without those words. */
int verb_tune_record(int count, char **arguments);
int verb_tune_portfolio(int count, char **arguments);
int verb_tune_report(int count, char **arguments);
/* tuff tune worker, for programs: not for people. */
int verb_tune_worker(int count, char **arguments);

#define CLI_DEVICE_HELP "auto, opencl[:n|:name], vulkan[:n|:name] or reference; else $TUFF_DEVICE, else auto"

#endif
