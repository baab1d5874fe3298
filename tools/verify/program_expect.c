/* What the reference makes of random programs: the values of every slab after every step. */
#include "tools/verify/program_expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "compile/rewrite/simplify.h"
#include "graph/graph.h"

tuff_array *program_slab(const program_state *state, int index)
{
    return index == 0 ? state->parameters->slabs[0].array : state->optimizer->pieces[0].moments[index - 1];
}

int program_slab_count(const program_state *state)
{
    int count = 1;
    while (count < MAX_SLABS && state->optimizer->pieces[0].moments[count - 1] != NULL)
        count++;
    return count;
}

void program_expectation_free(program_expectation *expectation)
{
    if (expectation == NULL)
        return;
    for (int step = 0; step < MAX_STEPS; step++)
        for (int i = 0; i < MAX_SLABS; i++) {
            free(expectation->steps[step][i].begin);
            free(expectation->steps[step][i].value);
        }
    free(expectation);
}

/* Inputs that nothing reads are not in the graph. */
static bool has_input(const tuff_graph *graph, const char *name)
{
    for (int i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->op == OP_INPUT && strcmp(graph->nodes[i]->attributes.name, name) == 0)
            return true;
    return false;
}

/* The new elements of slab `index`, as an output of the graph. */
static void add_slab_output(tuff_graph *graph, const program_state *state, int index)
{
    char name[16];
    snprintf(name, sizeof name, "slab%d", index);
    for (int i = 0; i < graph->assign_count; i++)
        if (graph->assigns[i]->attributes.array == program_slab(state, index))
            tuff_output(graph, name, graph->assigns[i]->inputs[0]);
}

tuff_status program_reference(const program_recipe *recipe, tuff_device *reference, const program_state *state,
                              reference_plan **out, const tuff_graph **graph)
{
    tuff_graph *built = program_graph(recipe, reference, state);
    if (built == NULL)
        return tuff_last_status();
    for (int i = 0; i < program_slab_count(state); i++)
        add_slab_output(built, state, i);
    tuff_status status = tuff_graph_status(built);
    if (status != TUFF_OK)
        (void)FAIL(status, "%s", tuff_graph_error(built));
    tuff_graph *live = status == TUFF_OK ? tuff__simplify(built, true) : NULL;
    if (status == TUFF_OK)
        status = live == NULL ? tuff_last_status() : tuff__reference_create(live, out);
    if (status != TUFF_OK)
        tuff_graph_destroy(live);
    *graph = live;
    tuff_graph_destroy(built);
    return status;
}

tuff_status program_read_slab(tuff_array *array, int64_t total, float **out)
{
    const size_t size = (size_t)total * sizeof **out;
    *out = malloc(size + 1);
    return *out == NULL ? FAIL(TUFF_E_OOM_HOST, "random program: a slab") : tuff_array_read(array, *out, size);
}

tuff_status program_write_inputs(const program_recipe *recipe, const tuff_graph *graph, int step,
                                 tuff_status (*write)(void *to, const program_input *input), void *to)
{
    program_data data;
    TRY(program_data_make(recipe, step, &data));
    tuff_status status = TUFF_OK;
    for (int i = 0; i < data.count && status == TUFF_OK; i++)
        if (has_input(graph, data.inputs[i].name))
            status = write(to, &data.inputs[i]);
    program_data_free(&data);
    return status;
}

tuff_status program_write_to_reference(void *plan, const program_input *input)
{
    return tuff__reference_write(plan, input->name, input->data, input->size);
}

static tuff_status read_expected(program_expectation *self, reference_plan *plan, int step)
{
    for (int i = 0; i < self->slab_count; i++) {
        slab_step *slab = &self->steps[step][i];
        char name[16];
        snprintf(name, sizeof name, "slab%d", i);
        slab->value = calloc((size_t)self->total + 1, sizeof *slab->value);
        if (slab->value == NULL)
            return FAIL(TUFF_E_OOM_HOST, "random program: a slab");
        TRY(tuff__reference_read_double(plan, name, slab->value));
    }
    return tuff__reference_read_double(plan, "loss", &self->loss[step]);
}

static tuff_status expect_step(program_expectation *self, const program_recipe *recipe, const program_state *state,
                               const tuff_graph *graph, reference_plan *plan, int step)
{
    for (int i = 0; i < self->slab_count; i++)
        TRY(program_read_slab(program_slab(state, i), self->total, &self->steps[step][i].begin));
    TRY(program_write_inputs(recipe, graph, step, program_write_to_reference, plan));
    TRY(tuff__reference_run(plan));
    return read_expected(self, plan, step);
}

static void note_tensors(program_expectation *self, const program_state *state)
{
    self->total = state->parameters->slabs[0].total;
    self->slab_count = program_slab_count(state);
    self->options = state->optimizer->options;
    for (int i = 0; i < state->parameters->count; i++) {
        const parameter *item = &state->parameters->items[i];
        tensor_place *place = &self->tensors[self->tensor_count++];
        *place = (tensor_place){.offset = item->offset, .count = item->count};
        snprintf(place->name, sizeof place->name, "%s", item->name);
    }
}

static tuff_status expect_all(program_expectation *self, const program_recipe *recipe, tuff_device *reference,
                              const program_state *state)
{
    reference_plan *plan = NULL;
    note_tensors(self, state);
    self->step_count = (int)program_size(recipe, FIELD_STEPS);
    const tuff_graph *graph;
    TRY(program_reference(recipe, reference, state, &plan, &graph));
    tuff_status status = TUFF_OK;
    for (int step = 0; step < self->step_count && status == TUFF_OK; step++)
        status = expect_step(self, recipe, state, graph, plan, step);
    tuff__reference_destroy(plan);
    return status;
}

tuff_status program_expect(const program_recipe *recipe, tuff_device *reference, program_expectation **out)
{
    program_recipe plain = *recipe;
    program_state state;
    plain.variant = (program_variant){.padding = 0};
    *out = NULL;
    TRY(program_state_make(&plain, reference, &state));
    program_expectation *self = calloc(1, sizeof *self);
    tuff_status status = self == NULL ? FAIL(TUFF_E_OOM_HOST, "random program: expectation") : TUFF_OK;
    if (status == TUFF_OK)
        status = expect_all(self, &plain, reference, &state);
    program_state_free(&state);
    if (status == TUFF_OK)
        *out = self;
    else
        program_expectation_free(self);
    return status;
}
