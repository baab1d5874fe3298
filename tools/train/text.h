/* The text that a model learns, as bytes, and the windows of it that make up a batch. */
#ifndef TUFF_TOOLS_TRAIN_TEXT_H
#define TUFF_TOOLS_TRAIN_TEXT_H

#include "tools/cli/cli.h"

typedef struct corpus {
    unsigned char *bytes;
    size_t size;
    uint64_t hash;
} corpus;

/* Reads and concatenates files. Fails if there are fewer than `window` bytes. */
tuff_status corpus_read(const cli_strings *paths, int64_t window, corpus *out);
void corpus_free(corpus *self);

/* Fills `batch` windows of `window` bytes each, from positions that depend only on seed and step. */
void corpus_batch(const corpus *self, uint64_t seed, int64_t step, int64_t batch, int64_t window, int32_t *tokens);

#endif
