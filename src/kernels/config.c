/* Configurations of kernels and their texts, such as matmul_local.tile_m=64: setting, comparing, parsing and printing
   them. They own no memory. tunables.c knows which values are legal. */
#include "kernels/config.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

void tuff__config_set(tune_config *self, tunable parameter, int value)
{
    self->set[parameter / 64] |= UINT64_C(1) << parameter % 64;
    self->values[parameter] = value;
}

void tuff__config_unset(tune_config *self, tunable parameter)
{
    self->set[parameter / 64] &= ~(UINT64_C(1) << parameter % 64);
    self->values[parameter] = 0;
}

bool tuff__config_has(const tune_config *self, tunable parameter)
{
    return self->set[parameter / 64] >> parameter % 64 & 1;
}

int tuff__config_value(const tune_config *self, tunable parameter, int default_value)
{
    return tuff__config_has(self, parameter) ? self->values[parameter] : default_value;
}

int tuff__config_count(const tune_config *self)
{
    int count = 0;
    for (int index = 0; index < TUNABLE_COUNT; index++)
        count += tuff__config_has(self, (tunable)index);
    return count;
}

bool tuff__config_keeps_bits(const tune_config *self)
{
    bool keeps = true;
    for (int index = 0; index < TUNABLE_COUNT; index++)
        keeps = keeps && (!tuff__config_has(self, (tunable)index) || tuff__tunable_info((tunable)index)->keeps_bits);
    return keeps;
}

void tuff__config_trim(tune_config *self, const tune_config *used_tunables)
{
    for (int i = 0; i < TUNABLE_COUNT; i++) {
        const tunable parameter = (tunable)i;
        if (tuff__config_has(self, parameter) && (!tuff__config_has(used_tunables, parameter) ||
                                                  used_tunables->values[parameter] == self->values[parameter]))
            tuff__config_unset(self, parameter);
    }
}

bool tuff__config_equal(const tune_config *a, const tune_config *b)
{
    return memcmp(a->set, b->set, sizeof a->set) == 0 && memcmp(a->values, b->values, sizeof a->values) == 0;
}

uint64_t tuff__config_hash(const tune_config *self)
{
    return tuff__hash64(self->values, sizeof self->values, tuff__hash64(self->set, sizeof self->set, 0));
}

/* Compares like strcmp on "kernel.name". */
static int compare_names(tunable a, tunable b)
{
    const tunable_info *first = tuff__tunable_info(a), *second = tuff__tunable_info(b);
    int kernels = strcmp(first->kernel, second->kernel);
    return kernels ? kernels : strcmp(first->name, second->name);
}

static int compare_tunables(const void *a, const void *b)
{
    return compare_names(*(const tunable *)a, *(const tunable *)b);
}

void tuff__config_format(const tune_config *self, text *out)
{
    tunable order[TUNABLE_COUNT];
    size_t count = 0;
    for (int index = 0; index < TUNABLE_COUNT; index++)
        if (tuff__config_has(self, (tunable)index))
            order[count++] = (tunable)index;
    qsort(order, count, sizeof *order, compare_tunables);
    for (size_t i = 0; i < count; i++) {
        const tunable_info *info = tuff__tunable_info(order[i]);
        tuff__text_add(out, "%s%s.%s=%d", i ? ";" : "", info->kernel, info->name, self->values[order[i]]);
    }
}

/* Whether the text of the given length is "kernel.tunable". */
static bool matches_name(const char *source, size_t length, const char *kernel, const char *tunable_name)
{
    const size_t before = strlen(kernel);
    return length == before + 1 + strlen(tunable_name) && memcmp(source, kernel, before) == 0 &&
           source[before] == '.' && memcmp(source + before + 1, tunable_name, length - before - 1) == 0;
}

static bool has_name(tunable parameter, const char *source, size_t length)
{
    const tunable_info *info = tuff__tunable_info(parameter);
    const former_name *former = tuff__tunable_former_name(parameter);
    return matches_name(source, length, info->kernel, info->name) ||
           (former != NULL && matches_name(source, length, former->kernel, former->name));
}

/* Returns TUNABLE_COUNT if no tunable has the name. */
static int find_tunable(const char *name, size_t length)
{
    int index = 0;
    while (index < TUNABLE_COUNT && !has_name((tunable)index, name, length))
        index++;
    return index;
}

/* Reads at most seven digits without leading zeros; tuff__config_format writes no others, so any other text is damaged.
   Returns the number of digits, or 0 on failure. */
static size_t read_value(const char *source, int *value)
{
    size_t digits = strspn(source, "0123456789");
    if (digits > 7 || (digits > 1 && source[0] == '0'))
        return 0;
    *value = digits ? atoi(source) : 0;
    return digits;
}

/* Limits how much of an untrusted text goes into a message. */
static int printed_length(size_t length)
{
    return length < 80 ? (int)length : 80;
}

/* Parses one "kernel.name=value" and advances *source past it. */
static tuff_status parse_one(const char **source, tune_config *out)
{
    const char *name = *source;
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.");
    int value = 0;
    size_t digits = length && name[length] == '=' ? read_value(name + length + 1, &value) : 0;
    const char *end = name + length + 1 + digits;
    if (!digits || (*end && *end != ';'))
        return FAIL(TUFF_E_FORMAT, "candidate: expected kernel.name=value, got '%.80s'", name);
    int index = find_tunable(name, length);
    if (index == TUNABLE_COUNT)
        return FAIL(TUFF_E_UNSUPPORTED, "candidate: unknown tunable '%.*s'", printed_length(length), name);
    const tunable_info *info = tuff__tunable_info((tunable)index);
    if (value < info->min || value > info->max)
        return FAIL(TUFF_E_LIMIT, "candidate: %s.%s=%d is outside the range %d to %d", info->kernel, info->name, value,
                    info->min, info->max);
    if (!tuff__tunable_accepts((tunable)index, value))
        return FAIL(TUFF_E_LIMIT, "candidate: %s.%s=%d is not a power of two", info->kernel, info->name, value);
    if (tuff__config_has(out, (tunable)index))
        return FAIL(TUFF_E_FORMAT, "candidate: %s.%s is set twice", info->kernel, info->name);
    tuff__config_set(out, (tunable)index, value);
    *source = end;
    return TUFF_OK;
}

static tuff_status parse_all(const char *source, tune_config *out)
{
    if (!*source)
        return TUFF_OK;
    TRY(parse_one(&source, out));
    while (*source == ';') {
        source++;
        TRY(parse_one(&source, out));
    }
    return TUFF_OK;
}

tuff_status tuff__config_parse(const char *source, tune_config *out)
{
    *out = (tune_config){0};
    tuff_status status = parse_all(source, out);
    if (status)
        *out = (tune_config){0};
    return status;
}
