/* Merges launches into dispatches of one persistent kernel; cl/persistent.cl has its text.

   On a CPU, a launch costs its driver several microseconds, which is as long as many kernels take, and wakes up
   threads. A persistent kernel costs that once for many launches. Its groups, at most one for each core, take the
   groups of a launch in turn, and wait where a launch depends on an earlier one. Kernels are compiled as functions,
   which are linked with it; the list of launches is data, so all dispatches of an executable share a program. */
#include "exec/persistent.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "compile/schedule/cost.h"
#include "exec/executable.h"

enum {
    MIN_LAUNCHES = 4,   /* of a dispatch: fewer are not worth a program */
    FIXED_BINDINGS = 3, /* parameters, rows, counters */
    MAX_BUFFERS = MAX_BINDINGS - FIXED_BINDINGS,
    COUNTERS = 128,
    ROW_HEAD = 5 /* FUNCTION to PARAMETERS */
};

/* Longer launches are not merged, because they gain nothing. The launches of one dispatch take at most
   MAX_DISPATCH_SECONDS together, so that the driver reports progress often enough. */
#define MAX_LAUNCH_SECONDS 1e-3
#define MAX_DISPATCH_SECONDS 10e-3

/* A function of the persistent kernel. */
typedef struct kernel_function {
    const task_record *record; /* its name and text */
    int buffer_count;
    uint32_t local_size;
} kernel_function;

/* Consecutive launches that become one dispatch, and their buffers. */
typedef struct merged_run {
    int first, count;
    buffer_binding buffers[MAX_BUFFERS];
    int buffer_count;
    double seconds;
} merged_run;

typedef struct merger {
    executable *executable;
    persistent_launches *made;
    merged_run current;
    merged_run *runs;
    int run_count, run_capacity;
    kernel_function *functions;
    int function_count, function_capacity;
    int *function_of; /* by command */
    int most_buffers; /* of a run */
    int row_size;
    int32_t *rows;
    int row_count; /* rows written */
} merger;

/* Merging only saves time. A failure that concerns the merged kernel alone is logged, and every launch is then
   dispatched by itself. Any other, such as a lost device or no host memory, would meet those launches too, and ends the
   compilation. */
bool tuff__persistent_give_up(persistent_launches *self, tuff_status why)
{
    tuff__persistent_free(self);
    if (why != TUFF_E_COMPILE && why != TUFF_E_LIMIT && why != TUFF_E_UNSUPPORTED && why != TUFF_E_OOM_DEVICE)
        return false;
    tuff__log(TUFF_LOG_INFO, "compile: each launch stays a dispatch of its own: %s", tuff_error());
    return true;
}

/* An environment variable instead of an option, because results do not depend on it: it is for users of a finished
   program whose driver compiles the merged kernel wrongly or slowly. */
static bool is_wanted(void)
{
    const char *setting = getenv("TUFF_PERSISTENT_KERNELS");
    return setting == NULL || strcmp(setting, "0") != 0;
}

/* Estimates the duration of a launch. That of the command is an upper bound, which counts the steps of loops. */
static double estimate(const executable *self, int index)
{
    const task_record *record = &self->records[index];
    const double operations = record->operations > (double)record->items ? record->operations : (double)record->items;
    return tuff__cost_seconds(&self->launches.policy.target, operations,
                              (double)(record->bytes_read + record->bytes_written), self->commands[index].group_count);
}

/* A function may not contain barriers, which some bodies have whose items work together. */
static bool can_be_function(const executable *self, int index)
{
    const launch *kernel = &self->launches.launches[index];
    return self->commands[index].kind == COMMAND_DISPATCH && kernel->subgroup_size == 0 && kernel->cooperative == 0 &&
           strstr(self->records[index].source, "BARRIER();") == NULL;
}

static int find_buffer(const merged_run *run, const driver_buffer *buffer)
{
    for (int i = 0; i < run->buffer_count; ++i)
        if (run->buffers[i].buffer == buffer)
            return i;
    return -1;
}

/* Adds the buffers of a command, each as a whole. Returns false, and adds nothing, if there are too many. */
static bool add_buffers(merged_run *run, const command *work, int limit)
{
    merged_run next = *run;
    for (int i = 1; i < work->binding_count; ++i) {
        const buffer_binding *binding = &work->bindings[i];
        int at = find_buffer(&next, binding->buffer);
        if (at < 0 && next.buffer_count == limit)
            return false;
        if (at < 0) {
            at = next.buffer_count++;
            next.buffers[at] = (buffer_binding){.buffer = binding->buffer};
        }
        const uint64_t end = binding->offset + binding->size;
        next.buffers[at].size = end > next.buffers[at].size ? end : next.buffers[at].size;
        next.buffers[at].written |= binding->written;
    }
    *run = next;
    return true;
}

/* Ends the current run. One that is too short is dropped: its launches stay dispatches of their own. */
static tuff_status end_run(merger *self)
{
    if (self->current.count >= MIN_LAUNCHES) {
        if (!GROW(self->runs, self->run_count, self->run_capacity))
            return TUFF_E_OOM_HOST;
        self->runs[self->run_count++] = self->current;
        if (self->current.buffer_count > self->most_buffers)
            self->most_buffers = self->current.buffer_count;
    }
    self->current.count = 0;
    return TUFF_OK;
}

/* Whether the launch is now part of the run. An empty run stays empty if a launch alone has too many buffers. */
static bool extend_run(merger *self, int index, double seconds, int limit)
{
    merged_run *run = &self->current;
    if (run->count == 0)
        *run = (merged_run){.first = index};
    if (run->seconds + seconds > MAX_DISPATCH_SECONDS || !add_buffers(run, &self->executable->commands[index], limit))
        return false;
    ++run->count;
    run->seconds += seconds;
    return true;
}

/* Setup commands are left out: they run only when weights have changed. A launch that does not fit into the current run
   begins the next one. */
static tuff_status find_runs(merger *self)
{
    const uint32_t bindings = self->executable->launches.policy.target.info->max_bindings;
    const int limit = (int)bindings - FIXED_BINDINGS;
    for (int i = self->executable->setup_count; i < self->executable->command_count; ++i) {
        const double seconds = estimate(self->executable, i);
        const bool is_mergeable = seconds <= MAX_LAUNCH_SECONDS &&
                                  self->executable->commands[i].seconds <= MAX_DISPATCH_SECONDS &&
                                  can_be_function(self->executable, i);
        if (is_mergeable && extend_run(self, i, seconds, limit))
            continue;
        TRY(end_run(self));
        if (is_mergeable)
            (void)extend_run(self, i, seconds, limit);
    }
    return end_run(self);
}

/* Launches with the same source share a function, as the layers of a model do, so that the program stays small and its
   compilation short. */
static tuff_status find_function(merger *self, int index)
{
    const task_record *record = &self->executable->records[index];
    int at = 0;
    while (at < self->function_count &&
           !tuff__is_same_hash(self->functions[at].record->source_hash, record->source_hash))
        ++at;
    if (at == self->function_count) {
        if (!GROW(self->functions, self->function_count, self->function_capacity))
            return TUFF_E_OOM_HOST;
        self->functions[self->function_count++] =
            (kernel_function){record, self->executable->commands[index].binding_count - 1,
                              self->executable->launches.launches[index].local_size};
    }
    self->function_of[index] = at;
    return TUFF_OK;
}

/* All rows have the size that the function with the most buffers needs, so that the kernel finds row i without a
   search. */
static tuff_status find_functions(merger *self)
{
    int most = 0;
    for (int k = 0; k < self->run_count; ++k)
        for (int i = 0; i < self->runs[k].count; ++i)
            TRY(find_function(self, self->runs[k].first + i));
    for (int i = 0; i < self->function_count; ++i)
        most = self->functions[i].buffer_count > most ? self->functions[i].buffer_count : most;
    self->row_size = ROW_HEAD + most;
    return TUFF_OK;
}

/* Finds the parameter list of the kernel at the end of a source: sets *begin to its first character, and returns its
   end, the closing parenthesis. */
static const char *find_parameters(const kernel_function *self, const char **begin)
{
    char head[KERNEL_NAME + 8];
    snprintf(head, sizeof head, "void %s(", self->record->name);
    const char *found = strstr(self->record->source, head);
    *begin = found == NULL ? self->record->source : found + strlen(head);
    const char *end = strstr(*begin, ")\n");
    return end == NULL ? *begin : end;
}

/* The definitions turn the kernel at the end of the text into a function that gets the group as `group_base`, and the
   item as one more parameter. */
static void add_function(const kernel_function *self, int number, text *out)
{
    const char *begin, *end = find_parameters(self, &begin);
    tuff__text_add(out,
                   "#define get_group_id(axis) 0u\n#define get_local_id(axis) local_index\n#define __kernel\n"
                   "#define reqd_work_group_size(x, y, z) noinline\n#define %s launch_%d\n",
                   self->record->name, number);
    tuff__text_add_bytes(out, self->record->source, (size_t)(end - self->record->source));
    tuff__text_add(out, ", uint local_index%s" UNIT_SEPARATOR, end);
}

/* Each function is compiled as a text of its own, so the text of the kernel that calls them needs declarations. */
static void add_declaration(const kernel_function *self, int number, text *out)
{
    const char *begin, *end = find_parameters(self, &begin);
    tuff__text_add(out, "void launch_%d(%.*s, uint local_index);\n", number, (int)(end - begin), begin);
}

/* The items of a group run one after the other on one core, which is right only for kernels without barriers: see
   can_be_function. */
static void add_call(const kernel_function *self, int number, text *out)
{
    tuff__text_add(out,
                   "    case %d:\n        for (uint item = 0; item < %" PRIu32 "; ++item)\n            launch_%d(p",
                   number, self->local_size, number);
    for (int i = 0; i < self->buffer_count; ++i)
        tuff__text_add(out, ", buffers[row[%d]]", ROW_HEAD + i);
    tuff__text_add(out, ", (uint)row[PARAMETERS], group, item);\n        break;\n");
}

static tuff_status compose(const merger *self, text *out)
{
    for (int i = 0; i < self->function_count; ++i)
        add_function(&self->functions[i], i, out);
    tuff__text_add(out,
                   "#define FUNCTION 0\n#define BEGIN 1\n#define END 2\n#define NEEDED 3\n#define PARAMETERS 4\n"
                   "#define ROW_SIZE %d\n#define BUFFER_PARAMETERS",
                   self->row_size);
    for (int i = 0; i < self->most_buffers; ++i)
        tuff__text_add(out, " __global uint *b%d,", i);
    tuff__text_add(out, "\n#define BUFFERS");
    for (int i = 0; i < self->most_buffers; ++i)
        tuff__text_add(out, "%s b%d", i == 0 ? "" : ",", i);
    tuff__text_add(out, "\n");
    for (int i = 0; i < self->function_count; ++i)
        add_declaration(&self->functions[i], i, out);
    tuff__text_add(out,
                   "static void run(__global const int *p, __global void *const *buffers, __global const int *row, "
                   "uint group)\n{\n    switch (row[FUNCTION]) {\n");
    for (int i = 0; i < self->function_count; ++i)
        add_call(&self->functions[i], i, out);
    tuff__text_add(out, "    }\n}\n%s", tuff__kernel_text("persistent.cl"));
    return tuff__text_status(out);
}

/* The program of the persistent kernel has the last place, behind those of the launches. */
static program **program_of(const merger *self)
{
    return &self->executable->programs[self->executable->command_count];
}

static tuff_status get_program(merger *self, const recording_options *options)
{
    text source = {0};
    tuff_status status = compose(self, &source);
    const program_request request = {.name = "tuff_persistent",
                                     .text = tuff__text_get(&source),
                                     .buffer_count = FIXED_BINDINGS + self->most_buffers,
                                     .word_count = 3,
                                     .local_size = 1};
    if (status == TUFF_OK && options->before_program != NULL)
        status = options->before_program(options->state, &request);
    tuff_device *device = self->executable->launches.device;
    if (status == TUFF_OK)
        status = options->before_program == NULL ? tuff__program_get(device, &request, program_of(self))
                                                 : tuff__program_prepare(device, &request, NULL, program_of(self));
    tuff__text_free(&source);
    return status;
}

/* Writes the rows of a run. Only a launch with a barrier waits, and then for all launches before it. */
static tuff_status add_rows(merger *self, const merged_run *run)
{
    command *members = self->executable->commands + run->first;
    uint64_t begin = 0, needed = 0;
    tuff__set_barriers(members, run->count, false);
    for (int i = 0; i < run->count; ++i) {
        int32_t *row = self->rows + (size_t)self->row_count++ * (size_t)self->row_size;
        const uint64_t end = begin + members[i].group_count;
        /* The groups of a run are numbered consecutively, in words of 32 bits. */
        if (end > INT32_MAX)
            return FAIL(TUFF_E_LIMIT, "compile: a persistent kernel would have %" PRIu64 " groups", end);
        /* Kept for the launches that follow: what an earlier barrier separates from them must be finished, too. */
        needed = members[i].barrier ? begin : needed;
        const int32_t head[ROW_HEAD] = {self->function_of[run->first + i], (int32_t)begin, (int32_t)end,
                                        (int32_t)needed, (int32_t)members[i].words[0]};
        memcpy(row, head, sizeof head);
        for (int k = 1; k < members[i].binding_count; ++k)
            row[ROW_HEAD + k - 1] = find_buffer(run, members[i].bindings[k].buffer);
        begin = end;
    }
    return TUFF_OK;
}

/* Returns how many groups a persistent kernel gets: one for each core, but no more than its largest launch has. */
static uint64_t count_workers(const merger *self, const merged_run *run)
{
    const uint32_t units = self->executable->launches.policy.target.info->compute_units;
    uint64_t most = 1;
    for (int i = 0; i < run->count; ++i) {
        const uint64_t groups = self->executable->commands[run->first + i].group_count;
        most = groups > most ? groups : most;
    }
    return units == 0 ? 1 : units < most ? units : most;
}

static buffer_binding whole(storage *memory, bool written)
{
    return (buffer_binding){
        .buffer = tuff__storage_buffer(memory), .size = tuff__storage_size(memory), .written = written};
}

/* Unused buffer parameters get the parameters' buffer, which no kernel writes. */
static void add_dispatch(merger *self, const merged_run *run, int first_row)
{
    persistent_launches *made = self->made;
    command *into = &made->commands[made->command_count];
    *into = (command){.kind = COMMAND_DISPATCH,
                      .program = tuff__program_driver(*program_of(self)),
                      .group_count = count_workers(self, run),
                      .binding_count = FIXED_BINDINGS + self->most_buffers,
                      .word_count = 3,
                      .words = {(uint32_t)first_row, (uint32_t)run->count},
                      .seconds = run->seconds};
    const buffer_binding parameters = self->executable->commands[run->first].bindings[0];
    into->bindings[0] = parameters;
    into->bindings[1] = whole(made->rows, false);
    into->bindings[2] = whole(made->counters, true);
    for (int i = 0; i < self->most_buffers; ++i)
        into->bindings[FIXED_BINDINGS + i] = i < run->buffer_count ? run->buffers[i] : parameters;
    made->first[made->command_count++] = run->first;
    for (int i = 0; i < run->count; ++i)
        made->is_member[run->first + i] = true;
}

static void add_plain(merger *self, int index)
{
    persistent_launches *made = self->made;
    made->commands[made->command_count] = self->executable->commands[index];
    made->first[made->command_count++] = index;
}

/* The order of commands does not change: a dispatch takes the place of the launches that it replaces. */
static void add_commands(merger *self)
{
    int at = self->executable->setup_count, row = 0;
    for (int k = 0; k < self->run_count; ++k) {
        while (at < self->runs[k].first)
            add_plain(self, at++);
        add_dispatch(self, &self->runs[k], row);
        at += self->runs[k].count;
        row += self->runs[k].count;
    }
    while (at < self->executable->command_count)
        add_plain(self, at++);
}

static int count_members(const merger *self)
{
    int count = 0;
    for (int k = 0; k < self->run_count; ++k)
        count += self->runs[k].count;
    return count;
}

static tuff_status create_memory(merger *self)
{
    persistent_launches *made = self->made;
    tuff_device *device = self->executable->launches.device;
    const size_t row_bytes = (size_t)count_members(self) * (size_t)self->row_size * sizeof *self->rows;
    const size_t count = (size_t)self->executable->command_count + 1;
    self->rows = tuff__calloc(row_bytes, 1);
    made->commands = tuff__calloc(count, sizeof *made->commands);
    made->first = tuff__calloc(count, sizeof *made->first);
    made->is_member = tuff__calloc(count, sizeof *made->is_member);
    if (self->rows == NULL || made->commands == NULL || made->first == NULL || made->is_member == NULL)
        return TUFF_E_OOM_HOST;
    for (int k = 0; k < self->run_count; ++k)
        TRY(add_rows(self, &self->runs[k]));
    /* Zeroed memory would wait for the device, which a plan in use may keep busy. */
    static const uint32_t zeros[COUNTERS];
    TRY(tuff__storage_create(device, row_bytes, false, &made->rows));
    TRY(tuff__storage_write(device, made->rows, 0, self->rows, row_bytes));
    TRY(tuff__storage_create(device, sizeof zeros, false, &made->counters));
    return tuff__storage_write(device, made->counters, 0, zeros, sizeof zeros);
}

static tuff_status merge(merger *self, const recording_options *options)
{
    self->function_of = tuff__calloc((size_t)self->executable->command_count + 1, sizeof *self->function_of);
    if (self->function_of == NULL)
        return TUFF_E_OOM_HOST;
    TRY(find_runs(self));
    if (self->run_count == 0)
        return TUFF_OK;
    TRY(find_functions(self));
    TRY(get_program(self, options));
    TRY(create_memory(self));
    add_commands(self);
    tuff__log(TUFF_LOG_DEBUG, "compile: %d launches of %d, of %d kernels, became %d dispatches of a persistent kernel",
              count_members(self), self->executable->command_count - self->executable->setup_count,
              self->function_count, self->run_count);
    return TUFF_OK;
}

/* Proves that launches wait for those that they depend on. Recordings are proved where they are created, but have only
   one command for all launches of a run. */
static tuff_status verify(const merger *self)
{
    for (int k = 0; k < self->run_count && tuff__verification_is_on(); ++k)
        TRY(tuff__verify_hazards(self->executable->commands + self->runs[k].first, self->runs[k].count));
    return TUFF_OK;
}

tuff_status tuff__persistent_create(executable *self, const recording_options *options)
{
    if (!self->launches.policy.target.groups_keep_running || !is_wanted())
        return TUFF_OK;
    merger work = {.executable = self, .made = &self->persistent};
    const tuff_status status = merge(&work, options);
    const tuff_status proof = status == TUFF_OK ? verify(&work) : TUFF_OK;
    tuff__free(work.runs);
    tuff__free(work.functions);
    tuff__free(work.function_of);
    tuff__free(work.rows);
    if (proof != TUFF_OK)
        tuff__persistent_free(&self->persistent);
    if (status == TUFF_OK)
        return proof;
    return tuff__persistent_give_up(&self->persistent, status) ? TUFF_OK : status;
}

/* Commands that stay as they are were copied before their programs existed, since launches that are merged need no
   program of their own. */
void tuff__persistent_copy_programs(executable *self)
{
    persistent_launches *made = &self->persistent;
    for (int i = 0; i < made->command_count; ++i)
        if (!made->is_member[made->first[i]])
            made->commands[i].program = self->commands[made->first[i]].program;
}

void tuff__persistent_free(persistent_launches *self)
{
    tuff__storage_release(self->rows);
    tuff__storage_release(self->counters);
    tuff__free(self->commands);
    tuff__free(self->first);
    tuff__free(self->is_member);
    *self = (persistent_launches){.commands = NULL};
}
