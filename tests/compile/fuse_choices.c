/* Results are correct however a graph is rewritten and fused: with each rewriting off, and with each applied wherever
   it is possible (TUFF_PASSES), on graphs that are hard to fuse, against the float64 reference. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "differential.h"
#include "each_device.h"
#include "hard_graphs.h"
#include "exec/plan.h"

enum { MOST = 64, EVERY = 6 };

typedef struct pass_settings {
    tune_config all[MOST]; /* the settings that lead to different kernels; the first is the default */
    uint64_t kernels[MOST];
    int count;
    uint64_t seen[CONFIG_WORDS]; /* rewritings that were applicable to a graph and changed its kernels */
} pass_settings;

/* Returns the hash of a graph's kernels. *found gets the rewritings that are applicable to it. */
static uint64_t kernels_of(tuff_graph *graph, const tune_config *passes, tune_config *found)
{
    const tuff_compile_options options = {.fuse = TUFF_FUSE_ALL};
    uint32_t items;
    tuff_plan *plan;
    assert_int_equal(tuff__plan_create(graph, &options, passes, &plan), TUFF_OK);
    plan->discards_binaries = true;
    const uint64_t kernels = tuff__launch_list_hash(&plan->executable.launches, &items);
    *found = plan->passes.possible;
    tuff_plan_destroy(plan);
    return kernels;
}

static void add_pass_setting(pass_settings *self, tuff_graph *graph, const tune_config *passes)
{
    tune_config found;
    const uint64_t kernels = kernels_of(graph, passes, &found);
    for (int i = 0; i < self->count; i++)
        if (self->kernels[i] == kernels)
            return;
    assert_true(self->count < MOST);
    self->kernels[self->count] = kernels;
    self->all[self->count++] = *passes;
}

/* Tries each rewriting at all its other values, and all of them off. */
static void list_pass_settings(tuff_graph *graph, pass_settings *out)
{
    const tune_config defaults = {.set = {0}};
    tune_config none = {.set = {0}}, found;
    (void)kernels_of(graph, &defaults, &found);
    add_pass_setting(out, graph, &defaults);
    for (int i = 0; i < TUNABLE_COUNT; i++) {
        const tunable one = (tunable)i;
        if (!tuff__config_has(&found, one))
            continue;
        assert_string_equal(tuff__tunable_info(one)->kernel, "fusion");
        for (int value = 0; value <= tuff__tunable_info(one)->max; value++) {
            tune_config by = {.set = {0}};
            const int before = out->count;
            tuff__config_set(&by, one, value);
            if (value != 1)
                add_pass_setting(out, graph, &by);
            if (out->count > before)
                out->seen[i / 64] |= (uint64_t)1 << i % 64;
        }
        tuff__config_set(&none, one, 0);
    }
    add_pass_setting(out, graph, &none);
}

static void set_passes(const tune_config *passes)
{
    text name = {0};
    tuff__config_format(passes, &name);
    assert_int_equal(setenv("TUFF_PASSES", tuff__text_get(&name), 1), 0);
    tuff__text_free(&name);
}

/* An operand from an activation and a mask, which a product may compute where it loads it. */
static void made_operands(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = ranged_input(graph, TUFF_F32, TUFF_SHAPE(24, 40), -1, 1),
                *w = ranged_input(graph, TUFF_F32, TUFF_SHAPE(40, 20), -1, 1),
                *m = ranged_input(graph, TUFF_F32, TUFF_SHAPE(24, 40), 0, 1);
    add_output(graph, tuff_matmul(tuff_mul(tuff_tanh(x), m), w));
}

/* Few tiles, many terms. */
static void long_product(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = ranged_input(graph, TUFF_F32, TUFF_SHAPE(12, 4096), 0.5, 1),
                *w = ranged_input(graph, TUFF_F32, TUFF_SHAPE(4096, 16), 0.5, 1);
    add_output(graph, tuff_matmul(x, w));
}

/* A value with one more reader after many other ops. */
static void late_reader(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = ranged_input(graph, TUFF_F32, TUFF_SHAPE(256, 288), -1, 1),
                *w = ranged_input(graph, TUFF_F32, TUFF_SHAPE(288, 16), -1, 1);
    tuff_tensor *y = tuff_mul(tuff_add(x, tuff_constant(graph, TUFF_F32, 0.5)), x), *z = tuff_matmul(y, w);
    for (int i = 0; i < 2 * LATE_GAP; i++)
        z = i % 2 == 0 ? tuff_tanh(z) : tuff_add(z, tuff_constant(graph, TUFF_F32, 0.125));
    add_output(graph, tuff_add(tuff_sum(z, (int[]){1}, 1, true), y));
}

static const hard_graph own_graphs[] = {{"made operands", made_operands, false},
                                        {"long product", long_product, false},
                                        {"late reader", late_reader, false}};
enum { OWN_GRAPHS = sizeof own_graphs / sizeof *own_graphs };

static uint64_t seen[CONFIG_WORDS];
static int number; /* counts the cases that take turns over the devices */

static int64_t run_graph(tuff_device *device, const differential *comparison)
{
    pass_settings found = {.count = 0};
    int64_t failures = 0;
    tuff_graph *graph = tuff_graph_create(device);
    comparison->build(graph, comparison->context);
    assert_int_equal(tuff_graph_status(graph), TUFF_OK);
    list_pass_settings(graph, &found);
    for (int i = 0; i < CONFIG_WORDS; i++)
        seen[i] |= found.seen[i];
    for (int i = 1; i < found.count; i++) {
        const int turn = number++;
        if (!is_thorough() && drawn_turn("ways", turn, EVERY) != 0)
            continue; /* compiling takes most of the time */
        if (!is_drawn_for_device(device, turn / EVERY))
            continue;
        set_passes(&found.all[i]);
        const int64_t failed = differential_run(comparison, device, NULL);
        if (failed > 0) {
            text name = {0};
            tuff__config_format(&found.all[i], &name);
            print_error("%s: failed with %s\n", comparison->name, tuff__text_get(&name));
            tuff__text_free(&name);
        }
        failures += failed;
    }
    assert_int_equal(unsetenv("TUFF_PASSES"), 0);
    tuff_graph_destroy(graph);
    return failures;
}

static int64_t failures;

static void run_all(tuff_device *device)
{
    number = 0;
    for (int i = 0; i < hard_graph_count + OWN_GRAPHS; i++) {
        differential graph;
        const hard_graph *hard = i < hard_graph_count ? &hard_graphs[i] : &own_graphs[i - hard_graph_count];
        differential_create(&graph, hard->name, hard->build, NULL, (uint64_t)i);
        failures += run_graph(device, &graph);
        differential_destroy(&graph);
    }
}

static void all_ways_are_right(void **state)
{
    (void)state;
    failures = 0;
    for_each_driver(run_all);
    assert_int_equal(failures, 0);
}

/* Every rewriting must change at least one of the graphs, else the test above does not cover it. */
static void all_rewritings_are_seen(void **state)
{
    (void)state;
    int count = 0, all = 0;
    for (int i = 0; i < TUNABLE_COUNT; i++) {
        const bool is_one = strcmp(tuff__tunable_info((tunable)i)->kernel, "fusion") == 0;
        const bool is_seen = (seen[i / 64] >> i % 64 & 1) != 0;
        all += is_one;
        count += is_one && is_seen;
        if (is_one && !is_seen)
            print_message("fusion.%s changes no graph\n", tuff__tunable_info((tunable)i)->name);
    }
    if (number > 0)
        assert_int_equal(count, all);
}

static uint64_t plan_hash(tuff_graph *graph)
{
    uint64_t hash[2];
    tuff_plan *plan = tuff_compile(graph, NULL);
    assert_non_null(plan);
    assert_int_equal(tuff_plan_hash(plan, hash), TUFF_OK);
    tuff_plan_destroy(plan);
    return hash[0] ^ hash[1];
}

/* Invalid settings change nothing; a valid one does. */
static void set_in_the_environment(tuff_device *device)
{
    static const char *const wrong[] = {"", "fusion.maps", "fusion.nothing=0", "fusion.maps=7", "task.family=1"};
    tuff_graph *graph = tuff_graph_create(device);
    late_reader(graph, NULL);
    const uint64_t defaults = plan_hash(graph);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(setenv("TUFF_PASSES", wrong[i], 1), 0);
        assert_true(plan_hash(graph) == defaults);
    }
    assert_int_equal(setenv("TUFF_PASSES", "fusion.recompute=0", 1), 0);
    assert_true(plan_hash(graph) != defaults);
    assert_int_equal(unsetenv("TUFF_PASSES"), 0);
    tuff_graph_destroy(graph);
}

static void the_environment_turns_rewritings_off(void **state)
{
    (void)state;
    for_drawn_api(0, set_in_the_environment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_turns_rewritings_off),
        cmocka_unit_test(all_ways_are_right),
        cmocka_unit_test(all_rewritings_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
