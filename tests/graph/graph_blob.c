/* Graphs as bytes: a graph that is read back has the same tasks, kernels and keys as the one written, for every kind of
   op and for training. Bytes that were damaged, truncated or invented lead to an error or to another valid graph, never
   to a crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "each_device.h"
#include "graph/blob/blob.h"
#include "hard_graphs.h"
#include "random_graph.h"
#include "small_plans.h"
#include "measure/candidate_run.h"
#include "api/tuner.h"
#include "tools/model/known_plans.h"
#include "base/rng.h"

enum { HEAD = 20 };

static void write_graph(const tuff_graph *graph, text *out)
{
    *out = (text){0};
    assert_int_equal(tuff__graph_write(graph, out), TUFF_OK);
}

/* Creates a plan with only the parts that keys depend on. */
static void fuse_copy(const tuff_plan *like, tuff_graph *graph, tuff_plan *out)
{
    const tuff_compile_options options = {.fuse = TUFF_FUSE_ALL};
    *out = (tuff_plan){.device = like->device, .graph = graph, .is_tunable = true};
    assert_int_equal(tuff__fuse(graph, &options, like->fusion.buffer_limit, NULL, &out->fusion), TUFF_OK);
    assert_int_equal(tuff__plan_list_keys(out), TUFF_OK);
}

static void expect_same_kernels(const tuff_plan *a, const tuff_plan *b)
{
    const tuff_compile_options options = {.fuse = TUFF_FUSE_ALL};
    const tune_config defaults = {.set = {0}};
    assert_int_equal(a->fusion.task_count, b->fusion.task_count);
    for (int i = 0; i < a->fusion.task_count; i++) {
        task_estimate x = {.kernels = 0}, y = {.kernels = 0};
        const tuff_status status = tuff__estimate_task(a->device, &a->fusion, &options, i, &defaults, &x);
        assert_int_equal(status, tuff__estimate_task(b->device, &b->fusion, &options, i, &defaults, &y));
        assert_true(x.kernels == y.kernels);
    }
}

static void expect_same_keys(tuff_plan *a, const tuff_plan *b)
{
    assert_int_equal(tuff__plan_list_keys(a), TUFF_OK);
    assert_int_equal(a->keys.count, b->keys.count);
    for (int i = 0; i < a->keys.count; i++) {
        assert_string_equal(a->keys.items[i].text, b->keys.items[i].text);
        assert_int_equal(a->keys.items[i].task, b->keys.items[i].task);
        assert_int_equal(a->keys.items[i].calls, b->keys.items[i].calls);
    }
}

static void expect_round_trip(tuff_plan *plan)
{
    text bytes, again;
    tuff_graph *copy;
    tuff_plan read;
    write_graph(plan->graph, &bytes);
    if (tuff__graph_read(plan->device, bytes.data, bytes.length, &copy) != TUFF_OK)
        fail_msg("%s", tuff_error());
    write_graph(copy, &again);
    assert_int_equal(bytes.length, again.length);
    assert_memory_equal(bytes.data, again.data, bytes.length);
    fuse_copy(plan, copy, &read);
    expect_same_kernels(plan, &read);
    expect_same_keys(plan, &read);
    tuff__plan_keys_free(&read.keys);
    tuff__fusion_free(&read.fusion);
    tuff_graph_destroy(copy);
    tuff__text_free(&bytes);
    tuff__text_free(&again);
}

static tuff_plan *plan_built(tuff_device *device, graph_builder build, const void *context, tuff_graph **graph)
{
    const tuff_compile_options options = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}};
    *graph = tuff_graph_create(device);
    build(*graph, context);
    tuff_plan *plan = plan_without_programs(*graph, &options);
    if (!plan)
        tuff_graph_destroy(*graph);
    return plan;
}

static bool round_trip(tuff_device *device, graph_builder build, const void *context)
{
    tuff_graph *graph;
    tuff_plan *plan = plan_built(device, build, context, &graph);
    if (!plan)
        return false;
    expect_round_trip(plan);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    return true;
}

static void try_graphs(tuff_device *device)
{
    const uint64_t seeds = is_thorough() ? 40 : 12;
    int count = 0;
    for (uint64_t seed = 0; seed < seeds; seed++)
        if (is_drawn_for_api(device, (int)seed))
            count += round_trip(device, random_graph, &seed);
    for (int i = 0; i < hard_graph_count; i++)
        if (is_drawn_for_api(device, i))
            count += round_trip(device, hard_graphs[i].build, NULL);
    print_message("    %d graphs\n", count);
    assert_true(count > (int)seeds / 2);
}

static void graphs_come_back(void **state)
{
    (void)state;
    for_each_api(try_graphs);
}

static void try_models(tuff_device *device)
{
    const model_config small = {.layers = 2, .heads = 2, .width = 32, .context = 16, .vocabulary = 64};
    for (int i = 0; i < 4; i++) {
        /* All their programs are compiled, which takes long: one of two models with a budget and one without, on one
           API each. */
        if (!is_drawn_for_api(device, i / 2) || (!is_thorough() && drawn_turn("model", i, 2) != 0))
            continue;
        const tuff_compile_options options = {.memory_budget = i > 1 ? 200000 : 0,
                                              .tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}};
        model_plans plans = {0};
        const model_options described = {.model = small, .batch = 2, .recompute = i % 2};
        const tuff_status status = model_plans_open(device, &described, &options, &plans);
        for (int k = 0; k < MODEL_PLAN_COUNT && status == TUFF_OK; k++)
            expect_round_trip(plans.items[k].plan);
        model_plans_destroy(&plans);
        if (i <= 1 || status != TUFF_E_LIMIT)
            assert_int_equal(status, TUFF_OK);
    }
}

static void models_come_back(void **state)
{
    (void)state;
    for_each_api(try_models);
}

static bool is_read(tuff_device *device, const void *data, size_t size)
{
    tuff_graph *copy;
    unsigned char *exact = malloc(size + 1);
    assert_non_null(exact);
    memcpy(exact, data, size);
    const tuff_status status = tuff__graph_read(device, exact, size, &copy);
    if (status == TUFF_OK) {
        const tuff_compile_options options = {.fuse = TUFF_FUSE_ALL};
        tuff_plan plan = {.device = device, .graph = copy, .is_tunable = true};
        if (tuff__fuse(copy, &options, 8, NULL, &plan.fusion) == TUFF_OK)
            (void)tuff__plan_list_keys(&plan);
        tuff__plan_keys_free(&plan.keys);
        tuff__fusion_free(&plan.fusion);
    } else {
        assert_true(status == TUFF_E_FORMAT || status == TUFF_E_UNSUPPORTED);
        assert_null(copy);
    }
    tuff_graph_destroy(copy);
    free(exact);
    return status == TUFF_OK;
}

static void update_checksum(unsigned char *data, size_t size)
{
    const uint32_t sum = tuff__crc32(data + HEAD, size - HEAD);
    for (int i = 0; i < 4; i++)
        data[8 + i] = (unsigned char)(sum >> (8 * i));
}

/* With a wrong checksum all damage is detected; with a correct one, the result must be a valid graph or an error. */
static int damage(tuff_device *device, const text *bytes, rng *from, int times)
{
    unsigned char *data = malloc(bytes->length);
    int read = 0;
    assert_non_null(data);
    for (int i = 0; i < times; i++) {
        memcpy(data, bytes->data, bytes->length);
        const int most = 1 + tuff__rng_below(from, 3);
        for (int k = 0; k < most; k++) {
            const size_t at = (size_t)tuff__rng_below(from, (int)bytes->length);
            static const unsigned char defaults[] = {0, 1, 2, 3, 4, 0x7f, 0x80, 0xff};
            const int flipped = data[at] ^ 1 << tuff__rng_below(from, 8);
            data[at] = (unsigned char)(tuff__rng_below(from, 2) ? defaults[tuff__rng_below(from, 8)] : flipped);
        }
        if (memcmp(data, bytes->data, bytes->length) != 0)
            assert_false(is_read(device, data, bytes->length));
        update_checksum(data, bytes->length);
        read += is_read(device, data, bytes->length);
    }
    free(data);
    return read;
}

static void damage_built(tuff_device *device, graph_builder build, const void *context, int times)
{
    rng from = {11};
    tuff_graph *graph;
    text bytes;
    tuff_plan *plan = plan_built(device, build, context, &graph);
    if (!plan)
        return;
    write_graph(plan->graph, &bytes);
    const int read = damage(device, &bytes, &from, times);
    print_message("%d of %d damaged graphs were accepted\n", read, times);
    assert_true(read < times);
    for (size_t size = 0; size < bytes.length; size += 1 + bytes.length / 500)
        assert_false(is_read(device, bytes.data, size));
    tuff__text_add_bytes(&bytes, "", 1);
    assert_false(is_read(device, bytes.data, bytes.length));
    tuff__text_free(&bytes);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

static void damage_all(tuff_device *device)
{
    const char *asked = getenv("TUFF_TEST_DAMAGES");
    const int times = asked ? atoi(asked) : 24;
    for (uint64_t seed = 0; seed < 6; seed++)
        if (is_drawn_for_api(device, (int)seed))
            damage_built(device, random_graph, &seed, times);
    for (int i = 0; i < hard_graph_count; i += 3)
        if (is_drawn_for_api(device, i / 3))
            damage_built(device, hard_graphs[i].build, NULL, times);
}

static void damage_is_found(void **state)
{
    (void)state;
    for_each_api(damage_all);
}

/* The list of assignments names one twice, and omits the one that matters. */
static void try_incomplete_assigns(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_array *arrays[3];
    text bytes;
    for (int i = 0; i < 3; i++) {
        const tuff_shape shape = TUFF_SHAPE(i == 2 ? 4 : 0);
        arrays[i] = tuff_array_create(device, TUFF_F32, shape);
        tuff_assign(graph, arrays[i], tuff_input(graph, (const char *[]){"a", "b", "c"}[i], TUFF_F32, shape));
    }
    write_graph(graph, &bytes);
    assert_true(is_read(device, bytes.data, bytes.length));
    tuff__text_free(&bytes);
    graph->assigns[2] = graph->assigns[0];
    write_graph(graph, &bytes);
    assert_false(is_read(device, bytes.data, bytes.length));
    tuff__text_free(&bytes);
    tuff_graph_destroy(graph);
    for (int i = 0; i < 3; i++)
        tuff_array_destroy(arrays[i]);
}

static void every_assign_is_listed(void **state)
{
    (void)state;
    for_each_api(try_incomplete_assigns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_come_back),
        cmocka_unit_test(models_come_back),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(every_assign_is_listed),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
