/* The gradient of the loss by every parameter of a random program is the slope of the loss along it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "tools/verify/program_expect.h"
#include "tools/model/random.h"

/* Losses on the reference, of parameters that move. */
typedef struct slopes {
    program_recipe recipe;
    program_state state;
    reference_plan *plan;
    const tuff_graph *graph; /* the plan's */
    float *begin, *moved;
    int64_t total;
} slopes;

static void end_slopes(slopes *self)
{
    tuff__reference_destroy(self->plan);
    program_state_free(&self->state);
    free(self->begin);
    free(self->moved);
}

static tuff_status begin_slopes(slopes *self, tuff_device *reference)
{
    TRY(program_state_make(&self->recipe, reference, &self->state));
    self->total = self->state.parameters->slabs[0].total;
    TRY(program_reference(&self->recipe, reference, &self->state, &self->plan, &self->graph));
    self->moved = malloc((size_t)self->total * sizeof *self->moved + 1);
    if (self->moved == NULL)
        return FAIL(TUFF_E_OOM_HOST, "random program: a slab");
    return program_read_slab(self->state.parameters->slabs[0].array, self->total, &self->begin);
}

/* The loss where every element of a tensor is moved by so much times a sign of its own, and by how much each was. */
static tuff_status loss_at(slopes *self, const tensor_place *place, double by, double *loss)
{
    const uint64_t key = random_key(self->recipe.seed, place->name);
    const size_t size = (size_t)self->total * sizeof *self->moved;
    const int32_t first = 0;
    for (int64_t i = 0; i < self->total; i++) {
        const bool moves = i >= place->offset && i < place->offset + place->count;
        self->moved[i] = (float)(self->begin[i] + (!moves ? 0 : random_bits(key, (uint64_t)i) % 2 == 0 ? by : -by));
    }
    TRY(tuff_array_write(self->state.parameters->slabs[0].array, self->moved, size));
    TRY(tuff_array_write(tuff_optimizer_counter(self->state.optimizer), &first,
                         sizeof first)); /* dropout draws alike */
    TRY(program_write_inputs(&self->recipe, self->graph, 0, program_write_to_reference, self->plan));
    TRY(tuff__reference_run(self->plan));
    return tuff__reference_read_double(self->plan, "loss", loss);
}

/* Differences at two distances: what is left of them is of fourth order, and how far they are apart says how much that
   may be. */
static tuff_status check_slope(slopes *self, const tensor_place *place, const double *gradient, program_report *report)
{
    const double distance = 0x1p-9;
    double slope[2], foreseen[2] = {0, 0}, size = 0;
    for (int i = 0; i < 2; i++) {
        double low, high;
        const double by = i == 0 ? distance : distance / 2;
        TRY(loss_at(self, place, -by, &low));
        for (int64_t at = place->offset; at < place->offset + place->count; at++)
            foreseen[i] -= gradient[at] * self->moved[at];
        TRY(loss_at(self, place, by, &high));
        for (int64_t at = place->offset; at < place->offset + place->count; at++)
            foreseen[i] += gradient[at] * self->moved[at];
        slope[i] = (high - low) / (2 * by);
        foreseen[i] /= 2 * by;
    }
    for (int64_t at = place->offset; at < place->offset + place->count; at++)
        size += gradient[at] * gradient[at];
    const double off = fabs(slope[1] - foreseen[1]), apart = fabs(slope[0] - slope[1]);
    report->elements += place->count;
    if (off <= 1e-3 * sqrt(size) + 2 * apart + 1e-9)
        return TUFF_OK;
    char line[200];
    snprintf(line, sizeof line, "the loss grows by %.9g along %s, the gradient says %.9g (length %.2g)", slope[1],
             place->name, foreseen[1], sqrt(size));
    program_fail(report, "%s", line);
    return TUFF_OK;
}

void program_check_slopes(program_bench *bench, const program_recipe *recipe, program_report *report)
{
    slopes self = {.recipe = program_plain(recipe)};
    /* What has kinks has no slope near them. */
    if (program_choice(recipe, FIELD_ACTIVATION) == ACTIVATION_RELU)
        self.recipe.at[FIELD_ACTIVATION] = ACTIVATION_SILU;
    const int pool = program_choice(recipe, FIELD_POOL);
    if (pool == POOL_MAX || pool == POOL_OVERLAPPING)
        self.recipe.at[FIELD_POOL] = POOL_AVERAGE;
    program_expectation *expected = NULL;
    tuff_status status = program_expect(&self.recipe, bench->reference, &expected);
    if (status == TUFF_OK)
        status = begin_slopes(&self, bench->reference);
    for (int i = 0; status == TUFF_OK && i < expected->tensor_count; i++)
        status = check_slope(&self, &expected->tensors[i], expected->steps[0][1].value, report);
    if (status != TUFF_OK)
        program_fail(report, "the reference: %s", tuff_error());
    end_slopes(&self);
    program_expectation_free(expected);
}
