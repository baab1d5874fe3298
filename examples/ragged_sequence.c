/* Algorithm distillation (Laskin et al. 2022) by regions: from transitions of a learning agent, a transformer predicts
   what the agent does next. A sample consists of the previous region, if there is one, the current region so far, and
   the queried state. Lengths differ, so a batch is ragged.

   Shapes: B batch, K transitions of a region, N = 2K - 1 most transitions of a sample, S = 2K + 3 most tokens, D width,
   n heads, F inner width, L layers. Matrices are [out,in]: y = x·Wᵀ + b.

   The plan always uses S tokens, whatever the longest sequence of a batch: attention is causal, so the position that is
   read does not depend on the padding after it. The published warmup lags by one step: its first step has rate 0. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/example.h"
#include "common/layers.h"

enum { ACTIONS = 5, TYPES = 3, ROW = 2 + ACTIONS + 1 + 2 }; /* ROW: state, action, reward, next state */
enum { STAY = 4, EPISODE = 20 };
enum { TYPE_STEP = 0, TYPE_START = 1, TYPE_END = 2 }; /* of a token; as a target: action or end of region */

typedef struct ragged_config {
    example_settings settings;
    int64_t region, width, heads, inner, layers, positions, grid, history, histories;
    int64_t read_query; /* 1: read each sample at its query; 0: at the last position of the longest one, as published */
    double type_weight; /* weight of the loss of types */
} ragged_config;

#define INTEGER(member, name, meaning) EXAMPLE_INTEGER(ragged_config, member, name, meaning)
static const example_field fields[] = {
    INTEGER(region, "K", "transitions per region"),
    INTEGER(width, "D", "width"),
    INTEGER(heads, "n_heads", "heads"),
    INTEGER(inner, "F", "inner width"),
    INTEGER(layers, "L", "layers"),
    INTEGER(positions, "pos_rows", "position embeddings"),
    INTEGER(grid, "grid", "rows and columns of the room"),
    INTEGER(history, "history", "transitions per history"),
    INTEGER(histories, "histories", "histories to learn from"),
    INTEGER(read_query, "read_query", "1: read each sample at its query, 0: at the batch's last position"),
    EXAMPLE_REAL(ragged_config, type_weight, "type_loss_weight", "weight of the type loss"),
};

#define TRAINING(samples, most, rise)                                                                                 \
    .batch = (samples), .steps = (most), .warmup = (rise), .dropout = 0.1, .rate = 3e-4, .beta1 = 0.9, .beta2 = 0.99, \
    .epsilon = 1e-8, .weight_decay = 0.01, .clip_norm = 1
#define MODEL(K, L, pos_rows, count)                                                                         \
    .region = (K), .width = 64, .heads = 4, .inner = 256, .layers = (L), .positions = (pos_rows), .grid = 9, \
    .history = 1000, .histories = (count), .type_weight = 0.1
static const ragged_config small = {.settings = {TRAINING(64, 500, 20)}, MODEL(20, 2, 88, 365)};
static const ragged_config original = {.settings = {TRAINING(512, 100000, 1000)}, MODEL(80, 4, 328, 7300)};

static int64_t most_transitions(const ragged_config *c)
{
    return 2 * c->region - 1;
}

static int64_t most_tokens(const ragged_config *c)
{
    return 2 * c->region + 3;
}

static const char *check_config(const void *given)
{
    const ragged_config *c = given;
    if (c->width < 1 || c->heads < 1 || c->inner < 1 || c->layers < 1 || c->histories < 1)
        return "D, n_heads, F, L and histories must be at least 1";
    if (c->region < 1 || c->region > 4096)
        return "K must be 1 to 4096";
    if (c->width % c->heads != 0)
        return "D must be a multiple of n_heads";
    if (c->positions < most_tokens(c))
        return "pos_rows must be at least 2 K + 3, the longest sequence";
    if (c->grid < 2 || c->grid > 255)
        return "grid must be 2 to 255";
    if (c->history < c->region)
        return "history must be at least K, one whole region";
    if (c->history > INT32_MAX || c->histories > INT32_MAX)
        return "history and histories must be at most 2147483647";
    return NULL;
}

static void list_parameters(const void *given, example_parameters *list)
{
    const ragged_config *c = given;
    const int64_t D = c->width, F = c->inner;
    const double of_row = 1 / sqrt((double)ROW), of_width = 1 / sqrt((double)D), of_inner = 1 / sqrt((double)F);
    const example_parameter_spec layer_parameters[] = {
        {"in_proj.weight", TUFF_SHAPE(3 * D, D), EXAMPLE_UNIFORM, sqrt(6.0 / (double)(4 * D)), -1},
        {"in_proj.bias", TUFF_SHAPE(3 * D), EXAMPLE_CONSTANT, 0, -1},
        {"out_proj.weight", TUFF_SHAPE(D, D), EXAMPLE_UNIFORM, of_width, -1},
        {"out_proj.bias", TUFF_SHAPE(D), EXAMPLE_CONSTANT, 0, -1},
        {"W1", TUFF_SHAPE(F, D), EXAMPLE_UNIFORM, of_width, -1},
        {"b1", TUFF_SHAPE(F), EXAMPLE_UNIFORM, of_width, -1},
        {"W2", TUFF_SHAPE(D, F), EXAMPLE_UNIFORM, of_inner, -1},
        {"b2", TUFF_SHAPE(D), EXAMPLE_UNIFORM, of_inner, -1},
        {"ln1.gain", TUFF_SHAPE(D), EXAMPLE_CONSTANT, 1, -1},
        {"ln1.bias", TUFF_SHAPE(D), EXAMPLE_CONSTANT, 0, -1},
        {"ln2.gain", TUFF_SHAPE(D), EXAMPLE_CONSTANT, 1, -1},
        {"ln2.bias", TUFF_SHAPE(D), EXAMPLE_CONSTANT, 0, -1},
    };
    enum { LAYER_PARAMETERS = sizeof layer_parameters / sizeof *layer_parameters };
    int first[LAYER_PARAMETERS];
    example_add_parameter(list, TUFF_SHAPE(c->positions, D), EXAMPLE_NORMAL, 0.02, "pos");
    example_add_parameter(list, TUFF_SHAPE(TYPES, D), EXAMPLE_NORMAL, 1, "Ty");
    for (int i = 0; i < (int)c->layers; i++)
        for (int k = 0; k < LAYER_PARAMETERS; k++) /* all layers start as copies of the first */
            if (i == 0)
                first[k] = example_add_parameter(list, layer_parameters[k].shape, layer_parameters[k].kind,
                                                 layer_parameters[k].scale, "layers.0.%s", layer_parameters[k].name);
            else
                example_add_parameter_copy(list, first[k], "layers.%d.%s", i, layer_parameters[k].name);
    example_add_parameter(list, TUFF_SHAPE(D, ROW), EXAMPLE_UNIFORM, of_row, "Wc");
    example_add_parameter(list, TUFF_SHAPE(D), EXAMPLE_UNIFORM, of_row, "bc");
    example_add_parameter(list, TUFF_SHAPE(c->grid * c->grid, D), EXAMPLE_NORMAL, 1, "Eq");
    example_add_parameter(list, TUFF_SHAPE(D), EXAMPLE_NORMAL, 0.02, "m_start");
    example_add_parameter(list, TUFF_SHAPE(D), EXAMPLE_NORMAL, 0.02, "m_end");
    example_add_parameter(list, TUFF_SHAPE(ACTIONS, D), EXAMPLE_UNIFORM, of_width, "Wa");
    example_add_parameter(list, TUFF_SHAPE(ACTIONS), EXAMPLE_UNIFORM, of_width, "ba");
    example_add_parameter(list, TUFF_SHAPE(TYPES, D), EXAMPLE_UNIFORM, of_width, "Wt");
    example_add_parameter(list, TUFF_SHAPE(TYPES), EXAMPLE_UNIFORM, of_width, "bt");
}

/* In the order of list_inputs. Token s of a sample is row gather_index[s] of the table ctx [B·N] | qemb [B] | m_start |
   m_end | zeros, plus Ty[type_index[s]] unless that index is -1. */
enum {
    STATES,
    PAST_ACTIONS,
    REWARDS,
    NEXT_STATES,
    QUERY_STATES,
    LENGTH,
    GATHER_INDEX,
    TYPE_INDEX,
    TARGET_TYPE,
    TARGET_ACTION
};
static void list_inputs(const void *given, example_purpose purpose, example_inputs *list)
{
    const ragged_config *c = given;
    const int64_t N = most_transitions(c), S = most_tokens(c);
    (void)purpose;
    example_add_input(list, "states", TUFF_I32, TUFF_SHAPE(N, 2));
    example_add_input(list, "actions", TUFF_I32, TUFF_SHAPE(N));
    example_add_input(list, "rewards", TUFF_F32, TUFF_SHAPE(N));
    example_add_input(list, "next_states", TUFF_I32, TUFF_SHAPE(N, 2));
    example_add_input(list, "query_states", TUFF_I32, TUFF_SHAPE(2));
    example_add_input(list, "length", TUFF_I32, TUFF_SCALAR);
    example_add_input(list, "gather_index", TUFF_I32, TUFF_SHAPE(S));
    example_add_input(list, "type_index", TUFF_I32, TUFF_SHAPE(S));
    example_add_input(list, "target_type", TUFF_I32, TUFF_SCALAR);
    example_add_input(list, "target_action", TUFF_I32, TUFF_SCALAR);
}

/* x·Wᵀ + b */
static tuff_tensor *linear(tuff_tensor *x, tuff_tensor *weight, tuff_tensor *bias)
{
    return tuff_linear(x, example_transpose(weight), bias);
}

/* The transitions as rows of 10 numbers, [B,N,10]. */
static tuff_tensor *context_rows(example_build *b)
{
    const tuff_shape column = TUFF_SHAPE(b->batch, most_transitions(b->config), 1);
    tuff_tensor *parts[] = {
        tuff_cast(example_input(b, "states"), TUFF_F32), tuff_one_hot(example_input(b, "actions"), ACTIONS),
        tuff_reshape(example_input(b, "rewards"), column), tuff_cast(example_input(b, "next_states"), TUFF_F32)};
    return tuff_concat(parts, 4, 2);
}

/* Cell of the queried state, grid · row + column, [B]. */
static tuff_tensor *query_cells(example_build *b)
{
    const ragged_config *c = b->config;
    tuff_tensor *state = example_input(b, "query_states");
    tuff_tensor *cell = tuff_add(tuff_mul(example_slice(state, 1, 0, 1), example_integer_constant(b, c->grid)),
                                 example_slice(state, 1, 1, 1));
    return tuff_reshape(cell, TUFF_SHAPE(b->batch));
}

/* Assembles the tokens as published: looks up vectors in the table, then for each token of each sample slices out one
   index, looks it up in Ty and adds the result. Tokens are concatenated to sequences, and sequences to the batch. */
static tuff_tensor *tokens_one_by_one(example_build *b, tuff_tensor *context, tuff_tensor *queries)
{
    const ragged_config *c = b->config;
    const int64_t B = b->batch, N = most_transitions(c), S = most_tokens(c), D = c->width;
    const int64_t front[] = {0, 0}, one_row[] = {1, 0};
    tuff_tensor *table[] = {tuff_reshape(context, TUFF_SHAPE(B * N, D)), queries,
                            tuff_reshape(example_parameter(b, "m_start"), TUFF_SHAPE(1, D)),
                            tuff_pad(tuff_reshape(example_parameter(b, "m_end"), TUFF_SHAPE(1, D)), front, one_row, 0)};
    tuff_tensor *vectors = tuff_embedding(tuff_concat(table, 4, 0), example_input(b, "gather_index"));
    tuff_tensor *types = tuff_pad(example_parameter(b, "Ty"), front, one_row, 0),
                *index = example_input(b, "type_index");
    index = tuff_where(tuff_less(index, example_integer_constant(b, 0)), example_integer_constant(b, TYPES), index);
    tuff_tensor **tokens = calloc((size_t)(S + B), sizeof *tokens), **sequences = tokens + S;
    if (!tokens)
        return vectors;
    for (int64_t sample = 0; sample < B; sample++) {
        tuff_tensor *own = tuff_reshape(example_slice(vectors, 0, sample, 1), TUFF_SHAPE(S, D));
        tuff_tensor *own_types = tuff_reshape(example_slice(index, 0, sample, 1), TUFF_SHAPE(S));
        for (int64_t s = 0; s < S; s++)
            tokens[s] = tuff_add(example_slice(own, 0, s, 1), tuff_embedding(types, example_slice(own_types, 0, s, 1)));
        sequences[sample] = tuff_reshape(tuff_concat(tokens, (int)S, 0), TUFF_SHAPE(1, S, D));
    }
    tuff_tensor *joined = tuff_concat(sequences, (int)B, 0);
    free(tokens);
    return joined;
}

/* Computes all tokens with one product. A token is linear in its features: the transition and a 1 for bc, the queried
   cell, the kind of marker, and the type. So the gradients of Wc, bc, Eq, the markers and Ty are one product too, of
   the features and the gradient of the tokens. */
static tuff_tensor *tokens_at_once(example_build *b)
{
    const ragged_config *c = b->config;
    const int64_t B = b->batch, N = most_transitions(c), S = most_tokens(c), D = c->width, cells = c->grid * c->grid;
    tuff_tensor *index = example_input(b, "gather_index"), *zero = tuff_constant(b->graph, TUFF_F32, 0);
    tuff_tensor *offset =
        tuff_sub(index, example_integer_constant(b, B * N)); /* queries from 0 on, markers from B on */
    tuff_tensor *is_context = tuff_less(offset, example_integer_constant(b, 0));
    tuff_tensor *is_query =
        tuff_and(tuff_less(example_integer_constant(b, -1), offset), tuff_less(offset, example_integer_constant(b, B)));
    tuff_tensor *rows = tuff_embedding(tuff_reshape(context_rows(b), TUFF_SHAPE(B * N, ROW)), index);
    tuff_tensor *flag = tuff_reshape(is_context, TUFF_SHAPE(B, S, 1));
    tuff_tensor *cell =
        tuff_where(is_query, tuff_reshape(query_cells(b), TUFF_SHAPE(B, 1)), example_integer_constant(b, -1));
    tuff_tensor *features[] = {tuff_where(flag, rows, zero), tuff_cast(flag, TUFF_F32), tuff_one_hot(cell, cells),
                               tuff_one_hot(tuff_sub(offset, example_integer_constant(b, B)), 2),
                               tuff_one_hot(example_input(b, "type_index"), TYPES)};
    tuff_tensor *table[] = {example_transpose(example_parameter(b, "Wc")),
                            tuff_reshape(example_parameter(b, "bc"), TUFF_SHAPE(1, D)),
                            example_parameter(b, "Eq"),
                            tuff_reshape(example_parameter(b, "m_start"), TUFF_SHAPE(1, D)),
                            tuff_reshape(example_parameter(b, "m_end"), TUFF_SHAPE(1, D)),
                            example_parameter(b, "Ty")};
    return tuff_matmul(tuff_concat(features, 5, 2), tuff_concat(table, 6, 0));
}

/* Takes element at[b] along an axis of x [B,...], which keeps that axis with extent 1. */
static tuff_tensor *element_at(tuff_tensor *x, tuff_tensor *at, int axis)
{
    tuff_shape shape = tuff_tensor_shape(x);
    for (int i = 1; i < shape.rank; i++)
        shape.extent[i] = 1;
    return tuff_gather(x, tuff_reshape(at, shape), axis);
}

/* Applies dropout to x, whose positions are on `axis`. Only one position of the last layer is read, so the optimized
   form draws a mask for that one. The published form computes all positions; to match, it uses the same mask for
   each. */
static tuff_tensor *drop(example_build *b, tuff_tensor *x, int axis, int layer)
{
    const ragged_config *c = b->config;
    tuff_shape one = tuff_tensor_shape(x);
    if (b->optimized || layer < c->layers - 1 || example_dropout_probability(b) <= 0)
        return example_dropout(b, x);
    one.extent[axis] = 1;
    return tuff_mul(x, example_dropout(b, tuff_expand(tuff_constant(b->graph, TUFF_F32, 1), one)));
}

/* Attention with scores and probabilities in memory: for the published form, and for single positions. q [B,Q,n,Dh]
   holds all positions, or only position at[b]; k, v are [B,S,n,Dh]. */
static tuff_tensor *attention_in_steps(example_build *b, tuff_tensor *const qkv[3], tuff_tensor *at, int layer)
{
    static const int heads_first[] = {0, 2, 1, 3}, keys[] = {0, 2, 3, 1};
    const tuff_shape shape = tuff_tensor_shape(qkv[1]);
    const int64_t S = shape.extent[1], Dh = shape.extent[3];
    tuff_tensor *scale = tuff_constant(b->graph, TUFF_F32, 1 / sqrt((double)Dh));
    tuff_tensor *scores = tuff_matmul(tuff_permute(qkv[0], heads_first), tuff_permute(qkv[1], keys));
    tuff_tensor *query =
        at ? tuff_reshape(at, TUFF_SHAPE(b->batch, 1, 1, 1)) : tuff_iota(b->graph, TUFF_SHAPE(S, S), 0);
    tuff_tensor *key = tuff_iota(b->graph, TUFF_SHAPE(at ? 1 : S, S), 1);
    tuff_tensor *hidden = tuff_constant(b->graph, TUFF_F32, -INFINITY);
    tuff_tensor *seen = tuff_where(tuff_less(query, key), hidden, tuff_mul(scores, scale));
    tuff_tensor *probabilities = drop(b, tuff_softmax(seen, 3), 2, layer);
    return tuff_permute(tuff_matmul(probabilities, tuff_permute(qkv[2], heads_first)), heads_first);
}

/* MHA(x) at all positions (at is NULL, rows is x), or only at position at[b], whose rows are `rows`. */
static tuff_tensor *attend(example_build *b, tuff_tensor *x, tuff_tensor *rows, tuff_tensor *at, int layer)
{
    const ragged_config *c = b->config;
    const int64_t D = c->width, n = c->heads, Q = tuff_tensor_shape(rows).extent[1], S = most_tokens(c);
    tuff_tensor *weight = example_parameter(b, "layers.%d.in_proj.weight", layer);
    tuff_tensor *bias = example_parameter(b, "layers.%d.in_proj.bias", layer), *qkv[3], *out;
    if (at) {
        tuff_tensor *q = linear(rows, example_slice(weight, 0, 0, D), example_slice(bias, 0, 0, D));
        tuff_tensor *kv = linear(x, example_slice(weight, 0, D, 2 * D), example_slice(bias, 0, D, 2 * D));
        qkv[0] = q, qkv[1] = example_slice(kv, 2, 0, D), qkv[2] = example_slice(kv, 2, D, D);
    } else {
        tuff_tensor *all = linear(x, weight, bias);
        for (int i = 0; i < 3; i++)
            qkv[i] = example_slice(all, 2, i * D, D);
    }
    for (int i = 0; i < 3; i++)
        qkv[i] = tuff_reshape(qkv[i], TUFF_SHAPE(b->batch, i == 0 ? Q : S, n, D / n));
    if (b->optimized && !at)
        out = tuff_attention(qkv[0], qkv[1], qkv[2],
                             &(tuff_attention_options){.causal = true, .dropout = example_dropout_probability(b)});
    else
        out = attention_in_steps(b, qkv, at, layer);
    return example_linear(b, tuff_reshape(out, TUFF_SHAPE(b->batch, Q, D)), "layers.%d.out_proj", layer);
}

/* One layer: x = LN1(x + drop(MHA(x))), then LN2(x + drop(W2·drop(gelu(W1·x + b1)) + b2)). Returns all positions
   [B,S,D], or only position at[b] if at is given, [B,1,D]. */
static tuff_tensor *encode(example_build *b, tuff_tensor *x, tuff_tensor *at, int layer)
{
    tuff_tensor *rows = at ? element_at(x, at, 1) : x;
    rows = example_norm(b, tuff_add(rows, drop(b, attend(b, x, rows, at, layer), 1, layer)), "layers.%d.ln1", layer);
    tuff_tensor *inner =
        linear(rows, example_parameter(b, "layers.%d.W1", layer), example_parameter(b, "layers.%d.b1", layer));
    inner = drop(b, tuff_gelu(inner), 1, layer);
    tuff_tensor *outer =
        linear(inner, example_parameter(b, "layers.%d.W2", layer), example_parameter(b, "layers.%d.b2", layer));
    return example_norm(b, tuff_add(rows, drop(b, outer, 1, layer)), "layers.%d.ln2", layer);
}

/* Position at which each sample is read, [B]. */
static tuff_tensor *read_positions(example_build *b)
{
    static const int samples[] = {0};
    const ragged_config *c = b->config;
    tuff_tensor *length = example_input(b, "length");
    if (!c->read_query)
        length = tuff_expand(tuff_reduce_max(length, samples, 1, true), TUFF_SHAPE(b->batch));
    return tuff_sub(length, example_integer_constant(b, 1));
}

/* Mean cross-entropy of the samples that have a target, and as a metric their accuracy; 0 if no sample has one. A
   target of -1 means none. */
static tuff_tensor *cross_entropy(example_build *b, tuff_tensor *logits, const char *target, const char *name)
{
    static const int samples[] = {0}, both[] = {0, 1};
    tuff_tensor *wanted = example_input(b, target), *got = tuff_argmax(logits, 1, false);
    tuff_tensor *chosen = tuff_one_hot(wanted, tuff_tensor_shape(logits).extent[1]);
    tuff_tensor *count = tuff_max(tuff_sum(chosen, both, 2, false), tuff_constant(b->graph, TUFF_F32, 1));
    tuff_tensor *correct = tuff_sum(tuff_cast(tuff_equal(got, wanted), TUFF_F32), samples, 1, false);
    example_named_output(b, logits, "logits_%s", name);
    example_named_output(b, got, "pred_%s", name);
    example_add_metric(b, name, example_named_output(b, tuff_div(correct, count), "acc_%s", name));
    tuff_tensor *sum = tuff_sum(tuff_mul(chosen, tuff_log_softmax(logits, 1)), both, 2, false);
    return example_named_output(b, tuff_div(tuff_neg(sum), count), "loss_%s", name);
}

static tuff_tensor *build_tokens(example_build *b)
{
    if (b->optimized && b->purpose != EXAMPLE_CHECK)
        return tokens_at_once(b);
    tuff_tensor *context = linear(context_rows(b), example_parameter(b, "Wc"), example_parameter(b, "bc"));
    example_named_output(b, context, "ctx");
    tuff_tensor *queries = example_named_output(b, tuff_embedding(example_parameter(b, "Eq"), query_cells(b)), "qemb");
    return example_named_output(b, b->optimized ? tokens_at_once(b) : tokens_one_by_one(b, context, queries), "tokens");
}

static tuff_tensor *build(example_build *b)
{
    const ragged_config *c = b->config;
    const int last = (int)c->layers - 1;
    tuff_tensor *pos = example_slice(example_parameter(b, "pos"), 0, 0, most_tokens(c)), *at = read_positions(b);
    tuff_tensor *x = example_named_output(b, tuff_add(build_tokens(b), pos), "x0");
    for (int i = 0; i < last; i++)
        x = example_named_output(b, encode(b, x, NULL, i), "layer%d", i);
    /* Only one position of the last layer is read. The optimized form computes only that one, but needs the keys and
       values of all. A check without dropout compares the other positions too. */
    const bool whole_last = !b->optimized || (b->purpose == EXAMPLE_CHECK && example_dropout_probability(b) <= 0);
    tuff_tensor *y = whole_last ? example_named_output(b, encode(b, x, NULL, last), "layer%d", last) : NULL;
    tuff_tensor *z = b->optimized ? encode(b, x, at, last) : element_at(y, at, 1);
    z = example_named_output(b, tuff_reshape(z, TUFF_SHAPE(b->batch, c->width)), "z");
    tuff_tensor *actions = linear(z, example_parameter(b, "Wa"), example_parameter(b, "ba"));
    tuff_tensor *types = linear(z, example_parameter(b, "Wt"), example_parameter(b, "bt"));
    tuff_tensor *weight = tuff_constant(b->graph, TUFF_F32, c->type_weight);
    tuff_tensor *action_loss = cross_entropy(b, actions, "target_action", "action");
    return tuff_add(action_loss, tuff_mul(weight, cross_entropy(b, types, "target_type", "type")));
}

/* Histories of learning agents, each with one goal. The fraction of moves towards the goal grows along a history. */
typedef struct transition {
    uint8_t row, column, action, reward, next_row, next_column;
} transition;
typedef struct histories {
    int64_t training, count, length;
    transition *steps; /* [count, length] */
} histories;

static uint8_t move_towards(const transition *at, int64_t goal_row, int64_t goal_column)
{
    if (at->row != goal_row)
        return at->row < goal_row ? 0 : 1;
    return at->column < goal_column ? 2 : at->column > goal_column ? 3 : STAY;
}

/* Returns a coordinate after an action that adds or subtracts 1, kept within the room. */
static uint8_t move(uint8_t from, bool up, bool down, int64_t grid)
{
    return (uint8_t)(up && from + 1 < grid ? from + 1 : down && from > 0 ? from - 1 : from);
}

static void generate_history(const ragged_config *c, int64_t goal, example_random *random, transition *steps)
{
    const uint8_t middle = (uint8_t)(c->grid / 2);
    uint8_t row = middle, column = middle;
    for (int64_t t = 0; t < c->history; t++) {
        transition *at = &steps[t];
        *at = (transition){.row = row, .column = column};
        const bool knows = example_uniform(random, 0, 1) < (double)t / (double)c->history;
        at->action =
            knows ? move_towards(at, goal / c->grid, goal % c->grid) : (uint8_t)example_integer(random, ACTIONS);
        row = move(row, at->action == 0, at->action == 1, c->grid);
        column = move(column, at->action == 2, at->action == 3, c->grid);
        at->reward = row * c->grid + column == goal;
        if (t % EPISODE == EPISODE - 1)
            row = column = middle;
        at->next_row = row, at->next_column = column;
    }
}

static void close_histories(void *data)
{
    histories *self = data;
    if (self)
        free(self->steps);
    free(self);
}

/* Training histories use nine tenths of the goals; the held-out histories after them use the others. */
static void *open_histories(tuff_device *device, const void *config, uint64_t seed)
{
    const ragged_config *c = config;
    const int64_t goals = c->grid * c->grid, known = goals - (goals + 9) / 10, unknown = goals - known;
    histories *made = calloc(1, sizeof *made);
    (void)device;
    if (!made)
        return NULL;
    *made = (histories){.training = c->histories, .count = c->histories + unknown, .length = c->history};
    made->steps = calloc((size_t)(made->count * made->length), sizeof *made->steps);
    for (int64_t i = 0; i < made->count && made->steps; i++) {
        const int64_t place = i < made->training ? i % known : known + (i - made->training) % unknown;
        example_random random = example_random_stream(seed, ((uint64_t)1 << 40) + (uint64_t)i);
        generate_history(c, tuff_shuffled_index(seed, 0, place, goals), &random, made->steps + i * made->length);
    }
    if (made->steps)
        return made;
    close_histories(made);
    return NULL;
}

/* A sample: `previous` transitions of the previous region, then `current` of the current one, then the queried
   state. */
typedef struct ragged_sample {
    const transition *steps;
    int64_t previous, current;
} ragged_sample;

/* Picks from all samples of all histories. Each training epoch has its own order. */
static ragged_sample sample_at(const example_batch *batch, int64_t index)
{
    const ragged_config *c = batch->config;
    const histories *data = batch->data;
    const int64_t K = c->region, regions = data->length / K;
    const bool held_out = batch->number < 0;
    const int64_t all = (held_out ? data->count - data->training : data->training) * regions * K;
    const int64_t place = (held_out ? -1 - batch->number : batch->number) * batch->count + index;
    const int64_t chosen = tuff_shuffled_index(batch->seed + held_out, held_out ? 0 : place / all, place % all, all);
    const int64_t history = chosen / (regions * K) + (held_out ? data->training : 0);
    const int64_t region = chosen / K % regions, before = region > 0 ? K : 0;
    return (ragged_sample){data->steps + history * data->length + region * K - before, before, chosen % K};
}

/* For checks: a sample of random length, from steps that may not be consecutive. With `empty` it has no transitions. */
static ragged_sample random_sample(const example_batch *batch, bool empty, example_random *random)
{
    const ragged_config *c = batch->config;
    const histories *data = batch->data;
    const int64_t K = c->region, from = example_integer(random, data->count * data->length - 2 * K + 1);
    const int64_t before = K * example_integer(random, 2), now = example_integer(random, K);
    return (ragged_sample){data->steps + from, empty ? 0 : before, empty ? 0 : now};
}

/* Sets index and type of each token of sample i (see list_inputs) and returns the number of tokens. */
static int32_t place_tokens(const ragged_config *c, const example_batch *batch, ragged_sample sample, int64_t i)
{
    const int64_t S = most_tokens(c), context = i * most_transitions(c), queries = batch->count * most_transitions(c);
    const int32_t query = (int32_t)(queries + i), start = (int32_t)(queries + batch->count), end = start + 1;
    int32_t *index = (int32_t *)batch->inputs[GATHER_INDEX] + i * S,
            *type = (int32_t *)batch->inputs[TYPE_INDEX] + i * S;
    int32_t length = 0;
#define PUT(row, kind) (index[length] = (int32_t)(row), type[length++] = (kind))
    if (sample.previous > 0) {
        PUT(start, TYPE_START);
        for (int64_t t = 0; t < sample.previous; t++)
            PUT(context + t, TYPE_STEP);
        PUT(end, TYPE_END);
    }
    PUT(start, TYPE_START);
    for (int64_t t = sample.previous; t < sample.previous + sample.current; t++)
        PUT(context + t, TYPE_STEP);
    PUT(query, TYPE_STEP);
#undef PUT
    for (int64_t s = length; s < S; s++)
        index[s] = end + 1, type[s] = -1;
    return length;
}

static void fill_sample(const example_batch *batch, ragged_sample sample, int64_t i)
{
    const ragged_config *c = batch->config;
    const int64_t N = most_transitions(c), count = sample.previous + sample.current;
    int32_t *state = (int32_t *)batch->inputs[STATES] + i * N * 2,
            *action = (int32_t *)batch->inputs[PAST_ACTIONS] + i * N;
    int32_t *next = (int32_t *)batch->inputs[NEXT_STATES] + i * N * 2, *query = batch->inputs[QUERY_STATES];
    float *reward = (float *)batch->inputs[REWARDS] + i * N;
    for (int64_t t = 0; t < N; t++) {
        const transition at = t < count ? sample.steps[t] : (transition){0};
        state[2 * t] = at.row;
        state[2 * t + 1] = at.column;
        action[t] = at.action;
        reward[t] = at.reward;
        next[2 * t] = at.next_row;
        next[2 * t + 1] = at.next_column;
    }
    const transition query_state = sample.steps[count];
    const bool is_end = sample.current == c->region - 1;
    query[2 * i] = query_state.row;
    query[2 * i + 1] = query_state.column;
    ((int32_t *)batch->inputs[LENGTH])[i] = place_tokens(c, batch, sample, i);
    ((int32_t *)batch->inputs[TARGET_TYPE])[i] = is_end ? TYPE_END : TYPE_STEP;
    ((int32_t *)batch->inputs[TARGET_ACTION])[i] = is_end ? -1 : query_state.action;
}

static void fill(const example_batch *batch)
{
    example_random random = example_random_stream(batch->seed, 1 + (uint64_t)batch->number);
    const bool is_check = batch->purpose == EXAMPLE_CHECK, empty = is_check && example_integer(&random, 4) == 0;
    for (int64_t i = 0; i < batch->count; i++)
        fill_sample(batch, is_check ? random_sample(batch, empty, &random) : sample_at(batch, i), i);
}

/* Rejects batches whose lengths or token indices are out of range. */
static const char *check_batch(const example_batch *batch)
{
    const ragged_config *c = batch->config;
    const int64_t S = most_tokens(c), rows = batch->count * (most_transitions(c) + 1) + 3;
    const int32_t *length = batch->inputs[LENGTH], *index = batch->inputs[GATHER_INDEX],
                  *type = batch->inputs[TYPE_INDEX];
    for (int64_t i = 0; i < batch->count; i++)
        if (length[i] < 2 || length[i] > S)
            return "sequence empty or too long: expected 2 to 2 K + 3 tokens";
    for (int64_t i = 0; i < batch->count * S; i++)
        if (index[i] < 0 || index[i] >= rows || type[i] < -1 || type[i] >= TYPES)
            return "token index out of range, or unknown token type";
    return NULL;
}

static void draw_config(void *config, example_random *random)
{
    ragged_config *c = config;
    c->settings.batch = 1 + example_integer(random, 5);
    c->settings.dropout = example_integer(random, 2) ? 0.1 : 0;
    c->region = example_random_extent(random, 9);
    c->heads = 1 + example_integer(random, 4);
    c->width = c->heads * example_random_extent(random, 17);
    c->inner = example_random_extent(random, 65);
    c->layers = 1 + example_integer(random, 3);
    c->positions = most_tokens(c) + example_integer(random, 3);
    c->grid = 2 + example_integer(random, 9);
    c->history = c->region * (1 + example_integer(random, 3));
    c->histories = 1 + example_integer(random, 3);
    c->read_query = example_integer(random, 2);
}

const example ragged_sequence_example = {
    .name = "ragged_sequence",
    .summary = "a transformer over ragged contexts that imitates learning agents",
    .item = "samples",
    .config_size = sizeof(ragged_config),
    .fields = fields,
    .field_count = sizeof fields / sizeof *fields,
    .small = &small,
    .original = &original,
    .baseline_reads_loss = true,
    .check_config = check_config,
    .check_batch = check_batch,
    .list_parameters = list_parameters,
    .list_inputs = list_inputs,
    .build = build,
    .fill = fill,
    .draw_config = draw_config,
    .open = open_histories,
    .close = close_histories,
};
