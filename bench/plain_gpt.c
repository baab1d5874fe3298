/* Forward, backward and update of a GPT-2 with tied embeddings, in the manner of llm.c (Karpathy 2024): one function
   per op and direction, activations kept for the backward pass, OpenMP over independent rows or columns. */
#include "bench/plain_gpt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows that a matmul's loops process together, so that each weight is loaded once for several rows. */
#define ROWS 4

enum { LN1_GAIN, LN1_BIAS, QKV_W, QKV_B, OUT_W, OUT_B, LN2_GAIN, LN2_BIAS, UP_W, UP_B, DOWN_W, DOWN_B, BLOCK_PARTS };

static const char *const part_names[BLOCK_PARTS] = {
    "ln1.gain", "ln1.bias", "attn.qkv.weight", "attn.qkv.bias", "attn.out.weight", "attn.out.bias",
    "ln2.gain", "ln2.bias", "mlp.up.weight",   "mlp.up.bias",   "mlp.down.weight", "mlp.down.bias"};

/* Parameters, or their gradients: pointers into one allocation. */
typedef struct weights {
    float *wte, *wpe, *lnf_gain, *lnf_bias;
    float **blocks; /* [layers][BLOCK_PARTS] */
} weights;

/* The activations of a block that its backward pass needs; x is its input. */
typedef struct activations {
    float *x, *ln1, *mean1, *scale1, *qkv, *probabilities, *mixed, *middle, *ln2, *mean2, *scale2, *up, *gelu;
} activations;

struct plain_gpt {
    plain_gpt_options options;
    size_t rows, parameter_count, decayed; /* rows: tokens per step; decayed: parameters with weight decay, which come
                                             first */
    float *slab, *gradient_slab, *first_moment, *second_moment;
    weights w, g;
    activations *blocks;
    float *last, *normed, *mean, *scale, *logits;        /* after the last block */
    float *dx, *dnormed, *dqkv, *dup, *dmixed, *dscores; /* gradients of activations, shared by all blocks */
    float *zeros;                                        /* the bias of matmuls without one */
    int step;
    void *owned[128];
    int owned_count, failed;
};

static float *allocate(plain_gpt *self, size_t count)
{
    float *made = self->owned_count < 128 ? calloc(count, sizeof *made) : NULL;
    if (made)
        self->owned[self->owned_count++] = made;
    else
        self->failed = 1;
    return made;
}

static size_t part_size(const plain_gpt_options *model, int part)
{
    const size_t c = (size_t)model->width;
    const size_t sizes[BLOCK_PARTS] = {c, c, 3 * c * c, 3 * c, c * c, c, c, c, 4 * c * c, 4 * c, 4 * c * c, c};
    return sizes[part];
}

static int is_matrix(int part)
{
    return part == QKV_W || part == OUT_W || part == UP_W || part == DOWN_W;
}

/* Lays out the parameters in the slab, with those that have weight decay, the matrices, first. If slab is NULL, only
   counts them. Returns their number. */
static size_t lay_out(const plain_gpt_options *model, float *slab, weights *out, size_t *decayed)
{
    const size_t c = (size_t)model->width, parts = (size_t)model->layers * BLOCK_PARTS;
    size_t at = 0;
    out->wte = slab + at;
    at += (size_t)model->vocabulary * c;
    out->wpe = slab + at;
    at += (size_t)model->context * c;
    for (int matrices = 1; matrices >= 0; matrices--) {
        for (size_t i = 0; i < parts; i++) {
            const int part = (int)(i % BLOCK_PARTS);
            if (is_matrix(part) != matrices)
                continue;
            if (out->blocks)
                out->blocks[i] = slab + at;
            at += part_size(model, part);
        }
        if (matrices)
            *decayed = at;
    }
    out->lnf_gain = slab + at;
    out->lnf_bias = slab + at + c;
    return at + 2 * c;
}

static void allocate_activations(plain_gpt *self, activations *a)
{
    const size_t n = self->rows, c = (size_t)self->options.width, t = (size_t)self->options.context;
    a->x = allocate(self, n * c);
    a->ln1 = allocate(self, n * c);
    a->mean1 = allocate(self, n);
    a->scale1 = allocate(self, n);
    a->qkv = allocate(self, n * 3 * c);
    a->probabilities = allocate(self, n * (size_t)self->options.heads * t);
    a->mixed = allocate(self, n * c);
    a->middle = allocate(self, n * c);
    a->ln2 = allocate(self, n * c);
    a->mean2 = allocate(self, n);
    a->scale2 = allocate(self, n);
    a->up = allocate(self, n * 4 * c);
    a->gelu = allocate(self, n * 4 * c);
}

static void allocate_buffers(plain_gpt *self)
{
    const size_t n = self->rows, c = (size_t)self->options.width;
    self->last = allocate(self, n * c);
    self->normed = allocate(self, n * c);
    self->mean = allocate(self, n);
    self->scale = allocate(self, n);
    self->logits = allocate(self, n * (size_t)self->options.vocabulary);
    self->dx = allocate(self, n * c);
    self->zeros = allocate(self, c);
    self->dnormed = allocate(self, n * c);
    self->dmixed = allocate(self, n * c);
    self->dqkv = allocate(self, n * 3 * c);
    self->dup = allocate(self, n * 4 * c);
    self->dscores = allocate(self, n * (size_t)self->options.heads);
}

plain_gpt *plain_gpt_create(const plain_gpt_options *options)
{
    plain_gpt *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->options = *options;
    self->rows = (size_t)options->batch * (size_t)options->context;
    const size_t parts = (size_t)options->layers * BLOCK_PARTS;
    self->w.blocks = calloc(parts, sizeof *self->w.blocks);
    self->g.blocks = calloc(parts, sizeof *self->g.blocks);
    self->blocks = calloc((size_t)options->layers, sizeof *self->blocks);
    if (!self->w.blocks || !self->g.blocks || !self->blocks || options->layers > 8) {
        plain_gpt_destroy(self);
        return NULL;
    }
    self->parameter_count = lay_out(options, NULL, &self->w, &self->decayed);
    self->slab = allocate(self, self->parameter_count);
    self->gradient_slab = allocate(self, self->parameter_count);
    self->first_moment = allocate(self, self->parameter_count);
    self->second_moment = allocate(self, self->parameter_count);
    for (int i = 0; i < options->layers; i++)
        allocate_activations(self, &self->blocks[i]);
    allocate_buffers(self);
    if (self->failed) {
        plain_gpt_destroy(self);
        return NULL;
    }
    lay_out(options, self->slab, &self->w, &self->decayed);
    lay_out(options, self->gradient_slab, &self->g, &self->decayed);
    return self;
}

void plain_gpt_destroy(plain_gpt *self)
{
    if (!self)
        return;
    for (int i = 0; i < self->owned_count; i++)
        free(self->owned[i]);
    free(self->w.blocks);
    free(self->g.blocks);
    free(self->blocks);
    free(self);
}

float *plain_gpt_parameter(plain_gpt *self, const char *name, size_t *count)
{
    const size_t c = (size_t)self->options.width;
    const struct {
        const char *name;
        float *at;
        size_t count;
    } single[] = {{"wte", self->w.wte, (size_t)self->options.vocabulary * c},
                  {"wpe", self->w.wpe, (size_t)self->options.context * c},
                  {"ln_f.gain", self->w.lnf_gain, c},
                  {"ln_f.bias", self->w.lnf_bias, c}};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, single[i].name) == 0) {
            *count = single[i].count;
            return single[i].at;
        }
    for (int i = 0; i < self->options.layers * BLOCK_PARTS; i++) {
        char full[64];
        snprintf(full, sizeof full, "h.%d.%s", i / BLOCK_PARTS, part_names[i % BLOCK_PARTS]);
        if (strcmp(name, full) == 0) {
            *count = part_size(&self->options, i % BLOCK_PARTS);
            return self->w.blocks[i];
        }
    }
    return NULL;
}

/* out [rows, n] = x [rows, k] · w [k, n] + bias. rows must be a multiple of ROWS, here and in matmul_transposed. */
static void matmul_forward(float *restrict out, const float *restrict x, const float *restrict w, const float *bias,
                           size_t rows, size_t k, size_t n)
{
#pragma omp parallel for
    for (size_t r = 0; r < rows; r += ROWS) {
        float *o = out + r * n;
        const float *a = x + r * k;
        for (size_t i = 0; i < ROWS; i++)
            for (size_t j = 0; j < n; j++)
                o[i * n + j] = bias[j];
        for (size_t l = 0; l < k; l++) {
            const float a0 = a[l], a1 = a[k + l], a2 = a[2 * k + l], a3 = a[3 * k + l];
            const float *b = w + l * n;
            for (size_t j = 0; j < n; j++) {
                o[j] += a0 * b[j];
                o[n + j] += a1 * b[j];
                o[2 * n + j] += a2 * b[j];
                o[3 * n + j] += a3 * b[j];
            }
        }
    }
}

/* out [rows, k] = d [rows, n] · w^T, w [k, n], as dot products of rows. */
static void matmul_transposed(float *restrict out, const float *restrict d, const float *restrict w, size_t rows,
                              size_t k, size_t n)
{
#pragma omp parallel for
    for (size_t r = 0; r < rows; r += ROWS) {
        const float *a = d + r * n;
        for (size_t l = 0; l < k; l++) {
            const float *b = w + l * n;
            float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
            for (size_t j = 0; j < n; j++) {
                s0 += a[j] * b[j];
                s1 += a[n + j] * b[j];
                s2 += a[2 * n + j] * b[j];
                s3 += a[3 * n + j] * b[j];
            }
            out[r * k + l] = s0;
            out[(r + 1) * k + l] = s1;
            out[(r + 2) * k + l] = s2;
            out[(r + 3) * k + l] = s3;
        }
    }
}

/* dw [k, n] += x [rows, k]^T · d [rows, n]; k is a multiple of ROWS. */
static void matmul_weights(float *restrict dw, const float *restrict x, const float *restrict d, size_t rows, size_t k,
                           size_t n)
{
#pragma omp parallel for
    for (size_t l = 0; l < k; l += ROWS) {
        float *o = dw + l * n;
        for (size_t r = 0; r < rows; r++) {
            const float *a = x + r * k + l, *b = d + r * n;
            const float a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3];
            for (size_t j = 0; j < n; j++) {
                o[j] += a0 * b[j];
                o[n + j] += a1 * b[j];
                o[2 * n + j] += a2 * b[j];
                o[3 * n + j] += a3 * b[j];
            }
        }
    }
}

/* db [n] += the sum of the rows of d. */
static void add_rows(float *restrict db, const float *restrict d, size_t rows, size_t n)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++)
            db[j] += d[r * n + j];
}

static void norm_forward(float *restrict out, float *restrict mean, float *restrict scale, const float *restrict x,
                         const float *restrict gain, const float *restrict bias, size_t rows, size_t c)
{
#pragma omp parallel for
    for (size_t r = 0; r < rows; r++) {
        const float *a = x + r * c;
        float sum = 0, squares = 0;
        for (size_t j = 0; j < c; j++)
            sum += a[j];
        const float m = sum / (float)c;
        for (size_t j = 0; j < c; j++)
            squares += (a[j] - m) * (a[j] - m);
        const float s = 1 / sqrtf(squares / (float)c + 1e-5f);
        for (size_t j = 0; j < c; j++)
            out[r * c + j] = (a[j] - m) * s * gain[j] + bias[j];
        mean[r] = m;
        scale[r] = s;
    }
}

/* Adds the gradients to dx, dgain and dbias. */
static void norm_backward(float *restrict dx, float *restrict dgain, float *restrict dbias, const float *restrict d,
                          const float *restrict x, const float *restrict mean, const float *restrict scale,
                          const float *restrict gain, size_t rows, size_t c)
{
#pragma omp parallel for
    for (size_t r = 0; r < rows; r++) {
        const float *a = x + r * c, *g = d + r * c;
        const float m = mean[r], s = scale[r];
        float sum = 0, product = 0;
        for (size_t j = 0; j < c; j++) {
            sum += g[j] * gain[j];
            product += g[j] * gain[j] * (a[j] - m) * s;
        }
        sum /= (float)c;
        product /= (float)c;
        for (size_t j = 0; j < c; j++)
            dx[r * c + j] += (g[j] * gain[j] - sum - (a[j] - m) * s * product) * s;
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < c; j++) {
            dgain[j] += d[r * c + j] * (x[r * c + j] - mean[r]) * scale[r];
            dbias[j] += d[r * c + j];
        }
}

/* Computes causal attention of the query at position t in head h: the probabilities of the keys up to t, and the
   weighted sum of the values. */
static void attend(const plain_gpt *self, const float *qkv, float *probabilities, float *mixed, size_t t, size_t h)
{
    const size_t c = (size_t)self->options.width, width = c / (size_t)self->options.heads;
    const float *q = qkv + t * 3 * c + h * width, factor = 1 / sqrtf((float)width);
    float largest = -1e30f, sum = 0;
    for (size_t k = 0; k <= t; k++) {
        const float *key = qkv + k * 3 * c + c + h * width;
        float score = 0;
        for (size_t j = 0; j < width; j++)
            score += q[j] * key[j];
        probabilities[k] = score * factor;
        largest = probabilities[k] > largest ? probabilities[k] : largest;
    }
    for (size_t k = 0; k <= t; k++)
        sum += probabilities[k] = expf(probabilities[k] - largest);
    float *out = mixed + t * c + h * width;
    for (size_t j = 0; j < width; j++)
        out[j] = 0;
    for (size_t k = 0; k <= t; k++) {
        const float *value = qkv + k * 3 * c + 2 * c + h * width;
        probabilities[k] /= sum;
        for (size_t j = 0; j < width; j++)
            out[j] += probabilities[k] * value[j];
    }
}

static void attention_forward(const plain_gpt *self, activations *a)
{
    const size_t c = (size_t)self->options.width, t = (size_t)self->options.context,
                 heads = (size_t)self->options.heads;
    const size_t pairs = (size_t)self->options.batch * heads;
#pragma omp parallel for
    for (size_t pair = 0; pair < pairs; pair++) {
        const size_t b = pair / heads, h = pair % heads;
        for (size_t i = 0; i < t; i++)
            attend(self, a->qkv + b * t * 3 * c, a->probabilities + (pair * t + i) * t, a->mixed + b * t * c, i, h);
    }
}

/* Adds the gradients of the query at position t in head h, and of the keys and values up to t, to dqkv. */
static void attend_backward(const plain_gpt *self, const float *qkv, const float *probabilities, const float *dmixed,
                            float *dqkv, float *dscores, size_t t, size_t h)
{
    const size_t c = (size_t)self->options.width, width = c / (size_t)self->options.heads;
    const float *q = qkv + t * 3 * c + h * width, *d = dmixed + t * c + h * width;
    const float factor = 1 / sqrtf((float)width);
    float *dq = dqkv + t * 3 * c + h * width, mean = 0;
    for (size_t k = 0; k <= t; k++) {
        const float *value = qkv + k * 3 * c + 2 * c + h * width;
        float *dvalue = dqkv + k * 3 * c + 2 * c + h * width, sum = 0;
        for (size_t j = 0; j < width; j++) {
            sum += d[j] * value[j];
            dvalue[j] += probabilities[k] * d[j];
        }
        dscores[k] = sum;
        mean += probabilities[k] * sum;
    }
    for (size_t k = 0; k <= t; k++) {
        const float *key = qkv + k * 3 * c + c + h * width, ds = probabilities[k] * (dscores[k] - mean) * factor;
        float *dkey = dqkv + k * 3 * c + c + h * width;
        for (size_t j = 0; j < width; j++) {
            dq[j] += ds * key[j];
            dkey[j] += ds * q[j];
        }
    }
}

static void attention_backward(plain_gpt *self, const activations *a)
{
    const size_t c = (size_t)self->options.width, t = (size_t)self->options.context,
                 heads = (size_t)self->options.heads;
    const size_t pairs = (size_t)self->options.batch * heads;
    memset(self->dqkv, 0, self->rows * 3 * c * sizeof(float));
#pragma omp parallel for
    for (size_t pair = 0; pair < pairs; pair++) {
        const size_t b = pair / heads, h = pair % heads;
        for (size_t i = 0; i < t; i++)
            attend_backward(self, a->qkv + b * t * 3 * c, a->probabilities + (pair * t + i) * t,
                            self->dmixed + b * t * c, self->dqkv + b * t * 3 * c, self->dscores + pair * t, i, h);
    }
}

#define GELU_FACTOR 0.7978845608028654f

static void gelu_forward(float *restrict out, const float *restrict x, size_t count)
{
#pragma omp parallel for
    for (size_t i = 0; i < count; i++) {
        const float u = GELU_FACTOR * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
        out[i] = 0.5f * x[i] * (1 + tanhf(u));
    }
}

/* Replaces d, the gradient of the output, with the gradient of x. */
static void gelu_backward(float *restrict d, const float *restrict x, size_t count)
{
#pragma omp parallel for
    for (size_t i = 0; i < count; i++) {
        const float u = GELU_FACTOR * (x[i] + 0.044715f * x[i] * x[i] * x[i]), y = tanhf(u);
        const float du = GELU_FACTOR * (1 + 3 * 0.044715f * x[i] * x[i]);
        d[i] *= 0.5f * (1 + y) + 0.5f * x[i] * (1 - y * y) * du;
    }
}

static void add_to(float *restrict out, const float *restrict x, const float *restrict y, size_t count)
{
#pragma omp parallel for
    for (size_t i = 0; i < count; i++)
        out[i] = x[i] + y[i];
}

/* Computes a block from its input in activations.x to out. */
static void block_forward(plain_gpt *self, int layer, float *out)
{
    activations *a = &self->blocks[layer];
    float *const *w = self->w.blocks + (size_t)layer * BLOCK_PARTS;
    const size_t n = self->rows, c = (size_t)self->options.width;
    norm_forward(a->ln1, a->mean1, a->scale1, a->x, w[LN1_GAIN], w[LN1_BIAS], n, c);
    matmul_forward(a->qkv, a->ln1, w[QKV_W], w[QKV_B], n, c, 3 * c);
    attention_forward(self, a);
    matmul_forward(a->middle, a->mixed, w[OUT_W], w[OUT_B], n, c, c);
    add_to(a->middle, a->middle, a->x, n * c);
    norm_forward(a->ln2, a->mean2, a->scale2, a->middle, w[LN2_GAIN], w[LN2_BIAS], n, c);
    matmul_forward(a->up, a->ln2, w[UP_W], w[UP_B], n, c, 4 * c);
    gelu_forward(a->gelu, a->up, n * 4 * c);
    matmul_forward(out, a->gelu, w[DOWN_W], w[DOWN_B], n, 4 * c, c);
    add_to(out, out, a->middle, n * c);
}

/* Replaces self->dx, the gradient of the block's output, with the gradient of its input. */
static void block_backward(plain_gpt *self, int layer)
{
    const activations *a = &self->blocks[layer];
    float *const *w = self->w.blocks + (size_t)layer * BLOCK_PARTS;
    float *const *g = self->g.blocks + (size_t)layer * BLOCK_PARTS;
    const size_t n = self->rows, c = (size_t)self->options.width;
    matmul_weights(g[DOWN_W], a->gelu, self->dx, n, 4 * c, c);
    add_rows(g[DOWN_B], self->dx, n, c);
    matmul_transposed(self->dup, self->dx, w[DOWN_W], n, 4 * c, c);
    gelu_backward(self->dup, a->up, n * 4 * c);
    matmul_weights(g[UP_W], a->ln2, self->dup, n, c, 4 * c);
    add_rows(g[UP_B], self->dup, n, 4 * c);
    matmul_transposed(self->dnormed, self->dup, w[UP_W], n, c, 4 * c);
    norm_backward(self->dx, g[LN2_GAIN], g[LN2_BIAS], self->dnormed, a->middle, a->mean2, a->scale2, w[LN2_GAIN], n, c);
    matmul_weights(g[OUT_W], a->mixed, self->dx, n, c, c);
    add_rows(g[OUT_B], self->dx, n, c);
    matmul_transposed(self->dmixed, self->dx, w[OUT_W], n, c, c);
    attention_backward(self, a);
    matmul_weights(g[QKV_W], a->ln1, self->dqkv, n, c, 3 * c);
    add_rows(g[QKV_B], self->dqkv, n, 3 * c);
    matmul_transposed(self->dnormed, self->dqkv, w[QKV_W], n, c, 3 * c);
    norm_backward(self->dx, g[LN1_GAIN], g[LN1_BIAS], self->dnormed, a->x, a->mean1, a->scale1, w[LN1_GAIN], n, c);
}

static void embed(plain_gpt *self, const int32_t *windows)
{
    const size_t c = (size_t)self->options.width, t = (size_t)self->options.context;
    for (size_t r = 0; r < self->rows; r++) {
        const float *token = self->w.wte + (size_t)windows[r / t * (t + 1) + r % t] * c,
                    *place = self->w.wpe + r % t * c;
        for (size_t j = 0; j < c; j++)
            self->blocks[0].x[r * c + j] = token[j] + place[j];
    }
}

static void embed_backward(plain_gpt *self, const int32_t *windows)
{
    const size_t c = (size_t)self->options.width, t = (size_t)self->options.context;
    for (size_t r = 0; r < self->rows; r++) {
        float *token = self->g.wte + (size_t)windows[r / t * (t + 1) + r % t] * c, *place = self->g.wpe + r % t * c;
        for (size_t j = 0; j < c; j++) {
            token[j] += self->dx[r * c + j];
            place[j] += self->dx[r * c + j];
        }
    }
}

/* Returns the mean cross-entropy and replaces the logits with their gradient. */
static float loss_and_gradient(plain_gpt *self, const int32_t *windows)
{
    const size_t v = (size_t)self->options.vocabulary, t = (size_t)self->options.context;
    double loss = 0;
#pragma omp parallel for reduction(+ : loss)
    for (size_t r = 0; r < self->rows; r++) {
        float *row = self->logits + r * v, largest = row[0], sum = 0;
        const size_t target = (size_t)windows[r / t * (t + 1) + r % t + 1];
        for (size_t j = 1; j < v; j++)
            largest = row[j] > largest ? row[j] : largest;
        const float target_logit = row[target] - largest;
        for (size_t j = 0; j < v; j++)
            sum += row[j] = expf(row[j] - largest);
        loss += (double)(logf(sum) - target_logit);
        for (size_t j = 0; j < v; j++)
            row[j] = (row[j] / sum - (j == target ? 1.0f : 0.0f)) / (float)self->rows;
    }
    return (float)(loss / (double)self->rows);
}

static float forward(plain_gpt *self, const int32_t *windows)
{
    const size_t n = self->rows, c = (size_t)self->options.width, v = (size_t)self->options.vocabulary;
    embed(self, windows);
    for (int i = 0; i < self->options.layers; i++)
        block_forward(self, i, i + 1 < self->options.layers ? self->blocks[i + 1].x : self->last);
    norm_forward(self->normed, self->mean, self->scale, self->last, self->w.lnf_gain, self->w.lnf_bias, n, c);
    matmul_transposed(self->logits, self->normed, self->w.wte, n, v, c);
    return loss_and_gradient(self, windows);
}

static void backward(plain_gpt *self, const int32_t *windows)
{
    const size_t n = self->rows, c = (size_t)self->options.width, v = (size_t)self->options.vocabulary;
    memset(self->gradient_slab, 0, self->parameter_count * sizeof(float));
    memset(self->dx, 0, n * c * sizeof(float));
    matmul_weights(self->g.wte, self->logits, self->normed, n, v, c);
    matmul_forward(self->dnormed, self->logits, self->w.wte, self->zeros, n, v, c);
    norm_backward(self->dx, self->g.lnf_gain, self->g.lnf_bias, self->dnormed, self->last, self->mean, self->scale,
                  self->w.lnf_gain, n, c);
    for (int i = self->options.layers - 1; i >= 0; i--)
        block_backward(self, i);
    embed_backward(self, windows);
}

static void update(plain_gpt *self)
{
    const plain_gpt_options *model = &self->options;
    double squares = 0;
#pragma omp parallel for reduction(+ : squares)
    for (size_t i = 0; i < self->parameter_count; i++)
        squares += (double)self->gradient_slab[i] * (double)self->gradient_slab[i];
    const float factor = fminf(1, model->clip_norm / ((float)sqrt(squares) + 1e-6f));
    self->step++;
    const float first = 1 - powf(model->beta1, (float)self->step), second = 1 - powf(model->beta2, (float)self->step);
#pragma omp parallel for
    for (size_t i = 0; i < self->parameter_count; i++) {
        const float g = self->gradient_slab[i] * factor;
        float *m = &self->first_moment[i], *s = &self->second_moment[i], *w = &self->slab[i];
        *m = model->beta1 * *m + (1 - model->beta1) * g;
        *s = model->beta2 * *s + (1 - model->beta2) * g * g;
        const float decay = i < self->decayed ? model->weight_decay * *w : 0;
        *w -= model->learning_rate * (*m / first / (sqrtf(*s / second) + model->epsilon) + decay);
    }
}

float plain_gpt_step(plain_gpt *self, const int32_t *windows)
{
    const float loss = forward(self, windows);
    backward(self, windows);
    update(self);
    return loss;
}
