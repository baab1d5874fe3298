/* Texts as sequences of words: lower case, split at white space, numbered by a vocabulary. */
#ifndef TUFF_EXAMPLES_WORDS_H
#define TUFF_EXAMPLES_WORDS_H

#include <stdint.h>

typedef struct example_word {
    char *word; /* owned */
    int64_t uses;
    int32_t id;
} example_word;

/* The most frequent words of a text, in alphabetical order. */
typedef struct example_vocabulary {
    example_word *words;
    int64_t count;
} example_vocabulary;

/* Reads the text at path. If the vocabulary is empty, it is first filled with the `size` most frequent words of this
   text, ties in alphabetical order, numbered from `first` by decreasing frequency. Returns the numbers of the text's
   words, `unknown` for words that the vocabulary lacks, and sets *count; the caller frees them. Returns NULL on
   failure, after a line on standard error that begins with name and says why. */
int32_t *example_words_read(example_vocabulary *self, const char *name, const char *path, int64_t size, int32_t first,
                            int32_t unknown, int64_t *count);
void example_vocabulary_free(example_vocabulary *self);

#endif
