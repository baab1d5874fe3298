/* The graphs of random programs. A graph is built twice: first with inputs in place of parameters, to find out which
   parameters it has, then with the parameters. */
#include "tools/verify/program_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "graph/builder.h"
#include "tools/model/random.h"
#include "train/train.h"

enum { NAME_SIZE = 40, WINDOW = 3, TABLE_ROWS = 64 };

typedef struct program_names {
    char names[PROGRAM_PARAMETERS][NAME_SIZE];
    tuff_parameter_spec specs[PROGRAM_PARAMETERS];
    int count;
} program_names;

typedef struct builder {
    const program_recipe *recipe;
    tuff_graph *graph;
    program_names *names;        /* if parameters is NULL, requested ones are recorded here */
    tuff_parameters *parameters; /* looked up here */
    tuff_tensor *noted[PROGRAM_PARAMETERS];
    tuff_tensor *inputs[PROGRAM_INPUTS];
    program_data data; /* shapes of the inputs, without data */
    int64_t from, to;  /* samples of this part */
    tuff_tensor *bias; /* of attention's scores, or NULL */
    int layer;
} builder;

static tuff_tensor *weight(builder *b, const char *name, tuff_shape shape)
{
    if (b->parameters != NULL)
        return tuff_array_tensor(b->graph, tuff_parameters_find(b->parameters, name));
    program_names *names = b->names;
    for (int i = 0; i < names->count; i++)
        if (strcmp(names->names[i], name) == 0)
            return b->noted[i];
    const int at = names->count++;
    snprintf(names->names[at], NAME_SIZE, "%s", name);
    names->specs[at] = (tuff_parameter_spec){.name = names->names[at], .shape = shape};
    return b->noted[at] = tuff_input(b->graph, name, TUFF_F32, shape);
}

/* A weight of the current layer. Tied layers share one. */
static tuff_tensor *layer_weight(builder *b, const char *part, tuff_shape shape)
{
    char name[NAME_SIZE];
    const bool is_tied =
        program_choice(b->recipe, FIELD_TIED) != 0 && program_choice(b->recipe, FIELD_FORM) == FORM_MLP;
    snprintf(name, sizeof name, "%d.%s", is_tied ? 0 : b->layer, part);
    return weight(b, name, shape);
}

/* The samples of this part of an input. */
static tuff_tensor *input(builder *b, const char *name)
{
    int at = 0;
    while (strcmp(b->data.inputs[at].name, name) != 0)
        at++;
    const program_input *source = &b->data.inputs[at];
    if (b->inputs[at] == NULL)
        b->inputs[at] = tuff_input(b->graph, name, source->dtype, source->shape);
    int64_t start[TUFF_MAX_RANK] = {b->from}, stop[TUFF_MAX_RANK] = {b->to};
    for (int i = 1; i < source->shape.rank; i++)
        stop[i] = source->shape.extent[i];
    const bool whole = b->from == 0 && b->to == source->shape.extent[0];
    return whole ? b->inputs[at] : tuff_slice(b->inputs[at], start, stop, NULL);
}

static int64_t last_extent(const tuff_tensor *x)
{
    const tuff_shape shape = tuff_tensor_shape(x);
    return shape.extent[shape.rank - 1];
}

static tuff_tensor *linear(builder *b, tuff_tensor *x, const char *part, int64_t columns)
{
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "%s.weight", part);
    tuff_tensor *matrix = layer_weight(b, name, TUFF_SHAPE(last_extent(x), columns));
    snprintf(name, sizeof name, "%s.bias", part);
    tuff_tensor *bias = program_choice(b->recipe, FIELD_BIAS) != 0 ? layer_weight(b, name, TUFF_SHAPE(columns)) : NULL;
    if (bias != NULL && b->layer == 0 && b->recipe->variant.fault == FAULT_BIAS)
        bias = tuff_add(bias, tuff__stop_gradient(tuff_neg(bias)));
    return tuff_linear(x, matrix, bias);
}

/* Norm over the last axis. */
static tuff_tensor *norm(builder *b, tuff_tensor *x, const char *part)
{
    char gain[NAME_SIZE], bias[NAME_SIZE];
    const tuff_shape shape = TUFF_SHAPE(last_extent(x));
    snprintf(gain, sizeof gain, "%s.gain", part);
    snprintf(bias, sizeof bias, "%s.bias", part);
    switch (program_choice(b->recipe, FIELD_NORM)) {
    case NORM_NONE:
        return x;
    case NORM_LAYER: {
        tuff_tensor *scale = layer_weight(b, gain, shape), *shift = layer_weight(b, bias, shape);
        return tuff_layer_norm(x, scale, shift, 1, 1e-5);
    }
    case NORM_PLAIN_LAYER:
        return tuff_layer_norm(x, NULL, NULL, 1, 1e-5);
    default:
        return tuff_rms_norm(x, layer_weight(b, gain, shape), 1, 1e-6);
    }
}

/* x is [B, H, W, C]. */
static tuff_tensor *image_norm(builder *b, tuff_tensor *x)
{
    const int to_channels[] = {0, 3, 1, 2}, back[] = {0, 2, 3, 1};
    const int64_t channels = last_extent(x);
    if (program_choice(b->recipe, FIELD_NORM) != NORM_GROUP)
        return norm(b, x, "norm");
    tuff_tensor *gain = layer_weight(b, "norm.gain", TUFF_SHAPE(channels)),
                *bias = layer_weight(b, "norm.bias", TUFF_SHAPE(channels));
    const int groups = channels % 3 == 0 ? 3 : channels % 2 == 0 ? 2 : 1;
    return tuff_permute(tuff_group_norm(tuff_permute(x, to_channels), gain, bias, groups, 1e-5), back);
}

static tuff_tensor *activation(const builder *b, tuff_tensor *x)
{
    switch (program_choice(b->recipe, FIELD_ACTIVATION)) {
    case ACTIVATION_RELU:
        return tuff_relu(x);
    case ACTIVATION_GELU:
        return tuff_gelu(x);
    case ACTIVATION_GELU_TANH:
        return tuff_gelu_tanh(x);
    case ACTIVATION_SILU:
    case ACTIVATION_SWIGLU: /* without a gate */
        return tuff_silu(x);
    case ACTIVATION_TANH:
        return tuff_tanh(x);
    default:
        return x;
    }
}

static tuff_tensor *dropout(const builder *b, tuff_tensor *x)
{
    const double probability = program_number(b->recipe, FIELD_DROPOUT);
    return probability > 0 ? tuff_dropout(x, probability) : x;
}

/* A linear layer with activation, dropout, residual, and norm before or after it. */
static tuff_tensor *dense_layer(builder *b, tuff_tensor *x)
{
    const bool norm_last = program_choice(b->recipe, FIELD_NORM_PLACE) != 0;
    const int64_t width = last_extent(x);
    tuff_tensor *y = linear(b, norm_last ? x : norm(b, x, "norm"), "dense", width);
    y = dropout(b, activation(b, y));
    y = program_choice(b->recipe, FIELD_RESIDUAL) != 0 ? tuff_add(x, y) : y;
    return norm_last ? norm(b, y, "norm") : y;
}

/* [B, H, W, C] -> [B, H, W, C k k]: the neighbourhood of every point. */
static tuff_tensor *patches(const builder *b, tuff_tensor *x)
{
    enum { MAX_PARTS = 3 };
    const int64_t k = program_size(b->recipe, FIELD_PATCH), before = (k - 1) / 2;
    const tuff_shape shape = tuff_tensor_shape(x);
    tuff_tensor *parts[MAX_PARTS * MAX_PARTS];
    const int64_t low[] = {0, before, before, 0}, high[] = {0, k - 1 - before, k - 1 - before, 0};
    if (k == 1)
        return x;
    x = tuff_pad(x, low, high, 0);
    for (int64_t i = 0; i < k * k; i++) {
        const int64_t start[] = {0, i / k, i % k, 0};
        const int64_t stop[] = {shape.extent[0], i / k + shape.extent[1], i % k + shape.extent[2], shape.extent[3]};
        parts[i] = tuff_slice(x, start, stop, NULL);
    }
    return tuff_concat(parts, (int)(k * k), 3);
}

static tuff_tensor *convolution_layer(builder *b, tuff_tensor *x)
{
    tuff_tensor *y = linear(b, patches(b, x), "kernel", program_size(b->recipe, FIELD_WIDTH));
    y = dropout(b, activation(b, image_norm(b, y)));
    const bool adds = program_choice(b->recipe, FIELD_RESIDUAL) != 0 && last_extent(x) == last_extent(y);
    return adds ? tuff_add(x, y) : y;
}

/* x is [B, C, H, W]: windows of two if there is room, or overlapping windows of three. */
static tuff_tensor *pool(const builder *b, tuff_tensor *x)
{
    const tuff_shape shape = tuff_tensor_shape(x);
    const int kind = program_choice(b->recipe, FIELD_POOL);
    const bool has_room = shape.extent[2] >= 2 && shape.extent[3] >= 2;
    if (kind == POOL_OVERLAPPING)
        return tuff_max_pool2d(x, &(tuff_pool2d_options){.size = {3, 3}, .stride = {2, 1}, .padding = {1, 1}});
    if (kind == POOL_NONE || !has_room)
        return x;
    const tuff_pool2d_options options = {.size = {2, 2}};
    return kind == POOL_MAX ? tuff_max_pool2d(x, &options) : tuff_avg_pool2d(x, &options);
}

/* x is [B, C, H, W]. As many groups as heads, if they divide the channels. */
static tuff_tensor *image_layer(builder *b, tuff_tensor *x)
{
    const int to_last[] = {0, 2, 3, 1}, back[] = {0, 3, 1, 2};
    const int64_t k = program_size(b->recipe, FIELD_PATCH), stride = program_size(b->recipe, FIELD_STRIDE);
    const int64_t width = program_size(b->recipe, FIELD_WIDTH), heads = program_size(b->recipe, FIELD_HEADS);
    const int64_t channels = tuff_tensor_shape(x).extent[1];
    const int64_t groups = channels % heads == 0 && width % heads == 0 ? heads : 1;
    const tuff_conv2d_options options = {.stride = {stride, 1}, .padding = {k / 2, k / 2}, .groups = groups};
    tuff_tensor *kernels = layer_weight(b, "kernel.weight", TUFF_SHAPE(width, channels / groups, k, k));
    tuff_tensor *bias =
        program_choice(b->recipe, FIELD_BIAS) != 0 ? layer_weight(b, "kernel.bias", TUFF_SHAPE(width)) : NULL;
    tuff_tensor *y = tuff_conv2d(x, kernels, bias, &options);
    y = tuff_permute(image_norm(b, tuff_permute(y, to_last)), back);
    return pool(b, dropout(b, activation(b, y)));
}

/* Columns of [B, T, columns] from `first` on, as [B, T, heads, columns / heads]. */
static tuff_tensor *heads_of(tuff_tensor *x, int64_t first, int64_t columns, int64_t heads)
{
    const tuff_shape shape = tuff_tensor_shape(x);
    const int64_t start[] = {0, 0, first}, stop[] = {shape.extent[0], shape.extent[1], first + columns};
    if (columns < shape.extent[2])
        x = tuff_slice(x, start, stop, NULL);
    return tuff_reshape(x, TUFF_SHAPE(shape.extent[0], shape.extent[1], heads, columns / heads));
}

static tuff_tensor *apply_rope(const builder *b, tuff_tensor *x)
{
    const int positions = program_choice(b->recipe, FIELD_POSITIONS);
    if ((positions != POSITIONS_INTERLEAVED && positions != POSITIONS_HALF) || last_extent(x) % 2 != 0)
        return x;
    return tuff_rope(x, positions == POSITIONS_HALF ? TUFF_ROPE_HALF : TUFF_ROPE_INTERLEAVED, 10000, 0, NULL);
}

static tuff_tensor *attend(builder *b, tuff_tensor *x)
{
    const int64_t width = program_size(b->recipe, FIELD_WIDTH), heads = program_size(b->recipe, FIELD_HEADS);
    const int64_t sharing = program_size(b->recipe, FIELD_SHARING),
                  shared = heads % sharing == 0 ? heads / sharing : heads;
    const int64_t stream = heads * width, kv_width = shared * width;
    const int mask = program_choice(b->recipe, FIELD_MASK);
    tuff_tensor *q, *k, *v;
    if (program_choice(b->recipe, FIELD_PROJECTIONS) == 0) {
        tuff_tensor *all = linear(b, x, "qkv", stream + 2 * kv_width);
        q = heads_of(all, 0, stream, heads);
        k = heads_of(all, stream, kv_width, shared);
        v = heads_of(all, stream + kv_width, kv_width, shared);
    } else {
        q = heads_of(linear(b, x, "q", stream), 0, stream, heads);
        k = heads_of(linear(b, x, "k", kv_width), 0, kv_width, shared);
        v = heads_of(linear(b, x, "v", kv_width), 0, kv_width, shared);
    }
    const tuff_attention_options options = {.causal = mask != MASK_NONE && mask != MASK_LENGTHS,
                                            .window = mask == MASK_WINDOW ? WINDOW : 0,
                                            .bias = b->bias,
                                            .dropout = program_number(b->recipe, FIELD_DROPOUT)};
    tuff_tensor *mixed = tuff_attention(apply_rope(b, q), apply_rope(b, k), v, &options);
    const tuff_shape shape = tuff_tensor_shape(x);
    return linear(b, tuff_reshape(mixed, TUFF_SHAPE(shape.extent[0], shape.extent[1], stream)), "out", stream);
}

static tuff_tensor *transformer_mlp(builder *b, tuff_tensor *x)
{
    const int64_t hidden = program_size(b->recipe, FIELD_HIDDEN);
    tuff_tensor *y = linear(b, x, "up", hidden);
    y = program_choice(b->recipe, FIELD_ACTIVATION) == ACTIVATION_SWIGLU ? tuff_swiglu(linear(b, x, "gate", hidden), y)
                                                                         : activation(b, y);
    return linear(b, y, "down", last_extent(x));
}

static tuff_tensor *transformer_layer(builder *b, tuff_tensor *x)
{
    if (program_choice(b->recipe, FIELD_NORM_PLACE) != 0) {
        x = norm(b, tuff_add(x, dropout(b, attend(b, x))), "norm1");
        return norm(b, tuff_add(x, dropout(b, transformer_mlp(b, x))), "norm2");
    }
    x = tuff_add(x, dropout(b, attend(b, norm(b, x, "norm1"))));
    return tuff_add(x, dropout(b, transformer_mlp(b, norm(b, x, "norm2"))));
}

static tuff_tensor *layers(builder *b, tuff_tensor *x, tuff_tensor *(*layer)(builder *, tuff_tensor *))
{
    for (b->layer = 0; b->layer < program_size(b->recipe, FIELD_LAYERS); b->layer++) {
        tuff_tensor *const inputs[] = {x, b->bias};
        x = layer(b, x);
        if (program_choice(b->recipe, FIELD_RECOMPUTE) != 0)
            x = tuff_recompute(x, inputs, b->bias != NULL ? 2 : 1);
    }
    return x;
}

/* 0 where a query may see a key, else so far below every score that its probability becomes 0. */
static tuff_tensor *hidden_where_not(const builder *b, tuff_tensor *sees)
{
    return tuff_where(sees, tuff_constant(b->graph, TUFF_F32, 0), tuff_constant(b->graph, TUFF_F32, -1e9));
}

/* bool [B, T]: tokens within the length of their sequence. */
static tuff_tensor *within_lengths(builder *b)
{
    return tuff_less(tuff_iota(b->graph, TUFF_SHAPE(program_length(b->recipe)), 0), input(b, "lengths"));
}

static tuff_tensor *attention_bias(builder *b)
{
    const int64_t length = program_length(b->recipe), batch = b->to - b->from,
                  heads = program_size(b->recipe, FIELD_HEADS);
    tuff_tensor *bias = NULL;
    if (program_choice(b->recipe, FIELD_MASK) == MASK_LENGTHS)
        bias = hidden_where_not(b, tuff_reshape(within_lengths(b), TUFF_SHAPE(batch, 1, 1, length)));
    if (program_choice(b->recipe, FIELD_MASK) == MASK_SEGMENTS) {
        tuff_tensor *segments = input(b, "segments");
        bias = hidden_where_not(b, tuff_equal(tuff_reshape(segments, TUFF_SHAPE(batch, 1, length, 1)),
                                              tuff_reshape(segments, TUFF_SHAPE(batch, 1, 1, length))));
    }
    if (program_choice(b->recipe, FIELD_POSITIONS) == POSITIONS_BIAS) {
        const int64_t start[] = {0, 0, 0}, stop[] = {heads, length, length};
        tuff_tensor *table =
            tuff_slice(weight(b, "scores", TUFF_SHAPE(heads, TABLE_ROWS, TABLE_ROWS)), start, stop, NULL);
        bias = bias != NULL ? tuff_add(bias, table) : table;
    }
    return bias;
}

static tuff_tensor *embed(builder *b)
{
    const int64_t stream = program_size(b->recipe, FIELD_HEADS) * program_size(b->recipe, FIELD_WIDTH);
    const int64_t start[] = {0, 0}, stop[] = {program_length(b->recipe), stream};
    tuff_tensor *x = tuff_embedding(
        weight(b, "tokens.table", TUFF_SHAPE(program_size(b->recipe, FIELD_INPUTS), stream)), input(b, "tokens"));
    if (program_choice(b->recipe, FIELD_POSITIONS) == POSITIONS_LEARNED)
        x = tuff_add(x, tuff_slice(weight(b, "positions.table", TUFF_SHAPE(TABLE_ROWS, stream)), start, stop, NULL));
    return dropout(b, x);
}

/* Mean over the tokens within the length of their sequence. */
static tuff_tensor *mean_token(builder *b, tuff_tensor *x)
{
    const int axis = 1;
    if (program_choice(b->recipe, FIELD_MASK) != MASK_LENGTHS)
        return tuff_mean(x, &axis, 1, false);
    const tuff_shape shape = tuff_tensor_shape(x);
    tuff_tensor *counts =
        tuff_reshape(tuff_cast(within_lengths(b), TUFF_F32), TUFF_SHAPE(shape.extent[0], shape.extent[1], 1));
    return tuff_div(tuff_sum(tuff_mul(x, counts), &axis, 1, false), tuff_cast(input(b, "lengths"), TUFF_F32));
}

static tuff_tensor *last_token(builder *b, tuff_tensor *x)
{
    const tuff_shape shape = tuff_tensor_shape(x);
    tuff_tensor *before = tuff_mul(tuff_iota(b->graph, TUFF_SHAPE(shape.extent[0]), 0),
                                   tuff_constant(b->graph, TUFF_I32, (double)shape.extent[1]));
    tuff_tensor *last =
        tuff_sub(tuff_reshape(input(b, "lengths"), TUFF_SHAPE(shape.extent[0])), tuff_constant(b->graph, TUFF_I32, 1));
    tuff_tensor *rows = tuff_reshape(x, TUFF_SHAPE(shape.extent[0] * shape.extent[1], shape.extent[2]));
    return tuff_gather_rows(rows, tuff_add(before, last), 0);
}

static tuff_tensor *transformer(builder *b)
{
    const int transposed[] = {1, 0};
    b->bias = attention_bias(b);
    tuff_tensor *x = layers(b, embed(b), transformer_layer);
    const int64_t stream = last_extent(x);
    b->layer = (int)program_size(b->recipe, FIELD_LAYERS);
    if (program_choice(b->recipe, FIELD_NORM_PLACE) == 0)
        x = norm(b, x, "norm");
    const int readout = program_choice(b->recipe, FIELD_READOUT);
    x = readout == READOUT_MEAN ? mean_token(b, x) : readout == READOUT_LAST ? last_token(b, x) : x;
    if (program_choice(b->recipe, FIELD_TIED) == 0)
        return linear(b, x, "classes", program_classes(b->recipe));
    tuff_tensor *table = weight(b, "tokens.table", TUFF_SHAPE(program_classes(b->recipe), stream));
    return tuff_matmul(x, tuff_permute(table, transposed));
}

static tuff_tensor *convolution(builder *b)
{
    const int to_last[] = {0, 2, 3, 1}, points[] = {1, 2};
    tuff_tensor *x = layers(b, tuff_permute(input(b, "x"), to_last), convolution_layer);
    const tuff_shape shape = tuff_tensor_shape(x);
    b->layer = (int)program_size(b->recipe, FIELD_LAYERS);
    if (program_choice(b->recipe, FIELD_READOUT) == READOUT_MEAN)
        x = tuff_mean(x, points, 2, false);
    if (program_choice(b->recipe, FIELD_READOUT) == READOUT_LAST)
        x = tuff_reshape(x, TUFF_SHAPE(shape.extent[0], shape.extent[1] * shape.extent[2] * shape.extent[3]));
    return linear(b, x, "classes", program_classes(b->recipe));
}

/* One class per image: from the means of its channels, or from all points. */
static tuff_tensor *images(builder *b)
{
    const int points[] = {2, 3};
    tuff_tensor *x = layers(b, input(b, "x"), image_layer);
    const tuff_shape shape = tuff_tensor_shape(x);
    b->layer = (int)program_size(b->recipe, FIELD_LAYERS);
    x = program_choice(b->recipe, FIELD_READOUT) == READOUT_LAST
            ? tuff_reshape(x, TUFF_SHAPE(shape.extent[0], shape.extent[1] * shape.extent[2] * shape.extent[3]))
            : tuff_mean(x, points, 2, false);
    return linear(b, x, "classes", program_classes(b->recipe));
}

static tuff_tensor *mlp(builder *b)
{
    b->layer = -1;
    tuff_tensor *x = activation(b, linear(b, input(b, "x"), "first", program_size(b->recipe, FIELD_WIDTH)));
    x = layers(b, x, dense_layer);
    b->layer = (int)program_size(b->recipe, FIELD_LAYERS);
    return linear(b, x, "classes", program_classes(b->recipe));
}

static tuff_tensor *loss_of_part(builder *b)
{
    static tuff_tensor *(*const forms[])(builder *) = {
        [FORM_MLP] = mlp, [FORM_CONVOLUTION] = convolution, [FORM_TRANSFORMER] = transformer, [FORM_IMAGES] = images};
    tuff_tensor *y = forms[program_choice(b->recipe, FIELD_FORM)](b), *targets = input(b, "targets");
    const int64_t classes = program_classes(b->recipe);
    const int64_t count = tuff_shape_count(tuff_tensor_shape(y)) / classes;
    y = tuff_reshape(y, TUFF_SHAPE(count, classes));
    const int loss = program_choice(b->recipe, FIELD_LOSS);
    if (loss == LOSS_SQUARES)
        return tuff_mse(y, tuff_reshape(targets, TUFF_SHAPE(count, classes)));
    return tuff_cross_entropy(y, tuff_reshape(targets, TUFF_SHAPE(count)), -1, loss == LOSS_SMOOTHED ? 0.1 : 0);
}

/* The mean loss over the batch, part by part. */
static tuff_tensor *whole_loss(builder *b)
{
    const int64_t batch = program_size(b->recipe, FIELD_BATCH), wanted = program_size(b->recipe, FIELD_PARTS);
    const int64_t parts = wanted < batch ? wanted : batch;
    tuff_tensor *sum = NULL;
    for (int64_t i = 0; i < parts; i++) {
        b->from = batch * i / parts;
        b->to = batch * (i + 1) / parts;
        const double share = (double)(b->to - b->from) / (double)batch;
        tuff_tensor *loss = loss_of_part(b);
        if (parts > 1)
            loss = tuff_mul(loss, tuff_constant(b->graph, TUFF_F32, share));
        sum = sum == NULL ? loss : tuff_add(sum, loss);
    }
    const double scale = b->recipe->variant.scale;
    return scale == 0 ? sum : tuff_mul(sum, tuff_constant(b->graph, TUFF_F32, scale));
}

static tuff_status shapes_of_inputs(const program_recipe *recipe, builder *b)
{
    TRY(program_data_make(recipe, 0, &b->data));
    for (int i = 0; i < b->data.count; i++) {
        free(b->data.inputs[i].data);
        b->data.inputs[i].data = NULL;
    }
    return TUFF_OK;
}

static tuff_status list_parameters(const program_recipe *recipe, tuff_device *device, program_names *names)
{
    builder b = {.recipe = recipe, .graph = tuff_graph_create(device), .names = names};
    if (b.graph == NULL)
        return tuff_last_status();
    tuff_status status = shapes_of_inputs(recipe, &b);
    if (status == TUFF_OK) {
        (void)whole_loss(&b);
        status = tuff_graph_status(b.graph);
        if (status != TUFF_OK)
            (void)FAIL(status, "%s", tuff_graph_error(b.graph));
    }
    tuff_graph_destroy(b.graph);
    return status;
}

/* Fills all parameters, including biases and gains, with distinct values other than 0, large enough that every layer
   matters. */
static tuff_status fill_parameters(const program_recipe *recipe, tuff_parameters *parameters)
{
    for (int i = 0; i < parameters->count; i++) {
        const parameter *item = &parameters->items[i];
        const uint64_t key = random_key(recipe->seed, item->name);
        const double middle = strstr(item->name, "gain") != NULL ? 1 : 0;
        float *data = malloc((size_t)item->count * sizeof *data + 1);
        if (data == NULL)
            return FAIL(TUFF_E_OOM_HOST, "random program: out of memory for parameters");
        for (int64_t k = 0; k < item->count; k++)
            data[k] = (float)(middle + 0.5 * random_uniform(key, (uint64_t)k) - 0.25);
        const tuff_status status = tuff_array_write(item->array, data, (size_t)item->count * sizeof *data);
        free(data);
        TRY(status);
    }
    return TUFF_OK;
}

/* Whether a pattern, one of those used here, matches some names but not all. */
static bool is_useful_pattern(const program_names *names, const char *pattern)
{
    int found = 0;
    for (int i = 0; i < names->count; i++) {
        const char *name = names->names[i], *end = strrchr(name, '.');
        const bool is_vector = end != NULL && (strcmp(end, ".bias") == 0 || strcmp(end, ".gain") == 0);
        found += strcmp(pattern, PROGRAM_LAYER) == 0 ? strncmp(name, "0.", 2) == 0 : is_vector;
    }
    return found > 0 && found < names->count;
}

tuff_status program_build_parameters(const program_recipe *recipe, tuff_device *device, const char **patterns,
                                     tuff_parameters **out)
{
    program_names *names = calloc(1, sizeof *names);
    const char *used[PROGRAM_GROUPS];
    int count = 0;
    *out = NULL;
    if (names == NULL)
        return FAIL(TUFF_E_OOM_HOST, "random program: out of memory for names");
    tuff_status status = list_parameters(recipe, device, names);
    for (int i = 0; i < PROGRAM_GROUPS; i++) {
        if (patterns[i] != NULL && is_useful_pattern(names, patterns[i]))
            used[count++] = patterns[i];
        else
            patterns[i] = NULL;
    }
    if (status == TUFF_OK) {
        *out = tuff_parameters_create_grouped(device, names->specs, names->count, used, count);
        status = *out != NULL ? fill_parameters(recipe, *out) : tuff_last_status();
    }
    free(names);
    if (status != TUFF_OK) {
        tuff_parameters_destroy(*out);
        *out = NULL;
    }
    return status;
}

tuff_status program_build_loss(const program_recipe *recipe, tuff_graph *graph, tuff_parameters *parameters,
                               tuff_tensor **loss)
{
    builder b = {.recipe = recipe, .graph = graph, .parameters = parameters};
    TRY(shapes_of_inputs(recipe, &b));
    *loss = whole_loss(&b);
    return TUFF_OK;
}
