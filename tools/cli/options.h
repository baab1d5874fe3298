/* Rows of option tables that several verbs share, so that an option has the same spelling and help text everywhere.
   Others are next to the code that uses them: MODEL_OPTIONS (tools/model/options.h), WORK_DEVICE_OPTION
   (tools/model/fastest.h), TUNING_OPTIONS and TUNING_ISOLATE_OPTION (tools/tune/tuning.h), CACHE_COMMON
   (tools/cache/cache.h). */
#ifndef TUFF_TOOLS_CLI_OPTIONS_H
#define TUFF_TOOLS_CLI_OPTIONS_H

#include "kernels/tunables.h"
#include "tools/cli/cli.h"

/* Takes a const char *, for cli_open_device. */
#define DEVICE_OPTION(name)                                                                                          \
    {                                                                                                                \
        "--device", CLI_TEXT, (name), "D",                                                                           \
            "auto[:matrix], opencl[:n|:name], vulkan[:n|:name] or reference; default $TUFF_DEVICE, else auto", 0, 0, \
            NULL                                                                                                     \
    }

/* Takes an int: 0 is TUFF_FUSE_ALL, 1 TUFF_FUSE_NONE. given: a bool, or NULL. */
#define FUSE_OPTION(fuse, given)                                                        \
    {                                                                                   \
        "--fuse", CLI_CHOICE, (fuse), "on|off", "off: one kernel per op", 0, 0, (given) \
    }

/* Takes an int, a tuff_matmul_library. given: a bool, or NULL. */
#define MATMUL_OPTION(library, given)                                                                                  \
    {                                                                                                                  \
        "--matmul", CLI_CHOICE, (library), "own|clblast", "kernels for matmuls: tuff's own or those of CLBlast", 0, 0, \
            (given)                                                                                                    \
    }

/* Takes an int, a tuff_precision. given: a bool, or NULL. */
#define PRECISION_OPTION(precision, given)                                                                          \
    {                                                                                                               \
        "--precision", CLI_CHOICE, (precision), "f32|f16|bf16",                                                     \
            "type of stored intermediates; f16 and bf16: mixed precision, with f32 weights and sums", 0, 0, (given) \
    }
/* Takes an int, a tuff_precision. given: a bool, or NULL. */
#define MATMUL_PRECISION_OPTION(precision, given)                                                                  \
    {                                                                                                              \
        "--matmul-precision", CLI_CHOICE, (precision), "f32|f16|bf16",                                             \
            "type that f32 matmul operands may be rounded to if the device has matrix units for it", 0, 0, (given) \
    }
/* Takes an int, a tuff_family. given: a bool, or NULL. */
#define FAMILY_OPTION(family, given)                                                                             \
    {                                                                                                            \
        "--family", CLI_CHOICE, (family), tuff__family_names(),                                                  \
            "kernels for CPUs (register), for GPUs (local), with subgroups, or for matrix units (cooperative); " \
            "device: chosen by the kind of device",                                                              \
            0, 0, (given)                                                                                        \
    }

/* Takes a bool; see tuff_recompute. */
#define RECOMPUTE_OPTION(recompute)                                                                  \
    {                                                                                                \
        "--recompute", CLI_SWITCH, (recompute), NULL,                                                \
            "keep only each block's input for the backward pass, and recompute the rest", 0, 0, NULL \
    }

/* Takes an int64_t in bytes; 0 if there is no limit. */
#define MEMORY_BUDGET_OPTION(bytes)                                                                                 \
    {                                                                                                               \
        "--memory-budget", CLI_BYTES, (bytes), "BYTES", "limit of peak intermediate memory, such as 100M", 1, 1e15, \
            NULL                                                                                                    \
    }

/* Takes an int64_t. */
#define SEED_OPTION(seed, about, is_given)                           \
    {                                                                \
        "--seed", CLI_INTEGER, (seed), "N", about, 0, 9e15, is_given \
    }

/* Takes a bool. about describes the output: "a list with one object per line". */
#define JSON_OPTION(json, about)                                             \
    {                                                                        \
        "--json", CLI_SWITCH, (json), NULL, "print JSON: " about, 0, 0, NULL \
    }

#endif
