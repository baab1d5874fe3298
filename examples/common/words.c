/* Splits texts into words and numbers them. */
#include "words.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads a file and appends a 0; the caller frees the bytes. NULL on failure, with errno set, or 0 if out of memory. */
static char *read_bytes(const char *path, size_t *count)
{
    size_t size = 0, room = 1 << 16;
    char *bytes = malloc(room);
    FILE *file = fopen(path, "rb");
    bool good = bytes && file;
    while (good) {
        size += fread(bytes + size, 1, room - size - 1, file);
        if (size + 1 < room)
            break;
        char *more = realloc(bytes, room *= 2);
        good = more != NULL;
        bytes = more ? more : bytes;
    }
    good = good && !ferror(file);
    if (good)
        bytes[size] = 0;
    *count = size;
    const int error = errno;
    if (file)
        fclose(file);
    if (!good)
        free(bytes);
    errno = error;
    return good ? bytes : NULL;
}

/* Splits the bytes into words in place and returns pointers to them. */
static char **split(char *bytes, int64_t *count)
{
    size_t room = 1024;
    char **words = malloc(room * sizeof *words);
    *count = 0;
    for (char *at = bytes; words && *at;) {
        while (isspace((unsigned char)*at))
            *at++ = 0;
        if (!*at)
            break;
        if ((size_t)*count == room) {
            char **more = realloc(words, (room *= 2) * sizeof *words);
            if (!more)
                free(words);
            words = more;
        }
        if (words)
            words[(*count)++] = at;
        for (; *at && !isspace((unsigned char)*at); at++)
            *at = (char)tolower((unsigned char)*at);
    }
    return words;
}

static int by_word(const void *x, const void *y)
{
    return strcmp(((const example_word *)x)->word, ((const example_word *)y)->word);
}

static int by_uses(const void *x, const void *y)
{
    const example_word *a = x, *b = y;
    return a->uses != b->uses ? (a->uses < b->uses ? 1 : -1) : strcmp(a->word, b->word);
}

static bool number_words(example_vocabulary *self, char *const *words, int64_t count, int64_t size, int32_t first)
{
    example_word *all = calloc((size_t)count + 1, sizeof *all);
    int64_t different = 0;
    for (int64_t i = 0; i < count && all; i++)
        all[i].word = words[i];
    if (!all)
        return false;
    qsort(all, (size_t)count, sizeof *all, by_word);
    for (int64_t i = 0; i < count; i++) {
        const bool again = different > 0 && strcmp(all[different - 1].word, all[i].word) == 0;
        all[again ? different - 1 : different++] =
            (example_word){.word = all[i].word, .uses = again ? all[different - 1].uses + 1 : 1};
    }
    qsort(all, (size_t)different, sizeof *all, by_uses);
    self->words = all;
    bool good = true;
    for (int64_t i = 0; i < different && i < size && good; i++) {
        const size_t length = strlen(all[i].word) + 1;
        char *copy = malloc(length);
        good = copy != NULL;
        if (good) {
            all[i] = (example_word){
                .word = memcpy(copy, all[i].word, length), .uses = all[i].uses, .id = first + (int32_t)i};
            self->count = i + 1;
        }
    }
    qsort(all, (size_t)self->count, sizeof *all, by_word);
    return good;
}

static int32_t *look_up(const example_vocabulary *self, char *const *words, int64_t count, int32_t unknown)
{
    int32_t *ids = malloc(((size_t)count + 1) * sizeof *ids);
    for (int64_t i = 0; i < count && ids; i++) {
        const example_word key = {.word = words[i]};
        const example_word *found = bsearch(&key, self->words, (size_t)self->count, sizeof key, by_word);
        ids[i] = found ? found->id : unknown;
    }
    return ids;
}

int32_t *example_words_read(example_vocabulary *self, const char *name, const char *path, int64_t size, int32_t first,
                            int32_t unknown, int64_t *count)
{
    errno = 0;
    size_t length = 0;
    char *bytes = read_bytes(path, &length);
    const int error = errno;
    if (bytes && strlen(bytes) < length) {
        fprintf(stderr, "%s: %s: byte %zu is 0, so it is not a text\n", name, path, strlen(bytes));
        free(bytes);
        return NULL;
    }
    char **words = bytes ? split(bytes, count) : NULL;
    int32_t *ids = NULL;
    if (words && (self->words || number_words(self, words, *count, size, first)))
        ids = look_up(self, words, *count, unknown);
    if (!ids)
        fprintf(stderr, "%s: %s: %s\n", name, path, !bytes && error ? strerror(error) : "out of memory");
    free(words);
    free(bytes);
    return ids;
}

void example_vocabulary_free(example_vocabulary *self)
{
    for (int64_t i = 0; i < self->count; i++)
        free(self->words[i].word);
    free(self->words);
    *self = (example_vocabulary){0};
}
