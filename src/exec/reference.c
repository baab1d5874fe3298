/* The executor of the reference device: evaluates the nodes in building order. Each value is a block of doubles that
   lives from its node to its last use. Arrays are read when a run starts and assigned when it ends, both with the
   device locked, so that runs and other threads' accesses to arrays are serialized. */
#include <math.h>
#include <string.h>

#include "exec/reference.h"

typedef struct node_values {
    double *value, *error; /* error is NULL if bounds are not computed */
    int last_use;          /* id of the last node that reads it; node_count if an output or an assign needs it */
    bool written;          /* INPUT: the host wrote it; CONSTANT: a run has evaluated it */
} node_values;

struct reference_plan {
    tuff_graph *graph;
    node_values *values; /* one per node */
    bool computes_bounds;
    double slack;                       /* as evaluation.slack */
    tuff_dtype storage;                 /* bounds allow each value to be rounded to it; f32: only by its op */
    tuff_dtype factors;                 /* the same for the weights of attention */
    const reference_rounding *rounding; /* NULL: none */
    bool has_run;
};

static int64_t element_count(const node *at)
{
    return tuff_shape_count(at->outputs[0].shape);
}

static double *alloc_doubles(int64_t count)
{
    return tuff__calloc((size_t)count, sizeof(double));
}

/* Inputs, constants and outputs are kept between runs; other values are released after their last use. */
static bool is_kept(const reference_plan *plan, const node *at)
{
    return at->op == OP_INPUT || at->op == OP_CONSTANT || plan->values[at->id].last_use == plan->graph->node_count;
}

static void release_values(node_values *values)
{
    tuff__free(values->value);
    tuff__free(values->error);
    values->value = values->error = NULL;
}

/* Nodes are in topological order, so the last one that has a value as an input is its last use. */
static void find_last_uses(reference_plan *plan)
{
    const tuff_graph *graph = plan->graph;
    for (int i = 0; i < graph->node_count; i++) {
        plan->values[i].last_use = i;
        for (int input = 0; input < graph->nodes[i]->input_count; input++)
            plan->values[graph->nodes[i]->inputs[input]->node->id].last_use = i;
    }
    for (int i = 0; i < graph->output_count; i++)
        plan->values[graph->outputs[i].tensor->node->id].last_use = graph->node_count;
    for (int i = 0; i < graph->assign_count; i++)
        plan->values[graph->assigns[i]->id].last_use = graph->node_count;
}

/* The graph belongs to the executor only after success. */
tuff_status tuff__reference_create(tuff_graph *graph, reference_plan **out)
{
    TRY(tuff_graph_status(graph));
    reference_plan *plan = tuff__calloc(1, sizeof *plan);
    if (!plan)
        return TUFF_E_OOM_HOST;
    plan->graph = graph;
    plan->values = tuff__calloc((size_t)graph->node_count + 1, sizeof *plan->values);
    if (!plan->values) {
        tuff__free(plan);
        return TUFF_E_OOM_HOST;
    }
    find_last_uses(plan);
    *out = plan;
    return TUFF_OK;
}

void tuff__reference_destroy(reference_plan *plan)
{
    if (!plan)
        return;
    for (int i = 0; i < plan->graph->node_count; i++)
        release_values(&plan->values[i]);
    tuff__free(plan->values);
    tuff_graph_destroy(plan->graph);
    tuff__free(plan);
}

/* Allocates a node's values, and its bounds if they are computed, unless that was done. */
static tuff_status ensure_values(reference_plan *plan, const node *at)
{
    node_values *values = &plan->values[at->id];
    if (!values->value)
        values->value = alloc_doubles(element_count(at));
    if (!values->error && plan->computes_bounds)
        values->error = alloc_doubles(element_count(at));
    return values->value && (values->error || !plan->computes_bounds) ? TUFF_OK : TUFF_E_OOM_HOST;
}

/* Inputs are numbered in the order in which they were built. There is no table of them: plans of the reference device
   check results, and are not fast in anything. */
static const node *input_at(const reference_plan *plan, int index)
{
    for (int i = 0; i < plan->graph->node_count; i++)
        if (plan->graph->nodes[i]->op == OP_INPUT && index-- == 0)
            return plan->graph->nodes[i];
    return NULL;
}

int tuff__reference_input_count(const reference_plan *plan)
{
    int count = 0;
    for (int i = 0; i < plan->graph->node_count; i++)
        count += plan->graph->nodes[i]->op == OP_INPUT;
    return count;
}

int tuff__reference_output_count(const reference_plan *plan)
{
    return plan->graph->output_count;
}

const tuff_tensor *tuff__reference_input(const reference_plan *plan, int index, const char **name)
{
    const node *input = input_at(plan, index);
    *name = input->attributes.name;
    return &input->outputs[0];
}

const tuff_tensor *tuff__reference_output(const reference_plan *plan, int index, const char **name)
{
    *name = plan->graph->outputs[index].name;
    return plan->graph->outputs[index].tensor;
}

static tuff_status check_size(const char *name, const tuff_tensor *tensor, size_t size)
{
    const size_t whole = (size_t)tuff_shape_count(tensor->shape) * tuff_dtype_size(tensor->dtype);
    if (size == whole)
        return TUFF_OK;
    return FAIL(TUFF_E_USAGE, "write: \"%.200s\" is %s %s, %zu bytes, not %zu", name, tuff_dtype_name(tensor->dtype),
                SHAPE_TEXT(tensor->shape), whole, size);
}

static tuff_status write_part(reference_plan *plan, const node *input, uint64_t offset, const void *data, size_t size)
{
    const tuff_dtype dtype = input->outputs[0].dtype;
    const size_t element = tuff_dtype_size(dtype);
    TRY(ensure_values(plan, input));
    tuff__to_double(dtype, data, (int64_t)(size / element), plan->values[input->id].value + offset / element);
    plan->values[input->id].written = true;
    return TUFF_OK;
}

tuff_status tuff__reference_write_at(reference_plan *plan, int index, uint64_t offset, const void *data, size_t size)
{
    return write_part(plan, input_at(plan, index), offset, data, size);
}

tuff_status tuff__reference_write(reference_plan *plan, const char *name, const void *data, size_t size)
{
    const node *input = tuff__graph_find_input(plan->graph, name);
    if (!input || (!data && size > 0))
        return FAIL(TUFF_E_USAGE, input ? "write: the data of \"%.200s\" is NULL" : "write: no input named \"%.200s\"",
                    name ? name : "(NULL)");
    TRY(check_size(name, &input->outputs[0], size));
    return write_part(plan, input, 0, data, size);
}

tuff_status tuff__reference_write_double(reference_plan *plan, const char *name, const double *values)
{
    const node *input = tuff__graph_find_input(plan->graph, name);
    if (!input)
        return FAIL(TUFF_E_USAGE, "write: no input named \"%.200s\"", name ? name : "(NULL)");
    TRY(ensure_values(plan, input));
    if (element_count(input) > 0)
        memcpy(plan->values[input->id].value, values, (size_t)element_count(input) * sizeof *values);
    plan->values[input->id].written = true;
    return TUFF_OK;
}

static tuff_status check_inputs_written(const reference_plan *plan)
{
    for (int i = 0; i < plan->graph->node_count; i++)
        if (plan->graph->nodes[i]->op == OP_INPUT && !plan->values[i].written)
            return FAIL(TUFF_E_USAGE, "run: the input \"%.200s\" was never written",
                        plan->graph->nodes[i]->attributes.name);
    return TUFF_OK;
}

/* Reads all arrays at once, as a device would: if another run assigns two of them, both are from before that or both
   from after. */
static tuff_status load_arrays(reference_plan *plan)
{
    node *const *nodes = plan->graph->nodes;
    for (int i = 0; i < plan->graph->node_count; i++)
        if (nodes[i]->op == OP_ARRAY)
            TRY(ensure_values(plan, nodes[i]));
    tuff__host_begin(plan->graph->device);
    for (int i = 0; i < plan->graph->node_count; i++) {
        const tuff_array *array = nodes[i]->op == OP_ARRAY ? nodes[i]->attributes.array : NULL;
        if (!array)
            continue;
        const unsigned char *bytes = tuff__storage_host(array->storage);
        tuff__to_double(array->dtype, bytes + array->offset, element_count(nodes[i]), plan->values[i].value);
    }
    tuff__host_end(plan->graph->device);
    return TUFF_OK;
}

/* The result of an assign is its value as the array stores it. */
static void round_value(const node *at, const node_values *from, node_values *to)
{
    const int64_t count = element_count(at);
    for (int64_t i = 0; i < count; i++) {
        to->value[i] = tuff__round_to(at->outputs[0].dtype, from->value[i]);
        if (to->error)
            to->error[i] = from->error[i];
    }
}

/* Returns a node's grid, given one of the arrays of plan->rounding. */
static rounding_grid grid_of(const reference_plan *plan, const unsigned char *bits, const node *at)
{
    return (rounding_grid){bits[at->id], plan->rounding->stretch};
}

/* Rounds a node's operands. Nodes that need it have at most two. copies: the rounded operands, freed by the caller. */
static tuff_status round_operands(const reference_plan *plan, const node *at, const double **values, double **copies)
{
    const rounding_grid grid = grid_of(plan, plan->rounding->operands, at);
    for (int i = 0; i < at->input_count && i < 2; i++) {
        const int64_t count = tuff_shape_count(at->inputs[i]->shape);
        copies[i] = alloc_doubles(count + 1);
        if (!copies[i])
            return TUFF_E_OOM_HOST;
        for (int64_t k = 0; k < count; k++)
            copies[i][k] = tuff__round_on_grid(grid, values[i][k]);
        values[i] = copies[i];
    }
    return TUFF_OK;
}

static void round_result(const reference_plan *plan, const node *at)
{
    const rounding_grid grid = plan->rounding ? grid_of(plan, plan->rounding->results, at) : (rounding_grid){0};
    const int64_t count = grid.bits > 0 ? element_count(at) : 0;
    double *values = plan->values[at->id].value;
    for (int64_t i = 0; i < count; i++)
        values[i] = tuff__round_on_grid(grid, values[i]);
}

#define MAX_FEW 8

static double unit_roundoff(tuff_dtype dtype)
{
    return dtype == TUFF_F16 ? 0x1p-11 : dtype == TUFF_BF16 ? 0x1p-8 : 0;
}

/* Evaluates a node. Its lists of inputs are on the stack unless they are long, as those of CONCAT may be. */
static tuff_status evaluate_node(reference_plan *plan, const node *at)
{
    const size_t count = (size_t)at->input_count;
    const double *few_values[2 * MAX_FEW];
    tuff_shape few_shapes[MAX_FEW];
    tuff_dtype few_dtypes[MAX_FEW];
    const bool many = at->input_count > MAX_FEW;
    const double **values = many ? tuff__calloc(2 * count, sizeof *values) : few_values;
    tuff_shape *shapes = many ? tuff__calloc(count, sizeof *shapes) : few_shapes;
    tuff_dtype *dtypes = many ? tuff__calloc(count, sizeof *dtypes) : few_dtypes;
    double *rounded[2] = {NULL, NULL};
    tuff_status status = TUFF_E_OOM_HOST;
    if (values && shapes && dtypes) {
        for (size_t i = 0; i < count; i++) {
            const node_values *input = &plan->values[at->inputs[i]->node->id];
            values[i] = input->value;
            values[count + i] = input->error;
            shapes[i] = at->inputs[i]->shape;
            dtypes[i] = at->inputs[i]->dtype;
        }
        status = plan->rounding && plan->rounding->operands[at->id] > 0 ? round_operands(plan, at, values, rounded)
                                                                        : TUFF_OK;
    }
    if (status == TUFF_OK)
        status = tuff__evaluate(
            &(evaluation){.op = at->op,
                          .attributes = &at->attributes,
                          .input_count = at->input_count,
                          .input_shapes = shapes,
                          .input_dtypes = dtypes,
                          .inputs = values,
                          .input_errors = plan->computes_bounds ? values + count : NULL,
                          .dtype = at->outputs[0].dtype,
                          .shape = at->outputs[0].shape,
                          .value = plan->values[at->id].value,
                          .error = plan->values[at->id].error,
                          .slack = plan->slack,
                          .inner_grid = plan->rounding ? grid_of(plan, plan->rounding->inner, at) : (rounding_grid){0},
                          .factor_rounding = fmax(unit_roundoff(plan->storage), unit_roundoff(plan->factors))});
    tuff__free(rounded[0]);
    tuff__free(rounded[1]);
    if (many) {
        tuff__free(values);
        tuff__free(shapes);
        tuff__free(dtypes);
    }
    return status;
}

/* Widens a value's bounds, because a 16-bit plan may round it. One that underflows is off by at most half the smallest
   number. */
static void widen_bounds(const reference_plan *plan, const node *at)
{
    const node_values *values = &plan->values[at->id];
    const bool narrow = plan->storage == TUFF_F16 || plan->storage == TUFF_BF16;
    if (!values->error || !narrow || tuff__op_is_view(at->op) || !tuff__dtype_is_float(at->outputs[0].dtype))
        return;
    const double unit = unit_roundoff(plan->storage), least = plan->storage == TUFF_F16 ? 0x1p-25 : 0;
    const int64_t count = element_count(at);
    for (int64_t i = 0; i < count; i++)
        values->error[i] += unit * (fabs(values->value[i]) + values->error[i]) + least;
}

/* Inputs and constants keep their values between runs. */
static tuff_status run_node(reference_plan *plan, const node *at)
{
    node_values *values = &plan->values[at->id];
    const bool made_before = at->op == OP_INPUT || at->op == OP_ARRAY || (at->op == OP_CONSTANT && values->written);
    TRY(ensure_values(plan, at));
    if (at->op == OP_ASSIGN)
        round_value(at, &plan->values[at->inputs[0]->node->id], values);
    else if (!made_before)
        TRY(evaluate_node(plan, at));
    values->written |= at->op == OP_CONSTANT;
    if (made_before && values->error)
        memset(values->error, 0, (size_t)element_count(at) * sizeof(double));
    widen_bounds(plan, at);
    round_result(plan, at);
    return TUFF_OK;
}

static void release_finished(reference_plan *plan, const node *after)
{
    for (int i = 0; i < after->input_count; i++) {
        const node *input = after->inputs[i]->node;
        if (plan->values[input->id].last_use == after->id && !is_kept(plan, input))
            release_values(&plan->values[input->id]);
    }
    /* Nothing reads the value: it is released right after the node that computed it. */
    if (plan->values[after->id].last_use == after->id && !is_kept(plan, after))
        release_values(&plan->values[after->id]);
}

/* Changes the arrays, now that all reads of the run are over. */
static void commit_assigns(reference_plan *plan)
{
    tuff__host_begin(plan->graph->device);
    for (int i = 0; i < plan->graph->assign_count; i++) {
        const node *at = plan->graph->assigns[i];
        const tuff_array *array = at->attributes.array;
        unsigned char *bytes = tuff__storage_host(array->storage);
        tuff__from_double(array->dtype, plan->values[at->id].value, element_count(at), bytes + array->offset);
        tuff__storage_touch(array->storage);
    }
    tuff__host_end(plan->graph->device);
}

static tuff_status run(reference_plan *plan)
{
    TRY(load_arrays(plan));
    for (int i = 0; i < plan->graph->node_count; i++) {
        TRY(run_node(plan, plan->graph->nodes[i]));
        release_finished(plan, plan->graph->nodes[i]);
    }
    commit_assigns(plan);
    plan->has_run = true;
    return TUFF_OK;
}

/* Runs of one device exclude each other, as on a queue, whichever thread starts them. */
tuff_status tuff__reference_run(reference_plan *plan)
{
    TRY(check_inputs_written(plan));
    tuff__host_run_begin(plan->graph->device);
    const tuff_status status = run(plan);
    tuff__host_run_end(plan->graph->device);
    return status;
}

static tuff_status check_has_run(const reference_plan *plan, const char *name)
{
    return plan->has_run ? TUFF_OK : FAIL(TUFF_E_USAGE, "read: \"%.200s\": the plan has not been run", name);
}

static tuff_status find_result(const reference_plan *plan, const char *name, const tuff_tensor **out)
{
    for (int i = 0; name && i < plan->graph->output_count; i++) {
        *out = plan->graph->outputs[i].tensor;
        if (strcmp(plan->graph->outputs[i].name, name) == 0)
            return check_has_run(plan, name);
    }
    return FAIL(TUFF_E_USAGE, "read: no output named \"%.200s\"", name ? name : "(NULL)");
}

tuff_status tuff__reference_read_at(reference_plan *plan, int index, uint64_t offset, void *data, size_t size)
{
    const graph_output *output = &plan->graph->outputs[index];
    const tuff_dtype dtype = output->tensor->dtype;
    const size_t element = tuff_dtype_size(dtype);
    TRY(check_has_run(plan, output->name));
    tuff__from_double(dtype, plan->values[output->tensor->node->id].value + offset / element, (int64_t)(size / element),
                      data);
    return TUFF_OK;
}

tuff_status tuff__reference_read_double(reference_plan *plan, const char *name, double *values)
{
    const tuff_tensor *output;
    TRY(find_result(plan, name, &output));
    if (tuff_shape_count(output->shape) > 0)
        memcpy(values, plan->values[output->node->id].value, (size_t)tuff_shape_count(output->shape) * sizeof *values);
    return TUFF_OK;
}

/* Bounds take a second block of doubles for each value, so they are freed as soon as nobody wants them. */
void tuff__reference_enable_bounds(reference_plan *plan, bool enabled)
{
    plan->computes_bounds = enabled;
    for (int i = 0; !enabled && i < plan->graph->node_count; i++) {
        tuff__free(plan->values[i].error);
        plan->values[i].error = NULL;
    }
}

void tuff__reference_set_storage(reference_plan *plan, tuff_dtype dtype)
{
    plan->storage = dtype;
}

void tuff__reference_set_factors(reference_plan *plan, tuff_dtype dtype)
{
    plan->factors = dtype;
}

void tuff__reference_set_slack(reference_plan *plan, double slack)
{
    plan->slack = slack;
}

void tuff__reference_set_rounding(reference_plan *plan, const reference_rounding *rounding)
{
    plan->rounding = rounding;
}

tuff_status tuff__reference_read_bounds(reference_plan *plan, const char *name, double *bounds)
{
    const tuff_tensor *output;
    TRY(find_result(plan, name, &output));
    if (!plan->values[output->node->id].error)
        return FAIL(TUFF_E_USAGE, "read: \"%.200s\": the last run computed no error bounds", name);
    if (tuff_shape_count(output->shape) > 0)
        memcpy(bounds, plan->values[output->node->id].error, (size_t)tuff_shape_count(output->shape) * sizeof *bounds);
    return TUFF_OK;
}
