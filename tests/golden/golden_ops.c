/* Golden cases of single ops: each is built from the file's inputs and attributes, and its result and gradients are
   compared with the file's, element by element, within the file's tolerances. */
#include "golden_ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/ops.h"

tuff_tensor *golden_input(const golden_case *self, const char *name)
{
    for (int i = 0; i < self->input_count; i++)
        if (strcmp(self->inputs[i].name, name) == 0)
            return self->inputs[i].tensor;
    return NULL;
}

int64_t golden_whole(const golden_case *self, const char *name, int64_t absent)
{
    const json_t *value = json_object_get(self->attributes, name);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : absent;
}

double golden_real(const golden_case *self, const char *name, double absent)
{
    const json_t *value = json_object_get(self->attributes, name);
    return json_is_number(value) ? json_number_value(value) : absent;
}

bool golden_flag(const golden_case *self, const char *name)
{
    return json_is_true(json_object_get(self->attributes, name));
}

const char *golden_text(const golden_case *self, const char *name)
{
    const char *text = json_string_value(json_object_get(self->attributes, name));
    return text ? text : "";
}

int golden_list(const golden_case *self, const char *name, int64_t *out)
{
    const json_t *list = json_object_get(self->attributes, name);
    const size_t count = json_array_size(list) < TUFF_MAX_RANK ? json_array_size(list) : TUFF_MAX_RANK;
    for (size_t i = 0; i < count; i++)
        out[i] = (int64_t)json_integer_value(json_array_get(list, i));
    return (int)count;
}

static double relative_excess(double got, double wanted, double tolerance, double scale)
{
    if (isnan(got) || isnan(wanted))
        return NAN;
    if (got == wanted)
        return 0;
    const double allowed = isfinite(got) && isfinite(wanted) ? tolerance * (fabs(wanted) + scale) : 0;
    return allowed > 0 ? fabs(got - wanted) / allowed : INFINITY;
}

double golden_excess(const golden_case *self, const char *quantity, const tuff_file_tensor *wanted, const double *got)
{
    const json_t *bar = json_object_get(json_object_get(self->attributes, "bars"), quantity);
    const double tolerance = json_number_value(json_object_get(bar, "tolerance"));
    const double scale = json_number_value(json_object_get(bar, "scale"));
    double worst = 0;
    for (int64_t i = 0; i < golden_count(wanted); i++)
        worst = golden_worse(worst, relative_excess(got[i], golden_element(wanted, i), tolerance, scale));
    return worst;
}

/* The file has conditions as u8; tuff_where takes bool. */
static bool add_input(golden_case *self, const tuff_file_tensor *tensor)
{
    const char *name = tensor->name + strlen(self->prefix) + 3;
    if (self->input_count == GOLDEN_INPUTS_MAX)
        return false;
    const int i = self->input_count++;
    snprintf(self->inputs[i].name, sizeof self->inputs[i].name, "%s", name);
    self->inputs[i].wanted = *tensor;
    self->inputs[i].raw = tuff_input(self->graph, self->inputs[i].name, tensor->dtype, tensor->shape);
    self->inputs[i].tensor = tensor->dtype == TUFF_U8 ? tuff_cast(self->inputs[i].raw, TUFF_BOOL) : self->inputs[i].raw;
    return true;
}

static bool add_inputs(golden_case *self)
{
    char start[160];
    snprintf(start, sizeof start, "%sin.", self->prefix);
    for (int i = 0; i < tuff_file_count(self->run->file); i++) {
        tuff_file_tensor tensor;
        if (tuff_file_tensor_at(self->run->file, i, &tensor) != TUFF_OK)
            return false;
        if (strncmp(tensor.name, start, strlen(start)) == 0 && !add_input(self, &tensor))
            return false;
    }
    return true;
}

/* Adds an output grad.NAME for every input whose gradient the file has. */
static void add_gradients(golden_case *self, tuff_tensor *result)
{
    tuff_tensor *wrt[GOLDEN_INPUTS_MAX], *gradients[GOLDEN_INPUTS_MAX];
    char names[GOLDEN_INPUTS_MAX][80];
    int count = 0, axes[TUFF_MAX_RANK];
    tuff_file_tensor upstream, tensor;
    if (!golden_find(self->run->file, self->prefix, "g", &upstream))
        return;
    for (int i = 0; i < self->input_count; i++) {
        snprintf(names[count], sizeof names[count], "grad.%s", self->inputs[i].name);
        if (golden_find(self->run->file, self->prefix, names[count], &tensor))
            wrt[count++] = self->inputs[i].raw;
    }
    for (int i = 0; i < TUFF_MAX_RANK; i++)
        axes[i] = i;
    tuff_tensor *weighted = tuff_mul(result, tuff_input(self->graph, "g", TUFF_F32, upstream.shape));
    tuff_tensor *target = tuff_sum(weighted, axes, tuff_tensor_shape(weighted).rank, false);
    if (tuff_gradients(target, wrt, count, gradients) != TUFF_OK)
        return;
    for (int i = 0; i < count; i++)
        tuff_output(self->graph, names[i], gradients[i]);
}

static bool write_inputs(const golden_case *self, tuff_plan *plan)
{
    tuff_file_tensor upstream;
    for (int i = 0; i < self->input_count; i++)
        if (tuff_plan_write(plan, self->inputs[i].name, self->inputs[i].wanted.data,
                            (size_t)self->inputs[i].wanted.size) != TUFF_OK)
            return false;
    return !golden_find(self->run->file, self->prefix, "g", &upstream) ||
           tuff_plan_write(plan, "g", upstream.data, (size_t)upstream.size) == TUFF_OK;
}

/* Compares an output of the plan with the file's tensor of the same name. */
static void compare(const golden_case *self, tuff_plan *plan, const char *quantity, tuff_dtype dtype)
{
    tuff_file_tensor wanted;
    if (!golden_find(self->run->file, self->prefix, quantity, &wanted)) {
        char why[128];
        snprintf(why, sizeof why, "the file has no \"%s\" of this case", quantity);
        golden_skip(self->run, self->name, why);
        return;
    }
    const int64_t count = golden_count(&wanted);
    const size_t size = (size_t)count * tuff_dtype_size(dtype);
    void *raw = tuff__alloc(size);
    double *got = tuff__calloc((size_t)count + 1, sizeof *got);
    if (raw && got && tuff_plan_read(plan, quantity, raw, size) == TUFF_OK) {
        tuff__to_double(dtype, raw, count, got);
        golden_row(self->run, self->name, quantity, golden_excess(self, quantity, &wanted, got), 1);
    } else {
        golden_broken(self->run, self->name);
    }
    tuff__free(raw);
    tuff__free(got);
}

static void compare_all(const golden_case *self, tuff_plan *plan, tuff_dtype dtype)
{
    tuff_file_tensor indices;
    if (golden_find(self->run->file, self->prefix, "out.indices", &indices)) {
        compare(self, plan, "out.values", dtype);
        compare(self, plan, "out.indices", TUFF_I32);
    } else {
        compare(self, plan, "out", dtype);
    }
    for (int i = 0; i < self->input_count; i++) {
        char quantity[80];
        tuff_file_tensor wanted;
        snprintf(quantity, sizeof quantity, "grad.%s", self->inputs[i].name);
        if (golden_find(self->run->file, self->prefix, quantity, &wanted))
            compare(self, plan, quantity, TUFF_F32);
    }
}

static void run_builder(golden_case *self, golden_builder build)
{
    tuff_tensor *result = build(self);
    const tuff_dtype dtype = tuff_tensor_dtype(result);
    tuff_output(self->graph, "out", result);
    add_gradients(self, result);
    tuff_plan *plan = tuff_compile(self->graph, &self->run->compile);
    if (plan && write_inputs(self, plan) && tuff_plan_run(plan) == TUFF_OK)
        compare_all(self, plan, dtype);
    else
        golden_broken(self->run, self->name);
    tuff_plan_destroy(plan);
}

static void run_case(golden_run *run, const char *name, const json_t *attributes, const char *op)
{
    golden_case self = {.run = run, .name = name, .attributes = attributes};
    snprintf(self.prefix, sizeof self.prefix, "case/%s/", name);
    const golden_builder build = golden_find_builder(op);
    self.graph = tuff_graph_create(run->device);
    if (!self.graph || !add_inputs(&self))
        golden_broken(run, name);
    else if (build)
        run_builder(&self, build);
    else if (!golden_optimizer(&self))
        golden_skip(run, name, op); /* no builder for it */
    tuff_graph_destroy(self.graph);
}

bool golden_ops(golden_run *run)
{
    bool any = false;
    int number = 0;
    for (int i = 0; i < tuff_file_metadata_count(run->file); i++) {
        const char *name, *text;
        if (tuff_file_metadata_at(run->file, i, &name, &text) != TUFF_OK)
            continue;
        json_t *attributes = json_loads(text, 0, NULL);
        const char *op = json_string_value(json_object_get(attributes, "op"));
        if (op) {
            any = true;
            if (run->turns == 0 || number++ % run->turns == run->turn)
                run_case(run, name, attributes, op);
        }
        json_decref(attributes);
    }
    return any;
}
