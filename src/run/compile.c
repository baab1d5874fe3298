/* tuff_compile: from a graph to a plan that is recorded, with the configurations that the tuner has for its tasks. */
#include "device/device.h"
#include "kernels/tunables.h"
#include "run/background.h"
#include "run/controls.h"
#include "run/plan.h"
#include "run/tuner.h"

/* *out is set after a failure, too, where there is anything to destroy. */
static tuff_status compile(tuff_graph *graph, const tuff_compile_options *options, tuff_plan **out)
{
    const choice passes = tuff__controls_passes();
    const char *absence = tuff__device_library_absence(graph->device);
    if (options->matmul_library != TUFF_MATMUL_OWN && absence != NULL)
        return FAIL(TUFF_E_UNSUPPORTED, "compile: %s", absence);
    TRY(tuff__plan_create(graph, options, &passes, out));
    if ((*out)->reference != NULL)
        return TUFF_OK;
    TRY(tuff__tune(*out, options));
    TRY(tuff__plan_record(*out));
    return options->tune_background ? tuff__background_start(*out, options) : TUFF_OK;
}

static bool options_are_legal(const tuff_compile_options *options)
{
    return (options->fuse == TUFF_FUSE_ALL || options->fuse == TUFF_FUSE_NONE) &&
           (unsigned)options->family < FAMILY_COUNT && options->tune >= TUFF_TUNE_CACHED &&
           options->tune <= TUFF_TUNE_MAX && options->tune_environment >= TUFF_TUNE_ENVIRONMENT_DEFAULTS &&
           options->tune_environment <= TUFF_TUNE_ENVIRONMENT_ALL && options->tune_isolate >= TUFF_ISOLATE_AUTO &&
           options->tune_isolate <= TUFF_ISOLATE_OFF &&
           (options->matmul_library == TUFF_MATMUL_OWN || options->matmul_library == TUFF_MATMUL_CLBLAST);
}

/* Tuning in the background changes the bits of results, by what it measures. */
static bool may_tune_later(const tuff_compile_options *options)
{
    return options->tune_background && options->tune >= TUFF_TUNE_QUICK && !options->deterministic &&
           options->tune_manifest == NULL;
}

tuff_plan *tuff_compile(tuff_graph *graph, const tuff_compile_options *options)
{
    tuff_compile_options asked = {.fuse = TUFF_FUSE_ALL};
    if (options != NULL)
        asked = *options;
    if (graph == NULL || !options_are_legal(&asked)) {
        FAIL(TUFF_E_USAGE, graph == NULL
                               ? "compile: the graph is NULL"
                               : "compile: unknown fuse mode, kernel family, library, tune mode or isolation");
        return NULL;
    }
    if (asked.tune_background && !may_tune_later(&asked)) {
        FAIL(TUFF_E_USAGE, "compile: tune_background needs tune to be quick, normal or max, and goes neither with "
                           "deterministic nor with a manifest");
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
    tuff__controls_apply(&asked);
    asked.tune_background = may_tune_later(&asked);
    tuff_plan *plan = NULL;
    if (compile(graph, &asked, &plan) == TUFF_OK)
        return plan;
    tuff_plan_destroy(plan);
    return NULL;
}
