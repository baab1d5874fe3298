/* Graph files, little-endian: 8 bytes of magic, u32 format, u32 zero, u64 length of the body, 16 bytes of XXH3-128 over
   the body; then the body: name and compile options, followed by the graph as tuff__graph_serialize writes it. A later
   format may change everything after the format number. */
#include "graph/blob/file.h"

#include <string.h>

#include "base/file/file.h"
#include "base/hash.h"
#include "graph/blob/blob.h"

enum { FORMAT = 1, FORMAT_AT = 8, HASH_AT = 24, HASH_SIZE = 16, BODY_AT = 40 };
/* Both precisions are stored as matmul_precision * PRECISIONS + precision. */
enum { PRECISIONS = TUFF_PRECISION_BF16 + 1 };
static const uint64_t file_limit = UINT64_C(1) << 30;
static const unsigned char magic[FORMAT_AT] = {'t', 'u', 'f', 'f', 0x8f, 'g', 0x0d, 0x0a};

static void put_options(const tuff_graph *graph, const tuff_graph_save_options *options, text *out)
{
    const tuff_compile_options defaults = {.fuse = TUFF_FUSE_ALL};
    const tuff_compile_options *compile = options->compile ? options->compile : &defaults;
    tuff__put_text(out, options->name);
    tuff__put_u32(out, compile->fuse);
    tuff__put_u32(out, compile->family);
    tuff__put_u32(out, compile->matmul_library);
    tuff__put_u32(out, compile->precision + compile->matmul_precision * PRECISIONS);
    tuff__put_u8(out, compile->barrier_everywhere);
    tuff__put_u64(out, compile->memory_budget);
    tuff__put_u8(out, compile->tuning && compile->tuning->deterministic);
    tuff__put_u8(out, graph->owns_step);
}

tuff_status tuff__graph_file_write(const tuff_graph *graph, const tuff_graph_save_options *options, text *out)
{
    const array_names names = {options->arrays, options->names, options->array_count};
    text body = {0};
    put_options(graph, options, &body);
    tuff_status status = tuff__graph_serialize(graph, &names, &body);
    if (status == TUFF_OK) {
        static const char no_hash[HASH_SIZE];
        tuff__text_add_bytes(out, (const char *)magic, sizeof magic);
        tuff__put_u32(out, FORMAT);
        tuff__put_u32(out, 0);
        tuff__put_u64(out, body.length);
        tuff__text_add_bytes(out, no_hash, sizeof no_hash);
        tuff__text_add_bytes(out, tuff__text_get(&body), body.length);
        status = tuff__text_status(out);
    }
    tuff__text_free(&body);
    if (status == TUFF_OK)
        tuff__graph_file_set_hash(out->data, out->length);
    return status;
}

static void put_number(unsigned char *at, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static void put_hash(unsigned char *at, const void *data, size_t size)
{
    const hash128 hash = tuff__hash(data, size);
    put_number(at, hash.low);
    put_number(at + 8, hash.high);
}

void tuff__graph_file_set_hash(void *data, size_t size)
{
    unsigned char *file = data;
    put_hash(file + HASH_AT, file + BODY_AT, size - BODY_AT);
}

static tuff_status check_saving(const tuff_graph *graph, const char *path, const tuff_graph_save_options *options)
{
    if (graph == NULL || path == NULL)
        return FAIL(TUFF_E_USAGE, "graph: the %s is NULL", graph == NULL ? "graph" : "path");
    if (graph->status != TUFF_OK)
        return FAIL(graph->status, "%s", graph->message);
    if (graph->output_count == 0 && graph->assign_count == 0)
        return FAIL(TUFF_E_USAGE, "graph: there are no outputs and no assignments: call tuff_output or tuff_assign");
    if (options->name != NULL && strlen(options->name) >= TUFF_GRAPH_NAME_SIZE)
        return FAIL(TUFF_E_LIMIT, "graph: the name is longer than %d bytes", TUFF_GRAPH_NAME_SIZE - 1);
    if (options->array_count < 0 || (options->array_count > 0 && (options->arrays == NULL || options->names == NULL)))
        return FAIL(TUFF_E_USAGE,
                    "graph: array_count is %d: it must not be negative, and arrays and names must not be NULL",
                    options->array_count);
    for (int i = 0; i < options->array_count; i++)
        if (options->names[i] == NULL)
            return FAIL(TUFF_E_USAGE, "graph: the name of array %d is NULL", i);
    return TUFF_OK;
}

tuff_status tuff_graph_save(const tuff_graph *graph, const char *path, const tuff_graph_save_options *options)
{
    const tuff_graph_save_options none = {.name = NULL};
    text file = {0};
    options = options ? options : &none;
    TRY(check_saving(graph, path, options));
    tuff_status status = tuff__graph_file_write(graph, options, &file);
    if (status == TUFF_OK && file.length > file_limit)
        status = FAIL(TUFF_E_LIMIT, "%s: the graph file would have %zu bytes, more than the limit of %llu", path,
                      file.length, (unsigned long long)file_limit);
    if (status == TUFF_OK)
        status = tuff__file_write(path, &(file_part){file.data, file.length}, 1, true, false);
    tuff__text_free(&file);
    return status;
}

/* Fails on values that are no enumerators of this version. */
static void read_compile_options(byte_reader *from, tuff_compile_options *out)
{
    out->fuse = (tuff_fuse_mode)tuff__get_below(from, TUFF_FUSE_NONE + 1);
    out->family = (tuff_family)tuff__get_below(from, TUFF_FAMILY_COOPERATIVE + 1);
    out->matmul_library = (tuff_matmul_library)tuff__get_below(from, TUFF_MATMUL_CLBLAST + 1);
    const int precisions = tuff__get_below(from, PRECISIONS * PRECISIONS);
    out->precision = (tuff_precision)(precisions % PRECISIONS);
    out->matmul_precision = (tuff_precision)(precisions / PRECISIONS);
    out->barrier_everywhere = tuff__get_bool(from);
    out->memory_budget = tuff__get_u64(from);
}

/* Checks the header, which has only one legal form, and the hash of the body. Sets *out to the body. */
static tuff_status open_body(const void *data, size_t size, byte_reader *out)
{
    byte_reader head = {.data = data, .size = size, .at = FORMAT_AT};
    const unsigned char *body = (const unsigned char *)data + BODY_AT;
    unsigned char hash[HASH_SIZE];
    if (size < BODY_AT || memcmp(data, magic, sizeof magic) != 0)
        return FAIL(TUFF_E_FORMAT, "not a graph file");
    const uint32_t format = tuff__get_u32(&head), zero = tuff__get_u32(&head);
    if (format > FORMAT)
        return FAIL(TUFF_E_UNSUPPORTED,
                    "a graph file of format %u, written by a later version of tuff: this version reads format %d",
                    (unsigned)format, FORMAT);
    if (format != FORMAT || zero != 0 || tuff__get_u64(&head) != size - BODY_AT)
        return FAIL(TUFF_E_FORMAT, "the graph file is damaged or truncated");
    put_hash(hash, body, size - BODY_AT);
    if (memcmp(body - HASH_SIZE, hash, HASH_SIZE) != 0)
        return FAIL(TUFF_E_FORMAT, "the graph file is damaged: its hash does not match");
    *out = (byte_reader){.data = body, .size = size - BODY_AT};
    return TUFF_OK;
}

/* Makes the counter the graph's own, like one that tuff_step creates. */
static tuff_status adopt_step_counter(tuff_graph *graph)
{
    const tuff_array *step = graph->step_array;
    if (step == NULL)
        return FAIL(TUFF_E_FORMAT, "the graph has no step counter");
    int index = 0;
    while (graph->arrays[index].array != step)
        index++;
    graph->array_count--;
    memmove(&graph->arrays[index], &graph->arrays[index + 1],
            (size_t)(graph->array_count - index) * sizeof *graph->arrays);
    graph->owns_step = true;
    return TUFF_OK;
}

tuff_status tuff__graph_file_read(tuff_device *device, const void *data, size_t size, graph_memory memory,
                                  tuff_graph_file_info *info, tuff_graph **out)
{
    byte_reader from;
    *out = NULL;
    *info = (tuff_graph_file_info){.format = FORMAT};
    TRY(open_body(data, size, &from));
    tuff__get_text(&from, info->name, sizeof info->name);
    read_compile_options(&from, &info->compile);
    info->deterministic = tuff__get_bool(&from);
    const bool owns_step = tuff__get_bool(&from);
    if (from.failed)
        return FAIL(TUFF_E_FORMAT, "the graph has options that this version of tuff does not know");
    TRY(tuff__graph_deserialize(device, &from, memory, out));
    const tuff_status status = owns_step ? adopt_step_counter(*out) : TUFF_OK;
    if (status != TUFF_OK) {
        tuff_graph_destroy(*out);
        *out = NULL;
    }
    return status;
}

tuff_graph *tuff_graph_parse(tuff_device *device, const void *data, size_t size, tuff_graph_file_info *info)
{
    tuff_graph_file_info unused;
    tuff_graph *graph = NULL;
    if (device == NULL || data == NULL) {
        FAIL(TUFF_E_USAGE, "graph: the %s is NULL", device == NULL ? "device" : "data");
        return NULL;
    }
    (void)tuff__graph_file_read(device, data, size, GRAPH_ARRAYS, info ? info : &unused, &graph);
    return graph;
}

tuff_graph *tuff_graph_load(tuff_device *device, const char *path, tuff_graph_file_info *info)
{
    void *data = NULL;
    size_t size = 0;
    if (device == NULL || path == NULL) {
        FAIL(TUFF_E_USAGE, "graph: the %s is NULL", device == NULL ? "device" : "path");
        return NULL;
    }
    if (tuff__file_read(path, file_limit, &data, &size) != TUFF_OK)
        return NULL;
    tuff_graph *graph = tuff_graph_parse(device, data, size, info);
    tuff__free(data);
    if (graph == NULL)
        FAIL(tuff_last_status(), "%s: %s", path, tuff_error());
    return graph;
}

int tuff_graph_array_count(const tuff_graph *graph)
{
    if (graph != NULL)
        return graph->array_count;
    FAIL(TUFF_E_USAGE, "graph: the graph is NULL");
    return -1;
}

static bool is_assigned(const tuff_graph *graph, const tuff_array *array)
{
    for (int i = 0; i < graph->assign_count; i++)
        if (tuff__arrays_overlap(array, graph->assigns[i]->attributes.array))
            return true;
    return false;
}

tuff_status tuff_graph_array_at(const tuff_graph *graph, int index, tuff_graph_array *array)
{
    if (graph == NULL || array == NULL || index < 0 || index >= graph->array_count)
        return FAIL(TUFF_E_USAGE, "graph: there is no array %d", index);
    const graph_array *entry = &graph->arrays[index];
    *array =
        (tuff_graph_array){.name = entry->name, .array = entry->array, .is_assigned = is_assigned(graph, entry->array)};
    return TUFF_OK;
}

tuff_array *tuff_graph_find_array(const tuff_graph *graph, const char *name)
{
    for (int i = 0; graph && name && name[0] && i < graph->array_count; i++)
        if (strcmp(graph->arrays[i].name, name) == 0)
            return graph->arrays[i].array;
    return NULL;
}
