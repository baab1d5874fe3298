/* The memory budget of tuff_compile: plans keep to it with correct results; one that is too small is refused with the
   least possible one; without a budget, or with a large enough one, nothing changes. TUFF_RANDOM_GRAPHS=n and
   TUFF_RANDOM_SEED=s select the random graphs. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "differential.h"
#include "each_device.h"
#include "exec/plan.h"
#include "random_graph.h"
#include "small_plans.h"

#define LAYERS 4
#define ROWS 96
#define WIDTH 16

/* Residual layers whose inner values are wide: a product, dropout, activations, a product, and attention in some
   layers. */
static void deep_network(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(ROWS, WIDTH)), *y = x;
    tuff_tensor *up = ranged_input(graph, TUFF_F32, TUFF_SHAPE(WIDTH, 4 * WIDTH), -0.1, 0.1);
    tuff_tensor *down = ranged_input(graph, TUFF_F32, TUFF_SHAPE(4 * WIDTH, WIDTH), -0.1, 0.1);
    for (int i = 0; i < LAYERS; i++) {
        tuff_tensor *hidden = tuff_tanh(tuff_matmul(tuff_sigmoid(y), up));
        hidden = tuff_matmul(tuff_mul(tuff_dropout(hidden, 0.2), tuff_cos(hidden)), down);
        if (i % 2 == 1) {
            tuff_tensor *heads = tuff_reshape(hidden, TUFF_SHAPE(12, ROWS / 12, 2, WIDTH / 2));
            heads = tuff_attention(heads, heads, heads, &(tuff_attention_options){.causal = true});
            hidden = tuff_reshape(heads, TUFF_SHAPE(ROWS, WIDTH));
        }
        y = tuff_add(y, hidden);
    }
    add_with_gradients(graph, y, (tuff_tensor *[]){x, up, down}, 3);
}

/* Returns NULL if the graph does not compile. */
/* Compiles a plan without its programs: what a budget changes is known before they are compiled. */
static tuff_plan *plan_of(graph_builder build, const void *context, tuff_device *device,
                          const tuff_compile_options *options, tuff_plan_info *info)
{
    static const tuff_compile_options fused = {.fuse = TUFF_FUSE_ALL};
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    build(graph, context);
    tuff_plan *plan = plan_without_programs(graph, options ? options : &fused);
    if (plan) {
        assert_int_equal(tuff_plan_describe(plan, info), TUFF_OK);
        info->task_count = plan->executable.launches.launch_count; /* the launches from which the commands are made */
        assert_true(info->task_count > 0 || tuff__device_is_reference(device));
    }
    tuff_graph_destroy(graph);
    return plan;
}

static tuff_plan_info info_of(tuff_device *device, const tuff_compile_options *options)
{
    tuff_plan_info info;
    tuff_plan *plan = plan_of(deep_network, NULL, device, options, &info);
    if (!plan)
        fail_msg("%s", tuff_error());
    tuff_plan_destroy(plan);
    return info;
}

/* Keeps the first plan alive so that its programs are reused: some drivers are slow to compile them. */
static void keep_to(tuff_device *device, tuff_fuse_mode fuse, uint64_t percent)
{
    differential graph;
    tuff_plan_info whole, info;
    tuff_compile_options options = {.fuse = fuse};
    tuff_plan *free_plan = plan_of(deep_network, NULL, device, &options, &whole);
    assert_non_null(free_plan);
    options.memory_budget = whole.memory_peak * percent / 100;
    tuff_plan *plan = plan_of(deep_network, NULL, device, &options, &info);
    if (!plan)
        fail_msg("%s", tuff_error());
    print_message("    %" PRIu64 " bytes; with a budget of %" PRIu64 ": %" PRIu64 " bytes in %d tasks\n",
                  whole.memory_peak, options.memory_budget, info.memory_peak, info.task_count);
    assert_true(info.memory_peak > 0 && info.memory_peak <= options.memory_budget);
    differential_create(&graph, "deep network", deep_network, NULL, 7);
    assert_int_equal(differential_run(&graph, device, &options), 0);
    differential_destroy(&graph);
    tuff_plan_destroy(plan);
    tuff_plan_destroy(free_plan);
}

/* Tries one of three budgets, or all in a thorough run. */
static void keep_to_budget(tuff_device *device)
{
    const int drawn = drawn_turn("budget", 0, 3);
    if (is_thorough() || drawn == 0)
        keep_to(device, TUFF_FUSE_ALL, 65);
    if (is_thorough() || drawn == 1)
        keep_to(device, TUFF_FUSE_ALL, 85);
    if (is_thorough() || drawn == 2)
        keep_to(device, TUFF_FUSE_NONE, 65);
}

static void plans_keep_to_their_budget(void **state)
{
    (void)state;
    for_drawn_drivers(keep_to_budget);
}

/* Returns the number after a word of the error message. */
static uint64_t number_after(const char *word)
{
    const char *at = strstr(tuff_error(), word);
    if (!at)
        fail_msg("\"%s\" does not say %s", tuff_error(), word);
    return strtoull(at + strlen(word), NULL, 10);
}

static void refuse(tuff_device *device)
{
    tuff_compile_options options = {.memory_budget = 4096};
    tuff_plan_info info;
    assert_null(plan_of(deep_network, NULL, device, &options, &info));
    assert_int_equal(tuff_last_status(), TUFF_E_LIMIT);
    assert_int_equal(number_after("budget is "), 4096);
    options.memory_budget = number_after("recomputation is ");
    assert_true(info_of(device, &options).memory_peak <= options.memory_budget);
}

static void a_budget_out_of_reach_is_refused(void **state)
{
    (void)state;
    for_drawn_api(2, refuse);
}

static void change_nothing(tuff_device *device)
{
    const tuff_plan_info without = info_of(device, NULL);
    const uint64_t budgets[] = {0, without.memory_peak, UINT64_MAX};
    for (int i = 0; i < 3; i++) {
        const tuff_plan_info info = info_of(device, &(tuff_compile_options){.memory_budget = budgets[i]});
        assert_int_equal(info.memory_peak, without.memory_peak);
        assert_int_equal(info.task_count, without.task_count);
        assert_int_equal(info.node_count, without.node_count);
    }
}

static void enough_memory_changes_nothing(void **state)
{
    (void)state;
    for_drawn_api(3, change_nothing);
}

static void the_reference_takes_no_notice(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    assert_non_null(device);
    info_of(device, &(tuff_compile_options){.memory_budget = 1});
    tuff_device_close(device);
}

/* Returns whether the graph could be compiled to use less memory than without a budget. */
static bool try_random(tuff_device *device, uint64_t seed)
{
    tuff_plan_info info;
    tuff_plan *plan = plan_of(random_graph, &seed, device, NULL, &info);
    assert_non_null(plan);
    tuff_plan_destroy(plan);
    if (info.memory_peak < 2)
        return false;
    const tuff_compile_options options = {.memory_budget = info.memory_peak - 1};
    plan = plan_of(random_graph, &seed, device, &options, &info);
    if (!plan) {
        assert_int_equal(tuff_last_status(), TUFF_E_LIMIT);
        return false;
    }
    tuff_plan_destroy(plan);
    char name[48];
    differential graph;
    snprintf(name, sizeof name, "TUFF_RANDOM_SEED=%" PRIu64, seed);
    if (!differential_prepare(&graph, name, random_graph, &seed, seed))
        print_message("    seed %" PRIu64 ": the error bounds are too wide to be useful\n", seed);
    print_message("    seed %" PRIu64 ": %" PRIu64 " bytes\n", seed, info.memory_peak);
    assert_true(info.memory_peak <= options.memory_budget);
    assert_int_equal(differential_run(&graph, device, &options), 0);
    differential_destroy(&graph);
    return true;
}

static void keep_random(tuff_device *device)
{
    const uint64_t count = number_from("TUFF_RANDOM_GRAPHS", 1), first = number_from("TUFF_RANDOM_SEED", test_seed());
    int kept = 0;
    for (uint64_t i = 0; i < count; i++)
        kept += try_random(device, first + i);
    print_message("    %d of %" PRIu64 " random graphs use less memory with a budget\n", kept, count);
}

static void random_graphs_are_right_within_a_budget(void **state)
{
    (void)state;
    for_drawn_api(4, keep_random);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_keep_to_their_budget),
        cmocka_unit_test(a_budget_out_of_reach_is_refused),
        cmocka_unit_test(enough_memory_changes_nothing),
        cmocka_unit_test(the_reference_takes_no_notice),
        cmocka_unit_test(random_graphs_are_right_within_a_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
