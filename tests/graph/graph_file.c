/* Graph files: a loaded graph compiles to the same plan and gives the same bits. Files that are truncated, corrupted,
   of other versions or invented lead to errors, allocate no more than in proportion to their size, and change
   nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "failing_memory.h"
#include "faulty_files.h"
#include "graph/blob/file.h"
#include "scratch_folder.h"
#include "tuff.h"

enum { FORMAT_AT = 8, LENGTH_AT = 16, BODY_AT = 40 };

/* A model to train: an embedding, dropout, a matmul, AdamW. */
typedef struct model {
    tuff_parameters *parameters;
    tuff_optimizer *optimizer;
    tuff_graph *graph;
} model;

static const tuff_parameter_spec specs[] = {{.name = "table", .shape = {2, {7, 16}}},
                                            {.name = "w", .shape = {2, {16, 8}}}};

static void build_model(tuff_device *device, model *out)
{
    out->parameters = tuff_parameters_create(device, specs, 2);
    out->optimizer =
        tuff_optimizer_create(out->parameters, &(tuff_optimizer_options){.kind = TUFF_ADAMW, .learning_rate = 0.01});
    out->graph = tuff_graph_create(device);
    assert_non_null(out->optimizer);
    tuff_tensor *tokens = tuff_input(out->graph, "tokens", TUFF_I32, TUFF_SHAPE(5));
    tuff_tensor *table = tuff_array_tensor(out->graph, tuff_parameters_find(out->parameters, "table"));
    tuff_tensor *w = tuff_array_tensor(out->graph, tuff_parameters_find(out->parameters, "w"));
    tuff_tensor *y = tuff_matmul(tuff_dropout(tuff_embedding(table, tokens), 0.25), w);
    tuff_tensor *loss = tuff_mean(tuff_mul(y, tuff_tanh(y)), (int[]){0, 1}, 2, false);
    tuff_output(out->graph, "loss", loss);
    assert_int_equal(tuff_optimizer_apply(out->optimizer, loss, NULL), TUFF_OK);
}

static void destroy_model(model *made)
{
    tuff_graph_destroy(made->graph);
    tuff_optimizer_destroy(made->optimizer);
    tuff_parameters_destroy(made->parameters);
}

static void save_model(model *made, const char *path, const tuff_compile_options *compile)
{
    tuff_array *arrays[2];
    const char *names[2];
    for (int i = 0; i < 2; i++)
        arrays[i] = tuff_parameters_at(made->parameters, i, &names[i]);
    const tuff_graph_save_options options = {
        .name = "training", .compile = compile, .arrays = arrays, .names = names, .array_count = 2};
    if (tuff_graph_save(made->graph, path, &options) != TUFF_OK)
        fail_msg("%s", tuff_error());
}

static tuff_graph *load(tuff_device *device, const char *path, tuff_graph_file_info *info)
{
    tuff_graph *graph = tuff_graph_load(device, path, info);
    if (!graph)
        fail_msg("%s", tuff_error());
    return graph;
}

static void expect_same_files(const char *a, const char *b)
{
    size_t sizes[2];
    char *first = scratch_read(a, &sizes[0]), *second = scratch_read(b, &sizes[1]);
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(first, second, sizes[0]);
    free(first);
    free(second);
}

static void write_weights(tuff_array *array)
{
    float values[128];
    const size_t size = (size_t)tuff_array_size(array);
    for (int i = 0; i < 128; i++)
        values[i] = (float)(i % 13 - 6) / 8;
    assert_int_equal(tuff_array_write(array, values, size), TUFF_OK);
}

/* Gets the losses of three steps, and the weights after them. */
static void train(tuff_plan *plan, tuff_array *table, tuff_array *w, float *losses, float *weights)
{
    const int32_t tokens[] = {0, 6, 3, 3, 1};
    write_weights(table);
    write_weights(w);
    assert_int_equal(tuff_plan_write(plan, "tokens", tokens, sizeof tokens), TUFF_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tuff_plan_run(plan), TUFF_OK);
        assert_int_equal(tuff_plan_read(plan, "loss", &losses[i], sizeof *losses), TUFF_OK);
    }
    assert_int_equal(tuff_array_read(w, weights, 128 * sizeof *weights), TUFF_OK);
}

static void expect_same_runs(model *made, tuff_graph *loaded, tuff_plan *built, tuff_plan *again)
{
    float losses[2][3], weights[2][128];
    uint64_t hashes[2][2];
    train(built, tuff_parameters_find(made->parameters, "table"), tuff_parameters_find(made->parameters, "w"),
          losses[0], weights[0]);
    train(again, tuff_graph_find_array(loaded, "table"), tuff_graph_find_array(loaded, "w"), losses[1], weights[1]);
    assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
    assert_memory_equal(weights[0], weights[1], sizeof weights[0]);
    assert_true(losses[0][0] != losses[0][2]);
    if (tuff_plan_hash(built, hashes[0]) != TUFF_OK)
        return; /* the reference device has none */
    assert_int_equal(tuff_plan_hash(again, hashes[1]), TUFF_OK);
    assert_memory_equal(hashes[0], hashes[1], sizeof hashes[0]);
}

static void expect_same_phases(const tuff_graph *a, const tuff_graph *b)
{
    assert_int_equal(a->node_count, b->node_count);
    for (int i = 0; i < a->node_count; i++)
        assert_int_equal(a->nodes[i]->phase, b->nodes[i]->phase);
    assert_int_equal(a->nodes[a->node_count - 1]->phase, TUFF_PHASE_OPTIMIZER);
}

static void save_and_load_again(tuff_device *device)
{
    const tuff_compile_options compile = {.memory_budget = 1 << 30,
                                          .precision = TUFF_PRECISION_BF16,
                                          .matmul_precision = TUFF_PRECISION_F16,
                                          .tuning = &(tuff_tune_options){.deterministic = true}};
    model made;
    tuff_graph_file_info info;
    build_model(device, &made);
    save_model(&made, scratch_path("first"), &compile);
    tuff_graph *loaded = load(device, scratch_path("first"), &info);
    assert_string_equal(info.name, "training");
    assert_true(info.compile.matmul_precision == compile.matmul_precision);
    assert_true(info.compile.precision == compile.precision && info.compile.memory_budget == compile.memory_budget);
    assert_true(info.deterministic && info.compile.tuning == NULL && info.format == 1);
    expect_same_phases(made.graph, loaded);
    info.compile.tuning = compile.tuning;
    assert_int_equal(tuff_graph_save(loaded, scratch_path("second"),
                                     &(tuff_graph_save_options){.name = info.name, .compile = &info.compile}),
                     TUFF_OK);
    expect_same_files("first", "second");
    tuff_plan *built = tuff_compile(made.graph, &compile), *again = tuff_compile(loaded, &info.compile);
    assert_true(built && again);
    expect_same_runs(&made, loaded, built, again);
    tuff_plan_destroy(built);
    tuff_plan_destroy(again);
    tuff_graph_destroy(loaded);
    destroy_model(&made);
}

static void a_loaded_graph_is_the_same(void **state)
{
    (void)state;
    for_drawn_drivers(save_and_load_again);
}

static tuff_device *reference(void)
{
    tuff_device *device = tuff_device_open("reference");
    assert_non_null(device);
    return device;
}

static void it_is_the_same_on_the_reference_device(void **state)
{
    (void)state;
    tuff_device *device = reference();
    save_and_load_again(device);
    tuff_device_close(device);
}

static void arrays_share_what_they_shared(void **state)
{
    (void)state;
    const float values[6] = {1, 2, 3, 4, 5, 6};
    float read[2];
    tuff_device *device = reference();
    tuff_graph *graph = tuff_graph_create(device);
    tuff_array *slab = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(6)),
               *part = tuff_array_view(slab, 3, TUFF_SHAPE(2));
    tuff_output(graph, "part", tuff_neg(tuff_array_tensor(graph, part)));
    tuff_assign(graph, slab, tuff_exp(tuff_array_tensor(graph, slab)));
    tuff__storage_mark_imported(slab->storage);
    const tuff_graph_save_options options = {.arrays = &part, .names = (const char *[]){"part"}, .array_count = 1};
    assert_int_equal(tuff_graph_save(graph, scratch_path("graph"), &options), TUFF_OK);
    tuff_graph *loaded = load(device, scratch_path("graph"), NULL);
    tuff_graph_array first, second;
    assert_int_equal(tuff_graph_array_count(loaded), 2);
    assert_int_equal(tuff_graph_array_at(loaded, 0, &first), TUFF_OK);
    assert_int_equal(tuff_graph_array_at(loaded, 1, &second), TUFF_OK);
    assert_int_equal(tuff_graph_array_at(loaded, 2, &second), TUFF_E_USAGE);
    assert_string_equal(first.name, "part");
    assert_string_equal(second.name, "");
    assert_true(first.is_assigned && second.is_assigned && tuff_graph_find_array(loaded, "part") == first.array);
    assert_true(!tuff_graph_find_array(loaded, "") && !tuff_graph_find_array(loaded, "slab"));
    assert_int_equal(tuff_array_write(second.array, values, sizeof values), TUFF_OK);
    assert_int_equal(tuff_array_read(first.array, read, sizeof read), TUFF_OK);
    assert_true(read[0] == 4 && read[1] == 5);
    assert_true(tuff__storage_is_imported(second.array->storage));
    assert_int_equal(tuff_graph_array_count(graph), 0);
    assert_int_equal(tuff_graph_array_count(NULL), -1);
    tuff_graph_destroy(loaded);
    tuff_graph_destroy(graph);
    tuff_array_destroy(part);
    tuff_array_destroy(slab);
    tuff_device_close(device);
}

/* Adds noise · tanh(w)² to the graph, and runs its gradient with respect to w. */
static void finish(tuff_graph *graph, tuff_array *weights, float *out)
{
    tuff_tensor *w = tuff_array_tensor(graph, weights), *gradient;
    tuff_tensor *y = tuff_tanh(w);
    tuff_tensor *loss = tuff_sum(tuff_mul(y, tuff_mul(y, tuff_random(graph, TUFF_SHAPE(4)))), (int[]){0}, 1, false);
    assert_int_equal(tuff_gradients(loss, &w, 1, &gradient), TUFF_OK);
    tuff_output(graph, "gradient", gradient);
    assert_int_equal(tuff_array_write(weights, (float[]){-1, 0.5f, 0.25f, 2}, 16), TUFF_OK);
    tuff_plan *plan = tuff_compile(graph, NULL);
    if (!plan || tuff_plan_run(plan) || tuff_plan_read(plan, "gradient", out, 16))
        fail_msg("%s", tuff_error());
    tuff_plan_destroy(plan);
}

static void a_loaded_graph_can_be_extended(void **state)
{
    (void)state;
    float wanted[4], got[4];
    tuff_device *device = reference();
    tuff_graph *graph = tuff_graph_create(device);
    tuff_array *weights = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(4));
    tuff_tensor *noise = tuff_random(graph, TUFF_SHAPE(4)); /* so that the next random op is the second one */
    tuff_output(graph, "tanh", tuff_add(noise, tuff_tanh(tuff_array_tensor(graph, weights))));
    const tuff_graph_save_options options = {.arrays = &weights, .names = (const char *[]){"w"}, .array_count = 1};
    assert_int_equal(tuff_graph_save(graph, scratch_path("graph"), &options), TUFF_OK);
    tuff_graph *loaded = load(device, scratch_path("graph"), NULL);
    finish(graph, weights, wanted);
    finish(loaded, tuff_graph_find_array(loaded, "w"), got);
    assert_memory_equal(wanted, got, sizeof wanted);
    tuff_output(loaded, "tanh", tuff_array_tensor(loaded, tuff_graph_find_array(loaded, "w")));
    assert_int_equal(tuff_graph_status(loaded), TUFF_E_USAGE); /* the name is taken */
    tuff_graph_destroy(loaded);
    tuff_graph_destroy(graph);
    tuff_array_destroy(weights);
    tuff_device_close(device);
}

/* Builds a graph with most features of a file in few bytes. */
static tuff_graph *small_graph(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    if (!graph)
        return NULL;
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(2, 3));
    tuff_tensor *weights = tuff_constant_data(graph, TUFF_F32, TUFF_SHAPE(3), (float[]){1, 2, 3});
    tuff_tensor *y = tuff_matmul(tuff_mul(x, weights), tuff_permute(x, (int[]){1, 0}));
    tuff_output(graph, "y", tuff_add(tuff_sum(y, (int[]){1}, 1, true), tuff_random(graph, TUFF_SHAPE(2, 1))));
    return graph;
}

typedef struct bytes {
    unsigned char *data;
    size_t size;
} bytes;

static bytes small_file(tuff_device *device)
{
    bytes out;
    tuff_graph *graph = small_graph(device);
    assert_int_equal(tuff_graph_save(graph, scratch_path("small"), NULL), TUFF_OK);
    tuff_graph_destroy(graph);
    out.data = (unsigned char *)scratch_read("small", &out.size);
    print_message("    %zu bytes\n", out.size);
    return out;
}

/* Reads from memory that ends exactly with the file, so that sanitizers detect reads beyond it. */
static tuff_status read_exactly(tuff_device *device, const void *data, size_t size, graph_memory memory)
{
    tuff_graph *graph;
    tuff_graph_file_info info;
    unsigned char *exact = malloc(size + (size == 0));
    assert_non_null(exact);
    if (size > 0)
        memcpy(exact, data, size);
    const tuff_status status = tuff__graph_file_read(device, exact, size, memory, &info, &graph);
    free(exact);
    assert_true((status == TUFF_OK) == (graph != NULL));
    if (graph) /* a graph that was read must be valid for the compiler */
        tuff_plan_destroy(tuff_compile(graph, NULL));
    tuff_graph_destroy(graph);
    return status;
}

static void a_part_of_a_file_is_an_error(void **state)
{
    (void)state;
    tuff_device *device = reference();
    bytes file = small_file(device);
    for (size_t size = 0; size < file.size; size++)
        assert_int_equal(read_exactly(device, file.data, size, GRAPH_ARRAYS), TUFF_E_FORMAT);
    assert_int_equal(read_exactly(device, file.data, file.size, GRAPH_ARRAYS), TUFF_OK);
    for (size_t size = BODY_AT; size < file.size; size++) { /* truncated, with a header that matches the length */
        unsigned char *part = malloc(size);
        assert_non_null(part);
        memcpy(part, file.data, size);
        for (int i = 0; i < 8; i++)
            part[LENGTH_AT + i] = (unsigned char)((size - BODY_AT) >> (8 * i));
        tuff__graph_file_set_hash(part, size);
        assert_int_equal(read_exactly(device, part, size, GRAPH_ARRAYS), TUFF_E_FORMAT);
        free(part);
    }
    free(file.data);
    tuff_device_close(device);
}

static void every_flipped_bit_is_found(void **state)
{
    (void)state;
    tuff_device *device = reference();
    bytes file = small_file(device);
    for (size_t i = 0; i < 8 * file.size; i++) {
        file.data[i / 8] ^= (unsigned char)(1 << i % 8);
        const tuff_status status = read_exactly(device, file.data, file.size, GRAPH_ARRAYS);
        const bool is_format = i / 8 >= FORMAT_AT && i / 8 < FORMAT_AT + 4;
        assert_true(status == TUFF_E_FORMAT || (is_format && status == TUFF_E_UNSUPPORTED));
        file.data[i / 8] ^= (unsigned char)(1 << i % 8);
    }
    free(file.data);
    tuff_device_close(device);
}

/* With a correct hash: an error, or another graph, with memory in proportion to the file's size. */
static void what_is_made_up_is_harmless(void **state)
{
    (void)state;
    static const uint64_t words[] = {0, 1, 0xff, 0x7fffffff, 0xffffffff, INT64_MAX, UINT64_MAX, UINT64_C(1) << 62};
    tuff_device *device = reference();
    bytes file = small_file(device);
    int read = 0, tried = 0;
    unsigned char *copy = malloc(file.size);
    assert_non_null(copy);
    for (size_t at = BODY_AT; at < file.size; at++)
        for (size_t w = 0; w < sizeof words / sizeof *words; w++)
            for (size_t width = 1; width <= 8; width *= 2) {
                memcpy(copy, file.data, file.size);
                for (size_t i = 0; i < width && at + i < file.size; i++)
                    copy[at + i] = (unsigned char)(words[w] >> (8 * i));
                tuff__graph_file_set_hash(copy, file.size);
                failing_memory_begin(0, false);
                tuff_graph *graph;
                tuff_graph_file_info info;
                read += tuff__graph_file_read(device, copy, file.size, GRAPH_PLACEHOLDERS, &info, &graph) == TUFF_OK;
                const bool is_small = graph && tuff__storage_size(graph->step_array->storage) < 1000000;
                tuff_graph_destroy(graph);
                assert_true(failing_memory_bytes() < 1000000);
                (void)failing_memory_end();
                tried += is_small && read_exactly(device, copy, file.size, GRAPH_ARRAYS) == TUFF_OK;
            }
    print_message("    %d damaged files were accepted, %d of them with arrays\n", read, tried);
    assert_true(tried <= read && tried > 0);
    free(copy);
    free(file.data);
    tuff_device_close(device);
}

static void other_formats_say_what_they_are(void **state)
{
    (void)state;
    tuff_device *device = reference();
    bytes file = small_file(device);
    file.data[FORMAT_AT] = 2;
    scratch_write("later", file.data, file.size);
    assert_null(tuff_graph_load(device, scratch_path("later"), NULL));
    assert_int_equal(tuff_last_status(), TUFF_E_UNSUPPORTED);
    assert_true(strstr(tuff_error(), "later: a graph file of format 2, written by a later version of tuff"));
    file.data[FORMAT_AT] = 1;
    unsigned char *name = file.data + BODY_AT;
    while (memcmp(name, "matmul", 6) != 0)
        name++;
    memcpy(name, "mat\nul", 6);
    tuff__graph_file_set_hash(file.data, file.size);
    assert_null(tuff_graph_parse(device, file.data, file.size, NULL));
    assert_int_equal(tuff_last_status(), TUFF_E_UNSUPPORTED);
    assert_true(strstr(tuff_error(), "has an op that this version of tuff does not know") &&
                !strchr(tuff_error(), '\n'));
    memcpy(file.data, "tensors!", 8);
    assert_null(tuff_graph_parse(device, file.data, file.size, NULL));
    assert_int_equal(tuff_last_status(), TUFF_E_FORMAT);
    free(file.data);
    tuff_device_close(device);
}

/* A graph with a constant, a pad with a fill value, and a counter. */
static tuff_graph *graph_of_values(tuff_device *device, tuff_array *counter, tuff_dtype dtype, node *nodes[2])
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_graph_step(graph, counter);
    tuff_tensor *constant = tuff_constant(graph, dtype, 1);
    tuff_tensor *pad = tuff_pad(tuff_input(graph, "x", dtype, TUFF_SHAPE(2)), (int64_t[]){1}, (int64_t[]){1}, 1);
    tuff_output(graph, "constant", constant);
    tuff_output(graph, "pad", pad);
    assert_int_equal(tuff_graph_status(graph), TUFF_OK);
    nodes[0] = constant->node;
    nodes[1] = pad->node;
    return graph;
}

static tuff_status save_and_load_it(tuff_device *device, const tuff_graph *graph)
{
    assert_int_equal(tuff_graph_save(graph, scratch_path("values"), NULL), TUFF_OK);
    tuff_graph *loaded = tuff_graph_load(device, scratch_path("values"), NULL);
    const tuff_status status = loaded ? TUFF_OK : tuff_last_status();
    tuff_graph_destroy(loaded);
    return status;
}

/* Kernels and their texts rely on the rounding and the checks of builders. */
static void values_that_no_builder_makes_are_refused(void **state)
{
    (void)state;
    static const struct {
        tuff_dtype dtype;
        double value;
        bool is_one;
    } tried[] = {{TUFF_I32, -7, true},    {TUFF_I32, 0.5, false},    {TUFF_I32, 3e9, false}, {TUFF_I32, NAN, false},
                 {TUFF_U32, -1, false},   {TUFF_U8, 255, true},      {TUFF_U8, 256, false},  {TUFF_BOOL, 2, false},
                 {TUFF_F32, NAN, true},   {TUFF_F32, 0.1, false},    {TUFF_F32, 0.5, true},  {TUFF_F16, 1e30, false},
                 {TUFF_F16, 65536, true}, {TUFF_F32, INFINITY, true}};
    tuff_device *device = reference();
    tuff_array *counter = tuff_array_create(device, TUFF_I32, TUFF_SCALAR);
    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++)
        for (int k = 0; k < 2; k++) {
            node *nodes[2];
            tuff_graph *graph = graph_of_values(device, counter, tried[i].dtype, nodes);
            nodes[k]->attributes.value = tried[i].value;
            assert_int_equal(save_and_load_it(device, graph), tried[i].is_one ? TUFF_OK : TUFF_E_FORMAT);
            tuff_graph_destroy(graph);
        }
    node *nodes[2];
    tuff_graph *graph = graph_of_values(device, counter, TUFF_F32, nodes);
    assert_int_equal(save_and_load_it(device, graph), TUFF_OK);
    counter->dtype = TUFF_F32;
    assert_int_equal(save_and_load_it(device, graph), TUFF_E_FORMAT);
    counter->dtype = TUFF_I32;
    counter->shape = TUFF_SHAPE(1);
    assert_int_equal(save_and_load_it(device, graph), TUFF_E_FORMAT);
    tuff_graph_destroy(graph);
    tuff_array_destroy(counter);
    tuff_device_close(device);
}

/* The graph's first number is the count of storages, and the next is the size of the first one. */
static void arrays_beyond_the_device_are_refused(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {UINT64_MAX, UINT64_C(1) << 62, UINT64_C(1) << 50};
    tuff_device *device = reference();
    bytes file = small_file(device);
    unsigned char *at = file.data + BODY_AT;
    while (memcmp(at, "\1\0\0\0\0\1\0\0\0\0\0\0\0", 13) != 0) /* a storage of 256 bytes */
        at++;
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 8; k++)
            at[4 + k] = (unsigned char)(sizes[i] >> (8 * k));
        tuff__graph_file_set_hash(file.data, file.size);
        assert_int_equal(read_exactly(device, file.data, file.size, GRAPH_ARRAYS), TUFF_E_LIMIT);
    }
    free(file.data);
    tuff_device_close(device);
}

static void expect_refused(const tuff_graph *graph, const char *path, const tuff_graph_save_options *options,
                           tuff_status wanted, const char *part)
{
    assert_int_equal(tuff_graph_save(graph, path, options), wanted);
    if (!strstr(tuff_error(), part))
        fail_msg("\"%s\" lacks \"%s\"", tuff_error(), part);
}

static void wrong_use_is_told(void **state)
{
    (void)state;
    char longest[5000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    tuff_device *device = reference();
    tuff_graph *graph = small_graph(device), *empty = tuff_graph_create(device), *wrong = tuff_graph_create(device);
    tuff_array *array = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(2)),
               *other = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(2));
    tuff_output(graph, "sum", tuff_add(tuff_array_tensor(graph, array), tuff_array_tensor(graph, other)));
    tuff_output(wrong, "", tuff_constant(wrong, TUFF_F32, 1));
    const char *path = scratch_path("graph");
    expect_refused(NULL, path, NULL, TUFF_E_USAGE, "the graph is NULL");
    expect_refused(graph, NULL, NULL, TUFF_E_USAGE, "the path is NULL");
    expect_refused(empty, path, NULL, TUFF_E_USAGE, "no outputs");
    expect_refused(wrong, path, NULL, TUFF_E_USAGE, "the name is empty");
    expect_refused(graph, path, &(tuff_graph_save_options){.name = longest}, TUFF_E_LIMIT, "63 bytes");
    expect_refused(graph, path, &(tuff_graph_save_options){.array_count = 1}, TUFF_E_USAGE, "array_count is 1");
    tuff_array *arrays[] = {array, other};
    tuff_graph_save_options names = {.arrays = arrays, .names = (const char *[]){"a", "a"}, .array_count = 2};
    expect_refused(graph, path, &names, TUFF_E_USAGE, "two arrays have the name \"a\"");
    names.names = (const char *[]){"a", NULL};
    expect_refused(graph, path, &names, TUFF_E_USAGE, "the name of array 1 is NULL");
    names.names = (const char *[]){"a", longest};
    expect_refused(graph, path, &names, TUFF_E_LIMIT, "4095 bytes");
    tuff_output(graph, longest, tuff_constant(graph, TUFF_F32, 1));
    expect_refused(graph, path, NULL, TUFF_E_LIMIT, "4095 bytes");
    assert_string_equal(scratch_list(), "");
    assert_null(tuff_graph_load(NULL, path, NULL));
    assert_null(tuff_graph_load(device, NULL, NULL));
    assert_null(tuff_graph_parse(device, NULL, 9, NULL));
    assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
    tuff_graph_destroy(graph);
    tuff_graph_destroy(empty);
    tuff_graph_destroy(wrong);
    tuff_array_destroy(array);
    tuff_array_destroy(other);
    tuff_device_close(device);
}

static void files_that_fail_leave_what_was(void **state)
{
    (void)state;
    tuff_device *device = reference();
    tuff_graph *graph = small_graph(device);
    size_t whole = 0;
    expect_refused(graph, scratch_path("nowhere/graph"), NULL, TUFF_E_IO, "nowhere");
    expect_refused(graph, scratch_folder(), NULL, TUFF_E_IO, "");
    assert_int_equal(tuff_graph_save(graph, scratch_path("graph"), NULL), TUFF_OK);
    free(scratch_read("graph", &whole));
    scratch_write("graph", "before", 6);
    bool hit = true;
    for (int i = 1; hit; i++) {
        faulty_files_begin(FAULT_ENOSPC, i, true);
        const tuff_status status = tuff_graph_save(graph, scratch_path("graph"), NULL);
        hit = faulty_files_end();
        size_t size;
        char *found = scratch_read("graph", &size);
        assert_true(status == TUFF_OK || !hit || status == TUFF_E_IO);
        assert_true(size == whole || (size == 6 && status != TUFF_OK));
        free(found);
    }
    for (int i = 1; i == 1 || hit; i++) {
        faulty_files_begin(FAULT_EIO, i, true);
        tuff_graph *loaded = tuff_graph_load(device, scratch_path("graph"), NULL);
        hit = faulty_files_end();
        assert_true(loaded || tuff_last_status() == TUFF_E_IO);
        tuff_graph_destroy(loaded);
    }
    assert_null(tuff_graph_load(device, scratch_folder(), NULL));
    assert_null(tuff_graph_load(device, scratch_path("nowhere"), NULL));
    assert_int_equal(tuff_last_status(), TUFF_E_IO);
    tuff_graph_destroy(graph);
    tuff_device_close(device);
}

static tuff_device *scarce;

static bool save_and_load(void)
{
    tuff_graph *graph = small_graph(scarce);
    const bool saved = graph && tuff_graph_save(graph, scratch_path("graph"), NULL) == TUFF_OK;
    tuff_graph *loaded = saved ? tuff_graph_load(scarce, scratch_path("graph"), NULL) : NULL;
    tuff_graph_destroy(loaded);
    tuff_graph_destroy(graph);
    return loaded != NULL;
}

static void memory_that_runs_out_is_told(void **state)
{
    (void)state;
    scarce = reference();
    print_message("    %lld requests\n", (long long)fail_each_request(save_and_load, NULL));
    tuff_device_close(scarce);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, scratch_folder_make, scratch_folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_loaded_graph_is_the_same),
        IN_FOLDER(it_is_the_same_on_the_reference_device),
        IN_FOLDER(arrays_share_what_they_shared),
        IN_FOLDER(a_loaded_graph_can_be_extended),
        IN_FOLDER(a_part_of_a_file_is_an_error),
        IN_FOLDER(every_flipped_bit_is_found),
        IN_FOLDER(what_is_made_up_is_harmless),
        IN_FOLDER(other_formats_say_what_they_are),
        IN_FOLDER(arrays_beyond_the_device_are_refused),
        IN_FOLDER(wrong_use_is_told),
        IN_FOLDER(files_that_fail_leave_what_was),
        IN_FOLDER(memory_that_runs_out_is_told),
        IN_FOLDER(values_that_no_builder_makes_are_refused),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
