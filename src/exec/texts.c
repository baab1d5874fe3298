/* Offsets of buffers, and the texts of kernels over them: for plans that are recorded, and for compilations ahead. */
#include "exec/texts.h"

#include <stdio.h>
#include <string.h>

uint64_t tuff__bound_offset(const launch_list *with, uint64_t offset)
{
    if (!with->policy.target.binds_ranges)
        return 0;
    return offset - offset % tuff__device_info(with->device)->offset_alignment;
}

/* Buffers of a chain that are the same memory (an array and what is assigned to it in place) become one binding. */
static void unite_aliases(const launch_list *with, fused_chain *chain)
{
    for (int i = 0; i < chain->buffer_count; ++i)
        for (int k = i + 1; k < chain->buffer_count; ++k) {
            const memory_buffer *a = &with->buffers[chain->buffers[i].id], *b = &with->buffers[chain->buffers[k].id];
            if (a->storage != b->storage || a->offset != b->offset || a->dtype != b->dtype)
                continue;
            if (tuff__buffer_size(b) > tuff__buffer_size(a))
                chain->buffers[i].id = chain->buffers[k].id; /* a whole and its first part: the range of the whole */
            chain->buffers[i].read |= chain->buffers[k].read;
            chain->buffers[i].written |= chain->buffers[k].written;
            chain->buffers[k].read = chain->buffers[k].written = false;
            tuff__chain_rename_buffer(chain, k, i);
        }
}

static void find_offsets(const launch_list *with, launch *of)
{
    for (int i = 0; i < of->chain.buffer_count; ++i) {
        const memory_buffer *buffer = &with->buffers[of->chain.buffers[i].id];
        const uint64_t rest = buffer->offset - tuff__bound_offset(with, buffer->offset);
        of->chain.buffers[i].element_offset = (int64_t)(rest / tuff_dtype_size(of->chain.buffers[i].dtype));
    }
    for (int i = 0; i < of->fixed_count; ++i)
        if (of->fixed_buffer[i] >= 0)
            of->fixed[i] += of->chain.buffers[of->fixed_buffer[i]].element_offset;
}

tuff_status tuff__launch_assemble(const launch_list *with, launch *of, char name[KERNEL_NAME], assembly *out)
{
    unite_aliases(with, &of->chain);
    find_offsets(with, of);
    assembly_request request = {.body = of->body,
                                .name = name,
                                .chain = &of->chain,
                                .walk = of->walk,
                                .glsl = with->policy.target.language == KERNEL_GLSL,
                                .narrow_storage = with->policy.target.info->proved_narrow_storage,
                                .vec = of->vec,
                                .local_size = of->local_size,
                                .private_bytes = of->private_bytes,
                                .asks_ahead = of->asks_ahead,
                                .subgroup_size = of->subgroup_size,
                                .cooperative = of->cooperative,
                                .defines = of->defines,
                                .buffers = of->chain.buffers,
                                .buffer_count = of->chain.buffer_count,
                                .fixed_count = of->fixed_count};
    snprintf(name, KERNEL_NAME, "tuff_%s", of->body);
    memcpy(request.fixed, of->fixed, sizeof request.fixed);
    return tuff__assemble(&request, out);
}

program_request tuff__launch_request(const launch *of, const char *name, const char *source)
{
    return (program_request){.name = name,
                             .text = source,
                             .buffer_count = of->chain.buffer_count + 1,
                             .word_count = 2,
                             .local_size = of->local_size,
                             .subgroup_size = of->subgroup_size};
}
