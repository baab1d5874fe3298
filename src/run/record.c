/* From launches to a recording: kernels are assembled and compiled, their parameters go to one buffer, their buffers
   are bound by range. */
#include <stdio.h>
#include <string.h>

#include "run/plan.h"

/* Where a buffer lies, in whole vectors of four. What has no elements may lie at the end of its memory, where there is
   nothing to bind: the beginning stands in for it, as none of it is read or written. */
static buffer_binding binding_of(const launch_list *with, const memory_buffer *memory)
{
    const uint64_t whole = tuff__storage_size(memory->storage);
    const uint64_t start = memory->count == 0                 ? 0
                           : with->policy.target.binds_ranges ? tuff__bound_offset(with, memory->offset)
                                                              : memory->offset;
    const uint64_t end = memory->count == 0 ? 16 : (memory->offset + tuff__buffer_size(memory) + 15) / 16 * 16;
    return (buffer_binding){
        .buffer = tuff__storage_buffer(memory->storage), .offset = start, .size = (end > whole ? whole : end) - start};
}

static void bind(const tuff_plan *plan, const launch *of, command *into)
{
    into->bindings[0] = (buffer_binding){.buffer = tuff__storage_buffer(plan->made.parameters),
                                         .size = tuff__storage_size(plan->made.parameters)};
    into->binding_count = 1;
    for (int i = 0; i < of->chain.buffer_count; ++i) {
        const chain_buffer *buffer = &of->chain.buffers[i];
        buffer_binding *made = &into->bindings[into->binding_count++];
        *made = binding_of(&plan->made.lowered, &plan->made.lowered.buffers[buffer->id]);
        made->written = buffer->written;
    }
}

/* Parameters of all launches, one after another. */
typedef struct parameter_block {
    int32_t *data;
    int count, capacity;
} parameter_block;

/* What the plan's hash is about, one launch after another. */
static void hash_launch(tuff_plan *plan, const launch *of, const char *source, const assembly *made)
{
    const hash128 own = tuff__hash(source, strlen(source));
    const uint64_t parts[] = {
        plan->made.hash.low,
        plan->made.hash.high,
        own.low,
        own.high,
        of->groups,
        of->local_size,
        of->setup,
        of->subgroup_size,
        made == NULL ? 0 : tuff__hash64(made->parameters, sizeof *made->parameters * (size_t)made->parameter_count, 0)};
    plan->made.hash = tuff__hash(parts, sizeof parts);
}

static tuff_status append_parameters(parameter_block *block, const assembly *made)
{
    for (int i = 0; i < made->parameter_count; ++i) {
        if (!GROW(block->data, block->count, block->capacity))
            return TUFF_E_OOM_HOST;
        block->data[block->count++] = made->parameters[i];
    }
    return TUFF_OK;
}

/* All of a launch but its program. */
static tuff_status build_launch(tuff_plan *plan, int index, parameter_block *block)
{
    launch *of = &plan->made.lowered.launches[index];
    command *into = &plan->made.commands[index];
    task_record *record = &plan->made.records[index];
    assembly made;
    TRY(tuff__launch_assemble(&plan->made.lowered, of, record->name, &made));
    into->kind = COMMAND_DISPATCH;
    into->group_count = of->groups;
    into->word_count = 2;
    into->words[0] = (uint32_t)block->count;
    tuff_status status = append_parameters(block, &made);
    hash_launch(plan, of, tuff__text_get(&made.source), &made);
    if (status == TUFF_OK && (record->source = tuff__strdup(tuff__text_get(&made.source))) == NULL)
        status = TUFF_E_OOM_HOST;
    tuff__assembly_free(&made);
    return status;
}

static program_request request_of(const tuff_plan *plan, int index)
{
    const task_record *record = &plan->made.records[index];
    return tuff__launch_request(&plan->made.lowered.launches[index], record->name, record->source);
}

/* Programs that the disk has come all at once. */
static tuff_status load_programs(tuff_plan *plan)
{
    const size_t most = (size_t)plan->made.command_count + 1;
    program_request *requests = tuff__calloc(most, sizeof *requests);
    program **loaded = tuff__calloc(most, sizeof(program *));
    int count = 0;
    if (requests != NULL && loaded != NULL) {
        for (int i = 0; i < plan->made.command_count; ++i)
            if (plan->made.commands[i].kind == COMMAND_DISPATCH)
                requests[count++] = request_of(plan, i);
        tuff__programs_load(plan->device, requests, count, loaded);
        for (int i = 0, k = 0; i < plan->made.command_count; ++i)
            if (plan->made.commands[i].kind == COMMAND_DISPATCH)
                plan->made.programs[i] = loaded[k++];
    }
    const bool complete = requests != NULL && loaded != NULL;
    tuff__free(requests);
    tuff__free(loaded);
    return complete ? TUFF_OK : TUFF_E_OOM_HOST;
}

static tuff_status get_programs(tuff_plan *plan)
{
    if (plan->before_program == NULL)
        TRY(load_programs(plan));
    for (int i = 0; i < plan->made.command_count; ++i) {
        if (plan->made.commands[i].kind != COMMAND_DISPATCH)
            continue;
        const program_request request = request_of(plan, i);
        plan->made.failed_task = plan->made.lowered.launches[i].task;
        if (plan->before_program != NULL)
            TRY(plan->before_program(plan->before_state, &request));
        if (plan->made.programs[i] == NULL)
            TRY(tuff__program_get(plan->device, &request, &plan->made.programs[i]));
        plan->made.commands[i].program = tuff__program_driver(plan->made.programs[i]);
    }
    plan->made.failed_task = -1;
    return TUFF_OK;
}

static void build_product(tuff_plan *plan, int index)
{
    const launch *of = &plan->made.lowered.launches[index];
    command *into = &plan->made.commands[index];
    const int buffers[] = {of->chain.operand_buffers[0], of->chain.operand_buffers[1], of->chain.outputs[0].buffer};
    hash_launch(plan, of, "clblast", NULL);
    into->kind = COMMAND_PRODUCT;
    into->product = of->product;
    into->binding_count = 3;
    for (int i = 0; i < 3; ++i) {
        const memory_buffer *memory = &plan->made.lowered.buffers[of->chain.buffers[buffers[i]].id];
        into->bindings[i] = (buffer_binding){.buffer = tuff__storage_buffer(memory->storage),
                                             .offset = memory->offset,
                                             .size = tuff__buffer_size(memory),
                                             .written = i == 2};
    }
    snprintf(plan->made.records[index].name, sizeof plan->made.records[index].name, "clblast");
}

static void build_copy(tuff_plan *plan, int index)
{
    const launch *of = &plan->made.lowered.launches[index];
    command *into = &plan->made.commands[index];
    const memory_buffer *ends[] = {&plan->made.lowered.buffers[of->copy_from],
                                   &plan->made.lowered.buffers[of->copy_to]};
    hash_launch(plan, of, "copy", NULL);
    into->kind = COMMAND_COPY;
    into->binding_count = 2;
    for (int i = 0; i < 2; ++i)
        into->bindings[i] = (buffer_binding){.buffer = tuff__storage_buffer(ends[i]->storage),
                                             .offset = ends[i]->offset,
                                             .size = tuff__buffer_size(ends[1]),
                                             .written = i == 1};
    snprintf(plan->made.records[index].name, sizeof plan->made.records[index].name, "copy");
}

static tuff_status build_commands(tuff_plan *plan, parameter_block *block)
{
    for (int i = 0; i < plan->made.command_count; ++i) {
        if (plan->made.lowered.launches[i].kind == LAUNCH_COPY)
            build_copy(plan, i);
        else if (plan->made.lowered.launches[i].kind == LAUNCH_LIBRARY_GEMM)
            build_product(plan, i);
        else
            TRY(build_launch(plan, i, block));
        TRY(tuff__describe_launch(plan, i, &plan->made.records[i]));
    }
    TRY(get_programs(plan));
    const uint64_t size = block->count == 0 ? 4 : (uint64_t)block->count * sizeof *block->data;
    TRY(tuff__storage_create(plan->device, size, false, &plan->made.parameters));
    if (block->count > 0)
        TRY(tuff__storage_write(plan->device, plan->made.parameters, 0, block->data, size));
    for (int i = 0; i < plan->made.command_count; ++i)
        if (plan->made.commands[i].kind == COMMAND_DISPATCH)
            bind(plan, &plan->made.lowered.launches[i], &plan->made.commands[i]);
    return TUFF_OK;
}

/* Launches over no groups at all do not reach the device. */
static int drop_empty(tuff_plan *plan)
{
    int kept = 0;
    for (int i = 0; i < plan->made.lowered.launch_count; ++i) {
        launch *of = &plan->made.lowered.launches[i];
        if (of->kind == LAUNCH_KERNEL && of->groups == 0)
            tuff__chain_free(&of->chain);
        else
            plan->made.lowered.launches[kept++] = *of;
    }
    plan->made.lowered.launch_count = kept;
    return kept;
}

tuff_status tuff__record(tuff_plan *plan)
{
    plan->made.command_count = drop_empty(plan);
    plan->made.hash = (hash128){0};
    plan->made.failed_task = -1;
    const size_t count = (size_t)plan->made.command_count + 1;
    plan->made.commands = tuff__calloc(count, sizeof *plan->made.commands);
    plan->made.programs = tuff__calloc(count, sizeof(program *));
    plan->made.records = tuff__calloc(count, sizeof *plan->made.records);
    plan->made.versions = tuff__calloc((size_t)plan->made.lowered.copy_count + 1, sizeof *plan->made.versions);
    if (plan->made.commands == NULL || plan->made.programs == NULL || plan->made.records == NULL ||
        plan->made.versions == NULL)
        return TUFF_E_OOM_HOST;
    parameter_block block = {.data = NULL};
    const tuff_status status = build_commands(plan, &block);
    tuff__free(block.data);
    TRY(status);
    while (plan->made.setup_count < plan->made.command_count &&
           plan->made.lowered.launches[plan->made.setup_count].setup)
        ++plan->made.setup_count;
    if (plan->made.setup_count > 0)
        TRY(tuff__recording_create(plan->device, plan->made.commands, plan->made.setup_count, plan->barrier_everywhere,
                                   false, &plan->made.setup));
    if (plan->made.setup_count == plan->made.command_count)
        return TUFF_OK;
    return tuff__recording_create(plan->device, plan->made.commands + plan->made.setup_count,
                                  plan->made.command_count - plan->made.setup_count, plan->barrier_everywhere, false,
                                  &plan->made.recording);
}

static void free_records(tuff_plan *plan)
{
    for (int i = 0; i < plan->made.command_count && plan->made.programs != NULL; ++i)
        tuff__program_release(plan->device, plan->made.programs[i]);
    for (int i = 0; i < plan->made.command_count && plan->made.records != NULL; ++i) {
        tuff__free(plan->made.records[i].label);
        tuff__free(plan->made.records[i].source);
    }
    tuff__free(plan->made.programs);
    tuff__free(plan->made.records);
    tuff__free(plan->made.commands);
    tuff__free(plan->made.versions);
}

void tuff__unrecord(tuff_plan *plan)
{
    tuff__recording_destroy(plan->device, plan->made.setup);
    tuff__recording_destroy(plan->device, plan->made.recording);
    free_records(plan);
    tuff__storage_release(plan->made.parameters);
    plan->made.setup = plan->made.recording = NULL;
    plan->made.programs = NULL;
    plan->made.records = NULL;
    plan->made.commands = NULL;
    plan->made.versions = NULL;
    plan->made.parameters = NULL;
    plan->made.command_count = plan->made.setup_count = 0;
}
