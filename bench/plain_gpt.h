/* A GPT's training step as a C programmer writes it: plain loops, OpenMP, the compiler's best flags, no library. The
   measure of what a graph compiler is worth; tuff bench gpt calls it, and checks that its losses are the same. */
#ifndef TUFF_BENCH_PLAIN_GPT_H
#define TUFF_BENCH_PLAIN_GPT_H

#include <stddef.h>
#include <stdint.h>

typedef struct plain_gpt plain_gpt;

typedef struct plain_gpt_options {
    int layers, heads, width, context, vocabulary, batch;
    float learning_rate, beta1, beta2, epsilon, weight_decay, clip_norm; /* AdamW, constant rate */
} plain_gpt_options;

/* All parameters are zero at first. NULL where memory ran out. */
plain_gpt *plain_gpt_create(const plain_gpt_options *options);
void plain_gpt_destroy(plain_gpt *self); /* NULL is allowed */
/* By the names of tools/model/parameters.c, "h.0.attn.qkv.weight"; NULL where there is none. */
float *plain_gpt_parameter(plain_gpt *self, const char *name, size_t *count);
/* One step on windows [batch, context + 1]; answers the loss before the update. */
float plain_gpt_step(plain_gpt *self, const int32_t *windows);

#endif
