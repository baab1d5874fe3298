/* Defaults and time budgets of tuning options. Owns nothing: the options are the caller's. include/tuff/tune.h
   documents them, and api/controls.c lets the environment change them. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "exec/tune_options.h"

#include <unistd.h>

const tuff_tune_options *tuff__tune_options(const tuff_compile_options *options)
{
    static const tuff_tune_options defaults = {.mode = TUFF_TUNE_CACHED};
    return options->tuning != NULL ? options->tuning : &defaults;
}

uint64_t tuff__tune_budget(const tuff_tune_options *tuning)
{
    enum { MANY_CORES = 8 };
    uint64_t seconds = 0;
    if (tuning->mode == TUFF_TUNE_QUICK)
        seconds = 10;
    if (tuning->mode == TUFF_TUNE_NORMAL)
        seconds = sysconf(_SC_NPROCESSORS_ONLN) >= MANY_CORES ? 60 : 120;
    if (tuning->mode == TUFF_TUNE_MAX)
        seconds = 600;
    return tuning->milliseconds > 0 ? (uint64_t)tuning->milliseconds * 1000000 : seconds * 1000000000;
}
