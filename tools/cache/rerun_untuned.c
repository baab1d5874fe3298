/* Replaces rerun.c if the library is built without its tuner (TUFF_AUTOTUNE=OFF). */
#include "tools/cache/rerun.h"

static int refuse(const cli_verb *verb)
{
    return cli_fail(verb, CACHE_ERROR, "cannot measure: tuff was built without its tuner");
}

int cache_rerun(const cli_verb *verb, const char *device, const model_options *options, int most, bool json)
{
    (void)device, (void)options, (void)most, (void)json;
    return refuse(verb);
}

int cache_measure_begin(const cli_verb *verb, const char *device, const model_options *options, tuff_device **out)
{
    (void)device, (void)options;
    *out = NULL;
    return refuse(verb);
}

int cache_measure(const cli_verb *verb, tuff_device *device, const model_options *options, tuff_tune_mode mode)
{
    (void)device, (void)options, (void)mode;
    return refuse(verb);
}
