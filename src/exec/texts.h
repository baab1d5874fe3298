/* From launches to program requests: the text of each kernel. It does not depend on where buffers lie, except for which
   of them share memory, and for their alignment. */
#ifndef TUFF_EXEC_TEXTS_H
#define TUFF_EXEC_TEXTS_H

#include "compile/lower/lower.h"

enum { KERNEL_NAME = 48 };

/* Returns the part of an offset that is bound; the kernel gets the rest as data. Vulkan binds ranges that start at
   multiples of the device's alignment. OpenCL binds whole buffers, so the result is 0. */
uint64_t tuff__binding_offset(const launch_list *list, uint64_t offset);
/* Assembles the text of a kernel, and sets the offsets of the launch's buffers. The memory of the launches must be
   planned, if only with placeholders. *out is valid only with TUFF_OK. Threads may assemble at the same time if each
   has its own launch. */
tuff_status tuff__launch_assemble(const launch_list *list, launch *kernel, char name[KERNEL_NAME], assembly *out);
/* Returns the program request of an assembled launch. name and source are those of tuff__launch_assemble; they are
   borrowed. */
program_request tuff__launch_request(const launch *kernel, const char *name, const char *source);

#endif
