/* Vehicle routing by REINFORCE: a graph transformer chooses one customer after another. Its log-probabilities are
   weighted by how much shorter the tour is than that of a frozen copy that decodes greedily. Encoder, all decoding
   steps, sampling, cost, baseline and loss are one recorded step: the host reads nothing.

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
    int64_t rollout;                           /* the baseline is a greedy rollout; else there is no baseline */
} route_config;

#define INTEGER(member, name, meaning) EXAMPLE_INTEGER(route_config, member, name, meaning)
static const example_field fields[] = {
    INTEGER(customers, "N", "customers"),
    INTEGER(capacity, "Q", "capacity of a vehicle; demands are 1 to 10"),
    INTEGER(width, "H", "width"),
    INTEGER(heads, "h", "heads"),
    INTEGER(layers, "L", "layers of the encoder; the decoder shares the first two"),
    INTEGER(factor, "f", "inner width of a layer, as a multiple of H"),
    INTEGER(decode_steps, "decode_steps", "decoding steps; 0: 2N, which is always enough"),
    INTEGER(greedy_decode_steps, "greedy_decode_steps", "the same for the greedy rollout"),
    INTEGER(rollout, "rollout", "1: baseline from a greedy rollout of a frozen copy, 0: no baseline"),
};

#define OPTIMIZER                                                                                      \
    .rate = 1e-4, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 1e-4, .clip_norm = 1, \
    .final_rate = 0.01, .epoch_steps = 25, .dropout = 0.1
/* Settings, then N, Q, H, h, L, f, decode_steps, greedy_decode_steps, rollout. */
static const route_config small = {{.batch = 16, .steps = 500, OPTIMIZER}, 10, 30, 64, 4, 2, 2, 0, 0, 1};
static const route_config original = {{.batch = 128, .steps = 275, OPTIMIZER}, 10, 20, 128, 4, 3, 2, 0, 0, 1};

static int64_t steps_of(const route_config *c, bool greedy)
{
    const int64_t set = greedy ? c->greedy_decode_steps : c->decode_steps;
    return set > 0 ? set : 2 * c->customers;
}

static const char *check_config(const void *given)
{
    const route_config *c = given;
    if (c->customers < 1 || c->heads < 1 || c->factor < 1 || c->layers < 1 || c->layers > MAX_LAYERS)
        return "N, h and f must be at least 1, and L 1 to 12";
    if (c->width < 4 || c->width % 4 != 0 || c->width % c->heads != 0)
        return "H must be a multiple of 4 and of h";
    if (c->capacity < ROUTES_LARGEST_DEMAND)
        return "Q must be at least 10, the largest demand";
    if (c->decode_steps < 0 || c->greedy_decode_steps < 0 || steps_of(c, false) > MAX_STEPS ||
        steps_of(c, true) > MAX_STEPS)
        return "decode_steps and greedy_decode_steps (2N if 0) must be 0 to 256";
    if (c->settings.accumulate > 1)
        return "accumulate must be at most 1: advantages are normalized within a batch";
    if (c->settings.batch < 2)
        return "B must be at least 2: advantages are normalized by their standard deviation over the batch";
    return NULL;
}

static void add_layer(const route_config *c, int layer, example_parameters *list)
{
    const int64_t H = c->width;
    for (int i = 0; i < 4; i++)
        example_add_linear(list, H, H, "layers.%d.%s", layer, (const char *[]){"q", "k", "v", "out"}[i]);
    for (int i = 1; i <= 2; i++)
        example_add_norm(list, H, "layers.%d.ln%d", layer, i);
    example_add_linear(list, H, 2 * c->factor * H, "layers.%d.ff1", layer);
    example_add_linear(list, c->factor * H, H, "layers.%d.ff2", layer);
    example_add_parameter(list, TUFF_SHAPE(BINS, c->heads), EXAMPLE_NORMAL, 0.02, "layers.%d.table", layer);
    example_add_parameter(list, TUFF_SHAPE(c->heads), EXAMPLE_CONSTANT, 0, "layers.%d.head_bias", layer);
}

static void list_parameters(const void *given, example_parameters *list)
{
    const route_config *c = given;
    const int64_t H = c->width;
    example_add_linear(list, 2, H / 2, "coord.lin1");
    example_add_linear(list, H / 2, H / 2, "coord.lin2");
    example_add_linear(list, 3, H, "node.lin");
    example_add_linear(list, H / 4, H / 4, "demand.lin2");
    example_add_linear(list, H, H / 2, "pointer.p1");
    example_add_linear(list, H / 2, c->heads, "pointer.p2");
    example_add_linears(list, 1, H / 4, "demand.lin1 state.visited1 state.capacity1");
    example_add_linears(list, H / 4, H / 2, "state.visited2 state.capacity2");
    example_add_linears(list, 3 * H / 2, H, "feature combine");
    example_add_linears(list, 2 * H, H, "state.lin1 update.gate1 update.delta1");
    example_add_linears(list, H, H,
                        "state.current state.lin2 update.gate2 update.delta2 pointer.q pointer.k pointer.v");
    example_add_norm(list, H, "node.ln");
    example_add_norm(list, H, "state.ln");
    example_add_norm(list, H, "update.ln");
    for (int layer = 0; layer < c->layers; layer++)
        add_layer(c, layer, list);
    example_add_parameter(list, TUFF_SHAPE(H / 4), EXAMPLE_NORMAL, 1, "depot");
    example_add_parameter(list, TUFF_SHAPE(c->heads), EXAMPLE_CONSTANT, 1, "pointer.tau");
}

enum { TEMPERATURE = 3 }; /* index in list_inputs */

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

/* A policy: the values that all of its decoding steps share. */
typedef struct policy {
    example_build *b;
    const route_config *c;
    int64_t B, n, H;
    bool is_greedy;            /* for the baseline: takes the largest logit, no dropout */
    const char *output_prefix; /* prefix of the names given to example_named_output; NULL: no outputs */
    routes_state start;        /* initial state of all vehicles */
    tuff_tensor *dist, *bins;  /* f32 and i32 [B,n,n] */
    tuff_tensor *uniforms;     /* [B,T]; NULL if nothing is sampled */
    /* Only in the optimized form, see `fold_matrices`. */
    tuff_tensor *bias[MAX_LAYERS], *qkv[MAX_LAYERS], *qkv_bias[MAX_LAYERS]; /* [B,h,n,n], [3H,H], [3H] */
    tuff_tensor *state, *state_bias;                                        /* [H,H+H/4+1], [H] */
    tuff_tensor *query, *query_bias;                                        /* [3H+1,H], [3H+1] */
    tuff_tensor *nodes, *advice, *advice_bias, *advice_mean;                /* [2H,H], [H/2,H], [H/2], [H/2] */
} policy;

static tuff_tensor *constant(policy *p, double value)
{
    return tuff_constant(p->b->graph, TUFF_F32, value);
}

/* The sum over an axis, which is removed. */
static tuff_tensor *total(tuff_tensor *x, int axis)
{
    return tuff_sum(x, &axis, 1, false);
}

static tuff_tensor *mean(tuff_tensor *x)
{
    return tuff_mean(x, (int[]){0}, 1, false);
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

/* Attention bias T_l[bin(i,j), head] + c_l[head], [B,h,n,n]. */
static tuff_tensor *distance_bias(policy *p, int layer)
{
    static const int heads_first[] = {0, 3, 1, 2};
    tuff_tensor *found = tuff_embedding(example_parameter(p->b, "layers.%d.table", layer), p->bins);
    return tuff_permute(tuff_add(found, example_parameter(p->b, "layers.%d.head_bias", layer)), heads_first);
}

/* The published form uses three projections, stores scores in memory, and looks the bias up every time. */
static tuff_tensor *attention(policy *p, int layer, tuff_tensor *u)
{
    const int64_t B = p->B, n = p->n, h = p->c->heads, H = p->H;
    tuff_tensor *split[3],
        *qkv = p->b->optimized ? tuff_linear(u, example_transpose(p->qkv[layer]), p->qkv_bias[layer]) : NULL;
    for (int i = 0; i < 3; i++)
        split[i] = tuff_reshape(qkv ? example_slice(qkv, 2, i * H, H)
                                    : example_linear(p->b, u, "layers.%d.%c", layer, "qkv"[i]),
                                TUFF_SHAPE(B, n, h, H / h));
    const double dropout = p->is_greedy ? 0 : example_dropout_probability(p->b);
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

static tuff_tensor *output(policy *p, tuff_tensor *value, const char *name)
{
    return p->output_prefix ? example_named_output(p->b, value, "%s%s", p->output_prefix, name) : value;
}

/* Encodes the nodes, [B,n,H]. */
static tuff_tensor *encode(policy *p)
{
    const int64_t B = p->B, n = p->n, H = p->H;
    tuff_tensor *coords = example_input(p->b, "coords"), *demand = tuff_reshape(p->start.demand, TUFF_SHAPE(B, n, 1));
    tuff_tensor *seen = example_linear(p->b, example_concat(coords, demand, 2), "node.lin");
    tuff_tensor *e1 = drop(p, tuff_relu(example_norm(p->b, seen, "node.ln")));
    tuff_tensor *e2 = example_linear(p->b, tuff_relu(example_linear(p->b, demand, "demand.lin1")), "demand.lin2");
    tuff_tensor *is_depot =
        tuff_equal(tuff_reshape(p->start.node, TUFF_SHAPE(n, 1)), example_integer_constant(p->b, 0));
    tuff_tensor *e3 = tuff_where(is_depot, example_parameter(p->b, "depot"), constant(p, 0));
    e3 = tuff_expand(e3, TUFF_SHAPE(B, n, H / 4));
    tuff_tensor *e = example_linear(p->b, tuff_concat((tuff_tensor *[]){e1, e2, e3}, 3, 2), "feature");
    tuff_tensor *place = example_linear(p->b, tuff_relu(example_linear(p->b, coords, "coord.lin1")), "coord.lin2");
    e = tuff_add(output(p, e, "embed"), example_positions(p->b->graph, n, H));
    tuff_tensor *x = example_linear(p->b, example_concat(e, place, 2), "combine");
    output(p, x, "x0");
    for (int layer = 0; layer < p->c->layers; layer++)
        x = transform(p, layer, x);
    return output(p, x, "encoded");
}

/* V for a value of visited, 0 or 1: [H/2]. */
static tuff_tensor *embed_visited(policy *p, double visited)
{
    tuff_tensor *x = tuff_expand(constant(p, visited), TUFF_SHAPE(1));
    return example_linear(p->b, tuff_relu(example_linear(p->b, x, "state.visited1")), "state.visited2");
}

/* In the optimized form, multiplies the matrices of consecutive linear maps once for all decoding steps: in a step,
   state, query and keys remain as products by `state`, `query`, `nodes` and `advice`. */
static void fold_matrices(policy *p)
{
    const int64_t H = p->H;
    for (int layer = 0; layer < p->c->layers; layer++) {
        tuff_tensor *weights[3], *biases[3];
        for (int i = 0; i < 3; i++) {
            weights[i] = example_parameter(p->b, "layers.%d.%c.weight", layer, "qkv"[i]);
            biases[i] = example_parameter(p->b, "layers.%d.%c.bias", layer, "qkv"[i]);
        }
        p->qkv[layer] = tuff_concat(weights, 3, 0);
        p->qkv_bias[layer] = tuff_concat(biases, 3, 0);
        p->bias[layer] = distance_bias(p, layer);
    }
    /* state.lin1 applied to [Lin(X[c]), mean V, Cp] is state · [X[c], ReLU(Lin(r/Q)), fraction of visited nodes] +
       state_bias. */
    tuff_tensor *lin1 = weight(p, "state.lin1"), *none = embed_visited(p, 0);
    tuff_tensor *of_current = example_slice(lin1, 1, 0, H), *of_visited = example_slice(lin1, 1, H, H / 2),
                *of_capacity = example_slice(lin1, 1, 3 * H / 2, H / 2);
    tuff_tensor *columns[] = {
        tuff_matmul(of_current, weight(p, "state.current")), tuff_matmul(of_capacity, weight(p, "state.capacity2")),
        tuff_reshape(tuff_matmul(of_visited, tuff_sub(embed_visited(p, 1), none)), TUFF_SHAPE(H, 1))};
    p->state = tuff_concat(columns, 3, 1);
    p->state_bias = tuff_add(tuff_add(tuff_matmul(of_current, bias(p, "state.current")),
                                      tuff_matmul(of_capacity, bias(p, "state.capacity2"))),
                             tuff_add(tuff_matmul(of_visited, none), bias(p, "state.lin1")));
    /* The mean over heads of q·kᵀ / (sqrt(Dh) τ) is q' · (K·X + bias), where q' is q with each row scaled by the factor
       of its head. `query` maps ReLU(LN(state.lin1)) to the contributions of s to update.gate1 and update.delta1, to
       Kᵀ·q', and to q' · bias. */
    tuff_tensor *per_head = tuff_div(constant(p, 1 / (sqrt((double)(H / p->c->heads)) * (double)p->c->heads)),
                                     tuff_reshape(example_parameter(p->b, "pointer.tau"), TUFF_SHAPE(p->c->heads, 1)));
    tuff_tensor *scale =
        tuff_reshape(tuff_expand(per_head, TUFF_SHAPE(p->c->heads, H / p->c->heads)), TUFF_SHAPE(H, 1));
    tuff_tensor *q = tuff_mul(weight(p, "pointer.q"), scale), *keys = example_transpose(weight(p, "pointer.k"));
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
    p->nodes = example_concat(example_slice(gate, 1, 0, H), example_slice(delta, 1, 0, H), 0);
    p->advice = tuff_matmul(weight(p, "pointer.p1"), weight(p, "pointer.v"));
    p->advice_bias = tuff_add(tuff_matmul(weight(p, "pointer.p1"), bias(p, "pointer.v")), bias(p, "pointer.p1"));
    p->advice_mean = tuff_mean(weight(p, "pointer.p2"), (int[]){0}, 1, false);
}

/* State of all instances of a batch during decoding. */
typedef struct state {
    routes_state at;
    tuff_tensor *nodes; /* X [B,n,H] */
} state;

/* ReLU(LN(state.lin1)), [B,H]; s is a linear map of it. */
static tuff_tensor *encode_state(policy *p, const state *now)
{
    const int64_t B = p->B, n = p->n, H = p->H;
    tuff_tensor *load = tuff_reshape(tuff_div(now->at.left, now->at.capacity), TUFF_SHAPE(B, 1));
    tuff_tensor *cp = tuff_relu(example_linear(p->b, load, "state.capacity1"));
    if (p->b->optimized) {
        /* X[c] as a masked sum, because the gradient of a gather would be a scatter. */
        tuff_tensor *here = tuff_reshape(now->at.here, TUFF_SHAPE(B, n, 1));
        tuff_tensor *at = total(tuff_where(here, now->nodes, constant(p, 0)), 1);
        tuff_tensor *share = tuff_mul(tuff_reshape(now->at.count, TUFF_SHAPE(B, 1)), constant(p, 1 / (double)n));
        tuff_tensor *seen = tuff_concat((tuff_tensor *[]){at, cp, share}, 3, 1);
        return tuff_relu(example_norm(p->b, tuff_linear(seen, example_transpose(p->state), p->state_bias), "state.ln"));
    }
    tuff_tensor *index = tuff_reshape(now->at.current, TUFF_SHAPE(B, 1, 1));
    tuff_tensor *at = tuff_reshape(tuff_gather(now->nodes, index, 1), TUFF_SHAPE(B, H));
    tuff_tensor *visited = tuff_reshape(tuff_cast(now->at.visited, TUFF_F32), TUFF_SHAPE(B, n, 1));
    tuff_tensor *v = example_linear(p->b, tuff_relu(example_linear(p->b, visited, "state.visited1")), "state.visited2");
    tuff_tensor *seen[] = {example_linear(p->b, at, "state.current"), tuff_mean(v, (int[]){1}, 1, false),
                           example_linear(p->b, cp, "state.capacity2")};
    return tuff_relu(example_norm(p->b, example_linear(p->b, tuff_concat(seen, 3, 1), "state.lin1"), "state.ln"));
}

/* X_i += g·d·(1 - visited_i / 2), where gate and delta are update.gate1 and update.delta1 of [X_i, s]; then up to two
   layers. */
static tuff_tensor *update(policy *p, const state *now, tuff_tensor *gate, tuff_tensor *delta)
{
    tuff_tensor *g = tuff_sigmoid(example_linear(p->b, tuff_relu(gate), "update.gate2"));
    tuff_tensor *d = example_linear(p->b, tuff_relu(example_norm(p->b, delta, "update.ln")), "update.delta2");
    tuff_tensor *weights = tuff_where(now->at.visited, constant(p, 0.5), constant(p, 1));
    weights = tuff_reshape(weights, TUFF_SHAPE(p->B, p->n, 1));
    tuff_tensor *x = tuff_add(now->nodes, tuff_mul(tuff_mul(g, d), weights));
    for (int layer = 0; layer < p->c->layers && layer < 2; layer++)
        x = transform(p, layer, x);
    return x;
}

/* Returns the logits [B,n] before masking, and updates X, from the result of `encode_state`. */
static tuff_tensor *score_nodes(policy *p, state *now, tuff_tensor *z, bool updates)
{
    const int64_t B = p->B, H = p->H;
    tuff_tensor *w =
        tuff_reshape(tuff_linear(z, example_transpose(p->query), p->query_bias), TUFF_SHAPE(B, 1, 3 * H + 1));
    if (updates) {
        tuff_tensor *u = tuff_add(tuff_matmul(now->nodes, example_transpose(p->nodes)), example_slice(w, 2, 0, 2 * H));
        now->nodes = update(p, now, example_slice(u, 2, 0, H), example_slice(u, 2, H, H));
    }
    tuff_tensor *advice = tuff_relu(tuff_linear(now->nodes, example_transpose(p->advice), p->advice_bias));
    tuff_tensor *match = total(tuff_mul(now->nodes, example_slice(w, 2, 2 * H, H)), 2);
    tuff_tensor *advised = total(tuff_mul(advice, p->advice_mean), 2);
    return tuff_add(tuff_add(match, advised), tuff_reshape(example_slice(w, 2, 3 * H, 1), TUFF_SHAPE(B, 1)));
}

/* The same as published: mean over heads of q·kᵀ / (sqrt(Dh) τ) + p. */
static tuff_tensor *score_nodes_in_steps(policy *p, state *now, tuff_tensor *s, bool updates)
{
    const int64_t B = p->B, n = p->n, H = p->H, h = p->c->heads;
    if (updates) {
        tuff_tensor *u =
            example_concat(now->nodes, tuff_expand(tuff_reshape(s, TUFF_SHAPE(B, 1, H)), TUFF_SHAPE(B, n, H)), 2);
        now->nodes = update(p, now, example_linear(p->b, u, "update.gate1"), example_linear(p->b, u, "update.delta1"));
    }
    tuff_tensor *q = tuff_reshape(example_linear(p->b, s, "pointer.q"), TUFF_SHAPE(B, 1, h, H / h));
    tuff_tensor *k = tuff_reshape(example_linear(p->b, now->nodes, "pointer.k"), TUFF_SHAPE(B, n, h, H / h));
    tuff_tensor *a = tuff_mul(total(tuff_mul(q, k), 3), constant(p, 1 / sqrt((double)(H / h))));
    a = tuff_div(a, example_parameter(p->b, "pointer.tau"));
    tuff_tensor *v = example_linear(p->b, now->nodes, "pointer.v");
    tuff_tensor *advice = example_linear(p->b, tuff_relu(example_linear(p->b, v, "pointer.p1")), "pointer.p2");
    return tuff_mean(tuff_add(a, advice), (int[]){2}, 1, false);
}

/* Returns the action of step t, i32 [B]: the given one in checks, the largest logit if greedy, else a sample. */
static tuff_tensor *choose(policy *p, int t, tuff_tensor *logits, tuff_tensor *mask, tuff_tensor *probabilities)
{
    const int64_t B = p->B;
    if (p->b->purpose == EXAMPLE_CHECK) {
        tuff_tensor *given = example_input(p->b, p->is_greedy ? "greedy_actions" : "actions");
        return tuff_reshape(example_slice(given, 1, t, 1), TUFF_SHAPE(B));
    }
    if (p->is_greedy)
        return tuff_argmax(logits, 1, false);
    return reinforce_sample(probabilities, mask, example_slice(p->uniforms, 1, t, 1));
}

/* Result of decoding: sums over the steps [B], the route i32 [B,T+1], and its cost [B]. */
typedef struct rollout {
    tuff_tensor *logp, *entropy, *route, *cost;
    tuff_tensor *unfinished; /* rank 0: fraction of the instances that need more steps */
} rollout;

/* Values of each step that are passed to example_named_output, and the actions. */
static const char *const step_names[] = {"state",   "mask", "logits",    "probs",        "capacity",
                                         "current", "done", "step_logp", "step_entropy", "actions"};
enum { STEP_OUTPUTS = sizeof step_names / sizeof *step_names };
typedef struct steps {
    tuff_tensor *outputs[STEP_OUTPUTS][MAX_STEPS], *actions[MAX_STEPS + 1];
} steps;

static void decode_step(policy *p, int t, state *now, rollout *sums, steps *all)
{
    tuff_tensor *zero = constant(p, 0), *mask = routes_mask(&now->at), *z = encode_state(p, now);
    tuff_tensor *s = example_linear(p->b, z, "state.lin2"); /* in the optimized form only an output */
    tuff_tensor *raw = p->b->optimized ? score_nodes(p, now, z, t > 0) : score_nodes_in_steps(p, now, s, t > 0);
    tuff_tensor *logits = tuff_where(mask, constant(p, -1e9), raw);
    tuff_tensor *scaled = p->is_greedy ? logits : tuff_div(logits, example_input(p->b, "temperature"));
    tuff_tensor *chances = tuff_softmax(scaled, 1), *lp = tuff_log(tuff_add(chances, constant(p, 1e-10)));
    tuff_tensor *action = choose(p, t, logits, mask, chances);
    const routes_state before = now->at;
    routes_move(&now->at, action);
    tuff_tensor *column = tuff_reshape(action, TUFF_SHAPE(p->B, 1));
    tuff_tensor *logp = p->b->optimized ? total(tuff_where(now->at.here, lp, zero), 1)
                                        : tuff_reshape(tuff_gather(lp, column, 1), TUFF_SHAPE(p->B));
    tuff_tensor *entropy = tuff_neg(total(tuff_mul(chances, lp), 1));
    logp = tuff_where(before.done, zero, logp);
    entropy = tuff_where(before.done, zero, entropy);
    sums->logp = t > 0 ? tuff_add(sums->logp, logp) : logp;
    sums->entropy = t > 0 ? tuff_add(sums->entropy, entropy) : entropy;
    tuff_tensor *largest = p->is_greedy ? tuff_argmax(logits, 1, false) : action;
    tuff_tensor *outputs[] = {s,           mask, logits,  chances, before.left, before.current,
                              before.done, logp, entropy, largest};
    for (int i = 0; i < STEP_OUTPUTS; i++)
        all->outputs[i][t] = outputs[i];
    all->actions[t + 1] = action;
}

/* cost_b = Σ_t Dist_b[route_t, route_{t+1}]. */
static tuff_tensor *cost_of(policy *p, tuff_tensor *route)
{
    const int64_t B = p->B, n = p->n, T = tuff_tensor_shape(route).extent[1] - 1;
    tuff_tensor *from = example_slice(route, 1, 0, T), *to = example_slice(route, 1, 1, T);
    if (p->b->optimized) {
        tuff_tensor *index = tuff_add(tuff_mul(from, example_integer_constant(p->b, n)), to);
        return total(tuff_gather(tuff_reshape(p->dist, TUFF_SHAPE(B, n * n)), index, 1), 1);
    }
    /* As in the published code: rows by the first index, elements by the second, a mask for padding, a sum. */
    tuff_tensor *rows = tuff_gather(p->dist, tuff_reshape(from, TUFF_SHAPE(B, T, 1)), 1);
    tuff_tensor *legs = tuff_reshape(tuff_gather(rows, tuff_reshape(to, TUFF_SHAPE(B, T, 1)), 2), TUFF_SHAPE(B, T));
    tuff_tensor *is_leg = tuff_cast(tuff_less(example_integer_constant(p->b, -1), to), TUFF_F32);
    return total(tuff_mul(legs, is_leg), 1);
}

static rollout decode(policy *p)
{
    const int64_t T = steps_of(p->c, p->is_greedy);
    rollout made = {0};
    steps all;
    if (p->b->optimized)
        fold_matrices(p);
    state now = {.at = p->start, .nodes = encode(p)};
    all.actions[0] = now.at.current;
    for (int t = 0; t < T; t++)
        decode_step(p, t, &now, &made, &all);
    output(p, now.nodes, "nodes_last");
    for (int i = 0; i < STEP_OUTPUTS && p->b->purpose == EXAMPLE_CHECK; i++)
        output(p, example_stack(all.outputs[i], T), step_names[i]);
    made.route = output(p, example_stack(all.actions, T + 1), "routes");
    made.cost = output(p, cost_of(p, made.route), "cost");
    made.unfinished = tuff_sub(constant(p, 1), mean(tuff_cast(now.at.done, TUFF_F32)));
    return made;
}

/* Distances f32 [B,n,n]. The published form computes them on the host and uploads them one instance at a time. */
static tuff_tensor *distances(policy *p)
{
    const int64_t B = p->B, n = p->n;
    if (!p->b->optimized && p->b->purpose == EXAMPLE_TRAIN)
        return tuff_input(p->b->graph, "dist", TUFF_F32, TUFF_SHAPE(B, n, n));
    tuff_tensor *coords = example_input(p->b, "coords");
    tuff_tensor *apart =
        tuff_sub(tuff_reshape(coords, TUFF_SHAPE(B, n, 1, 2)), tuff_reshape(coords, TUFF_SHAPE(B, 1, n, 2)));
    return tuff_sqrt(total(tuff_mul(apart, apart), 3));
}

/* Mean and geometric mean of cost / N. The published code repeats the computation of the cost for each. */
static void output_costs(policy *p, const rollout *made)
{
    tuff_tensor *N = constant(p, (double)p->c->customers);
    tuff_tensor *cost[2] = {made->cost, made->cost};
    for (int i = 0; i < 2 && !p->b->optimized; i++)
        cost[i] = cost_of(p, made->route);
    tuff_tensor *per_customer = output(p, mean(tuff_div(cost[0], N)), "cost_per_customer_mean");
    tuff_tensor *geometric = tuff_exp(mean(tuff_log(tuff_div(cost[1], N))));
    example_add_metric(p->b, "cost", per_customer);
    example_add_metric(p->b, "geometric cost", output(p, geometric, "cost_per_customer_geometric"));
    example_add_metric(p->b, "entropy", mean(made->entropy));
    example_add_metric(p->b, "unfinished", made->unfinished);
}

static tuff_tensor *build(example_build *b)
{
    const route_config *c = b->config;
    policy p = {.b = b, .c = c, .B = b->batch, .n = c->customers + 1, .H = c->width, .output_prefix = ""};
    p.dist = distances(&p);
    tuff_tensor *N = constant(&p, (double)c->customers);
    p.bins = tuff_cast(tuff_min(tuff_mul(p.dist, constant(&p, 10)), constant(&p, BINS - 1)), TUFF_I32);
    p.start = routes_start(tuff_cast(example_input(b, "demand"), TUFF_F32),
                           tuff_cast(example_input(b, "capacity"), TUFF_F32));
    policy greedy = p;
    greedy.is_greedy = true;
    greedy.output_prefix = b->purpose == EXAMPLE_CHECK ? "greedy." : NULL;
    policy frozen = greedy;
    if (b->purpose != EXAMPLE_CHECK)
        p.uniforms = tuff_random(b->graph, TUFF_SHAPE(b->batch, steps_of(c, false)));
    output(&p, p.dist, "dist");
    output(&p, p.bins, "bins");
    const rollout made = decode(&p);
    tuff_tensor *own = made.cost, *baseline = tuff_mul(made.cost, constant(&p, 0)), *other = own;
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
    output_costs(&p, &made);
    return b->purpose == EXAMPLE_VALIDATE ? mean(tuff_div(made.cost, N))
                                          : reinforce_loss(b, made.cost, baseline, made.logp, made.entropy);
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

/* Uploads the distances before each step in the published form, which computes them on the host. */
static tuff_status before_step(example_run *run)
{
    const route_config *c = run->config;
    const int64_t B = c->settings.batch, n = c->customers + 1;
    float *coords = malloc((size_t)(B * (3 * n + 1)) * sizeof *coords);
    int32_t *demand = (int32_t *)(void *)(coords + B * n * 2);
    tuff_status status = coords ? reinforce_before_step(run) : TUFF_E_OOM_HOST;
    if (status == TUFF_OK && !run->optimized) {
        void *const inputs[] = {coords, demand, demand + B * n};
        fill(&(example_batch){.config = c, .seed = run->seed, .number = run->step, .count = B, .inputs = inputs});
        status = routes_upload_distances(run->plan, "dist", B, n, coords);
    }
    free(coords);
    return status;
}

static void draw_config(void *config, example_random *random)
{
    static const int64_t head_counts[] = {1, 2, 3, 4};
    route_config *c = config;
    c->settings.batch = 2 + example_integer(random, 3);
    c->settings.dropout = example_integer(random, 2) ? 0.1 : 0;
    c->customers = example_random_extent(random, 7);
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
    .check_config = check_config,
    .list_parameters = list_parameters,
    .list_inputs = list_inputs,
    .build = build,
    .fill = fill,
    .fill_fixed = fill_fixed,
    .draw_config = draw_config,
    .open = reinforce_open,
    .optimizer = reinforce_optimizer,
    .close = free,
    .before_step = before_step,
    .after_validation = reinforce_after_validation,
    .write_state = reinforce_write_state,
    .read_state = reinforce_read_state,
};
