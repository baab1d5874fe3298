/* --device fastest: races the devices here with the model's own work. */
#ifndef TUFF_TOOLS_MODEL_FASTEST_H
#define TUFF_TOOLS_MODEL_FASTEST_H

#include "tools/cli/cli.h"
#include "tools/model/known_plans.h"

/* Takes a const char *, for cli_open_device_for. */
#define WORK_DEVICE_OPTION(name)                                                                           \
    {                                                                                                      \
        "--device", CLI_TEXT, (name), "D",                                                                 \
            "auto, fastest (races all devices in this work, once), opencl[:n|:name], vulkan[:n|:name] or " \
            "reference; default $TUFF_DEVICE, else auto",                                                  \
            0, 0, NULL                                                                                     \
    }

typedef struct fastest_work {
    const model_options *described;
    int plan;             /* MODEL_PLAN_TRAIN or MODEL_PLAN_GENERATE; 0 for a file */
    int matmul_precision; /* a tuff_precision */
} fastest_work;

/* Like cli_open_device, except that if name, or else $TUFF_DEVICE, is "fastest", the fastest device is opened and
   reported on stderr. "auto" and no name prefer a device with matrix units if the precision is a 16-bit one. */
tuff_device *cli_open_device_for(const cli_verb *verb, const char *name, const fastest_work *work, int *code);

#endif
