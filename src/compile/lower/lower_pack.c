/* Packed copies of a matmul's operands: panels of as many columns of y (or rows of x) as a tile has, the terms of a
   panel one after another, zero beyond the last column. An operand that only the host or other plans change is packed
   by the setup, and again only after it changed; all matmuls that need the same copy share it. */
#include <string.h>

#include "base/checked.h"
#include "compile/lower/lower_matmul.h"

/* The shape of a copy. lines: columns of y or rows of x; width: those of one panel. */
struct packing {
    int operand, batch_rank;
    int64_t lines, inner, width, panels;
    int64_t line_stride, inner_stride; /* in the operand */
    affine target;                     /* the start of each batch's panels */
    int64_t count;                     /* elements of the copy */
    tuff_dtype dtype;                  /* of the copy's elements in memory */
};

/* Panels for GPUs keep the 16-bit elements of their source. On a CPU device they are f32, so that the product need not
   convert at each load. */
static tuff_dtype dtype_of_panels(const launch_list *list, const fused_chain *matmul, int operand)
{
    const tuff_dtype dtype = matmul->buffers[matmul->operand_buffers[operand]].dtype;
    const bool on_cpu = tuff__uses_registers(&list->policy) && tuff__family(&list->policy) <= TUFF_FAMILY_LOCAL;
    return tuff__is_produced(matmul, operand) || on_cpu || !list->policy.target.stores_narrow ? TUFF_F32 : dtype;
}

static struct packing packing_of(const launch_list *list, const fused_chain *matmul, int operand, int64_t inner,
                                 int64_t width)
{
    const int64_t *strides = matmul->operand_strides[operand];
    struct packing out = {.operand = operand,
                          .batch_rank = matmul->rank - 2,
                          .inner = inner,
                          .width = width,
                          .dtype = dtype_of_panels(list, matmul, operand)};
    out.lines = matmul->extent[operand == 0 ? matmul->rank - 2 : matmul->rank - 1];
    out.line_stride = strides[operand == 0 ? 0 : 1];
    out.inner_stride = strides[operand == 0 ? 1 : 0];
    out.panels = tuff__divide_up(out.lines, width);
    out.count = out.panels * width * inner;
    for (int i = out.batch_rank - 1; i >= 0; --i)
        if (matmul->operand_bases[operand].stride[i] != 0) {
            out.target.stride[i] = out.count;
            out.count *= matmul->extent[i];
        }
    return out;
}

static tuff_status add_value(fused_chain *chain, chain_value value)
{
    return tuff__chain_append(chain, value) == NO_VALUE ? TUFF_E_OOM_HOST : TUFF_OK;
}

static void set_buffers(const fused_chain *matmul, const struct packing *shape, int target_id, fused_chain *out)
{
    out->buffers[0] = matmul->buffers[matmul->operand_buffers[shape->operand]];
    out->buffers[0].written = false;
    out->buffers[0].read = true;
    out->buffers[1] = (chain_buffer){.id = target_id, .dtype = shape->dtype, .written = true};
    out->buffer_count = 2;
}

/* The same for an operand with a producer: everything that the matmul reads, and the target last. */
static void copy_buffers(const fused_chain *matmul, int target_id, fused_chain *out)
{
    memcpy(out->buffers, matmul->buffers, sizeof out->buffers);
    for (int i = 0; i < matmul->buffer_count; ++i) {
        out->buffers[i].written = false;
        out->buffers[i].read = true;
    }
    out->buffers[matmul->buffer_count] = (chain_buffer){.id = target_id, .dtype = TUFF_F32, .written = true};
    out->buffer_count = matmul->buffer_count + 1;
    out->operand_buffers[0] = out->operand_buffers[1] = matmul->buffer_count;
}

/* Sets the axes of the copy: the batch axes on which the operand varies, panels, terms, and lines of a panel. */
static void set_axes(const fused_chain *matmul, const struct packing *shape, fused_chain *out, affine *source,
                     affine *destination)
{
    const int64_t extents[] = {shape->panels, shape->inner, shape->width};
    const int64_t from[] = {shape->width * shape->line_stride, shape->inner_stride, shape->line_stride};
    out->rank = shape->batch_rank + 3;
    *source = matmul->operand_bases[shape->operand];
    *destination = shape->target;
    int64_t stride = 1;
    for (int i = out->rank - 1; i >= 0; --i) {
        out->classes[i] = AXIS_OUTER;
        if (i < shape->batch_rank) {
            out->extent[i] = shape->target.stride[i] != 0 ? matmul->extent[i] : 1;
            continue;
        }
        out->extent[i] = extents[i - shape->batch_rank];
        source->stride[i] = from[i - shape->batch_rank];
        destination->stride[i] = stride;
        stride *= out->extent[i];
    }
}

/* Maps the address of an operand's element to the axes of its copy. */
static affine address_in_panels(const struct packing *shape, const chain_producer *producer, const affine *address)
{
    const int line = producer->axis + (shape->operand == 0 ? 0 : 1),
              term = producer->axis + (shape->operand == 0 ? 1 : 0);
    affine result = {.offset = address->offset};
    memcpy(result.stride, address->stride, (size_t)shape->batch_rank * sizeof result.stride[0]);
    result.stride[shape->batch_rank] = address->stride[line] * shape->width;
    result.stride[shape->batch_rank + 1] = address->stride[term];
    result.stride[shape->batch_rank + 2] = address->stride[line];
    return result;
}

/* Adds the producer's values on the axes of the copy. Nothing is read beyond the last line, where `inside` is false. */
static tuff_status add_produced(const fused_chain *matmul, const struct packing *shape, int inside, fused_chain *out)
{
    const chain_producer *producer = &matmul->producers[shape->operand];
    int *new_index = tuff__calloc((size_t)producer->end, sizeof *new_index);
    tuff_status status = new_index == NULL ? TUFF_E_OOM_HOST : TUFF_OK;
    for (int i = producer->begin; i < producer->end && status == TUFF_OK; ++i) {
        chain_value value = matmul->values[i];
        for (int k = 0; k < 3; ++k)
            value.args[k] = value.args[k] == NO_VALUE ? NO_VALUE : new_index[value.args[k]];
        value.guard = value.guard == NO_VALUE ? NO_VALUE : new_index[value.guard];
        if (tuff__value_has_address(value.kind))
            value.address = address_in_panels(shape, producer, &value.address);
        const bool reads = (value.kind == VALUE_LOAD || value.kind == VALUE_LOOKUP) &&
                           value.address.stride[shape->batch_rank + 2] != 0;
        if (reads && inside != NO_VALUE && value.guard != NO_VALUE) {
            chain_value both = tuff__chain_value(VALUE_OP, TUFF_BOOL);
            both.op = OP_AND;
            both.args[0] = inside;
            both.args[1] = value.guard;
            status = add_value(out, both);
            value.guard = out->value_count - 1;
        } else if (reads && inside != NO_VALUE) {
            value.guard = inside;
        }
        if (status == TUFF_OK)
            status = add_value(out, value);
        new_index[i] = out->value_count - 1;
    }
    if (status == TUFF_OK && new_index[producer->value] != out->value_count - 1)
        status = add_value(out, out->values[new_index[producer->value]]);
    tuff__free(new_index);
    return status;
}

/* Adds the element to copy as the chain's last value. */
static tuff_status add_element(const fused_chain *matmul, const struct packing *shape, const affine *source, int inside,
                               fused_chain *out)
{
    if (tuff__is_produced(matmul, shape->operand))
        return add_produced(matmul, shape, inside, out);
    chain_value load = tuff__chain_value(VALUE_LOAD, TUFF_F32);
    load.buffer = 0;
    load.address = *source;
    load.guard = inside;
    return add_value(out, load);
}

/* packed[batch][panel][k][line] = operand[batch][k][panel · width + line], zero beyond the last line. */
static tuff_status build_copy(const fused_chain *matmul, const struct packing *shape, int target_id, fused_chain *out)
{
    affine source, destination;
    set_axes(matmul, shape, out, &source, &destination);
    if (tuff__is_produced(matmul, shape->operand))
        copy_buffers(matmul, target_id, out);
    else
        set_buffers(matmul, shape, target_id, out);
    if (shape->lines % shape->width != 0) {
        chain_value inside = tuff__chain_value(VALUE_INSIDE, TUFF_BOOL),
                    zero = tuff__chain_value(VALUE_CONSTANT, TUFF_F32);
        inside.address.stride[out->rank - 3] = shape->width;
        inside.address.stride[out->rank - 1] = 1;
        inside.high = shape->lines;
        TRY(add_value(out, inside));
        TRY(add_value(out, zero));
        TRY(add_element(matmul, shape, &source, 0, out));
        chain_value select = tuff__chain_value(VALUE_OP, TUFF_F32);
        select.op = OP_WHERE;
        select.args[0] = 0;
        select.args[1] = out->value_count - 1;
        select.args[2] = 1;
        TRY(add_value(out, select));
    } else {
        TRY(add_element(matmul, shape, &source, NO_VALUE, out));
    }
    out->outputs[0] = (chain_output){
        .value = out->value_count - 1, .buffer = out->buffer_count - 1, .address = destination, .every_point = true};
    out->output_count = 1;
    tuff__chain_drop_buffers(out);
    return TUFF_OK;
}

/* Copies by strided loads, for any strides. */
static tuff_status pack_strided(launch_list *list, int index, const fused_chain *matmul, const struct packing *shape,
                                int destination)
{
    fused_chain copy = {.rank = 0};
    const tuff_status status = build_copy(matmul, shape, destination, &copy);
    return tuff__lower_built_map(list, index, status, &copy);
}

tuff_status tuff__finish_transpose(const launch_list *list, launch *kernel, int vec, int64_t lines, int64_t inner,
                                   int64_t width, int64_t line_stride)
{
    const fused_chain *chain = &kernel->chain;
    const int64_t batches = tuff__batch_count(chain, chain->rank), inner_blocks = tuff__divide_up(inner, vec),
                  column_blocks = tuff__divide_up(lines, width) * width / vec;
    kernel->vec = vec;
    kernel->local_size = (uint32_t)tuff__tunable_value(&list->policy, TUNABLE_pack_transpose_local_size);
    kernel->groups = (uint64_t)tuff__divide_up(batches * inner_blocks * column_blocks, kernel->local_size);
    tuff__set_parameters(kernel, (int64_t[]){lines, inner, inner_blocks, column_blocks, batches, line_stride}, 6);
    text defines = {0};
    const bool aligned = tuff__operand_is_aligned(list, chain, 0, chain->rank, line_stride) && inner % 4 == 0;
    tuff__define_load(chain, 0, "LOADV_B", aligned ? "LOADV" : "LOADU", &defines);
    if (inner < vec)
        tuff__define_load(chain, 0, "LOADI_B", "LOADI", &defines);
    tuff__text_add(
        &defines, "#define STOREV_PACKED(i, x) STOREV_%s(b%d, i, x)\n#define PANEL %d\n#define INNER_TAIL %d\n",
        tuff_dtype_name(chain->buffers[chain->operand_buffers[1]].dtype), chain->operand_buffers[1], (int)width,
        inner % vec == 0 ? 0
        : inner >= vec   ? 1
                         : 2);
    return tuff__set_defines(kernel, &defines);
}

/* Makes the operand's producer that of the copy. */
static tuff_status copy_producer(const fused_chain *matmul, const struct packing *shape, int destination,
                                 fused_chain *out)
{
    copy_buffers(matmul, destination, out);
    out->producers[0] = matmul->producers[shape->operand];
    out->producers[0].transposed = shape->operand == 1;
    out->operand_buffers[0] = matmul->operand_buffers[shape->operand];
    for (int i = 0; i < out->producers[0].end; ++i) {
        const bool own = i >= out->producers[0].begin;
        TRY(add_value(out, own ? matmul->values[i] : tuff__chain_value(VALUE_CONSTANT, TUFF_F32)));
    }
    tuff__chain_drop_buffers(out);
    return TUFF_OK;
}

/* Completes a launch that copies contiguous lines; operand 0 is in buffer 0, the copy in buffer 1. */
static tuff_status finish_lines(const launch_list *list, launch *kernel, int vec, const struct packing *packing)
{
    const fused_chain *chain = &kernel->chain;
    const int terms = tuff__tunable_value(&list->policy, TUNABLE_pack_lines_terms),
              panels = tuff__tunable_value(&list->policy, TUNABLE_pack_lines_panels);
    const int64_t batches = tuff__batch_count(chain, chain->rank), term_blocks = tuff__divide_up(packing->inner, terms),
                  panel_blocks = tuff__divide_up(packing->panels, panels);
    kernel->vec = vec;
    kernel->local_size = (uint32_t)tuff__tunable_value(&list->policy, TUNABLE_pack_lines_local_size);
    kernel->groups = (uint64_t)tuff__divide_up(batches * term_blocks * panel_blocks, kernel->local_size);
    tuff__set_parameters(kernel,
                         (int64_t[]){packing->lines, packing->inner, packing->panels, term_blocks, panel_blocks,
                                     batches, packing->inner_stride},
                         7);
    text defines = {0};
    tuff__define_load(chain, 0, "LOADV_B", "LOADU", &defines);
    tuff__define_load(chain, 0, "LOAD_B", "LOAD", &defines);
    tuff__text_add(&defines,
                   "#define STOREV_PACKED(i, x) STOREV_%s(b%d, i, x)\n#define STORE_PACKED(i, x) STORE_%s(b%d, i, x)\n"
                   "#define PANEL %d\n#define TERMS %d\n#define PANELS %d\n",
                   tuff_dtype_name(packing->dtype), chain->operand_buffers[1], tuff_dtype_name(packing->dtype),
                   chain->operand_buffers[1], (int)packing->width, terms, panels);
    return tuff__set_defines(kernel, &defines);
}

/* Copies by blocks in registers, transposed if terms are contiguous and lines are not. */
static tuff_status pack_blocks(launch_list *list, int index, const fused_chain *matmul, const struct packing *packing,
                               int destination, int vec, bool transposed)
{
    launch *kernel = tuff__launch_add(list, transposed ? "pack_transpose" : "pack_lines", WALK_MATMUL, index);
    if (kernel == NULL)
        return TUFF_E_OOM_HOST;
    fused_chain *chain = &kernel->chain;
    chain->rank = packing->batch_rank;
    for (int i = 0; i < chain->rank; ++i) {
        chain->extent[i] = packing->target.stride[i] != 0 ? matmul->extent[i] : 1;
        chain->classes[i] = AXIS_OUTER;
    }
    chain->operand_base_count = 2;
    chain->operand_names[0] = "b";
    chain->operand_names[1] = "packed";
    chain->operand_bases[0] = matmul->operand_bases[packing->operand];
    chain->operand_bases[1] = packing->target;
    if (tuff__is_produced(matmul, packing->operand)) {
        TRY(copy_producer(matmul, packing, destination, chain));
    } else {
        set_buffers(matmul, packing, destination, chain);
        chain->operand_buffers[1] = 1;
    }
    return transposed ? tuff__finish_transpose(list, kernel, vec, packing->lines, packing->inner, packing->width,
                                               packing->line_stride)
                      : finish_lines(list, kernel, vec, packing);
}

static bool is_same_copy(const packed_copy *a, const packed_copy *b)
{
    return !a->produced && !b->produced && a->source == b->source && a->inner == b->inner && a->width == b->width &&
           a->lines == b->lines && a->line_stride == b->line_stride && a->inner_stride == b->inner_stride &&
           memcmp(&a->from, &b->from, sizeof a->from) == 0 && memcmp(&a->to, &b->to, sizeof a->to) == 0;
}

/* A copy that outlives a run gets memory of its own, which is allocated when memory is planned. */
static void keep_copy(launch_list *list, packed_copy *copy)
{
    memory_buffer *buffer = &list->buffers[copy->target];
    copy->is_kept = true;
    buffer->fixed = true;
    list->constant_size += tuff__buffer_size(buffer);
}

/* Launches the copy; its entry is in the list already. */
static tuff_status make_copy(launch_list *list, int index, const fused_chain *matmul, const struct packing *shape,
                             int vec)
{
    packed_copy *copy = &list->copies[list->copy_count - 1];
    /* Panels consist of whole transposed blocks. */
    while (shape->inner_stride == 1 && vec > 4 && shape->width % vec != 0)
        vec /= 2;
    const int first = list->launch_count;
    if (tuff__operand_is_steady(list->fusion->graph, matmul, shape->operand))
        keep_copy(list, copy);
    const bool transposes = shape->inner_stride == 1 && shape->inner > 1 && shape->width % vec == 0;
    const bool copies_lines = shape->line_stride == 1 && shape->lines >= vec && !list->policy.target.items_are_lanes &&
                              !tuff__is_produced(matmul, shape->operand);
    TRY(transposes || copies_lines ? pack_blocks(list, index, matmul, shape, copy->target, vec, transposes)
                                   : pack_strided(list, index, matmul, shape, copy->target));
    for (int i = first; i < list->launch_count; ++i)
        list->launches[i].setup = copy->is_kept;
    return TUFF_OK;
}

/* Makes the matmul read the copy instead of the operand. */
static void replace_operand(fused_chain *matmul, int operand, int destination, tuff_dtype dtype)
{
    matmul->buffers[matmul->buffer_count++] = (chain_buffer){.id = destination, .dtype = dtype, .read = true};
    matmul->operand_buffers[operand] = matmul->buffer_count - 1;
    tuff__chain_drop_producer(matmul, operand);
    tuff__chain_drop_buffers(matmul);
}

/* Collects the buffers from which the copy's elements are computed. */
static void find_sources(const fused_chain *matmul, int operand, packed_copy *copy)
{
    const chain_producer *producer = &matmul->producers[operand];
    copy->sources[copy->source_count++] = copy->source;
    for (int i = producer->begin; i < producer->end; ++i)
        if (matmul->values[i].buffer >= 0 && copy->source_count < MAX_CHAIN_BUFFERS) {
            const int id = matmul->buffers[matmul->values[i].buffer].id;
            int k = 0;
            while (k < copy->source_count && copy->sources[k] != id)
                ++k;
            copy->sources[k] = id;
            copy->source_count += k == copy->source_count;
        }
}

tuff_status tuff__pack_operand(launch_list *list, int index, fused_chain *matmul, int operand, int64_t inner,
                               int64_t width, int vec)
{
    const struct packing shape = packing_of(list, matmul, operand, inner, width);
    packed_copy wanted = {.source = matmul->buffers[matmul->operand_buffers[operand]].id,
                          .produced = tuff__is_produced(matmul, operand),
                          .lines = shape.lines,
                          .inner = inner,
                          .width = width,
                          .line_stride = shape.line_stride,
                          .inner_stride = shape.inner_stride,
                          .from = matmul->operand_bases[operand],
                          .to = shape.target};
    int found = 0;
    while (found < list->copy_count && !(is_same_copy(&list->copies[found], &wanted) &&
                                         list->buffers[list->copies[found].target].count == shape.count &&
                                         list->buffers[list->copies[found].target].dtype == shape.dtype))
        ++found; /* strides alone do not show how many matrices were copied */
    if (found == list->copy_count) {
        wanted.target = tuff__buffer_add(list, shape.dtype, shape.count);
        if (wanted.target < 0 || !GROW(list->copies, list->copy_count, list->copy_capacity))
            return TUFF_E_OOM_HOST;
        find_sources(matmul, operand, &wanted);
        list->copies[list->copy_count++] = wanted;
        TRY(make_copy(list, index, matmul, &shape, vec));
    }
    replace_operand(matmul, operand, list->copies[found].target, shape.dtype);
    matmul->operand_bases[operand] = shape.target;
    matmul->operand_strides[operand][operand == 0 ? 0 : 1] = 1;
    matmul->operand_strides[operand][operand == 0 ? 1 : 0] = width;
    return TUFF_OK;
}
