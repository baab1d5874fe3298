/* The numeric class of tunables: for every task of training steps, changing a tunable that kernels.def lists as
   preserving bits does not change the results of the default, and of each family of kernels, by a single bit, on data
   whose sums depend on the order. With -v more values are tried, and all are listed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "fusions.h"
#include "measure/candidate_run.h"
#include "tools/model/graphs.h"
#include "tools/model/known_plans.h"
#include "search/space.h"

enum { MAX_BYTES = 64 << 20, FAMILIES = 4 };

static bool verbose;
static int most_tries = 2; /* per tunable: compiling takes long */
static const tuff_compile_options default_options = {.fuse = TUFF_FUSE_ALL};

typedef struct tally {
    int visited, bases, same, changed; /* changed: by a tunable that is not listed */
    bool is_second;                    /* the second of two passes over the tasks */
    int tried[TUNABLE_COUNT], differing[TUNABLE_COUNT], looked[TUNABLE_COUNT];
} tally;

typedef struct place {
    tuff_device *device;
    const struct fusion *fusion;
    int task;
    test_buffers *on;
    const char *key;
    tally *counts;
} place;

static bool foresee(const place *at, const tune_config *config, task_estimate *out)
{
    const tuff_status status = tuff__estimate_task(at->device, at->fusion, &default_options, at->task, config, out);
    assert_true(status == TUFF_OK || status == TUFF_E_LIMIT || status == TUFF_E_UNSUPPORTED);
    return status == TUFF_OK;
}

/* Returns false if there is no kernel for it. */
static bool run(const place *at, const tune_config *config)
{
    candidate_run *one = NULL;
    const tuff_status status = lower_and_create(at->device, at->fusion, at->task, config, at->on, &one);
    assert_true(status == TUFF_OK || status == TUFF_E_LIMIT || status == TUFF_E_COMPILE || status == TUFF_E_OOM_DEVICE);
    tuff_status ran = status;
    if (status == TUFF_OK) {
        assert_int_equal(tuff__test_buffers_poison(at->on), TUFF_OK);
        ran = tuff__candidate_run_once(one);
    }
    /* lavapipe compiles in the first run, which takes long for the largest tiles. */
    for (int i = 0; i < 6 && ran == TUFF_E_TIMEOUT; i++)
        ran = tuff__wait(at->device);
    assert_true(ran == status);
    tuff__candidate_run_destroy(one);
    return status == TUFF_OK;
}

static void try_value(const place *at, const tune_config *base, tunable parameter, int value, uint64_t base_kernels)
{
    tune_config config = *base;
    task_estimate made;
    bool same;
    tuff__config_set(&config, parameter, value);
    if (!foresee(at, &config, &made) || made.kernels == base_kernels || !run(at, &config))
        return;
    assert_int_equal(tuff__test_buffers_match_expected(at->on, &same), TUFF_OK);
    at->counts->tried[parameter]++;
    at->counts->differing[parameter] += !same;
    if (verbose)
        printf("      %s.%s=%d %s  %.20s family %d\n", tuff__tunable_info(parameter)->kernel,
               tuff__tunable_info(parameter)->name, value, same ? "same" : "DIFFERS", at->key,
               tuff__config_value(base, TUNABLE_task_family, 0));
    if (!tuff__tunable_info(parameter)->keeps_bits) {
        at->counts->changed += !same;
        return;
    }
    at->counts->same += same;
    if (!same) {
        text name = {0};
        tuff__config_format(&config, &name);
        printf("    %s\n      %s changes bits, but must not\n", at->key, tuff__text_get(&name));
        tuff__text_free(&name);
    }
}

/* Tries the values next to the default one, and a different one each time. */
static void try_axis(const place *at, const tune_config *base, const space_axis *axis, uint64_t kernels)
{
    int defaults = 0;
    while (defaults + 1 < axis->count && axis->values[defaults] != axis->default_value)
        defaults++;
    for (int i = 0; i < 3; i++) {
        const int picks[] = {defaults - 1, defaults + 1, at->counts->looked[axis->parameter]++ % axis->count};
        if (picks[i] >= 0 && picks[i] < axis->count && picks[i] != defaults)
            try_value(at, base, axis->parameter, axis->values[picks[i]], kernels);
    }
}

static void try_base(const place *at, const tune_config *base)
{
    tune_space space = {.count = 0};
    task_estimate made;
    if (!foresee(at, base, &made) || !run(at, base))
        return;
    (void)tuff__space_add_tunables(&space, &made.used_tunables);
    assert_int_equal(tuff__test_buffers_keep(at->on), TUFF_OK);
    at->counts->bases++;
    for (int i = 0; i < space.count; i++)
        if (!tuff__config_has(base, space.axes[i].parameter) && at->counts->tried[space.axes[i].parameter] < most_tries)
            try_axis(at, base, &space.axes[i], made.kernels);
}

static void try_task(place *at)
{
    const tune_config none = {.set = {0}};
    task_estimate made;
    if (!foresee(at, &none, &made) || tuff__config_count(&made.used_tunables) == 0)
        return;
    assert_int_equal(tuff__test_buffers_create(at->device, at->fusion, at->task, MAX_BYTES, &at->on), TUFF_OK);
    tuff__test_buffers_use_full_significands(at->on);
    try_base(at, &none);
    for (int family = 1; family <= FAMILIES && tuff__config_has(&made.used_tunables, TUNABLE_task_family); family++) {
        tune_config base = none;
        tuff__config_set(&base, TUNABLE_task_family, family);
        try_base(at, &base);
    }
    tuff__test_buffers_destroy(at->on);
}

static uint64_t structure_of(const tune_key *key)
{
    return key->structure;
}

typedef struct visit {
    tuff_device *device;
    tally *counts;
} visit;

static bool has_enough_variants(const tally *counts)
{
    return counts->same > 20 && counts->changed > 0;
}

static void visit_task(const struct fusion *fusion, int task, const char *key, void *state)
{
    const visit *by = state;
    tally *counts = by->counts;
    const int number = counts->visited++;
    const bool is_drawn = drawn_turn("tasks", number / 2, 4) == 0 && is_drawn_for_api(by->device, number);
    const bool is_wanted = counts->is_second ? !is_drawn && !has_enough_variants(counts) : is_drawn;
    const bool has_plenty = !is_thorough() && counts->same > 30 && counts->changed > 0;
    if (!verbose && (!is_wanted || has_plenty))
        return;
    try_task(&(place){.device = by->device, .fusion = fusion, .task = task, .key = key, .counts = counts});
}

/* Tries one task of every structure. */
static void try_graph(tuff_device *device, tuff_graph *graph, tally *counts)
{
    for_each_task(graph, &default_options, structure_of, visit_task, &(visit){device, counts});
}

static int print_tally(const tally *counts)
{
    int wrong = 0;
    printf("    %d base configurations, %d variants with the same bits, %d where tunables that may change bits did\n",
           counts->bases, counts->same, counts->changed);
    for (int i = 0; i < TUNABLE_COUNT; i++) {
        const tunable_info *info = tuff__tunable_info((tunable)i);
        const bool keeps = info->keeps_bits;
        wrong += keeps ? counts->differing[i] : 0;
        if (verbose)
            printf("      %s.%s: %d of %d differ%s\n", info->kernel, info->name, counts->differing[i], counts->tried[i],
                   keeps ? ", listed" : "");
    }
    return wrong;
}

static void try_models(tuff_device *device)
{
    const model_config config = {
        .form = MODEL_GPT, .layers = 1, .heads = 3, .width = 60, .context = 37, .vocabulary = 256};
    static tally counts;
    language_model model;
    const tuff_optimizer_options rule = model_optimizer_options(1e-3, 1000);
    memset(&counts, 0, sizeof counts);
    assert_int_equal(model_create(device, &config, &model), TUFF_OK);
    tuff_optimizer *optimizer = tuff_optimizer_create(model.parameters, &rule);
    assert_non_null(optimizer);
    /* Tasks that were not drawn follow if the drawn ones do not cover enough. */
    for (int pass = 0; pass < 2 && (pass == 0 || (!verbose && !has_enough_variants(&counts))); pass++) {
        counts.is_second = pass == 1;
        counts.visited = 0;
        try_graph(device, train_graph(device, &model, optimizer, 3), &counts);
        try_graph(device, sampler_graph(device, &model), &counts);
    }
    tuff_optimizer_destroy(optimizer);
    model_destroy(&model);
    assert_int_equal(print_tally(&counts), 0);
    assert_true(counts.same > 20);
    assert_true(counts.changed > 0); /* else the data would show nothing */
}

static void what_is_listed_keeps_bits(void **state)
{
    (void)state;
    for_drawn_api(0, try_models);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_listed_keeps_bits)};
    verbose = count > 1 && strcmp(arguments[1], "-v") == 0;
    if (verbose)
        most_tries = 12;
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
