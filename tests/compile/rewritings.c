/* Graphs that the compiler's rewritings must not rewrite, or only with care, because they look almost like those that
   may be rewritten: each on every driver, against the float64 reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/rewrite/simplify.h"
#include "differential.h"
#include "each_device.h"
#include "graph/blob/blob.h"
#include "graph/builder.h"
#include "tuff/nn.h"

static tuff_tensor *number(tuff_graph *graph, double value)
{
    return tuff_constant(graph, TUFF_F32, value);
}

/* Constants whose first elements are equal, and constants that differ in one element. */
static void constants(tuff_graph *graph, const void *context)
{
    (void)context;
    static const float alike_first[] = {2, 2, 3, 4, 2}, alike_last[] = {1, 5, 5, 5, 5}, other[] = {1, 5, 5, 5, 6};
    const tuff_shape shape = TUFF_SHAPE(5);
    tuff_tensor *x = float_input(graph, shape), *data = tuff_constant_data(graph, TUFF_F32, shape, alike_first);
    tuff_tensor *last = tuff_constant_data(graph, TUFF_F32, shape, alike_last);
    add_output(graph, tuff_mul(x, tuff_add(data, number(graph, 1))));
    add_output(graph, tuff_mul(x, tuff_mul(last, data)));
    add_output(graph, tuff_sub(tuff_mul(x, last), tuff_constant_data(graph, TUFF_F32, shape, other)));
}

/* Returns the sum of x, padded at its end with `fill`, and y, padded with 0 at its start, both to width columns. */
static tuff_tensor *sum_of_pads(tuff_tensor *x, tuff_tensor *y, int64_t width, double fill)
{
    const int64_t none[] = {0, 0}, of_x = tuff_tensor_shape(x).extent[1], of_y = tuff_tensor_shape(y).extent[1];
    return tuff_add(tuff_pad(x, none, (int64_t[]){0, width - of_x}, fill),
                    tuff_pad(y, (int64_t[]){0, width - of_y}, none, 0));
}

/* Sums of padded pieces that are not a concat: they overlap, leave a gap, do not reach the end, are padded with
   something other than 0, or are along different axes. */
static void pads(tuff_graph *graph, const void *context)
{
    (void)context;
    const int64_t none[] = {0, 0};
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(4, 6)), *y = float_input(graph, TUFF_SHAPE(4, 5)),
                *wide = float_input(graph, TUFF_SHAPE(4, 11)), *wrt[] = {x, y};
    add_output(graph, tuff_mul(wide, sum_of_pads(x, y, 11, 0)));
    add_output(graph, tuff_mul(wide, sum_of_pads(x, y, 11, 0.5)));
    add_with_gradients(graph, tuff_tanh(sum_of_pads(x, y, 13, 0)), wrt, 2);
    add_with_gradients(graph, tuff_tanh(sum_of_pads(x, y, 9, 0)), wrt, 2);
    tuff_tensor *early =
        tuff_add(tuff_pad(x, none, (int64_t[]){0, 7}, 0), tuff_pad(y, (int64_t[]){0, 6}, (int64_t[]){0, 2}, 0));
    add_output(graph, tuff_exp(early));
    tuff_tensor *below = float_input(graph, TUFF_SHAPE(2, 11));
    add_output(graph, tuff_exp(tuff_add(tuff_pad(tuff_tanh(sum_of_pads(x, y, 11, 0)), none, (int64_t[]){2, 0}, 0),
                                        tuff_pad(below, (int64_t[]){4, 0}, none, 0))));
    tuff_tensor *corner = float_input(graph, TUFF_SHAPE(6, 6)), *side = float_input(graph, TUFF_SHAPE(4, 12));
    add_output(graph, tuff_exp(tuff_add(tuff_pad(corner, none, (int64_t[]){0, 6}, 0),
                                        tuff_pad(side, (int64_t[]){2, 0}, none, 0))));
}

static tuff_tensor *rows(tuff_tensor *x, int64_t from, int64_t to)
{
    return tuff_slice(x, (int64_t[]){from, 0}, (int64_t[]){to, tuff_tensor_shape(x).extent[1]}, NULL);
}

/* Concats of slices of one value: adjacent ones, through other shapes; then with a gap, twice the same, in the wrong
   order, reversed, of columns, along another axis, and next to other parts. */
static void slices(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(6, 5)), *y = tuff_tanh(x);
    tuff_tensor *flat = tuff_reshape(y, TUFF_SHAPE(2, 15));
    tuff_tensor *parts[] = {rows(y, 0, 2), rows(y, 2, 3), rows(y, 3, 6)};
    add_with_gradients(graph, tuff_mul(tuff_concat(parts, 3, 0), x), &x, 1);
    tuff_tensor *halves[] = {tuff_reshape(rows(flat, 0, 1), TUFF_SHAPE(3, 5)), rows(y, 3, 4), rows(y, 5, 6)};
    add_with_gradients(graph, tuff_exp(tuff_concat(halves, 3, 0)), &x, 1);
    tuff_tensor *others[] = {rows(y, 1, 3), rows(y, 1, 3), rows(y, 0, 1), x, rows(y, 4, 6)};
    add_with_gradients(graph, tuff_exp(tuff_concat(others, 5, 0)), &x, 1);
    tuff_tensor *back = tuff_slice(y, (int64_t[]){3, 0}, (int64_t[]){0, 5}, (int64_t[]){-1, 1});
    tuff_tensor *backwards[] = {back, tuff_slice(y, (int64_t[]){4, 0}, (int64_t[]){6, 5}, (int64_t[]){1, 1})};
    add_output(graph, tuff_concat(backwards, 2, 0));
    tuff_tensor *columns[] = {tuff_slice(y, (int64_t[]){0, 0}, (int64_t[]){2, 3}, NULL),
                              tuff_slice(y, (int64_t[]){2, 0}, (int64_t[]){4, 3}, NULL)};
    add_output(graph, tuff_concat(columns, 2, 0));
    tuff_tensor *beside[] = {rows(y, 0, 3), rows(y, 3, 6)};
    add_output(graph, tuff_concat(beside, 2, 1));
    tuff_tensor *within[] = {tuff_slice(y, (int64_t[]){2, 0}, (int64_t[]){3, 2}, NULL),
                             tuff_slice(y, (int64_t[]){2, 2}, (int64_t[]){3, 5}, NULL)};
    add_output(graph, tuff_exp(tuff_concat(within, 2, 1)));
}

/* Divisions by 1 and of 1; ops of one input along different axes, and of slices with different starts. */
static void almost_equal(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(6, 6)), *one = number(graph, 1);
    tuff_tensor *y = tuff_add(tuff_mul(x, x), one);
    add_output(graph, tuff_add(tuff_div(one, y), tuff_div(y, one)));
    add_output(graph, tuff_sub(tuff_cumsum(x, 0), tuff_cumsum(x, 1)));
    add_output(graph, tuff_sub(tuff_sum(x, (int[]){0}, 1, true), tuff_sum(x, (int[]){1}, 1, true)));
    tuff_tensor *low = tuff_slice(y, (int64_t[]){0, 1}, (int64_t[]){5, 4}, NULL);
    tuff_tensor *high = tuff_slice(y, (int64_t[]){1, 2}, (int64_t[]){6, 5}, NULL);
    tuff_tensor *spread = tuff_slice(y, (int64_t[]){1, 0}, (int64_t[]){6, 5}, (int64_t[]){1, 2});
    add_output(graph, tuff_sub(tuff_sub(tuff_tanh(low), tuff_mul(tuff_tanh(high), high)), tuff_tanh(spread)));
}

/* Permutations that are not their own inverse: in sequence, before a product, and before a concat's parts. */
static void permutations(tuff_graph *graph, const void *context)
{
    (void)context;
    const int turn[] = {1, 2, 0}, swap[] = {0, 2, 1};
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(2, 3, 5)), *y = float_input(graph, TUFF_SHAPE(5, 2, 3)),
                *w = float_input(graph, TUFF_SHAPE(2, 7)), *wrt[] = {x, y, w};
    tuff_tensor *both = tuff_permute(tuff_permute(x, turn), swap);
    add_output(graph, tuff_mul(both, tuff_exp(tuff_permute(tuff_permute(x, swap), (int[]){2, 0, 1}))));
    add_output(graph, tuff_sin(tuff_permute(tuff_permute(x, swap), turn)));
    tuff_tensor *e = tuff_permute(tuff_exp(x), turn), *n = tuff_permute(tuff_neg(x), turn);
    tuff_tensor *pair = tuff_reshape(tuff_concat((tuff_tensor *[]){e, n}, 2, 1), TUFF_SHAPE(15, 4));
    add_with_gradients(graph, tuff_matmul(pair, tuff_concat((tuff_tensor *[]){w, w}, 2, 0)), wrt, 3);
    tuff_tensor *five[] = {e, tuff_sin(e), n, tuff_cos(n), tuff_permute(tuff_sin(x), turn)};
    add_output(graph, tuff_concat(five, 5, 0));
    add_output(graph, tuff_permute(tuff_exp(y), (int[]){1, 2, 0}));
}

/* Maxima of long rows of negative elements, computed in parts, and exponentials of differences with the maximum of
   another tensor. */
static void maxima(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *below = ranged_input(graph, TUFF_F32, TUFF_SHAPE(2, 9001), -2, -1);
    tuff_tensor *columns = ranged_input(graph, TUFF_F32, TUFF_SHAPE(331, 3), -2, -1);
    add_output(graph, tuff_reduce_max(below, (int[]){1}, 1, false));
    add_output(graph, tuff_reduce_max(columns, (int[]){0}, 1, false));
    tuff_tensor *x = ranged_input(graph, TUFF_F32, TUFF_SHAPE(5, 67), -1, 3),
                *y = ranged_input(graph, TUFF_F32, TUFF_SHAPE(5, 67), -3, 0);
    tuff_tensor *above = tuff_mul(x, number(graph, 40)), *most = tuff_reduce_max(y, (int[]){1}, 1, true);
    add_output(graph, tuff_exp(tuff_sub(x, most)));
    add_output(graph, tuff_min(tuff_exp(tuff_sub(above, most)), number(graph, 1e30)));
    add_output(graph, tuff_exp(tuff_sub(tuff_mul(x, y), tuff_reduce_max(x, (int[]){1}, 1, true))));
}

/* Rows divided by divisors whose reciprocals are not representable: 2^-130, and numbers near the largest float. */
static void divisors(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = ranged_input(graph, TUFF_F32, TUFF_SHAPE(9, 67), 0.5, 1);
    tuff_tensor *large = tuff_sum(tuff_mul(x, number(graph, 3e36)), (int[]){1}, 1, true);
    tuff_tensor *ones = tuff_where(tuff_less(x, number(graph, 2)), number(graph, 1), x);
    tuff_tensor *least = tuff_mul(tuff_reduce_max(ones, (int[]){1}, 1, true), number(graph, 0x1p-130));
    add_output(graph, tuff_div(tuff_mul(x, number(graph, 0x1p-124)), least));
    add_output(graph, tuff_div(tuff_mul(x, number(graph, 1e38)), large));
}

/* Reductions over axes with a kept one between them, of a value that a row task computes. */
static void axes_between(tuff_graph *graph, const void *context)
{
    (void)context;
    const tuff_shape shape = TUFF_SHAPE(8, 3, 16, 20);
    tuff_tensor *x = float_input(graph, shape), *gain = float_input(graph, TUFF_SHAPE(3, 1, 20));
    tuff_tensor *normal = tuff_rms_norm(x, NULL, 1, 1e-3);
    add_output(graph, tuff_mul(normal, gain));
    add_output(graph, tuff_sum(tuff_mul(normal, x), (int[]){0, 2}, 2, true));
    add_output(graph, tuff_sum(normal, (int[]){1, 2}, 2, true));
    add_output(graph, tuff_sum(normal, (int[]){0, 1, 2}, 3, true));
}

/* Products of one x with adjacent matrices, followed by ops that are almost the same. */
static void products(tuff_graph *graph, const void *context)
{
    (void)context;
    const int64_t inner = 13, columns = 19, size = inner * columns;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(10, inner)), *bias = float_input(graph, TUFF_SHAPE(columns));
    tuff_tensor *slab = ranged_input(graph, TUFF_F32, TUFF_SHAPE(8 * size), -0.3, 0.3), *y[8];
    for (int64_t i = 0; i < 8; i++) {
        tuff_tensor *w = tuff_slice(slab, (int64_t[]){i * size}, (int64_t[]){(i + 1) * size}, NULL);
        y[i] = tuff_matmul(x, tuff_reshape(w, TUFF_SHAPE(inner, columns)));
    }
    tuff_tensor *results[] = {tuff_sub(y[0], bias),
                              tuff_sub(bias, y[1]),
                              tuff_mul(y[2], number(graph, 2)),
                              tuff_mul(y[3], number(graph, 3)),
                              tuff_tanh(tuff_add(y[4], bias)),
                              tuff_sin(tuff_add(y[5], bias)),
                              tuff_add(tuff_exp(y[6]), y[6]),
                              tuff_exp(y[7])};
    for (int i = 0; i < 8; i++)
        add_output(graph, tuff_sum(results[i], (int[]){1}, 1, true));
}

/* Sums of products: with weights that are adjacent in memory but differ in pitch, and with factors that are already
   parts of a concat along the other axis. */
static void row_weights(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *slab = float_input(graph, TUFF_SHAPE(80)), *whole = float_input(graph, TUFF_SHAPE(8, 8));
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(10, 4)), *factors[] = {tuff_sin(x), tuff_sigmoid(x)};
    tuff_tensor *narrow = tuff_reshape(tuff_slice(slab, (int64_t[]){0}, (int64_t[]){32}, NULL), TUFF_SHAPE(4, 8));
    tuff_tensor *wide = tuff_reshape(tuff_slice(slab, (int64_t[]){32}, (int64_t[]){80}, NULL), TUFF_SHAPE(4, 12));
    tuff_tensor *part = tuff_slice(wide, (int64_t[]){0, 0}, (int64_t[]){4, 8}, NULL);
    add_output(graph, tuff_add(tuff_matmul(tuff_tanh(x), narrow), tuff_matmul(tuff_exp(x), part)));
    tuff_tensor *upper = tuff_slice(whole, (int64_t[]){0, 0}, (int64_t[]){4, 8}, NULL);
    tuff_tensor *lower = tuff_slice(whole, (int64_t[]){4, 0}, (int64_t[]){8, 8}, NULL);
    add_output(graph, tuff_add(tuff_matmul(factors[0], upper), tuff_matmul(factors[1], lower)));
    add_output(graph, tuff_concat(factors, 2, 0));
}

/* Gradients with respect to weights of one shape, adjacent in a slab: of successive layers, and of one layer that uses
   a weight directly and one transposed. */
static void gradient_slab(tuff_graph *graph, const void *context)
{
    (void)context;
    enum { WIDTH = 12 };
    const int turn[] = {1, 0};
    const tuff_shape square = TUFF_SHAPE(WIDTH, WIDTH), flat = TUFF_SHAPE(WIDTH * WIDTH);
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(10, WIDTH)), *w[4], *gradients[4];
    for (int i = 0; i < 4; i++)
        w[i] = ranged_input(graph, TUFF_F32, square, -0.4, 0.4);
    tuff_tensor *y = tuff_tanh(tuff_matmul(tuff_tanh(tuff_matmul(x, w[0])), w[1]));
    y = tuff_add(tuff_sin(tuff_matmul(y, w[2])), tuff_tanh(tuff_matmul(y, tuff_permute(w[3], turn))));
    if (tuff_gradients(tuff_sum(tuff_mul(y, y), (int[]){0, 1}, 2, false), w, 4, gradients) != TUFF_OK)
        return;
    for (int i = 0; i < 4; i++)
        gradients[i] = tuff_reshape(gradients[i], flat);
    add_output(graph, tuff_concat(gradients, 4, 0));
}

/* Index lists of many blocks along each axis, some of their indices out of range; and one index per element. */
static void scattered(tuff_graph *graph, const void *context)
{
    (void)context;
    enum { LIST = 523 };
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(3, 5, 4)), *wrt[] = {x, NULL};
    for (int axis = 0; axis < 3; axis++) {
        const tuff_shape shape = tuff_tensor_shape(x);
        tuff_shape listed = shape;
        listed.extent[axis] = LIST;
        tuff_tensor *indices = ranged_input(graph, TUFF_I32, TUFF_SHAPE(LIST), -1, (double)shape.extent[axis]);
        wrt[1] = ranged_input(graph, TUFF_F32, listed, -0.01, 0.01);
        add_with_gradients(graph, tuff_scatter_add_rows(x, indices, wrt[1], axis), wrt, 2);
    }
    tuff_tensor *each = ranged_input(graph, TUFF_I32, TUFF_SHAPE(3, 9, 4), -1, 5),
                *y = float_input(graph, TUFF_SHAPE(3, 9, 4));
    add_output(graph, tuff_scatter_add(x, each, y, 1));
    add_output(graph, tuff_scatter_add(x, ranged_input(graph, TUFF_I32, TUFF_SHAPE(3, 9, 1), -1, 5), y, 1));
}

/* A part of a concat that is read long after the concat. */
static void parts(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(40, 40)), *e = tuff_exp(x);
    tuff_tensor *all[] = {tuff_sin(x), e, tuff_cos(x), tuff_tanh(x), tuff_sigmoid(x)};
    tuff_tensor *sums = tuff_mean(tuff_concat(all, 5, 0), (int[]){0}, 1, true), *y = tuff_mul(x, sums);
    for (int i = 0; i < 4; i++)
        y = tuff_softmax(tuff_matmul(y, tuff_tanh(y)), 1);
    add_output(graph, tuff_matmul(e, y));
}

/* Parts that occur twice in a concat, in two concats, or are views of one value. */
static void shared_parts(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(6, 8)), *e = tuff_exp(x), *s = tuff_sin(x);
    tuff_tensor *first[] = {e, s, e, tuff_cos(x), tuff_neg(x)}, *second[] = {s, tuff_sigmoid(x), e, tuff_mul(e, s), s};
    add_output(graph, tuff_concat(first, 5, 0));
    add_output(graph, tuff_concat(second, 5, 1));
    tuff_tensor *cube = float_input(graph, TUFF_SHAPE(4, 4, 4)), *t = tuff_tanh(cube), *turned[5];
    static const int orders[4][3] = {{1, 2, 0}, {2, 0, 1}, {1, 0, 2}, {2, 1, 0}};
    for (int i = 0; i < 4; i++)
        turned[i] = tuff_permute(t, orders[i]);
    turned[4] = tuff_sin(cube);
    add_with_gradients(graph, tuff_concat(turned, 5, 1), &cube, 1);
}

/* More parts than a kernel can read: among them an input, a concat that is an output, one part twice, two views of one
   value, and a part of another such concat. */
static void many_parts(tuff_graph *graph, const void *context)
{
    enum { MANY = 40, WIDE = 6 };
    static const int rows[] = {0};
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(MANY + 2, WIDE)), *y = float_input(graph, TUFF_SHAPE(WIDE));
    tuff_tensor *parts[MANY];
    for (int64_t i = 0; i < MANY; i++) {
        tuff_tensor *three = tuff_slice(x, (int64_t[]){i, 0}, (int64_t[]){i + 3, WIDE}, NULL);
        parts[i] = tuff_sum(three, rows, 1, false);
    }
    add_output(graph, tuff_concat(parts, MANY, 0));
    tuff_tensor *pair = tuff_concat((tuff_tensor *[]){tuff_exp(y), tuff_cos(y)}, 2, 0);
    tuff_tensor *square =
        tuff_matmul(tuff_reshape(parts[1], TUFF_SHAPE(WIDE, 1)), tuff_reshape(y, TUFF_SHAPE(1, WIDE)));
    for (int i = 0; i < MANY - 7; i++)
        parts[i] = tuff_sin(parts[i]);
    add_output(graph, pair);
    parts[1] = y;
    parts[3] = pair;
    parts[5] = parts[4];
    parts[7] = parts[8] = tuff_reshape(square, TUFF_SHAPE(WIDE * WIDE));
    parts[9] = tuff_reshape(tuff_permute(square, (int[]){1, 0}), TUFF_SHAPE(WIDE * WIDE));
    add_output(graph, tuff_concat(parts, MANY, 0));
}

/* More parts than a kernel can read, all in memory; another such concat shares the first of them. */
static void many_shared_parts(tuff_graph *graph, const void *context)
{
    enum { MANY = 40, WIDE = 6 };
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(MANY + 2, WIDE)), *parts[MANY];
    for (int turn = 0; turn < 2; turn++) {
        for (int64_t i = turn; i < MANY; i++) {
            tuff_tensor *three = tuff_slice(x, (int64_t[]){i, 0}, (int64_t[]){i + 3, WIDE}, NULL);
            parts[i] = tuff_sum(turn == 0 ? three : tuff_exp(three), (int[]){0}, 1, true);
        }
        add_output(graph, tuff_concat(parts, MANY, 0));
    }
}

/* A large value that is read at once and much later, cheap enough to be recomputed, from views of its inputs and of
   random numbers. */
static void late_reader(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(514, 130)), *z = float_input(graph, TUFF_SHAPE(128, 512));
    tuff_tensor *inner = tuff_slice(x, (int64_t[]){1, 2}, (int64_t[]){513, 130}, NULL);
    tuff_tensor *value = tuff_mul(tuff_dropout(inner, 0.25), tuff_permute(z, (int[]){1, 0}));
    tuff_tensor *y = tuff_matmul(value, ranged_input(graph, TUFF_F32, TUFF_SHAPE(128, 3), -0.1, 0.1));
    for (int i = 0; i < 30; i++)
        y = tuff_mul(tuff_sin(y), number(graph, 1.25));
    add_output(graph, tuff_matmul(tuff_permute(value, (int[]){1, 0}), y));
}

static const struct {
    const char *name;
    graph_builder build;
    bool denormals; /* only for devices that keep denormals */
} graphs[] = {{"constants", constants, false},
              {"pads", pads, false},
              {"slices", slices, false},
              {"almost equal", almost_equal, false},
              {"permutations", permutations, false},
              {"maxima", maxima, false},
              {"divisors", divisors, true},
              {"axes between", axes_between, false},
              {"products", products, false},
              {"scattered", scattered, false},
              {"parts", parts, false},
              {"shared parts", shared_parts, false},
              {"many parts", many_parts, false},
              {"many shared parts", many_shared_parts, false},
              {"late reader", late_reader, false},
              {"row weights", row_weights, false},
              {"gradient slab", gradient_slab, false}};

static void run_all(tuff_device *device)
{
    int64_t failures = 0;
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        differential comparison;
        if (graphs[i].denormals && !tuff__device_info(device)->proved_denormals)
            continue;
        /* Few drivers keep denormals: each of them runs that case. */
        if (!graphs[i].denormals && !is_one_of_two_drawn(device, (int)i))
            continue;
        differential_create(&comparison, graphs[i].name, graphs[i].build, NULL, i + 1);
        failures += differential_run(&comparison, device,
                                     &(tuff_compile_options){.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}});
        differential_destroy(&comparison);
    }
    assert_int_equal(failures, 0);
}

static void what_looks_alike_is_not_taken_for_the_same(void **state)
{
    (void)state;
    for_each_driver(run_all);
}

/* The gradient of a bias that all batches and heads share, of so few scores that a single work-item would add up
   everything: it is reduced in parts with work-items of their own. */
static void shared_bias_on(tuff_device *device)
{
    enum { BATCHES = 37, QUERIES = 7, KEYS = 5, HEADS = 3, WIDTH = 8 };
    int64_t parts = 0;
    tuff_tensor *gradient;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *q = tuff_input(graph, "q", TUFF_F32, TUFF_SHAPE(BATCHES, QUERIES, HEADS, WIDTH));
    tuff_tensor *k = tuff_input(graph, "k", TUFF_F32, TUFF_SHAPE(BATCHES, KEYS, HEADS, WIDTH));
    tuff_tensor *bias = tuff_input(graph, "bias", TUFF_F32, TUFF_SHAPE(1, 1, QUERIES, KEYS));
    tuff_tensor *y = tuff__primitive_attention(q, k, k, &(tuff_attention_options){.bias = bias});
    const int axes[] = {0, 1, 2, 3};
    assert_int_equal(tuff_gradients(tuff_sum(tuff_mul(y, y), axes, 4, false), &bias, 1, &gradient), TUFF_OK);
    tuff_output(graph, "gradient", gradient);
    tuff_graph *simple = tuff__simplify(graph, false);
    assert_non_null(simple);
    for (int i = 0; i < simple->node_count; i++) {
        assert_true(tuff__node_is_valid(simple->nodes[i]));
        if (simple->nodes[i]->op == OP_ATTENTION_DB)
            parts = simple->nodes[i]->outputs[0].shape.extent[0] * simple->nodes[i]->outputs[0].shape.extent[1];
    }
    assert_true(parts == BATCHES || parts == BATCHES * HEADS);
    tuff_graph_destroy(simple);
    tuff_graph_destroy(graph);
}

static void gradients_of_shared_biases_are_split(void **state)
{
    (void)state;
    for_drawn_drivers(shared_bias_on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_looks_alike_is_not_taken_for_the_same),
        cmocka_unit_test(gradients_of_shared_biases_are_split),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
