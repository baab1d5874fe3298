/* Column sums inside row tasks: a task that passes over rows anyway can also sum their columns, as for the gradients of
   a norm's gain and bias. Each work-item sums the rows that it owns, and a small column task adds up the items' sums.
   Long columns are first cut into blocks of rows. */
#include "compile/fuse/fuse.h"
#include "device/target.h"

#define MAX_ROWS 128       /* rows of a block, which one chain of additions sums */
#define MIN_ROWS 8         /* rows of a block; with fewer, the blocks' sums take too much memory */
#define MAX_TERMS 256      /* rows of blocks that the graph has already */
#define SMALL_DOMAIN 16384 /* elements of a domain that a single item of a CPU handles */
#define ITEMS_PER_CORE 4
#define LANES_PER_CORE 8 /* items that a core of a CPU runs in lockstep, if they are SIMD lanes */

/* The domain of a column task without its axes of extent 1, as blocks × rows × columns; the rows are reduced. */
typedef struct column_form {
    int64_t blocks, rows, columns;
} column_form;

static bool find_form(const struct task *task, uint32_t reduced_axes, column_form *out)
{
    *out = (column_form){.blocks = 1, .rows = 1, .columns = 1};
    bool found = false, above = false; /* so far, from inside: a reduced axis; a kept one outside it */
    for (int i = task->domain.rank - 1; i >= 0; --i) {
        const int64_t extent = task->domain.extent[i];
        const bool reduced = (reduced_axes >> i & 1) != 0;
        if (extent == 1)
            continue;
        if (above && reduced)
            return false;
        above |= found && !reduced;
        found |= reduced;
        *(reduced ? &out->rows : above ? &out->blocks : &out->columns) *= extent;
    }
    return found && out->columns > 1;
}

/* Returns the number of elements in a row of a row task; 0 if the task reduces other axes than the innermost ones. */
static int64_t row_length(const struct task *row)
{
    int64_t length = 1;
    bool above = false;
    for (int i = row->domain.rank - 1; i >= 0; --i) {
        const bool reduced = (row->loop_axes >> i & 1) != 0;
        if (row->domain.extent[i] == 1)
            continue;
        if (above && reduced)
            return 0;
        above |= !reduced;
        length *= reduced ? row->domain.extent[i] : 1;
    }
    return length;
}

static bool sums_floats(const struct task *column)
{
    bool sums = true;
    for (int i = 0; i < column->reduction_count; ++i)
        sums &= column->reductions[i]->op == OP_SUM &&
                tuff__compute_dtype(column->reductions[i]->outputs[0].dtype) == TUFF_F32;
    return sums;
}

/* Whether a column task stores only its sums. */
static bool stores_sums(const struct task *column)
{
    bool sums = column->root_count == column->reduction_count;
    for (int i = 0; i < column->root_count; ++i)
        sums &= column->roots[i]->op == OP_SUM;
    return sums;
}

/* Returns how many work-items keep the device busy; on a GPU, a group shares the rows that an item would own. */
static int64_t wanted_items(const struct fusion *fusion, int64_t elements)
{
    const target device = tuff__device_target(fusion->graph->device);
    if (device.is_cpu && elements <= SMALL_DOMAIN)
        return 1;
    const int64_t cores = tuff__processor_count(device.info);
    return ITEMS_PER_CORE * (cores < 1 ? 1 : cores) * (device.is_cpu && device.items_are_lanes ? LANES_PER_CORE : 1);
}

/* Returns the innermost axis that a sum reduces, ignoring axes of extent 1; -1 if there is none. */
static int innermost_reduced(const node *sum)
{
    const tuff_shape *shape = &sum->inputs[0]->shape;
    int axis = shape->rank - 1;
    while (axis >= 0 && ((sum->attributes.axes >> axis & 1) == 0 || shape->extent[axis] == 1))
        --axis;
    return axis;
}

/* Whether blocks of this many rows divide the axis to be cut in every sum of a task. Sums over the same elements may
   have inputs of different shapes, such as (5, 13, 18) and (65, 18). */
static bool divides_all(const struct task *column, int64_t rows)
{
    bool divides = true;
    for (int i = 0; i < column->reduction_count && divides; ++i) {
        const node *sum = column->reductions[i];
        const int axis = innermost_reduced(sum);
        divides =
            axis >= 0 && sum->inputs[0]->shape.rank < TUFF_MAX_RANK && sum->inputs[0]->shape.extent[axis] % rows == 0;
    }
    return divides;
}

/* Returns the largest number of rows, up to limit, that a block may have; 0 if no number from MIN_ROWS on divides the
   axes. */
static int64_t rows_of_block(const struct task *column, int64_t limit)
{
    for (int64_t rows = limit < MAX_ROWS ? limit : MAX_ROWS; rows >= MIN_ROWS; --rows)
        if (divides_all(column, rows))
            return rows;
    return 0;
}

/* Whether a row task that already sums columns can sum these too. */
static bool has_same_columns(const struct task *row, const struct task *column, const column_form *form)
{
    column_form own;
    return find_form(row, row->column_axes, &own) && own.blocks == form->blocks && own.rows == form->rows &&
           own.columns == form->columns && stores_sums(column);
}

column_fit tuff__fit_columns(const struct fusion *fusion, const struct task *row, const struct task *column,
                             int64_t *block_rows)
{
    column_form form;
    if (row->kind != TASK_ROW || column->kind != TASK_COLUMN || !sums_floats(column) ||
        !find_form(column, column->loop_axes, &form) || row->count != form.blocks * form.rows * form.columns)
        return COLUMNS_DO_NOT_FIT;
    if (row->column_axes != 0)
        return has_same_columns(row, column, &form) ? COLUMNS_FIT : COLUMNS_DO_NOT_FIT;
    if (row_length(row) != form.columns)
        return COLUMNS_DO_NOT_FIT;
    const int64_t items = wanted_items(fusion, form.blocks * form.rows * form.columns);
    if (form.rows <= MAX_TERMS && form.blocks >= items && (form.rows >= MIN_ROWS || items == 1))
        return stores_sums(column) ? COLUMNS_FIT : COLUMNS_DO_NOT_FIT;
    *block_rows = form.blocks == 1 ? rows_of_block(column, form.rows / items) : 0;
    return *block_rows > 0 ? COLUMNS_FIT_IN_BLOCKS : COLUMNS_DO_NOT_FIT;
}

typedef struct cut_context {
    tuff_graph *graph;
    int original_count;
    node **order; /* the nodes of the rewritten graph */
    int order_count;
    int64_t *rows; /* by node: rows in each block of a sum that is cut; 0: not cut */
} cut_context;

static tuff_tensor *make(cut_context *self, op_code op, tuff_shape shape, tuff_tensor *input, uint32_t axes)
{
    if (input->node == NULL)
        return input;
    const op_attributes attributes = {.axes = axes};
    tuff_tensor *made = tuff__node_create(self->graph, op, input->dtype, shape, &input, 1, &attributes);
    if (made->node != NULL)
        self->order[self->order_count++] = made->node;
    return made;
}

/* Sums the innermost reduced axis in blocks of this many rows; the original node then sums the blocks. */
static tuff_status cut(cut_context *self, node *at, int64_t rows)
{
    tuff_tensor *x = at->inputs[0];
    const int axis = innermost_reduced(at);
    tuff_shape shape = tuff__shape_cut(x->shape, axis, x->shape.extent[axis] / rows, rows);
    tuff__graph_set_origin(self->graph, at);
    tuff_tensor *pieces = make(self, OP_RESHAPE, shape, x, 0);
    shape.extent[axis + 1] = 1;
    tuff_tensor *blocks = make(self, OP_SUM, shape, pieces, 1u << (axis + 1));
    shape = x->shape;
    shape.extent[axis] /= rows;
    tuff_tensor *sums = make(self, OP_RESHAPE, shape, blocks, 0);
    tuff__graph_set_origin(self->graph, NULL);
    if (sums->node == NULL)
        return TUFF_E_OOM_HOST;
    at->inputs[0] = sums;
    return TUFF_OK;
}

static tuff_status rewrite(cut_context *self)
{
    tuff_status status = TUFF_OK;
    for (int i = 0; i < self->original_count && status == TUFF_OK; ++i) {
        node *at = self->graph->nodes[i];
        if (self->rows[i] > 0)
            status = cut(self, at, self->rows[i]);
        self->order[self->order_count++] = at;
    }
    return status == TUFF_OK ? tuff__graph_reorder(self->graph, self->order, self->order_count) : status;
}

/* Chooses which column sums to cut, and the number of rows in their blocks. Returns whether there are any. */
static bool choose(struct fusion *fusion, int64_t *cut_rows, struct task_order *order)
{
    bool any = false;
    for (int column = 0; column < fusion->task_count; ++column)
        for (int row = 0; row < fusion->task_count; ++row) {
            const struct task *column_task = &fusion->tasks[column];
            int64_t rows;
            if (tuff__fit_columns(fusion, &fusion->tasks[row], column_task, &rows) != COLUMNS_FIT_IN_BLOCKS ||
                !tuff__may_join(fusion, row, column, order) ||
                !tuff__pass_decides(fusion->passes, TUNABLE_fusion_column_sums, true))
                continue;
            for (int i = 0; i < column_task->reduction_count; ++i)
                cut_rows[column_task->reductions[i]->id] = rows;
            any = true;
            break;
        }
    return any;
}

tuff_status tuff__cut_columns(struct fusion *fusion, bool *changed)
{
    const size_t count = (size_t)fusion->graph->node_count;
    cut_context self = {.graph = fusion->graph, .original_count = fusion->graph->node_count};
    struct task_order order;
    const bool has_order = tuff__task_order_init(fusion, &order);
    self.rows = tuff__calloc(count + 1, sizeof *self.rows);
    self.order = tuff__calloc(4 * count + 1, sizeof(node *));
    tuff_status status = !has_order || self.rows == NULL || self.order == NULL ? TUFF_E_OOM_HOST : TUFF_OK;
    *changed = status == TUFF_OK && choose(fusion, self.rows, &order);
    if (*changed)
        status = rewrite(&self);
    tuff__task_order_free(&order);
    tuff__free(self.rows);
    tuff__free(self.order);
    return status;
}
