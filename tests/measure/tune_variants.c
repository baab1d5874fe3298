/* Every variant of a kernel that the tuner may choose is correct: random configurations for the tasks of training steps
   run in memory of their own and are compared with the default's results. None may be rejected. With a number as
   argument that many configurations per task are tried, with a second one from that seed on; with the text of a
   configuration only that one, for every task. The host checks the default's results, and those of a configuration at
   other extents. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "fusions.h"
#include "compile/subgraph.h"
#include "measure/oracle.h"
#include "measure/candidate_run.h"
#include "tools/model/known_plans.h"
#include "tools/model/graphs.h"
#include "search/space.h"

enum { MAX_BYTES = 64 << 20, LARGE_STACK = 512 << 10 };

static int choices_per_task = 1;
static uint64_t first_seed = 1;
static const char *only_choice;
static tuff_compile_options default_options = {.fuse = TUFF_FUSE_ALL};

typedef struct tally {
    int visited, tasks, lowered, tried, impossible, wrong, cut;
    int large;                          /* configurations whose arrays use as much of a thread's stack as lowering
                                           allows */
    int exact, checked, caught, ragged; /* tasks: with exact sums; whose default the host checked; whose poisoned
                                           results it rejected; also checked at other extents */
} tally;

static bool run_and_compare(candidate_run *one, test_buffers *on, bool is_default, char *wrong, size_t size)
{
    assert_int_equal(tuff__test_buffers_poison(on), TUFF_OK);
    if (tuff__candidate_run_once(one) != TUFF_OK) {
        snprintf(wrong, size, "not run: %s", tuff_error());
        return false;
    }
    if (is_default)
        assert_int_equal(tuff__test_buffers_keep(on), TUFF_OK);
    assert_int_equal(tuff__test_buffers_compare(on, false, wrong, size), TUFF_OK);
    if (wrong[0] != '\0')
        return false;
    assert_int_equal(tuff__test_buffers_poison(on), TUFF_OK);
    assert_int_equal(tuff__candidate_run_once(one), TUFF_OK);
    assert_int_equal(tuff__test_buffers_compare(on, true, wrong, size), TUFF_OK);
    return wrong[0] == '\0';
}

/* Picks a point of the space, which grows meanwhile because some tunables are read by some configurations only. */
static bool pick(tuff_device *device, const struct fusion *fusion, int task, tune_space *space, rng *from,
                 tune_config *out)
{
    if (only_choice != NULL)
        return tuff__config_parse(only_choice, out) == TUFF_OK;
    for (int attempt = 0; attempt < 40; attempt++) {
        task_estimate made;
        tuff__space_random(space, from, out);
        const tuff_status status = tuff__estimate_task(device, fusion, &default_options, task, out, &made);
        (void)tuff__space_add_tunables(space, &made.used_tunables);
        if (status == TUFF_OK)
            return true;
        assert_true(status == TUFF_E_LIMIT || status == TUFF_E_UNSUPPORTED);
    }
    return false;
}

/* Whether the host accepts a configuration at other extents, or cannot check it. */
static bool is_right_ragged(tuff_device *device, const struct fusion *fusion, int task, const tune_config *config,
                            const char *key, tally *counts)
{
    char wrong[128] = "";
    const tuff_status status =
        tuff__oracle_check_ragged(device, fusion, &default_options, task, config, NULL, wrong, sizeof wrong);
    if (status != TUFF_OK && status != TUFF_E_UNSUPPORTED && status != TUFF_E_LIMIT && status != TUFF_E_OOM_DEVICE)
        fail_msg("%s: other extents: %s", key, tuff_error());
    counts->ragged += status == TUFF_OK;
    if (wrong[0] != '\0')
        printf("    %s\n      with other extents: %s\n", key, wrong);
    return wrong[0] == '\0';
}

/* Checks the default, whose results are kept; then results that no kernel computed. */
static void compare_with_host(tuff_device *device, const struct fusion *fusion, int task, test_buffers *on,
                              const char *key, tally *counts)
{
    char wrong[128] = "";
    const tune_config none = {.set = {0}};
    const tuff_status status = tuff__oracle_check(device, on, fusion, task, wrong, sizeof wrong);
    if (status != TUFF_OK && status != TUFF_E_UNSUPPORTED)
        fail_msg("%s: expected values on the host: %s", key, tuff_error());
    if (status == TUFF_OK && wrong[0] != '\0')
        fail_msg("%s: the default, compared with the host: %s", key, wrong);
    counts->checked += status == TUFF_OK;
    assert_true(is_right_ragged(device, fusion, task, &none, key, counts));
    if (status != TUFF_OK)
        return;
    assert_int_equal(tuff__test_buffers_poison(on), TUFF_OK);
    assert_int_equal(tuff__test_buffers_keep(on), TUFF_OK);
    assert_int_equal(tuff__oracle_check(device, on, fusion, task, wrong, sizeof wrong), TUFF_OK);
    counts->caught += wrong[0] != '\0'; /* results that later kernels of the task add to are not poisoned */
}

static bool is_exact(const struct fusion *fusion, int task)
{
    subgraph *whole;
    const bool exact = tuff__subgraph_create(fusion, task, &whole) == TUFF_OK && tuff__subgraph_is_exact(whole);
    tuff__subgraph_destroy(whole);
    return exact;
}

static void try_choice(tuff_device *device, const struct fusion *fusion, int task, const tune_config *config,
                       test_buffers *on, const char *key, tally *counts)
{
    candidate_run *one = NULL;
    char wrong[128] = "";
    text name = {0};
    tuff__config_format(config, &name);
    const tuff_status status = lower_and_create(device, fusion, task, config, on, &one);
    counts->tried++;
    const bool asked_for = only_choice != NULL && status == TUFF_E_UNSUPPORTED;
    if (asked_for || status == TUFF_E_LIMIT || status == TUFF_E_COMPILE || status == TUFF_E_OOM_DEVICE) {
        printf("    %s\n      %s\n      not possible: %.200s\n", key, tuff__text_get(&name), tuff_error());
        counts->impossible++;
    } else {
        assert_int_equal(status, TUFF_OK);
        if (!run_and_compare(one, on, false, wrong, sizeof wrong)) {
            printf("    %s\n      %s\n      is wrong: %s\n", key, tuff__text_get(&name), wrong);
            counts->wrong++;
        } else if (counts->tried % 4 == 0 && !is_right_ragged(device, fusion, task, config, key, counts)) {
            printf("      %s\n", tuff__text_get(&name));
            counts->wrong++;
        }
    }
    tuff__candidate_run_destroy(one);
    tuff__text_free(&name);
}

static int count_launches(tuff_device *device, const struct fusion *fusion, int task, const tune_config *config)
{
    launch_list launches;
    assert_int_equal(tuff__lower_task(device, fusion, &default_options, task, config, NULL, &launches), TUFF_OK);
    const int count = launches.launch_count;
    tuff__launch_list_free(&launches);
    return count;
}

/* The epilogue of a product can run as a separate pass. */
static void cut_epilogue(tuff_device *device, const struct fusion *fusion, int task, tally *counts)
{
    tune_config apart = {.set = {0}};
    const tune_config none = {.set = {0}};
    task_estimate made;
    assert_int_equal(tuff__estimate_task(device, fusion, &default_options, task, &none, &made), TUFF_OK);
    if (!tuff__config_has(&made.used_tunables, TUNABLE_matmul_epilogue))
        return;
    tuff__config_set(&apart, TUNABLE_matmul_epilogue, 1);
    assert_int_equal(count_launches(device, fusion, task, &apart), count_launches(device, fusion, task, &none) + 1);
    counts->cut++;
}

/* Returns the bytes of the arrays of a group's work-items. */
static int64_t stack_bytes(tuff_device *device, const struct fusion *fusion, int task, const tune_config *config)
{
    launch_list launches;
    int64_t most = 0;
    assert_int_equal(tuff__lower_task(device, fusion, &default_options, task, config, NULL, &launches), TUFF_OK);
    for (int i = 0; i < launches.launch_count; i++) {
        const int64_t bytes = launches.launches[i].array_bytes * launches.launches[i].local_size;
        most = bytes > most ? bytes : most;
    }
    tuff__launch_list_free(&launches);
    return most;
}

/* Whatever the configuration, lowering makes a kernel or reports that there is none. *largest gets the one that needs
   most of a thread's stack; returns how much. */
static int64_t lower_many(tuff_device *device, const struct fusion *fusion, int task, tune_space space, tally *counts,
                          tune_config *largest)
{
    enum { DRAWS = 400 };
    int64_t most = 0;
    rng from = {.state = 77 + (uint64_t)task};
    for (int i = 0; i < DRAWS; i++) {
        tune_config config;
        task_estimate made;
        tuff__space_random(&space, &from, &config);
        const tuff_status status = tuff__estimate_task(device, fusion, &default_options, task, &config, &made);
        assert_true(status == TUFF_OK || status == TUFF_E_LIMIT || status == TUFF_E_UNSUPPORTED);
        counts->lowered += status == TUFF_OK;
        (void)tuff__space_add_tunables(&space, &made.used_tunables);
        const int64_t bytes = status == TUFF_OK ? stack_bytes(device, fusion, task, &config) : 0;
        if (bytes > most) {
            most = bytes;
            *largest = config;
        }
    }
    return most;
}

static void try_task(tuff_device *device, const struct fusion *fusion, int task, const char *key, tally *counts)
{
    test_buffers *on;
    candidate_run *defaults;
    const tune_config none = {.set = {0}};
    char wrong[128] = "";
    tune_space space = {.count = 0};
    tune_config config;
    task_estimate made;
    rng from = {.state = first_seed + (uint64_t)task};
    assert_int_equal(tuff__estimate_task(device, fusion, &default_options, task, &none, &made), TUFF_OK);
    if (tuff__space_add_tunables(&space, &made.used_tunables) == 0)
        return;
    assert_int_equal(tuff__test_buffers_create(device, fusion, task, MAX_BYTES, &on), TUFF_OK);
    counts->exact += is_exact(fusion, task);
    assert_int_equal(lower_and_create(device, fusion, task, &none, on, &defaults), TUFF_OK);
    if (!run_and_compare(defaults, on, true, wrong, sizeof wrong))
        fail_msg("%s: the default: %s", key, wrong);
    tuff__candidate_run_destroy(defaults);
    counts->tasks++;
    if (only_choice == NULL && lower_many(device, fusion, task, space, counts, &config) >= LARGE_STACK) {
        try_choice(device, fusion, task, &config, on, key, counts);
        counts->large++;
    }
    for (int i = 0; i < choices_per_task; i++)
        if (pick(device, fusion, task, &space, &from, &config))
            try_choice(device, fusion, task, &config, on, key, counts);
    compare_with_host(device, fusion, task, on, key, counts);
    tuff__test_buffers_destroy(on);
}

static uint64_t hash_of(const tune_key *key)
{
    return tuff__key_hash(key).low;
}

typedef struct visit {
    tuff_device *device;
    tally *counts;
    int turns; /* one of so many tasks is tried in a run */
} visit;

static void visit_task(const struct fusion *fusion, int task, const char *key, void *state)
{
    const visit *by = state;
    const int number = by->counts->visited++;
    cut_epilogue(by->device, fusion, task, by->counts);
    if (only_choice != NULL || is_thorough() || drawn_turn("tasks", number, by->turns) == 0)
        try_task(by->device, fusion, task, key, by->counts);
}

/* Tries one task of every key. */
static void try_graph(tuff_device *device, tuff_graph *graph, tally *counts)
{
    for_each_task(graph, &default_options, hash_of, visit_task, &(visit){device, counts, 1});
}

/* The same of a large graph, whose tasks are tried in the course of three runs. */
static void try_large_graph(tuff_device *device, tuff_graph *graph, tally *counts)
{
    for_each_task(graph, &default_options, hash_of, visit_task, &(visit){device, counts, 3});
}

/* Shapes that training steps lack: few rows, and wide columns. */
static tuff_graph *narrow_graph(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    tuff_tensor *a = tuff_input(graph, "a", TUFF_F32, TUFF_SHAPE(4, 768)),
                *b = tuff_input(graph, "b", TUFF_F32, TUFF_SHAPE(768, 768)),
                *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(2048, 768));
    tuff_output(graph, "product", tuff_matmul(a, b));
    tuff_output(graph, "sums", tuff_sum(x, (int[]){0}, 1, false));
    return graph;
}

/* Matmuls whose operands are computed where they are loaded, with and without an epilogue. */
static tuff_graph *produced_graph(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(3, 21, 40)),
                *w = tuff_input(graph, "w", TUFF_F16, TUFF_SHAPE(3, 40, 36)),
                *mask = tuff_input(graph, "mask", TUFF_U8, TUFF_SHAPE(3, 21, 40)),
                *scale = tuff_input(graph, "scale", TUFF_F32, TUFF_SHAPE(36)),
                *steps = tuff_input(graph, "steps", TUFF_F32, TUFF_SHAPE(40));
    tuff_tensor *left = tuff_mul(tuff_relu(x), tuff_cast(mask, TUFF_F32)),
                *right = tuff_mul(tuff_cast(w, TUFF_F32), scale),
                *both = tuff_matmul(tuff_mul(x, steps), tuff_mul(tuff_cast(w, TUFF_F32), tuff_neg(scale)));
    tuff_output(graph, "plain", tuff_matmul(left, right));
    tuff_output(graph, "more", tuff_add(tuff_tanh(both), scale));
    return graph;
}

/* Ops that address elements by data, in tables too large for the host to compute whole, and attention with biases: of
   all scores, and broadcast over batches and queries. */
static tuff_graph *lookup_graph(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    tuff_tensor *table = tuff_input(graph, "table", TUFF_F32, TUFF_SHAPE(20000, 192)),
                *rows = tuff_input(graph, "rows", TUFF_I32, TUFF_SHAPE(4096)),
                *source = tuff_input(graph, "source", TUFF_F32, TUFF_SHAPE(4096, 192)),
                *q = tuff_input(graph, "q", TUFF_F32, TUFF_SHAPE(2, 40, 3, 16)),
                *bias = tuff_input(graph, "bias", TUFF_F32, TUFF_SHAPE(2, 3, 40, 40)),
                *slopes = tuff_input(graph, "slopes", TUFF_F32, TUFF_SHAPE(3, 1, 40)), *gradients[3];
    tuff_output(graph, "gathered", tuff_exp(tuff_gather_rows(table, rows, 0)));
    tuff_output(graph, "scattered", tuff_scatter_add_rows(table, rows, source, 0));
    tuff_tensor *y = tuff_attention(q, q, q, &(tuff_attention_options){.bias = bias, .causal = true});
    tuff_tensor *z = tuff_attention(y, q, q, &(tuff_attention_options){.bias = slopes});
    tuff_tensor *loss = tuff_sum(tuff_mul(z, z), (int[]){0, 1, 2, 3}, 4, false);
    assert_int_equal(tuff_gradients(loss, (tuff_tensor *[]){q, bias, slopes}, 3, gradients), TUFF_OK);
    tuff_output(graph, "dq", gradients[0]);
    tuff_output(graph, "dbias", gradients[1]);
    tuff_output(graph, "dslopes", gradients[2]);
    return graph;
}

/* The host must check all of these. */
static void try_lookups(tuff_device *device)
{
    tally counts = {0};
    try_graph(device, lookup_graph(device), &counts);
    printf("    lookups and biases: %d tasks, judged by the host: %d, poison seen: %d; at other extents: %d\n",
           counts.tasks, counts.checked, counts.caught, counts.ragged);
    assert_true(counts.tasks >= 4);
    assert_int_equal(counts.checked, counts.tasks);
    assert_true(counts.ragged >= counts.tasks);
    assert_int_equal(counts.wrong, 0);
}

static void try_models(tuff_device *device)
{
    const model_config configs[] = {
        {.form = MODEL_GPT, .layers = 1, .heads = 3, .width = 60, .context = 37, .vocabulary = 256},
        {.form = MODEL_LLAMA,
         .layers = 1,
         .heads = 4,
         .key_value_heads = 2,
         .width = 64,
         .hidden = 96,
         .context = 32,
         .vocabulary = 256},
    };
    tally counts = {0};
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        language_model model;
        const tuff_optimizer_options rule = model_optimizer_options(1e-3, 1000);
        assert_int_equal(model_create(device, &configs[i], &model), TUFF_OK);
        tuff_optimizer *optimizer = tuff_optimizer_create(model.parameters, &rule);
        assert_non_null(optimizer);
        if (is_drawn_for_api(device, (int)i))
            try_large_graph(device, train_graph(device, &model, optimizer, 3), &counts);
        if (is_thorough() || (!is_drawn_for_api(device, (int)i) && drawn_turn("sampler", 0, 3) == 0))
            try_large_graph(device, sampler_graph(device, &model), &counts);
        tuff_optimizer_destroy(optimizer);
        model_destroy(&model);
    }
    try_graph(device, produced_graph(device), &counts);
    try_graph(device, narrow_graph(device), &counts);
    printf("    %d tasks, %d choices lowered, %d run, %d with large arrays, %d of those impossible, %d wrong\n",
           counts.tasks, counts.lowered, counts.tried, counts.large, counts.impossible, counts.wrong);
    printf("    exact: %d; judged by the host: %d, poison seen: %d; at other extents: %d\n", counts.exact,
           counts.checked, counts.caught, counts.ragged);
    assert_true(counts.caught > counts.checked * 3 / 4);
    assert_true(counts.exact > 0 && counts.checked > counts.tasks / 2 && counts.ragged > counts.tasks / 2);
    assert_true(counts.tried > counts.impossible);
    assert_true(only_choice != NULL || counts.lowered > 100 * counts.tasks);
    assert_true(only_choice != NULL || counts.large > (is_thorough() ? 3 : 0));
    assert_true(counts.cut > 0);
    assert_int_equal(counts.wrong, 0);
}

/* Kinds of tasks with 16-bit operands and results: a product with an epilogue, attention, rows. */
static tuff_graph *mixed_graph(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(2, 40, 48)),
                *up = tuff_input(graph, "up", TUFF_F32, TUFF_SHAPE(48, 48)),
                *bias = tuff_input(graph, "bias", TUFF_F32, TUFF_SHAPE(48));
    tuff_tensor *y = tuff_gelu(tuff_linear(x, up, bias));
    tuff_tensor *heads = tuff_reshape(y, TUFF_SHAPE(2, 40, 3, 16));
    y = tuff_attention(heads, heads, heads, &(tuff_attention_options){.causal = true});
    y = tuff_layer_norm(tuff_reshape(y, TUFF_SHAPE(2, 40, 48)), NULL, NULL, 1, 1e-5);
    tuff_output(graph, "y", tuff_linear(y, up, bias));
    return graph;
}

/* Values stored as 16 bits are checked to the precision of 16 bits, and read as 16 bits at other extents, too. */
static void try_mixed(tuff_device *device)
{
    tally counts = {0};
    default_options.precision = drawn_turn("precision", 0, 2) == 0 ? TUFF_PRECISION_F16 : TUFF_PRECISION_BF16;
    try_graph(device, mixed_graph(device), &counts);
    default_options.precision = TUFF_PRECISION_F32;
    printf("    16 bits: %d tasks, judged by the host: %d, poison seen: %d; at other extents: %d\n", counts.tasks,
           counts.checked, counts.caught, counts.ragged);
    assert_true(counts.tasks > 0);
    assert_int_equal(counts.checked, counts.tasks);
    assert_int_equal(counts.caught, counts.tasks);
    assert_true(counts.ragged >= counts.tasks);
    assert_int_equal(counts.wrong, 0);
}

/* A state that is updated in place, and one that is read transposed. */
static tuff_graph *updating_graph(tuff_device *device, tuff_array *in_place, tuff_array *across)
{
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    tuff_tensor *half = tuff_constant(graph, TUFF_F32, 0.5), *old = tuff_array_tensor(graph, in_place),
                *other = tuff_array_tensor(graph, across);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(300, 70));
    assert_non_null(tuff_assign(graph, in_place, tuff_add(tuff_mul(old, half), x)));
    assert_non_null(tuff_assign(graph, across, tuff_add(tuff_permute(other, (int[]){1, 0}), half)));
    return graph;
}

/* As in a plan, a second run continues from the results of the first one if the update is in place, and only then. */
static void visit_update(const struct fusion *fusion, int task, const char *key, void *state)
{
    const visit *by = state;
    const tune_config none = {.set = {0}};
    test_buffers *on;
    candidate_run *one;
    bool same;
    char wrong[128];
    assert_int_equal(tuff__test_buffers_create(by->device, fusion, task, MAX_BYTES, &on), TUFF_OK);
    assert_int_equal(lower_and_create(by->device, fusion, task, &none, on, &one), TUFF_OK);
    assert_true(run_and_compare(one, on, true, wrong, sizeof wrong));
    assert_int_equal(tuff__oracle_check(by->device, on, fusion, task, wrong, sizeof wrong), TUFF_OK);
    assert_string_equal(wrong, "");
    assert_int_equal(tuff__candidate_run_once(one), TUFF_OK);
    assert_int_equal(tuff__test_buffers_match_expected(on, &same), TUFF_OK);
    by->counts->tried++;
    by->counts->lowered += !same;
    if (same != (strstr(key, "21000") == NULL))
        fail_msg("%s: the next run gives %s", key, same ? "the same" : "something else");
    tuff__candidate_run_destroy(one);
    tuff__test_buffers_destroy(on);
}

static void try_updates(tuff_device *device)
{
    tally counts = {0};
    tuff_array *in_place = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(300, 70)),
               *across = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(40, 40));
    for_each_task(updating_graph(device, in_place, across), &default_options, hash_of, visit_update,
                  &(visit){device, &counts, 1});
    assert_int_equal(counts.tried, 2);
    assert_int_equal(counts.lowered, 1);
    tuff_array_destroy(in_place);
    tuff_array_destroy(across);
}

static void updates_are_in_place(void **state)
{
    (void)state;
    for_drawn_api(2, try_updates);
}

static void every_variant_is_right(void **state)
{
    (void)state;
    for_drawn_api(0, try_models);
    for_drawn_api(3, try_lookups);
}

static void every_variant_is_right_with_16_bits(void **state)
{
    (void)state;
    for_drawn_api(1, try_mixed);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(updates_are_in_place),
                                       cmocka_unit_test(every_variant_is_right_with_16_bits),
                                       cmocka_unit_test(every_variant_is_right)};
    only_choice = count > 1 && strchr(arguments[1], '=') != NULL ? arguments[1] : NULL;
    if (only_choice != NULL)
        choices_per_task = 1;
    else if (count > 1)
        choices_per_task = atoi(arguments[1]);
    if (count > 2)
        first_seed = strtoull(arguments[2], NULL, 10);
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
