/* What a plan consists of, for people and tests. */
#include <string.h>

#include "run/background.h"
#include "run/tuner.h"

static const char *kind_of(const tuff_plan *plan, const launch *of)
{
    static const char *const kinds[] = {"map", "row", "column", "matmul", "cumsum", "scatter", "attention", ""};
    if (of->kind == LAUNCH_COPY)
        return "copy";
    if (of->task < 0)
        return "convert";
    const task_kind kind = plan->fusion.tasks[of->task].kind;
    if (kind == TASK_MATMUL && strncmp(of->body, "matmul", 6) != 0)
        return "pack";
    if (kind == TASK_ATTENTION && strncmp(of->body, "attention", 9) != 0)
        return "pack";
    return kinds[kind];
}

/* The ops of a chain in the order of the kernel, each run of equal ones once. */
static void list_ops(const launch *of, text *out, int *count)
{
    const char *last = "";
    for (int i = 0; i < of->chain.value_count; ++i) {
        const chain_value *value = &of->chain.values[i];
        const char *name = value->kind == VALUE_OP       ? tuff__op_info(value->op)->name
                           : value->kind == VALUE_LOOKUP ? "gather"
                           : value->kind == VALUE_RANDOM ? "random"
                           : value->kind == VALUE_RESULT && of->walk != WALK_MATMUL
                               ? tuff__op_info(of->chain.reductions[value->index].op)->name
                               : NULL;
        if (name == NULL)
            continue;
        ++*count;
        if (strcmp(name, last) != 0 && out->length < 160)
            tuff__text_add(out, " %s", name);
        last = name;
    }
}

/* Different elements at an address, over the axes that it moves along. */
static uint64_t elements_at(const fused_chain *chain, const affine *address, bool loops)
{
    uint64_t count = 1;
    for (int i = 0; i < chain->rank; ++i)
        if (address->stride[i] != 0 && (loops || chain->classes[i] != AXIS_LOOP))
            count *= (uint64_t)chain->extent[i];
    return count;
}

/* Values of producers come first; their addresses walk other axes than the result's. */
static int produced_count(const fused_chain *chain)
{
    return chain->producers[0].end > chain->producers[1].end ? chain->producers[0].end : chain->producers[1].end;
}

/* What a launch reads or writes of one of its buffers: what its chain says, but no more than there is; all of it where
   the body moves through it by itself. */
static uint64_t bytes_of(const tuff_plan *plan, const launch *of, int buffer, bool written)
{
    const fused_chain *chain = &of->chain;
    const int id = chain->buffers[buffer].id;
    const memory_buffer *memory = &plan->made.lowered.buffers[id];
    const uint64_t size = tuff_dtype_size(memory->dtype);
    uint64_t whole = tuff__buffer_size(memory) / size, count = 0;
    if (plan->graph != NULL && id < plan->graph->node_count)
        whole = (uint64_t)tuff_shape_count(plan->graph->nodes[id]->outputs[0].shape);
    for (int i = produced_count(chain); i < chain->value_count && !written; ++i) {
        const chain_value *value = &chain->values[i];
        if ((value->kind == VALUE_LOAD || value->kind == VALUE_LOOKUP) && value->buffer == buffer)
            count += elements_at(chain, &value->address, true);
    }
    for (int i = 0; i < chain->output_count && written; ++i)
        if (chain->outputs[i].buffer == buffer)
            count += elements_at(chain, &chain->outputs[i].address, chain->outputs[i].every_point);
    return (count == 0 || count > whole ? whole : count) * size;
}

tuff_status tuff__describe_launch(const tuff_plan *plan, int index, task_record *out)
{
    const launch *of = &plan->made.lowered.launches[index];
    text label = {0};
    out->kind = kind_of(plan, of);
    tuff__text_add(&label, "%s", out->kind);
    out->op_count = strncmp(of->body, "matmul", 6) == 0 || strncmp(of->body, "attention", 9) == 0 ||
                    of->walk == WALK_SCAN || of->kind == LAUNCH_COPY;
    list_ops(of, &label, &out->op_count);
    out->operations = of->operations;
    out->items = 1;
    for (int i = 0; i < of->chain.rank; ++i)
        out->items *= (uint64_t)of->chain.extent[i];
    if (of->chain.rank == 0 && of->kind != LAUNCH_COPY)
        out->items = of->groups * of->local_size;
    for (int i = 0; i < of->chain.buffer_count; ++i) {
        out->bytes_read += of->chain.buffers[i].read ? bytes_of(plan, of, i, false) : 0;
        out->bytes_written += of->chain.buffers[i].written ? bytes_of(plan, of, i, true) : 0;
    }
    if (of->kind == LAUNCH_COPY)
        out->bytes_read = out->bytes_written = tuff__buffer_size(&plan->made.lowered.buffers[of->copy_to]);
    const tuff_status status = tuff__text_status(&label);
    if (status == TUFF_OK)
        out->label = tuff__strdup(tuff__text_get(&label));
    tuff__text_free(&label);
    return status == TUFF_OK && out->label == NULL ? TUFF_E_OOM_HOST : status;
}

tuff_status tuff_plan_describe(const tuff_plan *plan, tuff_plan_info *info)
{
    if (plan == NULL || info == NULL)
        return FAIL(TUFF_E_USAGE, "plan: the %s is NULL", plan == NULL ? "plan" : "info");
    *info = (tuff_plan_info){.task_count = plan->made.command_count};
    for (int i = 0; i < plan->made.command_count; ++i) {
        const bool copy = plan->made.commands[i].kind == COMMAND_COPY;
        info->copy_count += copy;
        info->dispatch_count += !copy;
        bool fresh = plan->made.programs[i] != NULL;
        for (int k = 0; k < i && fresh; ++k)
            fresh = plan->made.programs[k] != plan->made.programs[i];
        info->program_count += fresh;
    }
    info->node_count = plan->graph == NULL ? 0 : plan->graph->node_count;
    info->memory_peak = plan->made.lowered.peak;
    info->memory_unplanned = plan->made.lowered.unplanned;
    info->constant_size = plan->made.lowered.constant_size;
    info->run_nanoseconds = plan->profiled;
    return TUFF_OK;
}

tuff_status tuff_plan_tune_stats(const tuff_plan *plan, tuff_tune_stats *stats)
{
    if (plan == NULL || stats == NULL)
        return FAIL(TUFF_E_USAGE, "plan: the %s is NULL", plan == NULL ? "plan" : "stats");
    *stats = plan->tuning;
    tuff__background_count(plan->background, stats);
    return plan->has_uncounted_keys ? tuff__tuner_count(plan, stats) : TUFF_OK;
}

tuff_status tuff_plan_task(const tuff_plan *plan, int index, tuff_task_info *info)
{
    if (plan == NULL || info == NULL || index < 0 || index >= plan->made.command_count)
        return FAIL(TUFF_E_USAGE, "plan: there is no task %d", index);
    const task_record *record = &plan->made.records[index];
    *info = (tuff_task_info){.kind = record->kind,
                             .label = record->label,
                             .program = record->name,
                             .source = record->source,
                             .op_count = record->op_count,
                             .items = record->items,
                             .bytes_read = record->bytes_read,
                             .bytes_written = record->bytes_written,
                             .operations = record->operations,
                             .nanoseconds = record->nanoseconds};
    return TUFF_OK;
}

/* Whatever a driver leaves for a kernel's first run, and pages that nobody touched before, are no part of a profile: a
   plan that never ran runs once before. */
static tuff_status warm_up(tuff_plan *plan)
{
    if (!plan->has_run)
        TRY(tuff_plan_run(plan));
    return tuff__wait(plan->device);
}

static tuff_status run_timed(tuff_plan *plan, recording *timed, uint64_t *nanoseconds)
{
    const uint64_t begin = tuff__nanoseconds();
    const tuff_status submitted = tuff__submit(plan->device, timed);
    tuff__touch_assigned(plan);
    TRY(submitted);
    TRY(tuff__wait(plan->device));
    plan->profiled = tuff__nanoseconds() - begin;
    TRY(tuff__timestamps(plan->device, timed, nanoseconds));
    for (int i = plan->made.setup_count; i < plan->made.command_count; ++i)
        plan->made.records[i].nanoseconds = nanoseconds[i - plan->made.setup_count];
    return TUFF_OK;
}

tuff_status tuff_plan_profile(tuff_plan *plan)
{
    if (plan == NULL)
        return FAIL(TUFF_E_USAGE, "profile: the plan is NULL");
    if (plan->reference != NULL || plan->made.recording == NULL)
        return FAIL(TUFF_E_UNSUPPORTED, "profile: there is nothing on a device to time");
    for (int i = 0; i < plan->made.lowered.input_count; ++i)
        if (!plan->written[i])
            return FAIL(TUFF_E_USAGE, "profile: the input \"%s\" was never written", plan->made.lowered.inputs[i].name);
    recording *timed;
    TRY(warm_up(plan)); /* whose run may change the commands */
    TRY(tuff__recording_create(plan->device, plan->made.commands + plan->made.setup_count,
                               plan->made.command_count - plan->made.setup_count, true, true, &timed));
    uint64_t *nanoseconds = tuff__calloc((size_t)plan->made.command_count, sizeof *nanoseconds);
    const tuff_status status = nanoseconds == NULL ? TUFF_E_OOM_HOST : run_timed(plan, timed, nanoseconds);
    tuff__free(nanoseconds);
    tuff__recording_destroy(plan->device, timed);
    return status;
}
