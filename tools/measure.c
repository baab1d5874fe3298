#include "tools/measure.h"

int measure_model(const cli_verb *verb, tuff_device *device, const model_options *of, tuning *tune, known_plans *plans)
{
    tuff_compile_options options = {.fuse = TUFF_FUSE_ALL};
    int code = EXIT_DONE;
    tuning_apply(tune, &options);
    if (known_plans_create(device, &of->model, of->batch, false, &options, plans) != TUFF_OK)
        code = cli_fail_library(verb, "compiling the model");
    for (int i = 0; i < KNOWN_COUNT && code == EXIT_DONE; i++)
        if (!tuning_end(tune, plans->items[i].plan))
            code = EXIT_FAILED;
    return code;
}
