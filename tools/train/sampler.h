/* Generates text from a model, byte by byte, with one plan that is recorded once and run for every byte. It reads the
   model's own arrays, so it follows a training in progress. */
#ifndef TUFF_TOOLS_TRAIN_SAMPLER_H
#define TUFF_TOOLS_TRAIN_SAMPLER_H

#include "tools/cli/cli.h"
#include "tools/model/model.h"

typedef struct sampler_options {
    const char *prompt; /* not empty */
    double temperature; /* 0: always the most likely byte */
    int64_t seed;
    tuff_compile_options compile;
} sampler_options;

typedef struct text_sampler {
    sampler_options options;
    int64_t context, vocabulary;
    tuff_graph *graph;
    tuff_plan *plan;
    int32_t *window; /* the last bytes, at most context of them, followed by zeros */
    int64_t length;
    float *logits;
    uint64_t key, drawn;
} text_sampler;

tuff_status sampler_create(tuff_device *device, language_model *model, const sampler_options *options,
                           text_sampler *out);
void sampler_destroy(text_sampler *self);
/* Generates the next byte and appends it to the window. */
tuff_status sampler_next(text_sampler *self, int *byte);
/* Prints the prompt, the next `count` bytes, each as soon as it is generated, and a newline. Ctrl-C ends the text.
   Returns an exit code. */
int sampler_print(text_sampler *self, const cli_verb *verb, int64_t count);

#endif
