/* Writes the kernels of benchmark-sized graphs as a vendor's GPUs get them; no GPU is needed. Built and run by
   tools/check-loops.

   Usage: kernels FOLDER DEVICE VENDOR FAMILY

   DEVICE is any device with the wanted language, VENDOR is intel, amd or nvidia, FAMILY a family of kernels (device,
   subgroup, cooperative, ...). Prints a tab-separated line for each kernel: its file, its name (the case, the body, and
   a number if the case has several with this body), the number of work-groups, and the items of each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "exec/plan.h"
#include "graph/graph.h"
#include "kernels/tunables.h"
#include "tools/inspect/override_gpu.h"
#include "tuff.h"

enum { SIDE = 4096 };

typedef struct writer {
    tuff_device *device;
    const char *folder;
    tuff_family family;
    char units[16]; /* suffix of file names, by the kind of matrix units: their number of lanes */
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

/* A token that is generated: one query, whose keys several groups share. */
static void build_attention_of_one_query(const kernel_case *self, tuff_graph *graph)
{
    const tuff_shape keys = TUFF_SHAPE(1, self->inner, self->rows, self->columns);
    tuff_tensor *q = tuff_input(graph, "q", self->dtype, TUFF_SHAPE(1, 1, self->rows, self->columns));
    tuff_tensor *k = tuff_input(graph, "k", self->dtype, keys), *v = tuff_input(graph, "v", self->dtype, keys);
    tuff_output(graph, "out", tuff_attention(q, k, v, &(tuff_attention_options){.causal = true}));
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

static const kernel_case cases[] = {
    {"matmul_f32_nn", build_matmul, TUFF_F32, SIDE, SIDE, SIDE, {false, false}},
    {"matmul_f32_nt", build_matmul, TUFF_F32, SIDE, SIDE, SIDE, {false, true}},
    {"matmul_f32_tn", build_matmul, TUFF_F32, SIDE, SIDE, SIDE, {true, false}},
    {"matmul_f16_nn", build_matmul, TUFF_F16, SIDE, SIDE, SIDE, {false, false}},
    {"matmul_f16_nt", build_matmul, TUFF_F16, SIDE, SIDE, SIDE, {false, true}},
    {"matmul_bf16_nn", build_matmul, TUFF_BF16, SIDE, SIDE, SIDE, {false, false}},
    {"matmul_deep", build_matmul, TUFF_F32, 128, 128, 65536, {false, false}},
    {"row_f32", build_matmul, TUFF_F32, 1, SIDE, SIDE, {false, false}},
    {"row_f16_turned", build_matmul, TUFF_F16, 1, SIDE, SIDE, {false, true}},
    {"attention_64", build_attention, TUFF_F32, 8, 64, 2048, {false, false}},
    {"attention_128", build_attention, TUFF_F32, 8, 128, 2048, {false, false}},
    {"attention_f16_64", build_attention, TUFF_F16, 8, 64, 2048, {false, false}},
    {"attention_one_query", build_attention_of_one_query, TUFF_F32, 8, 64, SIDE, {false, false}},
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
    {"units_gradients_64", build_attention_gradients, TUFF_F16, 32, 64, 2048, {false, false}},
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
    char number[16] = "", file[4096], function[KERNEL_NAME];
    assembly made;
    if (kernel->kind != LAUNCH_KERNEL)
        return true;
    if (tuff__launch_assemble(list, kernel, function, &made) != TUFF_OK)
        return false;
    if (before > 0)
        snprintf(number, sizeof number, ".%d", before + 1);
    const char *source = tuff__text_get(&made.source);
    snprintf(file, sizeof file, "%s/%s.%s%s%s.%s", self->folder, name, kernel->body, number, self->units,
             strncmp(source, "#version", 8) == 0 ? "comp" : "cl");
    const bool written = write_text(file, source);
    tuff__assembly_free(&made);
    printf("%s\t%s.%s%s\t%llu\t%u\n", file, name, kernel->body, number, (unsigned long long)kernel->groups,
           (unsigned)kernel->local_size);
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

/* Writes the kernels without matrix units, then those of each kind of unit. The latter only in OpenCL C, because no
   compiler here takes them in GLSL. */
static bool write_all(writer *self, int vendor)
{
    bool written = true;
    override_vendor(self->device, vendor, vendors[vendor].choices[0], false);
    for (size_t i = 0; written && i < sizeof cases / sizeof *cases; i++)
        written = write_case(self, &cases[i]);
    written = written && write_adamw(self);
    for (int k = 0; k < 2 && vendors[vendor].choices[k] > 0 && !tuff__device_takes_glsl(self->device); k++) {
        override_vendor(self->device, vendor, vendors[vendor].choices[k], true);
        const tuff_device_info *info = tuff__device_info(self->device);
        snprintf(self->units, sizeof self->units, ".%u", info->matrix_warpgroup ? 128u : (unsigned)info->matrix_lanes);
        for (size_t i = 0; written && i < sizeof unit_cases / sizeof *unit_cases; i++)
            if (!info->matrix_warpgroup || unit_cases[i].build == build_matmul) /* warpgroups have no others */
                written = write_case(self, &unit_cases[i]);
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
    if (count != 5)
        return EXIT_USAGE;
    writer self = {.device = tuff_device_open(arguments[2]), .folder = arguments[1]};
    if (!self.device) {
        fprintf(stderr, "%s\n", tuff_error());
        return EXIT_FAILURE;
    }
    const int vendor = find_vendor(arguments[3]);
    bool written = vendor < VENDORS && find_family(arguments[4], &self.family);
    if (!written)
        fprintf(stderr, "unknown vendor \"%s\" or family \"%s\"\n", arguments[3], arguments[4]);
    written = written && write_all(&self, vendor);
    tuff_device_close(self.device);
    return written ? EXIT_SUCCESS : EXIT_FAILURE;
}
