/* Texts whose words lie on the device, to be learned one after another in windows of S + 1 words, half of S apart: S of
   them are a sample, and the S from the second one on its targets. Windows are numbered through all texts. Of a text's
   windows the last tenth is held out, the first half of that for validation. */
#ifndef TUFF_EXAMPLES_TEXTS_H
#define TUFF_EXAMPLES_TEXTS_H

#include "example.h"

enum { EXAMPLE_MAX_TEXTS = 8 };
/* Words that are marks: padding, unknown, begin, end. Those of the vocabulary follow. */
enum { EXAMPLE_PAD, EXAMPLE_UNKNOWN, EXAMPLE_BEGIN, EXAMPLE_END, EXAMPLE_MARKS };

typedef struct example_texts {
    tuff_device *device;
    int64_t window, stride;
    int count;
    int64_t first[EXAMPLE_MAX_TEXTS], windows[EXAMPLE_MAX_TEXTS]; /* of a text: its first window, how many it has */
    int32_t *words;                                               /* of all texts, each from a multiple of stride on */
    int64_t word_count;
    tuff_array *stored, *x, *y; /* made when a graph reads them: the words, or all windows and all targets */
} example_texts;

/* The files whose paths are listed in paths, separated by commas. The vocabulary, marks included, has the most frequent
   words of the first. NULL on failure: a line on the error stream, which begins with name, says why. */
example_texts *example_texts_read(tuff_device *device, const char *name, const char *paths, int64_t window,
                                  int64_t vocabulary);
/* Three made languages of the same words: which words may follow a word depends on the language. NULL: out of memory. */
example_texts *example_texts_make(tuff_device *device, uint64_t seed, int64_t window, int64_t vocabulary);
void example_texts_destroy(example_texts *self); /* NULL is allowed */

int64_t example_texts_held_out(const example_texts *self, int text); /* for validation, as many for tests */
int64_t example_texts_trained(const example_texts *self, int text);
/* x and y, i32 [B, S], of the windows rows, i32 [B]. Where as_windows is set, windows and targets lie on the device as
   two tables, which hold each word four times; else they are read from the words. */
void example_texts_gather(example_texts *self, tuff_tensor *rows, bool as_windows, tuff_tensor **x, tuff_tensor **y);

#endif
