/* Matmuls that share an operand are merged into one kernel if their weights are adjacent in memory, and stay separate
   if not, with the same results. All numbers are small enough for exact arithmetic on every device, so that results are
   compared bit for bit. Also tests split products. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "compile/rewrite/matmul_merge.h"
#include "compile/rewrite/simplify.h"
#include "compile/schedule/cost.h"
#include "each_device.h"
#include "exec/plan.h"
#include "gpu_description.h"
#include "small_plans.h"

enum { ROWS = 4, PROJECTIONS = 3, MOST = 1024 };

/* Returns a number from -2 to 2, without a pattern that a wrong address would preserve. */
static float number(int seed, int64_t i)
{
    const uint32_t hash = ((uint32_t)i * 2654435761u + (uint32_t)seed * 40503u) >> 13;
    return (float)(hash % 5) - 2;
}

static void fill(tuff_array *array, int seed, float *copy)
{
    const int64_t count = tuff_shape_count(tuff_array_shape(array));
    assert_true(count <= MOST);
    for (int64_t i = 0; i < count; i++)
        copy[i] = number(seed, i);
    assert_int_equal(tuff_array_write(array, copy, (size_t)count * sizeof *copy), TUFF_OK);
}

/* Three projections of one x. */
typedef struct projections {
    const char *description;
    bool transposed, in_slab, with_bias, first_is_output;
    int64_t inner, columns[PROJECTIONS];
    int matmuls; /* expected number after merging */
} projections;

static const projections cases[] = {
    {"matrices of one shape", false, true, false, false, 6, {8, 8, 8}, 1},
    {"matrices of one shape with gaps between them", false, true, true, false, 6, {5, 5, 5}, 1},
    {"two of one shape and another", false, true, false, false, 16, {9, 4, 4}, 2},
    {"rows of one matrix", true, true, true, false, 16, {8, 3, 5}, 1},
    {"transposed matrices of one shape with gaps", true, true, false, false, 6, {5, 5, 5}, 1},
    {"different shapes with gaps", true, true, false, false, 6, {4, 3, 5}, 3},
    {"memory of their own", false, false, true, false, 6, {8, 8, 8}, 3},
    {"the first is wanted by itself", false, true, true, true, 6, {8, 8, 8}, 2},
};

typedef struct weights {
    tuff_parameters *slab;
    tuff_array *own[PROJECTIONS], *arrays[PROJECTIONS];
    float values[PROJECTIONS][MOST];
} weights;

static void make_weights(tuff_device *device, const projections *layer, weights *out)
{
    tuff_parameter_spec specs[PROJECTIONS];
    char names[PROJECTIONS][8];
    *out = (weights){.slab = NULL};
    for (int i = 0; i < PROJECTIONS; i++) {
        snprintf(names[i], sizeof names[i], "w%d", i);
        const tuff_shape shape = layer->transposed ? TUFF_SHAPE(layer->columns[i], layer->inner)
                                                   : TUFF_SHAPE(layer->inner, layer->columns[i]);
        specs[i] = (tuff_parameter_spec){.name = names[i], .shape = shape};
        if (!layer->in_slab)
            out->own[i] = tuff_array_create(device, TUFF_F32, shape);
    }
    if (layer->in_slab)
        out->slab = tuff_parameters_create(device, specs, PROJECTIONS);
    for (int i = 0; i < PROJECTIONS; i++) {
        out->arrays[i] = layer->in_slab ? tuff_parameters_at(out->slab, i, NULL) : out->own[i];
        assert_non_null(out->arrays[i]);
        fill(out->arrays[i], i, out->values[i]);
    }
}

static void destroy_weights(weights *made)
{
    tuff_parameters_destroy(made->slab);
    for (int i = 0; i < PROJECTIONS; i++)
        tuff_array_destroy(made->own[i]);
}

/* Returns 2 · (x · w + column number) if the layer has a bias and this projection is not plain, else x · w. */
static tuff_tensor *project(tuff_graph *graph, const projections *layer, tuff_tensor *x, tuff_array *w, bool plain)
{
    tuff_tensor *weight = tuff_array_tensor(graph, w);
    if (layer->transposed)
        weight = tuff_permute(weight, (int[]){1, 0});
    tuff_tensor *y = tuff_matmul(x, weight);
    if (!layer->with_bias || plain)
        return y;
    const int64_t columns = tuff_tensor_shape(y).extent[1];
    tuff_tensor *bias = tuff_cast(tuff_iota(graph, TUFF_SHAPE(columns), 0), TUFF_F32);
    return tuff_mul(tuff_add(y, bias), tuff_constant(graph, TUFF_F32, 2));
}

static void expect_projection(tuff_plan *plan, const projections *layer, const weights *made, const float *x, int which)
{
    char name[8];
    float expected[64] = {0};
    const int64_t columns = layer->columns[which];
    for (int64_t i = 0; i < ROWS * columns; i++) {
        const int64_t row = i / columns, column = i % columns;
        for (int64_t k = 0; k < layer->inner; k++)
            expected[i] += x[row * layer->inner + k] *
                           made->values[which][layer->transposed ? column * layer->inner + k : k * columns + column];
        if (layer->with_bias && !(which == 0 && layer->first_is_output))
            expected[i] = 2 * (expected[i] + (float)column);
        if (!(which == 0 && layer->first_is_output))
            expected[i] = expected[i] < 0 ? -expected[i] : expected[i];
    }
    snprintf(name, sizeof name, "y%d", which);
    expect_output(plan, name, expected, (size_t)(ROWS * columns) * sizeof *expected);
}

/* Makes another kernel read the product: reverses its rows, takes the absolute value and reverses them back. */
static tuff_tensor *read_elsewhere(tuff_tensor *y)
{
    const tuff_shape shape = tuff_tensor_shape(y);
    const int64_t start[] = {shape.extent[0] - 1, 0}, stop[] = {-1, shape.extent[1]}, step[] = {-1, 1};
    return tuff_slice(tuff_abs(tuff_slice(y, start, stop, step)), start, stop, step);
}

static void run_case(tuff_device *device, const projections *layer)
{
    weights made;
    float data[ROWS * 16];
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, layer->inner));
    make_weights(device, layer, &made);
    for (int i = 0; i < PROJECTIONS; i++) {
        const bool plain = i == 0 && layer->first_is_output;
        tuff_tensor *y = project(graph, layer, x, made.arrays[i], plain);
        char name[8];
        snprintf(name, sizeof name, "y%d", i);
        tuff_output(graph, name, plain ? y : read_elsewhere(y));
    }
    tuff_plan *plan = compile_plan(graph);
    if (count_tasks(plan, "matmul", NULL) != layer->matmuls)
        fail_msg("%s: %d matmuls, not %d", layer->description, count_tasks(plan, "matmul", NULL), layer->matmuls);
    for (int64_t i = 0; i < ROWS * layer->inner; i++)
        data[i] = number(7, i);
    assert_int_equal(tuff_plan_write(plan, "x", data, (size_t)(ROWS * layer->inner) * sizeof *data), TUFF_OK);
    run_plan(plan);
    for (int i = 0; i < PROJECTIONS; i++)
        expect_projection(plan, layer, &made, data, i);
    destroy_plan(plan, graph);
    destroy_weights(&made);
}

static void project_all(tuff_device *device)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run_case(device, &cases[i]);
}

static void neighbours_become_one(void **state)
{
    (void)state;
    for_drawn_drivers(project_all);
}

/* Two layers, the second of three projections. Returns the number of matmuls of a step of gradient descent, and the
   parameters after it in `after`. */
static int descend(tuff_device *device, bool transposed, float *after, size_t size)
{
    static const int64_t columns[] = {8, 3, 5}, inner = 16;
    tuff_parameter_spec specs[] = {{"first", TUFF_SHAPE(6, inner)}, {"q", {0}}, {"k", {0}}, {"v", {0}}};
    for (int i = 0; i < 3; i++)
        specs[i + 1].shape = transposed ? TUFF_SHAPE(columns[i], inner) : TUFF_SHAPE(inner, 8);
    tuff_parameters *parameters = tuff_parameters_create(device, specs, 4);
    const tuff_optimizer_options rule = {.kind = TUFF_SGD, .learning_rate = 1.0 / 4096};
    tuff_optimizer *optimizer = tuff_optimizer_create(parameters, &rule);
    assert_non_null(optimizer);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, 6)), *loss = NULL, *values[4];
    float data[ROWS * 6], scratch[MOST];
    for (int i = 0; i < 4; i++) {
        fill(tuff_parameters_at(parameters, i, NULL), i, scratch);
        values[i] = tuff_array_tensor(graph, tuff_parameters_at(parameters, i, NULL));
    }
    tuff_tensor *hidden = tuff_matmul(x, values[0]);
    for (int i = 1; i < 4; i++) {
        tuff_tensor *w = transposed ? tuff_permute(values[i], (int[]){1, 0}) : values[i];
        tuff_tensor *y = tuff_matmul(hidden, w);
        tuff_tensor *sum = tuff_sum(tuff_mul(y, y), (int[]){0, 1}, 2, false);
        loss = loss ? tuff_add(loss, sum) : sum;
    }
    assert_int_equal(tuff_optimizer_apply(optimizer, tuff_mul(loss, tuff_constant(graph, TUFF_F32, 0.5)), NULL),
                     TUFF_OK);
    tuff_output(graph, "loss", loss);
    tuff_plan *plan = compile_plan(graph);
    for (int i = 0; i < ROWS * 6; i++)
        data[i] = number(9, i) > 0;
    assert_int_equal(tuff_plan_write(plan, "x", data, sizeof data), TUFF_OK);
    run_plan(plan);
    for (int i = 0; i < 4; i++) {
        tuff_array *array = tuff_parameters_at(parameters, i, NULL);
        assert_true(tuff_array_size(array) <= size);
        assert_int_equal(tuff_array_read(array, after, (size_t)tuff_array_size(array)), TUFF_OK);
        after += tuff_array_size(array) / sizeof *after;
        size -= (size_t)tuff_array_size(array);
    }
    const bool counted = !tuff__device_is_reference(device);
    const int matmuls = counted ? count_tasks(plan, "matmul", NULL) : 0;
    destroy_plan(plan, graph);
    tuff_optimizer_destroy(optimizer);
    tuff_parameters_destroy(parameters);
    return matmuls;
}

/* Without merging there would be 11: hidden, three projections, their three gradients with respect to hidden and three
   with respect to the weights, and one for the first weight. If the weights are not transposed, the sum of the
   gradients with respect to hidden has no joined factor. */
static void descend_both_ways(tuff_device *device)
{
    float after[MOST], expected[MOST];
    tuff_device *reference = tuff_device_open("reference");
    for (int transposed = 0; transposed < 2; transposed++) {
        memset(after, 0, sizeof after);
        memset(expected, 0, sizeof expected);
        descend(reference, transposed, expected, sizeof expected);
        assert_int_equal(descend(device, transposed, after, sizeof after), transposed ? 5 : 7);
        assert_memory_equal(after, expected, sizeof after);
    }
    tuff_device_close(reference);
}

static void gradients_become_one(void **state)
{
    (void)state;
    for_drawn_drivers(descend_both_ways);
}

/* Products that share an operand, and are legal while the joined one would have an operand or a result of more than
   INT32_MAX elements: they stay apart. The operands are vectors that were expanded. */
static tuff_tensor *large_rows(tuff_graph *graph, const char *name, int64_t rows, int64_t columns)
{
    return tuff_exp(tuff_expand(tuff_input(graph, name, TUFF_F32, TUFF_SHAPE(1, columns)), TUFF_SHAPE(rows, columns)));
}

enum { LARGE = 6000000, INNER = 128, NARROW = 2 };

static void add_projections(tuff_graph *graph, tuff_array *const *arrays)
{
    static const char *const names[PROJECTIONS] = {"y0", "y1", "y2"};
    tuff_tensor *x = large_rows(graph, "x", LARGE, INNER);
    for (int i = 0; i < PROJECTIONS; i++)
        tuff_output(graph, names[i],
                    tuff_sum(tuff_matmul(x, tuff_array_tensor(graph, arrays[i])), (int[]){0}, 1, false));
}

static void add_terms(tuff_graph *graph, tuff_array *const *arrays)
{
    static const char *const names[PROJECTIONS] = {"x0", "x1", "x2"};
    tuff_tensor *sum = NULL;
    for (int i = 0; i < PROJECTIONS; i++) {
        tuff_tensor *term = tuff_matmul(large_rows(graph, names[i], LARGE, INNER), tuff_array_tensor(graph, arrays[i]));
        sum = sum == NULL ? term : tuff_add(sum, term);
    }
    tuff_output(graph, "sum", tuff_sum(sum, (int[]){0}, 1, false));
}

static void add_gradients(tuff_graph *graph, tuff_array *const *arrays)
{
    enum { ROWS_OF_EACH = 32768, TERMS = 32768 }; /* three times that many are too many */
    static const char *const names[PROJECTIONS] = {"y0", "y1", "y2"};
    tuff_tensor *x = large_rows(graph, "x", ROWS_OF_EACH, TERMS), *parts[PROJECTIONS];
    (void)arrays;
    for (int i = 0; i < PROJECTIONS; i++)
        parts[i] = tuff_reshape(tuff_matmul(x, tuff_input(graph, names[i], TUFF_F32, TUFF_SHAPE(TERMS, NARROW))),
                                TUFF_SHAPE(-1));
    tuff_output(graph, "all", tuff_concat(parts, PROJECTIONS, 0));
}

static void merge_large(tuff_device *device)
{
    void (*const tried[])(tuff_graph *, tuff_array *const *) = {add_projections, add_terms, add_gradients};
    const tuff_parameter_spec specs[PROJECTIONS] = {
        {"w0", TUFF_SHAPE(INNER, NARROW)}, {"w1", TUFF_SHAPE(INNER, NARROW)}, {"w2", TUFF_SHAPE(INNER, NARROW)}};
    tuff_parameters *slab = tuff_parameters_create(device, specs, PROJECTIONS);
    tuff_array *arrays[PROJECTIONS];
    assert_non_null(slab);
    for (int i = 0; i < PROJECTIONS; i++)
        arrays[i] = tuff_parameters_at(slab, i, NULL);
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        tuff_graph *graph = tuff_graph_create(device);
        tried[i](graph, arrays);
        assert_int_equal(tuff_graph_status(graph), TUFF_OK);
        tuff_graph *simple = tuff__simplify(graph, true);
        assert_non_null(simple);
        if (tuff__merge_matmuls(simple, NULL, NULL) != TUFF_OK)
            fail_msg("graph %zu: %s", i, tuff_error());
        int products = 0;
        for (int k = 0; k < simple->node_count; k++)
            products += simple->nodes[k]->op == OP_MATMUL;
        assert_in_range(products, 2, PROJECTIONS);
        tuff_graph_destroy(simple);
        tuff_graph_destroy(graph);
    }
    tuff_parameters_destroy(slab);
}

static void products_too_large_to_join_stay_apart(void **state)
{
    (void)state;
    for_drawn_drivers(merge_large);
}

enum { LONG = 20480, FEW = 12, SOME = 24 };

/* A product of one tile and many terms is split into a batch of shorter products and a sum, whose kernel fuses the
   following ops. A product with few terms stays whole, and so does one whose terms no number of parts divides. Operands
   are tested as they are and transposed. */
static void check_split(tuff_device *device, bool x_transposed, bool y_transposed, int inner)
{
    static float x[FEW * LONG], y[LONG * SOME], got[FEW * SOME];
    const int swap[] = {1, 0};
    tuff_plan_info info;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *a = tuff_input(graph, "x", TUFF_F32, x_transposed ? TUFF_SHAPE(inner, FEW) : TUFF_SHAPE(FEW, inner));
    tuff_tensor *b = tuff_input(graph, "y", TUFF_F32, y_transposed ? TUFF_SHAPE(SOME, inner) : TUFF_SHAPE(inner, SOME));
    a = x_transposed ? tuff_permute(a, swap) : a;
    b = y_transposed ? tuff_permute(b, swap) : b;
    tuff_output(graph, "z", tuff_relu(tuff_matmul(a, b)));
    tuff_plan *plan = compile_plan(graph);
    for (int i = 0; i < inner; i++) {
        for (int k = 0; k < FEW; k++)
            x[x_transposed ? i * FEW + k : k * inner + i] = number(1, i * FEW + k);
        for (int k = 0; k < SOME; k++)
            y[y_transposed ? k * inner + i : i * SOME + k] = number(2, i * SOME + k);
    }
    assert_int_equal(tuff_plan_write(plan, "x", x, (size_t)(FEW * inner) * sizeof *x), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "y", y, (size_t)(SOME * inner) * sizeof *y), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "z", got, sizeof got), TUFF_OK);
    for (int i = 0; i < FEW * SOME; i++) {
        float sum = 0;
        for (int k = 0; k < inner; k++)
            sum += number(1, k * FEW + i / SOME) * number(2, k * SOME + i % SOME);
        assert_true(got[i] == (sum > 0 ? sum : 0));
    }
    assert_int_equal(tuff_plan_describe(plan, &info), TUFF_OK);
    /* The more units a device has, the shorter the products that it splits. */
    const bool is_cpu = tuff__device_info(device)->device_class == TUFF_DEVICE_CPU;
    if (!tuff__device_is_reference(device) && !y_transposed && (is_cpu || inner == LONG || inner == LONG - 3))
        assert_int_equal(info.dispatch_count, inner == LONG ? 2 : 1);
    destroy_plan(plan, graph);
}

static void split_products(tuff_device *device)
{
    for (int form = 0; form < 4; form++)
        check_split(device, form & 1, form & 2, LONG);
    check_split(device, false, false, LONG - 3);
    check_split(device, false, false, 256);
}

static void long_products_are_sums_of_pieces(void **state)
{
    (void)state;
    for_drawn_devices(split_products);
}

/* Returns the number of parts of a product that takes least time on two cores. */
static int64_t cheapest(bool items_are_lanes, bool has_strides, int64_t rows, int64_t columns, int64_t terms)
{
    const matmul_batch product = {
        .batches = 1, .rows = rows, .columns = columns, .inner = terms, .has_strides = has_strides};
    const tuff_device_info info = {.compute_units = 2};
    const target cpu = {.info = &info, .is_cpu = true, .items_are_lanes = items_are_lanes};
    int64_t best = 1;
    for (int64_t parts = 2; parts <= 64; parts++)
        if (tuff__cost_split_matmul(&cpu, &product, parts) < tuff__cost_split_matmul(&cpu, &product, best))
            best = parts;
    return best;
}

/* Operands that are read in place stay in a core's cache if the terms are cut into parts. Packed ones are long
   sequences, which it reads fast from farther away. */
static void parts_of_long_products_fit_into_the_cache(void **state)
{
    (void)state;
    assert_int_equal(cheapest(false, true, 64, 64, 12288), 12);
    assert_int_equal(cheapest(false, true, 256, 64, 12288), 30);
    assert_int_equal(cheapest(false, true, 64, 64, 1024), 1);
    assert_int_equal(cheapest(false, true, 384, 1536, 4096), 1);
    assert_int_equal(cheapest(false, false, 64, 64, 12288), 1);
    assert_int_equal(cheapest(true, true, 64, 64, 12288), 1);
}

/* Whether x' · y is split with these layouts of x in memory. */
static bool is_split(tuff_device *device, bool turned, bool from_array)
{
    enum { SIDE = 64, TERMS = 12288 };
    const tuff_shape shape = turned ? TUFF_SHAPE(TERMS, SIDE) : TUFF_SHAPE(SIDE, TERMS);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_array *array = from_array ? tuff_array_create(device, TUFF_F32, shape) : NULL;
    tuff_tensor *x = from_array ? tuff_array_tensor(graph, array) : tuff_input(graph, "x", TUFF_F32, shape);
    x = turned ? tuff_permute(x, (int[]){1, 0}) : x;
    tuff_output(graph, "z", tuff_matmul(x, tuff_input(graph, "y", TUFF_F32, TUFF_SHAPE(TERMS, SIDE))));
    tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.describe_only = true});
    assert_non_null(plan);
    const bool is_split = count_tasks(plan, "column", NULL) > 0;
    destroy_plan(plan, graph);
    tuff_array_destroy(array);
    return is_split;
}

static void split_by_layout(tuff_device *device)
{
    const tuff_device_info *info = tuff__device_info(device);
    if (info->device_class != TUFF_DEVICE_CPU || info->compute_units > 4 || strncmp(info->selector, "opencl", 6) != 0) {
        leave_out_device("it splits by other rules, or has a core for every tile");
        return;
    }
    assert_true(is_split(device, true, false));
    assert_false(is_split(device, false, false));
    assert_false(is_split(device, true, true));
}

/* Only products of rows whose terms lie apart are split because of the cache, and not if a copy of x is kept. */
static void the_layout_decides_what_is_split(void **state)
{
    (void)state;
    for_each_driver(split_by_layout);
}

/* Returns the groups that read the weight of a product of one row. */
static uint64_t groups_that_read(tuff_device *device, uint32_t units, int64_t inner, int64_t columns)
{
    tuff_device_info as = *tuff__device_info(device);
    as.compute_units = units;
    tuff__device_override_info(device, &as);
    tuff_plan *plan = NULL;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(1, inner));
    tuff_output(graph, "z", tuff_matmul(x, tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(inner, columns))));
    assert_int_equal(tuff__plan_create(graph, &(tuff_compile_options){0}, NULL, &plan), TUFF_OK);
    const launch_list *list = &plan->executable.launches;
    uint64_t groups = 0;
    for (int i = 0; i < list->launch_count; i++)
        if (strcmp(list->launches[i].body, "matmul_gemv_local") == 0)
            groups += list->launches[i].groups;
    destroy_plan(plan, graph);
    return groups;
}

/* As many groups read as are wanted, or as there may be: each has at least 256 terms of 32 columns. */
static void read_by_many(tuff_device *device)
{
    static const struct {
        uint32_t units;
        int64_t inner, columns;
        uint64_t groups;
    } expected[] = {{132, 4096, 1024, 512},  {304, 4096, 1024, 512},   {512, 4096, 1024, 512},  {132, 4096, 2048, 1024},
                    {304, 4096, 2048, 1024}, {512, 4096, 2048, 1024},  {132, 4096, 4096, 1024}, {304, 4096, 4096, 2048},
                    {512, 4096, 4096, 2048}, {132, 4096, 32768, 1024}, {132, 1000, 8192, 512},  {132, 4099, 1024, 32}};
    describe_as_gpu(device);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const uint64_t groups = groups_that_read(device, expected[i].units, expected[i].inner, expected[i].columns);
        if (groups != expected[i].groups)
            fail_msg("%u units, %d x %d: %u groups", expected[i].units, (int)expected[i].inner,
                     (int)expected[i].columns, (unsigned)groups);
    }
}

static void thin_products_are_read_by_many_groups(void **state)
{
    (void)state;
    for_each_driver(read_by_many);
}

/* The parts of a split product are partial sums, which stay 32 bits in 16-bit plans, unlike the product itself. */
static void split_narrow(tuff_device *device, tuff_precision precision)
{
    static float x[FEW * LONG], y[LONG * SOME], got[FEW * SOME];
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *a = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(FEW, LONG));
    tuff_output(graph, "z", tuff_matmul(a, tuff_input(graph, "y", TUFF_F32, TUFF_SHAPE(LONG, SOME))));
    tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.precision = precision});
    if (!plan)
        fail_msg("%s", tuff_error());
    for (int i = 0; i < FEW * LONG; i++)
        x[i] = 4;
    for (int i = 0; i < LONG * SOME; i++)
        y[i] = 4 + (float)(i / SOME == 0);
    assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "y", y, sizeof y), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "z", got, sizeof got), TUFF_OK);
    for (int i = 0; i < FEW * SOME; i++)
        if (got[i] != 16 * LONG + 4)
            fail_msg("precision %d: element %d is %.9g", (int)precision, i, (double)got[i]);
    destroy_plan(plan, graph);
}

static void split_narrow_products(tuff_device *device)
{
    split_narrow(device, TUFF_PRECISION_F16);
    split_narrow(device, TUFF_PRECISION_BF16);
}

static void pieces_of_products_keep_their_bits(void **state)
{
    (void)state;
    for_drawn_devices(split_narrow_products);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_become_one),
        cmocka_unit_test(gradients_become_one),
        cmocka_unit_test(products_too_large_to_join_stay_apart),
        cmocka_unit_test(long_products_are_sums_of_pieces),
        cmocka_unit_test(parts_of_long_products_fit_into_the_cache),
        cmocka_unit_test(the_layout_decides_what_is_split),
        cmocka_unit_test(thin_products_are_read_by_many_groups),
        cmocka_unit_test(pieces_of_products_keep_their_bits),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
