/* Lists the devices of every driver that was built in, and finds those that a selector means. Each API is queried once,
   when it is first needed: loading its drivers takes longer than compiling a small graph. */
#define _POSIX_C_SOURCE 200809L
#include "device/list.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"

/* One row per API, in order of preference among devices of one class. */
typedef struct api_row {
    const char *name;
    const driver *driver; /* NULL: not built in */
    int count;
    const char *unavailable_reason;
    bool queried;
} api_row;

/* Rows by the value of TUFF_WITH_<option>: with the driver if it was built in, else with the reason why not. */
#define BUILT_1(name, option, api) {#name, &tuff__driver_##name, 0, NULL, false},
#define BUILT_0(name, option, api) \
    {#name, NULL, 0, "this tuff was built without " api " (TUFF_" #option "=OFF)", false},
#define BUILT(with, name, option, api) BUILT_##with(name, option, api)
#define BUILT_BY(with, name, option, api) BUILT(with, name, option, api)

static api_row apis[] = {
#define DRIVER(name, option, api, kernels) BUILT_BY(TUFF_WITH_##option, name, option, api)
#include "device/drivers.def"
#undef DRIVER
};
/* The names of the same APIs, for messages. */
static const char unknown_api[] = "unknown API, expected one of:"
#define DRIVER(name, option, api, kernels) " " #name
#include "device/drivers.def"
#undef DRIVER
    ;
static const char selector_forms[] = "expected auto, auto:matrix, reference"
#define DRIVER(name, option, api, kernels) ", " #name "[:n|:name]"
#include "device/drivers.def"
#undef DRIVER
                                     "; ";
enum { API_COUNT = (int)(sizeof apis / sizeof apis[0]) };

static mutex apis_lock = MUTEX_INITIALIZER; /* guards the rows of apis until they were queried */

static void query(api_row *api)
{
    api->queried = true;
    if (!api->driver)
        return;
    api->count = api->driver->count(&api->unavailable_reason);
    if (api->count > 0)
        return;
    api->count = 0;
    if (!api->unavailable_reason)
        api->unavailable_reason = "its drivers offer no device that tuff can use";
    tuff__log(TUFF_LOG_INFO, "%s: %s", api->name, api->unavailable_reason);
}

static const api_row *api_at(int index)
{
    tuff__lock(&apis_lock);
    if (!apis[index].queried)
        query(&apis[index]);
    tuff__unlock(&apis_lock);
    return &apis[index];
}

/* Returns NULL if tuff does not know the API. */
static const api_row *find_api(const char *name)
{
    for (int i = 0; name && i < API_COUNT; i++)
        if (strcmp(name, apis[i].name) == 0)
            return api_at(i);
    return NULL;
}

int tuff_device_count(void)
{
    int count = 1;
    for (int i = 0; i < API_COUNT; i++)
        count += api_at(i)->count;
    return count;
}

const char *tuff_device_unavailable_reason(const char *api)
{
    const api_row *found = find_api(api);
    if (!found)
        return unknown_api;
    return found->count > 0 ? NULL : found->unavailable_reason;
}

/* Largest array of the reference device, in bytes: more than any host has, less than allocators complain about. */
#define HOST_LIMIT ((uint64_t)1 << 39)

/* Returns 0 if the system does not say. */
static uint64_t host_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

static void describe_reference(tuff_device_info *info)
{
    *info = (tuff_device_info){
        .name = "float64 reference on the host",
        .selector = "reference",
        .api = "reference",
        .device_class = TUFF_DEVICE_REFERENCE,
        .memory_size = host_memory(),
        .max_allocation = HOST_LIMIT,
        .max_binding = HOST_LIMIT,
        .offset_alignment = 16,
        .max_group_size = 1,
        .compute_units = 1,
        .max_bindings = MAX_BINDINGS,
        .narrow_storage = true,
        .int64 = true,
        .watchdog = TUFF_WATCHDOG_NONE,
    };
    snprintf(info->driver, sizeof info->driver, "tuff %s", tuff_version());
}

void tuff__note_driver_optimizer(tuff_device_info *info)
{
    const size_t length = strlen(info->driver);
    if (!tuff__driver_optimizer_is_on())
        (void)snprintf(info->driver + length, sizeof info->driver - length, ", optimizer off");
}

tuff_status tuff__device_describe(device_choice choice, tuff_device_info *info)
{
    if (!choice.driver) {
        describe_reference(info);
        return TUFF_OK;
    }
    memset(info, 0, sizeof *info);
    TRY(choice.driver->describe(choice.index, info));
    tuff__note_driver_optimizer(info);
    snprintf(info->selector, sizeof info->selector, "%s:%d", choice.driver->name, choice.index);
    return TUFF_OK;
}

const driver *tuff__device_driver(const char *api)
{
    const api_row *found = find_api(api);
    if (found && found->driver && found->count > 0)
        return found->driver;
    FAIL(TUFF_E_NO_DEVICE, "%s: %s", api, tuff_device_unavailable_reason(api));
    return NULL;
}

const driver *tuff__device_built_driver(const char *api)
{
    int i = 0;
    while (i < API_COUNT - 1 && strcmp(api, apis[i].name) != 0)
        i++;
    if (!apis[i].driver)
        FAIL(TUFF_E_NO_DEVICE, "%s: %s", api, apis[i].unavailable_reason);
    return apis[i].driver;
}

/* Returns the device at a position of the whole list. */
static device_choice choice_at(int position)
{
    for (int i = 0; i < API_COUNT; i++) {
        const api_row *api = api_at(i);
        if (position < api->count)
            return (device_choice){api->driver, position};
        position -= api->count;
    }
    return (device_choice){0};
}

tuff_status tuff_device_describe_at(int index, tuff_device_info *info)
{
    int count = tuff_device_count();
    if (!info)
        return FAIL(TUFF_E_USAGE, "tuff_device_describe_at: info is NULL");
    if (index < 0 || index >= count)
        return FAIL(TUFF_E_USAGE, "tuff_device_describe_at: index %d is out of range: there are %d devices", index,
                    count);
    return tuff__device_describe(choice_at(index), info);
}

/* Lower is better. */
static int class_rank(tuff_device_class device_class)
{
    switch (device_class) {
    case TUFF_DEVICE_GPU_DISCRETE:
        return 0;
    case TUFF_DEVICE_GPU_INTEGRATED:
        return 1;
    case TUFF_DEVICE_CPU:
        return 2;
    case TUFF_DEVICE_OTHER:
    case TUFF_DEVICE_REFERENCE:
        break;
    }
    return 3;
}

static bool contains(const char *words, const char *part)
{
    size_t length = strlen(part);
    for (; *words; words++) {
        size_t i = 0;
        while (i < length && tolower((unsigned char)words[i]) == tolower((unsigned char)part[i]))
            i++;
        if (i == length)
            return true;
    }
    return false;
}

/* Which devices a selector allows: those of api (NULL: of every API), by index or by part of a name. */
typedef struct selection {
    const char *api;
    int index;        /* -1: any */
    const char *part; /* NULL: any */
    bool matrices;    /* devices with matrix units come first in their class */
} selection;

static bool allows(const selection *wanted, device_choice choice, const tuff_device_info *info)
{
    if (wanted->index >= 0)
        return choice.index == wanted->index;
    return !wanted->part || contains(info->name, wanted->part) || contains(info->driver, wanted->part);
}

/* Returns false if `words` is not a selector. */
static bool parse_selector(const char *words, selection *out)
{
    *out = (selection){.index = -1};
    if (strcmp(words, "auto") == 0)
        return true;
    out->matrices = strcmp(words, "auto:matrix") == 0;
    if (out->matrices)
        return true;
    for (int i = 0; i < API_COUNT; i++) {
        size_t length = strlen(apis[i].name);
        if (strncmp(words, apis[i].name, length) != 0 || (words[length] != 0 && words[length] != ':'))
            continue;
        out->api = apis[i].name;
        const char *rest = words[length] ? words + length + 1 : NULL;
        if (!rest)
            return true;
        if (*rest == 0)
            return false;
        char *end = NULL;
        long index = isdigit((unsigned char)*rest) ? strtol(rest, &end, 10) : 0;
        if (end && *end == 0)
            out->index = index > INT32_MAX ? INT32_MAX : (int)index;
        else
            out->part = rest;
        return true;
    }
    return false;
}

/* Adds "opencl:0 (name), ..." for all listed devices. */
static void add_devices(text *words)
{
    int count = tuff_device_count();
    for (int i = 0; i < count; i++) {
        tuff_device_info info;
        if (tuff__device_describe(choice_at(i), &info) == TUFF_OK)
            tuff__text_add(words, "%s%s (%.60s)", words->length ? ", " : "", info.selector, info.name);
    }
}

static tuff_status no_such_device(const char *selector, const selection *wanted)
{
    text devices = {0};
    add_devices(&devices);
    text reasons = {0};
    for (int i = 0; i < API_COUNT; i++)
        if (api_at(i)->count == 0 && wanted && (!wanted->api || strcmp(wanted->api, apis[i].name) == 0))
            tuff__text_add(&reasons, "; %s: %s", apis[i].name, apis[i].unavailable_reason);
    tuff_status status = FAIL(TUFF_E_NO_DEVICE, "no device \"%.100s\": %savailable: %s%s", selector,
                              wanted ? "" : selector_forms, tuff__text_get(&devices), tuff__text_get(&reasons));
    tuff__text_free(&reasons);
    tuff__text_free(&devices);
    return status;
}

enum { MAX_CHOICES = 64 };

/* The devices that a selection allows, in the order of the list. */
typedef struct choices {
    const selection *wanted;
    device_choice found[MAX_CHOICES];
    tuff_device_info infos[MAX_CHOICES];
    int count;
} choices;

/* Returns about how many lanes compute at once: vendors count compute units of different sizes, and AMD's OpenCL driver
   counts pairs of them from RDNA on. */
static double lanes_of(const tuff_device_info *info)
{
    const bool is_opencl = strncmp(info->api, "OpenCL", 6) == 0;
    int lanes = 64;
    if (info->vendor_id == VENDOR_NVIDIA ||
        (info->vendor_id == VENDOR_AMD && is_opencl && strncmp(info->name, "gfx1", 4) == 0))
        lanes = 128;
    if (info->vendor_id == VENDOR_INTEL)
        lanes = 8;
    return (double)info->compute_units * lanes;
}

static double memory_of(const tuff_device_info *info)
{
    return (double)info->memory_size;
}

static double class_value(const tuff_device_info *info)
{
    return -class_rank(info->device_class);
}

static double matrices_of(const tuff_device_info *info)
{
    return info->cooperative_matrix > 0;
}

/* Keeps, of the candidates, only those with the largest value, or with one within the tolerance of it. */
static void keep_largest(const choices *self, bool *candidates, double (*value)(const tuff_device_info *),
                         double tolerance)
{
    double largest = -HUGE_VAL;
    for (int i = 0; i < self->count; i++)
        if (candidates[i] && value(&self->infos[i]) > largest)
            largest = value(&self->infos[i]);
    for (int i = 0; i < self->count; i++)
        candidates[i] = candidates[i] && tolerance * value(&self->infos[i]) >= largest;
}

/* Finds the best of the devices that are not taken yet: by class, then by size, that is by lanes and then by memory.
   Sizes count as equal if they differ by no more than drivers disagree about one device, measured from the largest, so
   that the order of the list decides only between equals. */
static int find_best(const choices *self, const bool *taken)
{
    bool candidates[MAX_CHOICES] = {false};
    for (int i = 0; i < self->count; i++)
        candidates[i] = !taken[i];
    keep_largest(self, candidates, class_value, 1);
    if (self->wanted->matrices)
        keep_largest(self, candidates, matrices_of, 1);
    int first = 0;
    while (!candidates[first])
        first++;
    const tuff_device_class best = self->infos[first].device_class;
    if (best != TUFF_DEVICE_GPU_DISCRETE && best != TUFF_DEVICE_GPU_INTEGRATED)
        return first;
    keep_largest(self, candidates, lanes_of, 1.25);
    keep_largest(self, candidates, memory_of, 1.25);
    while (!candidates[first])
        first++;
    return first;
}

static int sort_choices(const choices *self, device_choice *out, int limit)
{
    bool taken[MAX_CHOICES] = {false};
    const int count = self->count < limit ? self->count : limit;
    for (int i = 0; i < count; i++) {
        const int best = find_best(self, taken);
        taken[best] = true;
        out[i] = self->found[best];
    }
    return count;
}

static tuff_status add_choices(choices *self, const api_row *api)
{
    for (int i = 0; i < api->count && self->count < MAX_CHOICES; i++) {
        const device_choice found = {api->driver, i};
        tuff_device_info info;
        tuff_status status = tuff__device_describe(found, &info);
        if (status == TUFF_E_OOM_HOST)
            return status;
        if (status != TUFF_OK)
            tuff__log(TUFF_LOG_WARNING, "skipping %s:%d: %s", api->name, i, tuff_error());
        else if (allows(self->wanted, found, &info)) {
            self->found[self->count] = found;
            self->infos[self->count++] = info;
        }
    }
    return TUFF_OK;
}

tuff_status tuff__device_choose(const char *selector, device_choice *out, int limit, int *count)
{
    selection wanted;
    *count = 0;
    if (strcmp(selector, "reference") == 0) {
        out[(*count)++] = (device_choice){0};
        return TUFF_OK;
    }
    if (!parse_selector(selector, &wanted))
        return no_such_device(selector, NULL);
    choices found = {.wanted = &wanted};
    for (int i = 0; i < API_COUNT; i++)
        if (!wanted.api || strcmp(wanted.api, apis[i].name) == 0)
            TRY(add_choices(&found, api_at(i)));
    if (found.count == 0)
        return no_such_device(selector, &wanted);
    *count = sort_choices(&found, out, wanted.index >= 0 || wanted.part ? 1 : limit);
    return TUFF_OK;
}
