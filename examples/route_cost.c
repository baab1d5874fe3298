/* Vehicle routing by REINFORCE: a graph transformer chooses one customer after the other, and its log-probabilities are
   weighted by how much shorter the tour is than that of a frozen copy which decodes greedily. Encoder, every step of
   decoding, sampling, cost, baseline and loss are one recorded step: the host reads nothing.

   Shapes: B batch, N customers, n = N + 1 nodes of which 0 is the depot, H width, h heads, L layers, T decoding steps.
   Weights W are [out,in]. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/example.h"

enum { BINS = 50, MAX_LAYERS = 12, MAX_STEPS = 256 };

typedef struct route_config {
    example_settings settings;
    int64_t customers, capacity, width, heads, layers, factor;
    int64_t decode_steps, greedy_decode_steps; /* 0: 2N, which always suffices */
    int64_t rollout;                           /* the baseline is a greedy rollout; else there is none */
} route_config;

#define WHOLE(member, name, meaning) EXAMPLE_WHOLE(route_config, member, name, meaning)
static const example_field fields[] = {
    WHOLE(customers, "N", "customers"),
    WHOLE(capacity, "Q", "what a vehicle carries; demands are 1 to 10"),
    WHOLE(width, "H", "width"),
    WHOLE(heads, "h", "heads"),
    WHOLE(layers, "L", "layers of the encoder; the first two are layers of the decoder as well"),
    WHOLE(factor, "f", "inner width of a layer in units of H"),
    WHOLE(decode_steps, "decode_steps", "steps of decoding, 0: 2N, which always suffices"),
    WHOLE(greedy_decode_steps, "greedy_decode_steps", "the same of the greedy rollout"),
    WHOLE(rollout, "rollout", "1: the baseline is a greedy rollout of a frozen copy, 0: there is none"),
};

#define OPTIMIZER                                                                                      \
    .rate = 1e-4, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 1e-4, .clip_norm = 1, \
    .final_rate = 0.01, .epoch_steps = 25, .dropout = 0.1
static const route_config small = {.settings = {.batch = 16, .steps = 500, OPTIMIZER},
                                   .customers = 10,
                                   .capacity = 30,
                                   .width = 64,
                                   .heads = 4,
                                   .layers = 2,
                                   .factor = 2,
                                   .rollout = 1};
static const route_config original = {.settings = {.batch = 128, .steps = 275, OPTIMIZER},
                                      .customers = 10,
                                      .capacity = 20,
                                      .width = 128,
                                      .heads = 4,
                                      .layers = 3,
                                      .factor = 2,
                                      .rollout = 1};

static const int largest_demand = 10;
static const double first_temperature = 2.5;

static int64_t steps_of(const route_config *c, bool greedy)
{
    const int64_t set = greedy ? c->greedy_decode_steps : c->decode_steps;
    return set > 0 ? set : 2 * c->customers;
}

static const char *wrong(const void *given)
{
    const route_config *c = given;
    if (c->customers < 1 || c->heads < 1 || c->factor < 1 || c->layers < 1 || c->layers > MAX_LAYERS)
        return "N, h and f must be at least 1, and L 1 to 12";
    if (c->width < 4 || c->width % 4 != 0 || c->width % c->heads != 0)
        return "H must be a multiple of 4 and of h";
    if (c->capacity < largest_demand)
        return "no vehicle can serve a customer whose demand is 10: Q must be at least 10";
    if (c->decode_steps < 0 || c->greedy_decode_steps < 0 || steps_of(c, false) > MAX_STEPS ||
        steps_of(c, true) > MAX_STEPS)
        return "decode_steps (2N where 0) must be at most 256";
    if (c->settings.batch < 2)
        return "B must be at least 2: advantages are measured by their standard deviation over the batch";
    return NULL;
}

static void add_linear(example_parameters *list, const char *name, int64_t in, int64_t out)
{
    example_add(list, TUFF_SHAPE(out, in), EXAMPLE_UNIFORM, sqrt(6.0 / (double)(in + out)), "%s.weight", name);
    example_add(list, TUFF_SHAPE(out), EXAMPLE_CONSTANT, 0, "%s.bias", name);
}

static void add_norm(example_parameters *list, const char *name, int64_t width)
{
    example_add(list, TUFF_SHAPE(width), EXAMPLE_CONSTANT, 1, "%s.gain", name);
    example_add(list, TUFF_SHAPE(width), EXAMPLE_CONSTANT, 0, "%s.bias", name);
}

static void add_layer(const route_config *c, int layer, example_parameters *list)
{
    static const char *const square[] = {"q", "k", "v", "out"};
    const int64_t H = c->width;
    char name[40];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "layers.%d.%s", layer, square[i]);
        add_linear(list, name, H, H);
    }
    for (int i = 1; i <= 2; i++) {
        snprintf(name, sizeof name, "layers.%d.ln%d", layer, i);
        add_norm(list, name, H);
        snprintf(name, sizeof name, "layers.%d.ff%d", layer, i);
        add_linear(list, name, i == 1 ? H : c->factor * H, i == 1 ? 2 * c->factor * H : H);
    }
    example_add(list, TUFF_SHAPE(BINS, c->heads), EXAMPLE_NORMAL, 0.02, "layers.%d.table", layer);
    example_add(list, TUFF_SHAPE(c->heads), EXAMPLE_CONSTANT, 0, "layers.%d.head_bias", layer);
}

static void list_parameters(const void *given, example_parameters *list)
{
    const route_config *c = given;
    const int64_t H = c->width;
    const struct {
        const char *name;
        int64_t in, out;
    } linears[] = {{"node.lin", 3, H},
                   {"demand.lin1", 1, H / 4},
                   {"demand.lin2", H / 4, H / 4},
                   {"feature", 3 * H / 2, H},
                   {"coord.lin1", 2, H / 2},
                   {"coord.lin2", H / 2, H / 2},
                   {"combine", 3 * H / 2, H},
                   {"state.current", H, H},
                   {"state.visited1", 1, H / 4},
                   {"state.visited2", H / 4, H / 2},
                   {"state.capacity1", 1, H / 4},
                   {"state.capacity2", H / 4, H / 2},
                   {"state.lin1", 2 * H, H},
                   {"state.lin2", H, H},
                   {"update.gate1", 2 * H, H},
                   {"update.gate2", H, H},
                   {"update.delta1", 2 * H, H},
                   {"update.delta2", H, H},
                   {"pointer.q", H, H},
                   {"pointer.k", H, H},
                   {"pointer.v", H, H},
                   {"pointer.p1", H, H / 2},
                   {"pointer.p2", H / 2, c->heads}};
    for (size_t i = 0; i < sizeof linears / sizeof *linears; i++)
        add_linear(list, linears[i].name, linears[i].in, linears[i].out);
    for (int layer = 0; layer < c->layers; layer++)
        add_layer(c, layer, list);
    add_norm(list, "node.ln", H);
    add_norm(list, "state.ln", H);
    add_norm(list, "update.ln", H);
    example_add(list, TUFF_SHAPE(H / 4), EXAMPLE_NORMAL, 1, "depot");
    example_add(list, TUFF_SHAPE(c->heads), EXAMPLE_CONSTANT, 1, "pointer.tau");
}

enum { TEMPERATURE = 3, ENTROPY_COEFFICIENT = 4 };

static void list_inputs(const void *given, example_purpose purpose, example_inputs *list)
{
    const route_config *c = given;
    const int64_t n = c->customers + 1;
    example_add_input(list, "coords", TUFF_F32, TUFF_SHAPE(n, 2));
    example_add_input(list, "demand", TUFF_I32, TUFF_SHAPE(n));
    example_add_input(list, "capacity", TUFF_I32, TUFF_SCALAR);
    example_add_fixed(list, "temperature", TUFF_F32, TUFF_SCALAR);
    example_add_fixed(list, "entropy_coef", TUFF_F32, TUFF_SCALAR);
    if (purpose != EXAMPLE_CHECK)
        return;
    example_add_input(list, "actions", TUFF_I32, TUFF_SHAPE(steps_of(c, false)));
    if (c->rollout)
        example_add_input(list, "greedy_actions", TUFF_I32, TUFF_SHAPE(steps_of(c, true)));
}

/* A policy: a set of weights and what all of its decoding steps share. */
typedef struct policy {
    example_build *b;
    bool is_greedy;        /* the baseline: the largest logit, no dropout */
    const char *shown_as;  /* before the names of values for golden files */
    tuff_tensor *bins;     /* i32 [B,n,n] */
    tuff_tensor *demand;   /* f32 [B,n] */
    tuff_tensor *capacity; /* f32 [B] */
    tuff_tensor *uniforms; /* [B,T]; NULL where nothing is sampled */
    tuff_tensor *bias[MAX_LAYERS], *qkv[MAX_LAYERS], *qkv_bias[MAX_LAYERS]; /* of the optimized form; NULL: not made */
    tuff_tensor *state, *state_bias;                                        /* folded, see below: [H,H+H/4+1], [H] */
    tuff_tensor *query, *query_bias;                                        /* [3H,H], [3H] */
    tuff_tensor *nodes, *advice, *advice_bias, *advice_mean;                /* [2H,H], [H/2,H], [H/2], [H/2,1] */
    tuff_tensor *key_bias, *advice_shift;                                   /* [H,1], [1] */
} policy;

static tuff_tensor *number(policy *p, double value)
{
    return tuff_constant(p->b->graph, TUFF_F32, value);
}

static tuff_tensor *drop(policy *p, tuff_tensor *x)
{
    return p->is_greedy ? x : example_dropout(p->b, x);
}

/* Elements from to to - 1 along axis. */
static tuff_tensor *part(tuff_tensor *x, int axis, int64_t from, int64_t to)
{
    const tuff_shape shape = tuff_tensor_shape(x);
    int64_t start[TUFF_MAX_RANK] = {0}, stop[TUFF_MAX_RANK];
    for (int i = 0; i < shape.rank; i++)
        stop[i] = shape.extent[i];
    start[axis] = from;
    stop[axis] = to;
    return tuff_slice(x, start, stop, NULL);
}

static tuff_tensor *joined(tuff_tensor *x, tuff_tensor *y, int axis)
{
    return tuff_concat((tuff_tensor *[]){x, y}, 2, axis);
}

static tuff_tensor *turned(tuff_tensor *matrix)
{
    return tuff_permute(matrix, (int[]){1, 0});
}

static tuff_tensor *weight(policy *p, const char *name)
{
    return example_parameter(p->b, "%s.weight", name);
}

static tuff_tensor *bias(policy *p, const char *name)
{
    return example_parameter(p->b, "%s.bias", name);
}

static tuff_tensor *linear(policy *p, tuff_tensor *x, const char *format, ...) __attribute__((format(printf, 3, 4)));
static tuff_tensor *linear(policy *p, tuff_tensor *x, const char *format, ...)
{
    char name[40];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    return tuff_linear(x, turned(weight(p, name)), bias(p, name));
}

static tuff_tensor *norm(policy *p, tuff_tensor *x, const char *name)
{
    return tuff_layer_norm(x, example_parameter(p->b, "%s.gain", name), bias(p, name), 1, 1e-5);
}

/* T_l[bin(i,j), head] + c_l[head], [B,h,n,n]. */
static tuff_tensor *distance_bias(policy *p, int layer)
{
    static const int heads_first[] = {0, 3, 1, 2};
    tuff_tensor *found = tuff_embedding(example_parameter(p->b, "layers.%d.table", layer), p->bins);
    return tuff_permute(tuff_add(found, example_parameter(p->b, "layers.%d.head_bias", layer)), heads_first);
}

/* The published attention: three projections, scores and probabilities in memory, the bias looked up each time. */
static tuff_tensor *attention_in_steps(policy *p, int layer, tuff_tensor *u)
{
    static const int heads_first[] = {0, 2, 1, 3}, transposed[] = {0, 1, 3, 2};
    const route_config *c = p->b->config;
    const int64_t B = p->b->batch, n = c->customers + 1, h = c->heads, D = c->width / c->heads;
    tuff_tensor *q =
        tuff_permute(tuff_reshape(linear(p, u, "layers.%d.q", layer), TUFF_SHAPE(B, n, h, D)), heads_first);
    tuff_tensor *k =
        tuff_permute(tuff_reshape(linear(p, u, "layers.%d.k", layer), TUFF_SHAPE(B, n, h, D)), heads_first);
    tuff_tensor *v =
        tuff_permute(tuff_reshape(linear(p, u, "layers.%d.v", layer), TUFF_SHAPE(B, n, h, D)), heads_first);
    tuff_tensor *products = tuff_mul(tuff_matmul(q, tuff_permute(k, transposed)), number(p, 1 / sqrt((double)D)));
    tuff_tensor *probabilities = drop(p, tuff_softmax(tuff_add(products, distance_bias(p, layer)), 3));
    return tuff_reshape(tuff_permute(tuff_matmul(probabilities, v), heads_first), TUFF_SHAPE(B, n, c->width));
}

static tuff_tensor *attention(policy *p, int layer, tuff_tensor *u)
{
    const route_config *c = p->b->config;
    const int64_t B = p->b->batch, n = c->customers + 1, h = c->heads, H = c->width;
    if (!p->b->optimized)
        return attention_in_steps(p, layer, u);
    tuff_tensor *qkv = tuff_linear(u, turned(p->qkv[layer]), p->qkv_bias[layer]), *split[3];
    for (int i = 0; i < 3; i++)
        split[i] = tuff_reshape(part(qkv, 2, i * H, (i + 1) * H), TUFF_SHAPE(B, n, h, H / h));
    const tuff_attention_options options = {.bias = p->bias[layer],
                                            .dropout = p->is_greedy ? 0 : example_dropout_of(p->b)};
    return tuff_reshape(tuff_attention(split[0], split[1], split[2], &options), TUFF_SHAPE(B, n, H));
}

/* x += Att(LN1 x); x += Lin(GLU(Lin(LN2 x))) */
static tuff_tensor *transform(policy *p, int layer, tuff_tensor *x)
{
    char first[40], second[40];
    snprintf(first, sizeof first, "layers.%d.ln1", layer);
    snprintf(second, sizeof second, "layers.%d.ln2", layer);
    tuff_tensor *heard = attention(p, layer, norm(p, x, first));
    x = tuff_add(x, drop(p, linear(p, heard, "layers.%d.out", layer)));
    tuff_tensor *inner = drop(p, tuff_glu(linear(p, norm(p, x, second), "layers.%d.ff1", layer), 2));
    return tuff_add(x, drop(p, linear(p, inner, "layers.%d.ff2", layer)));
}

/* PE[i,2k] = sin(i · 10000^(-2k/H)), PE[i,2k+1] = cos of the same. */
static tuff_tensor *positions(policy *p)
{
    const route_config *c = p->b->config;
    const int64_t n = c->customers + 1, H = c->width;
    float *values = malloc((size_t)(n * H) * sizeof *values);
    for (int64_t i = 0; values && i < n * H; i++) {
        const double angle = (double)(i / H) * pow(10000, -(double)(i % H / 2 * 2) / (double)H);
        values[i] = (float)(i % 2 ? cos(angle) : sin(angle));
    }
    tuff_tensor *made = values ? tuff_constant_data(p->b->graph, TUFF_F32, TUFF_SHAPE(n, H), values) : NULL;
    free(values);
    return made;
}

static tuff_tensor *show(policy *p, tuff_tensor *value, const char *name)
{
    return p->shown_as ? example_show(p->b, value, "%s%s", p->shown_as, name) : value;
}

/* The nodes after the encoder, [B,n,H]. */
static tuff_tensor *encode(policy *p)
{
    const route_config *c = p->b->config;
    const int64_t B = p->b->batch, n = c->customers + 1, H = c->width;
    tuff_tensor *coords = example_input(p->b, "coords"), *demand = tuff_reshape(p->demand, TUFF_SHAPE(B, n, 1));
    tuff_tensor *seen = linear(p, joined(coords, demand, 2), "node.lin");
    tuff_tensor *e1 = drop(p, tuff_relu(norm(p, seen, "node.ln")));
    tuff_tensor *e2 = linear(p, tuff_relu(linear(p, demand, "demand.lin1")), "demand.lin2");
    tuff_tensor *is_depot =
        tuff_equal(tuff_iota(p->b->graph, TUFF_SHAPE(n, 1), 0), tuff_constant(p->b->graph, TUFF_I32, 0));
    tuff_tensor *e3 =
        tuff_expand(tuff_where(is_depot, example_parameter(p->b, "depot"), number(p, 0)), TUFF_SHAPE(B, n, H / 4));
    tuff_tensor *e = linear(p, tuff_concat((tuff_tensor *[]){e1, e2, e3}, 3, 2), "feature");
    tuff_tensor *place = linear(p, tuff_relu(linear(p, coords, "coord.lin1")), "coord.lin2");
    tuff_tensor *x = linear(p, joined(tuff_add(show(p, e, "embed"), positions(p)), place, 2), "combine");
    show(p, x, "x0");
    for (int layer = 0; layer < c->layers; layer++)
        x = transform(p, layer, x);
    return show(p, x, "encoded");
}

/* V of visited, which is 0 or 1: [H/2]. */
static tuff_tensor *visit(policy *p, double visited)
{
    tuff_tensor *x = tuff_expand(number(p, visited), TUFF_SHAPE(1));
    return linear(p, tuff_relu(linear(p, x, "state.visited1")), "state.visited2");
}

/* The optimized form multiplies the matrices of linear maps that follow each other once for all steps of decoding:
   what is left of a step's state, query and keys are products by `state`, `query`, `nodes` and `advice`. */
static void fold(policy *p)
{
    const route_config *c = p->b->config;
    const int64_t H = c->width;
    for (int layer = 0; layer < c->layers; layer++) {
        tuff_tensor *weights[3], *biases[3];
        for (int i = 0; i < 3; i++) {
            weights[i] = example_parameter(p->b, "layers.%d.%c.weight", layer, "qkv"[i]);
            biases[i] = example_parameter(p->b, "layers.%d.%c.bias", layer, "qkv"[i]);
        }
        p->qkv[layer] = tuff_concat(weights, 3, 0);
        p->qkv_bias[layer] = tuff_concat(biases, 3, 0);
        p->bias[layer] = distance_bias(p, layer);
    }
    /* state.lin1 of [Lin(X[c]), mean V, Cp] = state · [X[c], ReLU(Lin(r/Q)), visited part of the nodes]. */
    tuff_tensor *lin1 = weight(p, "state.lin1"), *none = visit(p, 0);
    tuff_tensor *of_current = part(lin1, 1, 0, H), *of_visited = part(lin1, 1, H, 3 * H / 2),
                *of_capacity = part(lin1, 1, 3 * H / 2, 2 * H);
    tuff_tensor *columns[] = {tuff_matmul(of_current, weight(p, "state.current")),
                              tuff_matmul(of_capacity, weight(p, "state.capacity2")),
                              tuff_reshape(tuff_matmul(of_visited, tuff_sub(visit(p, 1), none)), TUFF_SHAPE(H, 1))};
    p->state = tuff_concat(columns, 3, 1);
    p->state_bias = tuff_add(tuff_add(tuff_matmul(of_current, bias(p, "state.current")),
                                      tuff_matmul(of_capacity, bias(p, "state.capacity2"))),
                             tuff_add(tuff_matmul(of_visited, none), bias(p, "state.lin1")));
    /* The mean over heads of q·kᵀ / (sqrt(Dh) τ) = X · (query's last H rows · s), where the scale of a row is that of
       its head. */
    tuff_tensor *per_head = tuff_div(number(p, 1 / (sqrt((double)(H / c->heads)) * (double)c->heads)),
                                     tuff_reshape(example_parameter(p->b, "pointer.tau"), TUFF_SHAPE(c->heads, 1)));
    tuff_tensor *scale = tuff_reshape(tuff_expand(per_head, TUFF_SHAPE(c->heads, H / c->heads)), TUFF_SHAPE(H, 1));
    tuff_tensor *q = tuff_mul(weight(p, "pointer.q"), scale), *keys = turned(weight(p, "pointer.k"));
    tuff_tensor *q_bias = tuff_mul(bias(p, "pointer.q"), tuff_reshape(scale, TUFF_SHAPE(H)));
    tuff_tensor *gate = weight(p, "update.gate1"), *delta = weight(p, "update.delta1"), *lin2 = weight(p, "state.lin2");
    tuff_tensor *of_s[] = {part(gate, 1, H, 2 * H), part(delta, 1, H, 2 * H), tuff_matmul(keys, q)};
    tuff_tensor *shifts[] = {bias(p, "update.gate1"), bias(p, "update.delta1"), tuff_matmul(keys, q_bias)};
    tuff_tensor *rows = tuff_concat(of_s, 3, 0);
    p->query = tuff_matmul(rows, lin2);
    p->query_bias = tuff_add(tuff_matmul(rows, bias(p, "state.lin2")), tuff_concat(shifts, 3, 0));
    p->nodes = joined(part(gate, 1, 0, H), part(delta, 1, 0, H), 0);
    p->advice = tuff_matmul(weight(p, "pointer.p1"), weight(p, "pointer.v"));
    p->advice_bias = tuff_add(tuff_matmul(weight(p, "pointer.p1"), bias(p, "pointer.v")), bias(p, "pointer.p1"));
    p->advice_mean = tuff_mean(weight(p, "pointer.p2"), (int[]){0}, 1, false);
}

/* Where all instances of a batch stand. */
typedef struct state {
    tuff_tensor *current, *left, *visited; /* i32 [B], f32 [B], bool [B,n] */
    tuff_tensor *count, *done;             /* customers visited, f32 [B]; bool [B] */
    tuff_tensor *nodes;                    /* X [B,n,H] */
} state;

/* ReLU∘LN of state.lin1: what s is a linear map of, [B,H]. */
static tuff_tensor *sense_folded(policy *p, const state *now)
{
    const route_config *c = p->b->config;
    const int64_t B = p->b->batch, H = c->width;
    tuff_tensor *index = tuff_reshape(now->current, TUFF_SHAPE(B, 1, 1));
    tuff_tensor *at = tuff_reshape(tuff_gather(now->nodes, index, 1), TUFF_SHAPE(B, H));
    tuff_tensor *load = tuff_reshape(tuff_div(now->left, p->capacity), TUFF_SHAPE(B, 1));
    tuff_tensor *share =
        tuff_mul(tuff_reshape(now->count, TUFF_SHAPE(B, 1)), number(p, 1 / (double)(c->customers + 1)));
    tuff_tensor *seen[] = {at, tuff_relu(linear(p, load, "state.capacity1")), share};
    return tuff_relu(norm(p, tuff_linear(tuff_concat(seen, 3, 1), turned(p->state), p->state_bias), "state.ln"));
}

/* The same as published, with V of every node. */
static tuff_tensor *sense(policy *p, const state *now)
{
    const route_config *c = p->b->config;
    const int64_t B = p->b->batch, n = c->customers + 1, H = c->width;
    if (p->b->optimized)
        return sense_folded(p, now);
    tuff_tensor *index = tuff_reshape(now->current, TUFF_SHAPE(B, 1, 1));
    tuff_tensor *at = linear(p, tuff_reshape(tuff_gather(now->nodes, index, 1), TUFF_SHAPE(B, H)), "state.current");
    tuff_tensor *visited = tuff_reshape(tuff_cast(now->visited, TUFF_F32), TUFF_SHAPE(B, n, 1));
    tuff_tensor *v = linear(p, tuff_relu(linear(p, visited, "state.visited1")), "state.visited2");
    tuff_tensor *load = tuff_reshape(tuff_div(now->left, p->capacity), TUFF_SHAPE(B, 1));
    tuff_tensor *cp = linear(p, tuff_relu(linear(p, load, "state.capacity1")), "state.capacity2");
    tuff_tensor *parts[] = {at, tuff_mean(v, (int[]){1}, 1, false), cp};
    return tuff_relu(norm(p, linear(p, tuff_concat(parts, 3, 1), "state.lin1"), "state.ln"));
}

/* X_i += g·d·(1 - visited_i / 2), where gate and delta are update.gate1 and update.delta1 of [X_i, s]; then the layers. */
static tuff_tensor *update(policy *p, const state *now, tuff_tensor *gate, tuff_tensor *delta)
{
    const route_config *c = p->b->config;
    tuff_tensor *g = tuff_sigmoid(linear(p, tuff_relu(gate), "update.gate2"));
    tuff_tensor *d = linear(p, tuff_relu(norm(p, delta, "update.ln")), "update.delta2");
    tuff_tensor *weights = tuff_where(now->visited, number(p, 0.5), number(p, 1));
    weights = tuff_reshape(weights, TUFF_SHAPE(p->b->batch, c->customers + 1, 1));
    tuff_tensor *x = tuff_add(now->nodes, tuff_mul(tuff_mul(g, d), weights));
    for (int layer = 0; layer < c->layers && layer < 2; layer++)
        x = transform(p, layer, x);
    return x;
}

/* Logits [B,n] without the mask, and X of step t. The folded form leaves out pointer.k.bias and pointer.p2.bias, which
   shift all logits of an instance alike. */
static tuff_tensor *point_folded(policy *p, state *now, tuff_tensor *z, bool updates)
{
    const route_config *c = p->b->config;
    const int64_t B = p->b->batch, H = c->width;
    tuff_tensor *w = tuff_reshape(tuff_linear(z, turned(p->query), p->query_bias), TUFF_SHAPE(B, 1, 3 * H));
    if (updates) {
        tuff_tensor *u = tuff_add(tuff_matmul(now->nodes, turned(p->nodes)), part(w, 2, 0, 2 * H));
        now->nodes = update(p, now, part(u, 2, 0, H), part(u, 2, H, 2 * H));
    }
    tuff_tensor *advice = tuff_relu(tuff_linear(now->nodes, turned(p->advice), p->advice_bias));
    return tuff_add(tuff_sum(tuff_mul(now->nodes, part(w, 2, 2 * H, 3 * H)), (int[]){2}, 1, false),
                    tuff_sum(tuff_mul(advice, p->advice_mean), (int[]){2}, 1, false));
}

/* As published: mean over heads of q·kᵀ / (sqrt(Dh) τ) + p. */
static tuff_tensor *point_in_steps(policy *p, state *now, tuff_tensor *s, bool updates)
{
    const route_config *c = p->b->config;
    const int64_t B = p->b->batch, n = c->customers + 1, H = c->width, h = c->heads;
    if (updates) {
        tuff_tensor *u = joined(now->nodes, tuff_expand(tuff_reshape(s, TUFF_SHAPE(B, 1, H)), TUFF_SHAPE(B, n, H)), 2);
        now->nodes = update(p, now, linear(p, u, "update.gate1"), linear(p, u, "update.delta1"));
    }
    tuff_tensor *q = tuff_reshape(linear(p, s, "pointer.q"), TUFF_SHAPE(B, 1, h, H / h));
    tuff_tensor *k = tuff_reshape(linear(p, now->nodes, "pointer.k"), TUFF_SHAPE(B, n, h, H / h));
    tuff_tensor *a = tuff_mul(tuff_sum(tuff_mul(q, k), (int[]){3}, 1, false), number(p, 1 / sqrt((double)(H / h))));
    a = tuff_div(a, example_parameter(p->b, "pointer.tau"));
    tuff_tensor *v = linear(p, now->nodes, "pointer.v");
    tuff_tensor *advice = linear(p, tuff_relu(linear(p, v, "pointer.p1")), "pointer.p2");
    return tuff_mean(tuff_add(a, advice), (int[]){2}, 1, false);
}

/* What the folded form leaves out, for logits that are shown: [B,1]. */
static tuff_tensor *shift_of(policy *p, tuff_tensor *s)
{
    const route_config *c = p->b->config;
    const int64_t B = p->b->batch, h = c->heads, D = c->width / c->heads;
    tuff_tensor *q = tuff_reshape(linear(p, s, "pointer.q"), TUFF_SHAPE(B, h, D));
    tuff_tensor *a = tuff_sum(tuff_mul(q, tuff_reshape(bias(p, "pointer.k"), TUFF_SHAPE(h, D))), (int[]){2}, 1, false);
    a = tuff_mul(tuff_div(a, example_parameter(p->b, "pointer.tau")), number(p, 1 / sqrt((double)D)));
    return tuff_mean(tuff_add(a, bias(p, "pointer.p2")), (int[]){1}, 1, true);
}

/* Sets now->count and now->done; returns what may not be chosen, bool [B,n]: a customer who was visited or demands more
   than is left, and the depot for a vehicle that stands there while customers wait. */
static tuff_tensor *look(policy *p, state *now)
{
    const route_config *c = p->b->config;
    const int64_t B = p->b->batch, n = c->customers + 1;
    tuff_graph *graph = p->b->graph;
    tuff_tensor *zero = tuff_constant(graph, TUFF_I32, 0), *all = number(p, (double)c->customers);
    now->count = tuff_sum(tuff_cast(now->visited, TUFF_F32), (int[]){1}, 1, false);
    tuff_tensor *at_depot = tuff_equal(now->current, zero), *some_wait = tuff_less(now->count, all);
    now->done = tuff_and(at_depot, tuff_equal(now->count, all));
    tuff_tensor *is_depot = tuff_equal(tuff_iota(graph, TUFF_SHAPE(1, n), 1), zero);
    tuff_tensor *too_much = tuff_less(tuff_reshape(now->left, TUFF_SHAPE(B, 1)), p->demand);
    tuff_tensor *stays = tuff_reshape(tuff_and(at_depot, some_wait), TUFF_SHAPE(B, 1));
    return tuff_or(tuff_or(now->visited, too_much), tuff_and(is_depot, stays));
}

/* The action of step t, i32 [B]: given, the largest logit, or the first node whose cumulative probability exceeds the
   uniform. */
static tuff_tensor *choose(policy *p, int t, tuff_tensor *logits, tuff_tensor *mask, tuff_tensor *probabilities)
{
    const int64_t B = p->b->batch;
    if (p->b->purpose == EXAMPLE_CHECK) {
        tuff_tensor *given = example_input(p->b, p->is_greedy ? "greedy_actions" : "actions");
        return tuff_reshape(part(given, 1, t, t + 1), TUFF_SHAPE(B));
    }
    if (p->is_greedy)
        return tuff_argmax(logits, 1, false);
    tuff_tensor *sums = tuff_cumsum(probabilities, 1), *u = part(p->uniforms, 1, t, t + 1);
    const int64_t n = tuff_tensor_shape(sums).extent[1];
    tuff_tensor *exceeds = tuff_less(tuff_mul(u, part(sums, 1, n - 1, n)), sums);
    return tuff_argmax(tuff_where(mask, number(p, -1), tuff_cast(exceeds, TUFF_F32)), 1, false);
}

static void move(policy *p, state *now, tuff_tensor *action)
{
    const int64_t B = p->b->batch, n = ((const route_config *)p->b->config)->customers + 1;
    tuff_tensor *zero = tuff_constant(p->b->graph, TUFF_I32, 0), *column = tuff_reshape(action, TUFF_SHAPE(B, 1));
    tuff_tensor *node = tuff_iota(p->b->graph, TUFF_SHAPE(1, n), 1);
    tuff_tensor *taken = tuff_and(tuff_equal(node, column), tuff_less(zero, node));
    tuff_tensor *load = tuff_sum(tuff_where(taken, p->demand, number(p, 0)), (int[]){1}, 1, false);
    now->visited = tuff_or(now->visited, taken);
    now->left = tuff_where(tuff_equal(action, zero), p->capacity, tuff_sub(now->left, load));
    now->current = action;
}

/* What decoding gives: sums over its steps [B], and the route i32 [B,T+1]. */
typedef struct rollout {
    tuff_tensor *logp, *entropy, *route, *cost;
    tuff_tensor *unfinished; /* rank 0: the part of the instances that needed more steps */
} rollout;

enum { STATE, MASK, LOGITS, PROBABILITIES, CAPACITY, CURRENT, DONE, LOGP, ENTROPY, LARGEST, ACTIONS, KEPT };
typedef struct kept {
    tuff_tensor *values[KEPT][MAX_STEPS + 1];
} kept;

/* The values of count steps behind each other: [B,count,...]. */
static tuff_tensor *stack(tuff_tensor **values, int64_t count)
{
    for (int64_t t = 0; t < count; t++) {
        const tuff_shape from = tuff_tensor_shape(values[t]);
        values[t] = tuff_reshape(values[t], from.rank == 1 ? TUFF_SHAPE(from.extent[0], 1)
                                                           : TUFF_SHAPE(from.extent[0], 1, from.extent[1]));
    }
    return tuff_concat(values, (int)count, 1);
}

static void show_steps(policy *p, kept *steps, int64_t count)
{
    static const char *const names[] = {"state",   "mask", "logits",    "probs",        "capacity",
                                        "current", "done", "step_logp", "step_entropy", "actions"};
    for (int i = 0; i < ACTIONS && p->shown_as && p->b->purpose == EXAMPLE_CHECK; i++)
        if (i != LARGEST || p->is_greedy)
            show(p, stack(steps->values[i], count), names[i]);
}

/* Decoding step t. Returns the action. */
static void decode_step(policy *p, int t, state *now, rollout *sums, kept *steps)
{
    const int64_t B = p->b->batch;
    tuff_tensor *zero = number(p, 0), *mask = look(p, now), *z = sense(p, now), *hidden = number(p, -1e9);
    tuff_tensor *s = p->b->optimized ? NULL : linear(p, z, "state.lin2");
    steps->values[CAPACITY][t] = now->left;
    steps->values[CURRENT][t] = now->current;
    steps->values[DONE][t] = now->done;
    tuff_tensor *raw = p->b->optimized ? point_folded(p, now, z, t > 0) : point_in_steps(p, now, s, t > 0);
    tuff_tensor *logits = tuff_where(mask, hidden, raw);
    tuff_tensor *scaled = p->is_greedy ? logits : tuff_div(logits, example_input(p->b, "temperature"));
    tuff_tensor *chances = tuff_softmax(scaled, 1), *lp = tuff_log(tuff_add(chances, number(p, 1e-10)));
    tuff_tensor *action = choose(p, t, logits, mask, chances);
    tuff_tensor *column = tuff_reshape(action, TUFF_SHAPE(B, 1));
    tuff_tensor *logp = tuff_reshape(tuff_gather(lp, column, 1), TUFF_SHAPE(B));
    tuff_tensor *entropy = tuff_neg(tuff_sum(tuff_mul(chances, lp), (int[]){1}, 1, false));
    logp = tuff_where(now->done, zero, logp);
    entropy = tuff_where(now->done, zero, entropy);
    sums->logp = t > 0 ? tuff_add(sums->logp, logp) : logp;
    sums->entropy = t > 0 ? tuff_add(sums->entropy, entropy) : entropy;
    if (p->b->purpose == EXAMPLE_CHECK) {
        s = s ? s : linear(p, z, "state.lin2");
        tuff_tensor *shown[] = {
            s, mask, p->b->optimized ? tuff_where(mask, hidden, tuff_add(raw, shift_of(p, s))) : logits, chances};
        for (int i = 0; i < 4; i++)
            steps->values[i][t] = shown[i];
        steps->values[LOGP][t] = logp;
        steps->values[ENTROPY][t] = entropy;
        steps->values[LARGEST][t] = tuff_argmax(logits, 1, false);
    }
    move(p, now, action);
    steps->values[ACTIONS][t + 1] = now->current;
}

/* cost_b = Σ_t Dist_b[route_t, route_{t+1}]. */
static tuff_tensor *cost_of(policy *p, tuff_tensor *dist, tuff_tensor *route)
{
    const int64_t B = p->b->batch, n = ((const route_config *)p->b->config)->customers + 1;
    const int64_t T = tuff_tensor_shape(route).extent[1] - 1;
    tuff_tensor *from = part(route, 1, 0, T), *to = part(route, 1, 1, T + 1);
    if (p->b->optimized) {
        tuff_tensor *index = tuff_add(tuff_mul(from, tuff_constant(p->b->graph, TUFF_I32, (double)n)), to);
        return tuff_sum(tuff_gather(tuff_reshape(dist, TUFF_SHAPE(B, n * n)), index, 1), (int[]){1}, 1, false);
    }
    /* As published, in line: rows by the first index, elements by the second, a mask of padding, a sum. */
    tuff_tensor *rows = tuff_gather(dist, tuff_reshape(from, TUFF_SHAPE(B, T, 1)), 1);
    tuff_tensor *legs = tuff_reshape(tuff_gather(rows, tuff_reshape(to, TUFF_SHAPE(B, T, 1)), 2), TUFF_SHAPE(B, T));
    tuff_tensor *is_leg = tuff_cast(tuff_less(tuff_constant(p->b->graph, TUFF_I32, -1), to), TUFF_F32);
    return tuff_sum(tuff_mul(legs, is_leg), (int[]){1}, 1, false);
}

static rollout decode(policy *p, tuff_tensor *dist)
{
    const route_config *c = p->b->config;
    const int64_t B = p->b->batch, n = c->customers + 1, T = steps_of(c, p->is_greedy);
    tuff_graph *graph = p->b->graph;
    rollout made = {0};
    kept steps;
    if (p->b->optimized)
        fold(p);
    tuff_tensor *start = tuff_expand(tuff_constant(graph, TUFF_I32, 0), TUFF_SHAPE(B));
    state now = {.current = start,
                 .left = p->capacity,
                 .visited = tuff_expand(tuff_constant(graph, TUFF_BOOL, 0), TUFF_SHAPE(B, n)),
                 .nodes = encode(p)};
    steps.values[ACTIONS][0] = start;
    for (int t = 0; t < T; t++)
        decode_step(p, t, &now, &made, &steps);
    (void)look(p, &now);
    show(p, now.nodes, "nodes_last");
    show_steps(p, &steps, T);
    made.route = show(p, stack(steps.values[ACTIONS], T + 1), "routes");
    made.cost = show(p, cost_of(p, dist, made.route), "cost");
    made.unfinished = tuff_sub(number(p, 1), tuff_mean(tuff_cast(now.done, TUFF_F32), (int[]){0}, 1, false));
    return made;
}

/* Distances f32 [B,n,n]. The published form computes them on the host and uploads one instance after the other. */
static tuff_tensor *distances(example_build *b)
{
    const int64_t B = b->batch, n = ((const route_config *)b->config)->customers + 1;
    if (!b->optimized && b->purpose == EXAMPLE_TRAIN)
        return tuff_input(b->graph, "dist", TUFF_F32, TUFF_SHAPE(B, n, n));
    tuff_tensor *coords = example_input(b, "coords");
    tuff_tensor *apart =
        tuff_sub(tuff_reshape(coords, TUFF_SHAPE(B, n, 1, 2)), tuff_reshape(coords, TUFF_SHAPE(B, 1, n, 2)));
    return tuff_sqrt(tuff_sum(tuff_mul(apart, apart), (int[]){3}, 1, false));
}

static tuff_tensor *mean(tuff_tensor *x)
{
    return tuff_mean(x, (int[]){0}, 1, false);
}

/* cost / N: mean, and exp of the mean logarithm. The published form has the code of the cost in line each time. */
static void show_costs(policy *p, tuff_tensor *dist, const rollout *made)
{
    tuff_tensor *N = number(p, (double)((const route_config *)p->b->config)->customers);
    tuff_tensor *cost[2] = {made->cost, made->cost};
    for (int i = 0; i < 2 && !p->b->optimized; i++)
        cost[i] = cost_of(p, dist, made->route);
    tuff_tensor *per_customer = show(p, mean(tuff_div(cost[0], N)), "cost_per_customer_mean");
    tuff_tensor *geometric = tuff_exp(mean(tuff_log(tuff_div(cost[1], N))));
    example_metric(p->b, "cost", per_customer);
    example_metric(p->b, "geometric cost", show(p, geometric, "cost_per_customer_geometric"));
    example_metric(p->b, "entropy", mean(made->entropy));
    example_metric(p->b, "unfinished", made->unfinished);
}

/* How much cheaper the policy is than the frozen one, and the square of it: for a paired test. */
static void add_gain(policy *p, tuff_tensor *own, tuff_tensor *frozen)
{
    tuff_tensor *gain = tuff_sub(frozen, own);
    example_metric(p->b, "gain", mean(gain));
    example_metric(p->b, "squared gain", mean(tuff_mul(gain, gain)));
}

/* -mean(A · logp) - coefficient · mean(ent), A the standardized advantage bl - cost. */
static tuff_tensor *loss_of(policy *p, const rollout *made, tuff_tensor *baseline)
{
    tuff_tensor *advantage = show(p, tuff_sub(show(p, baseline, "baseline"), made->cost), "advantage_raw");
    tuff_tensor *deviation = tuff_std(advantage, (int[]){0}, 1, true, 1);
    tuff_tensor *centred = tuff_sub(advantage, tuff_mean(advantage, (int[]){0}, 1, true));
    tuff_tensor *scaled = show(p, tuff_div(centred, tuff_add(deviation, number(p, 1e-8))), "advantage");
    tuff_tensor *coefficient = tuff_neg(example_input(p->b, "entropy_coef"));
    tuff_tensor *of_policy = tuff_neg(mean(tuff_mul(scaled, show(p, made->logp, "logp"))));
    tuff_tensor *of_entropy = tuff_mul(coefficient, mean(show(p, made->entropy, "entropy")));
    return tuff_add(show(p, of_policy, "loss_policy"), show(p, of_entropy, "loss_entropy"));
}

static tuff_tensor *build(example_build *b)
{
    const route_config *c = b->config;
    const int64_t T = steps_of(c, false);
    tuff_tensor *dist = distances(b);
    tuff_tensor *bins = tuff_cast(
        tuff_min(tuff_mul(dist, tuff_constant(b->graph, TUFF_F32, 10)), tuff_constant(b->graph, TUFF_F32, BINS - 1)),
        TUFF_I32);
    policy p = {.b = b,
                .shown_as = "",
                .bins = bins,
                .demand = tuff_cast(example_input(b, "demand"), TUFF_F32),
                .capacity = tuff_cast(example_input(b, "capacity"), TUFF_F32)};
    policy greedy = p, frozen = p;
    greedy.is_greedy = frozen.is_greedy = true;
    greedy.shown_as = frozen.shown_as = NULL;
    if (b->purpose == EXAMPLE_CHECK)
        frozen.shown_as = "greedy.";
    else
        p.uniforms = tuff_random(b->graph, TUFF_SHAPE(b->batch, T));
    show(&p, dist, "dist");
    show(&p, bins, "bins");
    rollout made = decode(&p, dist), other = {0};
    show_costs(&p, dist, &made);
    tuff_tensor *own = made.cost, *baseline = tuff_mul(made.cost, number(&p, 0));
    if (b->purpose == EXAMPLE_VALIDATE && c->rollout)
        own = decode(&greedy, dist).cost;
    if (c->rollout) {
        tuff_parameters *parameters = b->parameters;
        b->parameters = b->frozen;
        other = decode(&frozen, dist);
        b->parameters = parameters;
        baseline = tuff_div(other.cost, number(&p, (double)c->customers));
    }
    add_gain(&p, own, c->rollout ? other.cost : own);
    return b->purpose == EXAMPLE_VALIDATE ? mean(tuff_div(made.cost, number(&p, (double)c->customers)))
                                          : loss_of(&p, &made, baseline);
}

static float distance_of(const float *coords, int64_t i, int64_t j)
{
    const float x = coords[2 * i] - coords[2 * j], y = coords[2 * i + 1] - coords[2 * j + 1];
    return sqrtf(x * x + y * y);
}

/* Whether node i is so near to the edge of a bin for another one that rounding may choose the next bin. */
static bool is_near_edge(const float *coords, int64_t i)
{
    for (int64_t j = 0; j < i; j++) {
        const double tenths = 10 * (double)distance_of(coords, i, j);
        if (fabs(tenths - round(tenths)) < 1e-4)
            return true;
    }
    return false;
}

/* A route that serves all, returning now and then, as far as T steps go. */
static void draw_actions(example_random *random, int64_t n, const int32_t *demand, int32_t capacity, int64_t T,
                         int32_t *actions)
{
    bool visited[MAX_STEPS + 1] = {true};
    int32_t left = capacity;
    int64_t at = 0, waiting = n - 1;
    for (int64_t t = 0; t < T; t++) {
        int64_t next = 0, fitting = 0;
        for (int64_t i = 1; i < n; i++)
            if (!visited[i] && demand[i] <= left && example_integer(random, ++fitting) == 0)
                next = i;
        if (at != 0 && waiting > 0 && example_integer(random, 5) == 0)
            next = 0;
        left = next == 0 ? capacity : left - demand[next];
        waiting -= next != 0;
        visited[next] = true;
        actions[t] = (int32_t)(at = next);
    }
}

static void fill(const example_batch *batch)
{
    const route_config *c = batch->config;
    const int64_t n = c->customers + 1, T[] = {steps_of(c, false), steps_of(c, true)};
    const bool checks = batch->purpose == EXAMPLE_CHECK;
    float *coords = batch->inputs[0];
    int32_t *demand = batch->inputs[1], *capacity = batch->inputs[2];
    example_random random = example_random_stream(batch->seed, 1 + (uint64_t)batch->number);
    for (int64_t b = 0; b < batch->count; b++, coords += 2 * n, demand += n) {
        capacity[b] = (int32_t)c->capacity;
        for (int64_t i = 0; i < n; i++) {
            do
                for (int axis = 0; axis < 2; axis++)
                    coords[2 * i + axis] =
                        checks ? (float)example_uniform(&random, 0, 1) : (float)example_integer(&random, 101) / 100;
            while (checks && is_near_edge(coords, i));
            demand[i] = i > 0 ? 1 + (int32_t)example_integer(&random, largest_demand) : 0;
        }
        for (int i = 0; checks && i < 1 + (c->rollout != 0); i++)
            draw_actions(&random, n, demand, capacity[b], T[i], (int32_t *)batch->inputs[3 + i] + b * T[i]);
    }
}

static void fill_fixed(const void *config, uint64_t seed, int index, void *values)
{
    (void)config;
    (void)seed;
    *(float *)values = index == TEMPERATURE ? (float)first_temperature : 0.03F;
}

/* The schedules, which follow epochs and validations. */
typedef struct schedules {
    int64_t epoch;
    double temperature, costs[5]; /* of the last validations, latest first */
    int64_t validations, since_best;
    float *coords, *dist; /* of a batch of the published form, on the host */
    int32_t *rest;
} schedules;

static void close_schedules(void *data)
{
    schedules *self = data;
    if (self) {
        free(self->coords);
        free(self->dist);
        free(self->rest);
    }
    free(self);
}

static void *open_schedules(tuff_device *device, const void *config, uint64_t seed)
{
    const route_config *c = config;
    const size_t B = (size_t)c->settings.batch, n = (size_t)c->customers + 1;
    schedules *made = calloc(1, sizeof *made);
    (void)device;
    (void)seed;
    if (!made)
        return NULL;
    *made = (schedules){.epoch = -1, .temperature = first_temperature};
    made->coords = malloc(B * n * 2 * sizeof *made->coords);
    made->dist = malloc(n * n * sizeof *made->dist);
    made->rest = malloc(B * (n + 1) * sizeof *made->rest);
    if (made->coords && made->dist && made->rest)
        return made;
    close_schedules(made);
    return NULL;
}

/* The published form: distances on the host, an upload for each instance. */
static tuff_status upload_distances(example_run *run)
{
    const route_config *c = run->config;
    schedules *self = run->data;
    const int64_t B = c->settings.batch, n = c->customers + 1;
    const size_t size = (size_t)(n * n) * sizeof *self->dist;
    void *inputs[] = {self->coords, self->rest, self->rest + B * n};
    fill(&(example_batch){.config = c, .seed = run->seed, .number = run->step, .count = B, .inputs = inputs});
    tuff_status status = TUFF_OK;
    for (int64_t b = 0; b < B && status == TUFF_OK; b++) {
        for (int64_t i = 0; i < n * n; i++)
            self->dist[i] = distance_of(self->coords + b * n * 2, i / n, i % n);
        status = tuff_plan_write_at(run->plan, tuff_plan_find_input(run->plan, "dist"), (uint64_t)b * size, self->dist,
                                    size);
    }
    return status;
}

static tuff_status write_scalar(tuff_plan *plan, const char *name, double value)
{
    const float narrow = (float)value;
    return plan ? tuff_plan_write(plan, name, &narrow, sizeof narrow) : TUFF_OK;
}

static tuff_status before_step(example_run *run)
{
    schedules *self = run->data;
    const example_settings *settings = run->settings;
    const int64_t length = settings->epoch_steps > 0 ? settings->epoch_steps : 1, epoch = run->step / length;
    tuff_status status = run->optimized ? TUFF_OK : upload_distances(run);
    if (epoch == self->epoch || status != TUFF_OK)
        return status;
    const double pi = 3.14159265358979323846, last = fmax(1, (double)(settings->steps / length));
    if (self->epoch < 0 && run->step > 0) /* resumed: the frozen policy begins as the one that was loaded */
        status = tuff_parameters_copy(run->frozen, run->parameters);
    self->epoch = epoch;
    const double coefficient = 0.002 + 0.028 * 0.5 * (1 + cos(pi * ((double)epoch - 1) / last));
    return status == TUFF_OK ? write_scalar(run->plan, "entropy_coef", coefficient) : status;
}

/* Warmer where the cost of the last validations does not fall, as published. */
static void adapt_temperature(schedules *self)
{
    const double *k = self->costs;
    if (self->validations < 5)
        return;
    const bool falls = (k[0] + k[1] + k[2]) / 3 < (k[3] + k[4]) / 2;
    self->temperature = falls ? fmax(0.15, 0.82 * self->temperature) : fmin(2.5, 1.18 * self->temperature);
}

/* The frozen policy is replaced where the present one is cheaper, by a one-sided paired t-test with p < 0.1; the samples
   are so many that the normal distribution serves. */
static bool is_better(const example_run *run)
{
    const double gain = run->validation_metrics[4], squared = run->validation_metrics[5];
    const double count = (double)run->validation_samples;
    const double variance = count > 1 ? (squared - gain * gain) * count / (count - 1) : 0;
    return gain > 0 && gain * sqrt(count) > 1.2816 * sqrt(fmax(variance, 0));
}

static tuff_status validated(example_run *run, bool *stop)
{
    schedules *self = run->data;
    for (int i = 4; i > 0; i--)
        self->costs[i] = self->costs[i - 1];
    self->costs[0] = run->validation_loss;
    self->validations++;
    self->since_best = run->validation_loss <= run->best_validation_loss ? 0 : self->since_best + 1;
    *stop = self->since_best >= 10; /* 20 epochs */
    adapt_temperature(self);
    tuff_status status = write_scalar(run->plan, "temperature", self->temperature);
    if (status == TUFF_OK)
        status = write_scalar(run->validation, "temperature", self->temperature);
    if (status == TUFF_OK && is_better(run))
        status = tuff_parameters_copy(run->frozen, run->parameters);
    return status;
}

static void draw(void *config, example_random *random)
{
    static const int64_t head_counts[] = {1, 2, 3, 4};
    route_config *c = config;
    c->settings.batch = 2 + example_integer(random, 3);
    c->settings.dropout = example_integer(random, 2) ? 0.1 : 0;
    c->customers = example_extent(random, 7);
    c->capacity = 10 + example_integer(random, 30);
    c->heads = example_pick(random, head_counts, 4);
    c->width = 4 * c->heads * (1 + example_integer(random, 5));
    c->layers = 1 + example_integer(random, 3);
    c->factor = 1 + example_integer(random, 2);
    c->decode_steps = example_integer(random, 2) ? 0 : 1 + example_integer(random, 2 * c->customers);
    c->greedy_decode_steps = example_integer(random, 2) ? 0 : 1 + example_integer(random, 2 * c->customers);
    c->rollout = example_integer(random, 3) > 0;
}

const example route_cost_example = {
    .name = "route_cost",
    .summary = "vehicle routing: decoding, sampling, cost and baseline of REINFORCE on the device",
    .item = "instances",
    .config_size = sizeof(route_config),
    .fields = fields,
    .field_count = sizeof fields / sizeof *fields,
    .small = &small,
    .original = &original,
    .has_frozen = true,
    .baseline_reads_loss = true,
    .wrong = wrong,
    .list_parameters = list_parameters,
    .list_inputs = list_inputs,
    .build = build,
    .fill = fill,
    .fill_fixed = fill_fixed,
    .draw = draw,
    .open = open_schedules,
    .close = close_schedules,
    .before_step = before_step,
    .validated = validated,
};
