/* What the reference computes for random programs: every tensor of the state after every step, and how far rounding
   moves it if no formula bounds that. In this case the step is repeated with rounding at the points where kernels
   round, on several grids: the movement of an element covers the depth of the program, its cancellations and its kinks.
   This is done for plans that store 16 bits, and for Muon, whose Newton-Schulz steps magnify small parts of a matrix
   485 times; for others only if a device's results are not within the formulas' tolerances, because some programs of
   f32 cancel, divide by small norms, or choose between maxima that differ in the last bit. */
#include "tools/verify/program_expect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tools/verify/program_allow.h"
#include "train/rules.h"

/* A training run on the reference. */
typedef struct runner {
    program_state state;
    program_reference plans;
    program_rounding roundings[PROGRAM_GRAPHS];
    tensor_list tensors;
    double *begin, *value, *moved;
} runner;

static void free_values(step_values *values)
{
    free(values->begin);
    free(values->value);
    free(values->noise);
    free(values->gradient);
    free(values->gradient_noise);
}

void program_expectation_free(program_expectation *expectation)
{
    if (expectation == NULL)
        return;
    for (int step = 0; step < PROGRAM_STEPS; step++)
        free_values(&expectation->steps[step]);
    free(expectation->state.tensors);
    free(expectation);
}

static void destroy_runner(runner *self)
{
    program_reference_free(&self->plans);
    for (int i = 0; i < PROGRAM_GRAPHS; i++)
        program_rounding_free(&self->roundings[i]);
    program_state_free(&self->state);
    free(self->tensors.tensors);
    free(self->begin);
    free(self->value);
    free(self->moved);
}

/* Determines what a tensor of the state is by its name: "NAME", or "optimizer.KIND.NAME". */
static void classify_tensor(const tuff_parameters *parameters, const char *name, tensor_location *place)
{
    static const struct {
        const char *prefix;
        state_kind kind;
    } rows[] = {{"optimizer.m.", STATE_FIRST},
                {"optimizer.v.", STATE_SECOND},
                {"optimizer.row.", STATE_ROW},
                {"optimizer.column.", STATE_COLUMN},
                {"optimizer.average.", STATE_AVERAGE}};
    const bool is_weights = strncmp(name, "optimizer.", strlen("optimizer.")) != 0;
    place->kind = is_weights ? STATE_WEIGHTS : STATE_EXACT;
    place->parameter = -1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strncmp(name, rows[i].prefix, strlen(rows[i].prefix)) == 0) {
            place->kind = rows[i].kind;
            name += strlen(rows[i].prefix);
        }
    snprintf(place->name, sizeof place->name, "%s", name);
    for (int i = 0; i < parameters->count && place->kind != STATE_EXACT; i++)
        if (strcmp(parameters->items[i].name, name) == 0)
            place->parameter = i;
}

static tuff_status list_tensors(const program_state *state, tensor_list *out)
{
    state_list list;
    tuff_status status = tuff__list_state(state->parameters, state->optimizer, &list);
    out->tensors = status == TUFF_OK ? calloc((size_t)list.tensor_count + 1, sizeof *out->tensors) : NULL;
    if (status == TUFF_OK && out->tensors == NULL)
        status = FAIL(TUFF_E_OOM_HOST, "random program: out of memory for a list");
    for (int i = 0; i < list.tensor_count && status == TUFF_OK; i++) {
        tensor_location *place = &out->tensors[out->count++];
        classify_tensor(state->parameters, list.tensors[i].name, place);
        place->shape = list.tensors[i].shape;
        place->offset = out->total;
        place->count = tuff_shape_count(place->shape);
        out->total += place->count;
    }
    tuff__state_free(&list);
    return status;
}

/* Call destroy_runner even after a failure. */
static tuff_status create_runner(runner *self, const program_recipe *recipe, tuff_device *reference)
{
    *self = (runner){.begin = NULL};
    TRY(program_state_make(recipe, reference, &self->state));
    TRY(program_reference_make(recipe, reference, &self->state, &self->plans));
    for (int i = 0; i < program_graph_count(recipe); i++)
        TRY(program_rounding_make(self->plans.graphs[i], program_precision(recipe), &self->roundings[i]));
    TRY(list_tensors(&self->state, &self->tensors));
    const size_t size = (size_t)self->tensors.total + 1;
    self->begin = calloc(size, sizeof *self->begin);
    self->value = calloc(size, sizeof *self->value);
    self->moved = calloc(size, sizeof *self->moved);
    return self->begin == NULL || self->value == NULL || self->moved == NULL
               ? FAIL(TUFF_E_OOM_HOST, "random program: out of memory for a state")
               : TUFF_OK;
}

/* Repeats the last step with rounding, from the same state. */
static tuff_status run_on_grid(runner *self, int step, int grid, double scalars[STEP_SCALARS])
{
    reference_rounding roundings[PROGRAM_GRAPHS];
    TRY(program_write_state(&self->state, self->begin));
    for (int i = 0; i < PROGRAM_GRAPHS && self->plans.plans[i] != NULL; i++) {
        roundings[i] = (reference_rounding){.results = self->roundings[i].results,
                                            .operands = self->roundings[i].operands,
                                            .inner = self->roundings[i].inner,
                                            .stretch = program_rounding_stretch(grid)};
        tuff__reference_set_rounding(self->plans.plans[i], &roundings[i]);
    }
    tuff_status status = program_reference_step(&self->plans, step);
    for (int i = 0; i < PROGRAM_GRAPHS && self->plans.plans[i] != NULL; i++)
        tuff__reference_set_rounding(self->plans.plans[i], NULL);
    if (status == TUFF_OK)
        status = program_read_state(&self->state, self->moved, NULL);
    return status == TUFF_OK ? program_reference_read(&self->plans, scalars) : status;
}

/* A number may become NaN with rounding; then any value is allowed. */
static double distance(double moved, double value)
{
    const double apart = fabs(moved - value);
    return isnan(apart) && !isnan(value) ? INFINITY : apart;
}

/* Measures how far rounding moves tensors and scalars, then restores the state without rounding. */
static tuff_status try_grids(runner *self, int step, const double *scalars, double *noise, double *scalar_noise)
{
    for (int grid = 0; grid < PROGRAM_GRIDS; grid++) {
        double moved[STEP_SCALARS];
        TRY(run_on_grid(self, step, grid, moved));
        for (int i = 0; i < STEP_SCALARS; i++)
            scalar_noise[i] = fmax(scalar_noise[i], distance(moved[i], scalars[i]));
        for (int i = 0; i < self->tensors.count; i++) {
            const tensor_location *place = &self->tensors.tensors[i];
            for (int64_t at = place->offset; at < place->offset + place->count; at++)
                noise[i] = fmax(noise[i], distance(self->moved[at], self->value[at]));
        }
    }
    return program_write_state(&self->state, self->value);
}

static tuff_status run_step(runner *self, int step, double scalars[STEP_SCALARS])
{
    TRY(program_read_state(&self->state, self->begin, NULL));
    TRY(program_reference_step(&self->plans, step));
    TRY(program_read_state(&self->state, self->value, NULL));
    return program_reference_read(&self->plans, scalars);
}

static bool needs_noise(const program_recipe *recipe)
{
    return program_precision(recipe) != TUFF_PRECISION_F32 || program_choice(recipe, FIELD_OPTIMIZER) == OPTIMIZER_MUON;
}

static bool needs_gradients(const program_recipe *recipe)
{
    const int optimizer = program_choice(recipe, FIELD_OPTIMIZER);
    return optimizer == OPTIMIZER_ADAFACTOR || optimizer == OPTIMIZER_SMOOTH_ADAFACTOR;
}

/* The same training with Lion: its moment starts at 0, so after a step it is a fixed fraction of the gradient. */
static program_recipe make_lion_recipe(const program_recipe *recipe)
{
    program_recipe made = *recipe;
    made.choices[FIELD_OPTIMIZER] = OPTIMIZER_LION;
    return made;
}

static void copy_common(const runner *from, runner *to)
{
    for (int i = 0; i < to->tensors.count; i++) {
        const tensor_location *place = &to->tensors.tensors[i];
        for (int64_t at = 0; at < place->count; at++)
            to->value[place->offset + at] = 0;
        for (int k = 0; k < from->tensors.count; k++)
            if (from->tensors.tensors[k].kind == place->kind && strcmp(from->tensors.tensors[k].name, place->name) == 0)
                memcpy(&to->value[place->offset], &from->begin[from->tensors.tensors[k].offset],
                       (size_t)place->count * sizeof *to->value);
    }
}

/* Gets the gradients that the optimizer of `from` used in its last step. */
static tuff_status read_gradients(program_expectation *self, const runner *from, runner *lion, bool rounds, int step)
{
    step_values *values = &self->steps[step];
    double scalars[STEP_SCALARS], moved[STEP_SCALARS] = {0};
    double *noise = calloc((size_t)lion->tensors.count + 1, sizeof *noise);
    free(values->gradient);
    free(values->gradient_noise);
    values->gradient = calloc((size_t)lion->tensors.total + 1, sizeof *values->gradient);
    values->gradient_noise = calloc(PROGRAM_PARAMETERS, sizeof *values->gradient_noise);
    tuff_status status = noise == NULL || values->gradient == NULL || values->gradient_noise == NULL
                             ? FAIL(TUFF_E_OOM_HOST, "random program: out of memory for gradients")
                             : TUFF_OK;
    copy_common(from, lion);
    if (status == TUFF_OK)
        status = program_write_state(&lion->state, lion->value);
    if (status == TUFF_OK)
        status = run_step(lion, step, scalars);
    if (status == TUFF_OK && rounds)
        status = try_grids(lion, step, scalars, noise, moved);
    for (int i = 0; i < lion->tensors.count && status == TUFF_OK; i++) {
        const tensor_location *place = &lion->tensors.tensors[i];
        const double share = 1 - lion->state.optimizer->options.beta2;
        if (place->kind != STATE_FIRST)
            continue;
        values->gradient_noise[place->parameter] = noise[i] / share;
        for (int64_t at = 0; at < place->count; at++)
            values->gradient[self->gradient_offsets[place->parameter] + at] = lion->value[place->offset + at] / share;
    }
    free(noise);
    return status;
}

static double *copy_of(const double *values, int64_t count)
{
    double *made = calloc((size_t)count + 1, sizeof *made);
    if (made != NULL)
        memcpy(made, values, (size_t)count * sizeof *made);
    return made;
}

static tuff_status expect_step(program_expectation *self, runner *run, runner *lion, int step)
{
    step_values *values = &self->steps[step];
    TRY(run_step(run, step, values->scalars));
    values->begin = copy_of(run->begin, self->state.total);
    values->value = copy_of(run->value, self->state.total);
    values->noise = calloc((size_t)self->state.count + 1, sizeof *values->noise);
    if (values->begin == NULL || values->value == NULL || values->noise == NULL)
        return FAIL(TUFF_E_OOM_HOST, "random program: out of memory for a state");
    return lion != NULL ? read_gradients(self, run, lion, false, step) : TUFF_OK;
}

static int kind_of(const slab_range *range)
{
    int kind = -1;
    for (int i = 0; range != NULL && tuff__optimizer_rule(i) != NULL; i++)
        if (tuff__optimizer_rule(i) == range->rule)
            kind = i;
    return kind;
}

static tuff_status record_training(program_expectation *self, runner *run)
{
    const tuff_parameters *parameters = run->state.parameters;
    const tuff_optimizer *optimizer = run->state.optimizer;
    int64_t offset = 0;
    self->state = run->tensors;
    self->state.tensors = calloc((size_t)run->tensors.count + 1, sizeof *self->state.tensors);
    if (self->state.tensors == NULL)
        return FAIL(TUFF_E_OOM_HOST, "random program: out of memory for a list");
    memcpy(self->state.tensors, run->tensors.tensors, (size_t)run->tensors.count * sizeof *self->state.tensors);
    self->options = optimizer->options;
    self->options.groups = NULL;
    self->options.loss_scaling = NULL;
    self->parameter_count = parameters->count;
    for (int i = 0; i < parameters->count; i++) {
        const slab_range *range = tuff__find_slab_range(optimizer, &parameters->items[i]);
        self->rules[i] = kind_of(range);
        self->rate_factors[i] = optimizer->groups[parameters->items[i].group].rate_factor;
        if (range != NULL && range->rule != optimizer->rule)
            self->rate_factors[i] *= optimizer->options.elementwise_rate / optimizer->options.learning_rate;
        self->gradient_offsets[i] = offset;
        offset += parameters->items[i].count;
    }
    return TUFF_OK;
}

/* Creates the runners of a program. Call destroy_runner for both even after a failure. */
static tuff_status create_runners(const program_recipe *recipe, tuff_device *reference, runner *run, runner *lion)
{
    const program_recipe lion_recipe = make_lion_recipe(recipe);
    TRY(create_runner(run, recipe, reference));
    return needs_gradients(recipe) ? create_runner(lion, &lion_recipe, reference) : TUFF_OK;
}

static tuff_status add_noise(program_expectation *self, runner *run, runner *lion, int step)
{
    step_values *values = &self->steps[step];
    double scalars[STEP_SCALARS];
    TRY(program_write_state(&run->state, values->begin));
    TRY(run_step(run, step, scalars));
    TRY(try_grids(run, step, values->scalars, values->noise, values->scalar_noise));
    if (lion != NULL)
        TRY(read_gradients(self, run, lion, true, step));
    if (step == 0 || program_resets_each_step(&self->recipe))
        return TUFF_OK;
    /* The step begins with the errors of those before. */
    for (int i = 0; i < self->state.count; i++)
        values->noise[i] += self->steps[step - 1].noise[i];
    for (int i = 0; i < STEP_SCALARS; i++)
        values->scalar_noise[i] += self->steps[step - 1].scalar_noise[i];
    return TUFF_OK;
}

static tuff_status add_noise_up_to(program_expectation *self, runner *run, runner *lion, int step)
{
    for (; self->noise_count <= step; self->noise_count++)
        TRY(add_noise(self, run, needs_gradients(&self->recipe) ? lion : NULL, self->noise_count));
    return TUFF_OK;
}

tuff_status program_measure_noise(program_expectation *self, int step)
{
    runner run = {.begin = NULL}, lion = {.begin = NULL};
    if (self->noise_count > step)
        return TUFF_OK;
    tuff_status status = create_runners(&self->recipe, self->reference, &run, &lion);
    if (status == TUFF_OK)
        status = add_noise_up_to(self, &run, &lion, step);
    destroy_runner(&run);
    destroy_runner(&lion);
    return status;
}

static tuff_status expect_all(program_expectation *self, runner *run, runner *lion)
{
    TRY(create_runners(&self->recipe, self->reference, run, lion));
    TRY(record_training(self, run));
    self->step_count = (int)program_size(&self->recipe, FIELD_STEPS);
    for (int step = 0; step < self->step_count; step++)
        TRY(expect_step(self, run, needs_gradients(&self->recipe) ? lion : NULL, step));
    return needs_noise(&self->recipe) ? add_noise_up_to(self, run, lion, self->step_count - 1) : TUFF_OK;
}

tuff_status program_expect(const program_recipe *recipe, tuff_device *reference, program_expectation **out)
{
    runner run = {.begin = NULL}, lion = {.begin = NULL};
    *out = NULL;
    program_expectation *self = calloc(1, sizeof *self);
    if (self == NULL)
        return FAIL(TUFF_E_OOM_HOST, "random program: out of memory for expected values");
    self->recipe = *recipe;
    self->recipe.variant = (program_variant){.padding = 0};
    self->reference = reference;
    const tuff_status status = expect_all(self, &run, &lion);
    destroy_runner(&run);
    destroy_runner(&lion);
    if (status == TUFF_OK)
        *out = self;
    else
        program_expectation_free(self);
    return status;
}
