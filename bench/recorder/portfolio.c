/* Chooses portfolios by greedy cover: again and again the candidate that helps most recordings which no chosen one
   serves well. */
#include "bench/recorder/portfolio.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file/list.h"

enum { FAMILY_SIZE = 32, CLASS_SIZE = 32, PATH_SIZE = 4096 };
/* The weight of a recording of another device class; one of the same class has weight 1. */
static const double other_class = 0.25;
/* The least increase of the mean for which a candidate is added. */
#define MIN_GAIN 1e-4

typedef struct reading {
    const char *folder;
    recordings *out;
} reading;

static tuff_status read_one(const char *file, void *state)
{
    const reading *input = state;
    recordings *out = input->out;
    char path[PATH_SIZE];
    const size_t length = strlen(file);
    if (length < 6 || strcmp(file + length - 6, ".jsonl") != 0)
        return TUFF_OK;
    if (snprintf(path, sizeof path, "%s/%s", input->folder, file) >= (int)sizeof path)
        return FAIL(TUFF_E_IO, "recordings: the path of %s is too long", file);
    if (!GROW(out->items, out->count, out->capacity))
        return TUFF_E_OOM_HOST;
    TRY(recording_read(path, &out->items[out->count]));
    out->count++;
    return TUFF_OK;
}

static int compare(const void *a, const void *b)
{
    const recording *first = a, *second = b;
    const int names = strcmp(first->name, second->name);
    return names ? names : strcmp(first->device, second->device);
}

tuff_status recordings_read(const char *folder, recordings *out)
{
    reading state = {folder, out};
    *out = (recordings){0};
    TRY(tuff__file_list(folder, "", read_one, &state));
    if (out->count > 0)
        qsort(out->items, (size_t)out->count, sizeof *out->items, compare);
    return TUFF_OK;
}

void recordings_free(recordings *self)
{
    for (int i = 0; i < self->count; i++)
        recording_free(&self->items[i]);
    tuff__free(self->items);
    *self = (recordings){0};
}

void recording_family(const recording *space, char *out, size_t size)
{
    (void)snprintf(out, size, "%.*s", (int)strcspn(space->name, "-"), space->name);
}

void recording_class(const recording *space, char *out, size_t size)
{
    const size_t length = strcspn(space->device, ":");
    (void)snprintf(out, size, "%.*s", space->device[length] ? (int)length : 0, space->device);
}

static bool is_of_family(const recording *space, const char *family, const char *excluded_device)
{
    char name[FAMILY_SIZE];
    recording_family(space, name, sizeof name);
    return strcmp(name, family) == 0 && (!excluded_device || strcmp(space->device, excluded_device) != 0);
}

/* Returns the speed of a candidate relative to the best; 0 if it was not recorded or was rejected. */
static double relative_speed(const recording *space, uint64_t best, const tune_config *candidate)
{
    const tune_config reduced = recording_reduce(space, candidate);
    const recorded_point *found = recording_find(space, &reduced);
    return found && found->result == EVALUATION_GOOD && found->median > 0 ? (double)best / (double)found->median : 0;
}

/* The candidates of a family and their relative speeds on each of its recordings. */
typedef struct cover {
    const recording **recordings;
    int count, capacity;
    tune_config *candidates;
    int candidate_count, candidate_capacity;
    double *shares; /* relative speeds, [candidate_count][count] */
    double *reached, *weights;
} cover;

static tuff_status collect(cover *self, const recordings *from, const char *family, const char *class,
                           const char *excluded_device)
{
    for (int i = 0; i < from->count; i++) {
        const recording *one = &from->items[i];
        if (!is_of_family(one, family, excluded_device))
            continue;
        if (!GROW(self->recordings, self->count, self->capacity))
            return TUFF_E_OOM_HOST;
        self->recordings[self->count++] = one;
        for (int k = 0; k < one->count; k++) {
            if (one->points[k].result != EVALUATION_GOOD || tuff__config_count(&one->points[k].config) == 0)
                continue;
            if (!GROW(self->candidates, self->candidate_count, self->candidate_capacity))
                return TUFF_E_OOM_HOST;
            self->candidates[self->candidate_count++] = one->points[k].config;
        }
    }
    const size_t count = (size_t)self->count;
    self->shares = tuff__calloc(count * (size_t)self->candidate_count + 1, sizeof *self->shares);
    self->reached = tuff__calloc(count + 1, sizeof *self->reached);
    self->weights = tuff__calloc(count + 1, sizeof *self->weights);
    for (int i = 0; i < self->count && self->weights; i++) {
        char own[CLASS_SIZE];
        recording_class(self->recordings[i], own, sizeof own);
        self->weights[i] = strcmp(own, class) == 0 ? 1 : other_class;
    }
    return self->shares && self->reached && self->weights ? TUFF_OK : TUFF_E_OOM_HOST;
}

static void weigh(cover *self)
{
    static const tune_config baseline;
    for (int i = 0; i < self->count; i++) {
        const uint64_t best = recording_best(self->recordings[i]);
        self->reached[i] = relative_speed(self->recordings[i], best, &baseline);
        for (int k = 0; k < self->candidate_count; k++)
            self->shares[k * self->count + i] = relative_speed(self->recordings[i], best, &self->candidates[k]);
    }
}

/* Returns what the candidate adds to the mean. */
static double gain_of(const cover *self, int candidate)
{
    double sum = 0;
    for (int i = 0; i < self->count; i++) {
        const double share = self->shares[candidate * self->count + i];
        sum += self->weights[i] * (share > self->reached[i] ? share - self->reached[i] : 0);
    }
    return sum / self->count;
}

/* Returns the candidate with the largest gain, the first of equals; -1 if no gain is large enough. */
static int pick(const cover *self)
{
    int best = -1;
    double most = MIN_GAIN;
    for (int k = 0; k < self->candidate_count; k++) {
        const double gain = gain_of(self, k);
        if (gain > most) {
            most = gain;
            best = k;
        }
    }
    return best;
}

static int choose_candidates(cover *self, tune_config out[PORTFOLIO_SIZE])
{
    int count = 0, next;
    weigh(self);
    while (count < PORTFOLIO_SIZE && (next = pick(self)) >= 0) {
        out[count++] = self->candidates[next];
        for (int i = 0; i < self->count; i++) {
            const double share = self->shares[next * self->count + i];
            self->reached[i] = share > self->reached[i] ? share : self->reached[i];
        }
    }
    return count;
}

int portfolio_make(const recordings *from, const char *family, const char *class, const char *excluded_device,
                   tune_config out[PORTFOLIO_SIZE])
{
    cover all = {0};
    const int count =
        collect(&all, from, family, class, excluded_device) == TUFF_OK ? choose_candidates(&all, out) : -1;
    tuff__free(all.recordings);
    tuff__free(all.candidates);
    tuff__free(all.shares);
    tuff__free(all.reached);
    tuff__free(all.weights);
    return count;
}

double portfolio_score(const recordings *from, const char *family, const char *device, const tune_config *portfolio,
                       int count)
{
    static const tune_config baseline;
    double sum = 0;
    int found = 0;
    for (int i = 0; i < from->count; i++) {
        const recording *one = &from->items[i];
        if (!is_of_family(one, family, NULL) || (device && strcmp(one->device, device) != 0))
            continue;
        const uint64_t least = recording_best(one);
        double best = relative_speed(one, least, &baseline);
        for (int k = 0; k < count; k++) {
            const double share = relative_speed(one, least, &portfolio[k]);
            best = share > best ? share : best;
        }
        sum += best;
        found++;
    }
    return found ? sum / found : -1;
}

tuff_status portfolio_families(const recordings *from, family_visitor visit, void *state)
{
    char before[FAMILY_SIZE] = "", family[FAMILY_SIZE];
    for (int i = 0; i < from->count; i++) {
        recording_family(&from->items[i], family, sizeof family);
        if (strcmp(family, before) != 0)
            TRY(visit(family, state));
        memcpy(before, family, sizeof before);
    }
    return TUFF_OK;
}

typedef struct printing {
    const recordings *from;
    text *out;
} printing;

static tuff_status print_class(const printing *state, const char *family, const char *class, const char *name)
{
    tune_config all[PORTFOLIO_SIZE];
    const int count = portfolio_make(state->from, family, class, NULL, all);
    if (count < 0)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < count; i++) {
        tuff__text_add(state->out, "PORTFOLIO(%s, %s, \"", name, family);
        tuff__config_format(&all[i], state->out);
        tuff__text_add(state->out, "\")\n");
    }
    return TUFF_OK;
}

static tuff_status print_family(const char *family, void *state)
{
    TRY(print_class(state, family, "opencl-cpu", "opencl_cpu"));
    return print_class(state, family, "vulkan-cpu", "vulkan_cpu");
}

tuff_status portfolio_print(const recordings *from, text *out)
{
    printing state = {from, out};
    tuff__text_add(out, "/* Candidates that searches begin with: PORTFOLIO(class of devices, family, candidate), the "
                        "most useful first. Generated\n   from recordings; do not edit:\n\n"
                        "     tuff-recorder portfolio tests/data/recordings --out src/search/portfolio.def */\n\n");
    TRY(portfolio_families(from, print_family, &state));
    return tuff__text_status(out);
}
