/* The verbs of the tool, one file each, listed in tools/tuff.c. */
#ifndef TUFF_TOOLS_VERBS_H
#define TUFF_TOOLS_VERBS_H

#include "tools/cli/cli.h"

extern const cli_verb verb_devices, verb_verify, verb_train, verb_generate, verb_plan, verb_profile, verb_kernel,
    verb_bench, verb_cache, verb_tune, verb_doctor;

#endif
