/* tuff verify FILE: runs a graph on a device and on the reference, and has its results compared (graph_result.c). */
#include "tools/verify/verify_graph.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/status.h"
#include "base/text.h"
#include "compile/rewrite/simplify.h"
#include "exec/reference.h"
#include "tools/model/graph_data.h"
#include "tools/model/known_plans.h"
#include "tools/verify/graph_result.h"
#include "tools/verify/program_rounding.h"

typedef struct graph_check {
    tuff_device *reference_device;
    tuff_graph *graph; /* on the reference, as loaded */
    tuff_graph *live;  /* the same without dead nodes; belongs to the reference plan */
    reference_plan *reference;
    program_rounding rounding;
    model_plans plans; /* on the device */
    graph_result *results;
    int count;
    tuff_array **arrays; /* all that the reference's graph uses, and their elements before a step */
    void **saved;
    int array_count;
} graph_check;

static tuff_status out_of_memory(void)
{
    return FAIL(TUFF_E_OOM_HOST, "graph: out of memory");
}

static tuff_status write_to_reference(void *to, const char *name, const void *data, size_t size)
{
    const graph_check *self = to;
    if (!tuff__graph_find_input(self->live, name))
        return TUFF_OK; /* nothing depends on it */
    return tuff__reference_write(self->reference, name, data, size);
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

static int significand_bits(tuff_precision precision)
{
    enum { F16_BITS = 11, BF16_BITS = 8 };
    return precision == TUFF_PRECISION_F16 ? F16_BITS : precision == TUFF_PRECISION_BF16 ? BF16_BITS : 0;
}

/* Returns the bits that the weights of an attention on matrix units keep, if its operands have 16 bits; otherwise 0. */
static int weight_bits(const node *at)
{
    const tuff_dtype dtype = at->inputs[0]->dtype;
    return significand_bits(dtype == TUFF_F16    ? TUFF_PRECISION_F16
                            : dtype == TUFF_BF16 ? TUFF_PRECISION_BF16
                                                 : TUFF_PRECISION_F32);
}

/* Adds to the rounding of random programs what other graphs need: every result has at most the bits of f32, and matmuls
   and attention may round their operands where the program allows that and the device has matrix units. */
static tuff_status make_rounding(graph_check *self, tuff_device *device, tuff_precision matmul_precision)
{
    enum { F32_BITS = 24 };
    tuff_device_info info;
    TRY(tuff_device_describe(device, &info));
    TRY(program_rounding_make(self->live, self->plans.file_precision, &self->rounding));
    const bool rounds = info.cooperative_matrix != 0 && self->plans.file_precision == TUFF_PRECISION_F32;
    const int factor_bits = rounds ? significand_bits(matmul_precision) : 0;
    for (int i = 0; i < self->live->node_count; i++) {
        const node *at = self->live->nodes[i];
        unsigned char *result = &self->rounding.results[i], *operands = &self->rounding.operands[i];
        const int weights = tuff__op_is_attention(at->op) ? weight_bits(at) : 0;
        if (!program_rounding_excludes(at) && *result == 0)
            *result = F32_BITS;
        if (at->op == OP_MATMUL && factor_bits > 0)
            *operands = (unsigned char)factor_bits;
        if (tuff__op_is_attention(at->op) && (factor_bits > 0 || weights > 0))
            *result = (unsigned char)(weights > 0 ? weights : factor_bits);
    }
    return TUFF_OK;
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

static tuff_status add_result(graph_check *self, const graph_result *made)
{
    graph_result *to = &self->results[self->count++];
    *to = *made;
    return graph_result_make(to);
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
        TRY(add_result(self,
                       &(graph_result){.name = value.name, .number = i, .dtype = value.dtype, .shape = value.shape}));
    }
    for (int i = 0; i < arrays; i++) {
        tuff_graph_array one;
        TRY(tuff_graph_array_at(graph, i, &one));
        if (one.is_assigned)
            TRY(add_result(self, &(graph_result){.name = one.name,
                                                 .number = i,
                                                 .is_array = true,
                                                 .dtype = tuff_array_dtype(one.array),
                                                 .shape = tuff_array_shape(one.array)}));
    }
    return TUFF_OK;
}

static tuff_array *array_of(const tuff_graph *graph, const graph_result *result)
{
    tuff_graph_array found;
    return tuff_graph_array_at(graph, result->number, &found) == TUFF_OK ? found.array : NULL;
}

static tuff_status check_tensor(const tuff_file_tensor *tensor, tuff_dtype dtype, tuff_shape shape)
{
    if (tensor->dtype == dtype && tuff_shape_equal(tensor->shape, shape))
        return TUFF_OK;
    return FAIL(TUFF_E_USAGE, "\"%.200s\" is %s %s in the data, and %s %s in the graph", tensor->name,
                tuff_dtype_name(tensor->dtype), SHAPE_TEXT(tensor->shape), tuff_dtype_name(dtype), SHAPE_TEXT(shape));
}

/* Writes a tensor of the data to the input or the array of that name, if there is one. */
static tuff_status write_tensor(graph_check *self, const tuff_file_tensor *tensor, int *used)
{
    tuff_plan *plan = self->plans.items[0].plan;
    tuff_array *array = tuff_graph_find_array(self->plans.items[0].graph, tensor->name);
    const int index = tuff_plan_find_input(plan, tensor->name);
    if (index >= 0) {
        tuff_plan_value input;
        TRY(tuff_plan_input_at(plan, index, &input));
        TRY(check_tensor(tensor, input.dtype, input.shape));
        TRY(tuff_plan_write(plan, tensor->name, tensor->data, tensor->size));
        TRY(write_to_reference(self, tensor->name, tensor->data, tensor->size));
        ++*used;
    }
    if (!array)
        return TUFF_OK;
    ++*used;
    TRY(check_tensor(tensor, tuff_array_dtype(array), tuff_array_shape(array)));
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
        status = FAIL(TUFF_E_USAGE, "no tensor has the name of an input or an array of the graph");
    if (status == TUFF_OK)
        return TUFF_OK;
    char reason[256];
    snprintf(reason, sizeof reason, "%s", tuff_error());
    return FAIL(status, "--data %.200s: %s", path, reason);
}

static tuff_status open_check(graph_check *self, tuff_device *device, const graph_verification *request)
{
    tuff_graph_file_info info;
    const model_options described = {.file = request->file};
    TRY(load_reference(self, request->file, &info));
    TRY(model_plans_open(device, &described, &request->compile, &self->plans));
    TRY(make_rounding(self, device, info.compile.matmul_precision));
    TRY(list_arrays(self));
    TRY(list_results(self));
    TRY(graph_data_make(self->graph, request->seed, write_to_reference, self));
    TRY(graph_data_write(self->plans.items[0].graph, request->seed, self->plans.items[0].plan));
    return request->data ? write_data(self, request->data) : TUFF_OK;
}

static void close_check(graph_check *self)
{
    for (int i = 0; i < self->count; i++)
        graph_result_free(&self->results[i]);
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
static tuff_status read_expected(const graph_check *self, const graph_result *result, double *values)
{
    return result->is_array ? read_array(array_of(self->graph, result), result->count, values)
                            : tuff__reference_read_double(self->reference, result->name, values);
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

static tuff_status add_noise(const graph_check *self, graph_result *result)
{
    double *moved = calloc((size_t)result->count + 1, sizeof *moved);
    const tuff_status status = moved ? read_expected(self, result, moved) : out_of_memory();
    if (status == TUFF_OK)
        graph_result_add_noise(result, moved);
    free(moved);
    return status;
}

/* Runs a step on the reference: with rounding on each grid, then without. */
static tuff_status run_reference(graph_check *self)
{
    TRY(save_arrays(self));
    for (int i = 0; i < self->count; i++)
        if (self->results[i].is_array)
            TRY(read_expected(self, &self->results[i], self->results[i].begin));
    TRY(tuff__reference_run(self->reference));
    for (int i = 0; i < self->count; i++) {
        TRY(read_expected(self, &self->results[i], self->results[i].value));
        graph_result_clear_noise(&self->results[i]);
    }
    for (int grid = 0; grid < PROGRAM_GRIDS; grid++) {
        const reference_rounding rounding = {.results = self->rounding.results,
                                             .operands = self->rounding.operands,
                                             .inner = self->rounding.inner,
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

static tuff_status read_result(const graph_check *self, const graph_result *result, double *values)
{
    if (result->is_array)
        return read_array(array_of(self->plans.items[0].graph, result), result->count, values);
    const size_t size = (size_t)result->count * tuff_dtype_size(result->dtype);
    void *bytes = calloc(1, size + 1);
    if (!bytes)
        return out_of_memory();
    const tuff_status status = tuff_plan_read(self->plans.items[0].plan, result->name, bytes, size);
    if (status == TUFF_OK)
        tuff__to_double(result->dtype, bytes, result->count, values);
    free(bytes);
    return status;
}

static tuff_status compare(const graph_check *self, graph_result *result, int step)
{
    double *got = calloc((size_t)result->count + 1, sizeof *got);
    const tuff_status status = got ? read_result(self, result, got) : out_of_memory();
    if (status == TUFF_OK)
        graph_result_compare(result, got, step);
    free(got);
    return status;
}

/* Gives the device the reference's arrays. */
static tuff_status copy_arrays(const graph_check *self)
{
    for (int i = 0; i < self->count; i++) {
        const graph_result *result = &self->results[i];
        if (!result->is_array)
            continue;
        tuff_array *from = array_of(self->graph, result), *to = array_of(self->plans.items[0].graph, result);
        const size_t size = (size_t)tuff_array_size(from);
        void *bytes = calloc(1, size + 1);
        tuff_status status = bytes ? tuff_array_read(from, bytes, size) : out_of_memory();
        if (status == TUFF_OK)
            status = tuff_array_write(to, bytes, size);
        free(bytes);
        TRY(status);
    }
    return TUFF_OK;
}

static tuff_status run_steps(graph_check *self, int64_t steps)
{
    for (int step = 1; step <= steps; step++) {
        TRY(run_reference(self));
        TRY(tuff_plan_run(self->plans.items[0].plan));
        TRY(tuff_plan_wait(self->plans.items[0].plan));
        for (int i = 0; i < self->count; i++)
            TRY(compare(self, &self->results[i], step));
        TRY(copy_arrays(self));
    }
    return TUFF_OK;
}

static int print_results(const graph_check *self, const graph_verification *request)
{
    int failed = 0, weak = 0;
    if (request->json)
        printf("[\n");
    else
        printf("%-36s %-5s %-14s %10s %9s %11s\n", "result", "dtype", "shape", "largest", "error", "worst/tol.");
    for (int i = 0; i < self->count; i++) {
        const graph_result *result = &self->results[i];
        failed += result->wrong > 0;
        weak += graph_result_says_little(result);
        if (request->json)
            printf("%s", i > 0 ? ",\n" : "");
        (request->json ? graph_result_print_json : graph_result_print)(result);
    }
    if (request->json)
        printf("\n]\n");
    else
        printf("%d results of %s after %" PRId64 " step%s: %d failed, %d say little (zero, or moved far by rounding)\n",
               self->count, self->plans.items[0].name, request->steps, request->steps == 1 ? "" : "s", failed, weak);
    if (!request->json && !request->data && 2 * weak > self->count)
        printf("random values may be invalid for this graph: --data takes real ones from a safetensors file\n");
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
