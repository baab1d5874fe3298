/* Attention with all its gradients in one graph, as in models: with both families of kernels on every device found,
   against the float64 reference, and that against attention composed of other ops. Memory grows linearly with the
   length, not with its square. TUFF_DEVICE selects one device; TUFF_SUITE=thorough leaves nothing out. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "configured_plan.h"
#include "differential.h"
#include "device/state.h"
#include "each_device.h"
#include "exec/reference.h"
#include "graph/builder.h"
#include "graph/graph.h"
#include "kernels/tunables.h"

/* An attention. packed: queries, keys and values are parts of one tensor, as a merged projection writes them. turned:
   heads are the innermost axis in memory, so that the elements of a row are strided. bias: its extents; none if the
   first is 0. */
typedef struct shape {
    const char *name;
    int64_t batch, queries, keys, heads, groups, key_width, value_width;
    bool packed, turned, causal;
    int64_t window;
    double scale;
    int64_t bias[4];
    bool hides; /* the bias is -inf for some scores, and for all scores of every third row */
    bool no_softmax;
    double dropout;
} shape;

static const shape shapes[] = {
    {"one query", 2, 1, 100, 4, 2, 16, 16, .causal = true},
    {"two keys", 1, 33, 2, 2, 2, 8, 8, .causal = false},
    {"causal, 7", 2, 7, 7, 2, 2, 20, 20, .packed = true, .causal = true},
    {"causal, 100, heads of 64", 2, 100, 100, 2, 2, 64, 64, .packed = true, .causal = true},
    {"causal, 128", 1, 128, 128, 3, 3, 32, 32, .packed = true, .causal = true, .scale = 3},
    {"all keys, shared heads, widths that differ", 1, 33, 70, 4, 2, 24, 40, .causal = false},
    {"window, shared heads", 1, 100, 100, 4, 1, 12, 12, .causal = true, .window = 17},
    {"window over the keys behind and before", 1, 70, 70, 1, 1, 8, 8, .window = 9},
    {"more queries than keys", 1, 70, 33, 2, 1, 16, 32, .causal = true},
    {"odd widths", 1, 35, 35, 2, 2, 5, 3, .causal = true},
    {"wide heads", 1, 18, 18, 1, 1, 272, 130, .causal = true},
    {"heads of 256", 1, 35, 40, 2, 1, 256, 256, .causal = true},
    {"heads of 512, values of 1024", 1, 9, 35, 1, 1, 512, 1024, .bias = {1, 1, 9, 35}},
    {"heads of 1024, values of 1", 1, 18, 18, 1, 1, 1024, 1, .causal = true},
    {"heads of 1030", 1, 18, 18, 1, 1, 1030, 5, .causal = true},
    {"a bias for each score", 2, 40, 40, 2, 2, 16, 16, .packed = true, .causal = true, .bias = {2, 2, 40, 40}},
    {"a bias shared by batches", 2, 35, 70, 4, 2, 12, 8, .bias = {1, 4, 35, 70}},
    {"a bias shared by heads, window", 2, 67, 67, 2, 1, 8, 20, .causal = true, .window = 17, .bias = {2, 1, 67, 67}},
    {"a bias of keys", 2, 33, 131, 4, 2, 8, 8, .bias = {2, 1, 1, 131}},
    {"a bias that hides", 2, 35, 40, 2, 1, 16, 16, .bias = {2, 1, 35, 40}, .hides = true},
    {"without softmax", 2, 40, 70, 4, 2, 16, 24, .causal = true, .no_softmax = true},
    {"without softmax, a bias, window", 1, 67, 67, 2, 1, 5, 3, .window = 9, .bias = {1, 2, 67, 67}, .no_softmax = true},
    {"dropout", 2, 45, 45, 4, 2, 16, 16, .causal = true, .dropout = 0.3},
    {"dropout, packed", 2, 64, 64, 2, 2, 32, 32, .packed = true, .causal = true, .dropout = 0.1},
    {"dropout, a bias of keys", 2, 33, 70, 2, 1, 8, 8, .bias = {2, 1, 1, 70}, .dropout = 0.5},
    {"dropout without softmax, a bias", 2, 33, 70, 2, 1, 8, 8, .bias = {1, 2, 33, 70}, .no_softmax = true,
     .dropout = 0.5},
    {"elements of rows that lie apart", 2, 20, 35, 4, 2, 8, 12, .turned = true, .causal = true},
    {"a bias shared by all but queries", 3, 70, 35, 2, 2, 5, 3, .causal = true, .bias = {1, 1, 70, 35}},
    {"a bias shared by all of many batches", 37, 7, 5, 3, 3, 8, 8, .bias = {1, 1, 7, 5}},
};
enum { SHAPE_COUNT = sizeof shapes / sizeof shapes[0] };

typedef tuff_tensor *(*attention_builder)(tuff_tensor *q, tuff_tensor *k, tuff_tensor *v,
                                          const tuff_attention_options *options);

/* Returns part number index of a [B,T,3·H·D] tensor as [B,T,H,D]. */
static tuff_tensor *part_of(const shape *sizes, tuff_tensor *whole, int index)
{
    const int64_t width = sizes->heads * sizes->key_width;
    tuff_tensor *part = tuff_slice(whole, (int64_t[]){0, 0, index * width},
                                   (int64_t[]){sizes->batch, sizes->queries, (index + 1) * width}, NULL);
    return tuff_reshape(part, TUFF_SHAPE(sizes->batch, sizes->queries, sizes->heads, sizes->key_width));
}

/* Returns the bias and in *given the input that it is made of; NULL if there is none. */
static tuff_tensor *make_bias(tuff_graph *graph, const shape *sizes, tuff_tensor **given)
{
    const int64_t *extent = sizes->bias;
    const tuff_shape whole = TUFF_SHAPE(extent[0], extent[1], extent[2], extent[3]), rows = TUFF_SHAPE(1, extent[2], 1);
    if (extent[0] == 0)
        return NULL;
    *given = float_input(graph, whole);
    if (!sizes->hides)
        return *given;
    tuff_tensor *row = tuff_iota(graph, rows, 1), *three = tuff_constant(graph, TUFF_I32, 3);
    tuff_tensor *rest = tuff_sub(row, tuff_mul(tuff_div(row, three), three));
    tuff_tensor *seen = tuff_and(tuff_less(tuff_constant(graph, TUFF_I32, 0), rest),
                                 tuff_less(*given, tuff_constant(graph, TUFF_F32, 0.25)));
    return tuff_where(seen, *given, tuff_constant(graph, TUFF_F32, -INFINITY));
}

/* Returns an input [B,T,heads,width], seen through a permute if elements are strided. */
static tuff_tensor *operand(tuff_graph *graph, const shape *sizes, int64_t rows, int64_t heads, int64_t width)
{
    if (!sizes->turned)
        return float_input(graph, TUFF_SHAPE(sizes->batch, rows, heads, width));
    return tuff_permute(float_input(graph, TUFF_SHAPE(sizes->batch, rows, width, heads)), (int[]){0, 1, 3, 2});
}

/* Adds the result as an output, with or without the gradients. */
static void build_with(tuff_graph *graph, const shape *sizes, attention_builder build, bool gradients)
{
    tuff_tensor *given = NULL, *bias = make_bias(graph, sizes, &given);
    const tuff_attention_options options = {.causal = sizes->causal,
                                            .window = sizes->window,
                                            .scale = sizes->scale,
                                            .no_softmax = sizes->no_softmax,
                                            .bias = bias,
                                            .dropout = sizes->dropout};
    if (sizes->packed) {
        tuff_tensor *x =
            float_input(graph, TUFF_SHAPE(sizes->batch, sizes->queries, 3 * sizes->heads * sizes->key_width));
        tuff_tensor *y = build(part_of(sizes, x, 0), part_of(sizes, x, 1), part_of(sizes, x, 2), &options);
        add_with_gradients(graph, y, (tuff_tensor *[]){x, given}, gradients ? given ? 2 : 1 : 0);
        return;
    }
    tuff_tensor *x[4] = {operand(graph, sizes, sizes->queries, sizes->heads, sizes->key_width),
                         operand(graph, sizes, sizes->keys, sizes->groups, sizes->key_width),
                         operand(graph, sizes, sizes->keys, sizes->groups, sizes->value_width), given};
    add_with_gradients(graph, build(x[0], x[1], x[2], &options), x, gradients ? given ? 4 : 3 : 0);
}

static void build_attention(tuff_graph *graph, const void *context)
{
    build_with(graph, context, tuff__primitive_attention, true);
}

static void build_forward(tuff_graph *graph, const void *context)
{
    build_with(graph, context, tuff__primitive_attention, false);
}

static void build_composite(tuff_graph *graph, const void *context)
{
    build_with(graph, context, tuff__composite_attention, true);
}

static bool has_attention(const tuff_graph *graph)
{
    for (int i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->op == OP_ATTENTION)
            return true;
    return false;
}

static void the_primitive_is_chosen(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    tuff_graph *graph = tuff_graph_create(device), *composed = tuff_graph_create(device);
    build_with(graph, &shapes[3], tuff_attention, true);
    build_composite(composed, &shapes[3]);
    assert_true(has_attention(graph));
    assert_false(has_attention(composed));
    tuff_graph_destroy(graph);
    tuff_graph_destroy(composed);
    tuff_device_close(device);
}

/* Whether tuff_attention builds the primitive, on a device with fast private arrays. */
static bool builds_primitive(tuff_device *device, int64_t queries, int64_t keys, int64_t heads, int64_t groups)
{
    const shape sizes = {"", 2, queries, keys, heads, groups, 16, 16, .causal = true};
    tuff_graph *graph = tuff_graph_create(device);
    build_with(graph, &sizes, tuff_attention, true);
    const bool found = has_attention(graph);
    tuff_graph_destroy(graph);
    return found;
}

static void a_single_query_is_composed(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    assert_false(builds_primitive(device, 1, 100, 3, 3));
    assert_true(builds_primitive(device, 2, 100, 3, 3));
    assert_true(builds_primitive(device, 1, 40, 3, 3));
    assert_true(builds_primitive(device, 1, 100, 4, 2));
    tuff_device_close(device);
}

/* In double both are equal except for the scale, which is an f32 constant in the composite. */
static void the_reference_agrees_with_the_composite(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPE_COUNT; i++) {
        differential primitive, composite;
        differential_create(&primitive, shapes[i].name, build_attention, &shapes[i], 3);
        differential_create(&composite, shapes[i].name, build_composite, &shapes[i], 3);
        assert_int_equal(primitive.output_count, composite.output_count);
        for (int k = 0; k < primitive.output_count; k++)
            for (int64_t j = 0; j < primitive.outputs[k].count; j++)
                if (!(fabs(primitive.outputs[k].values[j] - composite.outputs[k].values[j]) <= 1e-6))
                    fail_msg("%s: %s[%lld] is %.17g, composed %.17g", shapes[i].name, primitive.outputs[k].name,
                             (long long)j, primitive.outputs[k].values[j], composite.outputs[k].values[j]);
        differential_destroy(&primitive);
        differential_destroy(&composite);
    }
}

/* Calls visit for each driver's device. Returns their number. */
static int each_driver(void (*visit)(tuff_device *device))
{
    const char *chosen = getenv("TUFF_DEVICE");
    int count = 0;
    for (int i = 0; i < tuff_device_count(); i++) {
        tuff_device_info info;
        assert_int_equal(tuff_device_describe_at(i, &info), TUFF_OK);
        if (info.device_class == TUFF_DEVICE_REFERENCE || (chosen && chosen[0] && strcmp(chosen, info.selector) != 0))
            continue;
        print_message("  %s: %s\n", info.selector, info.name);
        tuff_device *device = tuff_device_open(info.selector);
        if (!device)
            fail_msg("%s: %s", info.selector, tuff_error());
        visit(device);
        tuff_device_close(device);
        count++;
    }
    return count;
}

/* CPU drivers take long to compile kernels with barriers, especially OpenCL drivers, and Vulkan drivers take long for
   all of these. Unless the run is thorough, each run draws a few shapes. */
static bool is_drawn(const tuff_device *device, int index, int family)
{
    static const struct {
        const char *question;
        int share[2]; /* on OpenCL and Vulkan: one of so many shapes */
    } draws[] = {{"register kernels of a shape", {9, 9}}, {"local kernels of a shape", {27, 18}}};
    const bool is_glsl = strcmp(tuff__device_language(device), "GLSL") == 0;
    /* PoCL miscompiled the barrier in these sums over queries when it was in a branch. */
    const bool sums_bias = family == 1 && !is_glsl && strcmp(shapes[index].name, "a bias of keys") == 0;
    if (is_thorough() || sums_bias)
        return true;
    return is_drawn_for_device(device, index) &&
           drawn_turn(draws[family].question, index, draws[family].share[is_glsl]) == 0;
}

static void run_shapes(tuff_device *device)
{
    static const tuff_compile_options families[] = {{.family = TUFF_FAMILY_REGISTER}, {.family = TUFF_FAMILY_LOCAL}};
    int64_t failures = 0;
    for (int i = 0; i < SHAPE_COUNT; i++) {
        differential comparison;
        differential_create(&comparison, shapes[i].name, build_attention, &shapes[i], 7);
        for (int family = 0; family < 2; family++)
            if (is_drawn(device, i, family)) {
                /* With few compute units a group processes several blocks of keys. */
                const uint32_t units = device->info.compute_units;
                device->info.compute_units = drawn_turn("units", i, 2) == 0 ? 1 : units;
                failures += differential_run(&comparison, device, &families[family]);
                device->info.compute_units = units;
            }
        differential_destroy(&comparison);
    }
    assert_int_equal(failures, 0);
}

static void every_family_is_within_its_bounds(void **state)
{
    (void)state;
    if (each_driver(run_shapes) == 0)
        skip();
}

static void build_chosen(tuff_graph *graph, const void *context)
{
    build_with(graph, context, tuff_attention, true);
}

static void run_single_query(tuff_device *device)
{
    static const shape sizes = {"a single query", 2, 1, 100, 3, 3, 16, 24, .window = 70, .bias = {2, 3, 1, 100}};
    differential comparison;
    if (!is_drawn_for_device(device, 0))
        return;
    differential_create(&comparison, sizes.name, build_chosen, &sizes, 5);
    assert_int_equal(differential_run(&comparison, device, &(tuff_compile_options){.fuse = TUFF_FUSE_ALL}), 0);
    differential_destroy(&comparison);
}

static void a_single_query_is_within_its_bounds(void **state)
{
    (void)state;
    if (each_driver(run_single_query) == 0)
        skip();
}

/* Lanes with two keys, so that the forward pass has two sums for each score, too. */
static tuff_plan *compile_with_two_sums(tuff_graph *graph, const tuff_compile_options *options)
{
    tune_config config = {.set = {0}};
    tuff__config_set(&config, TUNABLE_attention_local_keys, 16);
    tuff__config_set(&config, TUNABLE_attention_local_backward_vectors, 1);
    tuff__config_set(&config, TUNABLE_attention_local_score_sums, 2);
    tuff_plan *plan = compile_configured(graph, options, TASK_ATTENTION, &config);
    assert_true(plan == NULL || uses_kernel(plan, "attention_local", "#define SCORE_SUMS 2"));
    assert_true(plan == NULL || uses_kernel(plan, "attention_backward_local", "#define SCORE_SUMS 2"));
    return plan;
}

/* Scores and gradients of queries as two sums, which are the default on AMD's GPUs. */
static void run_two_sums(tuff_device *device)
{
    const tuff_compile_options options = {.family = TUFF_FAMILY_LOCAL};
    int64_t failures = 0;
    for (int i = 0; i < SHAPE_COUNT; i++) {
        const bool is_usual = strcmp(shapes[i].name, "causal, 100, heads of 64") == 0;
        differential comparison;
        if (!is_thorough() &&
            (!is_drawn_for_device(device, i) || (!is_usual && drawn_turn("two sums for a shape", i, 27) != 0)))
            continue;
        differential_create(&comparison, shapes[i].name, build_attention, &shapes[i], 17);
        comparison.compile = compile_with_two_sums;
        failures += differential_run(&comparison, device, &options);
        differential_destroy(&comparison);
    }
    assert_int_equal(failures, 0);
}

static void scores_may_be_two_sums(void **state)
{
    (void)state;
    if (each_driver(run_two_sums) == 0)
        skip();
}

static int splits;  /* of the plans that compile_split compiles */
static bool joined; /* whether the last one combines any */

static tuff_plan *compile_split(tuff_graph *graph, const tuff_compile_options *options)
{
    tune_config config = {.set = {0}};
    tuff__config_set(&config, TUNABLE_attention_local_keys, 16);
    tuff__config_set(&config, TUNABLE_attention_local_splits, splits);
    tuff_plan *plan = compile_configured(graph, options, TASK_ATTENTION, &config);
    joined = plan && uses_body(plan, "attention_join");
    return plan;
}

/* Two groups share the keys of each query, or one for each panel of keys. Most plans have no gradients, because those
   take longer to compile. */
static void run_splits(tuff_device *device)
{
    const tuff_compile_options options = {.family = TUFF_FAMILY_LOCAL};
    int64_t failures = 0;
    for (int i = 0; i < SHAPE_COUNT; i++) {
        const bool gradients = is_thorough() || drawn_turn("gradients after splits", i, 8) == 0;
        differential comparison;
        if (!is_thorough() && (!is_drawn_for_device(device, i) || drawn_turn("splits of a shape", i, 9) != 0))
            continue;
        splits = drawn_turn("splits", i, 2) == 0 ? 2 : 32;
        differential_create(&comparison, shapes[i].name, gradients ? build_attention : build_forward, &shapes[i], 13);
        comparison.compile = compile_split;
        failures += differential_run(&comparison, device, &options);
        differential_destroy(&comparison);
        if (joined != (shapes[i].keys > 16))
            fail_msg("%s: the keys are not shared as requested", shapes[i].name);
    }
    assert_int_equal(failures, 0);
}

static void groups_share_the_keys(void **state)
{
    (void)state;
    if (each_driver(run_splits) == 0)
        skip();
}

/* The default: few queries over many keys leave most units of a large device idle, other shapes do not. The kernels are
   not compiled. */
static void split_for_many_units(tuff_device *device)
{
    static const struct {
        int64_t batch, queries, keys, heads;
        bool is_split;
    } cases[] = {{1, 1, 4096, 8, true},
                 {1, 16, 1024, 2, true},
                 {1, 1, 100, 8, false},
                 {32, 1, 512, 16, false},
                 {1, 2048, 2048, 8, false}};
    const tuff_device_info own = device->info;
    device->info.compute_units = 132;
    device->info.vendor_id = 0x10de;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const shape one = {.batch = cases[i].batch,
                           .queries = cases[i].queries,
                           .keys = cases[i].keys,
                           .heads = cases[i].heads,
                           .groups = cases[i].heads,
                           .key_width = 64,
                           .value_width = 64};
        tuff_plan *plan = NULL;
        tuff_graph *graph = tuff_graph_create(device);
        build_forward(graph, &one);
        assert_int_equal(tuff__plan_create(graph, &(tuff_compile_options){.family = TUFF_FAMILY_LOCAL}, NULL, &plan),
                         TUFF_OK);
        if (uses_body(plan, "attention_join") != cases[i].is_split)
            fail_msg("%lld queries, %lld keys", (long long)one.queries, (long long)one.keys);
        tuff_plan_destroy(plan);
        tuff_graph_destroy(graph);
    }
    device->info = own;
}

static void few_queries_share_their_keys(void **state)
{
    (void)state;
    for_drawn_drivers(split_for_many_units);
}

static void gradients_of_the_bias_are_the_same_in_each_run(tuff_device *device)
{
    size_t size;
    differential comparison;
    for (int i = 0; i < SHAPE_COUNT; i++) {
        if (strcmp(shapes[i].name, "a bias of keys") != 0)
            continue;
        differential_create(&comparison, shapes[i].name, build_attention, &shapes[i], 11);
        unsigned char *bytes = differential_bytes(&comparison, device, NULL, 3, &size);
        assert_non_null(bytes);
        free(bytes);
        differential_destroy(&comparison);
    }
}

/* Each run has another mask: as all weights of the one value are equal, the result shows how many were kept. */
static void dropout_is_fresh_in_each_run(tuff_device *device)
{
    enum { QUERIES = 40, KEYS = 200 };
    static float zeros[QUERIES * 4], keys[KEYS * 4], ones[KEYS];
    float results[2][QUERIES];
    double sum = 0;
    int different = 0;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *q = tuff_input(graph, "q", TUFF_F32, TUFF_SHAPE(1, QUERIES, 1, 4));
    tuff_tensor *k = tuff_input(graph, "k", TUFF_F32, TUFF_SHAPE(1, KEYS, 1, 4));
    tuff_tensor *v = tuff_input(graph, "v", TUFF_F32, TUFF_SHAPE(1, KEYS, 1, 1));
    tuff_output(graph, "y", tuff__primitive_attention(q, k, v, &(tuff_attention_options){.dropout = 0.25}));
    tuff_plan *plan = tuff_compile(graph, NULL);
    if (!plan)
        fail_msg("%s", tuff_error());
    for (int i = 0; i < KEYS; i++)
        ones[i] = 1;
    assert_int_equal(tuff_plan_write(plan, "q", zeros, sizeof zeros), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "k", keys, sizeof keys), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "v", ones, sizeof ones), TUFF_OK);
    for (int run = 0; run < 2; run++) {
        assert_int_equal(tuff_plan_run(plan), TUFF_OK);
        assert_int_equal(tuff_plan_read(plan, "y", results[run], sizeof results[run]), TUFF_OK);
    }
    for (int i = 0; i < QUERIES; i++) {
        sum += results[0][i];
        different += results[0][i] != results[1][i];
    }
    /* 8000 draws: 0.04 is six standard deviations of the mean. */
    assert_true(fabs(sum / QUERIES - 1) < 0.04);
    assert_true(different > QUERIES / 2);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

static void check_runs(tuff_device *device)
{
    if (is_drawn_for_device(device, 1))
        gradients_of_the_bias_are_the_same_in_each_run(device);
    if (is_drawn_for_device(device, 2))
        dropout_is_fresh_in_each_run(device);
}

static void runs_differ_in_their_dropout_only(void **state)
{
    (void)state;
    if (each_driver(check_runs) == 0)
        skip();
}

/* Returns the bytes that a plan of this length needs apart from inputs and outputs, if groups do not share keys: a GPU
   has more groups than one head of this length has blocks. */
static uint64_t scratch_of(tuff_device *device, int64_t length, bool everything)
{
    tuff_plan_info info;
    tuff_graph *graph = tuff_graph_create(device);
    const tuff_shape each = TUFF_SHAPE(1, length, 1, 64);
    tuff_tensor *x[4] = {float_input(graph, each), float_input(graph, each), float_input(graph, each)};
    tuff_attention_options options = {.causal = true};
    if (everything) {
        options.dropout = 0.1;
        options.bias = x[3] = float_input(graph, TUFF_SHAPE(length));
    }
    tuff_tensor *y = tuff__primitive_attention(x[0], x[1], x[2], &options);
    if (everything)
        add_with_gradients(graph, y, x, 4);
    else
        add_output(graph, y);
    tune_config config = {.set = {0}};
    tuff__config_set(&config, TUNABLE_attention_local_splits, 1);
    tuff_plan *plan = lower_configured(graph, &(tuff_compile_options){0}, TASK_ATTENTION, &config);
    if (!plan)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff_plan_describe(plan, &info), TUFF_OK);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    return info.memory_peak;
}

/* All memory, including packed keys and copies of gradients, is compared with that of inputs, result and
   log-sum-exp. */
static void check_memory(tuff_device *device)
{
    if (!is_drawn_for_device(device, 0))
        return;
    /* Drivers with a loop limit have no kernels for greater lengths. */
    const int64_t length = tuff__device_info(device)->loop_limit > 0 ? 2048 : 8192;
    const uint64_t tensors = 4 * (uint64_t)length * 64 * 4, lse = (uint64_t)length * 4;
    const uint64_t scratch = scratch_of(device, length, false);
    assert_true((double)(tensors + scratch) <= 1.35 * (double)(tensors + lse));
    assert_true(scratch <= 2 * scratch_of(device, length / 2, false) + 1024);
    assert_true(scratch_of(device, length, true) <= 2 * scratch_of(device, length / 2, true) + 4096);
}

static void memory_grows_with_the_length(void **state)
{
    (void)state;
    if (each_driver(check_memory) == 0)
        skip();
}

/* Intel's compiler spills the registers of other forms with two vectors of gradients in a lane. */
static void check_vectors(tuff_device *device)
{
    static const struct {
        int64_t length, width;
        bool wanted[3]; /* gradients of q, k and v */
        int vectors;
    } cases[] = {{64, 64, {true, true, true}, 2},  {64, 64, {true, false, false}, 2}, {64, 64, {false, true, false}, 1},
                 {64, 64, {true, false, true}, 1}, {67, 64, {true, true, true}, 1},   {64, 60, {true, true, true}, 1}};
    static const char *const names[] = {"q", "k", "v"}, *const outputs[] = {"first", "second", "third"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tuff_graph *graph = tuff_graph_create(device);
        tuff_tensor *rows[3], *wanted[3], *gradients[3];
        int count = 0;
        for (int k = 0; k < 3; k++) {
            rows[k] = tuff_input(graph, names[k], TUFF_F32, TUFF_SHAPE(1, cases[i].length, 1, cases[i].width));
            if (cases[i].wanted[k])
                wanted[count++] = rows[k];
        }
        tuff_tensor *y = tuff__primitive_attention(rows[0], rows[1], rows[2], NULL);
        tuff_tensor *loss = tuff_sum(tuff_mul(y, y), (int[]){0, 1, 2, 3}, 4, false);
        assert_int_equal(tuff_gradients(loss, wanted, count, gradients), TUFF_OK);
        for (int k = 0; k < count; k++)
            tuff_output(graph, outputs[k], gradients[k]);
        tuff_plan *plan =
            lower_configured(graph, &(tuff_compile_options){.family = TUFF_FAMILY_LOCAL}, TASK_ATTENTION, NULL);
        if (!plan)
            fail_msg("%s", tuff_error());
        for (int vectors = 1; vectors <= 2; vectors++) {
            char define[40];
            snprintf(define, sizeof define, "#define GRADIENT_VECTORS %d\n", vectors);
            if (uses_kernel(plan, "attention_backward_local", define) != (vectors == cases[i].vectors))
                fail_msg("case %zu: not %d vectors", i, cases[i].vectors);
        }
        tuff_plan_destroy(plan);
        tuff_graph_destroy(graph);
    }
}

static void describe_intel(tuff_device *device)
{
    if (tuff__device_takes_glsl(device))
        return;
    const tuff_device_info info = device->info;
    device->info.device_class = TUFF_DEVICE_GPU_DISCRETE;
    device->info.local_is_global = false;
    device->info.vendor_id = VENDOR_INTEL;
    device->info.min_subgroup_size = 8;
    device->info.max_subgroup_size = 32;
    device->info.local_memory_size = 65536;
    check_vectors(device);
    device->info = info;
}

static void intel_has_vectors_that_fit(void **state)
{
    (void)state;
    if (each_driver(describe_intel) == 0)
        skip();
}

static void second_derivatives_are_refused(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(1, 3, 1, 4)), *first, *second;
    const int axes[] = {0, 1, 2, 3};
    tuff_tensor *scalar = tuff_sum(tuff_attention(x, x, x, NULL), axes, 4, false);
    assert_int_equal(tuff_gradients(scalar, &x, 1, &first), TUFF_OK);
    scalar = tuff_sum(tuff_mul(first, first), axes, 4, false);
    assert_int_equal(tuff_gradients(scalar, &x, 1, &second), TUFF_E_UNSUPPORTED);
    assert_non_null(strstr(tuff_error(), "second derivatives"));
    tuff_graph_destroy(graph);
    tuff_device_close(device);
}

/* Masks with the lowest finite number: if they hide all keys of a row, all keys count equally; -inf takes precedence
   over them. */
static void mask_by_least_numbers(tuff_device *device, const tuff_compile_options *options,
                                  tuff_plan *(*compile)(tuff_graph *graph, const tuff_compile_options *options))
{
    enum { KEYS = 21, WIDTH = 8, HIDDEN = 0, OPEN = 1, ONE = 2, QUERIES = 3 };
    static const int seen[QUERIES] = {[OPEN] = 3, [ONE] = 2};
    float numbers[KEYS * WIDTH], bias[QUERIES * KEYS], y[QUERIES * WIDTH];
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *q = tuff_input(graph, "q", TUFF_F32, TUFF_SHAPE(1, QUERIES, 1, WIDTH)),
                *k = tuff_input(graph, "k", TUFF_F32, TUFF_SHAPE(1, KEYS, 1, WIDTH)),
                *mask = tuff_input(graph, "bias", TUFF_F32, TUFF_SHAPE(1, 1, QUERIES, KEYS));
    tuff_output(graph, "y", tuff__primitive_attention(q, k, k, &(tuff_attention_options){.bias = mask}));
    tuff_plan *plan = compile(graph, options);
    if (!plan)
        fail_msg("%s", tuff_error());
    for (int i = 0; i < KEYS * WIDTH; i++)
        numbers[i] = (float)(i % 7) / 8 - (float)(i % 3);
    for (int i = 0; i < QUERIES * KEYS; i++)
        bias[i] = i / KEYS == ONE ? -INFINITY : -FLT_MAX;
    bias[OPEN * KEYS + seen[OPEN]] = 0;
    bias[ONE * KEYS + seen[ONE]] = -FLT_MAX;
    assert_int_equal(tuff_plan_write(plan, "q", numbers, QUERIES * WIDTH * sizeof *numbers), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "k", numbers, sizeof numbers), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "bias", bias, sizeof bias), TUFF_OK);
    assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "y", y, sizeof y), TUFF_OK);
    for (int i = 0; i < WIDTH; i++) {
        float mean = 0;
        for (int j = 0; j < KEYS; j++)
            mean += numbers[j * WIDTH + i] / KEYS;
        assert_true(fabsf(y[HIDDEN * WIDTH + i] - mean) < 1e-5F);
        assert_true(fabsf(y[OPEN * WIDTH + i] - numbers[seen[OPEN] * WIDTH + i]) < 1e-5F);
        assert_true(fabsf(y[ONE * WIDTH + i] - numbers[seen[ONE] * WIDTH + i]) < 1e-5F);
    }
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

/* With the device's default kernels, and with those for GPUs. */
static void check_masks(tuff_device *device)
{
    const tuff_device_info info = device->info;
    if (is_drawn_for_device(device, 3))
        mask_by_least_numbers(device, NULL, tuff_compile);
    device->info.device_class = TUFF_DEVICE_GPU_DISCRETE;
    device->info.local_is_global = false;
    if (is_drawn_for_device(device, 4))
        mask_by_least_numbers(device, &(tuff_compile_options){.family = TUFF_FAMILY_LOCAL}, tuff_compile);
    splits = 2; /* of 16 and 5 keys */
    if (is_drawn_for_device(device, 5))
        mask_by_least_numbers(device, &(tuff_compile_options){.family = TUFF_FAMILY_LOCAL}, compile_split);
    device->info = info;
}

static void least_numbers_mask_all_keys_alike(void **state)
{
    (void)state;
    if (each_driver(check_masks) == 0)
        skip();
}

/* Band limits that graph files may contain although no builder creates them: distances beyond 32 bits, or just
   within. */
static void see_within_band(tuff_device *device)
{
    enum { LENGTH = 5 };
    static const struct {
        int64_t first, last;
        float seen[LENGTH]; /* sums of the visible keys' values, which are 1, 10, 100 ... */
    } bands[] = {{-1, INT32_MAX, {11111, 11111, 11110, 11100, 11000}},
                 {INT64_C(-4) * INT32_MAX, 0, {1, 11, 111, 1111, 11111}},
                 {INT32_MIN, INT64_C(1) << 32, {11111, 11111, 11111, 11111, 11111}},
                 {INT64_C(1) << 32, INT64_C(4) * INT32_MAX, {0}}};
    static const tuff_family families[] = {TUFF_FAMILY_REGISTER, TUFF_FAMILY_LOCAL};
    static const float ones[LENGTH] = {1, 1, 1, 1, 1}, values[LENGTH] = {1, 10, 100, 1000, 10000};
    for (int i = 0; i < 8; i++) {
        const op_attributes attributes = {
            .value = 1, .start = {bands[i / 2].first, bands[i / 2].last}, .options = ATTENTION_NO_SOFTMAX};
        float y[LENGTH];
        if (!is_one_of_two_drawn(device, i))
            continue;
        tuff_graph *graph = tuff_graph_create(device);
        tuff_tensor *q = tuff_input(graph, "q", TUFF_F32, TUFF_SHAPE(1, LENGTH, 1, 1)),
                    *v = tuff_input(graph, "v", TUFF_F32, TUFF_SHAPE(1, LENGTH, 1, 1));
        tuff_output(graph, "y", tuff__attention(&(attention_operands){q, q, v, NULL}, &attributes));
        tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.family = families[i % 2]});
        if (!plan)
            fail_msg("%s", tuff_error());
        assert_int_equal(tuff_plan_write(plan, "q", ones, sizeof ones), TUFF_OK);
        assert_int_equal(tuff_plan_write(plan, "v", values, sizeof values), TUFF_OK);
        assert_int_equal(tuff_plan_run(plan), TUFF_OK);
        assert_int_equal(tuff_plan_read(plan, "y", y, sizeof y), TUFF_OK);
        for (int j = 0; j < LENGTH; j++)
            if (y[j] != bands[i / 2].seen[j])
                fail_msg("band %d, query %d: %g", i / 2, j, (double)y[j]);
        tuff_plan_destroy(plan);
        tuff_graph_destroy(graph);
    }
}

static void bands_end_where_the_keys_do(void **state)
{
    (void)state;
    if (each_driver(see_within_band) == 0)
        skip();
}

/* Builders refuse attention without keys, but lowered graphs may come from elsewhere: either family returns an
   error. */
static void refuse_empty(tuff_device *device)
{
    static const tuff_family families[] = {TUFF_FAMILY_REGISTER, TUFF_FAMILY_LOCAL};
    const op_attributes attributes = {.value = 1, .start = {-4, 4}};
    for (int i = 0; i < 2; i++) {
        tuff_graph *graph = tuff_graph_create(device);
        assert_non_null(graph);
        tuff_tensor *q = tuff_input(graph, "q", TUFF_F32, TUFF_SHAPE(1, 2, 1, 4));
        tuff_tensor *k = tuff_input(graph, "k", TUFF_F32, TUFF_SHAPE(1, 0, 1, 4));
        tuff_output(graph, "y", tuff__attention(&(attention_operands){q, k, k, NULL}, &attributes));
        assert_null(tuff_compile(graph, &(tuff_compile_options){.family = families[i]}));
        assert_int_equal(tuff_last_status(), TUFF_E_LIMIT);
        assert_non_null(strstr(tuff_error(), "attention"));
        tuff_graph_destroy(graph);
    }
}

static void attention_without_keys_is_an_error(void **state)
{
    (void)state;
    for_drawn_drivers(refuse_empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_primitive_is_chosen),
        cmocka_unit_test(a_single_query_is_composed),
        cmocka_unit_test(the_reference_agrees_with_the_composite),
        cmocka_unit_test(every_family_is_within_its_bounds),
        cmocka_unit_test(a_single_query_is_within_its_bounds),
        cmocka_unit_test(scores_may_be_two_sums),
        cmocka_unit_test(groups_share_the_keys),
        cmocka_unit_test(few_queries_share_their_keys),
        cmocka_unit_test(runs_differ_in_their_dropout_only),
        cmocka_unit_test(memory_grows_with_the_length),
        cmocka_unit_test(least_numbers_mask_all_keys_alike),
        cmocka_unit_test(bands_end_where_the_keys_do),
        cmocka_unit_test(intel_has_vectors_that_fit),
        cmocka_unit_test(second_derivatives_are_refused),
        cmocka_unit_test(attention_without_keys_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
