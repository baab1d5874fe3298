/* tuff verify FILE. Tolerances are like those of random programs: relative to the largest element of a tensor, for an
   array to its largest change, so that a result that is never written cannot hide. To that comes how far rounding moves
   the tensor: the reference repeats each step with rounding at the points where kernels round, on several grids. */
#include "tools/verify/verify_graph.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "compile/rewrite/simplify.h"
#include "exec/reference.h"
#include "tools/model/graph_data.h"
#include "tools/model/known_plans.h"
#include "tools/verify/program_rounding.h"

/* Relative to the largest element, and the multiple of the deviations found on the grids. */
#define TOLERANCE 1e-4
#define NOISE 5
/* A tolerance above this fraction of the largest element says little. */
#define WIDE 0.1

/* A tensor that is compared: an output, or an array that came with the graph. */
typedef struct result {
    const char *name;
    tuff_dtype dtype;
    tuff_shape shape;
    tuff_array *array, *expected_array; /* on the device and on the reference; NULL: an output */
    int number;                         /* of the array in the graph */
    int64_t count;
    double *begin, *value, *noise; /* of a step: before it (arrays), after it, and how far rounding moves it */
    double unit, error, tolerance; /* of the worst step; the latter two relative to the unit */
    int64_t wrong;                 /* elements, of the first step with any */
    char failure[160];
} result;

typedef struct graph_check {
    tuff_device *reference_device;
    tuff_graph *graph; /* on the reference, as loaded */
    tuff_graph *live;  /* the same without dead nodes; belongs to the reference plan */
    reference_plan *reference;
    program_rounding rounding;
    model_plans plans; /* on the device */
    result *results;
    int count;
    tuff_array **arrays; /* all that the reference's graph uses, and their elements before a step */
    void **saved;
    int array_count;
    int step;
} graph_check;

static tuff_status out_of_memory(void)
{
    return FAIL(TUFF_E_OOM_HOST, "graph: out of memory");
}

static tuff_status write_to_reference(void *to, const char *name, const void *data, size_t size)
{
    const graph_check *self = to;
    for (int i = 0; i < self->live->node_count; i++)
        if (self->live->nodes[i]->op == OP_INPUT && strcmp(self->live->nodes[i]->attributes.name, name) == 0)
            return tuff__reference_write(self->reference, name, data, size);
    return TUFF_OK; /* nothing depends on it */
}

static tuff_status load_reference(graph_check *self, const char *file, tuff_graph_file_info *info)
{
    self->reference_device = tuff_device_open("reference");
    self->graph = self->reference_device ? tuff_graph_load(self->reference_device, file, info) : NULL;
    self->live = self->graph ? tuff__simplify(self->graph, true) : NULL;
    if (!self->live)
        return tuff_last_status();
    const tuff_status status = tuff__reference_create(self->live, &self->reference);
    if (status != TUFF_OK)
        tuff_graph_destroy(self->live);
    return status;
}

/* Returns the precision that plans of the file have, or that of their matmuls. */
static tuff_precision precision_of(const graph_check *self, const tuff_graph_file_info *info)
{
    return self->plans.file_precision != TUFF_PRECISION_F32 ? self->plans.file_precision
                                                            : info->compile.matmul_precision;
}

static bool is_listed(const graph_check *self, const tuff_array *array)
{
    for (int i = 0; i < self->array_count; i++)
        if (self->arrays[i] == array)
            return true;
    return false;
}

/* Lists the reference's arrays, also the counter of random numbers that the graph keeps for itself. */
static tuff_status list_arrays(graph_check *self)
{
    self->arrays = calloc((size_t)self->live->node_count + 1, sizeof *self->arrays);
    self->saved = calloc((size_t)self->live->node_count + 1, sizeof *self->saved);
    if (!self->arrays || !self->saved)
        return out_of_memory();
    for (int i = 0; i < self->live->node_count; i++) {
        tuff_array *array = (tuff_array *)self->live->nodes[i]->attributes.array;
        const op_code op = self->live->nodes[i]->op;
        if ((op != OP_ARRAY && op != OP_ASSIGN) || is_listed(self, array))
            continue;
        self->saved[self->array_count] = calloc(1, (size_t)tuff_array_size(array) + 1);
        if (!self->saved[self->array_count])
            return out_of_memory();
        self->arrays[self->array_count++] = array;
    }
    return TUFF_OK;
}

static tuff_status add_result(graph_check *self, const result *made)
{
    const size_t count = (size_t)tuff_shape_count(made->shape);
    result *to = &self->results[self->count++];
    *to = *made;
    to->count = (int64_t)count;
    to->begin = calloc(count + 1, sizeof *to->begin);
    to->value = calloc(count + 1, sizeof *to->value);
    to->noise = calloc(count + 1, sizeof *to->noise);
    return to->begin && to->value && to->noise ? TUFF_OK : out_of_memory();
}

/* Arrays that no step changes are not compared. */
static tuff_status list_results(graph_check *self)
{
    const tuff_plan *plan = self->plans.items[0].plan;
    const tuff_graph *graph = self->plans.items[0].graph;
    const int outputs = tuff_plan_output_count(plan), arrays = tuff_graph_array_count(graph);
    self->results = calloc((size_t)(outputs + arrays) + 1, sizeof *self->results);
    if (!self->results)
        return out_of_memory();
    for (int i = 0; i < outputs; i++) {
        tuff_plan_value value;
        TRY(tuff_plan_output_at(plan, i, &value));
        TRY(add_result(self, &(result){.name = value.name, .dtype = value.dtype, .shape = value.shape}));
    }
    for (int i = 0; i < arrays; i++) {
        tuff_graph_array on_device, expected;
        TRY(tuff_graph_array_at(graph, i, &on_device));
        TRY(tuff_graph_array_at(self->graph, i, &expected));
        if (on_device.is_assigned)
            TRY(add_result(self, &(result){.name = on_device.name,
                                           .number = i,
                                           .dtype = tuff_array_dtype(on_device.array),
                                           .shape = tuff_array_shape(on_device.array),
                                           .array = on_device.array,
                                           .expected_array = expected.array}));
    }
    return TUFF_OK;
}

static tuff_status check_tensor(const tuff_file_tensor *tensor, tuff_dtype dtype, uint64_t size)
{
    return tensor->dtype == dtype && tensor->size == size
               ? TUFF_OK
               : FAIL(TUFF_E_USAGE,
                      "\"%s\" is %s of %" PRIu64 " bytes in the data, and %s of %" PRIu64 " bytes in the graph",
                      tensor->name, tuff_dtype_name(tensor->dtype), (uint64_t)tensor->size, tuff_dtype_name(dtype),
                      size);
}

/* Writes a tensor of the data to the input or the array of that name, if there is one. */
static tuff_status write_tensor(graph_check *self, const tuff_file_tensor *tensor, int *used)
{
    tuff_plan *plan = self->plans.items[0].plan;
    tuff_array *array = tuff_graph_find_array(self->plans.items[0].graph, tensor->name);
    for (int i = 0; i < tuff_plan_input_count(plan); i++) {
        tuff_plan_value input;
        TRY(tuff_plan_input_at(plan, i, &input));
        if (strcmp(input.name, tensor->name) != 0)
            continue;
        TRY(check_tensor(tensor, input.dtype, input.size));
        TRY(tuff_plan_write(plan, tensor->name, tensor->data, tensor->size));
        TRY(write_to_reference(self, tensor->name, tensor->data, tensor->size));
        ++*used;
    }
    if (!array)
        return TUFF_OK;
    ++*used;
    TRY(check_tensor(tensor, tuff_array_dtype(array), tuff_array_size(array)));
    TRY(tuff_array_write(array, tensor->data, tensor->size));
    return tuff_array_write(tuff_graph_find_array(self->graph, tensor->name), tensor->data, tensor->size);
}

static tuff_status write_data(graph_check *self, const char *path)
{
    int used = 0;
    tuff_file *file = tuff_file_open(path);
    tuff_status status = file ? TUFF_OK : tuff_last_status();
    for (int i = 0; status == TUFF_OK && i < tuff_file_count(file); i++) {
        tuff_file_tensor tensor;
        status = tuff_file_tensor_at(file, i, &tensor);
        if (status == TUFF_OK)
            status = write_tensor(self, &tensor, &used);
    }
    tuff_file_close(file);
    if (status == TUFF_OK && used == 0)
        status = FAIL(TUFF_E_USAGE, "%.200s has no tensor with the name of an input or an array of the graph", path);
    return status;
}

static tuff_status open_check(graph_check *self, tuff_device *device, const graph_verification *request)
{
    tuff_graph_file_info info;
    const model_options described = {.file = request->file};
    TRY(load_reference(self, request->file, &info));
    TRY(model_plans_open(device, &described, &request->compile, &self->plans));
    TRY(program_rounding_make(self->live, precision_of(self, &info), &self->rounding));
    TRY(list_arrays(self));
    TRY(list_results(self));
    TRY(graph_data_make(self->graph, write_to_reference, self));
    TRY(model_plan_write(&self->plans, 0));
    return request->data ? write_data(self, request->data) : TUFF_OK;
}

static void close_check(graph_check *self)
{
    for (int i = 0; i < self->count; i++) {
        free(self->results[i].begin);
        free(self->results[i].value);
        free(self->results[i].noise);
    }
    for (int i = 0; i < self->array_count; i++)
        free(self->saved[i]);
    free(self->results);
    free(self->arrays);
    free(self->saved);
    program_rounding_free(&self->rounding);
    model_plans_destroy(&self->plans);
    tuff__reference_destroy(self->reference);
    tuff_graph_destroy(self->graph);
    tuff_device_close(self->reference_device);
}

static tuff_status read_array(tuff_array *array, int64_t count, double *values)
{
    const size_t size = (size_t)tuff_array_size(array);
    void *bytes = calloc(1, size + 1);
    if (!bytes)
        return out_of_memory();
    const tuff_status status = tuff_array_read(array, bytes, size);
    if (status == TUFF_OK)
        tuff__to_double(tuff_array_dtype(array), bytes, count, values);
    free(bytes);
    return status;
}

/* Reads a result of the reference. */
static tuff_status read_expected(const graph_check *self, const result *of, double *values)
{
    return of->array ? read_array(of->expected_array, of->count, values)
                     : tuff__reference_read_double(self->reference, of->name, values);
}

static tuff_status save_arrays(const graph_check *self)
{
    for (int i = 0; i < self->array_count; i++)
        TRY(tuff_array_read(self->arrays[i], self->saved[i], (size_t)tuff_array_size(self->arrays[i])));
    return TUFF_OK;
}

static tuff_status restore_arrays(const graph_check *self)
{
    for (int i = 0; i < self->array_count; i++)
        TRY(tuff_array_write(self->arrays[i], self->saved[i], (size_t)tuff_array_size(self->arrays[i])));
    return TUFF_OK;
}

/* A number that becomes NaN with rounding may be anything. */
static double distance(double moved, double value)
{
    const double apart = fabs(moved - value);
    return isnan(apart) && !isnan(value) && moved != value ? INFINITY : isnan(apart) ? 0 : apart;
}

static tuff_status add_noise(const graph_check *self, result *of)
{
    double *moved = calloc((size_t)of->count + 1, sizeof *moved);
    const tuff_status status = moved ? read_expected(self, of, moved) : out_of_memory();
    for (int64_t i = 0; status == TUFF_OK && i < of->count; i++)
        of->noise[i] = fmax(of->noise[i], distance(moved[i], of->value[i]));
    free(moved);
    return status;
}

/* Runs a step on the reference: with rounding on each grid, then without. */
static tuff_status run_reference(graph_check *self)
{
    TRY(save_arrays(self));
    for (int i = 0; i < self->count; i++)
        if (self->results[i].array)
            TRY(read_expected(self, &self->results[i], self->results[i].begin));
    TRY(tuff__reference_run(self->reference));
    for (int i = 0; i < self->count; i++) {
        TRY(read_expected(self, &self->results[i], self->results[i].value));
        memset(self->results[i].noise, 0, (size_t)self->results[i].count * sizeof(double));
    }
    for (int grid = 0; grid < PROGRAM_GRIDS; grid++) {
        const reference_rounding rounding = {.results = self->rounding.results,
                                             .operands = self->rounding.operands,
                                             .stretch = program_rounding_stretch(grid)};
        TRY(restore_arrays(self));
        tuff__reference_set_rounding(self->reference, &rounding);
        const tuff_status status = tuff__reference_run(self->reference);
        tuff__reference_set_rounding(self->reference, NULL);
        TRY(status);
        for (int i = 0; i < self->count; i++)
            TRY(add_noise(self, &self->results[i]));
    }
    TRY(restore_arrays(self));
    return tuff__reference_run(self->reference);
}

static tuff_status read_result(const graph_check *self, const result *of, double *values)
{
    if (of->array)
        return read_array(of->array, of->count, values);
    const size_t size = (size_t)of->count * tuff_dtype_size(of->dtype);
    void *bytes = calloc(1, size + 1);
    if (!bytes)
        return out_of_memory();
    const tuff_status status = tuff_plan_read(self->plans.items[0].plan, of->name, bytes, size);
    if (status == TUFF_OK)
        tuff__to_double(of->dtype, bytes, of->count, values);
    free(bytes);
    return status;
}

/* Returns the largest element, for an array its largest change. */
static double unit_of(const result *of)
{
    double largest = 0;
    for (int64_t i = 0; i < of->count; i++)
        if (isfinite(of->value[i]))
            largest = fmax(largest, fabs(of->value[i] - of->begin[i]));
    return largest;
}

static double largest_noise(const result *of)
{
    double largest = 0;
    for (int64_t i = 0; i < of->count; i++)
        largest = fmax(largest, of->noise[i]);
    return largest;
}

/* Stored values are rounded to their dtype; integers are exact. */
static double rounding_of(const result *of, double value)
{
    const double unit = of->dtype == TUFF_F16 ? 0x1p-11 : of->dtype == TUFF_BF16 ? 0x1p-8 : 0x1p-24;
    return tuff__dtype_is_float(of->dtype) ? 2 * unit * fabs(value) + (of->dtype == TUFF_F16 ? 0x1p-24 : 0x1p-126) : 0;
}

/* Whether the element is what the reference has: a NaN for a NaN, the same infinity. */
static bool is_right(const result *of, int64_t at, double got, double most)
{
    const double value = of->value[at];
    if (isinf(most) || got == value || (isnan(got) && isnan(value)))
        return true;
    return fabs(got - value) <= rounding_of(of, value) + most;
}

static void compare_values(const graph_check *self, result *of, const double *got)
{
    const bool is_float = tuff__dtype_is_float(of->dtype);
    const double unit = unit_of(of), most = (is_float ? TOLERANCE * unit : 0) + NOISE * largest_noise(of);
    int64_t wrong = 0, first = 0;
    double error = 0;
    for (int64_t i = 0; i < of->count; i++) {
        const double apart = fabs(got[i] - of->value[i]);
        error = fmax(error, isnan(apart) ? 0 : apart);
        if (!is_right(of, i, got[i], most) && wrong++ == 0)
            first = i;
    }
    const double scale = unit > 0 ? unit : 1;
    if (of->wrong == 0 && (wrong > 0 || error / scale >= of->error)) {
        of->unit = unit;
        of->error = error / scale;
        of->tolerance = most / scale;
    }
    if (wrong == 0 || of->wrong > 0)
        return;
    of->wrong = wrong;
    snprintf(of->failure, sizeof of->failure,
             "step %d: %" PRId64 " of %" PRId64 " elements are wrong: element %" PRId64 " is %.9g, expected %.9g",
             self->step + 1, wrong, of->count, first, got[first], of->value[first]);
}

static tuff_status compare(const graph_check *self, result *of)
{
    double *got = calloc((size_t)of->count + 1, sizeof *got);
    const tuff_status status = got ? read_result(self, of, got) : out_of_memory();
    if (status == TUFF_OK)
        compare_values(self, of, got);
    free(got);
    return status;
}

/* Gives the device the reference's arrays. */
static tuff_status copy_arrays(const graph_check *self)
{
    for (int i = 0; i < self->count; i++) {
        const result *of = &self->results[i];
        const size_t size = of->array ? (size_t)tuff_array_size(of->array) : 0;
        void *bytes = calloc(1, size + 1);
        tuff_status status = bytes ? TUFF_OK : out_of_memory();
        if (status == TUFF_OK && of->array)
            status = tuff_array_read(of->expected_array, bytes, size);
        if (status == TUFF_OK && of->array)
            status = tuff_array_write(of->array, bytes, size);
        free(bytes);
        TRY(status);
    }
    return TUFF_OK;
}

static tuff_status run_steps(graph_check *self, int64_t steps)
{
    for (self->step = 0; self->step < steps; self->step++) {
        TRY(run_reference(self));
        TRY(tuff_plan_run(self->plans.items[0].plan));
        TRY(tuff_plan_wait(self->plans.items[0].plan));
        for (int i = 0; i < self->count; i++)
            TRY(compare(self, &self->results[i]));
        TRY(copy_arrays(self));
    }
    return TUFF_OK;
}

static const char *verdict(const result *of)
{
    return of->wrong > 0 ? "FAILED" : of->unit == 0 ? "zero" : of->tolerance > WIDE ? "wide" : "ok";
}

static void print_json(const result *of, bool is_first)
{
    printf("%s  {\"name\": ", is_first ? "" : ",\n");
    cli_print_json_text(of->name);
    printf(", \"kind\": \"%s\", \"dtype\": \"%s\", \"elements\": %" PRId64
           ", \"largest\": %.6g, \"error\": %.4g, \"tolerance\": %.4g, \"wrong\": %" PRId64 ", \"failure\": ",
           of->array ? "array" : "output", tuff_dtype_name(of->dtype), of->count, of->unit, fmin(of->error, 1e300),
           fmin(of->tolerance, 1e300), of->wrong);
    cli_print_json_text(of->failure);
    printf("}");
}

static void print_row(const result *of)
{
    char name[64];
    if (of->name[0])
        snprintf(name, sizeof name, "%s %s", of->array ? "array" : "output", of->name);
    else
        snprintf(name, sizeof name, "array number %d", of->number);
    printf("%-36s %-5s %-14s %10.3g %9.2g %9.2g  %s\n", name, tuff_dtype_name(of->dtype), SHAPE_TEXT(of->shape),
           of->unit, of->error, of->tolerance, verdict(of));
    if (of->wrong > 0)
        printf("    %s\n", of->failure);
}

static int print_results(const graph_check *self, const graph_verification *request)
{
    int failed = 0, wide = 0;
    if (request->json)
        printf("[\n");
    else
        printf("%-36s %-5s %-14s %10s %9s %9s\n", "result", "dtype", "shape", "largest", "error", "tolerance");
    for (int i = 0; i < self->count; i++) {
        const result *of = &self->results[i];
        failed += of->wrong > 0;
        wide += of->wrong == 0 && (of->unit == 0 || of->tolerance > WIDE);
        if (request->json)
            print_json(of, i == 0);
        else
            print_row(of);
    }
    if (request->json)
        printf("\n]\n");
    else
        printf("%d results of %s after %" PRId64
               " step%s: %d failed, %d say little (zeros, or moved far by rounding)\n",
               self->count, self->plans.items[0].name, request->steps, request->steps == 1 ? "" : "s", failed, wide);
    return failed == 0 ? EXIT_DONE : EXIT_FAILED;
}

int verify_graph(const cli_verb *verb, tuff_device *device, const graph_verification *request)
{
    graph_check self = {.count = 0};
    tuff_status status = open_check(&self, device, request);
    if (status == TUFF_OK)
        status = run_steps(&self, request->steps);
    const int code = status == TUFF_OK ? print_results(&self, request) : cli_fail_library(verb, request->file);
    close_check(&self);
    return code;
}
