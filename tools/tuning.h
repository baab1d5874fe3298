/* Tuning on the command line: the options of the verbs that compile, and the progress line. */
#ifndef TUFF_TOOLS_TUNING_H
#define TUFF_TOOLS_TUNING_H

#include "tools/cli.h"

typedef struct tuning {
    int mode;       /* as tuff_tune_mode */
    double seconds; /* 0: by the mode */
    bool mode_given, deterministic;
    bool background; /* of verbs with TUNING_BACKGROUND_OPTION */
    const char *manifest, *save_manifest;
    tuff_tune_options options; /* of tuning_apply: what the compile options point at */
    /* Of the progress line: */
    bool terminal, open;
    int keys_done, rejected;
    char key[160];
} tuning;

#define TUNING_MODES "cached|off|quick|normal|max"
/* Five rows of an option table. */
#define TUNING_OPTIONS(tuning)                                                                                  \
    {.name = "--tune",                                                                                          \
     .kind = CLI_CHOICE,                                                                                        \
     .value = &(tuning)->mode,                                                                                  \
     .placeholder = TUNING_MODES,                                                                               \
     .help = "measure kernel variants, at most 10, 120 or 600 seconds; cached: what is known; else $TUFF_TUNE", \
     .given = &(tuning)->mode_given},                                                                           \
        {.name = "--tune-budget",                                                                               \
         .kind = CLI_NUMBER,                                                                                    \
         .value = &(tuning)->seconds,                                                                           \
         .placeholder = "S",                                                                                    \
         .help = "seconds that tuning may take; 0: by the mode",                                                \
         .high = 1e6},                                                                                          \
        {.name = "--deterministic",                                                                             \
         .kind = CLI_SWITCH,                                                                                    \
         .value = &(tuning)->deterministic,                                                                     \
         .help = "nothing is measured, and what was changes no bit of the results; else $TUFF_DETERMINISTIC"},  \
        {.name = "--save-manifest",                                                                             \
         .kind = CLI_TEXT,                                                                                      \
         .value = &(tuning)->save_manifest,                                                                     \
         .placeholder = "F",                                                                                    \
         .help = "add what the plan runs with to F, for --lock-manifest"},                                      \
    {                                                                                                           \
        .name = "--lock-manifest", .kind = CLI_TEXT, .value = &(tuning)->manifest, .placeholder = "F",          \
        .help = "run with what F names; any deviation is an error"                                              \
    }

/* A row for verbs that run one plan many times. */
#define TUNING_BACKGROUND_OPTION(tuning)                                                       \
    {                                                                                          \
        .name = "--tune-background", .kind = CLI_SWITCH, .value = &(tuning)->background,       \
        .help = "measure in the pauses of the work, not before it; --tune quick if not given", \
    }

/* Sets out->tuning: mode, budget and the progress line; self must outlive the compilation. Ctrl-C ends tuning: the plan
   is then made of what was found. */
void tuning_apply(tuning *self, tuff_compile_options *out);
/* Leaves the progress line and says on the error stream what tuning did, where it did anything; then writes the
   manifest that is asked for. False, after a message, where that cannot be written. NULL is a plan. */
bool tuning_end(tuning *self, tuff_plan *plan);

#endif
