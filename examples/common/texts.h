/* Texts whose words lie on the device, to be learned one after another in windows of S + 1 words, half of S apart: S of
   them are a sample, and the S from the second one on its targets. Windows are numbered through all texts. Of a text's
   windows the last tenth is held out, the first half of that for validation. */
#ifndef TUFF_EXAMPLES_TEXTS_H
#define TUFF_EXAMPLES_TEXTS_H

#include "example.h"

enum { EXAMPLE_MAX_TEXTS = 8, EXAMPLE_TEXT_BATCHES = 50 };
/* Words that are marks: padding, unknown, begin, end. Those of the vocabulary follow. */
enum { EXAMPLE_PAD, EXAMPLE_UNKNOWN, EXAMPLE_BEGIN, EXAMPLE_END, EXAMPLE_MARKS };

typedef struct example_texts {
    tuff_device *device;
    int64_t window, stride;
    int count;
    int64_t first[EXAMPLE_MAX_TEXTS], windows[EXAMPLE_MAX_TEXTS]; /* of a text: its first window, how many it has */
    int32_t *words;                                               /* of all texts, each from a multiple of stride on */
    int64_t word_count;
    tuff_array *stored, *x, *y;       /* made when a graph reads them: the words, or all windows and all targets */
    int current;                      /* the text that is learned */
    int drawn;                        /* the one that the plan draws from; -1: none yet */
    double losses[EXAMPLE_MAX_TEXTS]; /* of a text when it had just been learned; NaN: not in this run */
} example_texts;

/* The files whose paths are listed in paths, separated by commas. The vocabulary, marks included, has the most frequent
   words of the first. NULL on failure: a line on the error stream, which begins with name, says why. */
example_texts *example_texts_read(tuff_device *device, const char *name, const char *paths, int64_t window,
                                  int64_t vocabulary);
/* Three made languages of the same words: what may follow a word depends on the language. NULL: out of memory. */
example_texts *example_texts_make(tuff_device *device, uint64_t seed, int64_t window, int64_t vocabulary);
void example_texts_destroy(example_texts *self); /* NULL is allowed */

/* The inputs of a model that reads them: what windows a step draws from, or which held-out ones a batch has. */
void example_texts_inputs(example_purpose purpose, example_inputs *list);
/* x and y, i32 [B, S]: windows that the device draws, with replacement, or those held out. In the baseline form windows
   and targets lie on the device as two tables, which hold each word four times; else they are read from the words. */
void example_texts_read_windows(example_texts *self, example_build *b, tuff_tensor **x, tuff_tensor **y);
/* Fills a held-out batch. Batches -1 and down are of the text that is learned. */
void example_texts_fill(const example_texts *self, const example_batch *batch);

/* Before each step: which text it learns; each has its part of the run's steps. */
tuff_status example_texts_before_step(example_texts *self, example_run *run);
/* Whether the step that was just done ends a text. */
bool example_texts_has_learned(const example_texts *self, const example_run *run);
/* Evaluates the texts so far, with at most 50 batches of each, and prints what was forgotten: (p - q) / q, where p is
   the perplexity now and q that when the text had been learned. */
tuff_status example_texts_evaluate(example_texts *self, example_run *run);

#endif
