/* Row kernels with additional work: columns summed along the way, prefetched rows, elements of 16 bits, and results
   that bypass the caches. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "configured_plan.h"
#include "device/state.h"
#include "differential.h"
#include "each_device.h"
#include "small_plans.h"
#include "kernels/config.h"
#include "tuff/profile.h"

typedef struct row_graph {
    const char *name;
    tuff_tensor *(*build)(tuff_tensor *x, tuff_tensor *gain, tuff_tensor *bias);
    tuff_shape shape;
    bool joins; /* all column sums join a row task on every CPU */
} row_graph;

static tuff_tensor *layer_norm(tuff_tensor *x, tuff_tensor *gain, tuff_tensor *bias)
{
    return tuff_layer_norm(x, gain, bias, 1, 1e-5);
}

static tuff_tensor *rms_norm(tuff_tensor *x, tuff_tensor *gain, tuff_tensor *bias)
{
    return tuff_rms_norm(tuff_add(x, bias), gain, 1, 1e-5);
}

static tuff_tensor *biased_softmax(tuff_tensor *x, tuff_tensor *gain, tuff_tensor *bias)
{
    return tuff_softmax(tuff_add(tuff_mul(x, gain), bias), -1);
}

/* Exponentials down to the smallest that drivers keep, which may flush denormals. */
static tuff_tensor *steep_softmax(tuff_tensor *x, tuff_tensor *gain, tuff_tensor *bias)
{
    tuff_tensor *steep = tuff_mul(x, tuff_constant(tuff_tensor_graph(x), TUFF_F32, 36));
    return tuff_softmax(tuff_add(steep, tuff_mul(gain, bias)), -1);
}

static void build_rows(tuff_graph *graph, const void *context)
{
    const row_graph *made = context;
    const int64_t columns = made->shape.extent[made->shape.rank - 1];
    tuff_tensor *x = float_input(graph, made->shape), *gain = float_input(graph, TUFF_SHAPE(columns));
    tuff_tensor *bias = float_input(graph, TUFF_SHAPE(columns));
    add_with_gradients(graph, made->build(x, gain, bias), (tuff_tensor *[]){x, gain, bias}, 3);
}

/* Small ones are a single work-item's work; 360 rows are split into blocks by a divisor; 509 is prime, so that rows and
   columns stay separate. */
static const row_graph graphs[] = {{"layer norm", layer_norm, {.rank = 2, .extent = {512, 24}}, true},
                                   {"layer norm, axes", layer_norm, {.rank = 3, .extent = {3, 160, 21}}, true},
                                   {"layer norm, long", layer_norm, {.rank = 2, .extent = {8192, 20}}, false},
                                   {"rms norm", rms_norm, {.rank = 2, .extent = {360, 35}}, true},
                                   {"rms norm, prime", rms_norm, {.rank = 2, .extent = {509, 17}}, false},
                                   {"softmax", biased_softmax, {.rank = 2, .extent = {384, 40}}, true},
                                   {"softmax, steep", steep_softmax, {.rank = 2, .extent = {256, 48}}, false}};
enum { GRAPHS = sizeof graphs / sizeof *graphs };

/* Rows that the lanes of a group share: several rows at a time, fewer in the last group, up to two vectors per lane; a
   row that is shorter than the group; rows of one and of several vectors per lane, with and without a remainder; and
   rows too long for registers, for any vector width. */
static const row_graph shared_graphs[] = {
    {"softmax, rows of a group", biased_softmax, {.rank = 2, .extent = {83, 30}}, false},
    {"rms norm, rows of a group", rms_norm, {.rank = 2, .extent = {49, 1}}, false},
    {"layer norm, rows of a group", layer_norm, {.rank = 3, .extent = {7, 11, 67}}, false},
    {"layer norm, two rows of a group", layer_norm, {.rank = 2, .extent = {35, 255}}, false},
    {"softmax, one vector", biased_softmax, {.rank = 2, .extent = {3, 64}}, false},
    {"rms norm, a rest", rms_norm, {.rank = 2, .extent = {2, 2053}}, false},
    {"layer norm, vectors", layer_norm, {.rank = 2, .extent = {3, 4096}}, false},
    {"softmax, long", biased_softmax, {.rank = 2, .extent = {1, 33001}}, false}};
enum { SHARED_GRAPHS = sizeof shared_graphs / sizeof *shared_graphs };

static void columns_are_right(tuff_device *device)
{
    static const tuff_compile_options ways[] = {{.family = TUFF_FAMILY_REGISTER}, {.family = TUFF_FAMILY_LOCAL}};
    for (int i = 0; i < GRAPHS; i++)
        for (int way = 0; way < 2; way++) {
            differential graph;
            differential_create(&graph, graphs[i].name, build_rows, &graphs[i], (uint64_t)i);
            assert_int_equal(differential_run(&graph, device, &ways[way]), 0);
            differential_destroy(&graph);
        }
}

/* Kernels whose lanes keep rows in registers ask for the subgroups whose lanes have the most; those of rows without a
   whole vector keep nothing. */
static void kept_rows_need_registers(tuff_device *device)
{
    static const tuff_compile_options local = {.family = TUFF_FAMILY_LOCAL};
    for (int i = 0; i < 2; i++) {
        tuff_graph *graph = tuff_graph_create(device);
        assert_non_null(graph);
        tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(7, i == 0 ? 64 : 3));
        tuff_output(graph, "y", tuff_sum(x, (int[]){1}, 1, false));
        tuff_plan *plan = lower_configured(graph, &local, TASK_ROW, NULL);
        assert_non_null(plan);
        assert_true(uses_body(plan, "row_local"));
        assert_int_equal(uses_kernel(plan, "row_local", "#define MANY_VALUES\n"), i == 0);
        assert_int_equal(uses_kernel(plan, "row_local", "#define ROW_STEPS 0\n"), i == 1);
        destroy_plan(plan, graph);
    }
}

static void shared_rows_are_right(tuff_device *device)
{
    static const tuff_compile_options local = {.family = TUFF_FAMILY_LOCAL};
    int drawn = 0;
    for (int i = 0; i < SHARED_GRAPHS; i++) {
        if (!is_drawn_for_device(device, i))
            continue;
        drawn++;
        differential graph;
        differential_create(&graph, shared_graphs[i].name, build_rows, &shared_graphs[i], (uint64_t)i);
        assert_int_equal(differential_run(&graph, device, &local), 0);
        differential_destroy(&graph);
    }
    if (drawn == 0)
        leave_out_device("no graph was drawn for it");
}

/* A GPU whose lanes read each other's registers. Local memory emulates that: the driver gets EXCHANGE and FROM_FIRST of
   exchange.cl and exchange.glsl in other words, or AMD's instructions. */
typedef struct exchange_case {
    uint32_t form, lanes;
    bool glsl;
} exchange_case;

static const exchange_case exchange_cases[] = {
    {TUFF_EXCHANGE_KHR, 8, true},      {TUFF_EXCHANGE_KHR, 32, true},  {TUFF_EXCHANGE_KHR, 64, true},
    {TUFF_EXCHANGE_KHR, 16, false},    {TUFF_EXCHANGE_AMD, 32, false}, {TUFF_EXCHANGE_AMD, 64, false},
    {TUFF_EXCHANGE_NVIDIA, 32, false},
};
enum { EXCHANGE_CASES = sizeof exchange_cases / sizeof *exchange_cases };

static const driver *plain_driver;
static const exchange_case *emulated_case;
static _Atomic int exchanging_kernels;

static const char cells_opencl[] =
    "float from_cell(__local float *cells, float x, uint lane)\n{\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n    cells[get_local_id(0)] = x;\n    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    return cells[lane];\n}\n";
static const char exchange_opencl[] =
    "#define EXCHANGE(x, step) from_cell(cells, x, LANE ^ (uint)(step))\n"
    "#define FROM_FIRST(x, count) from_cell(cells, x, LANE & ~((uint)(count) - 1u))\n";
/* Permutations by control word, and lanes by byte address within the subgroup, as LLVM documents them. */
static const char exchange_amd[] =
    "uint dpp_lane(uint lane, uint control)\n{\n"
    "    if (control < 0x100u)\n        return (lane & ~3u) + (control >> 2u * (lane & 3u) & 3u);\n"
    "    return control == 0x140u ? lane ^ 15u : control == 0x141u ? lane ^ 7u : 0u;\n}\n"
    "uint swizzle_lane(uint lane, uint pattern)\n{\n"
    "    return (lane & ~31u) | (((lane & 31u & (pattern & 31u)) | (pattern >> 5 & 31u)) ^ (pattern >> 10 & 31u));\n}\n"
    "#define INT_FROM(x, lane) as_int(from_cell(cells, as_float(x), lane))\n"
    "#define __builtin_amdgcn_mov_dpp(x, control, rows, banks, bound) INT_FROM(x, dpp_lane(LANE, control))\n"
    "#define __builtin_amdgcn_ds_swizzle(x, pattern) INT_FROM(x, swizzle_lane(LANE, pattern))\n"
    "#define __builtin_amdgcn_ds_bpermute(address, x) INT_FROM(x, (LANE & ~(EXCHANGE_LANES - 1u)) + (uint)(address) / "
    "4u % EXCHANGE_LANES)\n"
    "#define __builtin_amdgcn_readfirstlane(x) INT_FROM(x, LANE & ~(EXCHANGE_LANES - 1u))\n";
static const char exchange_glsl[] =
    "shared float cells[LOCAL_SIZE];\n"
    "float from_cell(float x, uint lane)\n{\n"
    "    barrier();\n    cells[gl_LocalInvocationID.x] = x;\n    barrier();\n    return cells[lane];\n}\n"
    "#undef EXCHANGE\n#undef FROM_FIRST\n"
    "#define EXCHANGE(x, step) from_cell(x, LANE ^ uint(step))\n"
    "#define FROM_FIRST(x, count) from_cell(x, LANE & ~(uint(count) - 1u))\n";

/* Returns the text with `added` in front of the first `mark`; the caller frees it. */
static char *with_text(const char *source, const char *mark, const char *added)
{
    const char *found = strstr(source, mark);
    assert_non_null(found);
    const size_t before = (size_t)(found - source), size = strlen(source) + strlen(added) + 1;
    char *made = malloc(size);
    assert_non_null(made);
    (void)snprintf(made, size, "%.*s%s%s", (int)before, source, added, found);
    return made;
}

static char *emulated_text(const char *source)
{
    static const char extension[] = "#extension GL_KHR_shader_subgroup_shuffle";
    if (emulated_case->glsl) {
        char *made = with_text(source, "#define BLOCK 128", exchange_glsl);
        memcpy(strstr(made, extension), "//", 2);
        return made;
    }
    char emulation[sizeof cells_opencl + sizeof exchange_amd];
    (void)snprintf(emulation, sizeof emulation, "%s%s", cells_opencl,
                   emulated_case->form == TUFF_EXCHANGE_AMD ? exchange_amd : exchange_opencl);
    char *prepared = with_text(source, "// How the lanes of a subgroup", emulation);
    char *made = with_text(prepared, "    __local float lanes", "    __local float cells[LOCAL_SIZE];\n");
    free(prepared);
    char *attribute = strstr(made, "__attribute__((intel_reqd_sub_group_size(SUBGROUP_WIDTH)))");
    if (attribute)
        memcpy(attribute, "//", 2);
    return made;
}

static tuff_status create_emulating(driver_device *device, const program_request *request, blob cached, blob *made,
                                    driver_program **out)
{
    program_request changed = *request;
    if (!strstr(request->text, "#define EXCHANGE_LANES"))
        return plain_driver->program_create(device, request, cached, made, out);
    char *emulation = emulated_text(request->text);
    changed.text = emulation;
    changed.subgroup_size = 0;
    exchanging_kernels++;
    const tuff_status status = plain_driver->program_create(device, &changed, (blob){0}, made, out);
    free(emulation);
    return status;
}

/* Describes the device as a GPU that exchanges registers as the case says. */
static void describe_exchange(tuff_device *device, uint32_t form, uint32_t lanes)
{
    device->info.device_class = TUFF_DEVICE_GPU_DISCRETE;
    device->info.local_is_global = false;
    device->info.exchange_form = form;
    device->info.exchange_lanes = lanes;
    device->info.compute_units = 2; /* which few rows fill, so that a group has several */
}

static void run_shared_graph(tuff_device *device, int index)
{
    static const tuff_compile_options local = {.family = TUFF_FAMILY_LOCAL};
    differential graph;
    differential_create(&graph, shared_graphs[index].name, build_rows, &shared_graphs[index], (uint64_t)index);
    assert_int_equal(differential_run(&graph, device, &local), 0);
    differential_destroy(&graph);
}

static void exchanged_rows_are_right(tuff_device *device)
{
    const tuff_device_info before = *tuff__device_info(device);
    driver emulating = *device->driver;
    plain_driver = device->driver;
    emulating.program_create = create_emulating;
    assert_int_equal(setenv("TUFF_CACHE_DIR", "", 1), 0);
    for (int i = 0; i < EXCHANGE_CASES; i++) {
        emulated_case = &exchange_cases[i];
        if (emulated_case->glsl != tuff__device_takes_glsl(device))
            continue;
        describe_exchange(device, emulated_case->form, emulated_case->lanes);
        device->driver = &emulating;
        exchanging_kernels = 0;
        for (int k = 0; k < SHARED_GRAPHS; k++)
            if (is_drawn_for_device_per_api(device, k + i))
                run_shared_graph(device, k);
        assert_true(exchanging_kernels > 0);
        device->driver = plain_driver;
    }
    describe_exchange(device, before.exchange_form, before.exchange_lanes);
    for (int k = 0; k < SHARED_GRAPHS && before.exchange_form != TUFF_EXCHANGE_NONE; k++)
        run_shared_graph(device, k);
    device->info = before;
    assert_int_equal(setenv("TUFF_CACHE_DIR", cache_folder(), 1), 0);
}

/* Whether 32 lanes exchange registers in groups of this size, of which each has several rows if there are many. */
static bool exchanges(tuff_device *device, int group_size, int64_t rows)
{
    static const tuff_compile_options local = {.family = TUFF_FAMILY_LOCAL};
    tune_config config = {0};
    tuff__config_set(&config, TUNABLE_row_local_local_size, group_size);
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    tuff_output(graph, "y", tuff_softmax(tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(rows, 64)), -1));
    tuff_plan *plan = lower_configured(graph, &local, TASK_ROW, &config);
    assert_non_null(plan);
    assert_true(uses_kernel(plan, "row_local", "#define GROUP_ROWS 1\n") == (rows == 1));
    const bool found = uses_kernel(plan, "row_local", "#define EXCHANGE_LANES 32\n");
    destroy_plan(plan, graph);
    return found;
}

/* Whole subgroups make up a group, and whole subgroups or an equal part of one a row; otherwise local memory combines
   all results, as it does without a proof. */
static void only_whole_subgroups_exchange(tuff_device *device)
{
    const tuff_device_info before = *tuff__device_info(device);
    describe_exchange(device, TUFF_EXCHANGE_KHR, 32);
    assert_true(exchanges(device, 64, 1));
    assert_true(exchanges(device, 96, 1));
    assert_true(exchanges(device, 64, 4096));
    assert_false(exchanges(device, 16, 1));
    assert_false(exchanges(device, 48, 1));
    assert_false(exchanges(device, 96, 4096));
    describe_exchange(device, TUFF_EXCHANGE_NONE, 0);
    assert_false(exchanges(device, 64, 1));
    device->info = before;
}

/* How a GPU of Intel's, 16 lanes of which share the registers of a thread, keeps rows of 512 elements of each input. */
typedef struct kept_row {
    uint32_t narrowest; /* words of a register */
    int inputs;
    bool exceeds; /* half of the registers */
} kept_row;

static int count_kept(launch_list *list, launch *kernel)
{
    char name[KERNEL_NAME];
    assembly made;
    int count = 0;
    assert_int_equal(tuff__launch_assemble(list, kernel, name, &made), TUFF_OK);
    for (const char *at = tuff__text_get(&made.source); (at = strstr(at, "vec kept")) != NULL; at++)
        count++;
    tuff__assembly_free(&made);
    return count;
}

/* The compiler gives lanes more registers if it can, else they keep less. */
static void check_kept_row(tuff_device *device, const kept_row *one)
{
    enum { FITTING = 4, ROWS = 6 }; /* enough for small groups, too few for several rows in each */
    const bool doubles = one->exceeds && !tuff__device_takes_glsl(device);
    device->info.min_subgroup_size = one->narrowest;
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    const tuff_shape rows = TUFF_SHAPE(ROWS, 512);
    tuff_tensor *sum = float_input(graph, rows);
    for (int i = 1; i < one->inputs; i++)
        sum = tuff_add(sum, float_input(graph, rows));
    tuff_output(graph, "y", tuff_sub(sum, tuff_reduce_max(sum, (int[]){1}, 1, true)));
    tuff_plan *plan = lower_configured(graph, &(tuff_compile_options){.family = TUFF_FAMILY_LOCAL}, TASK_ROW, NULL);
    assert_non_null(plan);
    launch_list *list = &plan->executable.launches;
    assert_int_equal(list->launch_count, 1);
    assert_true(uses_kernel(plan, "row_local", "#define ROW_STEPS 2\n"));
    assert_int_equal(uses_kernel(plan, "row_local", "#define MANY_REGISTERS\n"), doubles);
    assert_int_equal(list->launches[0].registers == REGISTERS_MANY, doubles);
    assert_int_equal(count_kept(list, &list->launches[0]), one->exceeds && !doubles ? FITTING : one->inputs);
    destroy_plan(plan, graph);
}

static void intel_keeps_what_fits(tuff_device *device)
{
    static const kept_row rows[] = {{8, 4, false}, {8, 5, true}, {8, 7, true}, {16, 7, false}};
    const tuff_device_info before = *tuff__device_info(device);
    describe_exchange(device, TUFF_EXCHANGE_KHR, 16);
    device->info.vendor_id = VENDOR_INTEL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_kept_row(device, &rows[i]);
    device->info = before;
}

/* Rows of 16-bit elements, alone or with f32 beside them. */
typedef struct narrow_rows {
    tuff_dtype dtype;
    int64_t columns;
} narrow_rows;

static const narrow_rows narrow_graphs[] = {
    {TUFF_F16, 8},     {TUFF_F16, 16},    {TUFF_F16, 24},    {TUFF_F16, 1000}, {TUFF_F16, 1001},
    {TUFF_F16, 1024},  {TUFF_BF16, 8},    {TUFF_BF16, 16},   {TUFF_BF16, 24},  {TUFF_BF16, 1000},
    {TUFF_BF16, 1001}, {TUFF_BF16, 1024}, {TUFF_F16, 40960},
};
enum { NARROW_GRAPHS = sizeof narrow_graphs / sizeof *narrow_graphs };

/* Results in 16 bits and in 32. */
static void build_narrow_rows(tuff_graph *graph, const void *context)
{
    const narrow_rows *made = context;
    const tuff_shape shape = TUFF_SHAPE(made->columns > 1024 ? 2 : 11, made->columns);
    tuff_tensor *gain = float_input(graph, TUFF_SHAPE(made->columns));
    tuff_tensor *bias = float_input(graph, TUFF_SHAPE(made->columns));
    for (int i = 0; i < 2; i++) {
        const tuff_dtype result = i == 0 ? made->dtype : TUFF_F32;
        tuff_tensor *x = tuff_cast(ranged_input(graph, made->dtype, shape, -1, 1), TUFF_F32);
        tuff_tensor *y = tuff_cast(ranged_input(graph, made->dtype, shape, -4, 4), TUFF_F32);
        add_output(graph, tuff_cast(layer_norm(x, gain, bias), result));
        add_output(graph, tuff_cast(tuff_softmax(y, -1), result));
    }
}

static void narrow_rows_are_right(tuff_device *device)
{
    static const tuff_compile_options local = {.family = TUFF_FAMILY_LOCAL};
    for (int i = 0; i < NARROW_GRAPHS; i++) {
        if (!is_drawn_for_device_per_api(device, i) || (!is_thorough() && drawn_turn("narrow rows", i, 4) != 0))
            continue;
        differential graph;
        differential_create(&graph, "narrow rows", build_narrow_rows, &narrow_graphs[i], (uint64_t)i);
        assert_int_equal(differential_run(&graph, device, &local), 0);
        differential_destroy(&graph);
    }
}

enum { NARROW_ROWS = 256 }; /* as many as fill the device, so that none is split */

/* Lowers a softmax of x, to which y is added if it is not NULL; its kernel is the first. */
static tuff_plan *lower_narrow(tuff_graph *graph, tuff_tensor *x, tuff_tensor *y)
{
    static const tuff_compile_options local = {.family = TUFF_FAMILY_LOCAL};
    tuff_tensor *wide = tuff_cast(x, TUFF_F32);
    tuff_output(graph, "out", tuff_cast(tuff_softmax(y ? tuff_add(wide, y) : wide, -1), TUFF_F16));
    tuff_plan *plan = lower_configured(graph, &local, TASK_ROW, NULL);
    assert_non_null(plan);
    assert_string_equal(plan->executable.launches.launches[0].body, "row_local");
    return plan;
}

/* Returns the elements of the vectors of the kernel, which must access memory in whole vectors. */
static int vector_of(tuff_graph *graph, tuff_tensor *x, tuff_tensor *y)
{
    tuff_plan *plan = lower_narrow(graph, x, y);
    launch_list *list = &plan->executable.launches;
    const int vector = list->launches[0].vec;
    char name[KERNEL_NAME], wanted[32];
    assembly made;
    assert_int_equal(tuff__launch_assemble(list, &list->launches[0], name, &made), TUFF_OK);
    (void)snprintf(wanted, sizeof wanted, "#define VEC %d\n", vector);
    assert_non_null(strstr(tuff__text_get(&made.source), wanted));
    assert_non_null(strstr(tuff__text_get(&made.source), "= LOADV_f16(b"));
    assert_null(strstr(tuff__text_get(&made.source), "= LOADI_"));
    assert_null(strstr(tuff__text_get(&made.source), "= LOADU_"));
    tuff__assembly_free(&made);
    destroy_plan(plan, graph);
    return vector;
}

static int vector_of_rows(tuff_device *device, int64_t columns)
{
    tuff_graph *graph = tuff_graph_create(device);
    return vector_of(graph, tuff_input(graph, "x", TUFF_F16, TUFF_SHAPE(NARROW_ROWS, columns)),
                     tuff_input(graph, "y", TUFF_F32, TUFF_SHAPE(columns)));
}

/* x + a part of y that begins within a vector of eight, or y in front of so many constants. */
static int vector_beside_part(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *y = tuff_input(graph, "y", TUFF_F32, TUFF_SHAPE(72));
    return vector_of(graph, tuff_input(graph, "x", TUFF_F16, TUFF_SHAPE(NARROW_ROWS, 64)),
                     tuff_slice(y, (int64_t[]){4}, (int64_t[]){68}, NULL));
}

static int vector_beside_pad(tuff_device *device, int64_t constants)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *y = tuff_input(graph, "y", TUFF_F32, TUFF_SHAPE(64 - constants));
    return vector_of(graph, tuff_input(graph, "x", TUFF_F16, TUFF_SHAPE(NARROW_ROWS, 64)),
                     tuff_pad(y, (int64_t[]){0}, (int64_t[]){constants}, 1));
}

/* Vectors of 16-bit elements have 16 bytes on GPUs with OpenCL, unless a row, or what is beside it, begins or ends
   within one. AMD's lanes keep one of them at most. */
static void narrow_rows_are_wide(tuff_device *device)
{
    const int wide = tuff__device_takes_glsl(device) ? 4 : 8;
    const tuff_device_info before = *tuff__device_info(device);
    describe_exchange(device, TUFF_EXCHANGE_NONE, 0);
    device->info.vendor_id = VENDOR_NVIDIA;
    for (int64_t columns = 8; columns <= 32768; columns *= 4) {
        assert_int_equal(vector_of_rows(device, columns), wide);
        assert_int_equal(vector_of_rows(device, columns + 4), 4);
    }
    assert_int_equal(vector_beside_part(device), 4);
    assert_int_equal(vector_beside_pad(device, 4), 4);
    assert_int_equal(vector_beside_pad(device, 8), wide);
    device->info.vendor_id = VENDOR_AMD;
    assert_int_equal(vector_of_rows(device, 2048), wide);
    assert_int_equal(vector_of_rows(device, 4096), 4);
    assert_int_equal(vector_of_rows(device, 16384), wide); /* too long to be kept */
    device->info = before;
}

/* As intel_keeps_what_fits: a vector of eight of what is computed needs registers, too. */
static void intel_keeps_narrow_rows(tuff_device *device)
{
    const tuff_device_info before = *tuff__device_info(device);
    describe_exchange(device, TUFF_EXCHANGE_KHR, 16);
    device->info.vendor_id = VENDOR_INTEL;
    device->info.min_subgroup_size = 8;
    for (int64_t columns = 2048; columns <= 4096; columns *= 2) {
        tuff_graph *graph = tuff_graph_create(device);
        tuff_plan *plan = lower_narrow(graph, tuff_input(graph, "x", TUFF_F16, TUFF_SHAPE(NARROW_ROWS, columns)), NULL);
        assert_int_equal(uses_kernel(plan, "row_local", "#define MANY_REGISTERS\n"),
                         columns == 4096 && !tuff__device_takes_glsl(device));
        destroy_plan(plan, graph);
    }
    device->info = before;
}

/* Only the sums of blocks remain for column tasks. */
static void columns_join_rows(tuff_device *device)
{
    if (tuff__device_info(device)->device_class != TUFF_DEVICE_CPU) {
        leave_out_device("only on CPUs do columns join rows");
        return;
    }
    for (int i = 0; i < GRAPHS; i++) {
        tuff_graph *graph = tuff_graph_create(device);
        build_rows(graph, &graphs[i]);
        tuff_plan *plan = compile_plan(graph);
        tuff_plan_info whole;
        int columns = 0, wide = 0;
        assert_int_equal(tuff_plan_describe(plan, &whole), TUFF_OK);
        for (int k = 0; k < whole.task_count; k++) {
            tuff_task_info task;
            assert_int_equal(tuff_plan_task(plan, k, &task), TUFF_OK);
            columns += strcmp(task.kind, "column") == 0;
            wide += strcmp(task.kind, "column") == 0 && task.items == (uint64_t)tuff_shape_count(graphs[i].shape);
        }
        assert_true(columns > 0);
        if (graphs[i].joins)
            assert_int_equal(wide, 0);
        destroy_plan(plan, graph);
    }
}

/* Rows that begin at every multiple of 16 bytes, with results of more than 32 MiB: x minus its row's maximum, and 2x +
   1. All are integers, so that nothing is rounded. */
enum { LARGE_ROWS = 2932, LARGE_COLUMNS = 2868 };

static float large_element(size_t i)
{
    return (float)((i * 7919 + i / LARGE_COLUMNS) % 4093);
}

static void expect_large(tuff_plan *plan, const char *name, const float *x, float *y)
{
    const size_t count = (size_t)LARGE_ROWS * LARGE_COLUMNS;
    size_t wrong = 0;
    assert_int_equal(tuff_plan_read(plan, name, y, count * sizeof *y), TUFF_OK);
    for (size_t row = 0; row < LARGE_ROWS; row++) {
        const float *from = x + row * LARGE_COLUMNS, *to = y + row * LARGE_COLUMNS;
        float greatest = from[0];
        for (size_t i = 0; i < LARGE_COLUMNS; i++)
            greatest = from[i] > greatest ? from[i] : greatest;
        for (size_t i = 0; i < LARGE_COLUMNS; i++)
            wrong += to[i] != (name[0] == 'r' ? from[i] - greatest : 2 * from[i] + 1);
    }
    assert_int_equal(wrong, 0);
}

static void large_results_are_right(tuff_device *device)
{
    const size_t count = (size_t)LARGE_ROWS * LARGE_COLUMNS;
    float *x = malloc(count * sizeof *x), *y = malloc(count * sizeof *y);
    assert_true(x && y);
    for (size_t i = 0; i < count; i++)
        x[i] = large_element(i);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *in = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(LARGE_ROWS, LARGE_COLUMNS));
    tuff_output(graph, "rows", tuff_sub(in, tuff_reduce_max(in, (int[]){1}, 1, true)));
    tuff_tensor *same = tuff_input(graph, "same", TUFF_F32, TUFF_SHAPE(LARGE_ROWS, LARGE_COLUMNS));
    tuff_tensor *doubled = tuff_mul(same, tuff_constant(graph, TUFF_F32, 2));
    tuff_output(graph, "map", tuff_add(doubled, tuff_constant(graph, TUFF_F32, 1)));
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_write(plan, "x", x, count * sizeof *x), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "same", x, count * sizeof *x), TUFF_OK);
    for (int run = 0; run < 2; run++) {
        run_plan(plan);
        expect_large(plan, "rows", x, y);
        expect_large(plan, "map", x, y);
    }
    destroy_plan(plan, graph);
    free(x);
    free(y);
}

static void columns_of_rows_are_right_on_all_drivers(void **state)
{
    (void)state;
    for_drawn_drivers(columns_are_right);
}

static void kept_rows_need_registers_on_all_drivers(void **state)
{
    (void)state;
    for_each_driver(kept_rows_need_registers);
}

static void shared_rows_are_right_on_all_drivers(void **state)
{
    (void)state;
    for_each_driver(shared_rows_are_right);
}

static void exchanged_rows_are_right_on_all_drivers(void **state)
{
    (void)state;
    for_each_driver(exchanged_rows_are_right);
}

static void only_whole_subgroups_exchange_on_all_drivers(void **state)
{
    (void)state;
    for_each_driver(only_whole_subgroups_exchange);
}

static void intel_keeps_what_fits_on_all_drivers(void **state)
{
    (void)state;
    for_each_driver(intel_keeps_what_fits);
}

static void narrow_rows_are_right_on_all_drivers(void **state)
{
    (void)state;
    for_each_driver(narrow_rows_are_right);
}

static void narrow_rows_are_wide_on_all_drivers(void **state)
{
    (void)state;
    for_each_driver(narrow_rows_are_wide);
}

static void intel_keeps_narrow_rows_on_all_drivers(void **state)
{
    (void)state;
    for_each_driver(intel_keeps_narrow_rows);
}

static void columns_join_rows_on_all_drivers(void **state)
{
    (void)state;
    for_drawn_drivers(columns_join_rows);
}

static void large_results_are_right_on_all_drivers(void **state)
{
    (void)state;
    for_each_driver(large_results_are_right);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_of_rows_are_right_on_all_drivers),
        cmocka_unit_test(kept_rows_need_registers_on_all_drivers),
        cmocka_unit_test(shared_rows_are_right_on_all_drivers),
        cmocka_unit_test(exchanged_rows_are_right_on_all_drivers),
        cmocka_unit_test(only_whole_subgroups_exchange_on_all_drivers),
        cmocka_unit_test(intel_keeps_what_fits_on_all_drivers),
        cmocka_unit_test(narrow_rows_are_right_on_all_drivers),
        cmocka_unit_test(narrow_rows_are_wide_on_all_drivers),
        cmocka_unit_test(intel_keeps_narrow_rows_on_all_drivers),
        cmocka_unit_test(columns_join_rows_on_all_drivers),
        cmocka_unit_test(large_results_are_right_on_all_drivers),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
