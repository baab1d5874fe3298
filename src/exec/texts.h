/* From launches to what a driver is asked for: the text of each kernel, which depends on where its buffers lie only by
   which of them are the same memory, and how aligned they are. */
#ifndef TUFF_EXEC_TEXTS_H
#define TUFF_EXEC_TEXTS_H

#include "compile/lower/lower.h"

enum { KERNEL_NAME = 48 };

/* What of an offset is bound; the rest of it is data. Vulkan binds ranges that start at multiples of the device's
   alignment, OpenCL whole buffers: there nothing is. */
uint64_t tuff__bound_offset(const launch_list *list, uint64_t offset);
/* The text of a kernel, once the launches' memory is planned, or placed on paper; the launch gets the offsets of its
   buffers. out is valid only with TUFF_OK. Several threads may assemble launches that are their own. */
tuff_status tuff__launch_assemble(const launch_list *list, launch *kernel, char name[KERNEL_NAME], assembly *out);
/* name and source, which are borrowed, are as tuff__launch_assemble gave them. */
program_request tuff__launch_request(const launch *kernel, const char *name, const char *source);

#endif
