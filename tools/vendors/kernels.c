/* Writes the kernels of benchmark-sized graphs as a vendor's GPUs get them; no GPU is needed. Built and run by
   tools/check-loops and tools/check-vendors.

   Usage: kernels FOLDER DEVICE VENDOR FAMILY
          kernels FOLDER DEVICE VENDOR portfolio

   DEVICE is any device with the wanted language, VENDOR is intel, amd or nvidia, FAMILY a family of kernels (device,
   subgroup, cooperative, ...). Prints a tab-separated line for each kernel: its file, its name (the case, the body, and
   a number if the case has several with this body), the number of work-groups, the items of each, and the lanes of the
   matrix units of the GPU that it is for (0: it has none).

   portfolio: the kernels of every candidate for GPUs that a search begins with (src/search/portfolio_gpu.def), for
   graphs of its family, in f32 without matrix units, then in f16 with them. The name is then the graph, its number in
   the table among the candidates of the family, and the body. A candidate that gives no kernel is left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compile/task_key.h"
#include "device/device.h"
#include "exec/plan.h"
#include "graph/graph.h"
#include "kernels/tunables.h"
#include "search/portfolio.h"
#include "tools/inspect/override_gpu.h"
#include "tuff.h"

enum { SIDE = 4096 };

typedef struct writer {
    tuff_device *device;
    const char *folder;
    tuff_family family;
    unsigned lanes; /* of the matrix units, which distinguish file names; 0: none */
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

static void build_layer_norm(const kernel_case *self, tuff_graph *graph)
{
    tuff_tensor *x = matrix(graph, "x", self->dtype, self->rows, self->columns, false);
    tuff_tensor *gain = tuff_input(graph, "gain", TUFF_F32, TUFF_SHAPE(self->columns));
    tuff_tensor *bias = tuff_input(graph, "bias", TUFF_F32, TUFF_SHAPE(self->columns));
    tuff_output(graph, "out", tuff_layer_norm(x, gain, bias, 1, 1e-5));
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

/* Cases of the portfolio, named after their families; those in f16 are for matrix units. */
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
    {"attention.f16_64", build_attention_gradients, TUFF_F16, 32, 64, 2048, {false, false}},
    {"attention.f16_128", build_attention_gradients, TUFF_F16, 8, 128, 2048, {false, false}},
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

static bool write_launch(const writer *self, const launch_list *list, int index, const char *name)
{
    launch *kernel = &list->launches[index];
    const int before = count_before(list, index);
    char number[16] = "", units[16] = "", file[4096], function[KERNEL_NAME];
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
    snprintf(file, sizeof file, "%s/%s.%s%s%s.%s", self->folder, name, kernel->body, number, units,
             strncmp(source, "#version", 8) == 0 ? "comp" : "cl");
    const bool written = write_text(file, source);
    tuff__assembly_free(&made);
    printf("%s\t%s.%s%s\t%llu\t%u\t%u\n", file, name, kernel->body, number, (unsigned long long)kernel->groups,
           (unsigned)kernel->local_size, self->lanes);
    return written;
}

/* Lowers the plan but does not record it, so that the device need not compile kernels meant for other GPUs. */
static bool write_plan(const writer *self, tuff_graph *graph, const char *name)
{
    const tuff_compile_options options = {.family = self->family};
    tuff_plan *plan = NULL;
    bool written = graph->status == TUFF_OK && tuff__plan_create(graph, &options, NULL, &plan) == TUFF_OK;
    for (int i = 0; written && i < plan->executable.launches.launch_count; i++)
        written = write_launch(self, &plan->executable.launches, i, name);
    if (!written)
        fprintf(stderr, "%s: %s\n", name, graph->status == TUFF_OK ? tuff_error() : graph->message);
    tuff_plan_destroy(plan);
    return written;
}

/* Lowers the plan with a candidate for one of its tasks, and writes the kernels of that task. Nothing is written if
   there are none. */
static bool write_candidate(const writer *self, const tuff_plan *plan, int task, const tune_config *config,
                            const char *name)
{
    enum { MAX_TASKS = 64 };
    const tuff_compile_options options = {.family = TUFF_FAMILY_DEVICE};
    const tune_config *configs[MAX_TASKS] = {NULL};
    launch_list launches;
    bool written = true;
    if (plan->fusion.task_count > MAX_TASKS)
        return false;
    configs[task] = config;
    const tuff_status status = tuff__relower(&plan->executable.launches, &plan->fusion, &options, configs, &launches);
    if (status != TUFF_OK)
        return status == TUFF_E_UNSUPPORTED || status == TUFF_E_LIMIT;
    for (int i = 0; written && i < launches.launch_count; i++)
        if (launches.launches[i].task == task)
            written = write_launch(self, &launches, i, name);
    tuff__launch_list_free(&launches);
    return written;
}

/* Writes the kernels of a task with each candidate for its family. */
static bool write_candidates(const writer *self, const tuff_plan *plan, int task, const kernel_case *one)
{
    const char *const *candidates;
    tune_key key;
    const tuff_status known = tuff__task_key(&plan->fusion, task, &key);
    const size_t length = strlen(known ? "" : key.family);
    if (known != TUFF_OK || strncmp(one->name, key.family, length) != 0 ||
        (one->name[length] != '\0' && one->name[length] != '.'))
        return known == TUFF_OK || known == TUFF_E_UNSUPPORTED;
    const int count = tuff__portfolio_for_class(KERNELS_GPU, key.family, &candidates);
    bool written = true;
    for (int i = 0; written && i < count; i++) {
        tune_config config;
        char name[64];
        snprintf(name, sizeof name, "%s.%d.%d", one->name, task, i);
        written =
            tuff__config_parse(candidates[i], &config) == TUFF_OK && write_candidate(self, plan, task, &config, name);
    }
    return written;
}

static bool write_portfolio_case(const writer *self, const kernel_case *one)
{
    const tuff_compile_options options = {.family = TUFF_FAMILY_DEVICE};
    tuff_graph *graph = tuff_graph_create(self->device);
    tuff_plan *plan = NULL;
    if (!graph)
        return false;
    one->build(one, graph);
    bool written = graph->status == TUFF_OK && tuff__plan_create(graph, &options, NULL, &plan) == TUFF_OK;
    for (int i = 0; written && i < plan->fusion.task_count; i++)
        written = write_candidates(self, plan, i, one);
    if (!written)
        fprintf(stderr, "portfolio, %s: %s\n", one->name, graph->status == TUFF_OK ? tuff_error() : graph->message);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    return written;
}

static bool write_case(const writer *self, const kernel_case *one)
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
static bool write_adamw(const writer *self)
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

/* Writes the kernels for GPUs of the vendor that have the given units. */
static bool write_portfolio_kernels(const writer *self)
{
    bool written = true;
    for (size_t i = 0; written && i < sizeof portfolio_cases / sizeof *portfolio_cases; i++)
        if ((portfolio_cases[i].dtype == TUFF_F16) == (self->lanes > 0))
            written = write_portfolio_case(self, &portfolio_cases[i]);
    return written;
}

static bool write_vector_kernels(const writer *self)
{
    bool written = true;
    for (size_t i = 0; written && i < sizeof cases / sizeof *cases; i++)
        written = write_case(self, &cases[i]);
    return written && write_adamw(self);
}

static bool write_unit_kernels(const writer *self)
{
    const bool has_warpgroups = tuff__device_info(self->device)->matrix_warpgroup;
    bool written = true;
    for (size_t i = 0; written && i < sizeof unit_cases / sizeof *unit_cases; i++)
        if (!has_warpgroups || unit_cases[i].build == build_matmul) /* warpgroups have no others */
            written = write_case(self, &unit_cases[i]);
    return written;
}

/* Writes the kernels without matrix units, then those of each kind of unit. The latter only in OpenCL C, because no
   compiler here takes them in GLSL. */
static bool write_all(writer *self, int vendor, bool portfolio)
{
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

int main(int count, char **arguments)
{
    enum { EXIT_NO_DEVICE = 77 };
    if (count != 5)
        return EXIT_USAGE;
    writer self = {.device = tuff_device_open(arguments[2]), .folder = arguments[1]};
    if (!self.device) {
        fprintf(stderr, "%s\n", tuff_error());
        return EXIT_NO_DEVICE;
    }
    const int vendor = find_vendor(arguments[3]);
    const bool portfolio = strcmp(arguments[4], "portfolio") == 0;
    bool written = vendor < VENDORS && (portfolio || find_family(arguments[4], &self.family));
    if (!written)
        fprintf(stderr, "unknown vendor \"%s\" or family \"%s\"\n", arguments[3], arguments[4]);
    written = written && write_all(&self, vendor, portfolio);
    tuff_device_close(self.device);
    return written ? EXIT_SUCCESS : EXIT_FAILURE;
}
