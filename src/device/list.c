/* Lists the devices of every driver that was built in, and finds the one that a selector means. The drivers are asked
   once, at the first need. */
#include "device/list.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"

#ifndef TUFF_WITH_OPENCL
#define TUFF_WITH_OPENCL 1
#endif
#ifndef TUFF_WITH_VULKAN
#define TUFF_WITH_VULKAN 1
#endif

/* One row an API, in the order of preference among devices of one class. */
typedef struct api_row {
    const char *name;
    const driver *driver; /* NULL: not built in */
    int count;
    const char *absence;
} api_row;

static api_row apis[] = {
#if TUFF_WITH_OPENCL
    {"opencl", &tuff__driver_opencl, 0, NULL},
#else
    {"opencl", NULL, 0, "this tuff was built without OpenCL (TUFF_OPENCL=OFF)"},
#endif
#if TUFF_WITH_VULKAN
    {"vulkan", &tuff__driver_vulkan, 0, NULL},
#else
    {"vulkan", NULL, 0, "this tuff was built without Vulkan (TUFF_VULKAN=OFF)"},
#endif
};
enum { API_COUNT = (int)(sizeof apis / sizeof apis[0]) };

static pthread_once_t listed = PTHREAD_ONCE_INIT;

static void list_devices(void)
{
    for (int i = 0; i < API_COUNT; i++) {
        if (!apis[i].driver)
            continue;
        apis[i].count = apis[i].driver->count(&apis[i].absence);
        if (apis[i].count <= 0) {
            apis[i].count = 0;
            if (!apis[i].absence)
                apis[i].absence = "its drivers offer no device that tuff can use";
            tuff__log(TUFF_LOG_INFO, "%s: %s", apis[i].name, apis[i].absence);
        }
    }
}

static void need_list(void)
{
    tuff__once(&listed, list_devices);
}

int tuff_device_count(void)
{
    need_list();
    int count = 1;
    for (int i = 0; i < API_COUNT; i++)
        count += apis[i].count;
    return count;
}

const char *tuff_device_absence(const char *api)
{
    need_list();
    for (int i = 0; i < API_COUNT; i++)
        if (api && strcmp(api, apis[i].name) == 0)
            return apis[i].count > 0 ? NULL : apis[i].absence;
    return "no such API: tuff knows \"opencl\" and \"vulkan\"";
}

/* Bytes of one array on the reference device: more than any host has, less than what makes allocators complain. */
#define HOST_LIMIT ((uint64_t)1 << 39)

static void describe_reference(tuff_device_info *info)
{
    *info = (tuff_device_info){
        .name = "float64 reference on the host",
        .selector = "reference",
        .api = "reference",
        .device_class = TUFF_DEVICE_REFERENCE,
        .max_allocation = HOST_LIMIT,
        .max_binding = HOST_LIMIT,
        .offset_alignment = 16,
        .max_group_size = 1,
        .compute_units = 1,
        .max_bindings = MAX_BINDINGS,
        .narrow_storage = true,
        .int64 = true,
    };
    snprintf(info->driver, sizeof info->driver, "tuff %s", tuff_version());
}

tuff_status tuff__device_describe(device_choice choice, tuff_device_info *info)
{
    if (!choice.driver) {
        describe_reference(info);
        return TUFF_OK;
    }
    memset(info, 0, sizeof *info);
    TRY(choice.driver->describe(choice.index, info));
    snprintf(info->selector, sizeof info->selector, "%s:%d", choice.driver->name, choice.index);
    return TUFF_OK;
}

const driver *tuff__device_driver(const char *api)
{
    need_list();
    for (int i = 0; i < API_COUNT; i++)
        if (strcmp(api, apis[i].name) == 0 && apis[i].driver && apis[i].count > 0)
            return apis[i].driver;
    FAIL(TUFF_E_NO_DEVICE, "%s: %s", api, tuff_device_absence(api));
    return NULL;
}

/* The device at a position of the whole list. */
static device_choice choice_at(int position)
{
    for (int i = 0; i < API_COUNT; i++) {
        if (position < apis[i].count)
            return (device_choice){apis[i].driver, position};
        position -= apis[i].count;
    }
    return (device_choice){0};
}

tuff_status tuff_device_describe(int index, tuff_device_info *info)
{
    int count = tuff_device_count();
    if (!info)
        return FAIL(TUFF_E_USAGE, "tuff_device_describe: info is NULL");
    if (index < 0 || index >= count)
        return FAIL(TUFF_E_USAGE, "tuff_device_describe: index %d, but there are devices 0 to %d", index, count - 1);
    return tuff__device_describe(choice_at(index), info);
}

/* Lower is better. */
static int rank_of(tuff_device_class device_class)
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

/* Which devices a selector allows: those of api (NULL: of all), with the index or the part of a name. */
typedef struct selection {
    const char *api;
    int index;        /* -1: any */
    const char *part; /* NULL: any */
} selection;

static bool allows(const selection *wanted, device_choice choice, const tuff_device_info *info)
{
    if (!choice.driver || (wanted->api && strcmp(wanted->api, choice.driver->name) != 0))
        return false;
    if (wanted->index >= 0)
        return choice.index == wanted->index;
    return !wanted->part || contains(info->name, wanted->part) || contains(info->driver, wanted->part);
}

/* False where text is no selector. */
static bool parse(const char *words, selection *out)
{
    *out = (selection){.index = -1};
    if (strcmp(words, "auto") == 0)
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

/* Adds "opencl:0 (name), ..." for all devices that are listed. */
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
        if (apis[i].count == 0 && wanted && (!wanted->api || strcmp(wanted->api, apis[i].name) == 0))
            tuff__text_add(&reasons, "; %s: %s", apis[i].name, apis[i].absence);
    tuff_status status =
        FAIL(TUFF_E_NO_DEVICE, "no device \"%.100s\": %s%s here%s", selector,
             wanted ? "there is " : "write auto, opencl[:n|:name], vulkan[:n|:name] or reference; there is ",
             tuff__text_get(&devices), tuff__text_get(&reasons));
    tuff__text_free(&reasons);
    tuff__text_free(&devices);
    return status;
}

/* Inserts by rank; among equals the order of the list stays. */
static void insert(device_choice *out, int *ranks, int limit, int *count, device_choice choice, int rank)
{
    int at = *count;
    while (at > 0 && ranks[at - 1] > rank)
        at--;
    if (at >= limit)
        return;
    int last = *count < limit ? (*count)++ : limit - 1;
    for (int i = last; i > at; i--) {
        out[i] = out[i - 1];
        ranks[i] = ranks[i - 1];
    }
    out[at] = choice;
    ranks[at] = rank;
}

tuff_status tuff__device_choose(const char *selector, device_choice *out, int limit, int *count)
{
    enum { MOST = 64 };
    int ranks[MOST];
    selection wanted;
    *count = 0;
    if (strcmp(selector, "reference") == 0) {
        out[(*count)++] = (device_choice){0};
        return TUFF_OK;
    }
    int devices = tuff_device_count();
    if (!parse(selector, &wanted))
        return no_such_device(selector, NULL);
    for (int i = 0; i < devices; i++) {
        tuff_device_info info;
        tuff_status status = tuff__device_describe(choice_at(i), &info);
        if (status == TUFF_E_OOM_HOST)
            return status;
        if (status != TUFF_OK) {
            tuff__log(TUFF_LOG_WARNING, "device %d is left out: %s", i, tuff_error());
            continue;
        }
        if (allows(&wanted, choice_at(i), &info))
            insert(out, ranks, limit < MOST ? limit : MOST, count, choice_at(i), rank_of(info.device_class));
    }
    if (*count == 0)
        return no_such_device(selector, &wanted);
    if (wanted.index >= 0 || wanted.part)
        *count = 1;
    return TUFF_OK;
}
