/* Vehicle routing by REINFORCE: a graph transformer chooses one customer after the other, and its log-probabilities are
   weighted by how much shorter the tour is than that of a frozen copy which decodes greedily. Encoder, every step of
   decoding, sampling, cost, baseline and loss are one recorded step: the host reads nothing.

   Shapes: B batch, N customers, n = N + 1 nodes of which 0 is the depot, H width, h heads, L layers, T decoding steps.
   Weights W are [out,in]. */
#include <math.h>
#include <stdlib.h>

#include "common/layers.h"
#include "common/reinforce.h"
#include "common/routes.h"

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
/* Settings, then N, Q, H, h, L, f, decoding steps and the baseline. */
static const route_config small = {{.batch = 16, .steps = 500, OPTIMIZER}, 10, 30, 64, 4, 2, 2, 0, 0, 1};
static const route_config original = {{.batch = 128, .steps = 275, OPTIMIZER}, 10, 20, 128, 4, 3, 2, 0, 0, 1};

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
    if (c->capacity < ROUTES_LARGEST_DEMAND)
        return "no vehicle can serve a customer whose demand is 10: Q must be at least 10";
    if (c->decode_steps < 0 || c->greedy_decode_steps < 0 || steps_of(c, false) > MAX_STEPS ||
        steps_of(c, true) > MAX_STEPS)
        return "decode_steps (2N where 0) must be at most 256";
    if (c->settings.accumulate > 1)
        return "batches are not accumulated: advantages are of one batch";
    if (c->settings.batch < 2)
        return "B must be at least 2: advantages are measured by their standard deviation over the batch";
    return NULL;
}

static void add_layer(const route_config *c, int layer, example_parameters *list)
{
    static const char *const square[] = {"q", "k", "v", "out"};
    const int64_t H = c->width;
    for (int i = 0; i < 4; i++)
        example_add_linear(list, H, H, "layers.%d.%s", layer, square[i]);
    for (int i = 1; i <= 2; i++)
        example_add_norm(list, H, "layers.%d.ln%d", layer, i);
    example_add_linear(list, H, 2 * c->factor * H, "layers.%d.ff1", layer);
    example_add_linear(list, c->factor * H, H, "layers.%d.ff2", layer);
    example_add(list, TUFF_SHAPE(BINS, c->heads), EXAMPLE_NORMAL, 0.02, "layers.%d.table", layer);
    example_add(list, TUFF_SHAPE(c->heads), EXAMPLE_CONSTANT, 0, "layers.%d.head_bias", layer);
}

static void list_parameters(const void *given, example_parameters *list)
{
    static const char *const square[] = {"state.current", "state.lin2", "update.gate2", "update.delta2",
                                         "pointer.q",     "pointer.k",  "pointer.v"};
    static const char *const norms[] = {"node.ln", "state.ln", "update.ln"};
    const route_config *c = given;
    const int64_t H = c->width;
    for (int i = 0; i < 7; i++)
        example_add_linear(list, H, H, "%s", square[i]);
    for (int i = 0; i < 3; i++)
        example_add_norm(list, H, "%s", norms[i]);
    example_add_linear(list, 3, H, "node.lin");
    example_add_linear(list, 1, H / 4, "demand.lin1");
    example_add_linear(list, H / 4, H / 4, "demand.lin2");
    example_add_linear(list, 3 * H / 2, H, "feature");
    example_add_linear(list, 2, H / 2, "coord.lin1");
    example_add_linear(list, H / 2, H / 2, "coord.lin2");
    example_add_linear(list, 3 * H / 2, H, "combine");
    example_add_linear(list, 1, H / 4, "state.visited1");
    example_add_linear(list, H / 4, H / 2, "state.visited2");
    example_add_linear(list, 1, H / 4, "state.capacity1");
    example_add_linear(list, H / 4, H / 2, "state.capacity2");
    example_add_linear(list, 2 * H, H, "state.lin1");
    example_add_linear(list, 2 * H, H, "update.gate1");
    example_add_linear(list, 2 * H, H, "update.delta1");
    example_add_linear(list, H, H / 2, "pointer.p1");
    example_add_linear(list, H / 2, c->heads, "pointer.p2");
    for (int layer = 0; layer < c->layers; layer++)
        add_layer(c, layer, list);
    example_add(list, TUFF_SHAPE(H / 4), EXAMPLE_NORMAL, 1, "depot");
    example_add(list, TUFF_SHAPE(c->heads), EXAMPLE_CONSTANT, 1, "pointer.tau");
}

enum { TEMPERATURE = 3 }; /* the index of an input */

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
    bool is_greedy;           /* the baseline: the largest logit, no dropout */
    const char *shown_as;     /* before the names of values for golden files */
    tuff_tensor *node;        /* i32 [1,n]: 0, 1, ... */
    tuff_tensor *dist, *bins; /* f32 and i32 [B,n,n] */
    tuff_tensor *demand;      /* f32 [B,n] */
    tuff_tensor *capacity;    /* f32 [B] */
    tuff_tensor *uniforms;    /* [B,T]; NULL where nothing is sampled */
    /* Of the optimized form, see `fold`. */
    tuff_tensor *bias[MAX_LAYERS], *qkv[MAX_LAYERS], *qkv_bias[MAX_LAYERS]; /* [B,h,n,n], [3H,H], [3H] */
    tuff_tensor *state, *state_bias;                                        /* [H,H+H/4+1], [H] */
    tuff_tensor *query, *query_bias;                                        /* [3H+1,H], [3H+1] */
    tuff_tensor *nodes, *advice, *advice_bias, *advice_mean;                /* [2H,H], [H/2,H], [H/2], [H/2] */
} policy;

static tuff_tensor *number(policy *p, double value)
{
    return tuff_constant(p->b->graph, TUFF_F32, value);
}

static tuff_tensor *drop(policy *p, tuff_tensor *x)
{
    return p->is_greedy ? x : example_dropout(p->b, x);
}

static tuff_tensor *weight(policy *p, const char *name)
{
    return example_parameter(p->b, "%s.weight", name);
}

static tuff_tensor *bias(policy *p, const char *name)
{
    return example_parameter(p->b, "%s.bias", name);
}

/* T_l[bin(i,j), head] + c_l[head], [B,h,n,n]. */
static tuff_tensor *distance_bias(policy *p, int layer)
{
    static const int heads_first[] = {0, 3, 1, 2};
    tuff_tensor *found = tuff_embedding(example_parameter(p->b, "layers.%d.table", layer), p->bins);
    return tuff_permute(tuff_add(found, example_parameter(p->b, "layers.%d.head_bias", layer)), heads_first);
}

/* The published form has three projections, scores in memory, and looks the bias up each time. */
static tuff_tensor *attention(policy *p, int layer, tuff_tensor *u)
{
    const route_config *c = p->b->config;
    const int64_t B = p->b->batch, n = c->customers + 1, h = c->heads, H = c->width;
    tuff_tensor *split[3],
        *qkv = p->b->optimized ? tuff_linear(u, example_turned(p->qkv[layer]), p->qkv_bias[layer]) : NULL;
    for (int i = 0; i < 3; i++)
        split[i] = tuff_reshape(qkv ? example_slice(qkv, 2, i * H, H)
                                    : example_linear(p->b, u, "layers.%d.%c", layer, "qkv"[i]),
                                TUFF_SHAPE(B, n, h, H / h));
    const double dropout = p->is_greedy ? 0 : example_dropout_of(p->b);
    const tuff_attention_options options = {.bias = p->bias[layer], .dropout = dropout};
    return tuff_reshape(p->b->optimized ? tuff_attention(split[0], split[1], split[2], &options)
                                        : example_attention_in_steps(split, distance_bias(p, layer), dropout),
                        TUFF_SHAPE(B, n, H));
}

/* x += Att(LN1 x); x += Lin(GLU(Lin(LN2 x))) */
static tuff_tensor *transform(policy *p, int layer, tuff_tensor *x)
{
    tuff_tensor *heard = attention(p, layer, example_norm(p->b, x, "layers.%d.ln1", layer));
    x = tuff_add(x, drop(p, example_linear(p->b, heard, "layers.%d.out", layer)));
    tuff_tensor *u = example_norm(p->b, x, "layers.%d.ln2", layer);
    tuff_tensor *inner = drop(p, tuff_glu(example_linear(p->b, u, "layers.%d.ff1", layer), 2));
    return tuff_add(x, drop(p, example_linear(p->b, inner, "layers.%d.ff2", layer)));
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
    tuff_tensor *seen = example_linear(p->b, example_joined(coords, demand, 2), "node.lin");
    tuff_tensor *e1 = drop(p, tuff_relu(example_norm(p->b, seen, "node.ln")));
    tuff_tensor *e2 = example_linear(p->b, tuff_relu(example_linear(p->b, demand, "demand.lin1")), "demand.lin2");
    tuff_tensor *is_depot =
        tuff_equal(tuff_reshape(p->node, TUFF_SHAPE(n, 1)), tuff_constant(p->b->graph, TUFF_I32, 0));
    tuff_tensor *e3 =
        tuff_expand(tuff_where(is_depot, example_parameter(p->b, "depot"), number(p, 0)), TUFF_SHAPE(B, n, H / 4));
    tuff_tensor *e = example_linear(p->b, tuff_concat((tuff_tensor *[]){e1, e2, e3}, 3, 2), "feature");
    tuff_tensor *place = example_linear(p->b, tuff_relu(example_linear(p->b, coords, "coord.lin1")), "coord.lin2");
    tuff_tensor *x = example_linear(
        p->b, example_joined(tuff_add(show(p, e, "embed"), example_positions(p->b->graph, n, H)), place, 2), "combine");
    show(p, x, "x0");
    for (int layer = 0; layer < c->layers; layer++)
        x = transform(p, layer, x);
    return show(p, x, "encoded");
}

/* V of visited, which is 0 or 1: [H/2]. */
static tuff_tensor *visit(policy *p, double visited)
{
    tuff_tensor *x = tuff_expand(number(p, visited), TUFF_SHAPE(1));
    return example_linear(p->b, tuff_relu(example_linear(p->b, x, "state.visited1")), "state.visited2");
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
    tuff_tensor *of_current = example_slice(lin1, 1, 0, H), *of_visited = example_slice(lin1, 1, H, H / 2),
                *of_capacity = example_slice(lin1, 1, 3 * H / 2, H / 2);
    tuff_tensor *columns[] = {tuff_matmul(of_current, weight(p, "state.current")),
                              tuff_matmul(of_capacity, weight(p, "state.capacity2")),
                              tuff_reshape(tuff_matmul(of_visited, tuff_sub(visit(p, 1), none)), TUFF_SHAPE(H, 1))};
    p->state = tuff_concat(columns, 3, 1);
    p->state_bias = tuff_add(tuff_add(tuff_matmul(of_current, bias(p, "state.current")),
                                      tuff_matmul(of_capacity, bias(p, "state.capacity2"))),
                             tuff_add(tuff_matmul(of_visited, none), bias(p, "state.lin1")));
    /* The mean over heads of q·kᵀ / (sqrt(Dh) τ) is q · (K·X + its bias), a row of q scaled as its head is; query is a
       map of ReLU∘LN of state.lin1 to what update.gate1 and update.delta1 have of s, to Kᵀ·q, and to q · bias. */
    tuff_tensor *per_head = tuff_div(number(p, 1 / (sqrt((double)(H / c->heads)) * (double)c->heads)),
                                     tuff_reshape(example_parameter(p->b, "pointer.tau"), TUFF_SHAPE(c->heads, 1)));
    tuff_tensor *scale = tuff_reshape(tuff_expand(per_head, TUFF_SHAPE(c->heads, H / c->heads)), TUFF_SHAPE(H, 1));
    tuff_tensor *q = tuff_mul(weight(p, "pointer.q"), scale), *keys = example_turned(weight(p, "pointer.k"));
    tuff_tensor *q_bias = tuff_mul(bias(p, "pointer.q"), tuff_reshape(scale, TUFF_SHAPE(H)));
    tuff_tensor *k_bias = tuff_reshape(bias(p, "pointer.k"), TUFF_SHAPE(1, H));
    tuff_tensor *gate = weight(p, "update.gate1"), *delta = weight(p, "update.delta1"), *lin2 = weight(p, "state.lin2");
    tuff_tensor *of_s[] = {example_slice(gate, 1, H, H), example_slice(delta, 1, H, H), tuff_matmul(keys, q),
                           tuff_matmul(k_bias, q)};
    tuff_tensor *shifts[] = {
        bias(p, "update.gate1"), bias(p, "update.delta1"), tuff_matmul(keys, q_bias),
        tuff_add(tuff_matmul(k_bias, q_bias), tuff_mean(bias(p, "pointer.p2"), (int[]){0}, 1, true))};
    tuff_tensor *rows = tuff_concat(of_s, 4, 0);
    p->query = tuff_matmul(rows, lin2);
    p->query_bias = tuff_add(tuff_matmul(rows, bias(p, "state.lin2")), tuff_concat(shifts, 4, 0));
    p->nodes = example_joined(example_slice(gate, 1, 0, H), example_slice(delta, 1, 0, H), 0);
    p->advice = tuff_matmul(weight(p, "pointer.p1"), weight(p, "pointer.v"));
    p->advice_bias = tuff_add(tuff_matmul(weight(p, "pointer.p1"), bias(p, "pointer.v")), bias(p, "pointer.p1"));
    p->advice_mean = tuff_mean(weight(p, "pointer.p2"), (int[]){0}, 1, false);
}

/* Where all instances of a batch stand. */
typedef struct state {
    tuff_tensor *current, *left, *visited; /* i32 [B], f32 [B], bool [B,n] */
    tuff_tensor *here;                     /* bool [B,n]: the current node */
    tuff_tensor *count, *done;             /* customers visited, f32 [B]; bool [B] */
    tuff_tensor *nodes;                    /* X [B,n,H] */
} state;

/* ReLU∘LN of state.lin1, [B,H], of which s is a linear map. */
static tuff_tensor *sense(policy *p, const state *now)
{
    const route_config *c = p->b->config;
    const int64_t B = p->b->batch, n = c->customers + 1, H = c->width;
    tuff_tensor *load = tuff_reshape(tuff_div(now->left, p->capacity), TUFF_SHAPE(B, 1));
    tuff_tensor *cp = tuff_relu(example_linear(p->b, load, "state.capacity1"));
    if (p->b->optimized) {
        /* X[c] as a sum, whose gradient is no scatter. */
        tuff_tensor *here = tuff_reshape(now->here, TUFF_SHAPE(B, n, 1));
        tuff_tensor *at = tuff_sum(tuff_where(here, now->nodes, number(p, 0)), (int[]){1}, 1, false);
        tuff_tensor *share = tuff_mul(tuff_reshape(now->count, TUFF_SHAPE(B, 1)), number(p, 1 / (double)n));
        tuff_tensor *seen = tuff_concat((tuff_tensor *[]){at, cp, share}, 3, 1);
        return tuff_relu(example_norm(p->b, tuff_linear(seen, example_turned(p->state), p->state_bias), "state.ln"));
    }
    tuff_tensor *index = tuff_reshape(now->current, TUFF_SHAPE(B, 1, 1));
    tuff_tensor *at = tuff_reshape(tuff_gather(now->nodes, index, 1), TUFF_SHAPE(B, H));
    tuff_tensor *visited = tuff_reshape(tuff_cast(now->visited, TUFF_F32), TUFF_SHAPE(B, n, 1));
    tuff_tensor *v = example_linear(p->b, tuff_relu(example_linear(p->b, visited, "state.visited1")), "state.visited2");
    tuff_tensor *seen[] = {example_linear(p->b, at, "state.current"), tuff_mean(v, (int[]){1}, 1, false),
                           example_linear(p->b, cp, "state.capacity2")};
    return tuff_relu(example_norm(p->b, example_linear(p->b, tuff_concat(seen, 3, 1), "state.lin1"), "state.ln"));
}

/* X_i += g·d·(1 - visited_i / 2), where gate and delta are update.gate1 and update.delta1 of [X_i, s]; then the
   layers. */
static tuff_tensor *update(policy *p, const state *now, tuff_tensor *gate, tuff_tensor *delta)
{
    const route_config *c = p->b->config;
    tuff_tensor *g = tuff_sigmoid(example_linear(p->b, tuff_relu(gate), "update.gate2"));
    tuff_tensor *d = example_linear(p->b, tuff_relu(example_norm(p->b, delta, "update.ln")), "update.delta2");
    tuff_tensor *weights = tuff_where(now->visited, number(p, 0.5), number(p, 1));
    weights = tuff_reshape(weights, TUFF_SHAPE(p->b->batch, c->customers + 1, 1));
    tuff_tensor *x = tuff_add(now->nodes, tuff_mul(tuff_mul(g, d), weights));
    for (int layer = 0; layer < c->layers && layer < 2; layer++)
        x = transform(p, layer, x);
    return x;
}

/* Logits [B,n] without the mask, and X of step t, from what `sense` gives. */
static tuff_tensor *point_folded(policy *p, state *now, tuff_tensor *z, bool updates)
{
    const route_config *c = p->b->config;
    const int64_t B = p->b->batch, H = c->width;
    tuff_tensor *w = tuff_reshape(tuff_linear(z, example_turned(p->query), p->query_bias), TUFF_SHAPE(B, 1, 3 * H + 1));
    if (updates) {
        tuff_tensor *u = tuff_add(tuff_matmul(now->nodes, example_turned(p->nodes)), example_slice(w, 2, 0, 2 * H));
        now->nodes = update(p, now, example_slice(u, 2, 0, H), example_slice(u, 2, H, H));
    }
    tuff_tensor *advice = tuff_relu(tuff_linear(now->nodes, example_turned(p->advice), p->advice_bias));
    tuff_tensor *match = tuff_sum(tuff_mul(now->nodes, example_slice(w, 2, 2 * H, H)), (int[]){2}, 1, false);
    tuff_tensor *advised = tuff_sum(tuff_mul(advice, p->advice_mean), (int[]){2}, 1, false);
    return tuff_add(tuff_add(match, advised), tuff_reshape(example_slice(w, 2, 3 * H, 1), TUFF_SHAPE(B, 1)));
}

/* As published: mean over heads of q·kᵀ / (sqrt(Dh) τ) + p. */
static tuff_tensor *point_in_steps(policy *p, state *now, tuff_tensor *s, bool updates)
{
    const route_config *c = p->b->config;
    const int64_t B = p->b->batch, n = c->customers + 1, H = c->width, h = c->heads;
    if (updates) {
        tuff_tensor *u =
            example_joined(now->nodes, tuff_expand(tuff_reshape(s, TUFF_SHAPE(B, 1, H)), TUFF_SHAPE(B, n, H)), 2);
        now->nodes = update(p, now, example_linear(p->b, u, "update.gate1"), example_linear(p->b, u, "update.delta1"));
    }
    tuff_tensor *q = tuff_reshape(example_linear(p->b, s, "pointer.q"), TUFF_SHAPE(B, 1, h, H / h));
    tuff_tensor *k = tuff_reshape(example_linear(p->b, now->nodes, "pointer.k"), TUFF_SHAPE(B, n, h, H / h));
    tuff_tensor *a = tuff_mul(tuff_sum(tuff_mul(q, k), (int[]){3}, 1, false), number(p, 1 / sqrt((double)(H / h))));
    a = tuff_div(a, example_parameter(p->b, "pointer.tau"));
    tuff_tensor *v = example_linear(p->b, now->nodes, "pointer.v");
    tuff_tensor *advice = example_linear(p->b, tuff_relu(example_linear(p->b, v, "pointer.p1")), "pointer.p2");
    return tuff_mean(tuff_add(a, advice), (int[]){2}, 1, false);
}

/* Sets now->count and now->done; returns what may not be chosen, bool [B,n]: a customer who was visited or demands more
   than is left, and the depot for a vehicle that stands there while customers wait. */
static tuff_tensor *look(policy *p, state *now)
{
    const route_config *c = p->b->config;
    const int64_t B = p->b->batch;
    tuff_tensor *zero = tuff_constant(p->b->graph, TUFF_I32, 0), *all = number(p, (double)c->customers);
    now->count = tuff_sum(tuff_cast(now->visited, TUFF_F32), (int[]){1}, 1, false);
    tuff_tensor *at_depot = tuff_equal(now->current, zero), *some_wait = tuff_less(now->count, all);
    now->done = tuff_and(at_depot, tuff_equal(now->count, all));
    tuff_tensor *is_depot = tuff_equal(p->node, zero);
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
        return tuff_reshape(example_slice(given, 1, t, 1), TUFF_SHAPE(B));
    }
    if (p->is_greedy)
        return tuff_argmax(logits, 1, false);
    tuff_tensor *sums = tuff_cumsum(probabilities, 1), *u = example_slice(p->uniforms, 1, t, 1);
    const int64_t n = tuff_tensor_shape(sums).extent[1];
    tuff_tensor *exceeds = tuff_less(tuff_mul(u, example_slice(sums, 1, n - 1, 1)), sums);
    return tuff_argmax(tuff_where(mask, number(p, -1), tuff_cast(exceeds, TUFF_F32)), 1, false);
}

static void move(policy *p, state *now, tuff_tensor *action)
{
    tuff_tensor *zero = tuff_constant(p->b->graph, TUFF_I32, 0);
    tuff_tensor *taken = tuff_and(now->here, tuff_less(zero, p->node));
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

/* What is shown of each step, and the actions. */
static const char *const step_names[] = {"state",   "mask", "logits",    "probs",        "capacity",
                                         "current", "done", "step_logp", "step_entropy", "actions"};
enum { SHOWN = sizeof step_names / sizeof *step_names };
typedef struct steps {
    tuff_tensor *shown[SHOWN][MAX_STEPS], *actions[MAX_STEPS + 1];
} steps;

/* Decoding step t. */
static void decode_step(policy *p, int t, state *now, rollout *sums, steps *all)
{
    const int64_t B = p->b->batch;
    tuff_tensor *zero = number(p, 0), *mask = look(p, now), *z = sense(p, now);
    tuff_tensor *s = example_linear(p->b, z, "state.lin2"); /* the optimized form shows it only */
    tuff_tensor *raw = p->b->optimized ? point_folded(p, now, z, t > 0) : point_in_steps(p, now, s, t > 0);
    tuff_tensor *logits = tuff_where(mask, number(p, -1e9), raw);
    tuff_tensor *scaled = p->is_greedy ? logits : tuff_div(logits, example_input(p->b, "temperature"));
    tuff_tensor *chances = tuff_softmax(scaled, 1), *lp = tuff_log(tuff_add(chances, number(p, 1e-10)));
    tuff_tensor *action = choose(p, t, logits, mask, chances);
    tuff_tensor *column = tuff_reshape(action, TUFF_SHAPE(B, 1));
    now->here = tuff_equal(p->node, column);
    tuff_tensor *logp = p->b->optimized ? tuff_sum(tuff_where(now->here, lp, zero), (int[]){1}, 1, false)
                                        : tuff_reshape(tuff_gather(lp, column, 1), TUFF_SHAPE(B));
    tuff_tensor *entropy = tuff_neg(tuff_sum(tuff_mul(chances, lp), (int[]){1}, 1, false));
    logp = tuff_where(now->done, zero, logp);
    entropy = tuff_where(now->done, zero, entropy);
    sums->logp = t > 0 ? tuff_add(sums->logp, logp) : logp;
    sums->entropy = t > 0 ? tuff_add(sums->entropy, entropy) : entropy;
    tuff_tensor *largest = p->is_greedy ? tuff_argmax(logits, 1, false) : action;
    tuff_tensor *shown[] = {s, mask, logits, chances, now->left, now->current, now->done, logp, entropy, largest};
    for (int i = 0; i < SHOWN; i++)
        all->shown[i][t] = shown[i];
    move(p, now, action);
    all->actions[t + 1] = action;
}

/* cost_b = Σ_t Dist_b[route_t, route_{t+1}]. */
static tuff_tensor *cost_of(policy *p, tuff_tensor *route)
{
    const int64_t B = p->b->batch, n = ((const route_config *)p->b->config)->customers + 1;
    const int64_t T = tuff_tensor_shape(route).extent[1] - 1;
    tuff_tensor *from = example_slice(route, 1, 0, T), *to = example_slice(route, 1, 1, T);
    if (p->b->optimized) {
        tuff_tensor *index = tuff_add(tuff_mul(from, tuff_constant(p->b->graph, TUFF_I32, (double)n)), to);
        return tuff_sum(tuff_gather(tuff_reshape(p->dist, TUFF_SHAPE(B, n * n)), index, 1), (int[]){1}, 1, false);
    }
    /* As published, in line: rows by the first index, elements by the second, a mask of padding, a sum. */
    tuff_tensor *rows = tuff_gather(p->dist, tuff_reshape(from, TUFF_SHAPE(B, T, 1)), 1);
    tuff_tensor *legs = tuff_reshape(tuff_gather(rows, tuff_reshape(to, TUFF_SHAPE(B, T, 1)), 2), TUFF_SHAPE(B, T));
    tuff_tensor *is_leg = tuff_cast(tuff_less(tuff_constant(p->b->graph, TUFF_I32, -1), to), TUFF_F32);
    return tuff_sum(tuff_mul(legs, is_leg), (int[]){1}, 1, false);
}

static rollout decode(policy *p)
{
    const route_config *c = p->b->config;
    const int64_t B = p->b->batch, n = c->customers + 1, T = steps_of(c, p->is_greedy);
    tuff_graph *graph = p->b->graph;
    rollout made = {0};
    steps all;
    if (p->b->optimized)
        fold(p);
    tuff_tensor *start = tuff_expand(tuff_constant(graph, TUFF_I32, 0), TUFF_SHAPE(B));
    state now = {.current = start,
                 .left = p->capacity,
                 .visited = tuff_expand(tuff_constant(graph, TUFF_BOOL, 0), TUFF_SHAPE(B, n)),
                 .here = tuff_equal(p->node, tuff_reshape(start, TUFF_SHAPE(B, 1))),
                 .nodes = encode(p)};
    all.actions[0] = start;
    for (int t = 0; t < T; t++)
        decode_step(p, t, &now, &made, &all);
    (void)look(p, &now);
    show(p, now.nodes, "nodes_last");
    for (int i = 0; i < SHOWN && p->b->purpose == EXAMPLE_CHECK; i++)
        show(p, example_stacked(all.shown[i], T), step_names[i]);
    made.route = show(p, example_stacked(all.actions, T + 1), "routes");
    made.cost = show(p, cost_of(p, made.route), "cost");
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
static void show_costs(policy *p, const rollout *made)
{
    tuff_tensor *N = number(p, (double)((const route_config *)p->b->config)->customers);
    tuff_tensor *cost[2] = {made->cost, made->cost};
    for (int i = 0; i < 2 && !p->b->optimized; i++)
        cost[i] = cost_of(p, made->route);
    tuff_tensor *per_customer = show(p, mean(tuff_div(cost[0], N)), "cost_per_customer_mean");
    tuff_tensor *geometric = tuff_exp(mean(tuff_log(tuff_div(cost[1], N))));
    example_metric(p->b, "cost", per_customer);
    example_metric(p->b, "geometric cost", show(p, geometric, "cost_per_customer_geometric"));
    example_metric(p->b, "entropy", mean(made->entropy));
    example_metric(p->b, "unfinished", made->unfinished);
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
    policy p = {.b = b, .shown_as = "", .dist = distances(b)};
    tuff_tensor *N = number(&p, (double)c->customers);
    p.bins = tuff_cast(tuff_min(tuff_mul(p.dist, number(&p, 10)), number(&p, BINS - 1)), TUFF_I32);
    p.demand = tuff_cast(example_input(b, "demand"), TUFF_F32);
    p.capacity = tuff_cast(example_input(b, "capacity"), TUFF_F32);
    p.node = tuff_iota(b->graph, TUFF_SHAPE(1, c->customers + 1), 1);
    policy greedy = p;
    greedy.is_greedy = true;
    greedy.shown_as = b->purpose == EXAMPLE_CHECK ? "greedy." : NULL;
    policy frozen = greedy;
    if (b->purpose != EXAMPLE_CHECK)
        p.uniforms = tuff_random(b->graph, TUFF_SHAPE(b->batch, steps_of(c, false)));
    show(&p, p.dist, "dist");
    show(&p, p.bins, "bins");
    const rollout made = decode(&p);
    tuff_tensor *own = made.cost, *baseline = tuff_mul(made.cost, number(&p, 0)), *other = own;
    if (b->purpose == EXAMPLE_VALIDATE && c->rollout)
        own = decode(&greedy).cost;
    if (c->rollout) {
        tuff_parameters *parameters = b->parameters;
        b->parameters = b->frozen;
        other = decode(&frozen).cost;
        b->parameters = parameters;
        baseline = tuff_div(other, N);
    }
    reinforce_add_gain(b, own, other);
    show_costs(&p, &made);
    return b->purpose == EXAMPLE_VALIDATE ? mean(tuff_div(made.cost, N)) : loss_of(&p, &made, baseline);
}

static void fill(const example_batch *batch)
{
    const route_config *c = batch->config;
    const int64_t B = batch->count, n = c->customers + 1;
    int32_t *demand = batch->inputs[1], *capacity = batch->inputs[2];
    example_random random = example_random_stream(batch->seed, 1 + (uint64_t)batch->number);
    routes_draw(&random, B, n, batch->purpose == EXAMPLE_CHECK, batch->inputs[0], demand);
    for (int64_t i = 0; i < B; i++)
        capacity[i] = (int32_t)c->capacity;
    for (int i = 0; i < (c->rollout ? 2 : 1) && batch->purpose == EXAMPLE_CHECK; i++)
        routes_draw_actions(&random, B, n, demand, (int32_t)c->capacity, steps_of(c, i == 1), batch->inputs[3 + i]);
}

static void fill_fixed(const void *config, uint64_t seed, int index, void *values)
{
    (void)config;
    (void)seed;
    *(float *)values = (float)(index == TEMPERATURE ? REINFORCE_FIRST_TEMPERATURE : REINFORCE_FIRST_ENTROPY);
}

/* The published form computes distances on the host and uploads them before the step. */
static tuff_status before_step(example_run *run)
{
    const route_config *c = run->config;
    const int64_t B = c->settings.batch, n = c->customers + 1;
    float *coords = malloc((size_t)(B * n * 2) * sizeof *coords);
    int32_t *rest = malloc((size_t)(B * (n + 1)) * sizeof *rest);
    tuff_status status = coords && rest ? reinforce_before_step(run) : TUFF_E_OOM_HOST;
    if (status == TUFF_OK && !run->optimized) {
        void *const inputs[] = {coords, rest, rest + B * n};
        fill(&(example_batch){.config = c, .seed = run->seed, .number = run->step, .count = B, .inputs = inputs});
        status = routes_upload_distances(run->plan, "dist", B, n, coords);
    }
    free(coords);
    free(rest);
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
    .open = reinforce_open,
    .close = free,
    .before_step = before_step,
    .validated = reinforce_validated,
};
