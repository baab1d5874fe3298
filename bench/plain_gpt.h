/* A GPT training step in hand-written C: plain loops, OpenMP, an optimizing compiler, no library. `tuff bench gpt` runs
   it as the baseline for the graph compiler and checks that both compute the same losses. */
#ifndef TUFF_BENCH_PLAIN_GPT_H
#define TUFF_BENCH_PLAIN_GPT_H

#include <stddef.h>
#include <stdint.h>

typedef struct plain_gpt plain_gpt;

typedef struct plain_gpt_options {
    int layers, heads, width, context, vocabulary, batch;
    float learning_rate, beta1, beta2, epsilon, weight_decay, clip_norm; /* AdamW, constant rate */
} plain_gpt_options;

/* Parameters are initialized to zero. Returns NULL if memory runs out. */
plain_gpt *plain_gpt_create(const plain_gpt_options *options);
void plain_gpt_destroy(plain_gpt *self); /* NULL is allowed */
/* Returns a parameter by its name in tools/model/parameters.c, such as "h.0.attn.qkv.weight"; NULL if there is none. */
float *plain_gpt_parameter(plain_gpt *self, const char *name, size_t *count);
/* Trains one step on windows [batch, context + 1]. Returns the loss before the update. */
float plain_gpt_step(plain_gpt *self, const int32_t *windows);

#endif
