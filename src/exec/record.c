/* From launches to a recording: assembles and compiles kernels, puts the parameters of all of them into one buffer, and
   binds their buffers as ranges. */
#include <stdio.h>
#include <string.h>

#include "compile/lower/loop_limit.h"
#include "compile/schedule/cost.h"
#include "exec/executable.h"

/* Returns the range of a buffer, rounded up to 16 bytes, a vector of four. An empty buffer may lie at the end of its
   memory, where nothing can be bound. It gets the beginning instead, since it is never accessed. */
static buffer_binding make_binding(const launch_list *list, const memory_buffer *memory)
{
    const uint64_t whole = tuff__storage_size(memory->storage);
    const uint64_t start = memory->count == 0                 ? 0
                           : list->policy.target.binds_ranges ? tuff__binding_offset(list, memory->offset)
                                                              : memory->offset;
    const uint64_t end = memory->count == 0 ? 16 : (memory->offset + tuff__buffer_size(memory) + 15) / 16 * 16;
    return (buffer_binding){
        .buffer = tuff__storage_buffer(memory->storage), .offset = start, .size = (end > whole ? whole : end) - start};
}

/* Binding 0 is the block with the parameters of all launches, so that launches which differ only in parameters share a
   program. */
static void bind_buffers(const executable *self, const launch *kernel, command *into)
{
    into->bindings[0] = (buffer_binding){.buffer = tuff__storage_buffer(self->parameters),
                                         .size = tuff__storage_size(self->parameters)};
    into->binding_count = 1;
    for (int i = 0; i < kernel->chain.buffer_count; ++i) {
        const chain_buffer *buffer = &kernel->chain.buffers[i];
        buffer_binding *made = &into->bindings[into->binding_count++];
        *made = make_binding(&self->launches, &self->launches.buffers[buffer->id]);
        made->written = buffer->written;
    }
}

/* Parameters of all launches, concatenated. */
typedef struct parameter_block {
    int32_t *data;
    int count, capacity;
} parameter_block;

/* Adds a launch to the hash: its kernel, grid and parameters. plan_hash.c adds the values that it reads and writes. */
static void hash_launch(executable *self, int index, const char *source, const assembly *made)
{
    const launch *kernel = &self->launches.launches[index];
    const hash128 own = self->records[index].source_hash = tuff__hash(source, strlen(source));
    const uint64_t parts[] = {
        self->hash.low,
        self->hash.high,
        own.low,
        own.high,
        kernel->groups,
        kernel->local_size,
        kernel->setup,
        kernel->subgroup_size,
        made == NULL ? 0 : tuff__hash64(made->parameters, sizeof *made->parameters * (size_t)made->parameter_count, 0)};
    self->hash = tuff__hash(parts, sizeof parts);
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

/* Builds everything of a launch except its program. */
static tuff_status build_launch(executable *self, int index, parameter_block *block)
{
    launch *kernel = &self->launches.launches[index];
    command *into = &self->commands[index];
    task_record *record = &self->records[index];
    assembly made;
    TRY(tuff__launch_assemble(&self->launches, kernel, record->name, &made));
    into->kind = COMMAND_DISPATCH;
    into->group_count = kernel->groups;
    into->word_count = 2;
    into->words[0] = (uint32_t)block->count;
    tuff_status status = append_parameters(block, &made);
    hash_launch(self, index, tuff__text_get(&made.source), &made);
    if (status == TUFF_OK && (record->source = tuff__strdup(tuff__text_get(&made.source))) == NULL)
        status = TUFF_E_OOM_HOST;
    tuff__assembly_free(&made);
    return status;
}

static program_request make_request(const executable *self, int index)
{
    const task_record *record = &self->records[index];
    return tuff__launch_request(&self->launches.launches[index], record->name, record->source);
}

static bool is_merged(const executable *self, int index)
{
    return self->persistent.is_member != NULL && self->persistent.is_member[index];
}

/* Whether a program of the command's own is missing. Merged launches need none, unless they are also to run alone. */
static bool lacks_program(const executable *self, int index, bool with_merged)
{
    return self->commands[index].kind == COMMAND_DISPATCH && self->programs[index] == NULL &&
           (with_merged || !is_merged(self, index));
}

/* Loads or compiles several programs at once, where the driver can do that. */
static tuff_status prepare_programs(executable *self, bool with_merged)
{
    const size_t capacity = (size_t)self->command_count + 1;
    program_request *requests = tuff__calloc(capacity, sizeof *requests);
    program **prepared = tuff__calloc(capacity, sizeof(program *));
    int count = 0;
    if (requests != NULL && prepared != NULL) {
        for (int i = 0; i < self->command_count; ++i)
            if (lacks_program(self, i, with_merged))
                requests[count++] = make_request(self, i);
        tuff__programs_prepare(self->launches.device, requests, count, prepared);
        for (int i = 0, k = 0; i < self->command_count; ++i)
            if (lacks_program(self, i, with_merged))
                self->programs[i] = prepared[k++];
    }
    const bool complete = requests != NULL && prepared != NULL;
    tuff__free(requests);
    tuff__free(prepared);
    return complete ? TUFF_OK : TUFF_E_OOM_HOST;
}

/* failed_task is set before the call and cleared after it, so that the tuner knows which configuration to give up. */
static tuff_status get_program(executable *self, const recording_options *options, int index)
{
    const program_request request = make_request(self, index);
    self->failed_task = self->launches.launches[index].task;
    if (options->before_program != NULL)
        TRY(options->before_program(options->state, &request));
    TRY(tuff__program_get(self->launches.device, &request, &self->programs[index]));
    self->failed_task = -1;
    return TUFF_OK;
}

/* Programs that the preparation could not make are requested again, one by one, which reports the error together with
   its task. A hook must be called before each program, so these are never prepared together. */
static tuff_status get_programs(executable *self, const recording_options *options, bool with_merged)
{
    if (options->before_program == NULL)
        TRY(prepare_programs(self, with_merged));
    for (int i = 0; i < self->command_count; ++i) {
        if (lacks_program(self, i, with_merged))
            TRY(get_program(self, options, i));
        if (self->programs[i] != NULL)
            self->commands[i].program = tuff__program_driver(self->programs[i]);
    }
    return TUFF_OK;
}

tuff_status tuff__executable_complete_programs(executable *self)
{
    static const recording_options defaults;
    return get_programs(self, &defaults, true);
}

command *tuff__executable_run_commands(const executable *self, int *count)
{
    const persistent_launches *merged = &self->persistent;
    *count = merged->commands != NULL ? merged->command_count : self->command_count - self->setup_count;
    return merged->commands != NULL ? merged->commands : self->commands + self->setup_count;
}

/* The driver counts the dispatches of one recording. In that of a run, setup's commands are missing, and a persistent
   dispatch stands for several launches, none of which can be blamed alone. */
int tuff__executable_refused_launch(const executable *self, const recording *recorded, bool *was_merged)
{
    *was_merged = false;
    const int refused = tuff__refused_dispatch(self->launches.device, recorded);
    if (refused < 0 || recorded == self->setup)
        return refused;
    const int index = self->persistent.commands != NULL ? self->persistent.first[refused] : refused + self->setup_count;
    *was_merged = is_merged(self, index);
    return *was_merged ? -1 : index;
}

/* CLBlast's kernels index elements with 32 bits from the beginning of a buffer. */
static tuff_status check_gemm_offset(const memory_buffer *memory)
{
    const uint64_t first = memory->offset / tuff_dtype_size(memory->dtype);
    return first + (uint64_t)memory->count <= INT32_MAX
               ? TUFF_OK
               : FAIL(TUFF_E_LIMIT, "compile: a buffer reaches element %llu, but CLBlast indexes elements with i32",
                      (unsigned long long)first + (unsigned long long)memory->count - 1);
}

static tuff_status build_gemm(executable *self, int index)
{
    const launch *kernel = &self->launches.launches[index];
    command *into = &self->commands[index];
    const int buffers[] = {kernel->chain.operand_buffers[0], kernel->chain.operand_buffers[1],
                           kernel->chain.outputs[0].buffer};
    hash_launch(self, index, "clblast", NULL);
    into->kind = COMMAND_LIBRARY_GEMM;
    into->product = kernel->product;
    into->binding_count = 3;
    for (int i = 0; i < 3; ++i) {
        const memory_buffer *memory = &self->launches.buffers[kernel->chain.buffers[buffers[i]].id];
        TRY(check_gemm_offset(memory));
        into->bindings[i] = (buffer_binding){.buffer = tuff__storage_buffer(memory->storage),
                                             .offset = memory->offset,
                                             .size = tuff__buffer_size(memory),
                                             .written = i == 2};
    }
    snprintf(self->records[index].name, sizeof self->records[index].name, "clblast");
    return TUFF_OK;
}

static void build_copy(executable *self, int index)
{
    const launch *kernel = &self->launches.launches[index];
    command *into = &self->commands[index];
    const memory_buffer *ends[] = {&self->launches.buffers[kernel->copy_from],
                                   &self->launches.buffers[kernel->copy_to]};
    hash_launch(self, index, "copy", NULL);
    into->kind = COMMAND_COPY;
    into->binding_count = 2;
    for (int i = 0; i < 2; ++i)
        into->bindings[i] = (buffer_binding){.buffer = tuff__storage_buffer(ends[i]->storage),
                                             .offset = ends[i]->offset,
                                             .size = tuff__buffer_size(ends[1]),
                                             .written = i == 1};
    snprintf(self->records[index].name, sizeof self->records[index].name, "copy");
}

/* Estimates the operations of a launch: those of its products or those of all elements, whichever are more; and at
   least one for each iteration of its loops, whatever they do. */
static double estimate_operations(const launch *kernel, const task_record *record)
{
    const double elements = (double)record->items * (kernel->chain.value_count + 1);
    const double items = (double)kernel->groups * kernel->local_size;
    const double steps = kernel->kind == LAUNCH_KERNEL ? tuff__loop_steps(kernel) * items : 0;
    const double most = kernel->operations > elements ? kernel->operations : elements;
    return steps > most ? steps : most;
}

/* Predicts the duration of a launch, for drivers that must keep submissions short. */
static void predict_duration(executable *self, int index)
{
    const launch *kernel = &self->launches.launches[index];
    const task_record *record = &self->records[index];
    command *into = &self->commands[index];
    const double bytes = (double)(record->bytes_read + record->bytes_written);
    into->seconds = tuff__cost_seconds(&self->launches.policy.target, estimate_operations(kernel, record), bytes,
                                       into->kind == COMMAND_DISPATCH ? into->group_count : 0);
}

static tuff_status build_commands(executable *self, const recording_options *options, parameter_block *block)
{
    for (int i = 0; i < self->command_count; ++i) {
        if (self->launches.launches[i].kind == LAUNCH_COPY)
            build_copy(self, i);
        else if (self->launches.launches[i].kind == LAUNCH_LIBRARY_GEMM)
            TRY(build_gemm(self, i));
        else
            TRY(build_launch(self, i, block));
        TRY(tuff__describe_launch(self, i, &self->records[i]));
        predict_duration(self, i);
    }
    if (options->describes_only)
        return TUFF_OK;
    if (tuff__device_describes_only(self->launches.device)) /* since another thread said so */
        return FAIL(TUFF_E_USAGE, "compile: the device only describes plans (tuff_device_set_describe_only)");
    /* Memory cannot be empty, but a plan without parameters must have something to bind. */
    const uint64_t size = block->count == 0 ? 4 : (uint64_t)block->count * sizeof *block->data;
    TRY(tuff__storage_create(self->launches.device, size, false, &self->parameters));
    if (block->count > 0)
        TRY(tuff__storage_write(self->launches.device, self->parameters, 0, block->data, size));
    for (int i = 0; i < self->command_count; ++i)
        if (self->commands[i].kind == COMMAND_DISPATCH)
            bind_buffers(self, &self->launches.launches[i], &self->commands[i]);
    /* Before get_programs: launches that were merged need no programs of their own. */
    if (options->merges_launches)
        TRY(tuff__persistent_create(self, options));
    TRY(get_programs(self, options, false));
    tuff__persistent_copy_programs(self);
    return TUFF_OK;
}

/* Drops launches with no groups; they never reach the device. */
static int drop_empty_launches(executable *self)
{
    int kept = 0;
    for (int i = 0; i < self->launches.launch_count; ++i) {
        launch *kernel = &self->launches.launches[i];
        if (kernel->kind == LAUNCH_KERNEL && kernel->groups == 0)
            tuff__chain_free(&kernel->chain);
        else
            self->launches.launches[kept++] = *kernel;
    }
    self->launches.launch_count = kept;
    return kept;
}

static tuff_status record_run(executable *self, bool barrier_everywhere)
{
    int count;
    command *run = tuff__executable_run_commands(self, &count);
    return tuff__recording_create(self->launches.device, run, count, barrier_everywhere, false, &self->recording);
}

/* Records the commands of a run, launch by launch if the driver refuses merged ones. */
static tuff_status record_merged_run(executable *self, bool barrier_everywhere)
{
    const tuff_status status = record_run(self, barrier_everywhere);
    if (status == TUFF_OK || self->persistent.commands == NULL || !tuff__persistent_give_up(&self->persistent, status))
        return status;
    TRY(tuff__executable_complete_programs(self));
    return record_run(self, barrier_everywhere);
}

tuff_status tuff__executable_record(executable *self, const recording_options *options)
{
    static const recording_options defaults;
    options = options == NULL ? &defaults : options;
    self->command_count = drop_empty_launches(self);
    /* Launches that make kept copies of weights come first in the list. */
    while (self->setup_count < self->command_count && self->launches.launches[self->setup_count].setup)
        ++self->setup_count;
    self->hash = (hash128){0};
    self->failed_task = -1;
    const size_t count = (size_t)self->command_count + 1;
    self->commands = tuff__calloc(count, sizeof *self->commands);
    self->programs = tuff__calloc(count, sizeof(program *));
    self->records = tuff__calloc(count, sizeof *self->records);
    self->versions = tuff__calloc((size_t)self->launches.copy_count + 1, sizeof *self->versions);
    if (self->commands == NULL || self->programs == NULL || self->records == NULL || self->versions == NULL)
        return TUFF_E_OOM_HOST;
    parameter_block block = {.data = NULL};
    const tuff_status status = build_commands(self, options, &block);
    tuff__free(block.data);
    TRY(status);
    if (options->describes_only)
        return TUFF_OK;
    if (self->setup_count > 0)
        TRY(tuff__recording_create(self->launches.device, self->commands, self->setup_count,
                                   options->barrier_everywhere, false, &self->setup));
    return self->setup_count == self->command_count ? TUFF_OK : record_merged_run(self, options->barrier_everywhere);
}

/* Recordings go first: destroying one waits for its runs, which use everything else. */
void tuff__executable_free(executable *self)
{
    tuff__recording_destroy(self->launches.device, self->setup);
    tuff__recording_destroy(self->launches.device, self->recording);
    for (int i = 0; i <= self->command_count && self->programs != NULL; ++i)
        tuff__program_release(self->launches.device, self->programs[i]);
    for (int i = 0; i < self->command_count && self->records != NULL; ++i) {
        tuff__free(self->records[i].label);
        tuff__free(self->records[i].source);
    }
    tuff__free(self->programs);
    tuff__free(self->records);
    tuff__free(self->commands);
    tuff__free(self->versions);
    tuff__persistent_free(&self->persistent);
    tuff__storage_release(self->parameters);
    tuff__launch_list_free(&self->launches);
    *self = (executable){.parameters = NULL};
}

/* Records the versions that kept copies will have after the next submission. Returns whether any copy is stale. */
static bool update_copy_versions(executable *self)
{
    bool is_stale = false;
    for (int i = 0; i < self->launches.copy_count && self->setup != NULL; ++i) {
        const packed_copy *copy = &self->launches.copies[i];
        uint64_t version = 1; /* versions never decrease, so their sum shows any change */
        for (int k = 0; k < copy->source_count; ++k)
            version += tuff__storage_version(self->launches.buffers[copy->sources[k]].storage);
        if (!copy->is_kept || self->versions[i] == version)
            continue;
        is_stale = true;
        self->versions[i] = version;
    }
    return is_stale;
}

typedef struct replay {
    executable *executable;
    void (*ended)(void *state);
    void *state;
} replay;

static bool needs_setup(void *context)
{
    return update_copy_versions(((replay *)context)->executable);
}

static void end_replay(void *context)
{
    const replay *self = context;
    if (self->ended != NULL)
        self->ended(self->state);
}

tuff_status tuff__executable_submit(executable *self, recording *recorded, void (*ended)(void *state), void *state,
                                    const recording **last)
{
    replay context = {self, ended, state};
    const recording *submitted;
    const tuff_status status = tuff__submit_prepared(
        self->launches.device, &(prepared_submission){self->setup, recorded, needs_setup, end_replay, &context},
        &submitted);
    /* The copies were not made, so the next submission must try again. */
    for (int i = 0; i < self->launches.copy_count && status != TUFF_OK && submitted == self->setup; ++i)
        self->versions[i] = 0;
    if (last != NULL)
        *last = submitted;
    return status;
}
