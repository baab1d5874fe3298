/* Golden cases of optimizers: tuff's optimizer gets the file's gradients through the loss sum(w · g), whose gradient is
   g. */
#include "golden_optimizers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "train/state.h"

typedef struct optimizer_case {
    golden_case *golden;
    tuff_optimizer_options options;
    tuff_parameters *parameters;
    tuff_optimizer *optimizer;
    tuff_plan *plan;
    int count;                       /* number of parameters */
    int gradient[GOLDEN_INPUTS_MAX]; /* per parameter: the index of the input that holds its gradients */
    int weight[GOLDEN_INPUTS_MAX];   /* the index of the input with its initial value; -1: zeros */
    int steps;
} optimizer_case;

static double hyper(const golden_case *c, const char *name)
{
    return json_number_value(json_object_get(json_object_get(c->attributes, "hyper"), name));
}

static bool has_hyper(const golden_case *c, const char *name)
{
    return json_object_get(json_object_get(c->attributes, "hyper"), name) != NULL;
}

/* Returns the rule for the numbers that the case gives. */
static tuff_optimizer_kind kind_of(const golden_case *c)
{
    if (has_hyper(c, "nesterov"))
        return TUFF_SGD;
    if (has_hyper(c, "clip_threshold"))
        return TUFF_ADAFACTOR;
    if (has_hyper(c, "momentum"))
        return TUFF_MUON;
    if (!has_hyper(c, "eps"))
        return TUFF_LION;
    const json_t *decoupled = json_object_get(json_object_get(c->attributes, "hyper"), "decoupled");
    return decoupled && !json_is_true(decoupled) ? TUFF_ADAM : TUFF_ADAMW;
}

static tuff_optimizer_options read_rule(const golden_case *c)
{
    return (tuff_optimizer_options){
        .kind = kind_of(c),
        .learning_rate = hyper(c, "lr"),
        .decay_all = true,
        .weight_decay = hyper(c, "weight_decay"),
        .momentum = hyper(c, "momentum"),
        .nesterov = json_is_true(json_object_get(json_object_get(c->attributes, "hyper"), "nesterov")),
        .beta1 = hyper(c, "beta1"),
        .beta2 = hyper(c, "beta2"),
        .epsilon = has_hyper(c, "eps1") ? hyper(c, "eps1") : hyper(c, "eps"),
    };
}

static int input_index(const golden_case *c, const char *name)
{
    for (int i = 0; i < c->input_count; i++)
        if (strcmp(c->inputs[i].name, name) == 0)
            return i;
    return -1;
}

static bool make_parameters(optimizer_case *self, tuff_parameter_spec *specs)
{
    self->parameters = tuff_parameters_create(self->golden->run->device, specs, self->count);
    self->optimizer = self->parameters ? tuff_optimizer_create(self->parameters, &self->options) : NULL;
    for (int i = 0; self->optimizer && i < self->count; i++) {
        if (self->weight[i] < 0)
            continue;
        const tuff_file_tensor *first = &self->golden->inputs[self->weight[i]].wanted;
        tuff_array *array = tuff_parameters_at(self->parameters, i, NULL);
        if (tuff_array_write(array, first->data, (size_t)first->size) != TUFF_OK)
            return false;
    }
    return self->optimizer != NULL;
}

/* The inputs of the case's graph hold all steps; this graph takes the gradients of a single one. */
static bool make_plan(optimizer_case *self, const tuff_parameter_spec *specs)
{
    tuff_graph *graph = tuff_graph_create(self->golden->run->device);
    tuff_tensor *loss = tuff_constant(graph, TUFF_F32, 0);
    tuff_optimizer_tensors made;
    for (int i = 0; i < self->count; i++) {
        int axes[TUFF_MAX_RANK];
        for (int axis = 0; axis < TUFF_MAX_RANK; axis++)
            axes[axis] = axis;
        tuff_tensor *weight = tuff_array_tensor(graph, tuff_parameters_at(self->parameters, i, NULL));
        tuff_tensor *gradient = tuff_input(graph, specs[i].name, TUFF_F32, specs[i].shape);
        loss = tuff_add(loss, tuff_sum(tuff_mul(weight, gradient), axes, specs[i].shape.rank, false));
    }
    if (tuff_optimizer_apply(self->optimizer, loss, &made) == TUFF_OK) {
        tuff_output(graph, "norm", made.gradient_norm);
        self->plan = tuff_compile(graph, &self->golden->run->compile);
    }
    tuff_graph_destroy(graph);
    return self->plan != NULL;
}

static bool run_step(optimizer_case *self, const tuff_parameter_spec *specs, int step)
{
    for (int i = 0; i < self->count; i++) {
        const tuff_file_tensor *all = &self->golden->inputs[self->gradient[i]].wanted;
        const size_t size = (size_t)tuff_shape_count(specs[i].shape) * sizeof(float);
        const char *from = (const char *)all->data + (size_t)step * size;
        if (tuff_plan_write(self->plan, specs[i].name, from, size) != TUFF_OK)
            return false;
    }
    return tuff_plan_run(self->plan) == TUFF_OK;
}

/* Compares floats, multiplied by sign, with a part of the file's tensor. */
static void compare_floats(optimizer_case *self, const float *raw, int64_t count, const char *quantity, int part,
                           int parts, double sign)
{
    double *got = tuff__calloc((size_t)count, sizeof *got);
    tuff_file_tensor wanted;
    const bool good = raw && got && golden_find(self->golden->run->file, self->golden->prefix, quantity, &wanted) &&
                      golden_count(&wanted) == parts * count;
    if (good) {
        for (int64_t i = 0; i < count; i++)
            got[i] = sign * (double)raw[i];
        wanted.data = (const char *)wanted.data + (size_t)(part * count) * tuff_dtype_size(wanted.dtype);
        wanted.shape = TUFF_SHAPE(count);
        golden_row(self->golden->run, self->golden->name, quantity, golden_excess(self->golden, quantity, &wanted, got),
                   1);
    } else {
        golden_broken(self->golden->run, self->golden->name);
    }
    tuff__free(got);
}

static void compare(optimizer_case *self, tuff_array *array, const char *quantity, int part, int parts, double sign)
{
    const int64_t count = tuff_shape_count(tuff_array_shape(array));
    float *raw = tuff__calloc((size_t)count, sizeof *raw);
    if (raw && tuff_array_read(array, raw, (size_t)count * sizeof *raw) == TUFF_OK)
        compare_floats(self, raw, count, quantity, part, parts, sign);
    else
        golden_broken(self->golden->run, self->golden->name);
    tuff__free(raw);
}

static void compare_weights(optimizer_case *self, const tuff_parameter_spec *specs, int step)
{
    char quantity[80];
    for (int i = 0; i < self->count; i++) {
        snprintf(quantity, sizeof quantity, "out.%s", specs[i].name);
        compare(self, tuff_parameters_at(self->parameters, i, NULL), quantity, step, self->steps, 1);
    }
}

/* Compares a tensor of the optimizer's state: "out.NAME.m" in the file is "optimizer.m.NAME" in the state. */
static void compare_state(optimizer_case *self, const char *name, const char *kind)
{
    char quantity[80], wanted[160];
    state_list list;
    snprintf(quantity, sizeof quantity, "out.%s.%s", name, kind);
    snprintf(wanted, sizeof wanted, "optimizer.%s.%s", kind, name);
    bool found = tuff__list_state(self->parameters, self->optimizer, &list) == TUFF_OK;
    found = found && tuff__state_read(&list) == TUFF_OK;
    const state_tensor *tensor = NULL;
    for (int i = 0; found && i < list.tensor_count; i++)
        if (strcmp(list.tensors[i].name, wanted) == 0)
            tensor = &list.tensors[i];
    if (tensor)
        compare_floats(self, tensor->data, tuff_shape_count(tensor->shape), quantity, 0, 1, 1);
    else
        golden_broken(self->golden->run, self->golden->name);
    tuff__state_free(&list);
}

static void compare_states(optimizer_case *self, const tuff_parameter_spec *specs)
{
    static const char *const kinds[] = {"m", "v", "row", "column"};
    for (int i = 0; i < self->count; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            char quantity[80];
            tuff_file_tensor wanted;
            snprintf(quantity, sizeof quantity, "out.%s.%s", specs[i].name, kinds[k]);
            if (golden_find(self->golden->run->file, self->golden->prefix, quantity, &wanted))
                compare_state(self, specs[i].name, kinds[k]);
        }
}

static void run_rule(optimizer_case *self)
{
    tuff_parameter_spec specs[GOLDEN_INPUTS_MAX];
    const golden_case *c = self->golden;
    for (int i = 0; i < c->input_count; i++) {
        char gradient[80];
        snprintf(gradient, sizeof gradient, "grad_%s", c->inputs[i].name);
        self->gradient[self->count] = input_index(c, gradient);
        self->weight[self->count] = i;
        if (self->gradient[self->count] < 0)
            continue;
        specs[self->count++] = (tuff_parameter_spec){.name = c->inputs[i].name, .shape = c->inputs[i].wanted.shape};
    }
    self->steps = (int)golden_whole(c, "steps", 1);
    bool good = make_parameters(self, specs) && make_plan(self, specs);
    for (int step = 0; good && step < self->steps; step++) {
        good = run_step(self, specs, step);
        if (good)
            compare_weights(self, specs, step);
    }
    if (good)
        compare_states(self, specs);
    else
        golden_broken(c->run, c->name);
}

/* With a rate of 1, no momentum and weights of 0, a step of SGD leaves the negated clipped gradients. */
static void run_clipping(optimizer_case *self)
{
    tuff_parameter_spec specs[GOLDEN_INPUTS_MAX];
    const golden_case *c = self->golden;
    float norm = 0;
    tuff_file_tensor wanted;
    for (self->count = 0; self->count < c->input_count; self->count++) {
        const int i = self->count;
        specs[i] = (tuff_parameter_spec){.name = c->inputs[i].name, .shape = c->inputs[i].wanted.shape};
        self->gradient[i] = i;
        self->weight[i] = -1;
    }
    self->steps = 1;
    if (!make_parameters(self, specs) || !make_plan(self, specs) || !run_step(self, specs, 0) ||
        tuff_plan_read(self->plan, "norm", &norm, sizeof norm) != TUFF_OK ||
        !golden_find(c->run->file, c->prefix, "out.norm", &wanted)) {
        golden_broken(c->run, c->name);
        return;
    }
    const double got = (double)norm;
    golden_row(c->run, c->name, "out.norm", golden_excess(c, "out.norm", &wanted, &got), 1);
    for (int i = 0; i < self->count; i++) {
        char quantity[80];
        snprintf(quantity, sizeof quantity, "out.%s", specs[i].name);
        compare(self, tuff_parameters_at(self->parameters, i, NULL), quantity, 0, 1, -1);
    }
}

/* Compares the scale, and the count if the file has it, before step `at`. */
static bool compare_scale(optimizer_case *self, int at)
{
    tuff_file_tensor scales, counts;
    float scale;
    int32_t got[3];
    if (!golden_find(self->golden->run->file, self->golden->prefix, "out.scale", &scales) ||
        tuff_array_read(self->optimizer->scale, &scale, sizeof scale) != TUFF_OK ||
        tuff_array_read(self->optimizer->scale_counts, got, sizeof got) != TUFF_OK)
        return false;
    golden_row(self->golden->run, self->golden->name, "out.scale", fabs((double)scale - golden_element(&scales, at)),
               0);
    if (golden_find(self->golden->run->file, self->golden->prefix, "out.count", &counts))
        golden_row(self->golden->run, self->golden->name, "out.count", fabs(got[0] - golden_element(&counts, at)), 0);
    return true;
}

/* Uses the flags as gradients of the only parameter: infinity for a flag that is set. */
static bool run_found(optimizer_case *self, tuff_parameter_spec *spec)
{
    tuff_file_tensor flags;
    *spec = (tuff_parameter_spec){.name = "w", .shape = TUFF_SHAPE(3)};
    self->count = 1;
    self->weight[0] = -1;
    if (!golden_find(self->golden->run->file, self->golden->prefix, "in.found_inf", &flags) ||
        !make_parameters(self, spec) || !make_plan(self, spec))
        return false;
    self->steps = (int)golden_count(&flags);
    bool good = true;
    for (int step = 0; good && step < self->steps; step++) {
        const bool found = golden_element(&flags, step) != 0;
        const float gradient[3] = {1, found && step % 2 == 0 ? -INFINITY : 2, found && step % 2 == 1 ? NAN : 3};
        good = compare_scale(self, step) && tuff_plan_write(self->plan, "w", gradient, sizeof gradient) == TUFF_OK &&
               tuff_plan_run(self->plan) == TUFF_OK;
    }
    return good && compare_scale(self, self->steps);
}

/* The file's gradients are scaled already, but those of the loss are not: dividing them by the scale here is exact,
   because it is a power of two. */
static bool run_scaled(optimizer_case *self, tuff_parameter_spec *spec)
{
    const golden_case *c = self->golden;
    tuff_file_tensor scales;
    self->weight[0] = input_index(c, "w");
    self->gradient[0] = input_index(c, "grad_w");
    self->count = 1;
    if (self->weight[0] < 0 || self->gradient[0] < 0 || !golden_find(c->run->file, c->prefix, "out.scale", &scales))
        return false;
    *spec = (tuff_parameter_spec){.name = "w", .shape = c->inputs[self->weight[0]].wanted.shape};
    const tuff_file_tensor *all = &c->inputs[self->gradient[0]].wanted;
    self->steps = (int)all->shape.extent[0];
    bool good = make_parameters(self, spec) && make_plan(self, spec);
    for (int step = 0; good && step < self->steps; step++) {
        float gradient[64];
        const int64_t count = tuff_shape_count(spec->shape);
        for (int64_t i = 0; i < count; i++)
            gradient[i] = (float)(golden_element(all, step * count + i) / golden_element(&scales, step));
        good = compare_scale(self, step) &&
               tuff_plan_write(self->plan, "w", gradient, (size_t)count * sizeof *gradient) == TUFF_OK &&
               tuff_plan_run(self->plan) == TUFF_OK;
        compare_weights(self, spec, step);
    }
    return good && compare_scale(self, self->steps);
}

static void run_loss_scale(optimizer_case *self, const char *op)
{
    const golden_case *c = self->golden;
    const tuff_loss_scaling scaling = {.initial = golden_real(c, "init", 0),
                                       .growth = golden_real(c, "growth", 0),
                                       .backoff = golden_real(c, "backoff", 0),
                                       .interval = golden_whole(c, "interval", 0),
                                       .low = golden_real(c, "low", 0x1p-100),
                                       .high = golden_real(c, "high", 0x1p100)};
    tuff_parameter_spec spec;
    self->options = read_rule(c);
    self->options.loss_scaling = &scaling;
    if (!(strcmp(op, "loss_scale") == 0 ? run_found(self, &spec) : run_scaled(self, &spec)))
        golden_broken(c->run, c->name);
}

bool golden_optimizer(golden_case *golden)
{
    optimizer_case self = {.golden = golden};
    const char *op = golden_text(golden, "op");
    if (strcmp(op, "clip_global_norm") == 0) {
        self.options = (tuff_optimizer_options){
            .kind = TUFF_SGD, .learning_rate = 1, .clip_norm = golden_real(golden, "max_norm", 1)};
        run_clipping(&self);
    } else if (strncmp(op, "loss_scale", 10) == 0) {
        run_loss_scale(&self, op);
    } else if (strcmp(op, "optimizer") == 0) {
        self.options = read_rule(golden);
        run_rule(&self);
    } else {
        return false;
    }
    tuff_plan_destroy(self.plan);
    tuff_optimizer_destroy(self.optimizer);
    tuff_parameters_destroy(self.parameters);
    return true;
}
