/* Offsets of buffers, and texts of kernels that use them: for plans that are recorded, and for compiling ahead of
   time. */
#include "exec/texts.h"

#include <stdio.h>
#include <string.h>

/* Where ranges are bound (Vulkan), a range must begin at a multiple of the device's alignment, and the kernel adds the
   rest as its element offset. Where whole memory is bound (OpenCL), the kernel adds all of the offset. */
uint64_t tuff__binding_offset(const launch_list *list, uint64_t offset)
{
    if (!list->policy.target.binds_ranges)
        return 0;
    return offset - offset % tuff__device_info(list->device)->offset_alignment;
}

/* Merges buffers of a chain that share memory (an array, and a value assigned to it in place) into one binding. */
static void merge_aliases(const launch_list *list, fused_chain *chain)
{
    for (int i = 0; i < chain->buffer_count; ++i)
        for (int k = i + 1; k < chain->buffer_count; ++k) {
            const memory_buffer *a = &list->buffers[chain->buffers[i].id], *b = &list->buffers[chain->buffers[k].id];
            if (a->storage != b->storage || a->offset != b->offset || a->dtype != b->dtype)
                continue;
            if (tuff__buffer_size(b) > tuff__buffer_size(a))
                chain->buffers[i].id = chain->buffers[k].id; /* one is the first part of the other: binds all */
            chain->buffers[i].read |= chain->buffers[k].read;
            chain->buffers[i].written |= chain->buffers[k].written;
            chain->buffers[k].read = chain->buffers[k].written = false;
            tuff__chain_rename_buffer(chain, k, i);
        }
}

/* Computes the offsets of buffers. Kernels index elements with 32 bits from the start of the binding: with OpenCL, the
   start of the whole memory, which may be too large for that. */
static tuff_status set_offsets(const launch_list *list, launch *kernel)
{
    for (int i = 0; i < kernel->chain.buffer_count; ++i) {
        const memory_buffer *buffer = &list->buffers[kernel->chain.buffers[i].id];
        const uint64_t rest = buffer->offset - tuff__binding_offset(list, buffer->offset);
        const uint64_t first = rest / tuff_dtype_size(kernel->chain.buffers[i].dtype);
        if (first + (uint64_t)buffer->count > INT32_MAX)
            return FAIL(TUFF_E_LIMIT, "compile: a buffer reaches element %llu, but kernels index elements with i32",
                        (unsigned long long)first + (unsigned long long)buffer->count - 1);
        kernel->chain.buffers[i].element_offset = (int64_t)first;
    }
    for (int i = 0; i < kernel->parameter_count; ++i)
        if (kernel->parameter_buffers[i] >= 0)
            kernel->parameters[i] += kernel->chain.buffers[kernel->parameter_buffers[i]].element_offset;
    return TUFF_OK;
}

tuff_status tuff__launch_assemble(const launch_list *list, launch *kernel, char name[KERNEL_NAME], assembly *out)
{
    merge_aliases(list, &kernel->chain);
    TRY(set_offsets(list, kernel));
    assembly_request request = {.body = kernel->body,
                                .name = name,
                                .chain = &kernel->chain,
                                .walk = kernel->walk,
                                .glsl = list->policy.target.language == KERNEL_GLSL,
                                .narrow_storage = list->policy.target.info->proved_narrow_storage,
                                .aligned = kernel->aligned && (kernel->vec == 4 || kernel->vec == 8),
                                .vec = kernel->vec,
                                .local_size = kernel->local_size,
                                .private_bytes = kernel->private_bytes,
                                .row_steps = kernel->row_steps,
                                .prefetches = kernel->prefetches,
                                .subgroup_size = kernel->subgroup_size,
                                .exchange_form = kernel->exchange_form,
                                .cooperative = kernel->cooperative,
                                .pairs = kernel->pairs,
                                .defines = kernel->defines,
                                .buffers = kernel->chain.buffers,
                                .buffer_count = kernel->chain.buffer_count,
                                .parameter_count = kernel->parameter_count};
    snprintf(name, KERNEL_NAME, "tuff_%s", kernel->body);
    memcpy(request.parameters, kernel->parameters, sizeof request.parameters);
    return tuff__assemble(&request, out);
}

/* One buffer more than the chain has: the parameters of all launches. The two words are the index of this launch's
   first parameter and the number of the first group, if the driver splits the dispatch. */
program_request tuff__launch_request(const launch *kernel, const char *name, const char *source)
{
    return (program_request){.name = name,
                             .text = source,
                             .buffer_count = kernel->chain.buffer_count + 1,
                             .word_count = 2,
                             .local_size = kernel->local_size,
                             .subgroup_size = kernel->subgroup_size,
                             .registers =
                                 kernel->cooperative == TUFF_MATRIX_INTEL ? REGISTERS_MANY : kernel->registers};
}
