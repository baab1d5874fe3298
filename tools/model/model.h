/* The language models of the tool, built from tuff's public functions: a byte-level GPT in the form of GPT-2 (Radford
   et al. 2019), and one in the form of Llama (Touvron et al. 2023). */
#ifndef TUFF_TOOLS_MODEL_MODEL_H
#define TUFF_TOOLS_MODEL_MODEL_H

#include "tuff.h"

typedef enum model_form { MODEL_GPT, MODEL_LLAMA } model_form;

typedef struct model_config {
    model_form form;
    int64_t layers, heads, width, context, vocabulary;
    int64_t key_value_heads; /* Llama; divides heads */
    int64_t hidden;          /* Llama: width of the MLP. GPT's is 4 · width */
} model_config;

/* Checks a configuration. TUFF_E_USAGE with a message if the numbers do not fit together. */
tuff_status model_check(const model_config *config);
int64_t model_parameter_count(const model_config *config);

/* Formats the configuration as JSON, to be freed with tuff__free; returns NULL if memory runs out. */
char *model_config_text(const model_config *config);
tuff_status model_config_parse(const char *text, model_config *out);

typedef struct language_model {
    model_config config;
    tuff_parameters *parameters;
    bool recompute; /* each block is a segment of tuff_recompute; set before building graphs; initially false */
} language_model;

tuff_status model_create(tuff_device *device, const model_config *config, language_model *out);
/* With parameter groups, like tuff_parameters_create_grouped. */
tuff_status model_create_grouped(tuff_device *device, const model_config *config, const char *const *patterns,
                                 int pattern_count, language_model *out);
/* Whether group number `group` of these patterns (the first is 1) has parameters, but none of rank 2 or more. */
bool model_group_is_vectors(const model_config *config, const char *const *patterns, int group);
void model_destroy(language_model *self);

/* Writes the initial weights: normally distributed with deviation 0.02, less for projections that end in the residual
   stream, keyed by seed and name; gains are 1, biases 0. The bits are the same on every device. */
tuff_status model_initialize(language_model *self, uint64_t seed);

/* tokens i32 [B, T], with T at most the context -> logits [B, T, vocabulary]. */
tuff_tensor *model_logits(language_model *self, tuff_graph *graph, tuff_tensor *tokens);
/* Returns the logits [vocabulary] of the token after `position`, an i32 scalar; tokens [1, T]. */
tuff_tensor *model_next_logits(language_model *self, tuff_graph *graph, tuff_tensor *tokens, tuff_tensor *position);
/* windows i32 [B, T + 1]. Returns the mean cross-entropy of every token but the first, given those before it. logits
   may be NULL. */
tuff_tensor *model_loss(language_model *self, tuff_graph *graph, tuff_tensor *windows, tuff_tensor **logits);

/* Returns the tool's training setup: the optimizer, and its schedule for a run of that many steps. */
tuff_optimizer_options model_optimizer_options(double learning_rate, int64_t steps);

#endif
