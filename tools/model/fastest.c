/* Opens the device that a model runs fastest on. */
#include "tools/model/fastest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static tuff_plan *enter(tuff_device *device, void *user, void **entry)
{
    const fastest_work *work = user;
    const tuff_compile_options options = {.fuse = TUFF_FUSE_ALL};
    known_plans *plans = tuff__calloc(1, sizeof *plans);
    *entry = plans;
    if (!plans || known_plans_create(device, work->model, work->batch, work->recompute, &options, plans) != TUFF_OK ||
        known_plan_write(plans, work->plan) != TUFF_OK)
        return NULL;
    return plans->items[work->plan].plan;
}

static void leave(tuff_plan *plan, void *user, void *entry)
{
    (void)plan, (void)user; /* the plan is one of the entry's */
    known_plans_destroy(entry);
    tuff__free(entry);
}

static void say(const tuff_contest_result *result, bool trains)
{
    const char *work = trains ? "a training step" : "a token";
    if (result->left_out > 0)
        (void)fprintf(stderr,
                      "fastest: %d of the devices here left out: a process ended while they were in this race; tuff "
                      "cache verify --retry allows them again\n",
                      result->left_out);
    if (result->nanoseconds == 0)
        (void)fprintf(stderr, "fastest: %s, the only device that takes part\n", result->selector);
    else if (result->next[0] == '\0')
        (void)fprintf(stderr, "fastest: %s, %.2f ms for %s; no other device can\n", result->selector,
                      (double)result->nanoseconds * 1e-6, work);
    else
        (void)fprintf(stderr, "fastest: %s, %.2f ms for %s; %s takes %.2f ms (%s)\n", result->selector,
                      (double)result->nanoseconds * 1e-6, work, result->next, (double)result->next_nanoseconds * 1e-6,
                      result->remembered ? "remembered" : "measured now");
}

tuff_device *cli_open_device_for(const cli_verb *verb, const char *name, const fastest_work *work, int *code)
{
    const char *asked = name ? name : getenv("TUFF_DEVICE");
    if (!asked || strcmp(asked, "fastest") != 0)
        return cli_open_device(verb, name, code);
    const model_config *model = work->model;
    char *config = model_config_text(model);
    char key[2048];
    if (!config) {
        *code = cli_fail(verb, EXIT_FAILED, "out of memory");
        return NULL;
    }
    (void)snprintf(key, sizeof key, "%s batch %lld recompute %d plan %d", config, (long long)work->batch,
                   work->recompute, work->plan);
    tuff__free(config);
    fastest_work copy = *work;
    const tuff_contest contest = {.name = key, .enter = enter, .leave = leave, .user = &copy};
    tuff_contest_result result;
    cli_hold_interrupt(); /* a process that ends within the race counts against the device that was at work */
    tuff_device *device = tuff_device_open_fastest(&contest, &result);
    cli_release_interrupt();
    if (device)
        say(&result, work->plan == KNOWN_TRAIN);
    else
        *code = cli_fail_library(verb, "--device fastest");
    return device;
}
