/* Golden cases of optimizers: the file's gradients reach tuff's optimizer as those of the loss sum(w · g), which is
   what makes any gradient out of a loss. */
#include "golden_optimizers.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "train/train.h"

typedef struct optimizer_case {
    golden_case *golden;
    tuff_optimizer_options options;
    tuff_parameters *parameters;
    tuff_optimizer *optimizer;
    tuff_plan *plan;
    int count;                       /* parameters */
    int gradient[GOLDEN_INPUTS_MAX]; /* of each parameter: the index of the input that holds its gradients */
    int weight[GOLDEN_INPUTS_MAX];   /* the index of the input with its first value, -1: zeros */
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

/* False where tuff has no such rule: Adam with L2, Lion, Adafactor, Muon. */
static bool read_rule(const golden_case *c, tuff_optimizer_options *out)
{
    *out = (tuff_optimizer_options){.learning_rate = hyper(c, "lr"), .decay_all = true};
    out->weight_decay = hyper(c, "weight_decay");
    if (has_hyper(c, "nesterov")) {
        out->kind = TUFF_SGD;
        out->momentum = hyper(c, "momentum");
        out->nesterov = json_is_true(json_object_get(json_object_get(c->attributes, "hyper"), "nesterov"));
        return true;
    }
    out->beta1 = hyper(c, "beta1");
    out->beta2 = hyper(c, "beta2");
    out->epsilon = hyper(c, "eps");
    const bool decoupled = json_is_true(json_object_get(json_object_get(c->attributes, "hyper"), "decoupled"));
    return has_hyper(c, "beta1") && has_hyper(c, "eps") && (decoupled || out->weight_decay == 0);
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

/* The inputs of the case's graph hold all steps; this graph takes the gradients of one. */
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

/* Compares the elements of an array, times sign, with a part of the file's tensor. */
static void compare(optimizer_case *self, tuff_array *array, const char *quantity, int part, int parts, double sign)
{
    const int64_t count = tuff_shape_count(tuff_array_shape(array));
    float *raw = tuff__calloc((size_t)count, sizeof *raw);
    double *got = tuff__calloc((size_t)count, sizeof *got);
    tuff_file_tensor wanted;
    const bool good = raw && got && golden_find(self->golden->run->file, self->golden->prefix, quantity, &wanted) &&
                      golden_count(&wanted) == parts * count &&
                      tuff_array_read(array, raw, (size_t)count * sizeof *raw) == TUFF_OK;
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
    tuff__free(raw);
    tuff__free(got);
}

static void compare_weights(optimizer_case *self, const tuff_parameter_spec *specs, int step)
{
    char quantity[80];
    for (int i = 0; i < self->count; i++) {
        snprintf(quantity, sizeof quantity, "out.%s", specs[i].name);
        compare(self, tuff_parameters_at(self->parameters, i, NULL), quantity, step, self->steps, 1);
    }
}

static void compare_moments(optimizer_case *self, const tuff_parameter_spec *specs)
{
    char quantity[80];
    for (int moment = 0; moment < MOMENTS_MAX && self->optimizer->moments[moment]; moment++)
        for (int i = 0; i < self->count; i++) {
            tuff_array *view =
                tuff_array_view(self->optimizer->moments[moment], self->parameters->items[i].offset, specs[i].shape);
            snprintf(quantity, sizeof quantity, "out.%s.%s", specs[i].name, self->optimizer->rule->moments[moment]);
            if (view)
                compare(self, view, quantity, 0, 1, 1);
            else
                golden_broken(self->golden->run, self->golden->name);
            tuff_array_destroy(view);
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
        compare_moments(self, specs);
    else
        golden_broken(c->run, c->name);
}

/* With a rate of 1, no momentum and weights of 0, a step of SGD leaves the clipped gradients, negated. */
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

bool golden_optimizer(golden_case *one)
{
    optimizer_case self = {.golden = one};
    if (strcmp(golden_text(one, "op"), "clip_global_norm") == 0) {
        self.options = (tuff_optimizer_options){
            .kind = TUFF_SGD, .learning_rate = 1, .clip_norm = golden_real(one, "max_norm", 1)};
        run_clipping(&self);
    } else if (read_rule(one, &self.options)) {
        run_rule(&self);
    } else {
        return false;
    }
    tuff_plan_destroy(self.plan);
    tuff_optimizer_destroy(self.optimizer);
    tuff_parameters_destroy(self.parameters);
    return true;
}
