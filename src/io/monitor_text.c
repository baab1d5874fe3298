/* Records as text: lines of CSV and JSON, and TensorBoard's events in the wire format of protocol buffers, framed as
   TFRecords. Field numbers are those of tensorflow/core/util/event.proto and framework/summary.proto. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "io/monitor.h"

/* Writes whole numbers without a fraction and others with the digits of an f32. JSON has no NaN and no infinity. */
static void add_number(text *out, double value, bool json)
{
    if (value == floor(value) && fabs(value) < 1e15)
        tuff__text_add(out, "%.0f", value);
    else if (isfinite(value))
        tuff__text_add(out, "%s", NUMBER_TEXT('g', 9, value));
    else
        tuff__text_add(out, "%s", json ? "null" : isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

/* Quotes as in RFC 4180, and only names that need it, because simple readers split lines at commas. */
static void add_csv_name(text *out, const char *name)
{
    if (!strpbrk(name, ",\"")) {
        tuff__text_add(out, "%s", name);
        return;
    }
    tuff__text_add(out, "\"");
    for (; *name; name++)
        tuff__text_add(out, *name == '"' ? "\"\"" : "%c", *name);
    tuff__text_add(out, "\"");
}

static void add_csv_header(text *out, const monitor_names *names)
{
    tuff__text_add(out, "step");
    for (int i = 0; i < names->count; i++) {
        tuff__text_add(out, ",");
        add_csv_name(out, names->items[i]);
    }
    tuff__text_add(out, "\n");
}

static const tuff_scalar *find_scalar(const tuff_scalar *scalars, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(scalars[i].name, name) == 0)
            return &scalars[i];
    return NULL;
}

/* The columns were fixed when the file was opened. A scalar that this record lacks is an empty field. */
static void add_csv_line(text *out, const monitor_names *names, int64_t step, const tuff_scalar *scalars, int count)
{
    tuff__text_add(out, "%" PRId64, step);
    for (int i = 0; i < names->count; i++) {
        const tuff_scalar *found = find_scalar(scalars, count, names->items[i]);
        tuff__text_add(out, ",");
        if (found)
            add_number(out, found->value, false);
    }
    tuff__text_add(out, "\n");
}

static void add_json_line(text *out, int64_t step, const tuff_scalar *scalars, int count)
{
    tuff__text_add(out, "{\"step\": %" PRId64, step);
    for (int i = 0; i < count; i++) {
        tuff__text_add(out, ", ");
        tuff__text_add_json(out, scalars[i].name);
        tuff__text_add(out, ": ");
        add_number(out, scalars[i].value, true);
    }
    tuff__text_add(out, "}\n");
}

/* Wire types of protocol buffers. */
enum { VARINT = 0, FIXED_64 = 1, BYTES = 2, FIXED_32 = 5 };

/* Seven bits a byte, the lowest first; the highest bit says that more follow. */
static void put_varint(text *out, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        tuff__put_u8(out, (uint8_t)(value | 128));
    tuff__put_u8(out, (uint8_t)value);
}

static void put_tag(text *out, int field, int type)
{
    put_varint(out, (uint64_t)(field << 3 | type));
}

/* Texts, bytes and nested messages are encoded alike: their length, then their content. */
static void put_string(text *out, int field, const char *bytes, size_t size)
{
    put_tag(out, field, BYTES);
    put_varint(out, size);
    tuff__text_add_bytes(out, bytes, size);
}

/* Fields of Event: wall_time 1, step 2. */
static void put_event_head(text *out, int64_t step)
{
    struct timespec now = {0};
    (void)timespec_get(&now, TIME_UTC);
    put_tag(out, 1, FIXED_64);
    tuff__put_double(out, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
    put_tag(out, 2, VARINT);
    put_varint(out, (uint64_t)step);
}

/* Fields of Summary.Value: tag 1, simple_value 2. The value itself is field 1 of Summary. */
static void put_value(text *summary, text *scratch, const tuff_scalar *scalar)
{
    const float value = (float)scalar->value;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    tuff__text_clear(scratch);
    put_string(scratch, 1, scalar->name, strlen(scalar->name));
    put_tag(scratch, 2, FIXED_32);
    tuff__put_u32(scratch, bits);
    put_string(summary, 1, tuff__text_get(scratch), scratch->length);
    summary->failed = summary->failed || scratch->failed;
}

/* Computes TFRecord's masked CRC: rotated and with a constant added, so that it may be stored with the data that it
   covers. */
static uint32_t masked_crc(const void *data, size_t size)
{
    const uint32_t crc = tuff__crc32c(data, size);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* Writes a TFRecord: length, its CRC, the data, their CRC. */
static void put_record(text *out, const text *event)
{
    const size_t start = out->length;
    tuff__put_u64(out, event->length);
    const uint32_t crc = out->failed ? 0 : masked_crc(out->data + start, sizeof(uint64_t));
    tuff__put_u32(out, crc);
    tuff__text_add_bytes(out, tuff__text_get(event), event->length);
    tuff__put_u32(out, masked_crc(tuff__text_get(event), event->length));
    out->failed = out->failed || event->failed;
}

/* Summary is field 5 of Event. */
static void add_summary(text *out, int64_t step, const tuff_scalar *scalars, int count)
{
    text event = {0}, summary = {0}, scratch = {0};
    put_event_head(&event, step);
    for (int i = 0; i < count; i++)
        put_value(&summary, &scratch, &scalars[i]);
    put_string(&event, 5, tuff__text_get(&summary), summary.length);
    event.failed = event.failed || summary.failed;
    put_record(out, &event);
    tuff__text_free(&event);
    tuff__text_free(&summary);
    tuff__text_free(&scratch);
}

/* file_version is field 3 of Event. A session_log (7) whose status (1) is START (1) makes TensorBoard drop its step and
   later ones from older files. */
static void begin_events(text *out, bool append, int64_t first_step)
{
    static const char version[] = "brain.Event:2", start[] = {1 << 3 | VARINT, 1};
    text event = {0};
    put_event_head(&event, 0);
    put_string(&event, 3, version, sizeof version - 1);
    put_record(out, &event);
    if (append) {
        tuff__text_clear(&event);
        put_event_head(&event, first_step < INT64_MAX ? first_step + 1 : first_step);
        put_string(&event, 7, start, sizeof start);
        put_record(out, &event);
    }
    tuff__text_free(&event);
}

void tuff__monitor_begin(tuff_monitor_format format, const monitor_names *names, bool append, int64_t first_step,
                         text *out)
{
    if (format == TUFF_MONITOR_CSV)
        add_csv_header(out, names);
    else if (format == TUFF_MONITOR_TENSORBOARD)
        begin_events(out, append, first_step);
}

void tuff__monitor_record(tuff_monitor_format format, const monitor_names *names, int64_t step,
                          const tuff_scalar *scalars, int count, text *out)
{
    if (format == TUFF_MONITOR_CSV)
        add_csv_line(out, names, step, scalars, count);
    else if (format == TUFF_MONITOR_JSON_LINES)
        add_json_line(out, step, scalars, count);
    else
        add_summary(out, step, scalars, count);
}

/* Returns the step of a line; INT64_MIN if it has none, like a header. */
static int64_t parse_step(tuff_monitor_format format, const char *line)
{
    static const char begin[] = "{\"step\": ";
    if (format == TUFF_MONITOR_JSON_LINES) {
        if (strncmp(line, begin, sizeof begin - 1) != 0)
            return INT64_MIN;
        line += sizeof begin - 1;
    }
    char *end;
    const long long step = strtoll(line, &end, 10);
    return end == line ? INT64_MIN : step;
}

/* A last line without its newline is torn and is cut off, too. Events are never cut: the next file says which steps of
   older files it replaces (begin_events). */
size_t tuff__monitor_find_cut(tuff_monitor_format format, const char *data, size_t size, int64_t first_step)
{
    for (size_t at = 0; at < size;) {
        const char *end = memchr(data + at, '\n', size - at);
        if (!end || parse_step(format, data + at) > first_step)
            return at;
        at = (size_t)(end - data) + 1;
    }
    return size;
}
