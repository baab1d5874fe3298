/* Shared by the launches of all matmuls: the launch itself, the macros that load operands, checks, and matrix
   units. */
#include "compile/lower/lower_matmul.h"

void tuff__define_load(const fused_chain *chain, int operand, const char *macro, const char *form, text *out)
{
    const chain_buffer *buffer = &chain->buffers[chain->operand_buffers[operand]];
    const char *kind = form[4] == 'I' ? "I" : form[4] == 0 ? "" : "V";
    if (tuff__is_produced(chain, operand))
        tuff__text_add(out, "#define %s(i, row, column) PRODUCE%s_%s(row, column)\n", macro, kind,
                       chain->operand_names[operand]);
    else
        tuff__text_add(out, "#define %s(i, row, column) %s_%s(b%d, i)\n", macro, form, tuff_dtype_name(buffer->dtype),
                       chain->operand_buffers[operand]);
}

void tuff__define_pair_load(const fused_chain *chain, int operand, const char *macro, text *out)
{
    const int buffer = chain->operand_buffers[operand];
    tuff__text_add(out, "#define %s(i, low, high) LOADP_%s(b%d, i, low, high)\n", macro,
                   tuff_dtype_name(chain->buffers[buffer].dtype), buffer);
}

bool tuff__operand_is_aligned_to(const launch_list *list, const fused_chain *chain, int operand, int rank,
                                 int64_t line_stride, int64_t elements)
{
    const memory_buffer *buffer = &list->buffers[chain->buffers[chain->operand_buffers[operand]].id];
    const int64_t start = chain->operand_bases[operand].offset +
                          (int64_t)(buffer->offset / tuff_dtype_size(buffer->dtype)) + buffer->parent_at;
    bool aligned = start % elements == 0 && line_stride % elements == 0;
    for (int i = 0; i < rank; ++i)
        aligned &= chain->operand_bases[operand].stride[i] % elements == 0;
    return aligned;
}

bool tuff__operand_is_aligned(const launch_list *list, const fused_chain *chain, int operand, int rank,
                              int64_t line_stride)
{
    return tuff__operand_is_aligned_to(list, chain, operand, rank, line_stride, 4);
}

launch *tuff__matmul_launch(launch_list *list, const char *body, int index, fused_chain *chain, int64_t inner)
{
    launch *kernel = tuff__launch_add(list, body, WALK_MATMUL, index);
    if (kernel == NULL)
        return NULL;
    kernel->operations = 2.0 * (double)chain->extent[chain->rank - 2] * (double)chain->extent[chain->rank - 1] *
                         (double)inner * (double)tuff__batch_count(chain, chain->rank - 2);
    kernel->chain = *chain;
    *chain = (fused_chain){.rank = 0};
    return kernel;
}

void tuff__set_tile(launch *kernel, int64_t rows, int64_t columns, double k)
{
    kernel->tile_rows = (int)rows;
    kernel->tile_columns = (int)columns;
    kernel->k = k;
}

tuff_status tuff__check_accumulators(const launch_list *list, int vec, int64_t count)
{
    enum { MAX_ACCUMULATORS = 64 };
    const int64_t registers = count * tuff__vector_registers(&list->policy.target, vec);
    if (registers <= MAX_ACCUMULATORS)
        return TUFF_OK;
    return FAIL(TUFF_E_LIMIT, "compile: a tile needs %lld vector registers for sums; at most %d are allowed",
                (long long)registers, MAX_ACCUMULATORS);
}

tuff_dtype tuff__factor_dtype(const tuff_dtype *dtypes, int count, tuff_dtype precision)
{
    tuff_dtype found = TUFF_F32;
    bool rounds = false;
    for (int i = 0; i < count; ++i) {
        const tuff_dtype dtype = dtypes[i];
        rounds |= dtype == TUFF_F32;
        if (dtype != TUFF_F32 && ((dtype != TUFF_F16 && dtype != TUFF_BF16) || (found != TUFF_F32 && found != dtype)))
            return TUFF_F32;
        found = dtype == TUFF_F32 ? found : dtype;
    }
    if (!rounds)
        return found;
    return found == TUFF_F32 || found == precision ? precision : TUFF_F32;
}

void tuff__use_units(launch *kernel, const tuff_device_info *info, int lanes)
{
    kernel->vec = 4;
    kernel->cooperative = info->cooperative_matrix;
    /* Other units have a single subgroup width, and neighbouring items form a subgroup. */
    if (kernel->cooperative <= TUFF_MATRIX_KHR || kernel->cooperative == TUFF_MATRIX_INTEL)
        kernel->subgroup_size = (uint32_t)lanes;
}
