/* A dense language model, and one whose blocks are the nodes of a tree: the output of a node goes to its children, and
   the outputs of the leaves are averaged. A step updates only the few nodes with the largest gradients. Texts are
   learned one after another; after each, the earlier ones are evaluated again.

   Shapes: B batch, S words per window, P positions, V vocabulary, D width, n heads, F inner width, N blocks or nodes.
   Matrices are [out,in]. The children of node p are branching·p + 1 and following. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/example.h"
#include "common/layers.h"
#include "common/texts.h"

typedef struct k1_config {
    example_settings settings;
    int64_t window, positions, vocabulary, width, heads, inner, layers;
    int64_t tree; /* the tree model, else the dense one */
    int64_t depth, branching, kept;
    int64_t squares, subtree; /* how nodes are scored: see `fields` */
    int64_t next;             /* 1: predict the next word, as is usual; 0: as published, targets are shifted twice */
} k1_config;

#define INTEGER(member, name, meaning) EXAMPLE_INTEGER(k1_config, member, name, meaning)
static const example_field fields[] = {
    INTEGER(window, "S", "words per window"),
    INTEGER(positions, "P", "learned position embeddings"),
    INTEGER(vocabulary, "V", "vocabulary size, including four special words"),
    INTEGER(width, "D", "width"),
    INTEGER(heads, "n", "heads"),
    INTEGER(inner, "F", "inner width"),
    INTEGER(layers, "L", "layers of the dense model"),
    INTEGER(tree, "tree", "1: tree model, 0: dense model"),
    INTEGER(depth, "depth", "levels of the tree"),
    INTEGER(branching, "branching", "children per node"),
    INTEGER(kept, "top_k", "nodes updated per step"),
    INTEGER(squares, "l2", "score of a node; 1: norm of all its gradients, 0: sum of the norms of its tensors"),
    INTEGER(subtree, "subtree", "1: a node's score and update include its whole subtree"),
    INTEGER(next, "next_word", "1: predict the next word, 0: the one after it, as published"),
};

#define OPTIMIZER \
    .rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.01, .clip_norm = 1, .final_rate = 1
#define SIZES(S, V, D, F) .window = S, .positions = 64, .vocabulary = V, .width = D, .heads = 4, .inner = F, .layers = 4
#define TREE .tree = 1, .depth = 3, .branching = 3, .kept = 5
static const k1_config small = {
    .settings = {.batch = 32, .steps = 600, .dropout = 0.1, OPTIMIZER}, SIZES(32, 1000, 64, 128), TREE};
static const k1_config original = {
    .settings = {.batch = 256, .steps = 60000, .dropout = 0.1, OPTIMIZER}, SIZES(64, 10000, 128, 256), TREE};

enum { MAX_DEPTH = 4, MAX_NODES = 40, KINDS = 12 };

/* Number of nodes on a level, and index of its first node. */
static int64_t level_count(const k1_config *c, int level)
{
    return level == 0 ? 1 : c->branching * level_count(c, level - 1);
}

static int64_t level_begin(const k1_config *c, int level)
{
    return level == 0 ? 0 : level_begin(c, level - 1) + level_count(c, level - 1);
}

static int64_t node_count(const k1_config *c)
{
    return c->tree ? level_begin(c, (int)c->depth) : c->layers;
}

static const char *check_config(const void *given)
{
    const k1_config *c = given;
    if (c->window < 1 || c->width < 1 || c->heads < 1 || c->inner < 1 || c->layers < 1)
        return "S, D, n, F and L must be at least 1";
    if (c->window < 2 && !c->next)
        return "S must be at least 2 if next_word is 0";
    if (c->positions < c->window)
        return "P must be at least S";
    if (c->vocabulary <= EXAMPLE_SPECIAL_WORDS)
        return "V must be at least 5, with four special words";
    if (c->width % c->heads != 0)
        return "D must be a multiple of n";
    if (c->depth < 1 || c->depth > MAX_DEPTH || c->branching < 1 || c->branching > 3)
        return "depth must be 1 to 4, branching 1 to 3";
    if (c->tree && (c->kept < 1 || c->kept > node_count(c)))
        return "top_k must be at least 1 and at most the number of nodes";
    return NULL;
}

/* Adds a tensor to every block. In the dense model all layers start as copies of one, except that matrices are drawn
   anew. */
static void add_each(const k1_config *c, example_parameters *list, tuff_shape shape, example_init_kind kind,
                     double scale, const char *name)
{
    int first = -1;
    for (int v = 0; v < node_count(c); v++)
        if (first >= 0 && !c->tree && shape.rank == 1)
            example_add_parameter_copy(list, first, "layers.%d.%s", v, name);
        else
            first = example_add_parameter(list, shape, kind, scale, "%s.%d.%s", c->tree ? "nodes" : "layers", v, name);
}

/* The twelve tensors of a block are ordered by kind, so that tensors of the same kind are adjacent across blocks. */
static void list_parameters(const void *given, example_parameters *list)
{
    const k1_config *c = given;
    const int64_t V = c->vocabulary, D = c->width, F = c->inner;
    const double d = (double)D, f = (double)F, inner = sqrt(6 / (d + f)), words = sqrt(6 / (d + (double)V));
    example_add_parameter(list, TUFF_SHAPE(V, D), EXAMPLE_UNIFORM, words, "Emb");
    example_add_parameter(list, TUFF_SHAPE(c->positions, D), EXAMPLE_UNIFORM, sqrt(6 / (d + (double)c->positions)),
                          "pos");
    add_each(c, list, TUFF_SHAPE(3 * D, D), EXAMPLE_UNIFORM, sqrt(6 / (4 * d)), "in_proj.weight");
    add_each(c, list, TUFF_SHAPE(3 * D), EXAMPLE_CONSTANT, 0, "in_proj.bias");
    add_each(c, list, TUFF_SHAPE(D, D), EXAMPLE_UNIFORM, sqrt(3 / d), "out_proj.weight");
    add_each(c, list, TUFF_SHAPE(D), EXAMPLE_CONSTANT, 0, "out_proj.bias");
    add_each(c, list, TUFF_SHAPE(D), EXAMPLE_CONSTANT, 1, "ln1.gain");
    add_each(c, list, TUFF_SHAPE(D), EXAMPLE_CONSTANT, 0, "ln1.bias");
    add_each(c, list, TUFF_SHAPE(F, D), EXAMPLE_UNIFORM, inner, "W1");
    add_each(c, list, TUFF_SHAPE(F), EXAMPLE_UNIFORM, 1 / sqrt(d), "b1");
    add_each(c, list, TUFF_SHAPE(D, F), EXAMPLE_UNIFORM, inner, "W2");
    add_each(c, list, TUFF_SHAPE(D), EXAMPLE_UNIFORM, 1 / sqrt(f), "b2");
    add_each(c, list, TUFF_SHAPE(D), EXAMPLE_CONSTANT, 1, "ln2.gain");
    add_each(c, list, TUFF_SHAPE(D), EXAMPLE_CONSTANT, 0, "ln2.bias");
    example_add_parameter(list, TUFF_SHAPE(D), EXAMPLE_CONSTANT, 1, "ln_out.gain");
    example_add_parameter(list, TUFF_SHAPE(D), EXAMPLE_CONSTANT, 0, "ln_out.bias");
    example_add_parameter(list, TUFF_SHAPE(V, D), EXAMPLE_UNIFORM, words, "Wo");
    example_add_parameter(list, TUFF_SHAPE(V), EXAMPLE_UNIFORM, 1 / sqrt(d), "bo");
}
enum { FIRST_OF_BLOCKS = 2 }; /* index of in_proj.weight of block 0 */

static void list_inputs(const void *given, example_purpose purpose, example_inputs *list)
{
    const k1_config *c = given;
    if (purpose != EXAMPLE_CHECK)
        example_texts_inputs(purpose, list);
    else
        for (int i = 0; i < 2; i++)
            example_add_input(list, i == 0 ? "x" : "y", TUFF_I32, TUFF_SHAPE(c->window));
}

/* Nodes computed side by side: all children of one or more parents. The published form computes one node at a time. */
enum { ON_PROBABILITIES, ON_ATTENTION, ON_INNER, ON_OUTER, DROPOUTS };
typedef struct block {
    example_build *b;
    int64_t first, parents, each;
    tuff_tensor *const *noise; /* dropout factors for the whole level, [nodes of the level, ...]; NULL: drawn here */
    int64_t within;            /* index of the node within its level */
} block;

/* A tensor of these nodes as [parents, each, ...]; biases, gains and the like as [parents, each, 1, ...]. */
static tuff_tensor *stack_rows(const block *at, const char *name)
{
    const k1_config *c = at->b->config;
    tuff_tensor *parts[MAX_NODES];
    const int count = (int)(at->parents * at->each);
    tuff_shape shape = TUFF_SHAPE(at->parents, at->each, 1, 0);
    for (int i = 0; i < count; i++) {
        tuff_tensor *part =
            example_parameter(at->b, "%s.%d.%s", c->tree ? "nodes" : "layers", (int)at->first + i, name);
        const tuff_shape own = tuff_tensor_shape(part);
        shape.extent[2] = own.rank == 2 ? own.extent[0] : 1;
        shape.extent[3] = own.extent[own.rank - 1];
        parts[i] = tuff_reshape(part, TUFF_SHAPE(1, shape.extent[2], shape.extent[3]));
    }
    return tuff_reshape(count == 1 ? parts[0] : tuff_concat(parts, count, 0), shape);
}

/* x[parents, 1 or each, rows, in] · Wᵀ + b */
static tuff_tensor *linear(const block *at, tuff_tensor *x, const char *weight, const char *bias)
{
    static const int transposed[] = {0, 1, 3, 2};
    return tuff_add(tuff_matmul(x, tuff_permute(stack_rows(at, weight), transposed)), stack_rows(at, bias));
}

static tuff_tensor *layer_norm(const block *at, tuff_tensor *x, const char *gain, const char *bias)
{
    return tuff_add(tuff_mul(tuff_layer_norm(x, NULL, NULL, 1, 1e-5), stack_rows(at, gain)), stack_rows(at, bias));
}

/* Applies dropout to x. If factors were drawn for the whole level, uses the part that belongs to the node. */
static tuff_tensor *drop(const block *at, tuff_tensor *x, int which)
{
    if (!at->noise || example_dropout_probability(at->b) == 0)
        return example_dropout(at->b, x);
    const int64_t count = tuff_shape_count(tuff_tensor_shape(x));
    const int64_t start[] = {at->within, 0}, stop[] = {at->within + 1, count};
    tuff_tensor *rows = tuff_reshape(at->noise[which], TUFF_SHAPE(-1, count));
    return tuff_mul(x, tuff_reshape(tuff_slice(rows, start, stop, NULL), tuff_tensor_shape(x)));
}

/* Attention as published: the mask is rebuilt in every call, heads are copied to the front, and scores and
   probabilities are stored in memory. The mean of the probabilities over the heads is computed although nothing uses
   it. */
static tuff_tensor *attention_in_steps(const block *at, tuff_tensor *const qkv[3])
{
    static const int heads_first[] = {0, 2, 1, 3}, transposed[] = {0, 1, 3, 2}, heads[] = {1};
    example_build *b = at->b;
    const tuff_shape shape = tuff_tensor_shape(qkv[0]); /* [B, S, n, D/n] */
    const int64_t S = shape.extent[1];
    tuff_tensor *q = example_copy(b, tuff_permute(qkv[0], heads_first));
    tuff_tensor *k = example_copy(b, tuff_permute(qkv[1], heads_first));
    tuff_tensor *v = example_copy(b, tuff_permute(qkv[2], heads_first));
    tuff_tensor *scale = tuff_constant(b->graph, TUFF_F32, 1 / sqrt((double)shape.extent[3]));
    tuff_tensor *scores = tuff_matmul(tuff_mul(q, scale), tuff_permute(k, transposed));
    tuff_tensor *future = tuff_less(tuff_iota(b->graph, TUFF_SHAPE(S, S), 0), tuff_iota(b->graph, TUFF_SHAPE(S, S), 1));
    scores = tuff_where(future, tuff_constant(b->graph, TUFF_F32, -INFINITY), scores);
    tuff_tensor *probabilities = drop(at, tuff_softmax(scores, 3), ON_PROBABILITIES);
    char name[32];
    snprintf(name, sizeof name, "attention of block %d", (int)at->first);
    if (b->purpose == EXAMPLE_TRAIN)
        tuff_output(b->graph, name, tuff_mean(probabilities, heads, 1, false));
    return example_copy(b, tuff_permute(tuff_matmul(probabilities, v), heads_first));
}

/* h = LN1(z + drop(attention)), then LN2(h + drop(W2·drop(gelu(W1·h)))).
   [parents, 1, B·S, D] -> [parents, each, B·S, D]. */
static tuff_tensor *run_block(const block *at, tuff_tensor *z)
{
    const k1_config *c = at->b->config;
    const int64_t B = at->b->batch, S = c->window, D = c->width, n = c->heads, nodes = at->parents * at->each;
    tuff_tensor *projected =
        tuff_reshape(linear(at, z, "in_proj.weight", "in_proj.bias"), TUFF_SHAPE(nodes * B, S, 3 * D));
    tuff_tensor *qkv[3];
    for (int i = 0; i < 3; i++)
        qkv[i] = tuff_reshape(example_slice(projected, 2, i * D, D), TUFF_SHAPE(nodes * B, S, n, D / n));
    const tuff_attention_options options = {.causal = true, .dropout = example_dropout_probability(at->b)};
    tuff_tensor *attended =
        at->b->optimized ? tuff_attention(qkv[0], qkv[1], qkv[2], &options) : attention_in_steps(at, qkv);
    attended = tuff_reshape(attended, TUFF_SHAPE(at->parents, at->each, B * S, D));
    tuff_tensor *out = drop(at, linear(at, attended, "out_proj.weight", "out_proj.bias"), ON_ATTENTION);
    tuff_tensor *h = layer_norm(at, tuff_add(z, out), "ln1.gain", "ln1.bias");
    tuff_tensor *inner = drop(at, tuff_gelu(linear(at, h, "W1", "b1")), ON_INNER);
    return layer_norm(at, tuff_add(h, drop(at, linear(at, inner, "W2", "b2"), ON_OUTER)), "ln2.gain", "ln2.bias");
}

static tuff_tensor *output(example_build *b, tuff_tensor *h, const char *name, int64_t number)
{
    const k1_config *c = b->config;
    if (b->purpose == EXAMPLE_CHECK)
        example_named_output(b, tuff_reshape(h, TUFF_SHAPE(b->batch, c->window, c->width)), number < 0 ? "%s" : "%s%d",
                             name, (int)number);
    return h;
}

static tuff_tensor *layers(example_build *b, tuff_tensor *h)
{
    const k1_config *c = b->config;
    for (int64_t i = 0; i < c->layers; i++)
        h = output(b, run_block(&(block){.b = b, .first = i, .parents = 1, .each = 1}, h), "layer", i);
    return h;
}

/* The tree in the optimized form, level by level: the weights of a level are joined into one operand. */
static tuff_tensor *tree_by_levels(example_build *b, tuff_tensor *h)
{
    const k1_config *c = b->config;
    const int64_t rows = b->batch * c->window, D = c->width;
    for (int level = 0; level < c->depth; level++) {
        const int64_t parents = level > 0 ? level_count(c, level - 1) : 1, first = level_begin(c, level);
        const block at = {.b = b, .first = first, .parents = parents, .each = level > 0 ? c->branching : 1};
        h = run_block(&at, tuff_reshape(h, TUFF_SHAPE(parents, 1, rows, D)));
        tuff_tensor *nodes = tuff_reshape(h, TUFF_SHAPE(level_count(c, level), rows, D));
        for (int64_t i = 0; i < level_count(c, level) && b->purpose == EXAMPLE_CHECK; i++)
            output(b, example_slice(nodes, 0, i, 1), "node", first + i);
    }
    return tuff_mean(h, (int[]){0, 1}, 2, false);
}

/* Draws the dropout factors of a level in the order of the level-wise form, so that both forms drop the same
   elements. */
static void draw_noise(example_build *b, int level, tuff_tensor **noise)
{
    const k1_config *c = b->config;
    const int64_t B = b->batch, S = c->window, nodes = level_count(c, level);
    tuff_tensor *one = tuff_constant(b->graph, TUFF_F32, 1);
    noise[ON_PROBABILITIES] = example_dropout(b, tuff_expand(one, TUFF_SHAPE(nodes * B, c->heads, S, S)));
    noise[ON_ATTENTION] = example_dropout(b, tuff_expand(one, TUFF_SHAPE(nodes, B * S, c->width)));
    noise[ON_INNER] = example_dropout(b, tuff_expand(one, TUFF_SHAPE(nodes, B * S, c->inner)));
    noise[ON_OUTER] = example_dropout(b, tuff_expand(one, TUFF_SHAPE(nodes, B * S, c->width)));
}

/* The tree as published: g(v, z) is z' = node v applied to z if v is a leaf, else the mean of g(child, z'). */
static tuff_tensor *tree_by_nodes(example_build *b, int64_t v, int level, tuff_tensor *z,
                                  tuff_tensor *noise[][DROPOUTS])
{
    const k1_config *c = b->config;
    const block at = {
        .b = b, .first = v, .parents = 1, .each = 1, .noise = noise[level], .within = v - level_begin(c, level)};
    z = output(b, run_block(&at, z), "node", v);
    if (level + 1 == c->depth)
        return z;
    tuff_tensor *sum = NULL;
    for (int64_t i = 1; i <= c->branching; i++) {
        tuff_tensor *below = tree_by_nodes(b, c->branching * v + i, level + 1, z, noise);
        sum = sum ? tuff_add(sum, below) : below;
    }
    return tuff_mul(sum, tuff_constant(b->graph, TUFF_F32, 1 / (double)c->branching));
}

static tuff_tensor *tree(example_build *b, tuff_tensor *h)
{
    const k1_config *c = b->config;
    tuff_tensor *noise[MAX_DEPTH][DROPOUTS];
    if (b->optimized)
        return tree_by_levels(b, h);
    for (int level = 0; level < c->depth; level++)
        draw_noise(b, level, noise[level]);
    return tree_by_nodes(b, 0, 0, h, noise);
}

/* The texts to learn, and how often each node was updated. */
typedef struct training_texts {
    example_texts *texts;
    tuff_array *kept; /* f32 [N]: number of steps that updated a node */
} training_texts;

/* Cross-entropy of logits [B, S, V]. Position t predicts y[t + 1], which is word t + 2; with next_word, y[t]. The
   published form copies the logits that count; the optimized form ignores the last position instead. */
static tuff_tensor *loss_of(example_build *b, tuff_tensor *logits, tuff_tensor *y)
{
    const k1_config *c = b->config;
    const int64_t B = b->batch, S = c->window, V = c->vocabulary;
    const int64_t before[] = {0, 0}, after[] = {0, 1};
    int64_t rows = B * S;
    if (!c->next) {
        y = example_slice(y, 1, 1, S - 1);
        if (b->optimized) {
            y = tuff_pad(y, before, after, EXAMPLE_IGNORED_WORD);
        } else {
            logits = example_copy(b, example_slice(logits, 1, 0, S - 1));
            rows = B * (S - 1);
        }
    }
    return tuff_cross_entropy(tuff_reshape(logits, TUFF_SHAPE(rows, V)), tuff_reshape(y, TUFF_SHAPE(rows)),
                              EXAMPLE_IGNORED_WORD, 0);
}

static tuff_tensor *build(example_build *b)
{
    const k1_config *c = b->config;
    const int64_t B = b->batch, S = c->window, V = c->vocabulary, D = c->width;
    tuff_tensor *x = NULL, *y = NULL;
    if (b->purpose != EXAMPLE_CHECK) {
        example_texts_read_windows(((training_texts *)b->data)->texts, b, &x, &y);
    } else {
        x = example_input(b, "x");
        y = example_input(b, "y");
    }
    tuff_tensor *positions = example_slice(example_parameter(b, "pos"), 0, 0, S);
    tuff_tensor *h = tuff_add(tuff_embedding(example_parameter(b, "Emb"), x), positions);
    h = tuff_reshape(output(b, h, "h_embed", -1), TUFF_SHAPE(1, 1, B * S, D));
    h = tuff_reshape(c->tree ? tree(b, h) : layers(b, h), TUFF_SHAPE(B, S, D));
    if (c->tree)
        output(b, h, "h_tree", -1);
    h = example_norm(b, h, "ln_out");
    output(b, h, "h_out", -1);
    tuff_tensor *words = example_transpose(example_parameter(b, "Wo"));
    tuff_tensor *logits = tuff_linear(tuff_reshape(h, TUFF_SHAPE(B * S, D)), words, example_parameter(b, "bo"));
    return loss_of(b, example_named_output(b, tuff_reshape(logits, TUFF_SHAPE(B, S, V)), "logits"), y);
}

/* Whether v is the node `top` or a descendant of it. */
static bool is_below(const k1_config *c, int64_t v, int64_t top)
{
    while (v > top)
        v = (v - 1) / c->branching;
    return v == top;
}

/* Lists nodes depth-first, the order in which the published program breaks ties. */
static int list_nodes(const k1_config *c, int32_t v, int32_t *order, int count)
{
    order[count++] = v;
    for (int32_t i = 1; i <= c->branching && c->branching * v + i < node_count(c); i++)
        count = list_nodes(c, (int32_t)c->branching * v + i, order, count);
    return count;
}

/* Scores [N] of the nodes by their own tensors. In the published form each norm is an output, which the host reads. */
static tuff_tensor *own_scores(example_build *b, const tuff_update_choice *choice)
{
    static const int axes[] = {0, 1};
    const k1_config *c = b->config;
    const int N = (int)node_count(c), together = b->optimized ? N : 1;
    tuff_tensor *own[MAX_NODES] = {NULL}, *parts[MAX_NODES];
    for (int kind = 0; kind < KINDS; kind++)
        for (int v = 0; v < N; v += together) {
            const int index = FIRST_OF_BLOCKS + kind * N + v;
            for (int i = 0; i < together; i++) {
                const int64_t count = tuff_shape_count(tuff_tensor_shape(choice->gradients[index + i]));
                parts[i] = tuff_reshape(choice->gradients[index + i], TUFF_SHAPE(1, count));
            }
            tuff_tensor *g = tuff_concat(parts, together, 0);
            tuff_tensor *squares = tuff_sum(tuff_mul(g, g), axes + 1, 1, false), *norm = tuff_sqrt(squares);
            char name[32];
            snprintf(name, sizeof name, "norm.%d", index);
            if (!b->optimized && b->purpose == EXAMPLE_TRAIN)
                tuff_output(b->graph, name, norm);
            tuff_tensor *term = c->squares ? squares : norm;
            own[v] = own[v] ? tuff_add(own[v], term) : term;
        }
    return together == 1 ? tuff_concat(own, N, 0) : own[0];
}

/* Flags of the nodes that a step updates, [N]: 1 or 0. */
static tuff_tensor *choose_nodes(example_build *b, tuff_tensor *own)
{
    static const int first[] = {0};
    const k1_config *c = b->config;
    const int64_t N = node_count(c), k = c->kept;
    float counts[MAX_NODES * MAX_NODES], above[MAX_NODES * MAX_NODES];
    int32_t order[MAX_NODES];
    list_nodes(c, 0, order, 0);
    for (int64_t i = 0; i < N * N; i++) {
        const bool counted = c->subtree ? is_below(c, i % N, order[i / N]) : i % N == order[i / N];
        const bool over = c->subtree ? is_below(c, i / N, i % N) : i / N == i % N;
        counts[i] = counted ? 1 : 0;
        above[i] = over ? 1 : 0;
    }
    tuff_tensor *which = tuff_constant_data(b->graph, TUFF_F32, TUFF_SHAPE(N, N), counts), *places;
    tuff_tensor *scores = tuff_matmul(which, own);
    (void)tuff_top_k(scores, k, 0, &places);
    tuff_tensor *ids = tuff_gather_rows(tuff_constant_data(b->graph, TUFF_I32, TUFF_SHAPE(N), order), places, 0);
    tuff_tensor *same = tuff_equal(tuff_reshape(ids, TUFF_SHAPE(k, 1)), tuff_iota(b->graph, TUFF_SHAPE(k, N), 1));
    tuff_tensor *dropped =
        tuff_sub(tuff_constant(b->graph, TUFF_F32, 1), tuff_reduce_max(tuff_cast(same, TUFF_F32), first, 1, false));
    tuff_tensor *missing = tuff_matmul(tuff_constant_data(b->graph, TUFF_F32, TUFF_SHAPE(N, N), above), dropped);
    tuff_tensor *kept = tuff_cast(tuff_equal(missing, tuff_constant(b->graph, TUFF_F32, 0)), TUFF_F32);
    example_named_output(b, c->squares ? tuff_sqrt(scores) : scores, "scores");
    return example_named_output(b, kept, "kept");
}

static tuff_status choose(example_build *b, const tuff_update_choice *choice)
{
    const k1_config *c = b->config;
    training_texts *data = b->data;
    if (!c->tree)
        return TUFF_OK;
    tuff_tensor *kept = choose_nodes(b, own_scores(b, choice)), *flags = tuff_cast(kept, TUFF_BOOL);
    for (int64_t v = 0; v < node_count(c); v++) {
        tuff_tensor *own = tuff_reshape(example_slice(flags, 0, v, 1), TUFF_SCALAR);
        for (int kind = 0; kind < KINDS; kind++)
            choice->masks[FIRST_OF_BLOCKS + kind * node_count(c) + v] = own;
    }
    if (data)
        tuff_assign(b->graph, data->kept, tuff_add(tuff_array_tensor(b->graph, data->kept), kept));
    return TUFF_OK;
}

/* Nodes that are not updated get a gradient of zero: their moments decay, and moments and weight decay still move
   them. */
static void optimizer(const void *config, tuff_optimizer_options *options)
{
    options->zero_masked = ((const k1_config *)config)->tree;
}

static void close_training_texts(void *data)
{
    training_texts *self = data;
    tuff_array_destroy(self->kept);
    example_texts_destroy(self->texts);
    free(self);
}

static void *create_training_texts(tuff_device *device, const k1_config *c, example_texts *texts)
{
    training_texts *made = texts ? calloc(1, sizeof *made) : NULL;
    tuff_array *kept = made ? tuff_array_create(device, TUFF_F32, TUFF_SHAPE(node_count(c))) : NULL;
    if (!kept) {
        free(made);
        example_texts_destroy(texts);
        return NULL;
    }
    *made = (training_texts){.texts = texts, .kept = kept};
    return made;
}

static void *open_generated(tuff_device *device, const void *config, uint64_t seed)
{
    const k1_config *c = config;
    return create_training_texts(device, c, example_texts_generate(device, seed, c->window, c->vocabulary));
}

static void *open_files(tuff_device *device, const void *config, uint64_t seed, const char *paths)
{
    const k1_config *c = config;
    (void)seed;
    return create_training_texts(device, c, example_texts_read(device, "k1_tree", paths, c->window, c->vocabulary));
}

static void fill(const example_batch *batch)
{
    const k1_config *c = batch->config;
    example_random random = example_random_stream(batch->seed, 1 + (uint64_t)batch->number);
    if (batch->purpose == EXAMPLE_VALIDATE)
        example_texts_fill(((const training_texts *)batch->data)->texts, batch);
    for (int i = 0; i < 2 && batch->purpose == EXAMPLE_CHECK; i++)
        for (int64_t k = 0; k < batch->count * c->window; k++)
            ((int32_t *)batch->inputs[i])[k] = (int32_t)example_integer(&random, c->vocabulary);
}

/* The published program reads the norm of every tensor and chooses on the host. Here the norms are only read: the
   device chooses in both forms, so that both make the same step. */
static tuff_status read_norms(const example_run *run)
{
    tuff_plan *plan = run->update ? run->update : run->plan;
    float norm = 0;
    tuff_status status = TUFF_OK;
    for (int i = 0; i < KINDS * (int)node_count(run->config) && status == TUFF_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "norm.%d", FIRST_OF_BLOCKS + i);
        status = tuff_plan_read(plan, name, &norm, sizeof norm);
    }
    return status;
}

static tuff_status print_kept(example_run *run)
{
    const training_texts *data = run->data;
    float kept[MAX_NODES];
    const int N = (int)node_count(run->config);
    const tuff_status status = tuff_array_read(data->kept, kept, (size_t)N * sizeof *kept);
    printf("updates per node");
    for (int v = 0; v < N && status == TUFF_OK; v++)
        printf("  %d: %.0f", v, (double)kept[v]);
    printf("\n");
    return status;
}

static tuff_status before_step(example_run *run)
{
    return example_texts_before_step(((training_texts *)run->data)->texts, run);
}

static tuff_status after_step(example_run *run)
{
    const k1_config *c = run->config;
    const training_texts *data = run->data;
    tuff_status status = c->tree && !run->optimized ? read_norms(run) : TUFF_OK;
    if (status != TUFF_OK || !example_texts_has_learned(data->texts, run))
        return status;
    status = example_texts_evaluate(data->texts, run);
    return status == TUFF_OK && c->tree ? print_kept(run) : status;
}

static double words_of(const void *config)
{
    return (double)((const k1_config *)config)->window;
}

static void draw_config(void *config, example_random *random)
{
    static const int64_t head_counts[] = {1, 2, 3, 4};
    k1_config *c = config;
    c->settings.batch = 1 + example_integer(random, 4);
    c->settings.dropout = example_integer(random, 2) ? 0.1 : 0;
    c->window = example_random_extent(random, 33);
    c->positions = c->window + example_integer(random, 3);
    c->vocabulary = EXAMPLE_SPECIAL_WORDS + example_random_extent(random, 97);
    c->heads = example_pick(random, head_counts, 4);
    c->width = c->heads * example_random_extent(random, 17);
    c->inner = example_random_extent(random, 65);
    c->layers = 1 + example_integer(random, 3);
    c->tree = example_integer(random, 3) > 0;
    c->depth = 1 + example_integer(random, 3);
    c->branching = 1 + example_integer(random, 3);
    c->kept = 1 + example_integer(random, node_count(c));
    c->squares = example_integer(random, 2);
    c->subtree = example_integer(random, 2);
    c->next = example_integer(random, 4) == 0;
}

const example k1_tree_example = {
    .name = "k1_tree",
    .summary = "a dense language model, and a tree of blocks of which a step updates those with the largest gradients",
    .item = "words",
    .config_size = sizeof(k1_config),
    .fields = fields,
    .field_count = sizeof fields / sizeof *fields,
    .small = &small,
    .original = &original,
    .is_evaluated = true,
    .baseline_reads_loss = true,
    .check_config = check_config,
    .list_parameters = list_parameters,
    .list_inputs = list_inputs,
    .build = build,
    .fill = fill,
    .draw_config = draw_config,
    .open = open_generated,
    .open_file = open_files,
    .file_help = "texts to learn one after another, separated by commas (three synthetic languages)",
    .reads_several_files = true,
    .close = close_training_texts,
    .items = words_of,
    .optimizer = optimizer,
    .choose = choose,
    .before_step = before_step,
    .after_step = after_step,
};
