/* Plans: compiled once, recorded once, run many times. */
#include "run/plan.h"

#include <stdio.h>

#include "compile/simplify.h"
#include "run/background.h"
#include "run/controls.h"
#include "run/fit.h"
#include "run/refused.h"
#include "run/tuner.h"

static tuff_status compile_for_driver(tuff_plan *plan, tuff_graph *graph, const tuff_compile_options *options)
{
    TRY(tuff__fit(plan, graph, options));
    TRY(tuff__tune(plan, graph, options));
    plan->written = tuff__calloc((size_t)plan->made.lowered.input_count + 1, sizeof *plan->written);
    if (plan->written == NULL)
        return TUFF_E_OOM_HOST;
    if (plan->made.commands == NULL)
        TRY(tuff__record(plan));
    return tuff__tune_options(options)->background ? tuff__background_start(plan, options) : TUFF_OK;
}

static tuff_status compile(tuff_plan *plan, tuff_graph *graph, const tuff_compile_options *options)
{
    const char *absence = tuff__device_library_absence(plan->device);
    if (options->matmul_library != TUFF_MATMUL_OWN && absence != NULL)
        return FAIL(TUFF_E_UNSUPPORTED, "compile: %s", absence);
    if (!tuff__device_is_reference(plan->device))
        return compile_for_driver(plan, graph, options);
    plan->graph = tuff__simplify(graph, true);
    if (plan->graph == NULL)
        return tuff_last_status() == TUFF_OK ? TUFF_E_OOM_HOST : tuff_last_status();
    const tuff_status status = tuff__reference_create(plan->graph, &plan->reference);
    if (status == TUFF_OK)
        plan->graph = NULL; /* the executor owns it now */
    return status;
}

static bool tuning_is_legal(const tuff_tune_options *tuning)
{
    return tuning->mode >= TUFF_TUNE_CACHED && tuning->mode <= TUFF_TUNE_MAX &&
           tuning->environment >= TUFF_TUNE_ENVIRONMENT_DEFAULTS && tuning->environment <= TUFF_TUNE_ENVIRONMENT_ALL &&
           tuning->isolation >= TUFF_ISOLATE_AUTO && tuning->isolation <= TUFF_ISOLATE_OFF;
}

static bool options_are_legal(const tuff_compile_options *options)
{
    return (options->fuse == TUFF_FUSE_ALL || options->fuse == TUFF_FUSE_NONE) &&
           (options->family == TUFF_FAMILY_DEVICE || options->family == TUFF_FAMILY_REGISTER ||
            options->family == TUFF_FAMILY_LOCAL || options->family == TUFF_FAMILY_SUBGROUP ||
            options->family == TUFF_FAMILY_COOPERATIVE) &&
           (options->matmul_library == TUFF_MATMUL_OWN || options->matmul_library == TUFF_MATMUL_CLBLAST) &&
           tuning_is_legal(options->tuning);
}

/* Tuning in the background changes the bits of results, by what it measures. */
static bool may_tune_later(const tuff_tune_options *tuning)
{
    return tuning->background && tuning->mode >= TUFF_TUNE_QUICK && !tuning->deterministic && tuning->manifest == NULL;
}

tuff_plan *tuff_compile(tuff_graph *graph, const tuff_compile_options *options)
{
    tuff_compile_options asked = {.fuse = TUFF_FUSE_ALL};
    if (options != NULL)
        asked = *options;
    tuff_tune_options tuning = *tuff__tune_options(&asked);
    asked.tuning = &tuning;
    if (graph == NULL || !options_are_legal(&asked)) {
        FAIL(TUFF_E_USAGE, graph == NULL
                               ? "compile: the graph is NULL"
                               : "compile: unknown fuse mode, kernel family, library, tune mode or isolation");
        return NULL;
    }
    if (tuning.background && !may_tune_later(&tuning)) {
        FAIL(TUFF_E_USAGE, "compile: tuning in the background needs the mode quick, normal or max, and cannot be "
                           "combined with deterministic or a manifest");
        return NULL;
    }
    if (graph->status != TUFF_OK) {
        FAIL(graph->status, "%s", graph->message);
        return NULL;
    }
    if (graph->output_count == 0 && graph->assign_count == 0) {
        FAIL(TUFF_E_USAGE, "compile: the graph has no outputs and assigns nothing: call tuff_output or tuff_assign");
        return NULL;
    }
    tuff_plan *plan = tuff__calloc(1, sizeof *plan);
    if (plan == NULL)
        return NULL;
    plan->device = graph->device;
    plan->begun = tuff__nanoseconds();
    plan->barrier_everywhere = asked.barrier_everywhere;
    tuff__controls_apply(&tuning);
    tuning.background = may_tune_later(&tuning);
    const tuff_status status = compile(plan, graph, &asked);
    if (status == TUFF_OK)
        return plan;
    /* Destroying it may fail in ways of its own, which must not hide why compiling did. */
    char reason[TUFF_ERROR_SIZE];
    (void)snprintf(reason, sizeof reason, "%s", tuff_error());
    tuff_plan_destroy(plan);
    FAIL(status, "%s", reason);
    return NULL;
}

/* What was launched, by the plan or the tuner, is worth another start's time. */
static void keep_programs(tuff_plan *plan)
{
    const bool launched = plan->has_run || plan->tuning.measured > 0;
    if (plan->made.programs != NULL && !plan->is_for_once)
        tuff__programs_keep(plan->device, plan->made.programs, plan->made.command_count, launched,
                            tuff__nanoseconds() - plan->begun);
}

void tuff_plan_destroy(tuff_plan *plan)
{
    if (plan == NULL)
        return;
    tuff__background_stop(plan->background);
    keep_programs(plan);
    tuff__unrecord(plan);
    tuff__plan_keys_free(plan);
    tuff__free(plan->written);
    tuff__lowered_free(&plan->made.lowered);
    tuff__background_free(plan->background);
    tuff__fusion_free(&plan->fusion);
    tuff__reference_destroy(plan->reference);
    tuff_graph_destroy(plan->graph);
    tuff__free(plan);
}

/* first: index of the recording's first command. */
static tuff_status submit(const tuff_plan *plan, recording *of, int first)
{
    const tuff_status status = tuff__submit(plan->device, of);
    return status == TUFF_OK ? status : tuff__refused_launch(plan, of, first, status);
}

/* Makes the kept copies anew where what they were made from has changed since. */
static tuff_status refresh_copies(tuff_plan *plan)
{
    bool changed = false;
    for (int i = 0; i < plan->made.lowered.copy_count && plan->made.setup != NULL; ++i) {
        const packed_copy *copy = &plan->made.lowered.copies[i];
        uint64_t version = 1; /* none goes back, so that their sum tells whether one went on */
        for (int k = 0; k < copy->source_count; ++k)
            version += tuff__storage_version(plan->made.lowered.buffers[copy->sources[k]].storage);
        if (copy->kept == NULL || plan->made.versions[i] == version)
            continue;
        changed = true;
        plan->made.versions[i] = version;
    }
    if (!changed)
        return TUFF_OK;
    const tuff_status status = submit(plan, plan->made.setup, 0);
    for (int i = 0; i < plan->made.lowered.copy_count && status != TUFF_OK; ++i)
        plan->made.versions[i] = 0;
    return status;
}

void tuff__touch_assigned(const tuff_plan *plan)
{
    for (int i = 0; i < plan->graph->assign_count; ++i)
        tuff__storage_touch(plan->graph->assigns[i]->attributes.array->storage);
}

tuff_status tuff_plan_run(tuff_plan *plan)
{
    if (plan == NULL)
        return FAIL(TUFF_E_USAGE, "run: the plan is NULL");
    if (plan->reference != NULL)
        return tuff__reference_run(plan->reference);
    for (int i = 0; i < plan->made.lowered.input_count; ++i)
        if (!plan->written[i])
            return FAIL(TUFF_E_USAGE, "run: the input \"%s\" %s was never written", plan->made.lowered.inputs[i].name,
                        SHAPE_TEXT(plan->made.lowered.inputs[i].shape));
    tuff__background_swap(plan);
    TRY(refresh_copies(plan));
    const tuff_status status =
        plan->made.recording == NULL ? TUFF_OK : submit(plan, plan->made.recording, plan->made.setup_count);
    plan->has_run |= status == TUFF_OK;
    tuff__touch_assigned(plan);
    return status;
}

tuff_status tuff_plan_wait(tuff_plan *plan)
{
    if (plan == NULL)
        return FAIL(TUFF_E_USAGE, "wait: the plan is NULL");
    return plan->reference != NULL ? TUFF_OK : tuff__wait(plan->device);
}
