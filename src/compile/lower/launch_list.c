/* Adds to launch lists, hashes them and estimates their cost. A list owns its launches, chains and buffers. lower.c
   fills it; launch_list.h explains it. */
#include "compile/lower/launch_list.h"

#include <string.h>

#include "base/hash.h"
#include "compile/schedule/cost.h"

int tuff__buffer_add(launch_list *list, tuff_dtype dtype, int64_t count)
{
    if (!GROW(list->buffers, list->buffer_count, list->buffer_capacity))
        return -1;
    list->buffers[list->buffer_count] = (memory_buffer){.dtype = dtype, .count = count, .parent = -1};
    return list->buffer_count++;
}

chain_buffer tuff__chain_buffer(const launch_list *list, int id, bool written)
{
    return (chain_buffer){.id = id, .dtype = list->buffers[id].dtype, .read = !written, .written = written};
}

launch *tuff__launch_add(launch_list *list, const char *body, walk order, int task)
{
    if (!GROW(list->launches, list->launch_count, list->launch_capacity))
        return NULL;
    launch *made = &list->launches[list->launch_count++];
    *made = (launch){.body = body,
                     .walk = order,
                     .task = task,
                     .vec = 1,
                     .local_size = 1,
                     .aligned = !tuff__uses_registers(&list->policy)};
    return made;
}

void tuff__set_parameters(launch *kernel, const int64_t *values, int count)
{
    for (int i = 0; i < count; ++i) {
        kernel->parameters[i] = values[i];
        kernel->parameter_buffers[i] = -1;
    }
    kernel->parameter_count = count;
}

tuff_status tuff__set_defines(launch *kernel, text *defines)
{
    tuff_status status = tuff__text_status(defines);
    if (status == TUFF_OK && defines->length < sizeof kernel->defines)
        memcpy(kernel->defines, tuff__text_get(defines), defines->length + 1);
    else if (status == TUFF_OK)
        status = FAIL(TUFF_E_LIMIT, "compile: the macros of a kernel are too long");
    tuff__text_free(defines);
    return status;
}

uint64_t tuff__buffer_size(const memory_buffer *buffer)
{
    const uint64_t size = (uint64_t)buffer->count * tuff_dtype_size(buffer->dtype);
    return size == 0 ? 4 : size;
}

static void release_named(const launch_list *list, const named_buffer *named, int count)
{
    for (int i = 0; i < count; ++i)
        tuff__storage_release(list->buffers[named[i].buffer_id].storage);
}

void tuff__launch_list_free(launch_list *list)
{
    release_named(list, list->inputs, list->input_count);
    release_named(list, list->outputs, list->output_count);
    for (int i = 0; i < list->block_count; ++i)
        tuff__storage_release(list->blocks[i]);
    tuff__storage_release(list->constants);
    for (int i = 0; i < list->copy_count; ++i)
        tuff__storage_release(list->copies[i].kept);
    tuff__free(list->copies);
    for (int i = 0; i < list->launch_count; ++i)
        tuff__chain_free(&list->launches[i].chain);
    tuff__free(list->launches);
    tuff__free(list->buffers);
    tuff__free(list->inputs);
    tuff__free(list->outputs);
    tuff__free(list->blocks);
    *list = (launch_list){.device = NULL};
}

static uint64_t hash_chain(const fused_chain *chain, uint64_t seed)
{
    seed = tuff__hash64(chain->extent, sizeof *chain->extent * (size_t)chain->rank, seed);
    seed = tuff__hash64(chain->operand_strides, sizeof chain->operand_strides, seed);
    for (int i = 0; i < chain->operand_base_count; ++i)
        seed = tuff__hash64(&chain->operand_bases[i], sizeof chain->operand_bases[i], seed);
    for (int i = 0; i < chain->value_count; ++i)
        seed = tuff__hash64(&chain->values[i].address, sizeof chain->values[i].address, seed);
    for (int i = 0; i < chain->output_count; ++i)
        seed = tuff__hash64(&chain->outputs[i].address, sizeof chain->outputs[i].address, seed);
    for (int i = 0; i < chain->buffer_count; ++i)
        seed = tuff__hash64(&chain->buffers[i].streamed, sizeof chain->buffers[i].streamed, seed);
    return seed;
}

static uint64_t hash_launch(const launch *kernel, uint64_t seed)
{
    const uint64_t numbers[] = {kernel->kind,
                                (uint64_t)kernel->vec,
                                kernel->local_size,
                                (uint64_t)kernel->private_bytes,
                                kernel->prefetches,
                                kernel->subgroup_size,
                                kernel->cooperative,
                                kernel->groups,
                                kernel->setup,
                                kernel->walk,
                                (uint64_t)kernel->parameter_count};
    seed = tuff__hash64(numbers, sizeof numbers, seed);
    seed = tuff__hash64(kernel->body, strlen(kernel->body), seed);
    seed = tuff__hash64(kernel->defines, strlen(kernel->defines), seed);
    seed = tuff__hash64(kernel->parameters, sizeof *kernel->parameters * (size_t)kernel->parameter_count, seed);
    return hash_chain(&kernel->chain, seed);
}

uint64_t tuff__launch_list_hash(const launch_list *list, uint32_t *items)
{
    uint64_t hash = 0;
    *items = 1;
    for (int i = 0; i < list->launch_count; ++i) {
        hash = hash_launch(&list->launches[i], hash);
        *items = list->launches[i].local_size > *items ? list->launches[i].local_size : *items;
    }
    return hash;
}

static double element_count(const fused_chain *chain)
{
    double elements = 1;
    for (int i = 0; i < chain->rank; ++i)
        elements *= (double)chain->extent[i];
    return elements;
}

static double bytes_of(const launch_list *list, const fused_chain *chain)
{
    double bytes = 0;
    for (int i = 0; i < chain->buffer_count; ++i)
        bytes += (double)tuff__buffer_size(&list->buffers[chain->buffers[i].id]);
    return bytes;
}

static kernel_work work_of(const launch_list *list, const launch *kernel)
{
    const fused_chain *chain = &kernel->chain;
    return (kernel_work){.groups = kernel->groups,
                         .local_size = kernel->local_size,
                         .vec = kernel->vec,
                         .tile_rows = kernel->tile_rows,
                         .tile_columns = kernel->tile_columns,
                         .k = kernel->k,
                         .multiply_adds = kernel->operations > 0 ? kernel->operations / 2
                                                                 : element_count(chain) * chain->value_count,
                         .local_bytes = kernel->local_bytes,
                         .local_traffic = kernel->traffic,
                         .bytes = bytes_of(list, chain)};
}

double tuff__launch_list_traffic(const launch_list *list)
{
    const double an_operation = 0.125; /* in bytes */
    double sum = 0;
    for (int i = 0; i < list->launch_count; ++i)
        if (!list->launches[i].setup)
            sum += bytes_of(list, &list->launches[i].chain) + an_operation * list->launches[i].operations;
    return sum;
}

double tuff__launch_list_cost(const launch_list *list)
{
    double sum = 0;
    for (int i = 0; i < list->launch_count; ++i) {
        const launch *kernel = &list->launches[i];
        if (kernel->kind == LAUNCH_LIBRARY_GEMM)
            return 0;
        if (kernel->kind != LAUNCH_KERNEL || kernel->setup || kernel->groups == 0)
            continue;
        const kernel_work work = work_of(list, kernel);
        sum += tuff__cost_kernel(&list->policy.target, &work);
    }
    return sum;
}
