/* tuff_compile: from a graph to a recorded plan, with the tuner's configurations for its tasks. The stages are in
   compile/fit.h; tune_plan.c connects plan and tuner. */
#include "base/log.h"
#include "device/device.h"
#include "device/target.h"
#include "kernels/tunables.h"
#include "worker/background.h"
#include "api/controls.h"
#include "exec/tune_options.h"
#include "exec/plan.h"
#include "api/tuner.h"

#include <stdio.h>

/* Sets *out after a failure too, if there is a plan to destroy. */
static tuff_status compile(tuff_graph *graph, const tuff_compile_options *options, tuff_plan **out)
{
    const tune_config passes = tuff__controls_passes();
    /* Asking loads the library. */
    const char *absence =
        options->matmul_library != TUFF_MATMUL_OWN ? tuff__device_library_unavailable_reason(graph->device) : NULL;
    if (absence != NULL)
        return FAIL(TUFF_E_UNSUPPORTED, "compile: %s", absence);
    TRY(tuff__plan_create(graph, options, &passes, out));
    if ((*out)->reference != NULL)
        return TUFF_OK;
    if (options->precision != TUFF_PRECISION_F32 && !tuff__device_target(graph->device).stores_narrow)
        tuff__log(TUFF_LOG_WARNING,
                  "compile: %s cannot store 16-bit values: they are rounded to 16 bits, but take 32 bits of memory",
                  tuff__device_info(graph->device)->selector);
    TRY(tuff__tune(*out, options));
    TRY(tuff__plan_record(*out));
    return tuff__tune_options(options)->background ? tuff__background_start(*out, options) : TUFF_OK;
}

/* Options may come through bindings of other languages, whose enumerations check nothing. */
static bool tuning_is_legal(const tuff_tune_options *tuning)
{
    return tuning->mode >= TUFF_TUNE_CACHED && tuning->mode <= TUFF_TUNE_MAX &&
           tuning->environment >= TUFF_TUNE_ENVIRONMENT_DEFAULTS && tuning->environment <= TUFF_TUNE_ENVIRONMENT_ALL &&
           tuning->isolation >= TUFF_ISOLATE_AUTO && tuning->isolation <= TUFF_ISOLATE_OFF;
}

static bool options_are_legal(const tuff_compile_options *options)
{
    return (options->fuse == TUFF_FUSE_ALL || options->fuse == TUFF_FUSE_NONE) &&
           (unsigned)options->family < FAMILY_COUNT &&
           (options->matmul_library == TUFF_MATMUL_OWN || options->matmul_library == TUFF_MATMUL_CLBLAST) &&
           options->precision >= TUFF_PRECISION_F32 && options->precision <= TUFF_PRECISION_BF16 &&
           options->matmul_precision >= TUFF_PRECISION_F32 && options->matmul_precision <= TUFF_PRECISION_BF16 &&
           tuning_is_legal(options->tuning);
}

/* Whether the options allow background tuning, which changes the bits of results depending on measurements. */
static bool may_tune_later(const tuff_tune_options *tuning)
{
    return tuning->background && tuning->mode >= TUFF_TUNE_QUICK && !tuning->deterministic && tuning->manifest == NULL;
}

tuff_plan *tuff_compile(tuff_graph *graph, const tuff_compile_options *options)
{
    tuff_compile_options effective_options = {.fuse = TUFF_FUSE_ALL};
    if (options != NULL)
        effective_options = *options;
    tuff_tune_options tuning = *tuff__tune_options(&effective_options);
    effective_options.tuning = &tuning;
    if (graph == NULL || !options_are_legal(&effective_options)) {
        FAIL(TUFF_E_USAGE,
             graph == NULL ? "compile: the graph is NULL"
                           : "compile: unknown fuse mode, kernel family, library, precision, tune mode or isolation");
        return NULL;
    }
    if (tuning.background && (!may_tune_later(&tuning) || effective_options.describe_only)) {
        FAIL(TUFF_E_USAGE, "compile: background tuning needs the mode quick, normal or max, and cannot be "
                           "combined with deterministic, a manifest or describe_only");
        return NULL;
    }
    const bool describes_only = graph->device != NULL && tuff__device_describes_only(graph->device);
    if (describes_only && (!effective_options.describe_only || tuning.mode >= TUFF_TUNE_QUICK)) {
        FAIL(TUFF_E_USAGE, "compile: the device only describes plans (tuff_device_set_describe_only): set the option "
                           "describe_only, and no mode of tuning that measures");
        return NULL;
    }
    if (graph->status != TUFF_OK) {
        FAIL(graph->status, "%s", graph->message);
        return NULL;
    }
    if (graph->output_count == 0 && graph->assign_count == 0) {
        FAIL(TUFF_E_USAGE, "compile: the graph has no outputs and no assignments: call tuff_output or tuff_assign");
        return NULL;
    }
    /* After the program's own options were checked: a variable must not turn a legal call into an error. Combinations
       that it makes illegal are resolved below, without one. */
    tuff__controls_apply(&tuning);
    tuning.background = may_tune_later(&tuning);
    if (tuning.background && effective_options.describe_only) { /* from the environment */
        tuning.background = false;
        tuning.mode = TUFF_TUNE_CACHED;
    }
    if (describes_only && tuning.mode >= TUFF_TUNE_QUICK) /* from the environment */
        tuning.mode = TUFF_TUNE_CACHED;
    tuff_plan *plan = NULL;
    const tuff_status status = compile(graph, &effective_options, &plan);
    if (status == TUFF_OK)
        return plan;
    /* Destroying the plan may fail with another error, which must not hide why compiling failed. */
    char reason[TUFF_ERROR_SIZE];
    (void)snprintf(reason, sizeof reason, "%s", tuff_error());
    tuff_plan_destroy(plan);
    FAIL(status, "%s", reason);
    return NULL;
}
