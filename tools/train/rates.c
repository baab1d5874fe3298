/* Reads learning rates from a file and sets the optimizer's rate before each step. */
#include "tools/train/rates.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file/file.h"
#include "base/hash.h"
#include "base/status.h"

#define FILE_LIMIT ((uint64_t)1 << 30)
#define RATE_MAX 100 /* as for --learning-rate */

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t\r")] == 0;
}

/* Parses a line, which ends with a 0. */
static tuff_status add_line(rate_list *self, const char *path, const char *line)
{
    char *end;
    const double value = strtod(line, &end);
    if (end == line || !is_blank(end) || !(value >= 0 && value <= RATE_MAX))
        return FAIL(TUFF_E_FORMAT, "%s:%lld: invalid learning rate \"%.40s\": expected one from 0 to %d per line", path,
                    (long long)self->count + 1, line, RATE_MAX);
    self->items[self->count++] = (float)value;
    return TUFF_OK;
}

/* bytes[size] is 0. Splits the bytes in place. */
static tuff_status read_lines(rate_list *self, const char *path, char *bytes, size_t size)
{
    size_t lines = 1;
    for (size_t i = 0; i < size; i++)
        lines += bytes[i] == '\n';
    self->items = tuff__calloc(lines, sizeof *self->items);
    if (!self->items)
        return TUFF_E_OOM_HOST;
    for (char *line = bytes; line < bytes + size; line += strlen(line) + 1) {
        char *end = memchr(line, '\n', (size_t)(bytes + size - line));
        if (end)
            *end = 0;
        TRY(add_line(self, path, line));
    }
    self->hash = tuff__hash64(self->items, (size_t)self->count * sizeof *self->items, 0);
    return self->count > 0 ? TUFF_OK : FAIL(TUFF_E_FORMAT, "%s: file is empty, expected learning rates", path);
}

tuff_status rates_read(rate_list *self, const char *path, int64_t epoch_steps)
{
    void *data = NULL;
    size_t size = 0;
    *self = (rate_list){.steps_each = epoch_steps > 0 ? epoch_steps : 1, .applied = -1};
    TRY(tuff__file_read(path, FILE_LIMIT, &data, &size));
    const tuff_status status = read_lines(self, path, data, size);
    tuff__free(data);
    return status;
}

void rates_free(rate_list *self)
{
    tuff__free(self->items);
    *self = (rate_list){.items = NULL};
}

tuff_status rates_apply(rate_list *self, tuff_optimizer *optimizer, int64_t done)
{
    if (!self->items)
        return TUFF_OK;
    const int64_t line = done / self->steps_each;
    const float rate = self->items[line < self->count ? line : self->count - 1];
    if (rate == self->applied)
        return TUFF_OK;
    TRY(tuff_array_write(tuff_optimizer_rate(optimizer), &rate, sizeof rate));
    self->applied = rate;
    return TUFF_OK;
}
