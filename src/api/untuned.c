/* Replaces tune_plan.c in a library without the tuner (TUFF_AUTOTUNE=OFF): every task runs with its default. Compiling
   and running a plan call nothing else of the tuner. */
#include "api/tuner.h"
#include "base/log.h"
#include "exec/tune_options.h"
#include "worker/background.h"

/* What would change results or was asked for explicitly is an error; asking only for speed is not. */
static tuff_status fail(const char *action)
{
    return FAIL(TUFF_E_UNSUPPORTED, "%s: this library was built without the tuner", action);
}

tuff_status tuff__tune(tuff_plan *plan, const tuff_compile_options *options)
{
    const tuff_tune_options *tuning = tuff__tune_options(options);
    plan->is_tunable = false;
    if (tuning->manifest != NULL)
        return fail("compile: cannot use a manifest");
    if (tuning->mode >= TUFF_TUNE_QUICK)
        tuff__log(TUFF_LOG_WARNING, "tune: nothing is measured: this library was built without the tuner");
    return TUFF_OK;
}

tuff_status tuff__plan_list_keys(tuff_plan *plan)
{
    return tuff__plan_keys_create(&plan->keys, 0);
}

tuff_status tuff__plan_count_keys(const tuff_plan *plan, tuff_tune_stats *stats)
{
    (void)plan;
    stats->tasks = stats->keys = 0;
    return TUFF_OK;
}

tuff_status tuff__background_start(tuff_plan *plan, const tuff_compile_options *options)
{
    (void)plan;
    (void)options;
    return TUFF_OK;
}

tuff_device *tuff_device_open_fastest(const tuff_device_race *race, tuff_device_race_result *result)
{
    (void)race;
    (void)result;
    (void)fail("fastest: cannot compare devices");
    return NULL;
}
