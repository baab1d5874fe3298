/* The forward pass of the models and their loss. Parameters are looked up by name; parameters.c defines them. */
#include "tools/model/model.h"

#include <stdio.h>

#define NAME_SIZE 64

/* A graph under construction: the parameters of one block share a prefix. */
typedef struct builder {
    language_model *model;
    tuff_graph *graph;
    int64_t batch, length;
    int layer;
} builder;

static tuff_tensor *weight(const builder *b, const char *name)
{
    return tuff_array_tensor(b->graph, tuff_parameters_find(b->model->parameters, name));
}

static tuff_tensor *block_weight(const builder *b, const char *part)
{
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "h.%d.%s", b->layer, part);
    return weight(b, name);
}

/* Returns `columns` columns of x, [B, T, all], from `first` on, as [B, T, heads, columns / heads]. */
static tuff_tensor *heads_of(const builder *b, tuff_tensor *x, int64_t first, int64_t columns, int64_t heads)
{
    const int64_t start[] = {0, 0, first}, stop[] = {b->batch, b->length, first + columns};
    return tuff_reshape(tuff_slice(x, start, stop, NULL), TUFF_SHAPE(b->batch, b->length, heads, columns / heads));
}

static tuff_tensor *attend(const builder *b, tuff_tensor *q, tuff_tensor *k, tuff_tensor *v)
{
    tuff_tensor *mixed = tuff_attention(q, k, v, &(tuff_attention_options){.causal = true});
    return tuff_reshape(mixed, TUFF_SHAPE(b->batch, b->length, b->model->config.width));
}

static tuff_tensor *gpt_attention(const builder *b, tuff_tensor *x)
{
    const int64_t width = b->model->config.width, heads = b->model->config.heads;
    tuff_tensor *qkv = tuff_linear(x, block_weight(b, "attn.qkv.weight"), block_weight(b, "attn.qkv.bias"));
    tuff_tensor *q = heads_of(b, qkv, 0, width, heads), *k = heads_of(b, qkv, width, width, heads);
    tuff_tensor *v = heads_of(b, qkv, 2 * width, width, heads);
    return tuff_linear(attend(b, q, k, v), block_weight(b, "attn.out.weight"), block_weight(b, "attn.out.bias"));
}

static tuff_tensor *gpt_mlp(const builder *b, tuff_tensor *x)
{
    tuff_tensor *up = tuff_linear(x, block_weight(b, "mlp.up.weight"), block_weight(b, "mlp.up.bias"));
    return tuff_linear(tuff_gelu_tanh(up), block_weight(b, "mlp.down.weight"), block_weight(b, "mlp.down.bias"));
}

static tuff_tensor *gpt_block(const builder *b, tuff_tensor *x)
{
    tuff_tensor *first = tuff_layer_norm(x, block_weight(b, "ln1.gain"), block_weight(b, "ln1.bias"), 1, 1e-5);
    x = tuff_add(x, gpt_attention(b, first));
    tuff_tensor *second = tuff_layer_norm(x, block_weight(b, "ln2.gain"), block_weight(b, "ln2.bias"), 1, 1e-5);
    return tuff_add(x, gpt_mlp(b, second));
}

static tuff_tensor *gpt_embed(const builder *b, tuff_tensor *tokens)
{
    const int64_t start[] = {0, 0}, stop[] = {b->length, b->model->config.width};
    tuff_tensor *positions = tuff_slice(weight(b, "wpe"), start, stop, NULL);
    return tuff_add(tuff_embedding(weight(b, "wte"), tokens), positions);
}

/* The output layer shares the weights of the embedding. */
static tuff_tensor *gpt_output(const builder *b, tuff_tensor *x)
{
    const int transposed[] = {1, 0};
    tuff_tensor *normed = tuff_layer_norm(x, weight(b, "ln_f.gain"), weight(b, "ln_f.bias"), 1, 1e-5);
    return tuff_matmul(normed, tuff_permute(weight(b, "wte"), transposed));
}

static tuff_tensor *llama_heads(const builder *b, tuff_tensor *x, const char *part, int64_t heads)
{
    const int64_t head_width = b->model->config.width / b->model->config.heads;
    tuff_tensor *projected = tuff_linear(x, block_weight(b, part), NULL);
    return tuff_reshape(projected, TUFF_SHAPE(b->batch, b->length, heads, head_width));
}

static tuff_tensor *llama_attention(const builder *b, tuff_tensor *x)
{
    const int64_t heads = b->model->config.heads, shared = b->model->config.key_value_heads;
    tuff_tensor *q = llama_heads(b, x, "attn.q.weight", heads), *k = llama_heads(b, x, "attn.k.weight", shared);
    tuff_tensor *v = llama_heads(b, x, "attn.v.weight", shared);
    q = tuff_rope(q, TUFF_ROPE_INTERLEAVED, 10000, 0, NULL);
    k = tuff_rope(k, TUFF_ROPE_INTERLEAVED, 10000, 0, NULL);
    return tuff_linear(attend(b, q, k, v), block_weight(b, "attn.out.weight"), NULL);
}

static tuff_tensor *llama_block(const builder *b, tuff_tensor *x)
{
    x = tuff_add(x, llama_attention(b, tuff_rms_norm(x, block_weight(b, "norm1.gain"), 1, 1e-6)));
    tuff_tensor *u = tuff_rms_norm(x, block_weight(b, "norm2.gain"), 1, 1e-6);
    tuff_tensor *gate = tuff_linear(u, block_weight(b, "mlp.gate.weight"), NULL);
    tuff_tensor *up = tuff_linear(u, block_weight(b, "mlp.up.weight"), NULL);
    return tuff_add(x, tuff_linear(tuff_swiglu(gate, up), block_weight(b, "mlp.down.weight"), NULL));
}

static tuff_tensor *llama_embed(const builder *b, tuff_tensor *tokens)
{
    return tuff_embedding(weight(b, "wte"), tokens);
}

static tuff_tensor *llama_output(const builder *b, tuff_tensor *x)
{
    return tuff_matmul(tuff_rms_norm(x, weight(b, "norm_f.gain"), 1, 1e-6), weight(b, "output.weight"));
}

/* The parts of a model form. embed: tokens [B, T] -> [B, T, C]; block: keeps that shape; output: [..., C] -> logits. */
typedef struct form_rule {
    tuff_tensor *(*embed)(const builder *b, tuff_tensor *tokens);
    tuff_tensor *(*block)(const builder *b, tuff_tensor *x);
    tuff_tensor *(*output)(const builder *b, tuff_tensor *x);
} form_rule;

static const form_rule forms[] = {
    [MODEL_GPT] = {.embed = gpt_embed, .block = gpt_block, .output = gpt_output},
    [MODEL_LLAMA] = {.embed = llama_embed, .block = llama_block, .output = llama_output},
};

static builder make_builder(language_model *self, tuff_graph *graph, tuff_tensor *tokens)
{
    const tuff_shape shape = tuff_tensor_shape(tokens);
    return (builder){.model = self, .graph = graph, .batch = shape.extent[0], .length = shape.extent[1]};
}

/* Returns the output of the last block: [B, T, C]. */
static tuff_tensor *run_blocks(builder *b, tuff_tensor *tokens)
{
    const form_rule *form = &forms[b->model->config.form];
    tuff_tensor *x = form->embed(b, tokens);
    for (b->layer = 0; b->layer < b->model->config.layers; b->layer++) {
        tuff_tensor *result = form->block(b, x);
        x = b->model->recompute ? tuff_recompute(result, &x, 1) : result;
    }
    return x;
}

tuff_tensor *model_logits(language_model *self, tuff_graph *graph, tuff_tensor *tokens)
{
    builder b = make_builder(self, graph, tokens);
    return forms[self->config.form].output(&b, run_blocks(&b, tokens));
}

/* Only the requested row goes through the output layer, which is the widest of all. */
tuff_tensor *model_next_logits(language_model *self, tuff_graph *graph, tuff_tensor *tokens, tuff_tensor *position)
{
    builder b = make_builder(self, graph, tokens);
    tuff_tensor *rows = tuff_reshape(run_blocks(&b, tokens), TUFF_SHAPE(b.length, self->config.width));
    tuff_tensor *row = tuff_gather_rows(rows, tuff_reshape(position, TUFF_SHAPE(1)), 0);
    return tuff_reshape(forms[self->config.form].output(&b, row), TUFF_SHAPE(self->config.vocabulary));
}

tuff_tensor *model_loss(language_model *self, tuff_graph *graph, tuff_tensor *windows, tuff_tensor **logits)
{
    const int64_t batch = tuff_tensor_shape(windows).extent[0], length = tuff_tensor_shape(windows).extent[1] - 1;
    const int64_t first[] = {0, 0}, last[] = {batch, length}, second[] = {0, 1}, end[] = {batch, length + 1};
    tuff_tensor *tokens = tuff_slice(windows, first, last, NULL), *targets = tuff_slice(windows, second, end, NULL);
    tuff_tensor *all = model_logits(self, graph, tokens);
    if (logits)
        *logits = all;
    tuff_tensor *rows = tuff_reshape(all, TUFF_SHAPE(batch * length, self->config.vocabulary));
    return tuff_cross_entropy(rows, tuff_reshape(targets, TUFF_SHAPE(batch * length)), -1, 0);
}

tuff_optimizer_options model_optimizer_options(double learning_rate, int64_t steps)
{
    const int64_t tenth = steps / 10, warmup = tenth < 1 ? 1 : tenth > 100 ? 100 : tenth;
    return (tuff_optimizer_options){.kind = TUFF_ADAMW,
                                    .learning_rate = learning_rate,
                                    .beta1 = 0.9,
                                    .beta2 = 0.95,
                                    .weight_decay = 0.1,
                                    .clip_norm = 1,
                                    .warmup_steps = steps > 1 ? warmup : 0,
                                    .total_steps = steps,
                                    .final_fraction = 0.1};
}
