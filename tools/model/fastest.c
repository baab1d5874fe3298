/* Opens the device that runs a model fastest. */
#include "tools/model/fastest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file/file.h"
#include "base/hash.h"

static tuff_plan *setup(tuff_device *device, void *user, void **entry)
{
    const fastest_work *work = user;
    const tuff_compile_options options = {.fuse = TUFF_FUSE_ALL,
                                          .precision = (tuff_precision)work->described->precision,
                                          .matmul_precision = (tuff_precision)work->matmul_precision};
    model_plans *plans = tuff__calloc(1, sizeof *plans);
    *entry = plans;
    if (!plans || model_plans_open(device, work->described, &options, plans) != TUFF_OK ||
        model_plan_write(plans, work->plan) != TUFF_OK)
        return NULL;
    return plans->items[work->plan].plan;
}

static void teardown(tuff_plan *plan, void *user, void *entry)
{
    (void)plan, (void)user; /* the plan belongs to the entry */
    model_plans_destroy(entry);
    tuff__free(entry);
}

static void print_result(const tuff_device_race_result *result, const fastest_work *raced)
{
    const char *work = raced->described->file            ? "a run"
                       : raced->plan == MODEL_PLAN_TRAIN ? "a training step"
                                                         : "a token";
    if (result->left_out > 0)
        (void)fprintf(
            stderr,
            "fastest: devices skipped, because a process died while racing them: %d; run tuff cache verify --retry to "
            "try them again\n",
            result->left_out);
    if (result->nanoseconds == 0)
        (void)fprintf(stderr, "fastest: %s, the only device that can be raced\n", result->selector);
    else if (result->runner_up[0] == '\0')
        (void)fprintf(stderr, "fastest: %s, %.2f ms for %s; no other device can run it\n", result->selector,
                      (double)result->nanoseconds * 1e-6, work);
    else
        (void)fprintf(stderr, "fastest: %s, %.2f ms for %s; %s takes %.2f ms (%s)\n", result->selector,
                      (double)result->nanoseconds * 1e-6, work, result->runner_up,
                      (double)result->runner_up_nanoseconds * 1e-6, result->is_cached ? "cached" : "measured now");
}

/* Names a file by a hash of its contents. */
static tuff_status name_file(const char *path, char *key, size_t size)
{
    void *data;
    size_t length;
    TRY(tuff__file_read(path, UINT64_C(1) << 30, &data, &length));
    const hash128 hash = tuff__hash(data, length);
    tuff__free(data);
    (void)snprintf(key, size, "graph %016llx%016llx", (unsigned long long)hash.high, (unsigned long long)hash.low);
    return TUFF_OK;
}

static void append_number(char *key, size_t size, const char *name, int value)
{
    const size_t used = strlen(key);
    (void)snprintf(key + used, size - used, "%s %d", name, value);
}

/* Writes the key under which the race's result is cached. */
static tuff_status name_work(const fastest_work *work, char *key, size_t size)
{
    const model_options *described = work->described;
    if (described->file) {
        TRY(name_file(described->file, key, size));
    } else {
        char *config = model_config_text(&described->model);
        if (!config)
            return TUFF_E_OOM_HOST;
        (void)snprintf(key, size, "%s batch %lld recompute %d plan %d", config, (long long)described->batch,
                       described->recompute, work->plan);
        tuff__free(config);
    }
    /* A file that was saved with a precision may be asked to run in f32. */
    if (described->precision != TUFF_PRECISION_F32 || (described->file && described->has_precision))
        append_number(key, size, " precision", described->precision);
    if (work->matmul_precision != TUFF_PRECISION_F32 || (described->file && described->has_matmul_precision))
        append_number(key, size, " matmul_precision", work->matmul_precision);
    if (!described->file && described->rule && described->rule->kind != TUFF_ADAMW)
        append_number(key, size, " optimizer", (int)described->rule->kind);
    return TUFF_OK;
}

tuff_device *cli_open_device_for(const cli_verb *verb, const char *name, const fastest_work *work, int *code)
{
    const char *requested = name ? name : getenv("TUFF_DEVICE");
    /* Matrix units work on 16-bit storage. */
    if (work->described->precision != TUFF_PRECISION_F32 &&
        (!requested || !*requested || strcmp(requested, "auto") == 0))
        return cli_open_device(verb, "auto:matrix", code);
    if (!requested || strcmp(requested, "fastest") != 0)
        return cli_open_device(verb, name, code);
    char key[2048];
    if (name_work(work, key, sizeof key) != TUFF_OK) {
        *code = cli_fail_library(verb, "--device fastest");
        return NULL;
    }
    fastest_work copy = *work;
    const tuff_device_race race = {.name = key, .setup = setup, .teardown = teardown, .user = &copy};
    tuff_device_race_result result;
    cli_hold_interrupt(); /* a process that ends during the race counts against the device that was working */
    tuff_device *device = tuff_device_open_fastest(&race, &result);
    cli_release_interrupt();
    if (device)
        print_result(&result, work);
    else
        *code = cli_fail_library(verb, "--device fastest");
    return device;
}
