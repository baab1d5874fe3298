/* Plans: created once, recorded once, run many times. */
#include "exec/plan.h"

#include "compile/rewrite/simplify.h"
#include "compile/fit.h"

static compilation_result plan_result(tuff_plan *self)
{
    return (compilation_result){&self->graph, &self->fusion, &self->passes, &self->executable.launches};
}

/* The reference device evaluates the nodes of the graph one by one: nothing is fused, lowered or tuned, so that its
   results can be compared with those of devices where all of that happens. */
static tuff_status make_reference(tuff_plan *self, tuff_graph *graph)
{
    self->graph = tuff__simplify(graph, true);
    if (self->graph == NULL)
        return tuff__failure_status();
    const tuff_status status = tuff__reference_create(self->graph, &self->reference);
    if (status == TUFF_OK)
        self->graph = NULL; /* now owned by the executor */
    return status;
}

tuff_status tuff__plan_create(tuff_graph *graph, const tuff_compile_options *options, const tune_config *passes,
                              tuff_plan **out)
{
    tuff_plan *self = tuff__calloc(1, sizeof *self);
    *out = NULL;
    if (self == NULL)
        return TUFF_E_OOM_HOST;
    self->device = graph->device;
    self->start_time = tuff__nanoseconds();
    self->barrier_everywhere = options->barrier_everywhere;
    self->describes_only = options->describe_only;
    if (passes != NULL)
        self->passes.chosen = *passes;
    const tuff_status status = tuff__device_is_reference(self->device)
                                   ? make_reference(self, graph)
                                   : tuff__compile_within_budget(self->device, graph, options, plan_result(self));
    if (status != TUFF_OK) {
        tuff_plan_destroy(self);
        return status;
    }
    *out = self;
    return TUFF_OK;
}

/* A plan with barriers everywhere is for finding missing barriers, so its launches must stay separate commands. */
recording_options tuff__plan_recording_options(const tuff_plan *self)
{
    return (recording_options){.barrier_everywhere = self->barrier_everywhere,
                               .merges_launches = !self->barrier_everywhere,
                               .describes_only = self->describes_only};
}

/* The tuner may have recorded the executable already (api/tune_plan.c), to learn whether the driver accepts its
   candidates. */
tuff_status tuff__plan_record(tuff_plan *self)
{
    const recording_options options = tuff__plan_recording_options(self);
    self->written = tuff__calloc((size_t)self->executable.launches.input_count + 1, sizeof *self->written);
    if (self->written == NULL)
        return TUFF_E_OOM_HOST;
    return self->executable.commands == NULL ? tuff__executable_record(&self->executable, &options) : TUFF_OK;
}

void tuff__plan_keys_free(plan_keys *self)
{
    for (int i = 0; i < self->count; ++i) {
        tuff__free(self->items[i].text);
        tuff__free(self->items[i].candidate);
    }
    tuff__free(self->items);
    *self = (plan_keys){.items = NULL};
}

tuff_status tuff__plan_keys_create(plan_keys *self, int count)
{
    tuff__plan_keys_free(self);
    self->items = tuff__calloc((size_t)count + 1, sizeof *self->items);
    if (self->items == NULL)
        return TUFF_E_OOM_HOST;
    self->count = count;
    self->is_listed = true;
    return TUFF_OK;
}

/* Saves the binaries of programs for the next start, in at most a share of the time since the plan's begin. Programs
   that were launched, by the plan or the tuner, are worth saving. */
static void save_programs(tuff_plan *plan)
{
    const bool launched = plan->has_run || plan->tuning.measured > 0;
    if (plan->executable.programs != NULL && !plan->discards_binaries)
        tuff__programs_store(plan->device, plan->executable.programs, plan->executable.command_count + 1, launched,
                             tuff__nanoseconds() - plan->start_time);
}

/* The order matters. The observer's thread uses the plan, so it stops first; binaries are saved while the programs
   still exist; and the observer's memory goes after the executable, which may have come from it. */
void tuff_plan_destroy(tuff_plan *plan)
{
    if (plan == NULL)
        return;
    if (plan->observer.stop != NULL)
        plan->observer.stop(plan->observer.self);
    save_programs(plan);
    tuff__executable_free(&plan->executable);
    tuff__plan_keys_free(&plan->keys);
    tuff__free(plan->written);
    if (plan->observer.free != NULL)
        plan->observer.free(plan->observer.self);
    tuff__fusion_free(&plan->fusion);
    tuff__reference_destroy(plan->reference);
    tuff_graph_destroy(plan->graph);
    tuff__free(plan);
}

/* Called with the device locked. Executables that keep repacked copies of these arrays see the new version in their
   next run and refresh the copies. */
static void mark_assigned_changed(void *state)
{
    const tuff_plan *plan = state;
    for (int i = 0; i < plan->graph->assign_count; ++i)
        tuff__storage_touch(plan->graph->assigns[i]->attributes.array->storage);
}

tuff_status tuff__plan_submit(tuff_plan *plan, recording *recorded, const recording **last)
{
    return tuff__executable_submit(&plan->executable, recorded, mark_assigned_changed, plan, last);
}

tuff_status tuff__plan_check_run(const char *call, const tuff_plan *plan)
{
    if (plan == NULL)
        return FAIL(TUFF_E_USAGE, "%s: the plan is NULL", call);
    if (plan->describes_only)
        return FAIL(TUFF_E_USAGE, "%s: the plan was compiled with describe_only", call);
    /* Memory of inputs begins as zeros, so such a run would give results; but a program that forgot an input must learn
       of it. */
    for (int i = 0; i < plan->executable.launches.input_count; ++i)
        if (!plan->written[i])
            return FAIL(TUFF_E_USAGE, "%s: the input \"%s\" %s was never written", call,
                        plan->executable.launches.inputs[i].name,
                        SHAPE_TEXT(plan->executable.launches.inputs[i].shape));
    return TUFF_OK;
}

/* Only enqueues. The caller waits with tuff_plan_wait, or by reading an output. */
tuff_status tuff_plan_run(tuff_plan *plan)
{
    TRY(tuff__plan_check_run("run", plan));
    if (plan->reference != NULL)
        return tuff__reference_run(plan->reference);
    if (plan->observer.before_run != NULL)
        plan->observer.before_run(plan->observer.self, plan);
    const recording *submitted;
    const tuff_status status = tuff__plan_submit(plan, plan->executable.recording, &submitted);
    plan->has_run |= status == TUFF_OK;
    if (status == TUFF_OK || plan->observer.launch_failed == NULL)
        return status;
    return plan->observer.launch_failed(plan, submitted, status);
}

tuff_status tuff_plan_wait(tuff_plan *plan)
{
    if (plan == NULL)
        return FAIL(TUFF_E_USAGE, "wait: the plan is NULL");
    return plan->reference != NULL ? TUFF_OK : tuff__wait(plan->device);
}
