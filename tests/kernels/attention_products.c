/* How many multiply-adds the kernels of attention for vector units execute, counted as they run: in each of them, every
   fma is replaced by a counter, so that all loops keep their bounds and their order. The counts must be those of the
   tiles that hold a pair of a query and a key that it sees, each computed once, and at most 1.2 times what these pairs
   need. The kernels are those that GPUs of each vendor get, on a CPU device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/device.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "configured_plan.h"
#include "device/state.h"
#include "each_device.h"
#include "graph/graph.h"
#include "opencl_replaced.h"
#include "tools/inspect/override_gpu.h"

enum { FORWARD, BACKWARD, KERNELS };
static const char *const bodies[KERNELS] = {"attention_local", "attention_backward_local"};

/* Work-items add to one of COUNTERS counters of their kernel, by their group, so that none overflows. */
enum { COUNTERS = 1024, MAX_PROGRAMS = 64 };

static const driver *real_driver;
static driver_buffer *counters;
static const driver_program *counting[MAX_PROGRAMS]; /* the programs that count */
static int counting_count;

/* Returns the kernel that a function is, or KERNELS. */
static int kernel_of(const char *function)
{
    int found = 0;
    while (found < KERNELS && strcmp(function + strlen("tuff_"), bodies[found]) != 0)
        found++;
    return found;
}

/* Returns a kernel that has a further buffer, and counts there instead of multiplying. The caller frees it. */
static char *counting_text(const char *source, int kernel)
{
    static const char words[] = "uint param_base, uint group_base)\n{";
    char begin[512], end[128];
    const char *function = strstr(source, "__kernel"), *body = function ? strstr(function, words) : NULL;
    const char *next_unit = body ? strstr(body, UNIT_SEPARATOR) : NULL;
    assert_non_null(body);
    const char *last = next_unit ? next_unit : source + strlen(source);
    while (*last != '}')
        last--;
    (void)snprintf(begin, sizeof begin, "__global uint *restrict counters, %s\n    uint executed = 0;\n", words);
    (void)snprintf(end, sizeof end, "    atomic_add(&counters[%d + get_group_id(0) %% %d], executed);\n",
                   kernel * COUNTERS, COUNTERS);
    static const char macro[] = "#define fma(x, y, sum) (executed += (uint)(sizeof(sum) / sizeof(float)), (sum))\n";
    const size_t size = strlen(source) + strlen(begin) + strlen(end) + sizeof macro;
    char *made = malloc(size);
    assert_non_null(made);
    (void)snprintf(made, size, "%.*s%s%.*s%s%.*s%s%s", (int)(function - source), source, macro, (int)(body - function),
                   function, begin, (int)(last - body - (ptrdiff_t)strlen(words)), body + strlen(words), end, last);
    return made;
}

static tuff_status create_counting(driver_device *device, const program_request *request, blob cached, blob *made,
                                   driver_program **out)
{
    const int kernel = kernel_of(request->name);
    if (kernel == KERNELS)
        return real_driver->program_create(device, request, cached, made, out);
    program_request changed = *request;
    char *source = counting_text(request->text, kernel);
    changed.text = source;
    changed.buffer_count++;
    const tuff_status status = real_driver->program_create(device, &changed, (blob){0}, made, out);
    free(source);
    assert_true(counting_count < MAX_PROGRAMS);
    if (status == TUFF_OK)
        counting[counting_count++] = *out;
    return status;
}

static bool is_counting(const driver_program *launched)
{
    for (int i = 0; i < counting_count; i++)
        if (counting[i] == launched)
            return true;
    return false;
}

static void destroy_counting(driver_device *device, driver_program *old)
{
    for (int i = 0; i < counting_count; i++)
        if (counting[i] == old)
            counting[i] = counting[--counting_count];
    real_driver->program_destroy(device, old);
}

/* Gives the programs that count their further buffer. */
static tuff_status record_counting(driver_device *device, const command *commands, int count, bool timed,
                                   driver_recording **out)
{
    command *changed = malloc((size_t)count * sizeof *changed);
    assert_non_null(changed);
    memcpy(changed, commands, (size_t)count * sizeof *changed);
    for (int i = 0; i < count; i++)
        if (changed[i].kind == COMMAND_DISPATCH && is_counting(changed[i].program))
            changed[i].bindings[changed[i].binding_count++] =
                (buffer_binding){counters, 0, KERNELS * COUNTERS * sizeof(uint32_t), true};
    const tuff_status status = real_driver->recording_create(device, changed, count, timed, out);
    free(changed);
    return status;
}

/* An attention of one batch over as many keys as queries. */
typedef struct shape {
    int64_t length, width, heads, window;
    bool causal;
} shape;

static tuff_tensor *input(tuff_graph *graph, const char *name, const shape *one)
{
    return tuff_input(graph, name, TUFF_F32, TUFF_SHAPE(1, one->length, one->heads, one->width));
}

/* Attention and all its gradients. */
static tuff_graph *build(tuff_device *device, const shape *one)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *inputs[3] = {input(graph, "q", one), input(graph, "k", one), input(graph, "v", one)}, *gradients[3];
    const tuff_attention_options options = {.causal = one->causal, .window = one->window};
    tuff_tensor *y = tuff_attention(inputs[0], inputs[1], inputs[2], &options);
    tuff_tensor *loss = tuff_sum(tuff_mul(y, input(graph, "g", one)), (int[]){0, 1, 2, 3}, 4, false);
    assert_int_equal(tuff_gradients(loss, inputs, 3, gradients), TUFF_OK);
    tuff_output(graph, "y", y);
    tuff_output(graph, "dq", gradients[0]);
    tuff_output(graph, "dk", gradients[1]);
    tuff_output(graph, "dv", gradients[2]);
    return graph;
}

/* Returns how many of the keys from first on, up to end, a query sees. */
static int64_t seen_keys(const shape *one, int64_t query, int64_t first, int64_t end)
{
    const int64_t before = one->window > 0 ? query - one->window + 1 : 0;
    const int64_t stop = one->causal ? query + 1 : one->length;
    const int64_t from = first > before ? first : before, to = end < stop ? end : stop;
    const int64_t last = to < one->length ? to : one->length;
    return last > from ? last - from : 0;
}

/* Returns the pairs of queries and keys in a tile that see each other. */
static int64_t pairs_in_tile(const shape *one, int64_t first_query, int64_t queries, int64_t first_key, int64_t keys)
{
    int64_t count = 0;
    for (int64_t q = first_query; q < first_query + queries && q < one->length; q++)
        count += seen_keys(one, q, first_key, first_key + keys);
    return count;
}

/* Returns the pairs in all tiles of that size that have any which see each other. */
static int64_t pairs_in_tiles(const shape *one, int64_t queries, int64_t keys)
{
    int64_t count = 0;
    for (int64_t q = 0; q < one->length; q += queries)
        for (int64_t k = 0; k < one->length; k += keys)
            count += pairs_in_tile(one, q, queries, k, keys) > 0 ? queries * keys : 0;
    return count;
}

/* Returns the number that the launches of a body define as `name`. */
static int64_t defined(const tuff_plan *plan, const char *body, const char *name)
{
    const launch_list *list = &plan->executable.launches;
    char line[64];
    (void)snprintf(line, sizeof line, "#define %s ", name);
    for (int i = 0; i < list->launch_count; i++) {
        const char *at = strcmp(list->launches[i].body, body) == 0 ? strstr(list->launches[i].defines, line) : NULL;
        if (at)
            return strtoll(at + strlen(line), NULL, 10);
    }
    fail_msg("no kernel %s with %s", body, name);
    return 0;
}

static void read_counts(tuff_device *device, uint64_t counts[KERNELS])
{
    static uint32_t values[KERNELS * COUNTERS];
    assert_int_equal(real_driver->buffer_read(device->handle, counters, 0, values, sizeof values), TUFF_OK);
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        counts[kernel] = 0;
        for (int i = 0; i < COUNTERS; i++)
            counts[kernel] += values[kernel * COUNTERS + i];
    }
    memset(values, 0, sizeof values);
    assert_int_equal(real_driver->buffer_write(device->handle, counters, 0, values, sizeof values), TUFF_OK);
}

/* What the inputs are does not matter to the counts. */
static tuff_status write_zeros(tuff_plan *plan, const shape *one)
{
    static const char *const names[] = {"q", "k", "v", "g"};
    const size_t count = (size_t)(one->length * one->heads * one->width);
    float *zeros = calloc(count, sizeof *zeros);
    tuff_status status = zeros ? TUFF_OK : TUFF_E_OOM_HOST;
    for (int i = 0; i < 4 && status == TUFF_OK; i++)
        status = tuff_plan_write(plan, names[i], zeros, count * sizeof *zeros);
    free(zeros);
    return status;
}

static void check_shape(tuff_device *device, const char *vendor, const shape *one)
{
    static const int products[KERNELS] = {2, 5};
    static const char *const tiles[KERNELS][2] = {{"BLOCK", "KEYS"}, {"BLOCK_QUERIES", "BLOCK_KEYS"}};
    uint64_t counts[KERNELS];
    tuff_graph *graph = build(device, one);
    tuff_plan *plan = tuff_compile(graph, NULL);
    if (plan == NULL || write_zeros(plan, one) != TUFF_OK || tuff_plan_run(plan) != TUFF_OK)
        fail_msg("%s: %s", vendor, tuff_error());
    assert_int_equal(tuff__device_drain(device), TUFF_OK);
    read_counts(device, counts);
    const int64_t needed = pairs_in_tile(one, 0, one->length, 0, one->length);
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        const int64_t queries = defined(plan, bodies[kernel], tiles[kernel][0]);
        const int64_t keys = defined(plan, bodies[kernel], tiles[kernel][1]);
        const int64_t each = products[kernel] * one->width * one->heads, expected = pairs_in_tiles(one, queries, keys);
        const double ratio = (double)counts[kernel] / (double)(each * needed);
        print_message("  %s, %s, %lld positions, heads of %lld%s%s: %.3f times the products needed\n", vendor,
                      bodies[kernel], (long long)one->length, (long long)one->width, one->causal ? ", causal" : "",
                      one->window > 0 ? ", window" : "", ratio);
        if (counts[kernel] != (uint64_t)(each * expected))
            fail_msg("%llu multiply-adds in tiles of %lld queries and %lld keys, expected %lld",
                     (unsigned long long)counts[kernel], (long long)queries, (long long)keys,
                     (long long)(each * expected));
        if (one->window == 0 && ratio > 1.2)
            fail_msg("%.3f times the multiply-adds that are needed", ratio);
    }
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

static const struct {
    const char *name;
    int choice; /* of override_gpu */
    uint32_t local_memory;
} vendors[] = {{"Intel", 1, 65536}, {"AMD", 2, 65536}, {"NVIDIA", 3, 49152}};
enum { VENDORS = sizeof vendors / sizeof *vendors };

/* Without what the CPU device cannot run: subgroups, instructions that read other lanes' registers, matrix units. It
   keeps the driver that counts. */
static void describe_as(tuff_device *device, int vendor)
{
    const driver *used = device->driver;
    override_gpu(device, vendors[vendor].choice);
    device->driver = used;
    tuff_device_info *as = &device->info;
    as->max_group_size = 1024;
    as->local_memory_size = vendors[vendor].local_memory;
    as->subgroup_size = as->proved_subgroup_size = as->min_subgroup_size = as->max_subgroup_size = 0;
    as->subgroup_shuffle = false;
    as->exchange_form = TUFF_EXCHANGE_NONE;
    as->exchange_lanes = 0;
    as->cooperative_matrix = TUFF_MATRIX_NONE;
}

static void check_shapes(tuff_device *device, int vendor)
{
    static const int64_t lengths[] = {2048, 1000}, widths[] = {64, 128};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            shape one = {.length = lengths[i], .width = widths[k], .heads = 2, .causal = true};
            if (!is_thorough() && drawn_turn("vendor of attention", VENDORS * (2 * i + k) + vendor, VENDORS) != 0)
                continue;
            check_shape(device, vendors[vendor].name, &one);
            one.causal = false;
            check_shape(device, vendors[vendor].name, &one);
            one = (shape){.length = lengths[i], .width = widths[k], .heads = 1, .causal = true, .window = 300};
            check_shape(device, vendors[vendor].name, &one);
        }
}

static void only_tiles_with_pairs_are_computed(void **state)
{
    (void)state;
    tuff_device *device = open_replaceable();
    if (device == NULL)
        skip();
    real_driver = device->driver;
    driver replaced = *real_driver;
    replaced.compiles_in_parallel = false; /* programs are noted in a list */
    replaced.program_create = create_counting;
    replaced.program_destroy = destroy_counting;
    replaced.recording_create = record_counting;
    device->driver = &replaced;
    const size_t size = KERNELS * COUNTERS * sizeof(uint32_t);
    uint64_t counts[KERNELS];
    assert_int_equal(real_driver->buffer_create(device->handle, size, &counters), TUFF_OK);
    read_counts(device, counts); /* and clear them */
    const tuff_device_info own = device->info;
    for (int vendor = 0; vendor < VENDORS; vendor++) {
        describe_as(device, vendor);
        check_shapes(device, vendor);
    }
    device->info = own;
    real_driver->buffer_destroy(device->handle, counters);
    device->driver = real_driver;
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_tiles_with_pairs_are_computed)};
    return cmocka_run_group_tests(tests, use_empty_cache, drop_cache);
}
#else
int main(void)
{
    return 77;
}
#endif
