/* Tuning on the command line: the options of the verbs that compile, and the progress line. */
#ifndef TUFF_TOOLS_TUNE_TUNING_H
#define TUFF_TOOLS_TUNE_TUNING_H

#include "tools/cli/cli.h"

enum { TUNING_LEADS = 512 };

typedef struct tuning {
    int mode;       /* a tuff_tune_mode */
    double seconds; /* 0: decided by the mode */
    bool mode_given, deterministic;
    bool background; /* for verbs with TUNING_BACKGROUND_OPTION */
    int isolate;     /* a tuff_tune_isolation; for verbs with TUNING_ISOLATE_OPTION */
    const char *manifest, *save_manifest;
    tuff_tune_options options; /* set by tuning_apply; the compile options point at it */
    /* For the progress line: */
    bool is_terminal, is_line_open;
    char key[160];
    /* Hashes of the keys for which some candidate is ahead of the default, judging by the samples of the search
       alone. */
    uint64_t leads[TUNING_LEADS];
    int lead_count;
} tuning;

#define TUNING_MODES "cached|off|quick|normal|max"
/* Five rows of an option table. */
#define TUNING_OPTIONS(tuning) TUNING_OPTIONS_ELSE(tuning, "cached")
/* The same for a verb that uses mode `standard` if neither --tune nor $TUFF_TUNE is set. */
#define TUNING_OPTIONS_ELSE(tuning, standard)                                                                          \
    {.name = "--tune",                                                                                                 \
     .kind = CLI_CHOICE,                                                                                               \
     .value = &(tuning)->mode,                                                                                         \
     .placeholder = TUNING_MODES,                                                                                      \
     .help =                                                                                                           \
         "quick, normal, max: measure kernel variants for at most 10, 60 (120 with fewer than 8 cores), 600 seconds; " \
         "cached: use earlier results; off: ignore them; default $TUFF_TUNE, else " standard,                          \
     .given = &(tuning)->mode_given},                                                                                  \
        {.name = "--tune-budget",                                                                                      \
         .kind = CLI_NUMBER,                                                                                           \
         .value = &(tuning)->seconds,                                                                                  \
         .placeholder = "S",                                                                                           \
         .help = "time limit of tuning in seconds; 0: set by the mode",                                                \
         .high = 1e6},                                                                                                 \
        {.name = "--deterministic",                                                                                    \
         .kind = CLI_SWITCH,                                                                                           \
         .value = &(tuning)->deterministic,                                                                            \
         .help = "measure nothing, and use only tuned kernels with bit-identical results; "                            \
                 "default $TUFF_DETERMINISTIC"},                                                                       \
        {.name = "--save-manifest",                                                                                    \
         .kind = CLI_TEXT,                                                                                             \
         .value = &(tuning)->save_manifest,                                                                            \
         .placeholder = "FILE",                                                                                        \
         .help = "add the configurations of the plan's kernels to the manifest FILE"},                                 \
    {                                                                                                                  \
        .name = "--lock-manifest", .kind = CLI_TEXT, .value = &(tuning)->manifest, .placeholder = "FILE",              \
        .help = "use only configurations from the manifest FILE; fail if one is missing"                               \
    }

/* A row for verbs that run one plan many times. */
#define TUNING_BACKGROUND_OPTION(tuning)                                                                             \
    {                                                                                                                \
        .name = "--tune-background", .kind = CLI_SWITCH, .value = &(tuning)->background,                             \
        .help =                                                                                                      \
            "measure while the device is idle, not before the first run; --tune quick unless another mode is given", \
    }

/* A row for verbs that only measure. */
#define TUNING_ISOLATE_OPTION(tuning)                                                                             \
    {                                                                                                             \
        .name = "--isolate", .kind = CLI_CHOICE, .value = &(tuning)->isolate, .placeholder = "auto|on|off",       \
        .help = "on: measure in a worker process, which is restarted after a crash; off: in this process; auto: " \
                "$TUFF_TUNE_ISOLATE, else on",                                                                    \
    }

/* For verbs that only measure: measures in a worker unless the options or the environment say otherwise. */
void tuning_isolate(tuning *self);
/* Sets out->tuning: mode, budget and progress callback. self must outlive the compilation. Ctrl-C ends tuning, and the
   plan is then made from the results so far. */
void tuning_apply(tuning *self, tuff_compile_options *out);
/* Ends the progress line, reports on stderr what tuning did, if anything, and writes the manifest if one was requested.
   Returns false, after a message, if that cannot be written. plan may be NULL. */
bool tuning_end(tuning *self, tuff_plan *plan);

#endif
