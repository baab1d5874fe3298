/* Golden training runs: a GPT and a Llama are built from the file's configuration and weights and trained on its
   batches. Logits, gradients, losses and weights are compared with the file's, within the tolerances of its
   description. */
#include "golden_training.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/model/graphs.h"

#define BAR_LOSS 1e-5
#define BAR_NORM 2e-5
#define BAR_LOGITS 2e-6
#define BAR_GRADIENT 1e-5
#define BAR_WEIGHTS 1e-5
#define BAR_WEIGHTS_LATE 2e-5
#define BAR_KEY_BIAS 1e-3
#define BAR_RATE 1e-6

typedef struct trial {
    golden_run *run;
    const char *prefix; /* of the file's keys: "" or "llama." */
    const char *name;
    model_config config;
    int64_t batch, steps;
    language_model model;
    tuff_optimizer *optimizer;
} trial;

static int64_t number_of(const json_t *object, const char *name, int64_t standard)
{
    const json_t *value = json_object_get(object, name);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : standard;
}

static bool read_config(trial *self)
{
    char key[32];
    snprintf(key, sizeof key, "%sconfig", self->prefix);
    const char *text = tuff_file_metadata(self->run->file, key);
    json_t *object = text ? json_loads(text, 0, NULL) : NULL;
    if (!object)
        return false;
    const bool llama = json_object_get(object, "KV") != NULL;
    self->name = llama ? "llama" : "gpt";
    self->config = (model_config){.form = llama ? MODEL_LLAMA : MODEL_GPT,
                                  .layers = number_of(object, "L", 0),
                                  .heads = number_of(object, "H", 0),
                                  .width = number_of(object, "C", 0),
                                  .context = number_of(object, "T", 0),
                                  .vocabulary = number_of(object, "V", 0),
                                  .key_value_heads = number_of(object, "KV", 0),
                                  .hidden = number_of(object, "F", 0)};
    self->batch = number_of(object, "B", 0);
    self->steps = number_of(object, "steps", 0);
    json_decref(object);
    return self->batch > 0 && self->steps > 0 && model_check(&self->config) == TUFF_OK;
}

/* Derives the schedule from the file's rates: warm-up ends at the first maximum, and the last rate gives the fraction
   to which the cosine decays. */
static bool read_schedule(const trial *self, tuff_optimizer_options *out)
{
    tuff_file_tensor rates;
    if (!golden_find(self->run->file, "", "lr", &rates) || golden_count(&rates) != self->steps)
        return false;
    double highest = 0;
    int64_t warmup = 0;
    for (int64_t s = 0; s < self->steps; s++)
        if (golden_element(&rates, s) > highest) {
            highest = golden_element(&rates, s);
            warmup = s + 1;
        }
    const double part = (double)(self->steps - 1 - warmup) / (double)(self->steps - warmup);
    const double cosine = 0.5 * (1 + cos(3.141592653589793 * part));
    out->learning_rate = highest;
    out->warmup_steps = warmup;
    out->total_steps = self->steps;
    out->final_fraction = (golden_element(&rates, self->steps - 1) / highest - cosine) / (1 - cosine);
    return true;
}

static double real_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static bool read_optimizer(const trial *self, tuff_optimizer_options *out)
{
    const char *text = tuff_file_metadata(self->run->file, "optimizer");
    json_t *object = text ? json_loads(text, 0, NULL) : NULL;
    if (!object)
        return false;
    *out = (tuff_optimizer_options){.kind = TUFF_ADAMW,
                                    .beta1 = real_of(object, "beta1"),
                                    .beta2 = real_of(object, "beta2"),
                                    .epsilon = real_of(object, "eps"),
                                    .weight_decay = real_of(object, "weight_decay"),
                                    .clip_norm = 1};
    json_decref(object);
    return read_schedule(self, out);
}

static bool write_weights(trial *self)
{
    char key[32];
    snprintf(key, sizeof key, "%sparam.", self->prefix);
    for (int i = 0; i < tuff_parameters_count(self->model.parameters); i++) {
        const char *name;
        tuff_array *array = tuff_parameters_at(self->model.parameters, i, &name);
        tuff_file_tensor tensor;
        if (!golden_find(self->run->file, key, name, &tensor) ||
            !tuff_shape_equal(tensor.shape, tuff_array_shape(array)) ||
            tuff_array_write(array, tensor.data, (size_t)tensor.size) != TUFF_OK)
            return false;
    }
    return true;
}

/* Returns the largest |got - wanted| of elements first to last. */
static double distance(const float *got, const tuff_file_tensor *wanted, int64_t first, int64_t last)
{
    double worst = 0;
    for (int64_t i = first; i < last; i++)
        worst = golden_worse(worst, fabs((double)got[i] - golden_element(wanted, i)));
    return worst;
}

static double largest(const tuff_file_tensor *tensor)
{
    double most = 0;
    for (int64_t i = 0; i < golden_count(tensor); i++)
        most = fmax(most, fabs(golden_element(tensor, i)));
    return most;
}

static tuff_graph *forward_graph(trial *self)
{
    const int count = tuff_parameters_count(self->model.parameters);
    tuff_graph *graph = tuff_graph_create(self->run->device);
    tuff_tensor **tensors = tuff__calloc(2 * (size_t)count, sizeof *tensors), *logits;
    if (!graph || !tensors)
        return graph;
    const tuff_shape shape = TUFF_SHAPE(self->batch, self->config.context + 1);
    tuff_tensor *loss = model_loss(&self->model, graph, tuff_input(graph, "windows", TUFF_I32, shape), &logits);
    tuff_output(graph, "logits", logits);
    for (int i = 0; i < count; i++)
        tensors[i] = tuff_array_tensor(graph, tuff_parameters_at(self->model.parameters, i, NULL));
    tuff_gradients(loss, tensors, count, tensors + count);
    for (int i = 0; i < count; i++) {
        const char *name;
        tuff_parameters_at(self->model.parameters, i, &name);
        tuff_output(graph, name, tensors[count + i]);
    }
    tuff__free(tensors);
    return graph;
}

/* Reads an output and returns its distance from the file's tensor; NaN on failure. */
static double output_distance(tuff_plan *plan, const char *output, const tuff_file_tensor *wanted)
{
    const int64_t count = golden_count(wanted);
    float *got = tuff__calloc((size_t)count, sizeof *got);
    double worst = NAN;
    if (got && tuff_plan_read(plan, output, got, (size_t)count * sizeof *got) == TUFF_OK)
        worst = distance(got, wanted, 0, count);
    tuff__free(got);
    return worst;
}

static const int32_t *windows_of(const trial *self, int64_t step, size_t *size)
{
    tuff_file_tensor tokens;
    const int64_t count = self->batch * (self->config.context + 1);
    if (!golden_find(self->run->file, "", "input.tokens", &tokens) || golden_count(&tokens) < (step + 1) * count)
        return NULL;
    *size = (size_t)count * sizeof(int32_t);
    return (const int32_t *)tokens.data + step * count;
}

static void compare_gradients(trial *self, tuff_plan *plan)
{
    char prefix[32];
    double worst = 0;
    tuff_file_tensor wanted;
    snprintf(prefix, sizeof prefix, "%slogits0", self->prefix);
    golden_row(self->run, self->name, "logits0",
               golden_find(self->run->file, prefix, "", &wanted) ? output_distance(plan, "logits", &wanted) : NAN,
               BAR_LOGITS);
    snprintf(prefix, sizeof prefix, "%sgrad0.", self->prefix);
    for (int i = 0; i < tuff_parameters_count(self->model.parameters); i++) {
        const char *name;
        tuff_parameters_at(self->model.parameters, i, &name);
        const bool found = golden_find(self->run->file, prefix, name, &wanted);
        worst = golden_worse(worst, found ? output_distance(plan, name, &wanted) / largest(&wanted) : NAN);
    }
    golden_row(self->run, self->name, "grad0", worst, BAR_GRADIENT);
}

static bool run_forward(trial *self)
{
    size_t size = 0;
    const int32_t *windows = windows_of(self, 0, &size);
    tuff_graph *graph = forward_graph(self);
    tuff_plan *plan = graph ? tuff_compile(graph, &self->run->compile) : NULL;
    const bool good =
        plan && windows && tuff_plan_write(plan, "windows", windows, size) == TUFF_OK && tuff_plan_run(plan) == TUFF_OK;
    if (good)
        compare_gradients(self, plan);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    return good;
}

/* Compares the weights after `step` updates, if the file has them. The key part of qkv's bias has no gradient but
   rounding noise, which AdamW may amplify: it has a tolerance of its own. */
static void compare_weights(trial *self, int64_t step)
{
    char prefix[48], quantity[64];
    double worst = 0, worst_key = 0;
    tuff_file_tensor wanted;
    snprintf(prefix, sizeof prefix, "%sstep%lld.", self->prefix, (long long)step);
    if (!golden_find(self->run->file, prefix, "wte", &wanted))
        return;
    for (int i = 0; i < tuff_parameters_count(self->model.parameters); i++) {
        const char *name;
        tuff_array *array = tuff_parameters_at(self->model.parameters, i, &name);
        const int64_t count = tuff_shape_count(tuff_array_shape(array)), width = self->config.width;
        float *got = tuff__calloc((size_t)count, sizeof *got);
        const bool read = got && golden_find(self->run->file, prefix, name, &wanted) &&
                          tuff_array_read(array, got, (size_t)count * sizeof *got) == TUFF_OK;
        const bool has_keys = strstr(name, "attn.qkv.bias") != NULL;
        const double first = !read ? NAN : distance(got, &wanted, 0, has_keys ? width : count);
        const double rest = read && has_keys ? distance(got, &wanted, 2 * width, count) : 0;
        const double key = read && has_keys ? distance(got, &wanted, width, 2 * width) : 0;
        worst = golden_worse(worst, first);
        worst = golden_worse(worst, rest);
        worst_key = golden_worse(worst_key, key);
        tuff__free(got);
    }
    snprintf(quantity, sizeof quantity, "weights after %lld", (long long)step);
    golden_row(self->run, self->name, quantity, worst, step > 10 ? BAR_WEIGHTS_LATE : BAR_WEIGHTS);
    if (self->config.form == MODEL_GPT) {
        snprintf(quantity, sizeof quantity, "key bias after %lld", (long long)step);
        golden_row(self->run, self->name, quantity, worst_key, BAR_KEY_BIAS);
    }
}

typedef struct worst_report {
    double loss, norm, rate;
} worst_report;

static void raise(double *worst, float got, double wanted)
{
    *worst = golden_worse(*worst, fabs((double)got - wanted) / fabs(wanted));
}

static bool run_step(trial *self, tuff_plan *plan, int64_t step, worst_report *worst)
{
    float report[3];
    size_t size = 0;
    tuff_file_tensor losses, norms, rates;
    const int32_t *windows = windows_of(self, step, &size);
    if (!windows || tuff_plan_write(plan, "windows", windows, size) != TUFF_OK || tuff_plan_run(plan) != TUFF_OK ||
        tuff_plan_read(plan, "report", report, sizeof report) != TUFF_OK ||
        !golden_find(self->run->file, self->prefix, "losses", &losses) ||
        !golden_find(self->run->file, self->prefix, "grad_norms", &norms) ||
        !golden_find(self->run->file, "", "lr", &rates))
        return false;
    raise(&worst->loss, report[0], golden_element(&losses, step));
    raise(&worst->norm, report[1], golden_element(&norms, step));
    raise(&worst->rate, report[2], golden_element(&rates, step));
    compare_weights(self, step + 1);
    return true;
}

static bool run_training(trial *self)
{
    worst_report worst = {0};
    tuff_graph *graph = train_graph(self->run->device, &self->model, self->optimizer, self->batch);
    tuff_plan *plan = graph ? tuff_compile(graph, &self->run->compile) : NULL;
    bool good = plan != NULL;
    for (int64_t step = 0; good && step < self->steps; step++)
        good = run_step(self, plan, step, &worst);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    if (good) {
        golden_row(self->run, self->name, "losses, relative", worst.loss, BAR_LOSS);
        golden_row(self->run, self->name, "gradient norms, relative", worst.norm, BAR_NORM);
        golden_row(self->run, self->name, "learning rates, relative", worst.rate, BAR_RATE);
    }
    return good;
}

static bool prepare(trial *self)
{
    tuff_optimizer_options options;
    if (!read_optimizer(self, &options) || model_create(self->run->device, &self->config, &self->model) != TUFF_OK)
        return false;
    self->optimizer = tuff_optimizer_create(self->model.parameters, &options);
    return self->optimizer && write_weights(self);
}

static void run_trial(golden_run *run, const char *prefix)
{
    trial self = {.run = run, .prefix = prefix, .name = "training"};
    if (!read_config(&self) || !prepare(&self) || !run_forward(&self) || !run_training(&self))
        golden_broken(run, self.name);
    tuff_optimizer_destroy(self.optimizer);
    model_destroy(&self.model);
}

bool golden_training(golden_run *run)
{
    const char *const prefixes[] = {"", "llama."};
    bool any = false;
    tuff_file_tensor tensor;
    for (int i = 0; i < 2; i++)
        if (golden_find(run->file, prefixes[i], "losses", &tensor) &&
            golden_find(run->file, "", "input.tokens", &tensor)) {
            any = true;
            run_trial(run, prefixes[i]);
        }
    return any;
}
