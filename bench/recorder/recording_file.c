/* Recordings as files: writes and parses the lines that recording.h describes. */
#include <inttypes.h>
#include <string.h>

#include "base/file/file.h"
#include "io/json.h"
#include "bench/recorder/recording.h"

#define FILE_LIMIT (UINT64_C(256) << 20)
enum { MAX_SAMPLES = 1024 };

static void print_text(const char *key, const char *value, text *out)
{
    tuff__text_add(out, ",\"%s\":", key);
    tuff__text_add_json(out, value);
}

static void print_choice(const char *key, const tune_config *value, text *out)
{
    tuff__text_add(out, ",\"%s\":\"", key);
    tuff__config_format(value, out);
    tuff__text_add(out, "\"");
}

void recording_print_header(const recording *self, text *out)
{
    tuff__text_add(out, "{\"t\":\"space\",\"v\":1");
    print_text("name", self->name, out);
    print_text("device", self->device, out);
    print_choice("default", &self->defaults, out);
    tuff__text_add(out, ",\"roofline\":%" PRIu64 "}\n", self->roofline);
}

void recording_print_point(const recorded_point *point, text *out)
{
    tuff__text_add(out, "{\"t\":\"point\"");
    print_choice("c", &point->config, out);
    tuff__text_add(out, ",\"g\":%" PRIu32 ",\"p\":%" PRIu64, point->group_items, point->program);
    if (point->cost > 0)
        tuff__text_add(out, ",\"e\":%.4g", point->cost);
    if (point->drawn)
        tuff__text_add(out, ",\"d\":1");
    if (point->result == EVALUATION_GOOD) {
        tuff__text_add(out, ",\"ns\":[");
        for (int i = 0; i < point->count; i++)
            tuff__text_add(out, "%s%" PRIu64, i ? "," : "", point->nanoseconds[i]);
        tuff__text_add(out, "]}\n");
    } else
        tuff__text_add(out, ",\"why\":\"%s\"}\n", tuff__evaluation_text(point->result));
}

static const char *read_text(const json_t *from, const char *key)
{
    const char *found = json_string_value(json_object_get(from, key));
    return found ? found : "";
}

/* Returns 0 if there is none. */
static uint64_t read_number(const json_t *from, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(from, key));
}

static tuff_status read_header(const json_t *line, recording *out)
{
    tune_config defaults;
    if (strcmp(read_text(line, "t"), "space") != 0)
        return FAIL(TUFF_E_FORMAT, "the first line is not a header of type \"space\"");
    if (read_number(line, "v") != 1)
        return FAIL(TUFF_E_UNSUPPORTED, "unsupported recording version %" PRIu64, read_number(line, "v"));
    TRY(tuff__config_parse(read_text(line, "default"), &defaults));
    return recording_begin(out, read_text(line, "name"), read_text(line, "device"), &defaults,
                           read_number(line, "roofline"));
}

static bool find_evaluation(const char *source, tune_evaluation *out)
{
    for (int i = 0; i < EVALUATION_COUNT; i++)
        if (strcmp(source, tuff__evaluation_text((tune_evaluation)i)) == 0) {
            *out = (tune_evaluation)i;
            return i != EVALUATION_GOOD;
        }
    return false;
}

/* Reads times into an array of MAX_SAMPLES. */
static tuff_status read_times(const json_t *list, uint64_t *times, int *count)
{
    const size_t size = json_array_size(list);
    if (size < 1 || size > MAX_SAMPLES)
        return FAIL(TUFF_E_FORMAT, "%zu times, expected 1 to %d", size, MAX_SAMPLES);
    for (size_t i = 0; i < size; i++) {
        const json_t *one = json_array_get(list, i);
        if (!json_is_integer(one))
            return FAIL(TUFF_E_FORMAT, "a time is not an integer");
        times[i] = (uint64_t)json_integer_value(one);
    }
    *count = (int)size;
    return TUFF_OK;
}

static tuff_status read_point(const json_t *line, recording *out)
{
    uint64_t times[MAX_SAMPLES];
    recorded_point point = {.program = read_number(line, "p"), .nanoseconds = times};
    if (strcmp(read_text(line, "t"), "point") != 0 || !point.program || !json_object_get(line, "c"))
        return FAIL(TUFF_E_FORMAT, "not a point with a candidate and a program");
    point.group_items = (uint32_t)read_number(line, "g");
    point.drawn = read_number(line, "d") != 0;
    point.cost = json_number_value(json_object_get(line, "e"));
    TRY(tuff__config_parse(read_text(line, "c"), &point.config));
    if (json_object_get(line, "ns"))
        TRY(read_times(json_object_get(line, "ns"), times, &point.count));
    else if (!find_evaluation(read_text(line, "why"), &point.result))
        return FAIL(TUFF_E_FORMAT, "expected times or an evaluation");
    return recording_add(out, &point);
}

static tuff_status read_line(const char *line, size_t size, bool is_first, recording *out)
{
    json_t *value = NULL;
    TRY(tuff__json_parse(line, size, &value));
    const tuff_status status = is_first ? read_header(value, out) : read_point(value, out);
    json_decref(value);
    return status;
}

tuff_status recording_parse(const char *name, const char *source, size_t size, recording *out)
{
    *out = (recording){0};
    size_t at = 0;
    for (int number = 1; at < size; number++) {
        const char *end = memchr(source + at, '\n', size - at);
        const size_t length = end ? (size_t)(end - source) - at : size - at;
        const tuff_status status = read_line(source + at, length, number == 1, out);
        if (status) {
            recording_free(out);
            return status == TUFF_E_OOM_HOST ? status : FAIL(status, "%s:%d: %s", name, number, tuff_error());
        }
        at += length + 1;
    }
    if (!out->count || !recording_find(out, &(tune_config){0})) {
        recording_free(out);
        return FAIL(TUFF_E_FORMAT, "%s: the default was not recorded", name);
    }
    return TUFF_OK;
}

tuff_status recording_read(const char *path, recording *out)
{
    void *source = NULL;
    size_t size = 0;
    *out = (recording){0};
    TRY(tuff__file_read(path, FILE_LIMIT, &source, &size));
    const tuff_status status = recording_parse(path, source, size, out);
    tuff__free(source);
    return status;
}
