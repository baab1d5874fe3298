/* Conversions of values to the dtype of an output or array, such as f16, bf16, i8, u8 or bool: by a map or, on devices
   that cannot store single narrow elements, in whole words. */
#include <stdio.h>

#include "base/checked.h"
#include "compile/lower/lower.h"

static tuff_status convert_elements(launch_list *list, int source, int destination)
{
    const tuff_dtype from = list->buffers[source].dtype, to = list->buffers[destination].dtype;
    fused_chain chain = {.rank = 1, .extent = {list->buffers[destination].count}, .classes = {AXIS_OUTER}};
    const affine address = {.stride = {1}};
    const tuff_dtype loaded = from == TUFF_U32 && to == TUFF_BOOL ? TUFF_BOOL : from;
    TRY(tuff__chain_copy(list, source, destination, loaded, &address, &address, &chain));
    tuff__chain_analyse(&chain);
    return tuff__lower_map(list, -1, &chain);
}

static const char *packing_of(tuff_dtype dtype)
{
    switch (dtype) {
    case TUFF_F16:
        return "#define PER_WORD 2\n#define PACK(x) F16_BITS(x)\n";
    case TUFF_BF16:
        return "#define PER_WORD 2\n#define PACK(x) BF16_BITS(x)\n";
    case TUFF_I8:
        return "#define PER_WORD 4\n#define PACK(x) (I_TO_U_1(x) & 255u)\n";
    default:
        return "#define PER_WORD 4\n#define PACK(x) ((x) & 255u)\n";
    }
}

static tuff_status convert_words(launch_list *list, int source, int destination)
{
    const memory_buffer *to = &list->buffers[destination];
    const int64_t size = (int64_t)tuff_dtype_size(to->dtype), per_word = 4 / size;
    const int64_t skip = (int64_t)(to->offset % 4) / size, words = tuff__divide_up(skip + to->count, per_word);
    launch *kernel = tuff__launch_add(list, "pack", WALK_MAP, -1);
    if (kernel == NULL)
        return TUFF_E_OOM_HOST;
    kernel->chain.buffers[0] = tuff__chain_buffer(list, source, false);
    kernel->chain.buffers[1] = tuff__chain_buffer(list, destination, true);
    kernel->chain.buffers[1].dtype = TUFF_U32;
    kernel->chain.buffers[1].read = true;
    kernel->chain.buffer_count = 2;
    kernel->local_size = (uint32_t)tuff__tunable_value(&list->policy, TUNABLE_pack_local_size);
    kernel->groups = (uint64_t)tuff__divide_up(words, kernel->local_size);
    kernel->parameters[0] = words;
    kernel->parameters[1] = to->count;
    kernel->parameters[4] = skip;
    kernel->parameter_buffers[0] = kernel->parameter_buffers[1] = kernel->parameter_buffers[4] = -1;
    kernel->parameter_buffers[2] = 0;
    kernel->parameter_buffers[3] = 1;
    kernel->parameter_count = 5;
    snprintf(kernel->defines, sizeof kernel->defines, "%s", packing_of(to->dtype));
    return TUFF_OK;
}

tuff_status tuff__lower_convert(launch_list *list, int source, int destination)
{
    const bool narrow = tuff_dtype_size(list->buffers[destination].dtype) < 4;
    if (narrow && !list->policy.target.stores_narrow)
        return convert_words(list, source, destination);
    return convert_elements(list, source, destination);
}
