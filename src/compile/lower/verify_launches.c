/* Walks the launches in order and records for every buffer how much of it was written, by which task, and whether
   another buffer has overwritten its memory since. The elements that a store covers are counted from its strides: if
   these form a mixed radix, no two coordinates share an address. */
#include "compile/lower/verify_launches.h"

#include <string.h>

#include "graph/blob/blob.h"

#define NO_TASK (-2) /* no task has written it; -1 stands for launches without a task: copies and conversions */
#define ANY (-1)

typedef struct contents {
    int64_t covered;         /* elements that were written; for a whole, including those of its parts */
    int task;                /* the task that wrote them */
    int written_by;          /* the last launch that wrote some of it, or -1 */
    int destroyed_by;        /* the launch that has overwritten its memory since, or -1 */
    int pass;                /* first launch of the pass (see handovers) that wrote it; otherwise the writer */
    bool has_pending_reader; /* written for another body of the pass, which has not read it yet */
    int64_t sorted;          /* for the keys of a scatter: the end of those for which a pass has begun */
    int64_t end;             /* after the last range that was written; 0 if launches write the buffer whole */
} contents;

/* A buffer's memory. An array of these is searched faster than the buffers, which matters for large plans. */
typedef struct extent {
    const storage *storage;
    uint64_t begin, end;
} extent;

typedef struct verifier {
    const launch_list *list;
    const tuff_graph *graph;
    contents *contents; /* by buffer */
    extent *extents;    /* by buffer */
    int *held;          /* the buffers whose own memory holds something: a value of the host, or what a task wrote */
    int held_count;
} verifier;

static const char *node_name(const verifier *self, int id)
{
    return id >= 0 && id < self->graph->node_count ? tuff__op_info(self->graph->nodes[id]->op)->name : "scratch";
}

static tuff_status fail_at(const verifier *self, int index, int id, const char *fault)
{
    const char *body = index >= 0 ? self->list->launches[index].body : "end";
    return FAIL(TUFF_E_COMPILE, "compile: the plan is wrong, please report it: launch %d (%s), buffer %d (%s): %s",
                index, body, id, node_name(self, id), fault);
}

static int64_t element_count(const verifier *self, int id)
{
    return id < self->graph->node_count ? tuff_shape_count(self->graph->nodes[id]->outputs[0].shape)
                                        : self->list->buffers[id].count;
}

static int root_of(const verifier *self, int id)
{
    while (self->list->buffers[id].parent >= 0)
        id = self->list->buffers[id].parent;
    return id;
}

static bool are_parts_of_one(const verifier *self, int a, int b)
{
    return root_of(self, a) == root_of(self, b);
}

static bool overlap(const verifier *self, int a, int b)
{
    const extent *x = &self->extents[a], *y = &self->extents[b];
    return x->storage == y->storage && x->storage != NULL && x->begin < y->end && y->begin < x->end;
}

/* Checks that a buffer lies inside its storage and inside the whole of which it is a part. */
static tuff_status check_place(const verifier *self, int index, int id)
{
    const launch_list *list = self->list;
    if (id < 0 || id >= list->buffer_count)
        return FAIL(TUFF_E_COMPILE, "compile: the plan is wrong, please report it: launch %d has buffer %d of %d",
                    index, id, list->buffer_count);
    const memory_buffer *at = &list->buffers[id];
    if (at->storage == NULL)
        return fail_at(self, index, id, "has no memory");
    const uint64_t size = tuff__storage_size(at->storage), own = at->count == 0 ? 0 : tuff__buffer_size(at);
    if (at->offset > size || own > size - at->offset)
        return fail_at(self, index, id, "extends beyond its storage");
    if (at->parent < 0)
        return TUFF_OK;
    const memory_buffer *whole = &list->buffers[at->parent];
    const uint64_t element = tuff_dtype_size(whole->dtype);
    if (at->dtype != whole->dtype)
        return fail_at(self, index, id, "has another dtype than its whole");
    if (at->parent_at < 0 || at->parent_at + at->count > whole->count || at->storage != whole->storage ||
        at->offset != whole->offset + (uint64_t)at->parent_at * element)
        return fail_at(self, index, id, "is not where its part of the whole is");
    return TUFF_OK;
}

/* Whether a node must keep all its bits in memory, whatever the plan's precision: because of its op, or of what reads
   it. */
static bool keeps_bits(const verifier *self, const node *at)
{
    const op_pattern pattern = tuff__op_info(at->op)->pattern;
    bool keeps = at->phase == TUFF_PHASE_OPTIMIZER || self->list->fusion->facts[at->id].compared ||
                 at->outputs[0].shape.rank == 0 || pattern == PATTERN_REDUCTION || pattern == PATTERN_SCAN ||
                 pattern == PATTERN_SCATTER || at->op == OP_ATTENTION_LSE || at->op == OP_RANDOM;
    for (int i = 0; i < self->graph->output_count; ++i)
        keeps |= self->graph->outputs[i].tensor->node == at;
    for (int i = 0; i < self->graph->assign_count; ++i)
        keeps |= self->graph->assigns[i]->inputs[0]->node == at;
    return keeps;
}

/* Checks that elements have the size in memory that the node's dtype and the plan's precision require. */
static tuff_status check_storage(const verifier *self, int id)
{
    static const tuff_dtype precisions[] = {TUFF_F32, TUFF_F16, TUFF_BF16};
    const node *at = self->graph->nodes[id];
    const tuff_dtype dtype = at->outputs[0].dtype, stored = self->list->buffers[id].dtype;
    if (tuff__op_is_source(at->op) || !self->list->buffers[id].used || stored == dtype)
        return TUFF_OK;
    if (!tuff__dtype_is_float(dtype))
        return tuff_dtype_size(stored) == 4 ? TUFF_OK : fail_at(self, -1, id, "has too few bits in memory");
    if (stored == TUFF_F32)
        return TUFF_OK;
    if (stored != precisions[self->list->fusion->precision] || dtype != TUFF_F32 || keeps_bits(self, at))
        return fail_at(self, -1, id, "has too few bits in memory");
    return TUFF_OK;
}

/* Checks that kernels load and store elements as they lie in memory. Packing narrow elements accesses them as words. */
static tuff_status check_dtypes(const verifier *self, int index)
{
    const launch *kernel = &self->list->launches[index];
    for (int i = 0; i < kernel->chain.buffer_count; ++i) {
        const chain_buffer *buffer = &kernel->chain.buffers[i];
        const bool words = buffer->written && strcmp(kernel->body, "pack") == 0;
        if (buffer->dtype != self->list->buffers[buffer->id].dtype && !words)
            return fail_at(self, index, buffer->id, "is used with another dtype than it has in memory");
    }
    return TUFF_OK;
}

/* The axes along which an address varies, by ascending stride; without the loop axes if it is used once for all of
   them. */
typedef struct address_axes {
    int64_t extent[TUFF_MAX_RANK], stride[TUFF_MAX_RANK];
    int rank;
    int64_t repeated; /* points of the other axes, which share one address */
} address_axes;

static address_axes axes_of(const fused_chain *chain, const affine *address, bool every_point)
{
    address_axes result = {.repeated = 1};
    for (int i = 0; i < chain->rank; ++i) {
        if (!every_point && chain->classes[i] == AXIS_LOOP)
            continue;
        if (chain->extent[i] == 1)
            continue;
        if (address->stride[i] == 0 && chain->extent[i] > 0) {
            result.repeated *= chain->extent[i];
            continue;
        }
        int k = result.rank++;
        const int64_t stride = address->stride[i] < 0 ? -address->stride[i] : address->stride[i];
        for (; k > 0 && result.stride[k - 1] > stride; --k) {
            result.stride[k] = result.stride[k - 1];
            result.extent[k] = result.extent[k - 1];
        }
        result.stride[k] = stride;
        result.extent[k] = chain->extent[i];
    }
    return result;
}

/* Whether the strides, in ascending order, each exceed all that the smaller ones reach. */
static bool is_injective(const address_axes *state)
{
    int64_t reach = 0;
    for (int i = 0; i < state->rank; ++i) {
        if (state->stride[i] <= reach)
            return false;
        reach += (state->extent[i] - 1) * state->stride[i];
    }
    return true;
}

static int64_t count_of(const address_axes *state)
{
    int64_t count = 1;
    for (int i = 0; i < state->rank; ++i)
        count *= state->extent[i];
    return count;
}

/* Whether every address that the launch uses, and the one `beyond` elements further, lies inside the buffer. */
static bool reaches_inside(const fused_chain *chain, const affine *address, int64_t beyond, int64_t count)
{
    int64_t low = address->offset + (beyond < 0 ? beyond : 0), high = address->offset + (beyond > 0 ? beyond : 0);
    for (int i = 0; i < chain->rank; ++i) {
        const int64_t last = (chain->extent[i] - 1) * address->stride[i];
        if (chain->extent[i] <= 0)
            return true;
        low += last < 0 ? last : 0;
        high += last > 0 ? last : 0;
    }
    return low >= 0 && high < count;
}

/* Whether a value is computed where a matmul loads an operand. Such values vary along that operand's axes instead of
   the result's. */
static bool is_in_producer(const fused_chain *chain, int value)
{
    for (int i = 0; i < 2; ++i)
        if (value >= chain->producers[i].begin && value < chain->producers[i].end)
            return true;
    return false;
}

/* A part of a whole as runs of `run` elements: the first begins at `start`, the others at multiples of `period` from
   there. */
typedef struct runs {
    int64_t start, run, period;
} runs;

static bool find_runs(const verifier *self, int id, runs *out)
{
    const view *layout = &self->list->fusion->facts[id].layout;
    fused_chain box = {.rank = layout->rank};
    affine address = {.offset = 0};
    for (int i = 0; i < layout->rank; ++i) {
        box.extent[i] = layout->extent[i];
        address.stride[i] = layout->stride[i];
    }
    const address_axes along = axes_of(&box, &address, true);
    *out = (runs){.run = 1, .period = INT64_MAX};
    for (int i = id; self->list->buffers[i].parent >= 0; i = self->list->buffers[i].parent)
        out->start += self->list->buffers[i].parent_at;
    int axis = 0;
    for (; axis < along.rank && along.stride[axis] == out->run; ++axis)
        out->run *= along.extent[axis];
    if (axis < along.rank)
        out->period = along.stride[axis];
    for (; axis < along.rank; ++axis)
        if (along.stride[axis] % out->period != 0)
            return false;
    return out->run <= out->period && out->start % out->period + out->run <= out->period;
}

/* Whether two parts of one whole have no element in common. Parts along one axis never overlap, because their runs are
   adjacent in every period. */
static bool are_apart(const verifier *self, int a, int b)
{
    const memory_buffer *x = &self->list->buffers[a], *y = &self->list->buffers[b];
    runs runs_a, runs_b;
    if (!overlap(self, a, b))
        return true;
    if (!x->used || !y->used || x->parent < 0 || y->parent < 0 || !find_runs(self, a, &runs_a) ||
        !find_runs(self, b, &runs_b) || runs_a.period != runs_b.period || runs_a.period == INT64_MAX)
        return false;
    const int64_t begin = runs_a.start % runs_a.period, other = runs_b.start % runs_b.period;
    return begin + runs_a.run <= other || other + runs_b.run <= begin;
}

static tuff_status check_loads(const verifier *self, int index)
{
    const fused_chain *chain = &self->list->launches[index].chain;
    for (int i = 0; i < chain->value_count; ++i) {
        const chain_value *value = &chain->values[i];
        const bool is_lookup = value->kind == VALUE_LOOKUP && value->extent > 0;
        if ((value->kind != VALUE_LOAD && !is_lookup) || value->guard != NO_VALUE || is_in_producer(chain, i))
            continue;
        const int id = chain->buffers[value->buffer].id;
        const int64_t beyond = is_lookup ? (value->extent - 1) * value->step : 0;
        if (!reaches_inside(chain, &value->address, beyond, self->list->buffers[id].count))
            return fail_at(self, index, id, "is read beyond its elements");
    }
    return TUFF_OK;
}

/* Whether a map has enough groups: its parameters say how rows and columns are distributed. For other bodies that
   cannot be said without knowing them. */
static bool has_enough_groups(const launch *kernel)
{
    enum { ROWS, COLUMNS, TILES, TILE, ROWS_OF_ITEM, FIXED = 6 };
    const int64_t *parameters = kernel->parameters;
    int64_t points = 1;
    if (strcmp(kernel->body, "map") != 0 || kernel->parameter_count < FIXED)
        return true;
    for (int i = 0; i < kernel->chain.rank; ++i)
        points *= kernel->chain.extent[i];
    const int64_t items = (int64_t)kernel->groups * kernel->local_size;
    return parameters[ROWS] * parameters[COLUMNS] == points &&
           parameters[TILES] * parameters[TILE] >= parameters[COLUMNS] &&
           items / parameters[TILES] * parameters[ROWS_OF_ITEM] >= parameters[ROWS];
}

/* Checks a store, and counts the elements that it writes. */
static tuff_status check_store(const verifier *self, int index, const chain_output *output, int64_t *count)
{
    const launch *kernel = &self->list->launches[index];
    const fused_chain *chain = &kernel->chain;
    const int id = chain->buffers[output->buffer].id;
    const address_axes along = axes_of(chain, &output->address, output->every_point || output->in_columns);
    if (!reaches_inside(chain, &output->address, 0, self->list->buffers[id].count))
        return fail_at(self, index, id, "is written beyond its elements");
    if (!is_injective(&along) || along.repeated != (output->in_columns ? chain->item_rows : 1))
        return fail_at(self, index, id, "has elements that several items write");
    *count = count_of(&along);
    if (*count == 0 || (kernel->kind == LAUNCH_KERNEL && kernel->groups == 0))
        return fail_at(self, index, id, "is written by a launch without items");
    if (!has_enough_groups(kernel))
        return fail_at(self, index, id, "is written by a launch of too few groups");
    return TUFF_OK;
}

/* The elements of the result whose sums a launch of scatter_sum computes: those of a range of keys. False for other
   bodies. */
static bool find_range(const launch *kernel, int64_t *first, int64_t *count)
{
    enum { ITEMS, COLUMNS, TILES, RESULT_AT = 12 };
    if (strcmp(kernel->body, "scatter_sum") != 0 || kernel->parameter_count <= RESULT_AT)
        return false;
    const int64_t *parameters = kernel->parameters;
    *first = parameters[RESULT_AT];
    *count = parameters[TILES] > 0 ? parameters[ITEMS] / parameters[TILES] * parameters[COLUMNS] : 0;
    return true;
}

/* Counts a range of a buffer as written. Ranges come in ascending order, so that none can be written twice. */
static tuff_status write_range(verifier *self, int index, int id, int64_t first, int64_t count, int64_t *covered)
{
    contents *own = &self->contents[id];
    if (first < own->end || first + count > element_count(self, id))
        return fail_at(self, index, id, "has a range written twice, or beyond its end");
    own->end = first + count;
    *covered = own->covered + count;
    return TUFF_OK;
}

/* Counts the elements that a launch writes to a buffer: those that its chain stores, those of its range, or all if it
   has neither. */
static tuff_status find_written(verifier *self, int index, int buffer, int64_t *count)
{
    const launch *kernel = &self->list->launches[index];
    const int id = kernel->chain.buffers[buffer].id;
    bool by_chain = false;
    int64_t first, size;
    *count = 0;
    for (int i = 0; i < kernel->chain.output_count; ++i)
        if (kernel->chain.outputs[i].buffer == buffer) {
            if (by_chain)
                return fail_at(self, index, id, "is written by two stores of a launch");
            by_chain = true;
            TRY(check_store(self, index, &kernel->chain.outputs[i], count));
        }
    if (!by_chain) {
        *count = element_count(self, id);
        if (kernel->groups == 0 && kernel->kind == LAUNCH_KERNEL && *count > 0)
            return fail_at(self, index, id, "is written by a launch without groups");
        if (find_range(kernel, &first, &size))
            TRY(write_range(self, index, id, first, size, count));
    }
    return TUFF_OK;
}

static bool is_from_the_host(const verifier *self, int id)
{
    return id < self->graph->node_count && tuff__op_is_source(self->graph->nodes[id]->op);
}

/* Whether scratch holds what a launch reads of it: if it was written in ranges, all of them, or for the sums of a range
   of keys that range. */
static bool has_ranges(const verifier *self, int index, int id)
{
    const contents *now = &self->contents[id];
    int64_t first, count;
    if (now->end == 0)
        return true;
    if (index >= 0 && find_range(&self->list->launches[index], &first, &count))
        return now->end == first + count && now->covered >= count;
    return now->covered == element_count(self, id);
}

/* Checks that a buffer holds its value: written whole, and not overwritten since. */
static tuff_status check_content(const verifier *self, int index, int id)
{
    const contents *now = &self->contents[id];
    const int64_t wanted = element_count(self, id);
    if (wanted == 0)
        return TUFF_OK;
    if (now->destroyed_by >= 0)
        return fail_at(self, index, id, "is read after its memory was overwritten");
    if (is_from_the_host(self, id))
        return TUFF_OK;
    const bool whole =
        id < self->graph->node_count ? now->covered == wanted : now->written_by >= 0 && has_ranges(self, index, id);
    if (!whole)
        return fail_at(self, index, id, now->written_by < 0 ? "is read before it is written" : "is not written whole");
    return TUFF_OK;
}

static const chain_output *store_to(const fused_chain *chain, int buffer)
{
    for (int i = 0; i < chain->output_count; ++i)
        if (chain->outputs[i].buffer == buffer)
            return &chain->outputs[i];
    return NULL;
}

/* Whether each item that stores to `written` loads from buffer `read` only the element at the same address. */
static bool is_in_step(const launch *kernel, int read, int written)
{
    const chain_output *output = store_to(&kernel->chain, written);
    if (output == NULL || kernel->walk != WALK_MAP)
        return false;
    for (int i = 0; i < kernel->chain.value_count; ++i) {
        const chain_value *value = &kernel->chain.values[i];
        if (value->buffer != read || (value->kind != VALUE_LOAD && value->kind != VALUE_LOOKUP))
            continue;
        if (value->kind != VALUE_LOAD || memcmp(&value->address, &output->address, sizeof output->address) != 0)
            return false;
    }
    return true;
}

/* Checks a launch whose reads and writes share memory. */
static tuff_status check_sharing(const verifier *self, int index)
{
    const launch *kernel = &self->list->launches[index];
    const fused_chain *chain = &kernel->chain;
    for (int w = 0; w < chain->buffer_count; ++w)
        for (int r = 0; r < chain->buffer_count && chain->buffers[w].written; ++r) {
            const int to = chain->buffers[w].id, from = chain->buffers[r].id;
            if (r == w || !overlap(self, to, from) || (are_parts_of_one(self, to, from) && are_apart(self, to, from)))
                continue;
            const memory_buffer *x = &self->list->buffers[to], *y = &self->list->buffers[from];
            if (chain->buffers[r].written)
                return fail_at(self, index, to, "is written beside another result in the same memory");
            if (x->offset != y->offset || x->dtype != y->dtype || !is_in_step(kernel, r, w))
                return fail_at(self, index, to, "is written while the same launch reads other contents of its memory");
        }
    return TUFF_OK;
}

static bool is_within(const verifier *self, int id, int whole)
{
    while (id >= 0 && id != whole)
        id = self->list->buffers[id].parent;
    return id == whole;
}

/* Marks a buffer as overwritten, and with it the wholes of which it is a part. */
static void destroy(verifier *self, int index, int id)
{
    for (int i = id; i >= 0; i = self->list->buffers[i].parent)
        self->contents[i].destroyed_by = index;
}

/* Records a write to a buffer: other contents of its memory are lost, and the wholes of which it is a part gain its
   elements. */
static tuff_status write_buffer(verifier *self, int index, int id, int64_t count)
{
    contents *own = &self->contents[id];
    const int task = self->list->launches[index].task;
    const bool again = own->task == task && task >= 0;
    if (own->task != NO_TASK && !again)
        return fail_at(self, index, id, "is written by two tasks");
    if (again)
        count -= own->covered;
    for (int i = id; i >= 0 && count > 0; i = self->list->buffers[i].parent)
        self->contents[i].covered += count;
    if (element_count(self, id) < own->covered)
        return fail_at(self, index, id, "is written more than once");
    if (own->task == NO_TASK && !is_from_the_host(self, id))
        self->held[self->held_count++] = id;
    own->task = task;
    own->written_by = index;
    own->destroyed_by = -1;
    for (int i = self->list->buffers[id].parent; i >= 0; i = self->list->buffers[i].parent)
        self->contents[i].written_by = index;
    /* The memory of a part that was not written yet, and of a whole written only in parts, serves others. */
    for (int k = 0; k < self->held_count; ++k) {
        const int i = self->held[k];
        if (!overlap(self, i, id) || i == id)
            continue;
        if (is_within(self, id, i) || is_within(self, i, id))
            return fail_at(self, index, id, "is written although a part of it, or its whole, was written");
        if (!are_parts_of_one(self, i, id) || !are_apart(self, i, id))
            destroy(self, index, i);
    }
    return TUFF_OK;
}

/* Some bodies do their work in passes that use the same scratch memory again. A row says that `body` finds in its
   buffer `buffer` what the body `from` left in its buffer `from_buffer`. If memory is updated in place, or written
   again in each pass, nothing else shows whether all launches of a pass are there. */
static const struct handover {
    const char *body;
    int buffer;
    const char *from;
    int from_buffer; /* ANY: any of its buffers */
} handovers[] = {
    {"scatter_count", 1, "map", ANY},
    {"scatter_offsets", 0, "scatter_count", 1},
    {"scatter_starts", 0, "scatter_offsets", 1},
    {"scatter_starts", 1, "scatter_starts", 1},
    {"scatter_place", 1, "scatter_offsets", 0},
    {"scatter_place", 2, "scatter_starts", 2},
    {"scatter_sum", 0, "scatter_starts", 2},
    {"scatter_sum", 1, "scatter_place", 3},
};
enum { HANDOVER_COUNT = sizeof handovers / sizeof handovers[0] };

static bool is_handed_over(const char *body, int buffer)
{
    for (int i = 0; i < HANDOVER_COUNT; ++i)
        if (handovers[i].buffer == buffer && strcmp(handovers[i].body, body) == 0)
            return true;
    return false;
}

/* Checks what a launch reads, including scratch that it updates. Results that it both writes and reads are
   initialized by the launch itself; conversions to narrow types, whose memory is fixed, keep the neighbouring
   elements of a word. */
static tuff_status check_reads(const verifier *self, int index)
{
    const launch *kernel = &self->list->launches[index];
    for (int i = 0; i < kernel->chain.buffer_count; ++i) {
        const chain_buffer *buffer = &kernel->chain.buffers[i];
        const int id = buffer->id;
        if (!buffer->read)
            continue;
        if (!buffer->written)
            TRY(check_content(self, index, id));
        else if (id >= self->graph->node_count && !self->list->buffers[id].fixed) {
            if (self->contents[id].written_by < 0)
                return fail_at(self, index, id, "is updated before it is written");
            if (!is_handed_over(kernel->body, i))
                return fail_at(self, index, id,
                               "is updated in place by a body without a row in the table of handovers");
        }
    }
    return TUFF_OK;
}

/* Checks that what a launch takes over was written by the body before it, all in one pass. Sets *pass to the first
   launch of that pass, or to this launch if it takes nothing over. */
static tuff_status check_handovers(verifier *self, int index, int *pass)
{
    const launch *kernel = &self->list->launches[index];
    *pass = index;
    for (int i = 0; i < HANDOVER_COUNT; ++i) {
        const struct handover *row = &handovers[i];
        if (strcmp(kernel->body, row->body) != 0 || row->buffer >= kernel->chain.buffer_count ||
            !kernel->chain.buffers[row->buffer].read)
            continue;
        const int id = kernel->chain.buffers[row->buffer].id;
        contents *now = &self->contents[id];
        const launch *writer = now->written_by < 0 ? kernel : &self->list->launches[now->written_by];
        if (now->written_by < 0 || strcmp(writer->body, row->from) != 0 || writer->task != kernel->task ||
            (row->from_buffer != ANY && writer->chain.buffers[row->from_buffer].id != id) ||
            (*pass != index && now->pass != *pass))
            return fail_at(self, index, id, "was not written by the launch that must come before");
        *pass = now->pass;
        now->has_pending_reader = false;
    }
    return TUFF_OK;
}

/* Checks that each pass of a scatter continues in the list of keys where the pass before ended, and counts and places
   the same ones. */
static tuff_status check_key_order(verifier *self, int index)
{
    enum { ITEMS, BLOCKS, BATCH = 3, FIRST = 5 };
    const launch *kernel = &self->list->launches[index];
    const bool counts = strcmp(kernel->body, "scatter_count") == 0;
    if (!counts && strcmp(kernel->body, "scatter_place") != 0)
        return TUFF_OK;
    const int id = kernel->chain.buffers[0].id;
    const int64_t first = kernel->parameters[FIRST],
                  blocks = kernel->parameters[BLOCKS] < 1 ? 1 : kernel->parameters[BLOCKS];
    const int64_t end = first + kernel->parameters[ITEMS] / blocks * kernel->parameters[BATCH];
    int64_t *sorted = &self->contents[id].sorted;
    if (*sorted != (counts ? first : end))
        return fail_at(self, index, id, "is not sorted from where the previous launch ended");
    *sorted = end;
    return TUFF_OK;
}

/* Whether everything written for other bodies was read by all of them. */
static bool was_read_completely(const verifier *self, int id)
{
    const contents *now = &self->contents[id];
    return !now->has_pending_reader && (now->sorted == 0 || now->sorted == element_count(self, id));
}

/* Records what a launch writes for other bodies. It may change what it took over, which no other body reads then. */
static tuff_status record_handovers(verifier *self, int index, int pass)
{
    const launch *kernel = &self->list->launches[index];
    for (int i = 0; i < kernel->chain.buffer_count; ++i)
        if (kernel->chain.buffers[i].written) {
            contents *now = &self->contents[kernel->chain.buffers[i].id];
            if (!was_read_completely(self, kernel->chain.buffers[i].id))
                return fail_at(self, index, kernel->chain.buffers[i].id, "is written again before it is read");
            now->pass = pass;
            now->sorted = 0;
        }
    for (int i = 0; i < HANDOVER_COUNT; ++i) {
        const int buffer = handovers[i].from_buffer;
        if (buffer != ANY && strcmp(kernel->body, handovers[i].from) == 0 && buffer < kernel->chain.buffer_count)
            self->contents[kernel->chain.buffers[buffer].id].has_pending_reader |=
                kernel->chain.buffers[buffer].written;
    }
    return TUFF_OK;
}

static tuff_status check_kernel(verifier *self, int index)
{
    const launch *kernel = &self->list->launches[index];
    const fused_chain *chain = &kernel->chain;
    for (int i = 0; i < chain->buffer_count; ++i)
        TRY(check_place(self, index, chain->buffers[i].id));
    TRY(check_dtypes(self, index));
    TRY(check_reads(self, index));
    TRY(check_loads(self, index));
    TRY(check_sharing(self, index));
    int pass;
    TRY(check_handovers(self, index, &pass));
    TRY(check_key_order(self, index));
    for (int i = 0; i < chain->buffer_count; ++i) {
        int64_t count;
        if (!chain->buffers[i].written)
            continue;
        TRY(find_written(self, index, i, &count));
        TRY(write_buffer(self, index, chain->buffers[i].id, count));
    }
    return record_handovers(self, index, pass);
}

static tuff_status check_copy(verifier *self, int index)
{
    const launch *kernel = &self->list->launches[index];
    TRY(check_place(self, index, kernel->copy_from));
    TRY(check_place(self, index, kernel->copy_to));
    TRY(check_content(self, index, kernel->copy_from));
    const memory_buffer *from = &self->list->buffers[kernel->copy_from], *to = &self->list->buffers[kernel->copy_to];
    if (from->count != to->count || from->dtype != to->dtype)
        return fail_at(self, index, kernel->copy_to, "is copied from another number or dtype of elements");
    if (overlap(self, kernel->copy_from, kernel->copy_to))
        return fail_at(self, index, kernel->copy_to, "is copied onto itself");
    return write_buffer(self, index, kernel->copy_to, to->count);
}

/* Whether launch `index` reads the buffer of a node. */
static bool launch_reads(const verifier *self, int index, int id)
{
    const launch *kernel = &self->list->launches[index];
    if (kernel->kind == LAUNCH_COPY)
        return kernel->copy_from == id;
    for (int i = 0; i < kernel->chain.buffer_count; ++i)
        if (kernel->chain.buffers[i].id == id && kernel->chain.buffers[i].read)
            return true;
    return false;
}

/* Checks that memory which the host or the next run reads holds a node's value: the node's own buffer lies there, or a
   copy or conversion of it was written there. */
static tuff_status check_result(const verifier *self, int result, const storage *at, uint64_t offset, int64_t count,
                                tuff_dtype dtype)
{
    const launch_list *list = self->list;
    if (count == 0)
        return TUFF_OK;
    for (int i = 0; i < list->buffer_count; ++i) {
        const memory_buffer *buffer = &list->buffers[i];
        const contents *now = &self->contents[i];
        if (buffer->storage != at || buffer->offset != offset || buffer->dtype != dtype || now->destroyed_by >= 0 ||
            now->written_by < 0 || (i < self->graph->node_count && i != result))
            continue;
        if (i == result ? now->covered == count : now->covered == count && launch_reads(self, now->written_by, result))
            return TUFF_OK;
    }
    return fail_at(self, -1, result, "does not reach the memory of its output or array");
}

/* Whether an assign changes memory that an array's node reads. */
static bool is_assigned(const verifier *self, int id)
{
    const memory_buffer *at = &self->list->buffers[id];
    for (int i = 0; i < self->graph->assign_count && self->graph->nodes[id]->op == OP_ARRAY; ++i) {
        const tuff_array *array = self->graph->assigns[i]->attributes.array;
        const uint64_t size = (uint64_t)tuff_shape_count(array->shape) * tuff_dtype_size(array->dtype);
        if (array->storage == at->storage && array->offset < at->offset + tuff__buffer_size(at) &&
            at->offset < array->offset + size)
            return true;
    }
    return false;
}

/* Checks what the next run must find unchanged: sources to which nothing is assigned, kept copies, and what these were
   made from, since they are not made again. */
static tuff_status check_next_run(const verifier *self)
{
    const launch_list *list = self->list;
    for (int i = 0; i < self->graph->node_count; ++i)
        if (is_from_the_host(self, i) && self->contents[i].destroyed_by >= 0 && !is_assigned(self, i))
            return fail_at(self, self->contents[i].destroyed_by, i, "is overwritten, and read in the next run");
    for (int i = 0; i < list->copy_count; ++i) {
        if (!list->copies[i].is_kept)
            continue;
        TRY(check_content(self, -1, list->copies[i].target));
        for (int k = 0; k < list->copies[i].source_count; ++k) {
            const int source = list->copies[i].sources[k];
            if (!is_from_the_host(self, source) || self->contents[source].destroyed_by >= 0)
                return fail_at(self, -1, source, "changes between runs, but a copy of it is kept");
        }
    }
    return TUFF_OK;
}

static tuff_status check_results(const verifier *self)
{
    const launch_list *list = self->list;
    for (int i = 0; i < self->graph->output_count; ++i) {
        const memory_buffer *to = &list->buffers[list->outputs[i].buffer_id];
        TRY(check_result(self, self->graph->outputs[i].tensor->node->id, to->storage, to->offset, to->count,
                         list->outputs[i].dtype));
    }
    for (int i = 0; i < self->graph->assign_count; ++i) {
        const tuff_array *array = self->graph->assigns[i]->attributes.array;
        TRY(check_result(self, self->graph->assigns[i]->inputs[0]->node->id, array->storage, array->offset,
                         tuff_shape_count(array->shape), array->dtype));
    }
    return check_next_run(self);
}

/* Checks that every node is one that builders could have made, and comes after those that it reads. Rewriting
   guarantees that, too. */
static tuff_status check_graph(const tuff_graph *graph)
{
    for (int i = 0; i < graph->node_count; ++i) {
        const node *at = graph->nodes[i];
        bool sound = at->id == i;
        for (int k = 0; k < at->input_count; ++k)
            sound &= at->inputs[k]->node != NULL && at->inputs[k]->node->id < i;
        if (!sound || !tuff__node_is_valid(at))
            return FAIL(TUFF_E_COMPILE, "compile: the plan is wrong, please report it: node %d (%s) %s %s", i,
                        tuff__op_info(at->op)->name, SHAPE_TEXT(at->outputs[0].shape),
                        sound ? "does not fit its inputs" : "comes before its inputs");
    }
    return TUFF_OK;
}

static tuff_status verify(verifier *self)
{
    TRY(check_graph(self->graph));
    for (int i = 0; i < self->graph->node_count; ++i)
        TRY(check_storage(self, i));
    bool in_every_run = false; /* a launch of the steps was seen */
    for (int i = 0; i < self->list->buffer_count; ++i) {
        self->contents[i] = (contents){.task = NO_TASK, .written_by = -1, .destroyed_by = -1};
        const memory_buffer *at = &self->list->buffers[i];
        self->extents[i] = (extent){at->storage, at->offset, at->offset + tuff__buffer_size(at)};
        if (is_from_the_host(self, i))
            self->held[self->held_count++] = i;
    }
    for (int i = 0; i < self->list->launch_count; ++i) {
        const launch *kernel = &self->list->launches[i];
        if (in_every_run && kernel->setup)
            return fail_at(self, i, -1, "is a setup launch after a launch of every run");
        in_every_run |= !kernel->setup;
        TRY(kernel->kind == LAUNCH_COPY ? check_copy(self, i) : check_kernel(self, i));
    }
    for (int i = 0; i < self->list->buffer_count; ++i)
        if (!was_read_completely(self, i))
            return fail_at(self, self->contents[i].written_by, i, "is not read by every launch that should read it");
    return check_results(self);
}

tuff_status tuff__verify_launches(const launch_list *list)
{
    verifier self = {.list = list, .graph = list->fusion->graph};
    self.contents = tuff__alloc(((size_t)list->buffer_count + 1) * sizeof *self.contents);
    self.extents = tuff__alloc(((size_t)list->buffer_count + 1) * sizeof *self.extents);
    self.held = tuff__alloc(((size_t)list->buffer_count + 1) * sizeof *self.held);
    const bool complete = self.contents != NULL && self.extents != NULL && self.held != NULL;
    const tuff_status status = complete ? verify(&self) : TUFF_E_OOM_HOST;
    tuff__free(self.contents);
    tuff__free(self.extents);
    tuff__free(self.held);
    return status;
}
