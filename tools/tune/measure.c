/* Measures the keys of a model or a graph, for verbs that do nothing else but tune. */
#include "tools/tune/measure.h"

int measure_model(const cli_verb *verb, tuff_device *device, const model_options *options, tuning *tune,
                  model_plans *plans)
{
    tuff_compile_options compiled = {.fuse = TUFF_FUSE_ALL, .precision = (tuff_precision)options->precision};
    int code = EXIT_DONE;
    tuning_apply(tune, &compiled);
    compiled.describe_only = compiled.tuning->mode < TUFF_TUNE_QUICK && tune->save_manifest == NULL;
    if (model_plans_open(device, options, &compiled, plans) != TUFF_OK)
        code = cli_fail_library(verb, options->file ? "compiling the graph" : "compiling the model");
    for (int i = 0; i < plans->count && code == EXIT_DONE; i++)
        if (!tuning_end(tune, plans->items[i].plan))
            code = EXIT_FAILED;
    return code;
}
