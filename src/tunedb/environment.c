/* Environment keys: made from what a driver reports, formatted, parsed, and compared. The device names of some drivers
   contain version numbers; comparisons ignore them, so that a driver update does not look like another device. The form
   of the text is in environment.h; tunedb/lookup.h says how the likeness of environments is used. */
#include "tunedb/environment.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

/* Copies a text without separators and line breaks, so that it can be a member's value. */
static void copy_sanitized(char *out, size_t size, const char *source)
{
    size_t used = 0;
    for (; *source && used + 1 < size; source++)
        out[used++] = *source == ';' ? ',' : (unsigned char)*source < 0x20 || *source == 0x7f ? ' ' : *source;
    while (used > 0 && out[used - 1] == ' ')
        used--;
    out[used] = 0;
    /* Records are JSON, and a driver's name need not be UTF-8: every byte that is not ASCII is replaced. */
    for (size_t i = 0; i < used; i++)
        if ((unsigned char)out[i] >= 0x80)
            out[i] = '?';
}

/* Copies the words of a driver's name up to the first that begins with a digit, perhaps after "(". */
static void copy_platform(char *out, size_t size, const char *driver)
{
    size_t length = 0;
    for (const char *at = driver; *at;) {
        at += strspn(at, " ");
        const char *word = at + strspn(at, "(");
        if (!*at || isdigit((unsigned char)*word))
            break;
        at += strcspn(at, " ");
        length = (size_t)(at - driver);
    }
    snprintf(out, size, "%.*s", (int)length, driver);
}

static const char *kind_of(tuff_device_class class)
{
    switch (class) {
    case TUFF_DEVICE_CPU:
        return "cpu";
    case TUFF_DEVICE_REFERENCE:
        return "reference";
    default:
        return "gpu";
    }
}

void tuff__environment_from_info(const tuff_device_info *info, tune_environment *out)
{
    struct utsname system;
    *out = (tune_environment){.vendor = info->vendor_id,
                              .device_id = info->device_id,
                              .units = info->compute_units,
                              .local_memory = info->local_memory_size,
                              .group_size = info->max_group_size,
                              .subgroup = info->subgroup_size,
                              .lanes = info->vector_width};
    snprintf(out->backend, sizeof out->backend, "%.*s", (int)strcspn(info->selector, ":"), info->selector);
    copy_sanitized(out->device, sizeof out->device, info->name);
    snprintf(out->kind, sizeof out->kind, "%s", kind_of(info->device_class));
    copy_sanitized(out->driver, sizeof out->driver, info->driver);
    copy_platform(out->platform, sizeof out->platform, out->driver);
    copy_sanitized(out->api, sizeof out->api, info->api);
    if (uname(&system) == 0)
        snprintf(out->system, sizeof out->system, "%.40s %.40s", system.sysname, system.machine);
}

const char *tuff__environment_text(const tune_environment *environment, char *buffer)
{
    const tune_environment *e = environment;
    (void)snprintf(buffer, ENVIRONMENT_SIZE,
                   "%s; device %s; class %s; vendor %04" PRIx32 ":%04" PRIx32 "; units %" PRIu32 "; local %" PRIu32
                   "; group %" PRIu32 "; subgroup %" PRIu32 "; lanes %" PRIu32
                   "; platform %s; driver %s; api %s; system %s",
                   e->backend, e->device, e->kind, e->vendor, e->device_id, e->units, e->local_memory, e->group_size,
                   e->subgroup, e->lanes, e->platform, e->driver, e->api, e->system);
    return buffer;
}

static bool read_number(const char *source, uint32_t *out)
{
    const size_t digits = strspn(source, "0123456789");
    const unsigned long long value = strtoull(source, NULL, 10);
    *out = (uint32_t)value;
    return digits > 0 && digits <= 10 && source[digits] == 0 && value <= UINT32_MAX;
}

static bool read_ids(const char *source, tune_environment *out)
{
    char *middle, *end;
    const unsigned long long vendor = strtoull(source, &middle, 16);
    if (middle == source || *middle != ':')
        return false;
    const unsigned long long device = strtoull(middle + 1, &end, 16);
    out->vendor = (uint32_t)vendor;
    out->device_id = (uint32_t)device;
    return end > middle + 1 && *end == 0 && vendor <= UINT32_MAX && device <= UINT32_MAX;
}

static bool read_text(char *out, size_t size, const char *source)
{
    return (size_t)snprintf(out, size, "%s", source) < size;
}

/* Reads a member "name value"; unknown ones are skipped. */
static bool read_member(const char *name, const char *value, tune_environment *out)
{
    const struct {
        const char *name;
        char *text;
        size_t size;
        uint32_t *number;
    } members[] = {{"device", out->device, sizeof out->device, NULL},
                   {"class", out->kind, sizeof out->kind, NULL},
                   {"platform", out->platform, sizeof out->platform, NULL},
                   {"driver", out->driver, sizeof out->driver, NULL},
                   {"api", out->api, sizeof out->api, NULL},
                   {"system", out->system, sizeof out->system, NULL},
                   {"units", NULL, 0, &out->units},
                   {"local", NULL, 0, &out->local_memory},
                   {"group", NULL, 0, &out->group_size},
                   {"subgroup", NULL, 0, &out->subgroup},
                   {"lanes", NULL, 0, &out->lanes}};
    if (strcmp(name, "vendor") == 0)
        return read_ids(value, out);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (strcmp(name, members[i].name) == 0)
            return members[i].text ? read_text(members[i].text, members[i].size, value)
                                   : read_number(value, members[i].number);
    return true;
}

static bool parse(char *source, tune_environment *out)
{
    int count = 0;
    for (char *at = source; at; count++) {
        char *end = strstr(at, "; ");
        if (end)
            *end = 0;
        char *blank = count > 0 ? strchr(at, ' ') : NULL;
        if (blank)
            *blank = 0;
        if (count == 0 ? !read_text(out->backend, sizeof out->backend, at)
                       : !read_member(at, blank ? blank + 1 : "", out))
            return false;
        at = end ? end + 2 : NULL;
    }
    return out->backend[0] && out->device[0];
}

tuff_status tuff__environment_parse(const char *source, tune_environment *out)
{
    char copy[ENVIRONMENT_SIZE];
    *out = (tune_environment){0};
    if (!read_text(copy, sizeof copy, source) || !parse(copy, out))
        return FAIL(TUFF_E_FORMAT, "not a valid environment: '%.200s'", source);
    return TUFF_OK;
}

void tuff__environment_unversioned_device(const char *device, char *out, size_t size)
{
    const char *bracket = strchr(device, '(');
    while (bracket && !(strchr(bracket, '.') && strchr(bracket, '.') < bracket + strcspn(bracket, ")")))
        bracket = strchr(bracket + 1, '(');
    snprintf(out, size, "%.*s", bracket ? (int)(bracket - device) : (int)strlen(device), device);
}

/* Whether the limits are equal that decide which candidates can run and which is fastest. */
static bool has_same_limits(const tune_environment *a, const tune_environment *b)
{
    return a->units == b->units && a->local_memory == b->local_memory && a->group_size == b->group_size &&
           a->subgroup == b->subgroup && a->lanes == b->lanes;
}

/* Two environments with the same device differ only in versions: all other members are compared. CPUs of one name may
   have vectors of different widths. */
static bool is_same_device(const tune_environment *a, const tune_environment *b)
{
    char first[128], second[128];
    tuff__environment_unversioned_device(a->device, first, sizeof first);
    tuff__environment_unversioned_device(b->device, second, sizeof second);
    return strcmp(first, second) == 0 && strcmp(a->backend, b->backend) == 0 && strcmp(a->platform, b->platform) == 0 &&
           strcmp(a->kind, b->kind) == 0 && strcmp(a->system, b->system) == 0 && a->vendor == b->vendor &&
           a->device_id == b->device_id && has_same_limits(a, b);
}

/* Whether CPUs have vectors of different widths; drivers for Vulkan do not report the width. */
static bool has_other_lanes(const tune_environment *a, const tune_environment *b)
{
    return a->lanes != b->lanes && a->lanes != 0 && b->lanes != 0;
}

/* Whether two environments have the same hardware. Drivers agree on no id for CPUs, so CPUs with the same system count
   as the same unless their vectors differ. */
static bool is_same_hardware(const tune_environment *a, const tune_environment *b)
{
    if (strcmp(a->kind, b->kind) != 0 || strcmp(a->system, b->system) != 0)
        return false;
    if (strcmp(a->kind, "cpu") == 0)
        return !has_other_lanes(a, b);
    return a->vendor == b->vendor && a->device_id == b->device_id && a->device_id != 0;
}

/* Writes the architecture: "gfx1100", "cpu", or "10de:22", the vendor and the leading digits that its devices of one
   architecture share; "" if unknown. */
static void architecture_of(const tune_environment *environment, char *out, size_t size)
{
    char name[128];
    size_t length = 0;
    for (; environment->device[length]; length++) /* Vulkan drivers write GFX1100 */
        name[length] = (char)tolower((unsigned char)environment->device[length]);
    name[length] = 0;
    const char *amd = strstr(name, "gfx");
    if (amd && isdigit((unsigned char)amd[3]))
        snprintf(out, size, "%.*s", (int)(3 + strspn(amd + 3, "0123456789abcdef")), amd);
    else if (strcmp(environment->kind, "gpu") != 0)
        snprintf(out, size, "%s", environment->kind);
    else if (environment->device_id != 0)
        snprintf(out, size, "%04" PRIx32 ":%02" PRIx32, environment->vendor, environment->device_id >> 8);
    else
        snprintf(out, size, "%s", "");
}

likeness tuff__environment_compare(const tune_environment *a, const tune_environment *b)
{
    char first[64], second[64];
    if (strcmp(ENVIRONMENT_TEXT(a), ENVIRONMENT_TEXT(b)) == 0)
        return LIKENESS_SAME;
    if (is_same_device(a, b))
        return LIKENESS_OTHER_DRIVER;
    if (is_same_hardware(a, b))
        return LIKENESS_OTHER_BACKEND;
    architecture_of(a, first, sizeof first);
    architecture_of(b, second, sizeof second);
    return first[0] && strcmp(first, second) == 0 ? LIKENESS_ARCHITECTURE : LIKENESS_NONE;
}
