/* The text a model learns, as bytes, and the windows of it that make a batch. */
#ifndef TUFF_TOOLS_TRAIN_TEXT_H
#define TUFF_TOOLS_TRAIN_TEXT_H

#include "tools/cli/cli.h"

typedef struct corpus {
    unsigned char *bytes;
    size_t size;
    uint64_t hash;
} corpus;

/* Reads files one behind the other. At least window bytes are needed. */
tuff_status corpus_read(const cli_texts *paths, int64_t window, corpus *out);
void corpus_free(corpus *self);

/* batch windows of window bytes each, from places that depend on seed and step alone. */
void corpus_batch(const corpus *self, uint64_t seed, int64_t step, int64_t batch, int64_t window, int32_t *tokens);

#endif
