#include "tools/measure.h"

#include <stdio.h>

#include "run/controls.h"
#include "run/tuner.h"
#include "tools/supervise.h"
#include "tune/guard.h"

/* Each plan has the budget that is asked for. What processes of this command that were ended have used of theirs is
   taken off, of the first plan's first: a command that is started again does not measure for longer. */
static void share_budget(const cli_verb *verb, const tuff_tune_options *asked, tuff_tune_options *out)
{
    tuff_tune_options seen = *asked;
    tuff__controls_apply(&seen);
    const uint64_t budget = tuff__tune_budget(&seen) / 1000000;
    uint64_t spent = supervised_before(), left = 0;
    for (int i = 0; i < KNOWN_COUNT; i++) {
        out[i] = *asked;
        const uint64_t used = spent < budget ? spent : budget;
        if (used > 0) /* 0 milliseconds would be the whole budget */
            out[i].milliseconds = (uint32_t)(used < budget ? budget - used : 1);
        left += budget - used;
        spent -= used;
    }
    if (supervised_before() > 0 && budget > 0)
        fprintf(stderr, "tuff %s: %.1f s of the budget are left\n", verb->name, (double)left * 1e-3);
}

int measure_model(const cli_verb *verb, tuff_device *device, const model_options *of, tuning *tune, known_plans *plans)
{
    tuff_compile_options asked = {.fuse = TUFF_FUSE_ALL}, each[KNOWN_COUNT];
    tuff_tune_options budgets[KNOWN_COUNT];
    int code = EXIT_DONE;
    tuning_apply(tune, &asked);
    share_budget(verb, asked.tuning, budgets);
    for (int i = 0; i < KNOWN_COUNT; i++) {
        each[i] = asked;
        each[i].tuning = &budgets[i];
    }
    if (known_plans_create_each(device, &of->model, of->batch, false, each, plans) != TUFF_OK)
        code = cli_fail_library(verb, "compiling the model");
    else if (tuff__tune_is_supervised && atomic_load(&tuff__tune_is_off) && !cli_is_interrupted())
        code = EXIT_AGAIN;
    for (int i = 0; i < KNOWN_COUNT && code == EXIT_DONE; i++)
        if (!tuning_end(tune, plans->items[i].plan))
            code = EXIT_FAILED;
    return code;
}
