/* Writes the kernels of benchmark-sized graphs as a vendor's GPUs get them; no GPU is needed. Built and run by
   tools/check-loops and tools/check-vendors.

   Usage: kernels FOLDER DEVICE VENDOR FAMILY
          kernels FOLDER DEVICE VENDOR portfolio
          kernels FOLDER DEVICE VENDOR space DRAWS SEED
          kernels FOLDER DEVICE VENDOR self-test

   DEVICE is any device with the wanted language, VENDOR is intel, amd or nvidia, FAMILY a family of kernels (device,
   subgroup, cooperative, ...). Prints a tab-separated line for each kernel: its file, its name (the case, the body, and
   a number if the case has several with this body), the number of work-groups, the items of each, and the lanes of the
   matrix units of the GPU that it is for (0: it has none).

   portfolio: the kernels of every candidate for GPUs that a search begins with (src/search/portfolio_gpu.def), for
   graphs of its family, in f32 without matrix units, then in 16 bits with them.
   space: the kernels of DRAWS further candidates for each task of each graph, as a search finds them: points of its
   space, and moves from the default or from the portfolio. Equal arguments give equal candidates.
   self-test: the kernels of the self-test, for all features that the vendor's GPUs may claim.

   The name of a candidate's kernel is the graph, the number of the task, the number of the candidate, and the body. Its
   line goes on with the GPU's bytes of local memory and the candidate's configuration. Candidates without a kernel are
   left out, as searches do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "compile/lower/lower.h"
#include "compile/task_key.h"
#include "device/device.h"
#include "exec/plan.h"
#include "graph/graph.h"
#include "kernels/tunables.h"
#include "search/portfolio.h"
#include "search/space.h"
#include "tools/inspect/override_gpu.h"
#include "tuff.h"

enum { SIDE = 4096 };

typedef enum kernel_source { DEFAULTS, PORTFOLIO, SPACE, SELF_TEST } kernel_source;

typedef struct writer {
    tuff_device *device;
    const char *folder;
    kernel_source source;
    tuff_family family; /* TUFF_FAMILY_DEVICE for candidates */
    unsigned lanes;     /* of the matrix units, which distinguish file names; 0: none */
    int draws;          /* candidates of each task that are drawn from its space */
    rng random;
} writer;

/* A graph: its computation and its sizes. */
typedef struct kernel_case {
    const char *name;
    void (*build)(const struct kernel_case *self, tuff_graph *graph);
    tuff_dtype dtype;
    int64_t rows, columns, inner; /* for attention: heads, head width, length */
    bool transposed[2];           /* which operands of a matmul are transposed in memory */
} kernel_case;

static tuff_tensor *matrix(tuff_graph *graph, const char *name, tuff_dtype dtype, int64_t rows, int64_t columns,
                           bool transposed)
{
    static const int order[] = {1, 0};
    if (transposed)
        return tuff_permute(tuff_input(graph, name, dtype, TUFF_SHAPE(columns, rows)), order);
    return tuff_input(graph, name, dtype, TUFF_SHAPE(rows, columns));
}

static void build_matmul(const kernel_case *self, tuff_graph *graph)
{
    tuff_tensor *x = matrix(graph, "x", self->dtype, self->rows, self->inner, self->transposed[0]);
    tuff_tensor *y = matrix(graph, "y", self->dtype, self->inner, self->columns, self->transposed[1]);
    tuff_output(graph, "out", tuff_matmul(x, y));
}

static tuff_tensor *build_attention_inputs(const kernel_case *self, tuff_graph *graph, tuff_tensor *inputs[3])
{
    static const char *const names[] = {"q", "k", "v"};
    const tuff_attention_options options = {.causal = true};
    for (int i = 0; i < 3; i++)
        inputs[i] = tuff_input(graph, names[i], self->dtype, TUFF_SHAPE(1, self->inner, self->rows, self->columns));
    return tuff_attention(inputs[0], inputs[1], inputs[2], &options);
}

static void build_attention(const kernel_case *self, tuff_graph *graph)
{
    tuff_tensor *inputs[3];
    tuff_output(graph, "out", build_attention_inputs(self, graph, inputs));
}

static void build_attention_of_queries(const kernel_case *self, tuff_graph *graph, int64_t queries)
{
    const tuff_shape keys = TUFF_SHAPE(1, self->inner, self->rows, self->columns);
    tuff_tensor *q = tuff_input(graph, "q", self->dtype, TUFF_SHAPE(1, queries, self->rows, self->columns));
    tuff_tensor *k = tuff_input(graph, "k", self->dtype, keys), *v = tuff_input(graph, "v", self->dtype, keys);
    tuff_output(graph, "out", tuff_attention(q, k, v, &(tuff_attention_options){.causal = true}));
}

/* A token that is generated: products and a softmax. */
static void build_attention_of_one_query(const kernel_case *self, tuff_graph *graph)
{
    build_attention_of_queries(self, graph, 1);
}

/* A few queries, whose keys several groups share. */
static void build_attention_of_few_queries(const kernel_case *self, tuff_graph *graph)
{
    build_attention_of_queries(self, graph, 4);
}

/* As many as a group on matrix units has. */
static void build_attention_of_a_block(const kernel_case *self, tuff_graph *graph)
{
    build_attention_of_queries(self, graph, 64);
}

static void build_attention_gradients(const kernel_case *self, tuff_graph *graph)
{
    static const char *const names[] = {"dq", "dk", "dv"};
    static const int axes[] = {0, 1, 2, 3};
    tuff_tensor *inputs[3], *gradients[3];
    tuff_tensor *out = build_attention_inputs(self, graph, inputs);
    tuff_tensor *upstream =
        tuff_input(graph, "upstream", self->dtype, TUFF_SHAPE(1, self->inner, self->rows, self->columns));
    tuff_tensor *loss = tuff_sum(tuff_mul(out, upstream), axes, 4, false);
    if (tuff_gradients(loss, inputs, 3, gradients) != TUFF_OK)
        return;
    for (int i = 0; i < 3; i++)
        tuff_output(graph, names[i], gradients[i]);
}

/* Gain and bias are parameters, which are f32 whatever the dtype of activations. */
static void build_layer_norm(const kernel_case *self, tuff_graph *graph)
{
    tuff_tensor *x = matrix(graph, "x", self->dtype, self->rows, self->columns, false);
    tuff_tensor *gain = tuff_input(graph, "gain", TUFF_F32, TUFF_SHAPE(self->columns));
    tuff_tensor *bias = tuff_input(graph, "bias", TUFF_F32, TUFF_SHAPE(self->columns));
    tuff_output(graph, "out", tuff_cast(tuff_layer_norm(tuff_cast(x, TUFF_F32), gain, bias, 1, 1e-5), self->dtype));
}

static void build_softmax(const kernel_case *self, tuff_graph *graph)
{
    tuff_output(graph, "out", tuff_softmax(matrix(graph, "x", self->dtype, self->rows, self->columns, false), -1));
}

static void build_gelu(const kernel_case *self, tuff_graph *graph)
{
    tuff_output(graph, "out", tuff_gelu_tanh(matrix(graph, "x", self->dtype, self->rows, self->columns, false)));
}

static void build_column_sums(const kernel_case *self, tuff_graph *graph)
{
    static const int axes[] = {0};
    tuff_tensor *x = matrix(graph, "x", self->dtype, self->rows, self->columns, false);
    tuff_output(graph, "out", tuff_sum(x, axes, 1, false));
}

static void build_scatter(const kernel_case *self, tuff_graph *graph)
{
    tuff_tensor *x = matrix(graph, "x", self->dtype, self->rows, self->columns, false);
    tuff_tensor *indices = tuff_input(graph, "indices", TUFF_I32, TUFF_SHAPE(self->inner));
    tuff_tensor *source = matrix(graph, "source", self->dtype, self->inner, self->columns, false);
    tuff_output(graph, "out", tuff_scatter_add_rows(x, indices, source, 0));
}

static void build_scan(const kernel_case *self, tuff_graph *graph)
{
    tuff_output(graph, "out", tuff_cumsum(matrix(graph, "x", self->dtype, self->rows, self->columns, false), 1));
}

static const kernel_case cases[] = {
    {"matmul_f32_nn", build_matmul, TUFF_F32, SIDE, SIDE, SIDE, {false, false}},
    {"matmul_f32_nt", build_matmul, TUFF_F32, SIDE, SIDE, SIDE, {false, true}},
    {"matmul_f32_tn", build_matmul, TUFF_F32, SIDE, SIDE, SIDE, {true, false}},
    {"matmul_f16_nn", build_matmul, TUFF_F16, SIDE, SIDE, SIDE, {false, false}},
    {"matmul_f16_nt", build_matmul, TUFF_F16, SIDE, SIDE, SIDE, {false, true}},
    {"matmul_bf16_nn", build_matmul, TUFF_BF16, SIDE, SIDE, SIDE, {false, false}},
    {"matmul_shared", build_matmul, TUFF_F32, 1280, 1280, SIDE, {false, false}},
    {"matmul_deep", build_matmul, TUFF_F32, 128, 128, 65536, {false, false}},
    {"row_f32", build_matmul, TUFF_F32, 1, SIDE, SIDE, {false, false}},
    {"row_f16", build_matmul, TUFF_F16, 1, SIDE, SIDE, {false, false}},
    {"row_f16_turned", build_matmul, TUFF_F16, 1, SIDE, SIDE, {false, true}},
    {"row_bf16", build_matmul, TUFF_BF16, 1, SIDE, SIDE, {false, false}},
    {"row_bf16_turned", build_matmul, TUFF_BF16, 1, SIDE, SIDE, {false, true}},
    {"attention_64", build_attention, TUFF_F32, 8, 64, 2048, {false, false}},
    {"attention_128", build_attention, TUFF_F32, 8, 128, 2048, {false, false}},
    {"attention_f16_64", build_attention, TUFF_F16, 8, 64, 2048, {false, false}},
    {"attention_one_query", build_attention_of_one_query, TUFF_F32, 8, 64, SIDE, {false, false}},
    {"attention_few_queries", build_attention_of_few_queries, TUFF_F32, 8, 64, SIDE, {false, false}},
    {"gradients_64", build_attention_gradients, TUFF_F32, 8, 64, 2048, {false, false}},
    {"gradients_128", build_attention_gradients, TUFF_F32, 8, 128, 2048, {false, false}},
    {"layer_norm", build_layer_norm, TUFF_F32, 8192, 1024, 0, {false, false}},
    {"softmax", build_softmax, TUFF_F32, 8192, 1024, 0, {false, false}},
    {"layer_norm_f16", build_layer_norm, TUFF_F16, 8192, 1024, 0, {false, false}},
    {"softmax_f16", build_softmax, TUFF_F16, 8192, 1024, 0, {false, false}},
    {"gelu", build_gelu, TUFF_F32, SIDE, SIDE, 0, {false, false}},
    {"gelu_f16", build_gelu, TUFF_F16, SIDE, SIDE, 0, {false, false}},
};

/* Cases on matrix units. */
static const kernel_case unit_cases[] = {
    {"units_f16_nn", build_matmul, TUFF_F16, SIDE, SIDE, SIDE, {false, false}},
    {"units_f16_nt", build_matmul, TUFF_F16, SIDE, SIDE, SIDE, {false, true}},
    {"units_f16_tn", build_matmul, TUFF_F16, SIDE, SIDE, SIDE, {true, false}},
    {"units_bf16_nn", build_matmul, TUFF_BF16, SIDE, SIDE, SIDE, {false, false}},
    {"units_bf16_nt", build_matmul, TUFF_BF16, SIDE, SIDE, SIDE, {false, true}},
    {"units_bf16_tn", build_matmul, TUFF_BF16, SIDE, SIDE, SIDE, {true, false}},
    {"units_attention_64", build_attention, TUFF_F16, 32, 64, 2048, {false, false}},
    {"units_attention_128", build_attention, TUFF_F16, 8, 128, 2048, {false, false}},
    {"units_attention_block", build_attention_of_a_block, TUFF_F16, 8, 64, SIDE, {false, false}},
    {"units_gradients_64", build_attention_gradients, TUFF_F16, 32, 64, 2048, {false, false}},
    {"units_gradients_128", build_attention_gradients, TUFF_F16, 8, 128, 2048, {false, false}},
};

/* Cases of the portfolio, named after their families; those in 16 bits are for GPUs with matrix units. */
static const kernel_case portfolio_cases[] = {
    {"matmul", build_matmul, TUFF_F32, SIDE, SIDE, SIDE, {false, false}},
    {"matmul.row", build_matmul, TUFF_F32, 1, SIDE, SIDE, {false, false}},
    {"matmul.row_turned", build_matmul, TUFF_F32, 1, SIDE, SIDE, {false, true}},
    {"map", build_gelu, TUFF_F32, SIDE, SIDE, 0, {false, false}},
    {"row", build_layer_norm, TUFF_F32, 8192, 1024, 0, {false, false}},
    {"column", build_column_sums, TUFF_F32, 8192, 1024, 0, {false, false}},
    {"scatter", build_scatter, TUFF_F32, SIDE, 1024, 8192, {false, false}},
    {"scan", build_scan, TUFF_F32, 8192, 1024, 0, {false, false}},
    {"attention.64", build_attention_gradients, TUFF_F32, 8, 64, 2048, {false, false}},
    {"attention.128", build_attention_gradients, TUFF_F32, 8, 128, 2048, {false, false}},
    {"matmul.f16", build_matmul, TUFF_F16, SIDE, SIDE, SIDE, {false, false}},
    {"matmul.bf16", build_matmul, TUFF_BF16, SIDE, SIDE, SIDE, {false, false}},
    {"matmul.row_f16", build_matmul, TUFF_F16, 1, SIDE, SIDE, {false, false}},
    {"matmul.row_bf16_turned", build_matmul, TUFF_BF16, 1, SIDE, SIDE, {false, true}},
    {"attention.f16_64", build_attention_gradients, TUFF_F16, 32, 64, 2048, {false, false}},
    {"attention.f16_128", build_attention_gradients, TUFF_F16, 8, 128, 2048, {false, false}},
};

/* Further graphs for candidates from the space. The extents of the odd ones are no multiples of any tile. */
static const kernel_case space_cases[] = {
    {"odd_matmul", build_matmul, TUFF_F32, 1021, 1023, 1027, {false, true}},
    {"odd_matmul_f16", build_matmul, TUFF_F16, 1021, 1023, 1027, {true, false}},
    {"odd_matmul_bf16", build_matmul, TUFF_BF16, 1021, 1023, 1027, {false, false}},
    {"odd_rows", build_matmul, TUFF_F32, 3, 1023, 1027, {false, true}},
    {"odd_gradients", build_attention_gradients, TUFF_F32, 3, 80, 1021, {false, false}},
    {"odd_few_queries", build_attention_of_few_queries, TUFF_F32, 3, 80, 4093, {false, false}},
    {"odd_layer_norm", build_layer_norm, TUFF_F32, 1021, 999, 0, {false, false}},
    {"odd_softmax", build_softmax, TUFF_F16, 1021, 999, 0, {false, false}},
    {"odd_gelu", build_gelu, TUFF_F16, 1021, 1023, 0, {false, false}},
    {"odd_column", build_column_sums, TUFF_F32, 1021, 999, 0, {false, false}},
    {"odd_scatter", build_scatter, TUFF_F32, 1021, 999, 1027, {false, false}},
    {"odd_scan", build_scan, TUFF_F32, 1021, 999, 0, {false, false}},
    {"column", build_column_sums, TUFF_F16, 8192, 1024, 0, {false, false}},
    {"scatter", build_scatter, TUFF_F32, SIDE, 1024, 8192, {false, false}},
    {"scan", build_scan, TUFF_F32, 8192, 1024, 0, {false, false}},
};
static const kernel_case space_unit_cases[] = {
    {"odd_units_f16", build_matmul, TUFF_F16, 1021, 1023, 1027, {false, true}},
    {"odd_units_bf16", build_matmul, TUFF_BF16, 1021, 1023, 1027, {true, false}},
    {"odd_units_gradients", build_attention_gradients, TUFF_F16, 3, 80, 1021, {false, false}},
};

/* Counts the earlier kernels with the same body in the plan. */
static int count_before(const launch_list *list, int index)
{
    int count = 0;
    for (int i = 0; i < index; i++)
        count +=
            list->launches[i].kind == LAUNCH_KERNEL && strcmp(list->launches[i].body, list->launches[index].body) == 0;
    return count;
}

static bool write_text(const char *name, const char *source)
{
    FILE *file = fopen(name, "w");
    if (!file)
        return false;
    const bool written = fputs(source, file) >= 0;
    return fclose(file) == 0 && written;
}

/* config: that of the candidate; NULL: none. */
static void print_line(const writer *self, const launch *kernel, const char *file, const char *name,
                       const tune_config *config)
{
    printf("%s\t%s\t%llu\t%u\t%u", file, name, (unsigned long long)kernel->groups, (unsigned)kernel->local_size,
           self->lanes);
    if (config) {
        text formatted = {0};
        tuff__config_format(config, &formatted);
        printf("\t%llu\t%s", (unsigned long long)tuff__device_info(self->device)->local_memory_size,
               tuff__text_get(&formatted));
        tuff__text_free(&formatted);
    }
    printf("\n");
}

static bool write_launch(const writer *self, const launch_list *list, int index, const char *name,
                         const tune_config *config)
{
    launch *kernel = &list->launches[index];
    const int before = count_before(list, index);
    char number[16] = "", units[16] = "", file[4096], whole[256], function[KERNEL_NAME];
    assembly made;
    if (kernel->kind != LAUNCH_KERNEL)
        return true;
    if (tuff__launch_assemble(list, kernel, function, &made) != TUFF_OK)
        return false;
    if (before > 0)
        snprintf(number, sizeof number, ".%d", before + 1);
    if (self->lanes > 0)
        snprintf(units, sizeof units, ".%u", self->lanes);
    const char *source = tuff__text_get(&made.source);
    snprintf(whole, sizeof whole, "%s.%s%s", name, kernel->body, number);
    snprintf(file, sizeof file, "%s/%s%s.%s", self->folder, whole, units,
             strncmp(source, "#version", 8) == 0 ? "comp" : "cl");
    const bool written = write_text(file, source);
    tuff__assembly_free(&made);
    print_line(self, kernel, file, whole, config);
    return written;
}

/* Lowers a task as the tuner does. If there is no such kernel, *exists is false, and used_tunables is set anyway.
   Returns whether lowering did not fail for another reason. The caller frees the launches that exist. */
static bool lower_candidate(const writer *self, const tuff_plan *plan, int task, const tune_config *config,
                            tune_config *used_tunables, launch_list *out, bool *exists)
{
    const tuff_compile_options options = {.family = self->family};
    *used_tunables = (tune_config){0};
    const tuff_status status =
        tuff__lower_task(self->device, &plan->fusion, &options, task, config, used_tunables, out);
    *exists = status == TUFF_OK;
    if (*exists)
        tuff__plan_placeholders(out);
    return *exists || status == TUFF_E_UNSUPPORTED || status == TUFF_E_LIMIT;
}

static bool write_launches(const writer *self, const launch_list *list, const char *name, const tune_config *config)
{
    bool written = true;
    for (int i = 0; written && i < list->launch_count; i++)
        written = write_launch(self, list, i, name, config);
    return written;
}

/* Returns the number of candidates that searches begin with; 0 if the task has none, -1 after a failure. */
static int find_portfolio(const tuff_plan *plan, int task, tune_key *key, const char *const **candidates)
{
    const tuff_status status = tuff__task_key(&plan->fusion, task, key);
    *candidates = NULL;
    if (status != TUFF_OK)
        return status == TUFF_E_UNSUPPORTED ? 0 : -1;
    return tuff__portfolio_for_class(KERNELS_GPU, key->family, candidates);
}

/* Writes the kernels of a task with each candidate for its family, after which the graph must be named. */
static bool write_portfolio(const writer *self, const tuff_plan *plan, int task, const char *name)
{
    const char *const *candidates;
    tune_key key;
    bool written = true;
    const int count = find_portfolio(plan, task, &key, &candidates);
    const size_t length = count > 0 ? strlen(key.family) : 0;
    if (count < 0)
        return false;
    if (count == 0 || strncmp(name, key.family, length) != 0 || (name[length] != '\0' && name[length] != '.'))
        return true;
    for (int i = 0; written && i < count; i++) {
        tune_config config, used_tunables;
        launch_list launches;
        char whole[96];
        snprintf(whole, sizeof whole, "%s.%d.%d", name, task, i);
        bool exists;
        written = tuff__config_parse(candidates[i], &config) == TUFF_OK &&
                  lower_candidate(self, plan, task, &config, &used_tunables, &launches, &exists);
        if (!written || !exists)
            continue;
        written = write_launches(self, &launches, whole, &config);
        tuff__launch_list_free(&launches);
    }
    return written;
}

/* Draws a point of the space, or a few moves away from the default or from a candidate of the portfolio. */
static void draw_candidate(writer *self, const tune_space *space, const char *const *candidates, int count,
                           tune_config *out)
{
    enum { MOST_MOVES = 3 };
    if (tuff__rng_below(&self->random, 2) == 0) {
        tuff__space_random(space, &self->random, out);
        return;
    }
    const int start = tuff__rng_below(&self->random, count + 1);
    *out = (tune_config){0};
    if (start < count && tuff__config_parse(candidates[start], out) == TUFF_OK)
        tuff__space_fit(space, out);
    for (int moves = 1 + tuff__rng_below(&self->random, MOST_MOVES); moves > 0 && space->count > 0; moves--)
        (void)tuff__space_move(space, tuff__rng_below(&self->random, tuff__space_moves(space)), out);
}

/* Returns whether a program with this hash is new, and adds it to those seen. */
static bool is_new(uint64_t *seen, int *count, uint64_t hash)
{
    for (int i = 0; i < *count; i++)
        if (seen[i] == hash)
            return false;
    seen[(*count)++] = hash;
    return true;
}

/* Writes the kernels of candidates that are drawn from the task's space, which grows while it is drawn from. Equal
   programs count once, those equal to the default not at all. A small space has fewer than the wanted number. */
static bool write_space(writer *self, const tuff_plan *plan, int task, const char *name)
{
    enum { TRIES = 16 }; /* for each candidate that is wanted */
    const char *const *candidates;
    tune_space space = {0};
    tune_config config = {0}, used_tunables;
    tune_key key;
    const int count = find_portfolio(plan, task, &key, &candidates);
    uint64_t *seen = malloc(((size_t)self->draws + 1) * sizeof *seen);
    bool written = seen != NULL && count >= 0;
    int found = 0;
    for (int i = 0; written && i < TRIES * self->draws && found < self->draws + 1; i++) {
        launch_list launches;
        task_estimate estimate;
        char whole[96];
        if (i > 0)
            draw_candidate(self, &space, candidates, count, &config);
        bool exists;
        written = lower_candidate(self, plan, task, &config, &used_tunables, &launches, &exists);
        tuff__space_add_tunables(&space, &used_tunables);
        if (!exists)
            continue;
        tuff__estimate_launches(&launches, &estimate);
        tuff__config_trim(&config, &used_tunables);
        snprintf(whole, sizeof whole, "%s.%d.%d", name, task, found);
        if (is_new(seen, &found, estimate.kernels) && i > 0)
            written = write_launches(self, &launches, whole, &config);
        tuff__launch_list_free(&launches);
    }
    free(seen);
    return written;
}

/* Lowers the plan but does not record it, so that the device need not compile kernels meant for other GPUs. */
static bool write_plan(writer *self, tuff_graph *graph, const char *name)
{
    const tuff_compile_options options = {.family = self->family};
    tuff_plan *plan = NULL;
    bool written = graph->status == TUFF_OK && tuff__plan_create(graph, &options, NULL, &plan) == TUFF_OK;
    if (written && self->source == DEFAULTS)
        written = write_launches(self, &plan->executable.launches, name, NULL);
    for (int i = 0; written && self->source != DEFAULTS && i < plan->fusion.task_count; i++)
        written = self->source == PORTFOLIO ? write_portfolio(self, plan, i, name) : write_space(self, plan, i, name);
    if (!written)
        fprintf(stderr, "%s: %s\n", name, graph->status == TUFF_OK ? tuff_error() : graph->message);
    tuff_plan_destroy(plan);
    return written;
}

static bool write_case(writer *self, const kernel_case *one)
{
    tuff_graph *graph = tuff_graph_create(self->device);
    if (!graph)
        return false;
    one->build(one, graph);
    const bool written = write_plan(self, graph, one->name);
    tuff_graph_destroy(graph);
    return written;
}

/* Writes a step of AdamW for one parameter matrix. */
static bool write_adamw(writer *self)
{
    static const int axes[] = {0, 1};
    const tuff_parameter_spec specs[] = {{.name = "w", .shape = TUFF_SHAPE(SIDE, 1024)}};
    const tuff_optimizer_options options = {.weight_decay = 0.1, .clip_norm = 1};
    bool written = false;
    tuff_graph *graph = tuff_graph_create(self->device);
    tuff_parameters *parameters = tuff_parameters_create(self->device, specs, 1);
    tuff_optimizer *optimizer = parameters ? tuff_optimizer_create(parameters, &options) : NULL;
    if (graph && optimizer) {
        tuff_graph_step(graph, tuff_optimizer_counter(optimizer));
        tuff_tensor *w = tuff_array_tensor(graph, tuff_parameters_at(parameters, 0, NULL));
        tuff_tensor *g = tuff_input(graph, "g", TUFF_F32, TUFF_SHAPE(SIDE, 1024));
        tuff_tensor *loss = tuff_sum(tuff_mul(w, g), axes, 2, false);
        tuff_output(graph, "loss", loss);
        written = tuff_optimizer_apply(optimizer, loss, NULL) == TUFF_OK && write_plan(self, graph, "adamw");
    }
    tuff_graph_destroy(graph);
    tuff_optimizer_destroy(optimizer);
    tuff_parameters_destroy(parameters);
    return written;
}

/* GPUs like the large ones of each vendor. */
static const struct {
    const char *name;
    uint32_t units, local_memory;
    int choices[2]; /* of AS_OPTION; the second has other matrix units; 0: none */
} vendors[] = {{"intel", 512, 65536, {1, 4}}, {"amd", 96, 65536, {2, 5}}, {"nvidia", 132, 49152, {3, 6}}};
enum { VENDORS = sizeof vendors / sizeof *vendors };

static void override_vendor(tuff_device *device, int vendor, int choice, bool with_matrices)
{
    override_gpu(device, choice);
    tuff_device_info as = *tuff__device_info(device);
    as.compute_units = vendors[vendor].units;
    as.max_group_size = 1024;
    as.local_memory_size = vendors[vendor].local_memory;
    as.memory_size = as.max_allocation = as.max_binding = UINT64_C(4) << 30;
    as.half_arithmetic = true;
    if (!with_matrices)
        as.cooperative_matrix = TUFF_MATRIX_NONE;
    tuff__device_override_info(device, &as);
}

/* Index of a vendor; VENDORS if it is unknown. */
static int find_vendor(const char *name)
{
    int found = 0;
    while (found < VENDORS && strcmp(vendors[found].name, name) != 0)
        found++;
    return found;
}

static bool write_cases(writer *self, const kernel_case *given, size_t count)
{
    bool written = true;
    for (size_t i = 0; written && i < count; i++)
        written = write_case(self, &given[i]);
    return written;
}
#define WRITE_CASES(self, given) write_cases(self, given, sizeof(given) / sizeof *(given))

typedef struct self_test_writer {
    const writer *to;
    int count;
} self_test_writer;

static tuff_status write_program(void *state, const program_request *request)
{
    self_test_writer *self = state;
    char file[4096];
    snprintf(file, sizeof file, "%s/self_test.%d.%u.%s", self->to->folder, self->count, self->to->lanes,
             strncmp(request->text, "#version", 8) == 0 ? "comp" : "cl");
    if (!write_text(file, request->text))
        return TUFF_E_IO;
    printf("%s\tself_test.%d\t1\t%u\t%u\n", file, self->count++, (unsigned)request->local_size, self->to->lanes);
    return TUFF_OK;
}

/* In OpenCL C only Intel's drivers claim the standard's subgroups. */
static bool write_self_test(const writer *self)
{
    enum { INTEL = 0x8086 };
    self_test_writer to = {.to = self};
    tuff_device_info claims = *tuff__device_info(self->device);
    claims.half_arithmetic = claims.int64 = claims.narrow_storage = true;
    if (!tuff__device_takes_glsl(self->device) && claims.vendor_id != INTEL) {
        claims.subgroup_size = 0;
        claims.subgroup_shuffle = false;
    }
    tuff__device_override_info(self->device, &claims);
    return tuff__device_self_test_programs(self->device, write_program, &to) == TUFF_OK;
}

/* Writes the kernels of the portfolio for GPUs that have the given units. */
static bool write_portfolio_kernels(writer *self)
{
    bool written = true;
    for (size_t i = 0; written && i < sizeof portfolio_cases / sizeof *portfolio_cases; i++)
        if ((portfolio_cases[i].dtype != TUFF_F32) == (self->lanes > 0))
            written = write_case(self, &portfolio_cases[i]);
    return written;
}

static bool write_vector_kernels(writer *self)
{
    if (self->source == SELF_TEST)
        return write_self_test(self);
    return WRITE_CASES(self, cases) && write_adamw(self) &&
           (self->source == DEFAULTS || WRITE_CASES(self, space_cases));
}

static bool write_unit_kernels(writer *self)
{
    const bool has_warpgroups = tuff__device_info(self->device)->matrix_warpgroup;
    bool written = true;
    if (self->source == SELF_TEST)
        return write_self_test(self);
    for (size_t i = 0; written && i < sizeof unit_cases / sizeof *unit_cases; i++)
        if (!has_warpgroups || unit_cases[i].build == build_matmul) /* warpgroups have no others */
            written = write_case(self, &unit_cases[i]);
    return written && (self->source == DEFAULTS || WRITE_CASES(self, space_unit_cases));
}

/* Writes the kernels without matrix units, then those of each kind of unit. The latter only in OpenCL C, because no
   compiler here takes them in GLSL. */
static bool write_all(writer *self, int vendor)
{
    const bool portfolio = self->source == PORTFOLIO;
    override_vendor(self->device, vendor, vendors[vendor].choices[0], false);
    bool written = portfolio ? write_portfolio_kernels(self) : write_vector_kernels(self);
    for (int k = 0; k < 2 && vendors[vendor].choices[k] > 0 && !tuff__device_takes_glsl(self->device); k++) {
        override_vendor(self->device, vendor, vendors[vendor].choices[k], true);
        const tuff_device_info *info = tuff__device_info(self->device);
        self->lanes = info->matrix_warpgroup ? 128 : info->matrix_lanes;
        written = written && (portfolio ? write_portfolio_kernels(self) : write_unit_kernels(self));
    }
    return written;
}

static bool find_family(const char *name, tuff_family *family)
{
    const size_t length = strlen(name);
    int index = 0;
    for (const char *at = tuff__family_names(); at; at = strchr(at, '|'), index++) {
        at += *at == '|';
        if (strncmp(at, name, length) == 0 && (at[length] == '|' || !at[length])) {
            *family = (tuff_family)index;
            return true;
        }
    }
    return false;
}

/* Reads what to write: FAMILY, portfolio, self-test, or space DRAWS SEED. */
static bool read_source(writer *self, int count, char **arguments)
{
    self->family = TUFF_FAMILY_DEVICE;
    if (count == 3 && strcmp(arguments[0], "space") == 0) {
        self->source = SPACE;
        self->draws = atoi(arguments[1]);
        self->random.state = strtoull(arguments[2], NULL, 10);
        return self->draws > 0;
    }
    const bool is_portfolio = strcmp(arguments[0], "portfolio") == 0;
    if (count == 1 && (is_portfolio || strcmp(arguments[0], "self-test") == 0)) {
        self->source = is_portfolio ? PORTFOLIO : SELF_TEST;
        return true;
    }
    return count == 1 && find_family(arguments[0], &self->family);
}

int main(int count, char **arguments)
{
    enum { EXIT_NO_DEVICE = 77, FIRST = 4 };
    if (count <= FIRST)
        return EXIT_USAGE;
    writer self = {.device = tuff_device_open(arguments[2]), .folder = arguments[1]};
    if (!self.device) {
        fprintf(stderr, "%s\n", tuff_error());
        return EXIT_NO_DEVICE;
    }
    const int vendor = find_vendor(arguments[3]);
    bool written = vendor < VENDORS && read_source(&self, count - FIRST, arguments + FIRST);
    if (!written)
        fprintf(stderr, "unknown vendor \"%s\", or no such kernels: \"%s\"\n", arguments[3], arguments[FIRST]);
    written = written && write_all(&self, vendor);
    tuff_device_close(self.device);
    return written ? EXIT_SUCCESS : EXIT_FAILURE;
}
