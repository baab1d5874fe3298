/* Plans and kernels for a GPU that is not present. */
#ifndef TUFF_TOOLS_INSPECT_OVERRIDE_GPU_H
#define TUFF_TOOLS_INSPECT_OVERRIDE_GPU_H

#include "tools/cli/cli.h"
#include "tuff/device.h"

#define AS_OPTION(vendor)                                                                                           \
    {                                                                                                               \
        .name = "--as", .kind = CLI_CHOICE, .value = vendor,                                                        \
        .placeholder = "itself|intel|amd|nvidia|intel-max|amd-instinct|nvidia-hopper",                              \
        .help =                                                                                                     \
            "compile for a GPU of that vendor, with its matrix units, in the language of the device; amd: RDNA 3; " \
            "intel: Arc"                                                                                            \
    }

/* Makes the device pretend to be a GPU of the chosen vendor (0: itself), as far as the compiler is concerned.
   Afterwards it must not run anything. Does nothing to the reference device. */
void override_gpu(tuff_device *device, int vendor);

#endif
