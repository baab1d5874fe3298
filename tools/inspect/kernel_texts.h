/* Writes every distinct kernel that the tool can produce to a file, so that tools/check-vendors can pass them to the
   compilers of hardware that is not present. */
#ifndef TUFF_TOOLS_INSPECT_KERNEL_TEXTS_H
#define TUFF_TOOLS_INSPECT_KERNEL_TEXTS_H

#include "tuff.h"

/* Compiles the plans of a GPT and a Llama and the op suite for the device, and writes each distinct kernel to
   folder/PROGRAM-HASH.cl or .comp, depending on the device's language. Prints a line for each file: its name, its
   origin and its ops. The folder is created if missing; other files in it are kept. */
tuff_status kernel_texts_write(tuff_device *device, const tuff_compile_options *options, const char *folder);

#endif
