/* Mixed precision: inputs, arrays and constants of dtype f32 that matmuls read get a 16-bit copy. The copy is an
   ordinary cast whose result has memory, so that all later passes understand it: the matmuls read views of it.
   Neighbouring arrays in one storage, such as parameters, share a copy, which takes one dispatch. The copies of a model
   would take half as much memory as its parameters if all were alive at once. So there are several, and matmuls that
   come much later, in the backward pass, get a second copy. */
#include "compile/rewrite/narrow_sources.h"

#include <stdlib.h>

#include "compile/rewrite/passes.h"
#include "compile/rewrite/simplify.h"
#include "graph/graph.h"

#define MAX_BYTES ((uint64_t)INT32_MAX / 8 * sizeof(float)) /* of a copy: a tensor has at most INT32_MAX elements */
enum { SHARES = 6 }; /* a copy is at most this fraction of all that is copied, unless a single array is larger */

/* Sources that share one copy. */
typedef struct group {
    int first, count; /* range in `sources` */
    uint64_t end;     /* arrays: the offset after the last one, in bytes of their storage */
    tuff_tensor *copy;
    int reader; /* id of the copy's last reader so far */
} group;

typedef struct narrow_state {
    tuff_graph *graph;
    int original_count; /* nodes from this id on are new */
    tuff_dtype to;
    const node **sources; /* the sources that matmuls read, arrays by their place in memory */
    int source_count;
    group *groups;
    int group_count;
    int *group_of; /* by node: index of its group; -1: not a source that matmuls read */
    int *insert_before; /* by new node: id of the original node in front of which it goes */
    int insert_before_count, insert_before_capacity;
} narrow_state;

/* Returns the f32 source under an operand's views; NULL if there is none. */
static const node *source_of(const tuff_tensor *operand)
{
    const node *at = tuff__skip_views(operand->node);
    const bool is_source =
        tuff__op_is_source(at->op) && !tuff__is_scalar_constant(at) && at->outputs[0].dtype == TUFF_F32;
    return is_source && tuff_shape_count(at->outputs[0].shape) > 0 ? at : NULL;
}

/* Orders arrays by their place in memory, after all other sources, which are ordered by id. */
static int by_place(const void *a, const void *b)
{
    const node *x = *(const node *const *)a, *y = *(const node *const *)b;
    if ((x->op == OP_ARRAY) != (y->op == OP_ARRAY))
        return x->op == OP_ARRAY ? 1 : -1;
    if (x->op == OP_ARRAY) {
        const tuff_array *first = x->attributes.array, *second = y->attributes.array;
        if (first->storage != second->storage)
            return (uintptr_t)first->storage < (uintptr_t)second->storage ? -1 : 1;
        if (first->offset != second->offset)
            return first->offset < second->offset ? -1 : 1;
    }
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Whether a node reads 16-bit copies. Optimizers compute in full precision. */
static bool reads_narrow(const node *at)
{
    return at->op == OP_MATMUL && at->phase != TUFF_PHASE_OPTIMIZER;
}

static void find_sources(narrow_state *self)
{
    for (int i = 0; i < self->original_count; ++i)
        self->group_of[i] = -1;
    for (int i = 0; i < self->original_count; ++i)
        for (int k = 0; k < 2 && reads_narrow(self->graph->nodes[i]); ++k) {
            const node *source = source_of(self->graph->nodes[i]->inputs[k]);
            if (source == NULL || self->group_of[source->id] >= 0)
                continue;
            self->group_of[source->id] = 0;
            self->sources[self->source_count++] = source;
        }
    qsort(self->sources, (size_t)self->source_count, sizeof(node *), by_place);
}

static uint64_t bytes_of(const node *source)
{
    return (uint64_t)tuff_shape_count(source->outputs[0].shape) * sizeof(float);
}

/* Whether the next source may share the copy of a group. Both must be arrays in one storage, with few bytes between
   them that no matmul reads. read: bytes of the group's sources. */
static bool may_join(const narrow_state *self, const group *to, const node *next, uint64_t read, uint64_t most)
{
    const node *first = self->sources[to->first];
    if (first->op != OP_ARRAY || next->op != OP_ARRAY ||
        first->attributes.array->storage != next->attributes.array->storage)
        return false;
    const uint64_t begin = first->attributes.array->offset, start = next->attributes.array->offset;
    const uint64_t gap = start > to->end ? start - to->end : 0;
    return 4 * gap <= read + bytes_of(next) && tuff__array_end(next->attributes.array) - begin <= most &&
           (start - begin) % sizeof(float) == 0;
}

static void find_groups(narrow_state *self)
{
    const uint64_t binding = tuff__device_info(self->graph->device)->max_binding;
    uint64_t all = 0, read = 0;
    for (int i = 0; i < self->source_count; ++i)
        all += bytes_of(self->sources[i]);
    const uint64_t largest = binding < MAX_BYTES ? binding : MAX_BYTES;
    const uint64_t most = all / SHARES < largest ? all / SHARES : largest;
    for (int i = 0; i < self->source_count; ++i) {
        const node *source = self->sources[i];
        group *last = self->group_count == 0 ? NULL : &self->groups[self->group_count - 1];
        if (last == NULL || !may_join(self, last, source, read, most)) {
            last = &self->groups[self->group_count++];
            *last = (group){.first = i};
            read = 0;
        }
        ++last->count;
        read += bytes_of(source);
        if (source->op == OP_ARRAY && tuff__array_end(source->attributes.array) > last->end)
            last->end = tuff__array_end(source->attributes.array);
        self->group_of[source->id] = self->group_count - 1;
    }
}

/* Places the nodes built since the last call in front of an original node. */
static tuff_status place(narrow_state *self, int before)
{
    TRY(self->graph->status);
    while (self->original_count + self->insert_before_count < self->graph->node_count) {
        if (!GROW(self->insert_before, self->insert_before_count, self->insert_before_capacity))
            return TUFF_E_OOM_HOST;
        self->insert_before[self->insert_before_count++] = before;
    }
    return TUFF_OK;
}

/* Returns the source of a group, or one array that spans all of its arrays. */
static tuff_tensor *source_of_group(narrow_state *self, const group *from)
{
    const node *first = self->sources[from->first];
    if (from->count == 1)
        return (tuff_tensor *)&first->outputs[0];
    const tuff_array *array = first->attributes.array;
    return tuff__array_range(self->graph, array, array->offset, (int64_t)((from->end - array->offset) / sizeof(float)));
}

/* Returns a group's copy for a reader: the existing one, unless it would have to be kept for long. */
static tuff_tensor *copy_for(narrow_state *self, group *from, int reader)
{
    const bool late = from->copy != NULL && reader - from->reader > LATE_GAP;
    from->reader = reader;
    if (from->copy != NULL && !late)
        return from->copy;
    from->copy = tuff_cast(source_of_group(self, from), self->to);
    if (from->copy->node != NULL)
        from->copy->node->is_late_copy = late;
    return from->copy;
}

/* Returns a source's elements in the copy of its group. */
static tuff_tensor *elements_in_copy(narrow_state *self, const node *source, int reader)
{
    group *from = &self->groups[self->group_of[source->id]];
    tuff_tensor *copy = copy_for(self, from, reader);
    if (from->count == 1)
        return copy;
    const uint64_t begin = self->sources[from->first]->attributes.array->offset;
    const int64_t start = (int64_t)((source->attributes.array->offset - begin) / sizeof(float));
    const int64_t stop = start + tuff_shape_count(source->outputs[0].shape);
    return tuff_reshape(tuff_slice(copy, &start, &stop, NULL), source->outputs[0].shape);
}

/* Rebuilds the views of an operand on top of the copy. */
static tuff_tensor *view_of_copy(narrow_state *self, const node *at, int reader)
{
    if (!tuff__op_is_view(at->op))
        return elements_in_copy(self, at, reader);
    tuff_tensor *inner = view_of_copy(self, at->inputs[0]->node, reader);
    return inner->node == NULL
               ? inner
               : tuff__node_create(self->graph, at->op, self->to, at->outputs[0].shape, &inner, 1, &at->attributes);
}

static tuff_status narrow_matmul(narrow_state *self, node *matmul)
{
    (void)tuff_graph_phase(self->graph, matmul->phase);
    for (int i = 0; i < 2; ++i) {
        if (source_of(matmul->inputs[i]) == NULL)
            continue;
        tuff_tensor *operand = tuff_cast(view_of_copy(self, matmul->inputs[i]->node, matmul->id), TUFF_F32);
        TRY(place(self, matmul->id));
        matmul->inputs[i] = operand;
    }
    return TUFF_OK;
}

static tuff_status narrow(narrow_state *self)
{
    const size_t count = (size_t)self->original_count + 1;
    self->sources = tuff__calloc(count, sizeof(node *));
    self->groups = tuff__calloc(count, sizeof *self->groups);
    self->group_of = tuff__calloc(count, sizeof *self->group_of);
    if (self->sources == NULL || self->groups == NULL || self->group_of == NULL)
        return TUFF_E_OOM_HOST;
    find_sources(self);
    find_groups(self);
    for (int i = 0; i < self->original_count; ++i)
        if (reads_narrow(self->graph->nodes[i]))
            TRY(narrow_matmul(self, self->graph->nodes[i]));
    (void)tuff_graph_phase(self->graph, TUFF_PHASE_FORWARD);
    return tuff__graph_insert(self->graph, self->original_count, self->insert_before);
}

tuff_status tuff__narrow_sources(tuff_graph *graph, tuff_precision precision)
{
    narrow_state self = {.graph = graph,
                         .original_count = graph->node_count,
                         .to = precision == TUFF_PRECISION_F16 ? TUFF_F16 : TUFF_BF16};
    if (precision == TUFF_PRECISION_F32)
        return TUFF_OK;
    const tuff_status status = narrow(&self);
    tuff__free(self.sources);
    tuff__free(self.groups);
    tuff__free(self.group_of);
    tuff__free(self.insert_before);
    return status;
}
