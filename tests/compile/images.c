/* Convolutions and pools with their gradients on every device, against the reference: odd extents, strides, dilation,
   groups, padding. Kernels for GPUs must not store patches (im2col), and the builders refuse invalid arguments.
   TUFF_DEVICE selects one device; TUFF_SUITE=thorough leaves nothing out. */
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
#include "gpu_description.h"
#include "tuff.h"

typedef struct convolution {
    const char *name;
    int64_t image[4], kernels[4];
    tuff_conv2d_options options;
} convolution;

static const convolution convolutions[] = {
    {"3x3", {2, 5, 9, 11}, {7, 5, 3, 3}, {.padding = {1, 1}}},
    {"one image, wide", {1, 3, 17, 33}, {33, 3, 3, 3}, {.padding = {1, 0}}},
    {"3x3 by 2", {3, 4, 13, 10}, {6, 4, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
    {"7x7 by 2", {1, 3, 23, 19}, {8, 3, 7, 7}, {.stride = {2, 2}, .padding = {3, 3}}},
    {"1x1", {2, 17, 7, 5}, {9, 17, 1, 1}, {.groups = 1}},
    {"1x1 by 2", {2, 8, 7, 5}, {9, 8, 1, 1}, {.stride = {2, 2}}},
    {"side by side", {2, 3, 8, 12}, {5, 3, 4, 4}, {.stride = {4, 4}}},
    {"dilated", {2, 3, 11, 9}, {4, 3, 3, 2}, {.dilation = {2, 3}, .padding = {2, 1}}},
    {"spread", {1, 2, 12, 13}, {3, 2, 3, 2}, {.stride = {2, 3}, .dilation = {2, 2}, .padding = {1, 2}}},
    {"groups", {2, 6, 7, 8}, {9, 2, 3, 2}, {.groups = 3, .stride = {1, 2}, .padding = {1, 0}}},
    {"depthwise", {2, 5, 8, 9}, {10, 1, 3, 3}, {.groups = 5, .stride = {2, 1}, .padding = {1, 1}}},
    {"one place", {3, 4, 5, 5}, {6, 4, 5, 5}, {.groups = 1}},
    {"apart", {2, 3, 11, 11}, {4, 3, 2, 2}, {.stride = {3, 5}, .padding = {0, 1}}},
};
enum { CONVOLUTIONS = sizeof convolutions / sizeof convolutions[0] };

static tuff_shape shape_of(const int64_t *extents)
{
    return TUFF_SHAPE(extents[0], extents[1], extents[2], extents[3]);
}

/* An activation in front, so that the image is not in memory already, followed by a bias and an activation. */
static void build_convolution(tuff_graph *graph, const void *context)
{
    const convolution *of = context;
    tuff_tensor *x = float_input(graph, shape_of(of->image)), *w = float_input(graph, shape_of(of->kernels));
    tuff_tensor *bias = float_input(graph, TUFF_SHAPE(of->kernels[0]));
    tuff_tensor *y = tuff_silu(tuff_conv2d(tuff_mul(x, x), w, bias, &of->options));
    add_with_gradients(graph, y, (tuff_tensor *[]){x, w, bias}, 3);
}

typedef struct pool {
    const char *name;
    int64_t image[4];
    tuff_pool2d_options options;
    bool average;
} pool;

static const pool pools[] = {
    {"2x2", {2, 3, 8, 10}, {.size = {2, 2}}, false},
    {"3x3 by 2", {2, 3, 11, 9}, {.size = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}, false},
    {"whole", {2, 33, 5, 7}, {.size = {5, 7}}, true},
    {"long", {1, 2, 30, 3}, {.size = {13, 2}, .stride = {1, 1}, .padding = {6, 1}}, true},
    {"inside", {2, 3, 7, 8}, {.size = {3, 2}, .stride = {2, 1}, .padding = {1, 1}, .without_padding = true}, true},
    {"apart", {1, 3, 11, 10}, {.size = {2, 2}, .stride = {3, 4}}, false},
};
enum { POOLS = sizeof pools / sizeof pools[0] };

static void build_pool(tuff_graph *graph, const void *context)
{
    const pool *of = context;
    tuff_tensor *x = float_input(graph, shape_of(of->image));
    tuff_tensor *y = of->average ? tuff_avg_pool2d(x, &of->options) : tuff_max_pool2d(x, &of->options);
    add_with_gradients(graph, y, &x, 1);
}

static void build_patches(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(2, 3, 8, 12)), *w = float_input(graph, TUFF_SHAPE(17, 3, 4, 4));
    tuff_tensor *bias = float_input(graph, TUFF_SHAPE(17));
    add_with_gradients(graph, tuff_patch_embed(x, w, bias), (tuff_tensor *[]){x, w, bias}, 3);
}

/* Returns the patches [6,5,9] of a padded image. */
static tuff_tensor *patches_of(tuff_tensor *image)
{
    const int64_t one[] = {1, 1};
    tuff_tensor *x = tuff_pad(image, one, one, 0);
    x = tuff_unfold(tuff_unfold(x, 0, 3, 1, 1), 2, 3, 1, 1);
    return tuff_reshape(tuff_permute(x, (int[]){0, 2, 1, 3}), TUFF_SHAPE(6, 5, 9));
}

/* Kernels of their own for each row: the padded axis is the batch of the product. */
static void build_local_kernels(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(6, 5)), *w = float_input(graph, TUFF_SHAPE(6, 9, 4));
    add_with_gradients(graph, tuff_matmul(patches_of(x), w), (tuff_tensor *[]){x, w}, 2);
}

/* Patches that a matmul and a gather read: they have memory, although the matmul alone would compute them. */
static void build_read_patches(tuff_graph *graph, const void *context)
{
    (void)context;
    static const int32_t rows[] = {29, 0, 7, 7, 13};
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(6, 5)), *w = float_input(graph, TUFF_SHAPE(9, 4));
    tuff_tensor *patches = tuff_reshape(patches_of(x), TUFF_SHAPE(30, 9));
    tuff_tensor *product = tuff_sum(tuff_matmul(patches, w), (int[]){0}, 1, true);
    tuff_tensor *taken = tuff_gather_rows(patches, tuff_constant_data(graph, TUFF_I32, TUFF_SHAPE(5), rows), 0);
    tuff_tensor *y = tuff_mul(tuff_sum(taken, (int[]){1}, 1, true), product);
    add_with_gradients(graph, y, (tuff_tensor *[]){x, w}, 2);
}

static int64_t failures;

static void run_case(tuff_device *device, int number, const char *name, graph_builder build, const void *context)
{
    static const tuff_compile_options ways[] = {
        {.family = TUFF_FAMILY_LOCAL}, {.family = TUFF_FAMILY_REGISTER}, {.fuse = TUFF_FUSE_NONE}};
    if (!is_one_of_two_drawn(device, number))
        return;
    differential graph;
    differential_create(&graph, name, build, context, (uint64_t)number + 1);
    const int drawn = drawn_turn("kernels", number, 3);
    for (int way = 0; way < 3; way++)
        if (is_thorough() || way == drawn)
            failures += differential_run(&graph, device, &ways[way]);
    differential_destroy(&graph);
}

/* Kernels for GPUs compute patches where they load them. */
static void run_for_gpus(tuff_device *device, int number, const char *name, graph_builder build)
{
    differential graph;
    differential_create(&graph, name, build, NULL, (uint64_t)number + 1);
    failures += differential_run(&graph, device, &(tuff_compile_options){.family = TUFF_FAMILY_LOCAL});
    differential_destroy(&graph);
}

static void check_device(tuff_device *device)
{
    int number = 0;
    for (int i = 0; i < CONVOLUTIONS; i++)
        run_case(device, number++, convolutions[i].name, build_convolution, &convolutions[i]);
    for (int i = 0; i < POOLS; i++)
        run_case(device, number++, pools[i].name, build_pool, &pools[i]);
    run_case(device, number++, "patch_embed", build_patches, NULL);
    run_for_gpus(device, number++, "local kernels", build_local_kernels);
    run_for_gpus(device, number, "read patches", build_read_patches);
}

static void images_are_right_on_every_device(void **state)
{
    (void)state;
    failures = 0;
    for_each_driver(check_device);
    assert_int_equal(failures, 0);
}

/* Returns the number of elements of the largest value that a task stores. *what gets the op that computes it. */
static int64_t largest_stored(tuff_graph *graph, const tuff_compile_options *options, const char **what)
{
    struct fusion fusion;
    int64_t largest = 0;
    *what = "none";
    tuff_graph *simple = tuff__simplify(graph, false);
    assert_non_null(simple);
    assert_int_equal(tuff__fuse(simple, options, MAX_BINDINGS, NULL, &fusion), TUFF_OK);
    for (int i = 0; i < fusion.task_count; i++)
        for (int k = 0; k < fusion.tasks[i].root_count; k++) {
            const node *root = fusion.tasks[i].roots[k];
            const int64_t count = tuff_shape_count(root->outputs[0].shape);
            *what = count > largest ? tuff__op_info(root->op)->name : *what;
            largest = count > largest ? count : largest;
        }
    tuff__fusion_free(&fusion);
    tuff_graph_destroy(simple);
    return largest;
}

/* Large enough that patches have several times the elements of any other value. */
static const convolution large[] = {
    {"3x3", {4, 16, 20, 20}, {16, 16, 3, 3}, {.padding = {1, 1}}},
    {"3x3 without padding", {4, 16, 20, 20}, {16, 16, 3, 3}, {.groups = 1}},
    {"7x7 by 2", {4, 16, 20, 20}, {32, 16, 7, 7}, {.stride = {2, 2}, .padding = {3, 3}}},
    {"5x3 by 1 and 2", {4, 16, 20, 20}, {32, 16, 5, 3}, {.stride = {1, 2}, .padding = {2, 1}}},
    {"dilated", {4, 16, 20, 20}, {16, 16, 3, 3}, {.dilation = {2, 3}, .padding = {2, 3}}},
    {"dilated by 2", {4, 16, 20, 20}, {32, 16, 3, 3}, {.stride = {2, 2}, .dilation = {2, 2}, .padding = {2, 2}}},
    {"groups", {4, 16, 20, 20}, {16, 4, 3, 3}, {.groups = 4, .padding = {1, 1}}},
    {"groups by 2", {4, 16, 20, 20}, {32, 4, 5, 5}, {.groups = 4, .stride = {2, 2}, .padding = {2, 2}}},
    {"depthwise", {4, 16, 20, 20}, {16, 1, 3, 3}, {.groups = 16, .padding = {1, 1}}},
    {"depthwise by 2", {4, 16, 20, 20}, {32, 1, 5, 5}, {.groups = 16, .stride = {2, 2}, .padding = {2, 2}}},
};
enum { LARGE = sizeof large / sizeof *large };

/* The forward pass and both gradients need to store nothing larger than an image, or its padded gradient; patches would
   be several times as large. */
static void measure_patches(tuff_device *device, const convolution *one)
{
    static const tuff_family families[] = {TUFF_FAMILY_LOCAL, TUFF_FAMILY_DEVICE, TUFF_FAMILY_SUBGROUP,
                                           TUFF_FAMILY_COOPERATIVE};
    const int64_t image = tuff_shape_count(shape_of(one->image));
    const char *what;
    tuff_graph *graph = tuff_graph_create(device);
    build_convolution(graph, one);
    assert_int_equal(tuff_graph_status(graph), TUFF_OK);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        for (int precision = TUFF_PRECISION_F32; precision <= TUFF_PRECISION_F16; precision++) {
            const tuff_compile_options options = {.family = families[i], .precision = (tuff_precision)precision};
            const int64_t largest = largest_stored(graph, &options, &what);
            if (largest > 2 * image)
                fail_msg("%s, family %d, precision %d: a %s of %lld elements is stored, the image has %lld", one->name,
                         (int)families[i], precision, what, (long long)largest, (long long)image);
        }
    assert_true(largest_stored(graph, &(tuff_compile_options){.fuse = TUFF_FUSE_NONE}, &what) >= 4 * image);
    tuff_graph_destroy(graph);
}

/* Also checks the kernels: those on matrix units, which would read patches from memory, leave such matmuls to
   others. */
static void compile_patches(tuff_device *device, const convolution *one)
{
    tuff_graph *graph = tuff_graph_create(device);
    build_convolution(graph, one);
    tuff_plan *plan = tuff_compile(
        graph, &(tuff_compile_options){.family = TUFF_FAMILY_COOPERATIVE, .precision = TUFF_PRECISION_F16});
    if (!plan)
        fail_msg("%s: %s", one->name, tuff_error());
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

static void check_large_images(tuff_device *device)
{
    describe_as_gpu(device);
    for (int i = 0; i < LARGE; i++) {
        measure_patches(device, &large[i]);
        compile_patches(device, &large[i]);
    }
}

static void kernels_for_gpus_store_no_patches(void **state)
{
    (void)state;
    for_drawn_drivers(check_large_images);
}

static void expect_failure(tuff_graph *graph, tuff_tensor *made, tuff_status status, const char *words)
{
    tuff_output(graph, "y", made);
    assert_int_equal(tuff_graph_status(graph), status);
    if (strstr(tuff_error(), words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", tuff_error(), words);
    tuff_graph_destroy(graph);
}

static void builders_refuse_what_does_not_fit(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
#define X(...) tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(__VA_ARGS__))
#define W(...) tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(__VA_ARGS__))
#define REFUSES(status, words, expression)                \
    do {                                                  \
        tuff_graph *graph = tuff_graph_create(device);    \
        expect_failure(graph, expression, status, words); \
    } while (0)
#define CONVOLVE(...) &(tuff_conv2d_options){__VA_ARGS__}
#define POOL(...)          \
    &(tuff_pool2d_options) \
    {                      \
        __VA_ARGS__        \
    }
    REFUSES(TUFF_E_SHAPE, "rank 4", tuff_conv2d(X(3, 5, 5), W(2, 3, 3, 3), NULL, NULL));
    REFUSES(TUFF_E_SHAPE, "groups", tuff_conv2d(X(1, 3, 5, 5), W(2, 2, 3, 3), NULL, NULL));
    REFUSES(TUFF_E_SHAPE, "groups", tuff_conv2d(X(1, 4, 5, 5), W(3, 2, 3, 3), NULL, CONVOLVE(.groups = 2)));
    REFUSES(TUFF_E_SHAPE, "no room for a kernel", tuff_conv2d(X(1, 3, 5, 2), W(2, 3, 3, 3), NULL, NULL));
    REFUSES(TUFF_E_SHAPE, "out of range", tuff_conv2d(X(1, 3, 5, 5), W(2, 3, 3, 3), NULL, CONVOLVE(.padding = {-1})));
    REFUSES(TUFF_E_SHAPE, "no extent may be 0", tuff_conv2d(X(0, 3, 5, 5), W(2, 3, 3, 3), NULL, NULL));
    REFUSES(TUFF_E_SHAPE, "the bias",
            tuff_conv2d(X(1, 3, 5, 5), W(2, 3, 3, 3), tuff_input(graph, "b", TUFF_F32, TUFF_SHAPE(3)), NULL));
    REFUSES(TUFF_E_DTYPE, "f16", tuff_conv2d(tuff_cast(X(1, 3, 5, 5), TUFF_F16), W(2, 3, 3, 3), NULL, NULL));
    REFUSES(TUFF_E_SHAPE, "multiples", tuff_patch_embed(X(1, 3, 5, 4), W(2, 3, 2, 2), NULL));
    REFUSES(TUFF_E_USAGE, "options", tuff_max_pool2d(X(1, 3, 5, 5), NULL));
    REFUSES(TUFF_E_SHAPE, "the padding at least 0",
            tuff_max_pool2d(X(1, 3, 5, 5), POOL(.size = {2, 2}, .padding = {2, 0})));
    REFUSES(TUFF_E_SHAPE, "not larger", tuff_avg_pool2d(X(1, 3, 5, 5), POOL(.size = {2, 6})));
    REFUSES(TUFF_E_SHAPE, "at least 1", tuff_avg_pool2d(X(1, 3, 5, 5), POOL(.size = {2})));
    REFUSES(TUFF_E_SHAPE, "not empty", tuff_avg_pool2d(X(1, 0, 5, 5), POOL(.size = {2, 2})));
    REFUSES(TUFF_E_SHAPE, "does not fit in axis 1", tuff_unfold(X(3, 5), 1, 3, 1, 3));
    REFUSES(TUFF_E_SHAPE, "at least 1", tuff_unfold(X(3, 5), 1, 0, 1, 1));
    REFUSES(TUFF_E_LIMIT, "rank", tuff_unfold(X(1, 1, 1, 1, 1, 1, 1, 2), 1, 1, 1, 1));
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(builders_refuse_what_does_not_fit),
        cmocka_unit_test(kernels_for_gpus_store_no_patches),
        cmocka_unit_test(images_are_right_on_every_device),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
