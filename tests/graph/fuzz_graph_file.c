/* libFuzzer target for graph files. An input is refused or read, with host memory proportional to its size. It is also
   read with the length and hash in its header corrected, because otherwise nearly all mutations would be refused there.
   A graph that was read must compile or be refused by the compiler, and survive being written and read again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/blob/file.h"

enum { LENGTH_AT = 16, BODY_AT = 40 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *subject)
{
    if (!holds) {
        fprintf(stderr, "fuzz_graph_file: %s; last error: %s\n", subject, tuff_error());
        abort();
    }
}

static uint64_t requested;

static void *count_allocate(void *user, size_t size)
{
    (void)user;
    requested += size;
    return malloc(size);
}

static void *count_reallocate(void *user, void *block, size_t size)
{
    (void)user;
    requested += size;
    return realloc(block, size);
}

static void count_release(void *user, void *block)
{
    (void)user;
    free(block);
}

static tuff_device *device_of_all(void)
{
    static const tuff_allocator counting = {count_allocate, count_reallocate, count_release, NULL};
    static tuff_device *device;
    if (!device) {
        tuff_set_allocator(&counting);
        device = tuff_device_open("reference");
        require(device != NULL, "there is no reference device");
    }
    return device;
}

static tuff_graph *read_file(const void *data, size_t size, tuff_graph_file_info *info)
{
    tuff_graph *graph;
    requested = 0;
    const tuff_status status = tuff__graph_file_read(device_of_all(), data, size, GRAPH_PLACEHOLDERS, info, &graph);
    require(status == TUFF_OK || status == TUFF_E_FORMAT || status == TUFF_E_UNSUPPORTED, "another status");
    require((status == TUFF_OK) == (graph != NULL), "status and graph do not agree");
    require(requested <= 128 * size + 1048576, "too much memory was asked for");
    return graph;
}

static void write_file(const tuff_graph *graph, tuff_graph_file_info *info, text *out)
{
    const tuff_tune_options tuning = {.deterministic = info->deterministic};
    info->compile.tuning = &tuning;
    require(tuff__graph_file_write(graph, &(tuff_graph_save_options){.name = info->name, .compile = &info->compile},
                                   out) == TUFF_OK,
            "a graph that was read is not written");
}

static void check_round_trip(const tuff_graph *graph, tuff_graph_file_info *info)
{
    text first = {0}, second = {0};
    write_file(graph, info, &first);
    tuff_graph *again = read_file(first.data, first.length, info);
    require(again != NULL, "a written file is refused");
    write_file(again, info, &second);
    require(first.length == second.length && memcmp(first.data, second.data, first.length) == 0,
            "writing twice gives different bytes");
    tuff_graph_destroy(again);
    tuff__text_free(&first);
    tuff__text_free(&second);
}

static void check(const void *data, size_t size)
{
    tuff_graph_file_info info;
    tuff_graph *graph = read_file(data, size, &info);
    if (!graph)
        return;
    check_round_trip(graph, &info);
    tuff_plan_destroy(tuff_compile(graph, NULL));
    tuff_graph_destroy(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check(data, size);
    if (size <= BODY_AT)
        return 0;
    unsigned char *copy = malloc(size);
    require(copy != NULL, "no memory");
    memcpy(copy, data, size);
    for (size_t i = 0; i < 8; i++)
        copy[LENGTH_AT + i] = (unsigned char)((uint64_t)(size - BODY_AT) >> (8 * i));
    tuff__graph_file_set_hash(copy, size);
    check(copy, size);
    free(copy);
    return 0;
}
