/* Tuning on the command line: the options of the verbs that compile, and the progress line. */
#ifndef TUFF_TOOLS_TUNING_H
#define TUFF_TOOLS_TUNING_H

#include "tools/cli.h"

typedef struct tuning {
    int mode;       /* as tuff_tune_mode */
    double seconds; /* 0: by the mode */
    bool mode_given;
    /* Of the progress line: */
    bool terminal, open;
    int keys_done, rejected;
    char key[160];
} tuning;

#define TUNING_MODES "cached|off|quick|normal|max"
/* Two rows of an option table. */
#define TUNING_OPTIONS(tuning)                                                                                        \
    {"--tune",                                                                                                        \
     CLI_CHOICE,                                                                                                      \
     &(tuning)->mode,                                                                                                 \
     TUNING_MODES,                                                                                                    \
     "measure kernel variants, at most 10, 120 or 600 seconds; cached: what is known; else $TUFF_TUNE",               \
     0,                                                                                                               \
     0,                                                                                                               \
     &(tuning)->mode_given},                                                                                          \
    {                                                                                                                 \
        "--tune-budget", CLI_NUMBER, &(tuning)->seconds, "S", "seconds that tuning may take; 0: by the mode", 0, 1e6, \
            NULL                                                                                                      \
    }

/* Puts mode, budget and the progress line into the options; self must outlive the compilation. Ctrl-C ends tuning:
   the plan is then made of what was found. */
void tuning_apply(tuning *self, tuff_compile_options *out);
/* Leaves the progress line and says on the error stream what tuning did, where it did anything. */
void tuning_end(tuning *self, const tuff_plan *plan);

/* tuff tune record: answers an exit code. */
int tune_record(int count, char **arguments);

#endif
