/* Fusion must not change a graph's results: fused by both families of kernels, and unfused, every element of every
   output is within the reference's error bound, for graphs that are hard to fuse and for random ones.
   TUFF_RANDOM_GRAPHS is the number of the latter and TUFF_RANDOM_SEED the seed of the first; TUFF_SUITE=thorough leaves
   nothing out. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/lower/lower.h"
#include "compile/rewrite/simplify.h"
#include "differential.h"
#include "each_device.h"
#include "hard_graphs.h"
#include "random_graph.h"
#include "tools/model/graphs.h"

static tuff_device *devices[16];
static int device_count;

/* Opens all drivers' devices, or the one that TUFF_DEVICE selects, for the whole program. */
static int open_devices(void **state)
{
    (void)state;
    const char *chosen = getenv("TUFF_DEVICE");
    for (int i = 0; i < tuff_device_count() && device_count < 16; i++) {
        tuff_device_info info;
        if (tuff_device_describe_at(i, &info) != TUFF_OK)
            return -1;
        if (info.device_class == TUFF_DEVICE_REFERENCE || (chosen && chosen[0] && strcmp(chosen, info.selector) != 0))
            continue;
        print_message("%s: %s\n", info.selector, info.name);
        devices[device_count] = tuff_device_open(info.selector);
        if (!devices[device_count++])
            return -1;
    }
    return 0;
}

static int close_devices(void **state)
{
    (void)state;
    for (int i = 0; i < device_count; i++)
        tuff_device_close(devices[i]);
    return 0;
}

/* Compiling kernels takes most of the time. Unless the run is thorough, every second graph therefore runs fused on one
   device, with one family of kernels, and every second one of those to be tested unfused also runs unfused on some
   device. */
static int64_t run_everywhere(const differential *graph, int number, bool unfused)
{
    static const tuff_compile_options ways[] = {{.family = TUFF_FAMILY_REGISTER},
                                                {.family = TUFF_FAMILY_LOCAL},
                                                {.fuse = TUFF_FUSE_NONE},
                                                {.fuse = TUFF_FUSE_NONE, .family = TUFF_FAMILY_LOCAL}};
    int64_t failures = 0;
    for (int i = 0; i < device_count; i++)
        for (int way = 0; way < 4; way++) {
            const tuff_device_info *info = tuff__device_info(devices[i]);
            const bool fused_turn =
                is_drawn_for_device(devices[i], number) && drawn_turn(info->selector, number, 2) == way;
            const bool unfused_turn = unfused && drawn_turn("unfused", number, 2 * device_count) == i &&
                                      way == (drawn_turn("unfused in local kernels", number, 4) == 0 ? 3 : 2);
            if (is_thorough() || fused_turn || unfused_turn)
                failures += differential_run(graph, devices[i], &ways[way]);
        }
    return failures;
}

static void hard_graphs_are_right(void **state)
{
    (void)state;
    if (device_count == 0)
        skip();
    int64_t failures = 0;
    for (int i = 0; i < hard_graph_count; i++) {
        differential graph;
        if (!is_thorough() && drawn_turn("hard graphs", i, 3) != 0)
            continue;
        differential_create(&graph, hard_graphs[i].name, hard_graphs[i].build, NULL, (uint64_t)i);
        failures += run_everywhere(&graph, i, hard_graphs[i].unfused);
        differential_destroy(&graph);
    }
    assert_int_equal(failures, 0);
}

static void random_graphs_are_right(void **state)
{
    (void)state;
    if (device_count == 0)
        skip();
    const uint64_t count = number_from("TUFF_RANDOM_GRAPHS", 4);
    const uint64_t first = number_from("TUFF_RANDOM_SEED", test_seed());
    uint64_t vague = 0;
    int failed = 0;
    print_message("random graphs from seed %" PRIu64 "\n", first);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t seed = first + i;
        char name[48];
        differential graph;
        snprintf(name, sizeof name, "TUFF_RANDOM_SEED=%" PRIu64, seed);
        vague += !differential_prepare(&graph, name, random_graph, &seed, seed);
        failed += run_everywhere(&graph, (int)(i % 64), i % 3 == 0) > 0;
        differential_destroy(&graph);
    }
    assert_int_equal(failed, 0);
    assert_true(vague <= 1 + count / 20);
}

/* Proves that the checks above detect an error. */
static void a_planted_sign_error_is_seen(void **state)
{
    (void)state;
    differential graph;
    tuff_device *device = tuff_device_open("reference");
    assert_non_null(device);
    differential_create(&graph, "softmax backward", find_hard_graph("softmax backward"), NULL, 1);
    assert_int_equal(differential_run(&graph, device, &(tuff_compile_options){0}), 0);
    tuff__mutated_gradient = OP_EXP;
    const int64_t failures = differential_run(&graph, device, &(tuff_compile_options){0});
    tuff__mutated_gradient = OP_COUNT;
    differential_destroy(&graph);
    tuff_device_close(device);
    assert_true(failures > 0);
}

static void results_beyond_their_bounds_are_seen(void **state)
{
    (void)state;
    assert_true(differential_ratio(TUFF_F32, 1 + 1.9e-7, 1, 1e-7) <= 1);
    assert_false(differential_ratio(TUFF_F32, 1 + 5e-7, 1, 1e-7) <= 1);
    assert_false(differential_ratio(TUFF_F32, 0.0 / 0.0, 1, 1) <= 1);
    assert_false(differential_ratio(TUFF_I32, 3, 4, 1) <= 1);
    assert_true(differential_ratio(TUFF_F16, 2048, 2049, 0.01) <= 1);
}

static void barriers_everywhere_change_no_bits(void **state)
{
    (void)state;
    if (device_count == 0)
        skip();
    differential graph;
    differential_create(&graph, "attention block", find_hard_graph("attention block"), NULL, 3);
    for (int i = 0; i < device_count; i++) {
        size_t size;
        if (!is_drawn_for_device(devices[i], 0))
            continue;
        unsigned char *some = differential_bytes(&graph, devices[i], NULL, 1, &size);
        unsigned char *all =
            differential_bytes(&graph, devices[i], &(tuff_compile_options){.barrier_everywhere = true}, 1, &size);
        assert_non_null(some);
        assert_non_null(all);
        assert_memory_equal(some, all, size);
        free(some);
        free(all);
    }
    differential_destroy(&graph);
}

static void twenty_runs_give_the_same_bits(void **state)
{
    (void)state;
    if (device_count == 0)
        skip();
    static const char *const names[] = {"attention block", "embedding and loss"};
    for (size_t name = 0; name < 2; name++) {
        differential graph;
        differential_create(&graph, names[name], find_hard_graph(names[name]), NULL, 3);
        for (int i = 0; i < device_count; i++) {
            size_t size;
            if (!is_drawn_for_device(devices[i], (int)name))
                continue;
            unsigned char *bytes = differential_bytes(&graph, devices[i], NULL, 20, &size);
            assert_non_null(bytes);
            free(bytes);
        }
        differential_destroy(&graph);
    }
}

/* Returns the number of dispatches of a graph without compiling a program. *values gets the number of values of the
   largest kernel. */
static int dispatches_of(tuff_graph *graph, tuff_device *device, tuff_fuse_mode mode, int *values)
{
    struct fusion fusion;
    launch_list launches;
    const tuff_compile_options options = {.fuse = mode};
    tuff_graph *simple = tuff__simplify(graph, false);
    assert_non_null(simple);
    assert_int_equal(tuff__fuse(simple, &options, MAX_BINDINGS, NULL, &fusion), TUFF_OK);
    assert_int_equal(tuff__lower(device, &fusion, &options, NULL, &launches), TUFF_OK);
    const int count = launches.launch_count;
    *values = 0;
    for (int i = 0; i < count; i++)
        if (launches.launches[i].chain.value_count > *values)
            *values = launches.launches[i].chain.value_count;
    tuff__launch_list_free(&launches);
    tuff__fusion_free(&fusion);
    tuff_graph_destroy(simple);
    return count;
}

static void fusion_leaves_a_third_of_the_dispatches(void **state)
{
    (void)state;
    if (device_count == 0)
        skip();
    const model_config config = {
        .form = MODEL_GPT, .layers = 2, .heads = 2, .width = 32, .context = 16, .vocabulary = 64};
    const tuff_optimizer_options rule = model_optimizer_options(1e-3, 100);
    for (int i = 0; i < device_count; i++) {
        language_model model;
        assert_int_equal(model_create(devices[i], &config, &model), TUFF_OK);
        tuff_optimizer *optimizer = tuff_optimizer_create(model.parameters, &rule);
        assert_non_null(optimizer);
        tuff_graph *graph = train_graph(devices[i], &model, optimizer, 2);
        int values;
        const int fused = dispatches_of(graph, devices[i], TUFF_FUSE_ALL, &values);
        const int unfused = dispatches_of(graph, devices[i], TUFF_FUSE_NONE, &values);
        print_message("a training step of GPT: %d dispatches fused, %d unfused\n", fused, unfused);
        assert_true(fused > 0 && fused * 3 <= unfused);
        tuff_graph_destroy(graph);
        tuff_optimizer_destroy(optimizer);
        model_destroy(&model);
    }
}

/* The same for a function of x[8,1], padded to [8,columns]. */
static int dispatches_of_padded(tuff_device *device, int64_t columns, bool expensive)
{
    tuff_graph *graph = tuff_graph_create(device);
    int values;
    assert_non_null(graph);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(8, 1));
    tuff_tensor *made = expensive ? tuff_exp(x) : tuff_mul(x, x);
    tuff_tensor *padded = tuff_pad(made, (int64_t[]){0, 0}, (int64_t[]){0, columns - 1}, 0);
    tuff_output(graph, "y", tuff_add(padded, tuff_input(graph, "z", TUFF_F32, TUFF_SHAPE(8, columns))));
    const int count = dispatches_of(graph, device, TUFF_FUSE_ALL, &values);
    tuff_graph_destroy(graph);
    return count;
}

static void expensive_values_are_not_computed_for_padding(void **state)
{
    (void)state;
    if (device_count == 0)
        skip();
    assert_int_equal(dispatches_of_padded(devices[0], 64, true), 2);
    assert_int_equal(dispatches_of_padded(devices[0], 64, false), 1);
    assert_int_equal(dispatches_of_padded(devices[0], 2, true), 1);
}

/* Views of views of sums can lead to more views than there are nodes, and drivers need minutes for a kernel with
   thousands of values. */
static void kernels_stay_small(void **state)
{
    (void)state;
    enum { LEAST = 50, MOST = 800 };
    static const uint64_t seed = 10504; /* the one of 12,000 with the largest kernel */
    if (device_count == 0)
        skip();
    tuff_graph *graph = tuff_graph_create(devices[0]);
    assert_non_null(graph);
    int values;
    random_graph(graph, &seed);
    assert_true(dispatches_of(graph, devices[0], TUFF_FUSE_ALL, &values) > 0);
    print_message("the largest kernel computes %d values\n", values);
    assert_in_range(values, LEAST, MOST);
    tuff_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_beyond_their_bounds_are_seen),
        cmocka_unit_test(a_planted_sign_error_is_seen),
        cmocka_unit_test(hard_graphs_are_right),
        cmocka_unit_test(random_graphs_are_right),
        cmocka_unit_test(barriers_everywhere_change_no_bits),
        cmocka_unit_test(twenty_runs_give_the_same_bits),
        cmocka_unit_test(fusion_leaves_a_third_of_the_dispatches),
        cmocka_unit_test(kernels_stay_small),
        cmocka_unit_test(expensive_values_are_not_computed_for_padding),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
