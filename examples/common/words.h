/* Texts as words: lower case, split at white space, numbered by a vocabulary. */
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

/* Reads the text at path. Where the vocabulary is empty, it is filled with the size most frequent words of this text:
   of equally frequent ones the first in the alphabet. They are numbered from first on by falling frequency. Returns the
   words' numbers, `unknown` where the vocabulary has none, which the caller frees, and sets *count. NULL on failure: a
   line on the error stream, which begins with name, says why. */
int32_t *example_words_read(example_vocabulary *self, const char *name, const char *path, int64_t size, int32_t first,
                            int32_t unknown, int64_t *count);
void example_vocabulary_free(example_vocabulary *self);

#endif
