/* Every different kernel that the tool knows how to ask for, as files: what tools/check-vendors hands to the compilers
   of hardware that is not there. */
#ifndef TUFF_TOOLS_INSPECT_KERNEL_TEXTS_H
#define TUFF_TOOLS_INSPECT_KERNEL_TEXTS_H

#include "tuff.h"

/* Compiles a GPT's and a Llama's plans and the op suite for the device, and writes each different kernel to
   folder/PROGRAM-HASH.cl or .comp, by the device's language. Prints a line for each file: its name, where it came from,
   and its ops. The folder is made where it is missing; other files in it stay. */
tuff_status kernel_texts_write(tuff_device *device, const tuff_compile_options *options, const char *folder);

#endif
