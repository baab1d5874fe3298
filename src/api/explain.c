/* Describes a compiled plan, its launches and their times, for people and tests. */
#include <string.h>

#include "api/tuner.h"

/* Whether the kernel reads an operand as 16-bit elements. Not so if a producer computes the operand's elements,
   whatever the producer reads. */
static bool reads_narrow(const launch_list *list, const fused_chain *chain, int operand)
{
    const int id = chain->buffers[chain->operand_buffers[operand]].id;
    return !tuff__is_produced(chain, operand) && tuff_dtype_size(list->buffers[id].dtype) == 2;
}

/* The bodies of all families of products have names that begin so. */
static void count_matmuls(const launch_list *list, tuff_plan_info *info)
{
    for (int i = 0; i < list->launch_count; ++i) {
        const launch *kernel = &list->launches[i];
        if (strncmp(kernel->body, "matmul", strlen("matmul")) != 0)
            continue;
        ++info->matmul_count;
        info->narrow_matmul_count += reads_narrow(list, &kernel->chain, 0) && reads_narrow(list, &kernel->chain, 1);
    }
}

/* Counts distinct kernels, because a plan that is only described has no programs. */
static int count_programs(const executable *self)
{
    int count = 0;
    for (int i = 0; i < self->command_count; ++i) {
        const task_record *record = &self->records[i];
        bool is_new = record->source != NULL;
        for (int k = 0; k < i && is_new; ++k)
            is_new = !tuff__is_same_hash(self->records[k].source_hash, record->source_hash) ||
                     strcmp(self->records[k].name, record->name) != 0;
        count += is_new;
    }
    return count;
}

tuff_status tuff_plan_describe(const tuff_plan *plan, tuff_plan_info *info)
{
    if (plan == NULL || info == NULL)
        return FAIL(TUFF_E_USAGE, "plan: the %s is NULL", plan == NULL ? "plan" : "info");
    *info = (tuff_plan_info){.task_count = plan->executable.command_count};
    for (int i = 0; i < plan->executable.command_count; ++i) {
        const bool copy = plan->executable.commands[i].kind == COMMAND_COPY;
        info->copy_count += copy;
        info->dispatch_count += !copy;
    }
    info->program_count = count_programs(&plan->executable);
    count_matmuls(&plan->executable.launches, info);
    info->node_count = plan->graph == NULL ? 0 : plan->graph->node_count;
    info->memory_peak = plan->executable.launches.peak;
    info->memory_unplanned = plan->executable.launches.unplanned;
    info->constant_size = plan->executable.launches.constant_size;
    info->run_nanoseconds = plan->profiled_nanoseconds;
    return TUFF_OK;
}

/* Counting keys opens the stores, so a plan for which nothing was stored counts them only if somebody asks. */
tuff_status tuff_plan_tune_stats(const tuff_plan *plan, tuff_tune_stats *stats)
{
    if (plan == NULL || stats == NULL)
        return FAIL(TUFF_E_USAGE, "plan: the %s is NULL", plan == NULL ? "plan" : "stats");
    *stats = plan->tuning;
    if (plan->observer.count != NULL)
        plan->observer.count(plan->observer.self, stats);
    return plan->has_uncounted_keys ? tuff__plan_count_keys(plan, stats) : TUFF_OK;
}

tuff_status tuff_plan_task(const tuff_plan *plan, int index, tuff_task_info *info)
{
    if (plan == NULL || info == NULL || index < 0 || index >= plan->executable.command_count)
        return FAIL(TUFF_E_USAGE, "plan: no task has index %d", index);
    const task_record *record = &plan->executable.records[index];
    *info = (tuff_task_info){.kind = record->kind,
                             .label = record->label,
                             .program = record->name,
                             .source = record->source,
                             .op_count = record->op_count,
                             .items = record->items,
                             .bytes_read = record->bytes_read,
                             .bytes_written = record->bytes_written,
                             .operations = record->operations,
                             .nanoseconds = record->nanoseconds,
                             .start = record->start,
                             .phase = record->phase};
    return TUFF_OK;
}

/* Keeps one-time costs out of a profile: the driver's work at a kernel's first run, and memory that was never touched
   before. A plan that never ran runs once first. Weights of which the plan keeps repacked copies may have changed since
   its last run, so these are refreshed. */
static tuff_status warm_up(tuff_plan *plan)
{
    if (!plan->has_run)
        TRY(tuff_plan_run(plan));
    TRY(tuff__executable_submit(&plan->executable, NULL, NULL, NULL, NULL));
    return tuff__wait(plan->device);
}

/* Runs the plan once with timestamps: times gets how long each command takes, and starts, unless NULL, when it begins,
   *wall the time of the run. */
static tuff_status run_timed(tuff_plan *plan, command *commands, int count, uint64_t *times, uint64_t *starts,
                             uint64_t *wall)
{
    recording *timed;
    TRY(tuff__recording_create(plan->device, commands, count, starts != NULL, true, &timed));
    const uint64_t begin = tuff__nanoseconds();
    tuff_status status = tuff__plan_submit(plan, timed, NULL);
    if (status == TUFF_OK)
        status = tuff__wait(plan->device);
    *wall = tuff__nanoseconds() - begin;
    if (status == TUFF_OK)
        status = tuff__timestamps(plan->device, timed, times);
    if (status == TUFF_OK && starts != NULL)
        status = tuff__start_times(plan->device, timed, starts);
    tuff__recording_destroy(plan->device, timed);
    return status;
}

/* Times each launch alone. */
static tuff_status profile_launches(tuff_plan *plan, uint64_t *times, uint64_t *starts)
{
    executable *self = &plan->executable;
    const int first = self->setup_count, count = self->command_count - first;
    TRY(tuff__executable_complete_programs(self));
    TRY(run_timed(plan, self->commands + first, count, times, starts, &plan->profiled_nanoseconds));
    for (int i = 0; i < count; ++i) {
        self->records[first + i].nanoseconds = times[i];
        self->records[first + i].start = starts[i];
    }
    return TUFF_OK;
}

/* The reference device and plans without launches have no times to report. */
static tuff_status check_profiled(const char *call, const tuff_plan *plan)
{
    TRY(tuff__plan_check_run(call, plan));
    if (plan->reference != NULL || plan->executable.recording == NULL)
        return FAIL(TUFF_E_UNSUPPORTED, "%s: the plan runs nothing on a device", call);
    return TUFF_OK;
}

tuff_status tuff_plan_profile(tuff_plan *plan)
{
    TRY(check_profiled("profile", plan));
    TRY(warm_up(plan)); /* its run may change the commands */
    const size_t count = (size_t)plan->executable.command_count;
    uint64_t *times = tuff__calloc(2 * count, sizeof *times);
    const tuff_status status = times == NULL ? TUFF_E_OOM_HOST : profile_launches(plan, times, times + count);
    tuff__free(times);
    return status;
}

tuff_status tuff_plan_run_timed(tuff_plan *plan, uint64_t *nanoseconds, uint64_t *kernel_nanoseconds)
{
    TRY(check_profiled("run", plan));
    if (nanoseconds == NULL || kernel_nanoseconds == NULL)
        return FAIL(TUFF_E_USAGE, "run: no place for the times");
    TRY(warm_up(plan));
    int count;
    command *commands = tuff__executable_run_commands(&plan->executable, &count);
    uint64_t *times = tuff__calloc((size_t)count, sizeof *times);
    const tuff_status status =
        times == NULL ? TUFF_E_OOM_HOST : run_timed(plan, commands, count, times, NULL, nanoseconds);
    *kernel_nanoseconds = 0;
    for (int i = 0; i < count && status == TUFF_OK; ++i)
        *kernel_nanoseconds += times[i];
    tuff__free(times);
    return status;
}
