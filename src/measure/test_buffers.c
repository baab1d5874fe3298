/* The memory that candidates of a task run on: a region per buffer of the task, with guards before and after it,
   made-up inputs, and the results that are kept as correct. The comparison allows for sums in another order. */
#include "measure/test_buffers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compile/subgraph.h"

/* Bytes before and after the memory that kernels may write; a multiple of every alignment, so that addresses are as
   aligned as those of the real memory. */
enum { GUARD = 256 };
#define GUARD_WORD 0xA5C3F00Du
/* As floats, NaNs that no arithmetic produces. Runs alternate between them, and they differ in every byte: an element
   that holds one after a run, and the other after the next, was written by neither, whatever its dtype. */
static const uint32_t poison_words[] = {0x7FE1DEADu, 0xFFD2BEEFu};
/* Data repeats after this many elements: a prime, so that no two rows are alike. */
enum { PERIOD = 4093 };

typedef struct buffer_region {
    int id;        /* of the buffer, which is not part of another */
    uint64_t lead; /* bytes from the guard to the first element */
    uint64_t size; /* of the elements */
    tuff_dtype dtype;
    storage *storage;
    bool read, written;
    int in_place;          /* the buffer of results that are written over its data; -1: none */
    double *input_pattern; /* its data, PERIOD elements over and over; NULL: a constant */
    void *expected, *last; /* of results: the correct ones, and those seen last */
    bool has_stored_mask;
    uint8_t *stored_mask; /* by element, whether this task stores it, and no other; NULL: it stores all of them */
} buffer_region;

struct test_buffers {
    tuff_device *device;
    const struct fusion *fusion;
    int task;
    uint64_t memory_limit, size;
    bool is_exact;  /* results do not depend on the order of sums */
    bool is_signed; /* inputs have both signs; those of matmuls and attention always do */
    buffer_region *all;
    int count, capacity;
    bool full_significands;
    double scale;            /* factor on inputs of matmuls */
    int turn, expected_turn; /* poison of the last run, and of the run whose results are kept */
};

/* Returns a power of two that makes sums of products about as large as their terms, as they are in models: operations
   after a matmul take twice the time if their exponentials leave the range of normal numbers. */
static double scale_of(const struct task *task)
{
    if (task->kind != TASK_MATMUL || task->core == NULL)
        return 1;
    const tuff_shape *x = &task->core->inputs[0]->shape;
    const double terms = (double)x->extent[x->rank - 1], mean_square = 3.0 / 8;
    return terms < 2 ? 1 : exp2(-ceil(log2(mean_square * sqrt(terms)) / 2));
}

/* If nothing is known about a task, it gets positive inputs, and results may depend on the order of sums. */
static tuff_status examine_task(test_buffers *self)
{
    subgraph *whole;
    const tuff_status status = tuff__subgraph_create(self->fusion, self->task, &whole);
    self->is_signed = status == TUFF_OK && tuff__subgraph_allows_negative(whole);
    self->is_exact = status == TUFF_OK && tuff__subgraph_is_exact(whole);
    tuff__subgraph_destroy(whole);
    return status == TUFF_E_OOM_HOST ? status : TUFF_OK;
}

tuff_status tuff__test_buffers_create(tuff_device *device, const struct fusion *fusion, int task, uint64_t memory_limit,
                                      test_buffers **out)
{
    test_buffers *self = tuff__calloc(1, sizeof *self);
    *out = self;
    if (self == NULL)
        return TUFF_E_OOM_HOST;
    *self = (test_buffers){.device = device,
                           .fusion = fusion,
                           .task = task,
                           .memory_limit = memory_limit,
                           .scale = scale_of(&fusion->tasks[task])};
    const tuff_status status = examine_task(self);
    if (status == TUFF_OK)
        return TUFF_OK;
    tuff__free(self);
    *out = NULL;
    return status;
}

void tuff__test_buffers_use_full_significands(test_buffers *self)
{
    self->full_significands = true;
    self->is_exact = false;
}

void tuff__test_buffers_destroy(test_buffers *self)
{
    if (self == NULL)
        return;
    for (int i = 0; i < self->count; ++i) {
        tuff__storage_release(self->all[i].storage);
        tuff__free(self->all[i].input_pattern);
        tuff__free(self->all[i].expected);
        tuff__free(self->all[i].last);
        tuff__free(self->all[i].stored_mask);
    }
    tuff__free(self->all);
    tuff__free(self);
}

uint64_t tuff__test_buffers_size(const test_buffers *self)
{
    return self->size;
}

static uint64_t whole_size(const buffer_region *region)
{
    return GUARD + region->lead + (region->size + 3) / 4 * 4 + GUARD;
}

/* Returns one past the largest index at which all lookups of the task's kernels find an element; 64: no lookups. */
static int64_t index_bound(const test_buffers *self, const launch_list *launches)
{
    const struct task *task = &self->fusion->tasks[self->task];
    int64_t bound = 0;
    if (task->kind == TASK_SCATTER && task->core != NULL)
        bound = task->core->outputs[0].shape.extent[task->core->attributes.axis];
    for (int i = 0; i < launches->launch_count; ++i)
        for (int k = 0; k < launches->launches[i].chain.value_count; ++k) {
            const chain_value *value = &launches->launches[i].chain.values[k];
            if (value->kind == VALUE_LOOKUP && (bound == 0 || value->extent < bound))
                bound = value->extent;
        }
    return bound > 0 ? bound : 64;
}

/* Makes multiples of 1/8, so that sums of products are exact in any order; for other results, none is 0. */
static double make_float(const test_buffers *self, uint32_t roll)
{
    const task_kind kind = self->fusion->tasks[self->task].kind;
    const double share = (1 + roll % 0xFFFFFF) / 0x1p24, sign = self->is_signed && roll >> 30 ? -1 : 1;
    if (kind != TASK_MATMUL && kind != TASK_ATTENTION)
        return sign * (self->full_significands ? share : (1 + roll % 8) / 8.0);
    return self->scale * (self->full_significands ? 2 * share - 1 : (int)(roll % 17) / 8.0 - 1.0);
}

static void make_elements(const test_buffers *self, const buffer_region *region, int64_t bound, double *values)
{
    uint64_t state = 0x9E3779B97F4A7C15u * (uint64_t)(region->id + 1);
    for (int i = 0; i < PERIOD; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const uint32_t roll = (uint32_t)(state >> 33);
        if (tuff__dtype_is_float(region->dtype))
            values[i] = make_float(self, roll);
        else if (region->dtype == TUFF_BOOL)
            values[i] = roll % 2;
        else
            values[i] = (double)(roll % (uint32_t)bound % 128);
        if (region->dtype == TUFF_I32 || region->dtype == TUFF_U32)
            values[i] = (double)(roll % (uint32_t)(bound > INT32_MAX ? INT32_MAX : bound));
    }
}

static tuff_status write_constant(const test_buffers *self, const buffer_region *region, const node *at)
{
    if (at->attributes.data != NULL)
        return tuff__storage_write(self->device, region->storage, GUARD + region->lead, at->attributes.data,
                                   region->size);
    double number = at->attributes.value;
    char bytes[8];
    tuff__from_double(region->dtype, &number, 1, bytes);
    return tuff__storage_fill(self->device, region->storage, GUARD + region->lead, region->size, bytes,
                              tuff_dtype_size(region->dtype));
}

static tuff_status write_input(const test_buffers *self, const buffer_region *region)
{
    char pattern[PERIOD * 8];
    tuff__from_double(region->dtype, region->input_pattern, PERIOD, pattern);
    return tuff__storage_fill(self->device, region->storage, GUARD + region->lead, region->size, pattern,
                              PERIOD * tuff_dtype_size(region->dtype));
}

static tuff_status fill_elements(const test_buffers *self, buffer_region *region, const launch_list *launches)
{
    const tuff_graph *graph = self->fusion->graph;
    const uint32_t guard = GUARD_WORD;
    const uint64_t behind = whole_size(region) - GUARD;
    TRY(tuff__storage_fill(self->device, region->storage, 0, GUARD, &guard, sizeof guard));
    TRY(tuff__storage_fill(self->device, region->storage, behind, GUARD, &guard, sizeof guard));
    if (region->size == 0)
        return TUFF_OK;
    if (region->id < graph->node_count && graph->nodes[region->id]->op == OP_CONSTANT)
        return write_constant(self, region, graph->nodes[region->id]);
    region->input_pattern = tuff__alloc(PERIOD * sizeof *region->input_pattern);
    if (region->input_pattern == NULL)
        return TUFF_E_OOM_HOST;
    make_elements(self, region, index_bound(self, launches), region->input_pattern);
    return write_input(self, region);
}

static buffer_region *find(const test_buffers *self, int id)
{
    for (int i = 0; i < self->count; ++i)
        if (self->all[i].id == id || self->all[i].in_place == id)
            return &self->all[i];
    return NULL;
}

static tuff_status add_region(test_buffers *self, const launch_list *launches, int id)
{
    const memory_buffer *buffer = &launches->buffers[id];
    buffer_region region = {.id = id,
                            .lead = buffer->offset % GUARD,
                            .size = tuff__buffer_size(buffer),
                            .dtype = buffer->dtype,
                            .in_place = -1};
    if (whole_size(&region) > self->memory_limit - self->size)
        return FAIL(TUFF_E_OOM_DEVICE, "tune: the task needs test buffers of more than %llu bytes",
                    (unsigned long long)self->memory_limit);
    if (!GROW(self->all, self->count, self->capacity))
        return TUFF_E_OOM_HOST;
    TRY(tuff__storage_create(self->device, whole_size(&region), false, &region.storage));
    const tuff_status status = fill_elements(self, &region, launches);
    if (status != TUFF_OK) {
        tuff__storage_release(region.storage);
        tuff__free(region.input_pattern);
        return status;
    }
    self->all[self->count++] = region;
    self->size += whole_size(&region);
    return TUFF_OK;
}

static tuff_status place(test_buffers *self, launch_list *launches, int id, const chain_buffer *use)
{
    int root = id;
    while (launches->buffers[root].parent >= 0) /* parts get their places when memory is planned */
        root = launches->buffers[root].parent;
    buffer_region *region = find(self, root);
    if (region == NULL) {
        TRY(add_region(self, launches, root));
        region = &self->all[self->count - 1];
    }
    region->read |= use->read;
    region->written |= use->written;
    if (use->written && self->fusion->graph->nodes[root]->op == OP_ARRAY)
        region->in_place = id;
    launches->buffers[root].fixed = true;
    launches->buffers[root].storage = region->storage;
    launches->buffers[root].offset = GUARD + region->lead;
    return TUFF_OK;
}

tuff_status tuff__test_buffers_place(test_buffers *self, launch_list *launches)
{
    for (int i = 0; i < launches->launch_count; ++i) {
        const fused_chain *chain = &launches->launches[i].chain;
        for (int k = 0; k < chain->buffer_count; ++k)
            if (chain->buffers[k].id < self->fusion->graph->node_count)
                TRY(place(self, launches, chain->buffers[k].id, &chain->buffers[k]));
    }
    return TUFF_OK;
}

int tuff__test_buffers_root_buffer(const struct fusion *fusion, const node *value, int64_t *start)
{
    int buffer = value->id;
    *start = tuff__fusion_layout(fusion, value).offset;
    while (fusion->facts[buffer].materialized && fusion->facts[buffer].placed_in != NULL) {
        *start += fusion->facts[buffer].placed_at;
        buffer = fusion->facts[buffer].placed_in->id;
    }
    return buffer;
}

static int64_t count_of(const buffer_region *region)
{
    return (int64_t)(region->size / tuff_dtype_size(region->dtype));
}

static void mark_stored(const buffer_region *region, const view *layout, int axis, int64_t at)
{
    if (axis == layout->rank) {
        if (at >= 0 && at < count_of(region))
            region->stored_mask[at] = 1;
        return;
    }
    for (int64_t i = 0; i < layout->extent[axis]; ++i)
        mark_stored(region, layout, axis + 1, at + i * layout->stride[axis]);
}

/* Finds which elements of a region the task stores. */
static tuff_status find_stored(const test_buffers *self, buffer_region *region)
{
    const struct task *task = &self->fusion->tasks[self->task];
    const int64_t count = count_of(region);
    int64_t start;
    region->has_stored_mask = true;
    for (int i = 0; i < task->root_count; ++i)
        if (find(self, tuff__test_buffers_root_buffer(self->fusion, task->roots[i], &start)) == region &&
            tuff_shape_count(task->roots[i]->outputs[0].shape) == count)
            return TUFF_OK;
    region->stored_mask = tuff__calloc((size_t)count + 1, 1);
    if (region->stored_mask == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < task->root_count; ++i)
        if (find(self, tuff__test_buffers_root_buffer(self->fusion, task->roots[i], &start)) == region) {
            const view layout = tuff__fusion_layout(self->fusion, task->roots[i]);
            mark_stored(region, &layout, 0, start);
        }
    return TUFF_OK;
}

/* Whether the task reads the data that it writes over. */
static bool is_updated(const test_buffers *self, const buffer_region *region)
{
    const struct task *task = &self->fusion->tasks[self->task];
    for (int i = 0; i < task->read_count && region->in_place >= 0; ++i)
        if (task->reads[i]->id == region->id)
            return true;
    return false;
}

static bool is_poisoned(const test_buffers *self, const buffer_region *region)
{
    return region->written && region->input_pattern != NULL && !is_updated(self, region);
}

/* Makes the initial contents, before a run, of a region that the task stores only in part. Elements that others store
   are the same in every run. */
static tuff_status make_image(const buffer_region *region, int turn, char **out)
{
    const size_t step = tuff_dtype_size(region->dtype);
    char pattern[PERIOD * 8];
    *out = tuff__alloc((size_t)region->size + sizeof(uint32_t));
    if (*out == NULL)
        return TUFF_E_OOM_HOST;
    tuff__from_double(region->dtype, region->input_pattern, PERIOD, pattern);
    for (int64_t i = 0; i < count_of(region); ++i) {
        const uint32_t word = poison_words[region->stored_mask[i] ? turn : 0], twice[] = {word, word};
        const size_t at = (size_t)i * step;
        const bool is_data = !region->stored_mask[i] && region->read;
        memcpy(*out + at, is_data ? pattern + (size_t)(i % PERIOD) * step : (const char *)twice + at % sizeof word,
               step);
    }
    return TUFF_OK;
}

static tuff_status write_image(const test_buffers *self, const buffer_region *region)
{
    char *image = NULL;
    tuff_status status = make_image(region, self->turn, &image);
    if (status == TUFF_OK)
        status = tuff__storage_write(self->device, region->storage, GUARD + region->lead, image, region->size);
    tuff__free(image);
    return status;
}

tuff_status tuff__test_buffers_poison(test_buffers *self)
{
    self->turn = !self->turn;
    const uint32_t *poison = &poison_words[self->turn];
    for (int i = 0; i < self->count; ++i) {
        buffer_region *region = &self->all[i];
        if (region->in_place >= 0 && region->input_pattern != NULL && is_updated(self, region))
            TRY(write_input(self, region));
        if (!is_poisoned(self, region))
            continue;
        if (!region->has_stored_mask)
            TRY(find_stored(self, region));
        TRY(region->stored_mask != NULL ? write_image(self, region)
                                        : tuff__storage_fill(self->device, region->storage, GUARD + region->lead,
                                                             (region->size + 3) / 4 * 4, poison, sizeof *poison));
    }
    return TUFF_OK;
}

/* Reads a region with its guards. */
static tuff_status read_back(const test_buffers *self, const buffer_region *region, void **out)
{
    const size_t size = (size_t)whole_size(region);
    *out = tuff__alloc(size);
    if (*out == NULL)
        return TUFF_E_OOM_HOST;
    return tuff__storage_read(self->device, region->storage, 0, *out, size);
}

tuff_status tuff__test_buffers_keep(test_buffers *self)
{
    for (int i = 0; i < self->count; ++i) {
        buffer_region *region = &self->all[i];
        if (!region->written)
            continue;
        tuff__free(region->expected);
        region->expected = NULL;
        TRY(read_back(self, region, &region->expected));
    }
    self->expected_turn = self->turn;
    return TUFF_OK;
}

tuff_status tuff__test_buffers_match_expected(test_buffers *self, bool *same)
{
    *same = true;
    for (int i = 0; i < self->count && *same; ++i) {
        const buffer_region *region = &self->all[i];
        void *seen = NULL;
        if (!region->written || region->expected == NULL)
            continue;
        const tuff_status status = read_back(self, region, &seen);
        *same = status == TUFF_OK && memcmp((char *)seen + GUARD + region->lead,
                                            (char *)region->expected + GUARD + region->lead, region->size) == 0;
        tuff__free(seen);
        TRY(status);
    }
    return TUFF_OK;
}

static bool guards_hold(const buffer_region *region, const char *seen)
{
    const uint64_t behind = whole_size(region) - GUARD;
    for (uint64_t i = 0; i < GUARD; i += 4) {
        uint32_t before, after;
        memcpy(&before, seen + i, 4);
        memcpy(&after, seen + behind + i, 4);
        if (before != GUARD_WORD || after != GUARD_WORD)
            return false;
    }
    return true;
}

/* Returns the number of terms, at most, that one element is the sum of. */
static double terms_of(const test_buffers *self)
{
    const struct task *task = &self->fusion->tasks[self->task];
    double terms = 1;
    for (int i = 0; i < task->domain.rank; ++i)
        if (task->kind != TASK_MATMUL && (task->kind == TASK_ATTENTION || (task->loop_axes >> i & 1) != 0))
            terms *= (double)task->domain.extent[i];
    return task->kind == TASK_SCATTER ? 64 : terms;
}

double tuff__dtype_rounding(tuff_dtype dtype)
{
    return dtype == TUFF_F16 ? 0x1p-11 : dtype == TUFF_BF16 ? 0x1p-8 : 0x1p-24;
}

/* Returns the root mean square of the finite elements. */
static double size_of_elements(tuff_dtype dtype, const char *data, int64_t count)
{
    double sum = 0;
    int64_t finite = 0;
    for (int64_t i = 0; i < count; ++i) {
        double value;
        tuff__to_double(dtype, data + (size_t)i * tuff_dtype_size(dtype), 1, &value);
        if (isfinite(value)) {
            sum += value * value;
            ++finite;
        }
    }
    return finite == 0 ? 0 : sqrt(sum / (double)finite);
}

/* Whether an element, `at` bytes from the first, holds the poison of a turn. */
static bool is_poison(const char *element, uint64_t at, size_t step, int turn)
{
    const char *word = (const char *)&poison_words[turn];
    for (size_t k = 0; k < step; ++k)
        if (element[k] != word[(at + k) % sizeof *poison_words])
            return false;
    return true;
}

static void compare_elements(const test_buffers *self, const buffer_region *region, const char *seen, char *fault,
                             size_t size)
{
    const size_t step = tuff_dtype_size(region->dtype);
    const int64_t count = count_of(region);
    const char *reference = (const char *)region->expected + GUARD + region->lead;
    const bool floats = tuff__dtype_is_float(region->dtype);
    seen += GUARD + region->lead;
    if (memcmp(seen, reference, region->size) == 0)
        return;
    const double unit = tuff__dtype_rounding(region->dtype) + 0x1p-24 * sqrt(terms_of(self));
    const double typical = floats ? size_of_elements(region->dtype, reference, count) : 0;
    for (int64_t i = 0; i < count; ++i) {
        double actual, wanted;
        const char *at = seen + (size_t)i * step, *expected = reference + (size_t)i * step;
        if (memcmp(at, expected, step) == 0)
            continue;
        tuff__to_double(region->dtype, at, 1, &actual);
        tuff__to_double(region->dtype, expected, 1, &wanted);
        const bool unwritten = step == 4 && (is_poison(at, 0, step, self->turn) || is_poison(at, 0, step, !self->turn));
        const bool close =
            floats && !unwritten && !self->is_exact &&
            ((isnan(actual) && isnan(wanted)) || fabs(actual - wanted) <= 16 * unit * fmax(fabs(wanted), typical));
        if (close)
            continue;
        if (unwritten)
            snprintf(fault, size, "element %lld is not written", (long long)i);
        else
            snprintf(fault, size, "element %lld is %.9g, should be %.9g", (long long)i, actual, wanted);
        return;
    }
}

static tuff_status compare(buffer_region *region, const test_buffers *self, bool exactly, char *fault, size_t size)
{
    void *seen = NULL;
    const tuff_status status = read_back(self, region, &seen);
    if (status != TUFF_OK) {
        tuff__free(seen);
        return status;
    }
    if (!guards_hold(region, seen))
        snprintf(fault, size, "writes outside a buffer");
    else if (!exactly)
        compare_elements(self, region, seen, fault, size);
    else if (region->last != NULL && memcmp((char *)seen + GUARD + region->lead,
                                            (char *)region->last + GUARD + region->lead, region->size) != 0)
        snprintf(fault, size, "two runs differ");
    tuff__free(region->last);
    region->last = seen;
    return TUFF_OK;
}

tuff_status tuff__test_buffers_compare(test_buffers *self, bool exactly, char *fault, size_t size)
{
    fault[0] = '\0';
    for (int i = 0; i < self->count && fault[0] == '\0'; ++i)
        if (self->all[i].written)
            TRY(compare(&self->all[i], self, exactly, fault, size));
    return TUFF_OK;
}

/* Finds elements of the task that neither of two runs wrote, and elements of other tasks that the first run wrote. */
static tuff_status check_written(const test_buffers *self, const buffer_region *region, char *fault, size_t size)
{
    const size_t step = tuff_dtype_size(region->dtype);
    const char *kept = (const char *)region->expected + GUARD + region->lead,
               *last = (const char *)region->last + GUARD + region->lead;
    char *image = NULL;
    if (region->stored_mask == NULL && memcmp(kept, last, region->size) == 0)
        return TUFF_OK;
    if (region->stored_mask != NULL)
        TRY(make_image(region, self->expected_turn, &image));
    for (int64_t i = 0; i < count_of(region) && fault[0] == '\0'; ++i) {
        const uint64_t at = (uint64_t)i * step;
        if (region->stored_mask != NULL && !region->stored_mask[i] && memcmp(kept + at, image + at, step) != 0)
            snprintf(fault, size, "element %lld is written, but another task stores it", (long long)i);
        else if ((region->stored_mask == NULL || region->stored_mask[i]) &&
                 is_poison(kept + at, at, step, self->expected_turn) && is_poison(last + at, at, step, self->turn))
            snprintf(fault, size, "element %lld is not written", (long long)i);
    }
    tuff__free(image);
    return TUFF_OK;
}

tuff_status tuff__test_buffers_check_written(const test_buffers *self, char *fault, size_t size)
{
    fault[0] = '\0';
    for (int i = 0; i < self->count && fault[0] == '\0' && self->turn != self->expected_turn; ++i) {
        const buffer_region *region = &self->all[i];
        if (is_poisoned(self, region) && region->expected != NULL && region->last != NULL)
            TRY(check_written(self, region, fault, size));
    }
    return TUFF_OK;
}

static const buffer_region *find_element(const test_buffers *self, int buffer, int64_t at)
{
    const buffer_region *region = find(self, buffer);
    return region != NULL && at >= 0 && at < count_of(region) ? region : NULL;
}

static void read_constant(const node *source, int64_t at, double *out)
{
    const op_attributes *given = &source->attributes;
    const tuff_dtype dtype = source->outputs[0].dtype;
    if (given->data == NULL)
        *out = given->value;
    else
        tuff__to_double(dtype, (const char *)given->data + (size_t)at * tuff_dtype_size(dtype), 1, out);
}

/* Small constants are part of the kernels' texts, and have no memory. */
bool tuff__test_buffers_read_input(const test_buffers *self, int buffer, int64_t at, double *out)
{
    const tuff_graph *graph = self->fusion->graph;
    if (buffer < graph->node_count && graph->nodes[buffer]->op == OP_CONSTANT) {
        read_constant(graph->nodes[buffer], at, out);
        return true;
    }
    const buffer_region *region = find_element(self, buffer, at);
    if (region == NULL || (region->written && region->in_place < 0))
        return false;
    *out = region->input_pattern[at % PERIOD];
    return true;
}

bool tuff__test_buffers_read_expected(const test_buffers *self, int buffer, int64_t at, double *out)
{
    const buffer_region *region = find_element(self, buffer, at);
    if (region == NULL || region->expected == NULL)
        return false;
    tuff__to_double(region->dtype,
                    (const char *)region->expected + GUARD + region->lead + (size_t)at * tuff_dtype_size(region->dtype),
                    1, out);
    return true;
}

/* The state of a scan of the elements of a root, which notes every n-th of those that may never have been written. When
   it has noted too many, it drops every other one, so that one in the middle is always among them. */
typedef struct suspects {
    const buffer_region *region;
    bool is_updated; /* the region is changed in place, so its initial values count */
    int64_t index, found, every, last;
    int64_t noted[64];
    int count;
} suspects;

static bool is_suspect(const suspects *self, int64_t at)
{
    static const char zero[8];
    const buffer_region *region = self->region;
    const size_t step = tuff_dtype_size(region->dtype);
    const char *element = (const char *)region->expected + GUARD + region->lead + (size_t)at * step;
    double value;
    if (at < 0 || at >= count_of(region))
        return false;
    if (!self->is_updated)
        return memcmp(element, zero, step) == 0;
    tuff__to_double(region->dtype, element, 1, &value);
    return value == region->input_pattern[at % PERIOD];
}

static void note_suspect(suspects *self)
{
    enum { ROOM = sizeof self->noted / sizeof *self->noted };
    self->last = self->index;
    if (self->found++ % self->every != 0)
        return;
    if (self->count == ROOM) {
        for (int i = 0; i < ROOM / 2; ++i)
            self->noted[i] = self->noted[2 * i];
        self->count = ROOM / 2;
        self->every *= 2;
        if ((self->found - 1) % self->every != 0)
            return;
    }
    self->noted[self->count++] = self->index;
}

static void find_suspects(suspects *self, const view *layout, int axis, int64_t at)
{
    if (axis == layout->rank) {
        if (is_suspect(self, at))
            note_suspect(self);
        ++self->index;
        return;
    }
    for (int64_t i = 0; i < layout->extent[axis]; ++i)
        find_suspects(self, layout, axis + 1, at + i * layout->stride[axis]);
}

/* Returns false if no results are kept for the root. */
static bool begin_suspects(const test_buffers *self, const node *root, bool changes_too, suspects *out)
{
    int64_t start;
    const buffer_region *region = find(self, tuff__test_buffers_root_buffer(self->fusion, root, &start));
    const view layout = tuff__fusion_layout(self->fusion, root);
    if (region == NULL || region->expected == NULL || region->input_pattern == NULL)
        return false;
    *out = (suspects){.region = region, .is_updated = changes_too && is_updated(self, region), .every = 1};
    find_suspects(out, &layout, 0, start);
    return true;
}

int tuff__test_buffers_suspects(const test_buffers *self, const node *root, int64_t out[MAX_SUSPECTS])
{
    suspects found;
    if (!begin_suspects(self, root, true, &found))
        return 0;
    const int count = found.count < MAX_SUSPECTS - 1 ? found.count : MAX_SUSPECTS - 1;
    for (int i = 0; i < count; ++i)
        out[i] = found.noted[found.count * i / count];
    if (count > 0)
        out[count] = found.last;
    return count > 0 ? count + 1 : 0;
}

bool tuff__test_buffers_is_zero(const test_buffers *self, const node *root)
{
    suspects collected;
    return begin_suspects(self, root, false, &collected) && collected.found > 0 && collected.found == collected.index;
}
