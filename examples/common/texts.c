/* Reads or generates texts, and stores them on the device. */
#include "texts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "words.h"

static example_texts *create(tuff_device *device, int64_t window)
{
    example_texts *made = calloc(1, sizeof *made);
    if (made)
        *made = (example_texts){.device = device, .window = window, .stride = window > 1 ? window / 2 : 1, .drawn = -1};
    return made;
}

void example_texts_destroy(example_texts *self)
{
    if (!self)
        return;
    tuff_array_destroy(self->stored);
    tuff_array_destroy(self->x);
    tuff_array_destroy(self->y);
    free(self->words);
    free(self);
}

/* Adds a text, whose words are copied. Returns NULL, or why the text cannot be used. */
static const char *add(example_texts *self, const int32_t *words, int64_t count)
{
    const int64_t at = (self->word_count + self->stride - 1) / self->stride * self->stride;
    const int64_t windows = count > self->window ? (count - self->window - 1) / self->stride + 1 : 0;
    if (windows < 20)
        return "text too short: expected at least 20 windows of S + 1 words";
    if (self->count == EXAMPLE_MAX_TEXTS)
        return "too many texts";
    int32_t *more = realloc(self->words, (size_t)(at + count) * sizeof *more);
    if (!more)
        return "out of memory";
    memset(more + self->word_count, 0, (size_t)(at - self->word_count) * sizeof *more);
    memcpy(more + at, words, (size_t)count * sizeof *more);
    self->words = more;
    self->word_count = at + count;
    self->first[self->count] = at / self->stride;
    self->losses[self->count] = NAN;
    self->windows[self->count++] = windows;
    return NULL;
}

static bool add_file(example_texts *self, const char *name, const char *path, example_vocabulary *known, int64_t size)
{
    int64_t count = 0;
    int32_t *words = example_words_read(known, name, path, size - EXAMPLE_SPECIAL_WORDS, EXAMPLE_SPECIAL_WORDS,
                                        EXAMPLE_UNKNOWN, &count);
    const char *why = words ? add(self, words, count) : NULL;
    if (why)
        fprintf(stderr, "%s: %s: %s\n", name, path, why);
    free(words);
    return words && !why;
}

example_texts *example_texts_read(tuff_device *device, const char *name, const char *paths, int64_t window,
                                  int64_t vocabulary)
{
    example_vocabulary known = {0};
    example_texts *made = create(device, window);
    char *list = malloc(strlen(paths) + 1), *end = NULL;
    bool good = made && list;
    if (!good)
        fprintf(stderr, "%s: %s: out of memory\n", name, paths);
    for (char *path = good ? strcpy(list, paths) : NULL; path && good; path = end) {
        end = strchr(path, ',');
        if (end)
            *end++ = 0;
        good = add_file(made, name, path, &known, vocabulary);
    }
    free(list);
    example_vocabulary_free(&known);
    if (good)
        return made;
    example_texts_destroy(made);
    return NULL;
}

example_texts *example_texts_generate(tuff_device *device, uint64_t seed, int64_t window, int64_t vocabulary)
{
    enum { LANGUAGES = 3, WINDOWS = 2000 };
    example_texts *made = create(device, window);
    const int64_t count = made ? window + 1 + (WINDOWS - 1) * made->stride : 1;
    int32_t *words = malloc((size_t)count * sizeof *words);
    bool good = made && words;
    for (int language = 0; language < LANGUAGES && good; language++) {
        example_random random = example_random_stream(seed, (uint64_t)language);
        int64_t word = EXAMPLE_SPECIAL_WORDS;
        for (int64_t i = 0; i < count; i++) {
            const double u = example_uniform(&random, 0, 1);
            const uint64_t which = u < 0.5 ? 0 : u < 0.75 ? 1 : u < 0.9 ? 2 : 3;
            example_random next = example_random_stream(seed, ((uint64_t)language + 1) << 48 | which << 40 |
                                                                  (uint64_t)word); /* same word: same successors */
            word = EXAMPLE_SPECIAL_WORDS + example_integer(&next, vocabulary - EXAMPLE_SPECIAL_WORDS);
            words[i] = (int32_t)word;
        }
        good = !add(made, words, count);
    }
    free(words);
    if (good)
        return made;
    example_texts_destroy(made);
    return NULL;
}

static int64_t held_out_count(const example_texts *self, int text)
{
    return self->windows[text] / 20;
}

static int64_t trained_count(const example_texts *self, int text)
{
    return self->windows[text] - 2 * held_out_count(self, text);
}

static tuff_array *store(tuff_device *device, tuff_shape shape, const int32_t *values)
{
    tuff_array *made = tuff_array_create(device, TUFF_I32, shape);
    if (made && tuff_array_write(made, values, (size_t)tuff_shape_count(shape) * sizeof *values) == TUFF_OK)
        return made;
    tuff_array_destroy(made);
    return NULL;
}

/* Stores all windows as rows, shifted by `further` words. */
static tuff_array *store_windows(const example_texts *self, int64_t further)
{
    const int64_t S = self->window, rows = (self->word_count - S - 1) / self->stride + 1;
    int32_t *values = malloc((size_t)(rows * S) * sizeof *values);
    for (int64_t i = 0; i < rows && values; i++)
        memcpy(values + i * S, self->words + i * self->stride + further, (size_t)S * sizeof *values);
    tuff_array *made = values ? store(self->device, TUFF_SHAPE(rows, S), values) : NULL;
    free(values);
    return made;
}

static tuff_tensor *gather_words(const example_texts *self, tuff_tensor *begins, int64_t further)
{
    tuff_graph *graph = tuff_tensor_graph(begins);
    const int64_t B = tuff_tensor_shape(begins).extent[0], S = self->window;
    tuff_tensor *within =
        tuff_add(tuff_iota(graph, TUFF_SHAPE(1, S), 1), tuff_constant(graph, TUFF_I32, (double)further));
    tuff_tensor *places = tuff_add(tuff_reshape(begins, TUFF_SHAPE(B, 1)), within);
    tuff_tensor *words = tuff_array_tensor(graph, self->stored);
    return tuff_reshape(tuff_gather_rows(words, tuff_reshape(places, TUFF_SHAPE(B * S)), 0), TUFF_SHAPE(B, S));
}

void example_texts_inputs(example_purpose purpose, example_inputs *list)
{
    if (purpose == EXAMPLE_TRAIN)
        example_add_fixed(list, "range", TUFF_I32, TUFF_SHAPE(2));
    else
        example_add_input(list, "row", TUFF_I32, TUFF_SCALAR);
}

static tuff_tensor *element(tuff_tensor *list, int64_t index)
{
    const int64_t stop = index + 1;
    return tuff_reshape(tuff_slice(list, &index, &stop, NULL), TUFF_SCALAR);
}

/* Numbers of the windows of a batch, [B]. */
static tuff_tensor *draw_rows(example_build *b)
{
    if (b->purpose != EXAMPLE_TRAIN)
        return example_input(b, "row");
    tuff_tensor *range = example_input(b, "range"), *first = element(range, 0), *count = element(range, 1);
    tuff_tensor *drawn = tuff_random_index(b->graph, TUFF_SHAPE(b->batch), INT32_MAX);
    return tuff_add(first, tuff_sub(drawn, tuff_mul(tuff_div(drawn, count), count)));
}

/* Ignores the targets y [B,S] of samples that only fill a batch up, whose rows are -1. */
static tuff_tensor *ignore_fillers(tuff_tensor *rows, tuff_tensor *y)
{
    tuff_graph *graph = tuff_tensor_graph(rows);
    tuff_tensor *column = tuff_reshape(rows, TUFF_SHAPE(tuff_tensor_shape(rows).extent[0], 1));
    tuff_tensor *is_filler = tuff_less(column, tuff_constant(graph, TUFF_I32, 0));
    return tuff_where(is_filler, tuff_constant(graph, TUFF_I32, EXAMPLE_IGNORED_WORD), y);
}

void example_texts_read_windows(example_texts *self, example_build *b, tuff_tensor **x, tuff_tensor **y)
{
    tuff_tensor *drawn = draw_rows(b), *rows = drawn;
    if (b->purpose != EXAMPLE_TRAIN)
        rows = tuff_max(drawn, tuff_constant(b->graph, TUFF_I32, 0));
    if (!b->optimized) {
        self->x = self->x ? self->x : store_windows(self, 0);
        self->y = self->y ? self->y : store_windows(self, 1);
        *x = tuff_gather_rows(tuff_array_tensor(b->graph, self->x), rows, 0);
        *y = tuff_gather_rows(tuff_array_tensor(b->graph, self->y), rows, 0);
    } else {
        self->stored = self->stored ? self->stored : store(self->device, TUFF_SHAPE(self->word_count), self->words);
        tuff_tensor *begins = tuff_mul(rows, tuff_constant(b->graph, TUFF_I32, (double)self->stride));
        *x = gather_words(self, begins, 0);
        *y = gather_words(self, begins, 1);
    }
    if (b->purpose != EXAMPLE_TRAIN)
        *y = ignore_fillers(drawn, *y);
}

/* Held-out batches of a given text have numbers from (text + 1) * NUMBERS_OF_TEXT on, and cover each window once; lower
   ones mean the current text, and begin again after its last window. */
enum { NUMBERS_OF_TEXT = 1 << 20 };

void example_texts_fill(const example_texts *self, const example_batch *batch)
{
    int32_t *rows = batch->inputs[0];
    const int64_t number = -1 - batch->number;
    const int text = number < NUMBERS_OF_TEXT ? self->current : (int)(number / NUMBERS_OF_TEXT) - 1;
    const int64_t count = held_out_count(self, text);
    for (int64_t i = 0; i < batch->count; i++) {
        const int64_t within = number % NUMBERS_OF_TEXT * batch->count + i;
        const bool is_filler = number >= NUMBERS_OF_TEXT && within >= count;
        rows[i] = is_filler ? -1 : (int32_t)(self->first[text] + trained_count(self, text) + within % count);
    }
}

static int text_of_step(const example_texts *self, const example_run *run, int64_t step)
{
    const int64_t text = step * self->count / run->settings->steps;
    return (int)(text < self->count ? text : self->count - 1);
}

tuff_status example_texts_before_step(example_texts *self, example_run *run)
{
    const int text = self->current = text_of_step(self, run, run->step);
    if (text == self->drawn)
        return TUFF_OK;
    self->drawn = text;
    const int32_t range[] = {(int32_t)self->first[text], (int32_t)trained_count(self, text)};
    return tuff_plan_write(run->plan, "range", range, sizeof range);
}

bool example_texts_has_learned(const example_texts *self, const example_run *run)
{
    return run->step == run->settings->steps || text_of_step(self, run, run->step) != self->current;
}

static double perplexity(double loss)
{
    return isnan(loss) ? NAN : exp(fmin(loss, log(10000)));
}

/* Computes the mean loss of the held-out windows of a text. The last batch may hold fewer windows than the others, so
   its mean counts less. */
static tuff_status evaluate_text(const example_texts *self, example_run *run, int text, double *loss)
{
    const int64_t B = run->settings->batch, first = (int64_t)(text + 1) * NUMBERS_OF_TEXT, most = EXAMPLE_TEXT_BATCHES;
    const int64_t all = held_out_count(self, text), full = all / B < most ? all / B : most;
    const int64_t rest = full < most ? all % B : 0;
    double of_full = 0, of_rest = 0;
    tuff_status status = full > 0 ? example_validate(run, first, full, &of_full, NULL) : TUFF_OK;
    if (status == TUFF_OK && rest > 0)
        status = example_validate(run, first + full, 1, &of_rest, NULL);
    *loss = ((double)(full * B) * of_full + (double)rest * of_rest) / (double)(full * B + rest);
    return status;
}

tuff_status example_texts_evaluate(example_texts *self, example_run *run)
{
    for (int i = 0; i <= self->current; i++) {
        double loss = NAN;
        const tuff_status status = evaluate_text(self, run, i, &loss);
        if (status != TUFF_OK)
            return status;
        self->losses[i] = i == self->current ? loss : self->losses[i];
        const double before = perplexity(self->losses[i]), now = perplexity(loss);
        printf("text %d of %d, after text %d: perplexity %.4g", i + 1, self->count, self->current + 1, now);
        if (i < self->current && !isnan(self->losses[i]))
            printf(", %.4g when it was learned: %.1f %% forgotten", before, 100 * (now - before) / before);
        printf("\n");
    }
    return TUFF_OK;
}
