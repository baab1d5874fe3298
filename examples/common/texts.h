/* Texts on the device, learned one after another. They are read in windows of S + 1 words, S / 2 apart: the first S
   words are a sample and the last S its targets. Windows are numbered across all texts. The last tenth of a text's
   windows is held out; the first half of that is for validation. */
#ifndef TUFF_EXAMPLES_TEXTS_H
#define TUFF_EXAMPLES_TEXTS_H

#include "example.h"

enum { EXAMPLE_MAX_TEXTS = 8, EXAMPLE_TEXT_BATCHES = 50 };
/* Special words: padding, unknown, begin, end. The words of the vocabulary follow. */
enum { EXAMPLE_PAD, EXAMPLE_UNKNOWN, EXAMPLE_BEGIN, EXAMPLE_END, EXAMPLE_SPECIAL_WORDS };
enum { EXAMPLE_IGNORED_WORD = -100 }; /* a target that is not part of the loss */

typedef struct example_texts {
    tuff_device *device;
    int64_t window, stride;
    int count;
    int64_t first[EXAMPLE_MAX_TEXTS], windows[EXAMPLE_MAX_TEXTS]; /* of each text: first window, window count */
    int32_t *words;                                               /* each text starts at a multiple of stride */
    int64_t word_count;
    tuff_array *stored, *x, *y;       /* created when a graph reads them: the words; or all samples and all targets */
    int current;                      /* the text being learned */
    int drawn;                        /* the text that the training plan draws from; -1: not set yet */
    double losses[EXAMPLE_MAX_TEXTS]; /* of each text right after it was learned; NaN: not in this run */
} example_texts;

/* Reads the files whose paths are listed in paths, separated by commas. The vocabulary consists of the special words
   and the most frequent words of the first file. Returns NULL on failure, after a line on standard error that begins
   with name and says why. */
example_texts *example_texts_read(tuff_device *device, const char *name, const char *paths, int64_t window,
                                  int64_t vocabulary);
/* Generates three artificial languages over the same words: which words may follow a word depends on the language. NULL
   if out of memory. */
example_texts *example_texts_generate(tuff_device *device, uint64_t seed, int64_t window, int64_t vocabulary);
void example_texts_destroy(example_texts *self); /* NULL is allowed */

/* Adds the inputs of a model that reads texts: in training the range of windows to draw from, else the windows of the
   batch. */
void example_texts_inputs(example_purpose purpose, example_inputs *list);
/* Sets *x and *y, i32 [B,S]: samples and targets, of windows drawn on the device with replacement, or of held-out
   windows; the loss must not count targets that are EXAMPLE_IGNORED_WORD. The baseline form keeps samples and targets
   on the device as two tables, which hold each word four times; the optimized form reads them from the words. */
void example_texts_read_windows(example_texts *self, example_build *b, tuff_tensor **x, tuff_tensor **y);
/* Fills a held-out batch. Batches from -1 down are of the text being learned. */
void example_texts_fill(const example_texts *self, const example_batch *batch);

/* To be called before each step: selects the text that it learns. Each text gets an equal part of the run's steps. */
tuff_status example_texts_before_step(example_texts *self, example_run *run);
/* Whether the step just done is the last one of a text. */
bool example_texts_has_learned(const example_texts *self, const example_run *run);
/* Evaluates all texts learned so far, with at most 50 batches each, and prints how much was forgotten: (p - q) / q,
   where p is the perplexity now and q the perplexity right after the text was learned. */
tuff_status example_texts_evaluate(example_texts *self, example_run *run);

#endif
