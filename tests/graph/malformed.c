/* Malformed graphs: each case must lead to the right status with a message that names the op and the shapes, leave the
   graph good for nothing but destruction, and not crash. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tuff.h"

/* The objects that all cases use. */
typedef struct scene {
    tuff_device *device;
    tuff_graph *graph, *other_graph;
    tuff_array *array;                      /* f32 [4] */
    tuff_tensor *vector, *matrix, *wide;    /* f32 [3], [2,3], [4,5] */
    tuff_tensor *half, *index, *flag;       /* f16 [2,3], i32 [3], bool [3] */
    tuff_tensor *scalar, *empty, *byte;     /* f32 [], f32 [0,3], i8 [3] */
    tuff_tensor *foreign;                   /* f32 [7] of another graph */
} scene;

#define CASE(name, statement)         \
    static void name(const scene *on) \
    {                                 \
        statement;                    \
    }
#define S(...) TUFF_SHAPE(__VA_ARGS__)
#define I64(...) ((const int64_t[]){__VA_ARGS__})
#define AXES(...) ((const int[]){__VA_ARGS__})

static tuff_shape shape_of_rank(int rank)
{
    tuff_shape shape = {.rank = rank};
    for (int axis = 0; axis < TUFF_MAX_RANK; axis++)
        shape.extent[axis] = 1;
    return shape;
}

CASE(add_shapes, tuff_add(on->matrix, on->wide))
CASE(add_dtypes, tuff_add(on->matrix, on->half))
CASE(add_null, tuff_add(on->matrix, NULL))
CASE(add_foreign, tuff_add(on->matrix, on->foreign))
CASE(add_bool, tuff_add(on->flag, on->flag))
CASE(mul_i8, tuff_mul(on->byte, on->byte))
CASE(mul_fraction, tuff_mul(on->index, tuff_constant(on->graph, TUFF_F32, 0.5)))
CASE(exp_integer, tuff_exp(on->index))
CASE(fma_shapes, tuff_fma(on->matrix, on->matrix, on->wide))
CASE(and_floats, tuff_and(on->vector, on->vector))
CASE(less_bools, tuff_less(on->flag, on->flag))
CASE(huge_broadcast, tuff_add(tuff_input(on->graph, "a", TUFF_F32, S(65536, 1)),
                              tuff_input(on->graph, "b", TUFF_F32, S(1, 65536))))
CASE(where_condition, tuff_where(on->vector, on->vector, on->vector))
CASE(where_shapes, tuff_where(on->flag, on->wide, on->wide))
CASE(cast_f64, tuff_cast(on->vector, TUFF_F64))
CASE(cast_unknown, tuff_cast(on->vector, (tuff_dtype)99))
CASE(input_i64, tuff_input(on->graph, "a", TUFF_I64, S(2)))
CASE(input_negative, tuff_input(on->graph, "a", TUFF_F32, S(2, -3)))
CASE(input_huge, tuff_input(on->graph, "a", TUFF_F32, S(65536, 65536)))
CASE(input_overflow, tuff_input(on->graph, "a", TUFF_F32, S(INT64_MAX, INT64_MAX, 0)))
CASE(input_rank, tuff_input(on->graph, "a", TUFF_F32, shape_of_rank(9)))
CASE(input_negative_rank, tuff_input(on->graph, "a", TUFF_F32, shape_of_rank(-1)))
CASE(input_twice, tuff_input(on->graph, "vector", TUFF_F32, S(5)))
CASE(input_nameless, tuff_input(on->graph, NULL, TUFF_F32, S(5)))
CASE(constant_null, tuff_constant_data(on->graph, TUFF_F32, S(2, 3), NULL))
CASE(constant_i64, tuff_constant(on->graph, TUFF_I64, 1))
CASE(iota_axis, tuff_iota(on->graph, S(2, 3), 2))
CASE(random_huge, tuff_random(on->graph, S(1 << 20, 1 << 20)))
CASE(sum_axis, tuff_sum(on->matrix, AXES(2), 1, false))
CASE(sum_axis_twice, tuff_sum(on->matrix, AXES(1, -1), 2, false))
CASE(sum_null_axes, tuff_sum(on->matrix, NULL, 1, false))
CASE(sum_negative_count, tuff_sum(on->matrix, AXES(0), -1, false))
CASE(sum_bool, tuff_sum(on->flag, AXES(0), 1, false))
CASE(max_of_none, tuff_reduce_max(on->empty, AXES(0), 1, false))
CASE(reshape_count, tuff_reshape(on->matrix, S(4, 2)))
CASE(reshape_two_unknown, tuff_reshape(on->matrix, S(-1, -1)))
CASE(reshape_no_fit, tuff_reshape(on->matrix, S(-1, 4)))
CASE(reshape_negative, tuff_reshape(on->matrix, S(-2, 3)))
CASE(permute_twice, tuff_permute(on->matrix, AXES(0, 0)))
CASE(permute_axis, tuff_permute(on->matrix, AXES(0, 5)))
CASE(permute_null, tuff_permute(on->matrix, NULL))
CASE(expand_shape, tuff_expand(on->matrix, S(4, 4)))
CASE(expand_smaller, tuff_expand(on->matrix, S(3)))
CASE(expand_huge, tuff_expand(on->vector, S(1 << 30, 3)))
CASE(slice_stop, tuff_slice(on->matrix, I64(0, 0), I64(2, 4), NULL))
CASE(slice_start, tuff_slice(on->matrix, I64(-1, 0), I64(2, 3), NULL))
CASE(slice_step, tuff_slice(on->matrix, I64(0, 0), I64(2, 3), I64(1, 0)))
CASE(slice_backwards, tuff_slice(on->matrix, I64(0, 3), I64(2, -1), I64(1, -1)))
CASE(slice_null, tuff_slice(on->matrix, NULL, I64(2, 3), NULL))
CASE(pad_negative, tuff_pad(on->matrix, I64(0, -1), I64(0, 0), 0))
CASE(pad_huge, tuff_pad(on->matrix, I64(INT64_MAX, 0), I64(0, 0), 0))
CASE(concat_shapes, tuff_concat((tuff_tensor *[]){on->matrix, on->wide}, 2, 0))
CASE(concat_dtypes, tuff_concat((tuff_tensor *[]){on->matrix, on->half}, 2, 0))
CASE(concat_null, tuff_concat((tuff_tensor *[]){on->matrix, NULL}, 2, 0))
CASE(concat_scalars, tuff_concat((tuff_tensor *[]){on->scalar, on->scalar}, 2, 0))
CASE(matmul_inner, tuff_matmul(on->matrix, on->wide))
CASE(matmul_scalar, tuff_matmul(on->matrix, on->scalar))
CASE(matmul_dtype, tuff_matmul(on->matrix, tuff_permute(on->half, AXES(1, 0))))
CASE(matmul_batches, tuff_matmul(tuff_reshape(on->matrix, S(2, 1, 3)),
                                 tuff_expand(tuff_reshape(on->vector, S(3, 1)), S(5, 3, 1))))
CASE(gather_dtype, tuff_gather(on->vector, on->vector, 0))
CASE(gather_rank, tuff_gather(on->matrix, on->index, 0))
CASE(gather_axis, tuff_gather(on->vector, on->index, 1))
CASE(scatter_shapes, tuff_scatter_add(on->matrix, tuff_reshape(on->index, S(3, 1)), on->wide, 0))
CASE(scatter_dtypes, tuff_scatter_add(on->vector, on->index, on->index, 0))
CASE(cumsum_axis, tuff_cumsum(on->scalar, 0))
CASE(array_null, tuff_array_tensor(on->graph, NULL))
CASE(assign_shape, tuff_assign(on->graph, on->array, on->vector))
CASE(assign_dtype, tuff_assign(on->graph, on->array, tuff_cast(tuff_reshape(on->vector, S(3)), TUFF_F16)))
CASE(assign_null, tuff_assign(on->graph, on->array, NULL))
CASE(assign_twice, tuff_assign(on->graph, on->array, tuff_array_tensor(on->graph, on->array));
     tuff_assign(on->graph, on->array, tuff_array_tensor(on->graph, on->array)))
CASE(output_null, tuff_output(on->graph, "y", NULL))
CASE(output_twice, tuff_output(on->graph, "y", on->matrix); tuff_output(on->graph, "y", on->vector))
CASE(output_foreign, tuff_output(on->graph, "y", on->foreign))
CASE(output_nameless, tuff_output(on->graph, "", on->matrix))
CASE(step_shape, tuff_graph_step(on->graph, on->array))
CASE(gradient_of_vector, tuff_gradients(on->vector, &on->vector, 1, (tuff_tensor *[]){NULL}))
CASE(gradient_by_integer, tuff_gradients(on->scalar, &on->index, 1, (tuff_tensor *[]){NULL}))
CASE(gradient_by_null, tuff_gradients(on->scalar, (tuff_tensor *[]){NULL}, 1, (tuff_tensor *[]){NULL}))
CASE(recompute_nothing, tuff_recompute(on->matrix, NULL, 1))
CASE(recompute_negative, tuff_recompute(on->matrix, &on->matrix, -1))
CASE(recompute_null_input, tuff_recompute(on->matrix, (tuff_tensor *[]){on->matrix, NULL}, 2))
CASE(recompute_foreign, tuff_recompute(tuff_exp(on->matrix), &on->foreign, 1))
CASE(recompute_foreign_too, tuff_recompute(tuff_exp(on->matrix), (tuff_tensor *[]){on->matrix, on->foreign}, 2))
CASE(recompute_independent, tuff_recompute(tuff_exp(on->matrix), (tuff_tensor *[]){on->matrix, on->wide}, 2))
CASE(recompute_later, tuff_tensor *later = tuff_exp(on->matrix); tuff_recompute(on->matrix, &later, 1))
CASE(softmax_axis, tuff_softmax(on->matrix, 2))
CASE(softmax_dtype, tuff_softmax(on->index, 0))
CASE(layer_norm_gain, tuff_layer_norm(on->matrix, on->wide, NULL, 1, 1e-5))
CASE(layer_norm_trailing, tuff_layer_norm(on->matrix, NULL, NULL, 3, 1e-5))
CASE(group_norm_groups, tuff_group_norm(on->matrix, NULL, NULL, 2, 1e-5))
CASE(linear_weight, tuff_linear(on->matrix, on->wide, NULL))
CASE(linear_bias, tuff_linear(on->matrix, tuff_permute(on->matrix, AXES(1, 0)), on->vector))
CASE(embedding_rank, tuff_embedding(on->vector, on->index))
CASE(gather_rows_dtype, tuff_gather_rows(on->matrix, on->vector, 0))
CASE(dropout_probability, tuff_dropout(on->matrix, 1.5))
CASE(rope_rank, tuff_rope(on->matrix, TUFF_ROPE_HALF, 10000, 0, NULL))
CASE(attention_rank, tuff_attention(on->matrix, on->matrix, on->matrix, NULL))
#define HEADS(...) tuff_random(on->graph, S(__VA_ARGS__))
#define ATTENTION_CASE(name, ...)                                                      \
    CASE(name, tuff_attention(HEADS(2, 3, 4, 5), HEADS(2, 6, 2, 5), HEADS(2, 6, 2, 7), \
                              &(tuff_attention_options){__VA_ARGS__}))
ATTENTION_CASE(attention_bias_keys, .bias = HEADS(3, 1))
ATTENTION_CASE(attention_bias_heads, .bias = HEADS(2, 3, 6))
ATTENTION_CASE(attention_bias_rank, .bias = HEADS(1, 2, 4, 3, 6))
ATTENTION_CASE(attention_bias_dtype, .bias = tuff_cast(HEADS(3, 6), TUFF_F16))
ATTENTION_CASE(attention_bias_foreign, .bias = on->foreign)
ATTENTION_CASE(attention_dropout, .dropout = -0.25)
ATTENTION_CASE(attention_dropout_nan, .dropout = NAN)
ATTENTION_CASE(attention_scale, .scale = 1e39)
ATTENTION_CASE(attention_window, .window = -3)
CASE(attention_widths, tuff_attention(HEADS(2, 3, 4, 5), HEADS(2, 6, 2, 6), HEADS(2, 6, 2, 7), NULL))
CASE(attention_heads, tuff_attention(HEADS(2, 3, 4, 5), HEADS(2, 6, 3, 5), HEADS(2, 6, 3, 7), NULL))
CASE(cross_entropy_shapes, tuff_cross_entropy(on->wide, on->index, -100, 0))
CASE(cross_entropy_dtype, tuff_cross_entropy(on->matrix, on->vector, -100, 0))
CASE(one_hot_dtype, tuff_one_hot(on->vector, 4))
CASE(glu_odd, tuff_glu(on->matrix, 1))
CASE(mse_shapes, tuff_mse(on->matrix, on->wide))

static const struct {
    const char *name;
    void (*run)(const scene *on);
    tuff_status status;
    const char *parts[3]; /* parts that the message must contain: the op, shapes, reasons */
} cases[] = {
#define ROW(name, status, ...) {#name, name, TUFF_##status, {__VA_ARGS__}}
    ROW(add_shapes, E_SHAPE, "add", "[2,3]", "[4,5]"),
    ROW(add_dtypes, E_DTYPE, "add", "f32 [2,3]", "f16 [2,3]"),
    ROW(add_null, E_USAGE, "add", "operand 1", "NULL"),
    ROW(add_foreign, E_USAGE, "add", "[7]", "another graph"),
    ROW(add_bool, E_DTYPE, "add", "bool [3]"),
    ROW(mul_i8, E_DTYPE, "mul", "i8 [3]"),
    ROW(mul_fraction, E_DTYPE, "mul", "i32 [3]", "f32 []"),
    ROW(exp_integer, E_DTYPE, "exp", "i32 [3]"),
    ROW(fma_shapes, E_SHAPE, "fma", "[2,3]", "[4,5]"),
    ROW(and_floats, E_DTYPE, "and", "f32 [3]"),
    ROW(less_bools, E_DTYPE, "less", "bool [3]"),
    ROW(huge_broadcast, E_LIMIT, "add", "[65536,65536]"),
    ROW(where_condition, E_DTYPE, "where", "f32 [3]", "bool"),
    ROW(where_shapes, E_SHAPE, "where", "[3]", "[4,5]"),
    ROW(cast_f64, E_DTYPE, "cast", "f64"),
    ROW(cast_unknown, E_DTYPE, "cast", "unknown"),
    ROW(input_i64, E_DTYPE, "input", "i64"),
    ROW(input_negative, E_SHAPE, "input", "[2,-3]"),
    ROW(input_huge, E_LIMIT, "input", "[65536,65536]"),
    ROW(input_overflow, E_LIMIT, "input", "elements"),
    ROW(input_rank, E_LIMIT, "input", "rank 9"),
    ROW(input_negative_rank, E_LIMIT, "input", "rank -1"),
    ROW(input_twice, E_USAGE, "input", "\"vector\"", "[3]"),
    ROW(input_nameless, E_USAGE, "input", "NULL"),
    ROW(constant_null, E_USAGE, "constant", "[2,3]", "NULL"),
    ROW(constant_i64, E_DTYPE, "constant", "i64"),
    ROW(iota_axis, E_SHAPE, "iota", "[2,3]", "axis 2"),
    ROW(random_huge, E_LIMIT, "random", "[1048576,1048576]"),
    ROW(sum_axis, E_SHAPE, "sum", "[2,3]", "axis 2"),
    ROW(sum_axis_twice, E_SHAPE, "sum", "[2,3]", "twice"),
    ROW(sum_null_axes, E_USAGE, "sum", "[2,3]", "NULL"),
    ROW(sum_negative_count, E_USAGE, "sum", "[2,3]", "negative"),
    ROW(sum_bool, E_DTYPE, "sum", "bool [3]"),
    ROW(max_of_none, E_SHAPE, "reduce_max", "[0,3]"),
    ROW(reshape_count, E_SHAPE, "reshape", "[2,3]", "[4,2]"),
    ROW(reshape_two_unknown, E_SHAPE, "reshape", "[2,3]", "[-1,-1]"),
    ROW(reshape_no_fit, E_SHAPE, "reshape", "[2,3]", "[-1,4]"),
    ROW(reshape_negative, E_SHAPE, "reshape", "[-2,3]"),
    ROW(permute_twice, E_SHAPE, "permute", "[2,3]", "twice"),
    ROW(permute_axis, E_SHAPE, "permute", "[2,3]", "axis 5"),
    ROW(permute_null, E_USAGE, "permute", "[2,3]", "NULL"),
    ROW(expand_shape, E_SHAPE, "expand", "[2,3]", "[4,4]"),
    ROW(expand_smaller, E_SHAPE, "expand", "[2,3]", "[3]"),
    ROW(expand_huge, E_LIMIT, "expand", "[1073741824,3]"),
    ROW(slice_stop, E_SHAPE, "slice", "[2,3]", "axis 1"),
    ROW(slice_start, E_SHAPE, "slice", "[2,3]", "axis 0"),
    ROW(slice_step, E_SHAPE, "slice", "[2,3]", "step 0"),
    ROW(slice_backwards, E_SHAPE, "slice", "[2,3]", "start 3, stop -1 and step -1"),
    ROW(slice_null, E_USAGE, "slice", "[2,3]", "NULL"),
    ROW(pad_negative, E_SHAPE, "pad", "[2,3]", "axis 1"),
    ROW(pad_huge, E_LIMIT, "pad", "[2,3]", "axis 0"),
    ROW(concat_shapes, E_SHAPE, "concat", "[2,3]", "[4,5]"),
    ROW(concat_dtypes, E_DTYPE, "concat", "f32 [2,3]", "f16 [2,3]"),
    ROW(concat_null, E_USAGE, "concat", "operand 1", "NULL"),
    ROW(concat_scalars, E_SHAPE, "concat", "[]", "axis 0"),
    ROW(matmul_inner, E_SHAPE, "matmul", "[2,3] x [4,5]", "inner extents 3 and 4 differ"),
    ROW(matmul_scalar, E_SHAPE, "matmul", "[2,3] x []"),
    ROW(matmul_dtype, E_DTYPE, "matmul", "f32 [2,3]", "f16 [3,2]"),
    ROW(matmul_batches, E_SHAPE, "matmul", "[2,1,3]", "[5,3,1]"),
    ROW(gather_dtype, E_DTYPE, "gather", "f32 [3]", "i32"),
    ROW(gather_rank, E_SHAPE, "gather", "[2,3]", "[3]"),
    ROW(gather_axis, E_SHAPE, "gather", "[3]", "axis 1"),
    ROW(scatter_shapes, E_SHAPE, "scatter_add", "[2,3]", "[4,5]"),
    ROW(scatter_dtypes, E_DTYPE, "scatter_add", "f32 [3]", "i32 [3]"),
    ROW(cumsum_axis, E_SHAPE, "cumsum", "[]", "axis 0"),
    ROW(array_null, E_USAGE, "array", "NULL"),
    ROW(assign_shape, E_SHAPE, "assign", "[4]", "[3]"),
    ROW(assign_dtype, E_DTYPE, "assign", "f32 [4]", "f16 [3]"),
    ROW(assign_null, E_USAGE, "assign", "[4]", "NULL"),
    ROW(assign_twice, E_USAGE, "assign", "[4]", "overlaps"),
    ROW(output_null, E_USAGE, "output", "NULL"),
    ROW(output_twice, E_USAGE, "output", "\"y\"", "[2,3]"),
    ROW(output_foreign, E_USAGE, "output", "[7]", "another graph"),
    ROW(output_nameless, E_USAGE, "output", "empty"),
    ROW(step_shape, E_DTYPE, "step", "f32 [4]", "i32"),
    ROW(gradient_of_vector, E_SHAPE, "gradients", "f32 [3]"),
    ROW(gradient_by_integer, E_DTYPE, "gradients", "i32 [3]"),
    ROW(gradient_by_null, E_USAGE, "gradients", "tensor 0", "NULL"),
    ROW(recompute_nothing, E_USAGE, "recompute", "f32 [2,3]", "NULL"),
    ROW(recompute_negative, E_USAGE, "recompute", "[2,3]", "negative"),
    ROW(recompute_null_input, E_USAGE, "recompute", "operand 1", "NULL"),
    ROW(recompute_foreign, E_USAGE, "recompute", "[7]", "another graph"),
    ROW(recompute_foreign_too, E_USAGE, "recompute", "[7]", "another graph"),
    ROW(recompute_independent, E_USAGE, "recompute", "[2,3] does not depend", "input 1, [4,5]"),
    ROW(recompute_later, E_USAGE, "recompute", "does not depend", "input 0"),
    ROW(softmax_axis, E_SHAPE, "softmax", "[2,3]", "axis 2"),
    ROW(softmax_dtype, E_DTYPE, "softmax", "i32 [3]"),
    ROW(layer_norm_gain, E_SHAPE, "layer_norm", "[2,3]", "[4,5]"),
    ROW(layer_norm_trailing, E_SHAPE, "layer_norm", "[2,3]", "3 trailing"),
    ROW(group_norm_groups, E_SHAPE, "group_norm", "[2,3]", "2 groups"),
    ROW(linear_weight, E_SHAPE, "linear", "[2,3]", "[4,5]"),
    ROW(linear_bias, E_SHAPE, "linear", "[3,2]", "[3]"),
    ROW(embedding_rank, E_SHAPE, "embedding", "[3]"),
    ROW(gather_rows_dtype, E_DTYPE, "gather_rows", "[2,3]", "f32 [3]"),
    ROW(dropout_probability, E_USAGE, "dropout", "[2,3]", "1.5"),
    ROW(rope_rank, E_SHAPE, "rope", "[2,3]"),
    ROW(attention_rank, E_SHAPE, "attention", "[2,3]"),
    ROW(attention_bias_keys, E_SHAPE, "attention", "[3,1]", "[2,4,3,6]"),
    ROW(attention_bias_heads, E_SHAPE, "attention", "[2,3,6]", "[2,4,3,6]"),
    ROW(attention_bias_rank, E_SHAPE, "attention", "[1,2,4,3,6]"),
    ROW(attention_bias_dtype, E_DTYPE, "attention", "f16 [3,6]"),
    ROW(attention_bias_foreign, E_USAGE, "attention"),
    ROW(attention_dropout, E_USAGE, "attention", "-0.25"),
    ROW(attention_dropout_nan, E_USAGE, "attention", "nan"),
    ROW(attention_scale, E_USAGE, "attention", "1e+39"),
    ROW(attention_window, E_USAGE, "attention", "-3"),
    ROW(attention_widths, E_SHAPE, "attention", "[2,6,2,6]"),
    ROW(attention_heads, E_SHAPE, "attention", "[2,6,3,5]"),
    ROW(cross_entropy_shapes, E_SHAPE, "cross_entropy", "[4,5]", "[3]"),
    ROW(cross_entropy_dtype, E_DTYPE, "cross_entropy", "f32 [2,3]", "f32 [3]"),
    ROW(one_hot_dtype, E_DTYPE, "one_hot", "f32 [3]"),
    ROW(glu_odd, E_SHAPE, "glu", "[2,3]", "axis 1"),
    ROW(mse_shapes, E_SHAPE, "sub", "[2,3]", "[4,5]"),
};

static void open_scene(scene *on, tuff_device *device)
{
    *on = (scene){.device = device, .graph = tuff_graph_create(device), .other_graph = tuff_graph_create(device)};
    on->array = tuff_array_create(device, TUFF_F32, S(4));
    on->vector = tuff_input(on->graph, "vector", TUFF_F32, S(3));
    on->matrix = tuff_input(on->graph, "matrix", TUFF_F32, S(2, 3));
    on->wide = tuff_input(on->graph, "wide", TUFF_F32, S(4, 5));
    on->half = tuff_input(on->graph, "half", TUFF_F16, S(2, 3));
    on->index = tuff_input(on->graph, "index", TUFF_I32, S(3));
    on->flag = tuff_input(on->graph, "flag", TUFF_BOOL, S(3));
    on->scalar = tuff_input(on->graph, "scalar", TUFF_F32, TUFF_SCALAR);
    on->empty = tuff_input(on->graph, "empty", TUFF_F32, S(0, 3));
    on->byte = tuff_input(on->graph, "byte", TUFF_I8, S(3));
    on->foreign = tuff_input(on->other_graph, "foreign", TUFF_F32, S(7));
    assert_int_equal(tuff_graph_status(on->graph), TUFF_OK);
}

static void close_scene(scene *on)
{
    tuff_graph_destroy(on->graph);
    tuff_graph_destroy(on->other_graph);
    tuff_array_destroy(on->array);
}

/* The first error persists, whatever is built afterwards, and compiling reports it. */
static void check_sticky(const scene *on, tuff_status status)
{
    char first[1024];
    strcpy(first, tuff_graph_error(on->graph));
    tuff_tensor *after = tuff_exp(tuff_add(on->vector, on->vector));
    assert_non_null(after);
    tuff_reshape(on->matrix, S(100));
    tuff_output(on->graph, "after", after);
    assert_int_equal(tuff_graph_status(on->graph), status);
    assert_string_equal(tuff_graph_error(on->graph), first);
    assert_null(tuff_compile(on->graph, NULL));
    assert_non_null(strstr(tuff_error(), first));
}

static void check_case(tuff_device *device, size_t index)
{
    scene on;
    open_scene(&on, device);
    cases[index].run(&on);
    const char *message = tuff_graph_error(on.graph);
    if (tuff_graph_status(on.graph) != cases[index].status)
        fail_msg("%s: %s instead of %s: %s", cases[index].name, tuff_status_name(tuff_graph_status(on.graph)),
                 tuff_status_name(cases[index].status), message);
    for (int part = 0; part < 3; part++)
        if (cases[index].parts[part] && !strstr(message, cases[index].parts[part]))
            fail_msg("%s: \"%s\" is not in: %s", cases[index].name, cases[index].parts[part], message);
    check_sticky(&on, cases[index].status);
    assert_int_equal(tuff_graph_status(on.other_graph), TUFF_OK);
    close_scene(&on);
}

static tuff_device *device;

static void each_malformed_graph_says_what_is_wrong(void **state)
{
    (void)state;
    assert_true(sizeof cases / sizeof cases[0] >= 40);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_case(device, i);
}

/* Without a graph only the thread can hold the error; the result is still not NULL, and nothing crashes. */
static void builders_without_a_graph_return_a_failed_tensor(void **state)
{
    (void)state;
    tuff_tensor *made[] = {
        tuff_input(NULL, "x", TUFF_F32, S(2)),
        tuff_constant(NULL, TUFF_F32, 1),
        tuff_iota(NULL, S(2), 0),
        tuff_random(NULL, S(2)),
        tuff_step(NULL),
        tuff_add(NULL, NULL),
        tuff_concat(NULL, 2, 0),
        tuff_array_tensor(NULL, NULL),
        tuff_assign(NULL, NULL, NULL),
        tuff_softmax(NULL, 0),
        tuff_matmul(NULL, NULL),
        tuff_where(NULL, NULL, NULL),
        tuff_attention(NULL, NULL, NULL, NULL),
        tuff_one_hot(NULL, 3),
        tuff_linear(NULL, NULL, NULL),
        tuff_recompute(NULL, NULL, 0),
        tuff_reduce_min(NULL, NULL, 0, false),
    };
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        assert_non_null(made[i]);
        assert_null(tuff_tensor_graph(made[i]));
        assert_non_null(tuff_neg(made[i]));
    }
    assert_null(tuff_graph_create(NULL));
    assert_int_equal(tuff_graph_status(NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_tensor_shape(NULL).rank, 0);
    tuff_graph_destroy(NULL);
    tuff_graph_seed(NULL, 1);
    tuff_output(NULL, "y", NULL);
    tuff_tensor *gradient = NULL;
    assert_int_equal(tuff_gradients(NULL, &made[0], 1, &gradient), TUFF_E_USAGE);
    assert_non_null(gradient);
}

/* A tensor created without a graph makes the graph that uses it fail. */
static void a_failed_tensor_fails_the_graph_that_uses_it(void **state)
{
    (void)state;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *lost = tuff_constant(NULL, TUFF_F32, 1);
    tuff_add(tuff_constant(graph, TUFF_F32, 1), lost);
    assert_int_equal(tuff_graph_status(graph), TUFF_E_USAGE);
    assert_non_null(strstr(tuff_graph_error(graph), "operand 1"));
    tuff_graph_destroy(graph);
}

static int open_device(void **state)
{
    (void)state;
    device = tuff_device_open("reference");
    return device ? 0 : -1;
}

static int close_device(void **state)
{
    (void)state;
    tuff_device_close(device);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_malformed_graph_says_what_is_wrong),
        cmocka_unit_test(builders_without_a_graph_return_a_failed_tensor),
        cmocka_unit_test(a_failed_tensor_fails_the_graph_that_uses_it),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
