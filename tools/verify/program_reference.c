/* Runs the steps of random programs on the reference, and converts the state of a training to one list of doubles. */
#include <stdlib.h>

#include "base/status.h"
#include "compile/rewrite/simplify.h"
#include "graph/graph.h"
#include "tools/verify/program_expect.h"

const char *const program_scalars[STEP_SCALARS] = {"loss", "norm", "rate"};

tuff_status program_write_inputs(const program_recipe *recipe, const tuff_graph *graph, int batch,
                                 tuff_status (*write)(void *to, const program_input *input), void *to)
{
    program_data data;
    TRY(program_data_make(recipe, batch, &data));
    tuff_status status = TUFF_OK;
    for (int i = 0; i < data.count && status == TUFF_OK; i++)
        if (tuff__graph_find_input(graph, data.inputs[i].name)) /* unused inputs are not in the graph */
            status = write(to, &data.inputs[i]);
    program_data_free(&data);
    return status;
}

static tuff_status make_plan(program_reference *self, tuff_device *reference, const program_state *state, int index)
{
    tuff_graph *built = program_graph(&self->recipe, reference, state, index);
    if (built == NULL)
        return tuff_last_status();
    tuff_status status = tuff_graph_status(built);
    if (status != TUFF_OK)
        (void)FAIL(status, "%s", tuff_graph_error(built));
    tuff_graph *live = status == TUFF_OK ? tuff__simplify(built, true) : NULL;
    if (status == TUFF_OK)
        status = live == NULL ? tuff_last_status() : tuff__reference_create(live, &self->plans[index]);
    if (status == TUFF_OK)
        self->graphs[index] = live;
    else
        tuff_graph_destroy(live);
    tuff_graph_destroy(built);
    return status;
}

tuff_status program_reference_make(const program_recipe *recipe, tuff_device *reference, const program_state *state,
                                   program_reference *out)
{
    *out = (program_reference){.recipe = *recipe};
    for (int i = 0; i < program_graph_count(recipe); i++)
        TRY(make_plan(out, reference, state, i));
    return TUFF_OK;
}

void program_reference_free(program_reference *self)
{
    for (int i = 0; i < PROGRAM_GRAPHS; i++)
        tuff__reference_destroy(self->plans[i]);
    *self = (program_reference){.plans = {NULL}};
}

static tuff_status write_to_reference(void *plan, const program_input *input)
{
    return tuff__reference_write(plan, input->name, input->data, input->size);
}

tuff_status program_reference_step(program_reference *self, int step)
{
    const int runs = program_run_count(&self->recipe);
    for (int i = 0; i < runs; i++) {
        TRY(program_write_inputs(&self->recipe, self->graphs[0], step * runs + i, write_to_reference, self->plans[0]));
        TRY(tuff__reference_run(self->plans[0]));
    }
    return self->plans[1] != NULL ? tuff__reference_run(self->plans[1]) : TUFF_OK;
}

tuff_status program_reference_read(const program_reference *self, double scalars[STEP_SCALARS])
{
    reference_plan *last = self->plans[1] != NULL ? self->plans[1] : self->plans[0];
    for (int i = 0; i < STEP_SCALARS; i++)
        TRY(tuff__reference_read_double(last, program_scalars[i], &scalars[i]));
    return TUFF_OK;
}

const tensor_location *program_find_tensor(const tensor_list *list, int owner, state_kind kind)
{
    for (int i = 0; i < list->count; i++)
        if (list->tensors[i].parameter == owner && list->tensors[i].kind == kind)
            return &list->tensors[i];
    return NULL;
}

/* Counts elements other than 0. All elements have four bytes. */
static int64_t count_set(const void *data, int64_t count)
{
    const uint32_t *words = data;
    int64_t set = 0;
    for (int64_t i = 0; i < count; i++)
        set += words[i] << 1 != 0; /* -0 counts as 0 */
    return set;
}

/* Whether elements between the parameters of a slab are other than 0. */
static bool has_gaps_set(const state_list *list)
{
    int64_t others = 0;
    for (int i = 0; i < list->array_count; i++)
        others += count_set(list->arrays[i].host, (int64_t)(tuff_array_size(list->arrays[i].array) / sizeof(float)));
    for (int i = 0; i < list->tensor_count; i++)
        others -= count_set(list->tensors[i].data, tuff_shape_count(list->tensors[i].shape));
    return others > 0;
}

tuff_status program_read_state(const program_state *state, double *into, bool *gaps)
{
    state_list list;
    tuff_status status = tuff__list_state(state->parameters, state->optimizer, &list);
    if (status == TUFF_OK)
        status = tuff__state_read(&list);
    for (int i = 0; i < list.tensor_count && status == TUFF_OK; i++) {
        const state_tensor *tensor = &list.tensors[i];
        tuff__to_double(tensor->dtype, tensor->data, tuff_shape_count(tensor->shape), into);
        into += tuff_shape_count(tensor->shape);
    }
    if (gaps != NULL && status == TUFF_OK)
        *gaps = has_gaps_set(&list);
    tuff__state_free(&list);
    return status;
}

tuff_status program_write_state(const program_state *state, const double *values)
{
    state_list list;
    tuff_status status = tuff__list_state(state->parameters, state->optimizer, &list);
    for (int i = 0; i < list.tensor_count && status == TUFF_OK; i++) {
        const state_tensor *tensor = &list.tensors[i];
        tuff__from_double(tensor->dtype, values, tuff_shape_count(tensor->shape), tensor->data);
        values += tuff_shape_count(tensor->shape);
    }
    if (status == TUFF_OK)
        status = tuff__state_write(&list);
    tuff__state_free(&list);
    return status;
}
