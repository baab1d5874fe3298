/* Builds, samples and resizes subgraphs of tasks. */
#include "compile/axis_dependence.h"

#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "base/rng.h"

static bool is_among(const node *at, const node *const *list, int count)
{
    for (int i = 0; i < count; ++i)
        if (list[i] == at)
            return true;
    return false;
}

/* Marks the nodes from the stored ones down to those that are read, both included. */
static tuff_status visit(subgraph *self, const node *at)
{
    if (self->position[at->id] >= 0)
        return TUFF_OK;
    self->position[at->id] = 0;
    ++self->node_count;
    if (is_among(at, self->task->reads, self->task->read_count))
        return TUFF_OK;
    if (at->op == OP_INPUT || at->op == OP_ARRAY || at->op == OP_ASSIGN)
        return FAIL(TUFF_E_UNSUPPORTED,
                    "tune: cannot extract a task that reads a value missing from its list of reads");
    for (int i = 0; i < at->input_count; ++i)
        TRY(visit(self, at->inputs[i]->node));
    return TUFF_OK;
}

static tuff_status collect(subgraph *self)
{
    const tuff_graph *graph = self->fusion->graph;
    const size_t all = (size_t)graph->node_count;
    self->position = tuff__alloc((all + 1) * sizeof *self->position);
    if (self->position == NULL)
        return TUFF_E_OOM_HOST;
    for (size_t i = 0; i < all; ++i)
        self->position[i] = -1;
    for (int i = 0; i < self->task->root_count; ++i)
        TRY(visit(self, self->task->roots[i]));
    const size_t count = (size_t)self->node_count;
    self->nodes = tuff__calloc(count, sizeof *self->nodes);
    self->read = tuff__calloc(count, sizeof *self->read);
    self->reads = tuff__calloc(count, sizeof *self->reads);
    self->axes = tuff__calloc(count * TUFF_MAX_RANK, sizeof *self->axes);
    self->products = tuff__calloc(count * TUFF_MAX_RANK, sizeof *self->products);
    if (self->nodes == NULL || self->read == NULL || self->reads == NULL || self->axes == NULL ||
        self->products == NULL)
        return TUFF_E_OOM_HOST;
    int position = 0;
    for (int i = 0; i < graph->node_count; ++i) {
        if (self->position[i] < 0)
            continue;
        self->nodes[position] = graph->nodes[i];
        self->read[position] = is_among(graph->nodes[i], self->task->reads, self->task->read_count);
        if (self->read[position])
            self->reads[self->read_count++] = graph->nodes[i];
        self->position[i] = position++;
    }
    return TUFF_OK;
}

tuff_status tuff__subgraph_create(const struct fusion *fusion, int task, subgraph **out)
{
    subgraph *self = tuff__calloc(1, sizeof *self);
    *out = NULL;
    if (self == NULL)
        return TUFF_E_OOM_HOST;
    self->fusion = fusion;
    self->task = &fusion->tasks[task];
    const tuff_status status = collect(self);
    if (status != TUFF_OK) {
        tuff__subgraph_destroy(self);
        return status;
    }
    tuff__find_axes(self);
    *out = self;
    return TUFF_OK;
}

void tuff__subgraph_destroy(subgraph *self)
{
    if (self == NULL)
        return;
    tuff__free(self->nodes);
    tuff__free(self->read);
    tuff__free(self->reads);
    tuff__free(self->position);
    tuff__free(self->axes);
    tuff__free(self->products);
    tuff__arena_free(&self->arena);
    tuff__free(self);
}

/* Derives the extent of a product from its factors, which may be products themselves. */
static int64_t derive_extent(subgraph *self, int index)
{
    axis_state *axis = &self->axes[index];
    if (axis->product < 0 || axis->fixed)
        return axis->new_extent;
    const axis_product *from = &self->products[axis->product];
    int64_t count = 1;
    for (int i = 0; i < from->count; ++i)
        count *= derive_extent(self, from->factors[i]);
    return axis->new_extent = count;
}

static bool is_free(const subgraph *self, int index)
{
    const axis_state *axis = &self->axes[index];
    return axis->parent == index && !axis->fixed && axis->product < 0;
}

static int axis_count(const subgraph *self)
{
    return self->node_count * TUFF_MAX_RANK;
}

bool tuff__subgraph_shrink(subgraph *self, int64_t max_extent)
{
    int seen = 0; /* axes that change */
    for (int i = 0; i < axis_count(self); ++i) {
        axis_state *axis = &self->axes[i];
        axis->places = NULL;
        axis->new_extent = axis->extent;
        if (!is_free(self, i) || axis->extent < 4)
            continue;
        /* Axes get different extents, so that a mix-up of two axes does not go unnoticed. */
        const int64_t limit = max_extent - 4 * (seen++ % 4), below = axis->extent < limit ? axis->extent - 1 : limit;
        axis->new_extent = below - (below % 2 == 0);
    }
    for (int i = 0; i < axis_count(self); ++i)
        if (self->axes[i].parent == i)
            (void)derive_extent(self, i);
    return seen > 0;
}

/* Returns which of `max_places` equal sections of an axis contains a place. */
static int section_of(const axis_state *axis, int max_places, int64_t place)
{
    int i = 0;
    while (i + 1 < max_places && place >= axis->extent * (i + 1) / max_places)
        ++i;
    return i;
}

static tuff_status pick_places(subgraph *self, axis_state *axis, int max_places)
{
    rng from = {(uint64_t)axis->extent};
    axis->places = tuff__arena_alloc(&self->arena, (size_t)max_places * sizeof *axis->places);
    if (axis->places == NULL)
        return TUFF_E_OOM_HOST;
    axis->new_extent = max_places;
    /* Take one place from each of `max_places` equal sections, including both ends of the axis. */
    for (int i = 0; i < max_places; ++i) {
        const int64_t begin = axis->extent * i / max_places, end = axis->extent * (i + 1) / max_places;
        axis->places[i] = begin + tuff__rng_below(&from, (int)(end - begin > INT32_MAX ? INT32_MAX : end - begin));
    }
    axis->places[0] = 0;
    axis->places[max_places - 1] = axis->extent - 1;
    if (max_places > 2)
        axis->places[max_places / 2] = axis->extent / 2;
    for (int i = 0; i < axis->required_count; ++i)
        axis->places[section_of(axis, max_places, axis->required[i])] = axis->required[i];
    return TUFF_OK;
}

static int64_t place_of(const axis_state *axis, int64_t i)
{
    return axis->places == NULL ? i : axis->places[i];
}

static tuff_status derive_places(subgraph *self, int index)
{
    axis_state *axis = &self->axes[index];
    if (axis->product < 0 || axis->fixed || axis->places != NULL)
        return TUFF_OK;
    const axis_product *from = &self->products[axis->product];
    axis->new_extent = 1;
    for (int i = 0; i < from->count; ++i) {
        TRY(derive_places(self, from->factors[i]));
        axis->new_extent *= self->axes[from->factors[i]].new_extent;
    }
    if (axis->new_extent == axis->extent)
        return TUFF_OK;
    axis->places = tuff__arena_alloc(&self->arena, (size_t)axis->new_extent * sizeof *axis->places);
    if (axis->places == NULL)
        return TUFF_E_OOM_HOST;
    for (int64_t i = 0; i < axis->new_extent; ++i) {
        int64_t rest = i, stride = 1;
        for (int k = from->count - 1; k >= 0; --k) {
            const axis_state *factor = &self->axes[from->factors[k]];
            axis->places[i] += place_of(factor, rest % factor->new_extent) * stride;
            rest /= factor->new_extent;
            stride *= factor->extent;
        }
    }
    return TUFF_OK;
}

tuff_status tuff__subgraph_sample(subgraph *self, int max_places)
{
    for (int i = 0; i < axis_count(self); ++i) {
        axis_state *axis = &self->axes[i];
        axis->places = NULL;
        axis->new_extent = axis->extent;
        if (is_free(self, i) && !axis->whole && max_places > 0 && axis->extent > max_places)
            TRY(pick_places(self, axis, max_places));
    }
    for (int i = 0; i < axis_count(self); ++i)
        if (self->axes[i].parent == i)
            TRY(derive_places(self, i));
    return TUFF_OK;
}

static void require_place(subgraph *self, int index, int64_t place)
{
    axis_state *axis = &self->axes[index];
    if (axis->product >= 0 && !axis->fixed) {
        const axis_product *from = &self->products[axis->product];
        for (int i = from->count - 1; i >= 0; --i) {
            require_place(self, from->factors[i], place % self->axes[from->factors[i]].extent);
            place /= self->axes[from->factors[i]].extent;
        }
        return;
    }
    if (axis->required_count == MAX_REQUIRED)
        memmove(axis->required, axis->required + 1, (size_t)--axis->required_count * sizeof *axis->required);
    axis->required[axis->required_count++] = place;
}

void tuff__subgraph_require_sample(subgraph *self, const node *at, const int64_t *place)
{
    for (int i = 0; i < at->outputs[0].shape.rank; ++i)
        require_place(self, tuff__axis_class(self, at, i), place[i]);
}

tuff_shape tuff__subgraph_shape(const subgraph *self, const node *at)
{
    tuff_shape shape = at->outputs[0].shape;
    for (int i = 0; i < shape.rank; ++i)
        shape.extent[i] = self->axes[tuff__axis_class(self, at, i)].new_extent;
    return shape;
}

int64_t tuff__subgraph_task_index(const subgraph *self, const node *at, int axis, int64_t i)
{
    return place_of(&self->axes[tuff__axis_class(self, at, axis)], i);
}

static double count_of(const subgraph *self, const node *at)
{
    const tuff_shape shape = tuff__subgraph_shape(self, at);
    double count = 1;
    for (int i = 0; i < shape.rank; ++i)
        count *= (double)shape.extent[i];
    return count;
}

static double cost_of(const subgraph *self, const node *reader)
{
    double cost = count_of(self, reader);
    if (reader->op == OP_MATMUL) {
        const tuff_shape x = tuff__subgraph_shape(self, reader->inputs[0]->node);
        cost *= (double)x.extent[x.rank - 1];
    } else if (tuff__op_is_attention(reader->op)) {
        const attention_inputs at = tuff__attention_inputs(reader->op, reader->attributes.options);
        const tuff_shape q = tuff__subgraph_shape(self, reader->inputs[at.q]->node),
                         k = tuff__subgraph_shape(self, reader->inputs[at.k]->node);
        cost = 4 * (double)q.extent[3];
        for (int i = 0; i < 3; ++i)
            cost *= (double)q.extent[i];
        cost *= (double)k.extent[1];
    } else {
        for (int i = 0; i < reader->input_count; ++i)
            cost += count_of(self, reader->inputs[i]->node);
        cost *= tuff__op_is_expensive(reader->op) ? 8 : 2;
    }
    return cost;
}

double tuff__subgraph_cost(const subgraph *self)
{
    double cost = 0;
    for (int i = 0; i < self->node_count; ++i)
        cost += self->read[i] ? count_of(self, self->nodes[i]) : cost_of(self, self->nodes[i]);
    return cost;
}

int tuff__subgraph_read_count(const subgraph *self)
{
    return self->read_count;
}

const node *tuff__subgraph_read(const subgraph *self, int index)
{
    return self->reads[index];
}

int tuff__subgraph_root_count(const subgraph *self)
{
    return self->task->root_count;
}

const node *tuff__subgraph_root(const subgraph *self, int index)
{
    return self->task->roots[index];
}

bool tuff__subgraph_is_discontinuous(const subgraph *self)
{
    for (int i = 0; i < self->node_count; ++i) {
        const node *at = self->nodes[i];
        const bool from_floats = at->input_count > 0 && tuff__dtype_is_float(at->inputs[0]->dtype);
        if (!self->read[i] && from_floats &&
            (tuff__op_info(at->op)->domain == DOMAIN_STEPS || !tuff__dtype_is_float(at->outputs[0].dtype)))
            return true;
    }
    return false;
}

bool tuff__subgraph_allows_negative(const subgraph *self)
{
    for (int i = 0; i < self->node_count; ++i)
        if (!self->read[i] && tuff__op_is_partial(self->nodes[i]->op))
            return false;
    return true;
}

static bool keeps_eighths(const node *at)
{
    return at->op == OP_ADD || at->op == OP_SUB || at->op == OP_NEG || at->op == OP_CAST || at->op == OP_PAD ||
           at->op == OP_CONCAT || tuff__op_is_view(at->op);
}

bool tuff__subgraph_is_exact(const subgraph *self)
{
    /* Inputs are at most 8 eighths, so a term of the product is at most 64 units of 1/64. Each addition before the
       product may double both of its operands. Half of the 2^24 units that f32 holds are left for later additions. */
    enum { MAX_TERMS = 1 << 17, MAX_SUMS = 2 };
    int products = 0, sums = 0;
    int64_t terms = 0;
    for (int i = 0; i < self->node_count; ++i) {
        const node *at = self->nodes[i];
        const bool is_product = !self->read[i] && at->op == OP_MATMUL;
        products += is_product;
        sums += !self->read[i] && (at->op == OP_ADD || at->op == OP_SUB);
        if (!tuff__dtype_is_float(at->outputs[0].dtype) || (!self->read[i] && !is_product && !keeps_eighths(at)))
            return false;
        if (is_product)
            terms = at->inputs[0]->shape.extent[at->inputs[0]->shape.rank - 1];
    }
    return products == 1 && sums <= MAX_SUMS && terms <= MAX_TERMS >> (2 * sums);
}

int64_t tuff__subgraph_index_bound(const subgraph *self)
{
    int64_t bound = 0;
    for (int i = 0; i < self->node_count; ++i) {
        const node *at = self->nodes[i];
        if (self->read[i] || (at->op != OP_GATHER && at->op != OP_SCATTER_ADD))
            continue;
        const tuff_shape shape = tuff__subgraph_shape(self, at->inputs[0]->node);
        const int64_t extent = shape.extent[at->attributes.axis];
        bound = bound == 0 || extent < bound ? extent : bound;
    }
    return bound;
}

const char *tuff__subgraph_name(char kind, int index, char *buffer)
{
    (void)snprintf(buffer, 16, "%c%d", kind, index);
    return buffer;
}

enum { FEW = 16 };

static tuff_tensor *copy_node(const subgraph *self, tuff_graph *graph, tuff_tensor *const *made, const node *at)
{
    tuff_tensor *few[FEW];
    tuff_tensor **inputs = at->input_count > FEW ? tuff__calloc((size_t)at->input_count, sizeof(tuff_tensor *)) : few;
    if (inputs == NULL)
        return NULL;
    for (int i = 0; i < at->input_count; ++i)
        inputs[i] = made[self->position[at->inputs[i]->node->id]];
    tuff_tensor *copy = tuff__node_create(graph, at->op, at->outputs[0].dtype, tuff__subgraph_shape(self, at), inputs,
                                          at->input_count, &at->attributes);
    if (inputs != few)
        tuff__free(inputs);
    return copy;
}

tuff_dtype tuff__subgraph_dtype(const subgraph *self, const node *at)
{
    const tuff_dtype dtype = at->outputs[0].dtype, stored = self->fusion->facts[at->id].storage;
    const bool narrow = dtype == TUFF_F32 && tuff__dtype_is_float(stored);
    return narrow ? stored : dtype;
}

tuff_dtype tuff__subgraph_rounding(const subgraph *self, const node *at)
{
    const tuff_dtype dtype = at->outputs[0].dtype, rounding = self->fusion->facts[at->id].rounding;
    return dtype == TUFF_F32 && rounding != TUFF_F32 ? rounding : tuff__subgraph_dtype(self, at);
}

tuff_dtype tuff__subgraph_factor_dtype(const subgraph *self)
{
    const node *core = self->task->core;
    tuff_dtype found = core == NULL ? TUFF_F32 : tuff__factor_precision(self->fusion, core);
    for (int i = 0; i < tuff__subgraph_read_count(self) && found == TUFF_F32; ++i) {
        const tuff_dtype one = tuff__subgraph_rounding(self, tuff__subgraph_read(self, i));
        found = one == TUFF_F16 || one == TUFF_BF16 ? one : found;
    }
    return found;
}

bool tuff__subgraph_reads_roots(const subgraph *self)
{
    for (int i = 0; i < self->node_count; ++i)
        for (int k = 0; k < self->nodes[i]->input_count && !self->read[i]; ++k)
            if (is_among(self->nodes[i]->inputs[k]->node, self->task->roots, self->task->root_count))
                return true;
    return false;
}

/* Makes the input for a value that the task reads, named after its number in the list of reads. */
static tuff_tensor *make_input(const subgraph *self, tuff_graph *graph, const node *at, int number, bool as_stored)
{
    char name[16];
    const tuff_dtype dtype = at->outputs[0].dtype, stored = as_stored ? tuff__subgraph_dtype(self, at) : dtype;
    tuff_tensor *input =
        tuff_input(graph, tuff__subgraph_name('r', number, name), stored, tuff__subgraph_shape(self, at));
    return stored != dtype ? tuff_cast(input, dtype) : input;
}

static tuff_status build(const subgraph *self, tuff_graph *graph, bool as_stored, tuff_tensor **made)
{
    char name[16];
    int read = 0;
    for (int i = 0; i < self->node_count; ++i) {
        const node *at = self->nodes[i];
        made[i] = self->read[i] ? make_input(self, graph, at, read++, as_stored) : copy_node(self, graph, made, at);
        if (made[i] == NULL)
            return TUFF_E_OOM_HOST;
        TRY(tuff_graph_status(graph));
    }
    for (int i = 0; i < self->task->root_count; ++i) {
        const node *root = self->task->roots[i];
        const tuff_dtype dtype = root->outputs[0].dtype, stored = as_stored ? tuff__subgraph_dtype(self, root) : dtype;
        tuff_tensor *result = made[self->position[root->id]];
        tuff_output(graph, tuff__subgraph_name('o', i, name), stored != dtype ? tuff_cast(result, stored) : result);
    }
    return tuff_graph_status(graph);
}

tuff_status tuff__subgraph_graph(const subgraph *self, tuff_device *device, bool as_stored, tuff_graph **out)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor **made = tuff__calloc((size_t)self->node_count, sizeof *made);
    tuff_status status = graph == NULL || made == NULL ? TUFF_E_OOM_HOST : build(self, graph, as_stored, made);
    tuff__free(made);
    if (status != TUFF_OK) {
        tuff_graph_destroy(graph);
        graph = NULL;
    }
    *out = graph;
    return status;
}
