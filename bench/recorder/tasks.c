/* Graphs of the tasks: each has one task, or one that is measured. */
#include "bench/recorder/tasks.h"

#include <stdio.h>

#include "base/status.h"

static tuff_tensor *input(record_graph *self, tuff_dtype dtype, tuff_shape shape)
{
    char name[16];
    (void)snprintf(name, sizeof name, "x%d", self->input_count++);
    return tuff_input(self->graph, name, dtype, shape);
}

static tuff_array *array(record_graph *self, tuff_dtype dtype, tuff_shape shape)
{
    tuff_array *made = self->array_count < RECORD_ARRAYS ? tuff_array_create(self->device, dtype, shape) : NULL;
    if (made)
        self->arrays[self->array_count++] = made;
    else if (!self->status)
        self->status = tuff_last_status();
    return made;
}

static tuff_tensor *weight(record_graph *self, tuff_dtype dtype, tuff_shape shape)
{
    tuff_array *made = array(self, dtype, shape);
    return made ? tuff_array_tensor(self->graph, made) : tuff_constant(self->graph, dtype, 0);
}

static void output(record_graph *self, tuff_tensor *y)
{
    tuff_output(self->graph, "y", y);
}

static tuff_tensor *transpose(tuff_tensor *x)
{
    return tuff_permute(x, (const int[]){1, 0});
}

static tuff_tensor *number(record_graph *self, double value)
{
    return tuff_constant(self->graph, TUFF_F32, value);
}

/* Outputs the gradients of a weighted sum of y with respect to wrt. */
static void backward(record_graph *self, tuff_tensor *y, tuff_tensor *const *wrt, int count)
{
    enum { MAX_GRADIENTS = 4 };
    tuff_tensor *gradients[MAX_GRADIENTS];
    int axes[TUFF_MAX_RANK];
    char name[16];
    const int rank = tuff_tensor_shape(y).rank;
    for (int i = 0; i < rank; i++)
        axes[i] = i;
    if (rank > 0)
        y = tuff_sum(tuff_mul(y, input(self, TUFF_F32, tuff_tensor_shape(y))), axes, rank, false);
    const tuff_status status = tuff_gradients(y, wrt, count, gradients);
    if (status && !self->status)
        self->status = status;
    for (int i = 0; i < count && !status; i++) {
        (void)snprintf(name, sizeof name, "g%d", i);
        tuff_output(self->graph, name, gradients[i]);
    }
}

/* sizes: M, N, K. */
static void product(record_graph *self, const int64_t *sizes)
{
    tuff_tensor *x = input(self, TUFF_F32, TUFF_SHAPE(sizes[0], sizes[2]));
    output(self, tuff_matmul(x, weight(self, TUFF_F32, TUFF_SHAPE(sizes[2], sizes[1]))));
}

static void product_nt(record_graph *self, const int64_t *sizes)
{
    tuff_tensor *x = input(self, TUFF_F32, TUFF_SHAPE(sizes[0], sizes[2]));
    output(self, tuff_matmul(x, transpose(input(self, TUFF_F32, TUFF_SHAPE(sizes[1], sizes[2])))));
}

static void product_tn(record_graph *self, const int64_t *sizes)
{
    tuff_tensor *x = transpose(input(self, TUFF_F32, TUFF_SHAPE(sizes[2], sizes[0])));
    output(self, tuff_matmul(x, input(self, TUFF_F32, TUFF_SHAPE(sizes[2], sizes[1]))));
}

static void product_gelu(record_graph *self, const int64_t *sizes)
{
    tuff_tensor *x = input(self, TUFF_F32, TUFF_SHAPE(sizes[0], sizes[2]));
    tuff_tensor *y = tuff_matmul(x, weight(self, TUFF_F32, TUFF_SHAPE(sizes[2], sizes[1])));
    output(self, tuff_gelu(tuff_add(y, weight(self, TUFF_F32, TUFF_SHAPE(sizes[1])))));
}

static void product_f16(record_graph *self, const int64_t *sizes)
{
    tuff_tensor *x = input(self, TUFF_F32, TUFF_SHAPE(sizes[0], sizes[2]));
    tuff_tensor *y = weight(self, TUFF_F16, TUFF_SHAPE(sizes[2], sizes[1]));
    output(self, tuff_matmul(x, tuff_cast(y, TUFF_F32)));
}

/* sizes: batch, length, heads, width. */
static void attention(record_graph *self, const int64_t *sizes)
{
    const tuff_shape shape = TUFF_SHAPE(sizes[0], sizes[1], sizes[2], sizes[3]);
    const tuff_attention_options options = {.causal = true};
    tuff_tensor *q = input(self, TUFF_F32, shape), *k = input(self, TUFF_F32, shape);
    output(self, tuff_attention(q, k, input(self, TUFF_F32, shape), &options));
}

static void attention_backward(record_graph *self, const int64_t *sizes)
{
    const tuff_shape shape = TUFF_SHAPE(sizes[0], sizes[1], sizes[2], sizes[3]);
    const tuff_attention_options options = {.causal = true};
    tuff_tensor *q = input(self, TUFF_F32, shape), *k = input(self, TUFF_F32, shape), *v = input(self, TUFF_F32, shape);
    backward(self, tuff_attention(q, k, v, &options), (tuff_tensor *[]){q, k, v}, 3);
}

/* sizes: rows, columns. */
static void layer_norm(record_graph *self, const int64_t *sizes)
{
    tuff_tensor *x = input(self, TUFF_F32, TUFF_SHAPE(sizes[0], sizes[1]));
    tuff_tensor *gain = weight(self, TUFF_F32, TUFF_SHAPE(sizes[1]));
    output(self, tuff_layer_norm(x, gain, weight(self, TUFF_F32, TUFF_SHAPE(sizes[1])), 1, 1e-5));
}

static void rms_norm_backward(record_graph *self, const int64_t *sizes)
{
    tuff_tensor *x = input(self, TUFF_F32, TUFF_SHAPE(sizes[0], sizes[1]));
    tuff_tensor *gain = weight(self, TUFF_F32, TUFF_SHAPE(sizes[1]));
    backward(self, tuff_rms_norm(x, gain, 1, 1e-5), (tuff_tensor *[]){x}, 1);
}

static void softmax(record_graph *self, const int64_t *sizes)
{
    output(self, tuff_softmax(input(self, TUFF_F32, TUFF_SHAPE(sizes[0], sizes[1])), -1));
}

static void cross_entropy(record_graph *self, const int64_t *sizes)
{
    tuff_tensor *x = input(self, TUFF_F32, TUFF_SHAPE(sizes[0], sizes[1]));
    output(self, tuff_cross_entropy(x, input(self, TUFF_I32, TUFF_SHAPE(sizes[0])), -1, 0));
}

static void column_sum(record_graph *self, const int64_t *sizes)
{
    tuff_tensor *x = input(self, TUFF_F32, TUFF_SHAPE(sizes[0], sizes[1]));
    output(self, tuff_sum(x, (const int[]){0}, 1, false));
}

static void map(record_graph *self, const int64_t *sizes)
{
    tuff_tensor *x = input(self, TUFF_F32, TUFF_SHAPE(sizes[0], sizes[1]));
    output(self, tuff_add(tuff_gelu(x), input(self, TUFF_F32, TUFF_SHAPE(sizes[0], sizes[1]))));
}

/* AdamW without bias correction: reads and writes three arrays and reads a fourth. */
static void optimizer(record_graph *self, const int64_t *sizes)
{
    const tuff_shape shape = TUFF_SHAPE(sizes[0]);
    tuff_tensor *g = input(self, TUFF_F32, shape), *old[RECORD_ARRAYS];
    for (int i = 0; i < RECORD_ARRAYS; i++)
        old[i] = weight(self, TUFF_F32, shape);
    if (self->status)
        return;
    tuff_tensor *m = tuff_add(tuff_mul(old[1], number(self, 0.9)), tuff_mul(g, number(self, 0.1)));
    tuff_tensor *v = tuff_add(tuff_mul(old[2], number(self, 0.99)), tuff_mul(tuff_mul(g, g), number(self, 0.01)));
    tuff_tensor *step = tuff_div(m, tuff_add(tuff_sqrt(v), number(self, 1e-8)));
    step = tuff_add(step, tuff_mul(old[0], number(self, 0.01)));
    (void)tuff_assign(self->graph, self->arrays[0], tuff_sub(old[0], tuff_mul(step, number(self, 1e-3))));
    (void)tuff_assign(self->graph, self->arrays[1], m);
    (void)tuff_assign(self->graph, self->arrays[2], v);
}

/* sizes: rows of the table, columns, rows gathered. */
static void gather(record_graph *self, const int64_t *sizes)
{
    tuff_tensor *table = weight(self, TUFF_F32, TUFF_SHAPE(sizes[0], sizes[1]));
    output(self, tuff_gather_rows(table, input(self, TUFF_I32, TUFF_SHAPE(sizes[2])), 0));
}

static void scatter(record_graph *self, const int64_t *sizes)
{
    tuff_tensor *x = input(self, TUFF_F32, TUFF_SHAPE(sizes[0], sizes[1]));
    tuff_tensor *indices = input(self, TUFF_I32, TUFF_SHAPE(sizes[2]));
    output(self, tuff_scatter_add_rows(x, indices, input(self, TUFF_F32, TUFF_SHAPE(sizes[2], sizes[1])), 0));
}

static void scan(record_graph *self, const int64_t *sizes)
{
    output(self, tuff_cumsum(input(self, TUFF_F32, TUFF_SHAPE(sizes[0], sizes[1])), 1));
}

const record_task record_tasks[] = {
    {"matmul-512x512x512-nn", "matmul", false, product, {512, 512, 512}},
    {"matmul-256x1152x384-nt", "matmul", false, product_nt, {256, 1152, 384}},
    {"matmul-384x384x1024-tn", "matmul", false, product_tn, {384, 384, 1024}},
    {"matmul-512x1536x384-gelu", "matmul", false, product_gelu, {512, 1536, 384}},
    {"matmul-256x768x768-f16", "matmul", false, product_f16, {256, 768, 768}},
    {"matmul-4x768x768-thin", "matmul", false, product, {4, 768, 768}},
    {"matmul-1x4096x768-gemv", "matmul", false, product, {1, 4096, 768}},
    {"attention-b2t256h6d64-forward", "attention", false, attention, {2, 256, 6, 64}},
    {"attention-b2t256h6d64-backward", "attention", true, attention_backward, {2, 256, 6, 64}},
    {"row-2048x384-layer-norm", "row", false, layer_norm, {2048, 384}},
    {"row-1024x384-rms-norm-backward", "row", true, rms_norm_backward, {1024, 384}},
    {"row-4096x128-softmax", "row", false, softmax, {4096, 128}},
    {"row-128x16384-softmax", "row", false, softmax, {128, 16384}},
    {"row-2048x256-cross-entropy", "row", false, cross_entropy, {2048, 256}},
    {"row-64x32768-cross-entropy", "row", false, cross_entropy, {64, 32768}},
    {"column-2048x768-sum", "column", false, column_sum, {2048, 768}},
    {"map-2048x2048-gelu-add", "map", false, map, {2048, 2048}},
    {"map-64x384-gelu-add", "map", false, map, {64, 384}},
    {"map-1048576-optimizer", "map", false, optimizer, {1048576}},
    {"map-1024x384-gather", "map", false, gather, {4096, 384, 1024}},
    {"scatter-256x384-add", "scatter", false, scatter, {256, 384, 1024}},
    {"scan-512x1024-cumsum", "scan", false, scan, {512, 1024}},
    {NULL, NULL, false, NULL, {0}},
};

tuff_status record_graph_build(tuff_device *device, const record_task *task, record_graph *self)
{
    *self = (record_graph){.device = device, .graph = tuff_graph_create(device)};
    if (!self->graph)
        return tuff_last_status();
    task->build(self, task->sizes);
    return self->status ? self->status : tuff_graph_status(self->graph);
}

void record_graph_end(record_graph *self)
{
    tuff_graph_destroy(self->graph);
    for (int i = 0; i < self->array_count; i++)
        tuff_array_destroy(self->arrays[i]);
    *self = (record_graph){0};
}
