/* Finding stores, devices and keys. Nothing here needs a device; where there are some, they are described, not
   opened. */
#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cache.h"
#include "tune/choice.h"
#include "tune/generator.h"

void cache_find_devices(cache_stores *stores)
{
    if (stores->searched)
        return;
    stores->searched = true;
    for (int i = 0; i < tuff_device_count(); i++) {
        tuff_device_info info;
        if (tuff_device_describe(i, &info) != TUFF_OK || info.device_class == TUFF_DEVICE_REFERENCE ||
            !GROW(stores->here, stores->here_count, stores->here_capacity))
            continue;
        tuff__environment_of(&info, &stores->here[stores->here_count++]);
    }
}

likeness cache_likeness(cache_stores *stores, const tune_environment *environment)
{
    likeness best = LIKENESS_NONE;
    cache_find_devices(stores);
    for (int i = 0; i < stores->here_count; i++) {
        const likeness found = tuff__environment_compare(&stores->here[i], environment);
        if (found < best)
            best = found;
    }
    return best;
}

static bool contains(const char *whole, const char *part)
{
    const size_t length = strlen(part);
    for (; *whole; whole++) {
        size_t i = 0;
        while (i < length && tolower((unsigned char)whole[i]) == tolower((unsigned char)part[i]))
            i++;
        if (i == length)
            return true;
    }
    return length == 0;
}

/* "opencl:1": the number of a device here. */
static bool is_selector(const char *device)
{
    const char *colon = strchr(device, ':');
    return colon && colon[1] && strspn(colon + 1, "0123456789") == strlen(colon + 1);
}

/* The environment of the device that a selector names; false where there is none. */
static bool select_environment(const char *selector, char *out)
{
    for (int i = 0; i < tuff_device_count(); i++) {
        tuff_device_info info;
        tune_environment environment;
        if (tuff_device_describe(i, &info) != TUFF_OK || strcmp(info.selector, selector) != 0)
            continue;
        tuff__environment_of(&info, &environment);
        (void)tuff__environment_text(&environment, out);
        return true;
    }
    return false;
}

cli_end cache_parse(const cli_verb *verb, const cli_option *options, int option_count, int count, char **arguments,
                    const char **operand, cli_texts *operands, cache_common *common)
{
    cli_end end = operands ? cli_parse_all(verb, options, option_count, count, arguments, operands)
                           : cli_parse(verb, options, option_count, count, arguments, operand);
    if (end.now || !common->device || !is_selector(common->device))
        return end;
    if (!select_environment(common->device, common->environment))
        return (cli_end){.now = true, .code = CACHE_REFUSE(verb, "there is no device %s here", common->device)};
    common->device = common->environment;
    return end;
}

bool cache_is_wanted(const char *device, const char *name, const char *environment)
{
    if (!device)
        return true;
    if (strncmp(device, "opencl:", 7) == 0 || strncmp(device, "vulkan:", 7) == 0) /* "opencl:pocl" */
        return strncmp(environment, device, 6) == 0 && contains(environment, device + 7);
    return contains(name, device) || contains(environment, device);
}

bool cache_is_wanted_record(const char *device, const tune_store *store, const tune_record *record)
{
    const char *environment = tuff__store_environment(store, record->environment);
    return !device || (environment && cache_is_wanted(device, "", environment));
}

typedef struct opening {
    const cli_verb *verb;
    const char *device;
    cache_stores *out;
} opening;

/* The first environment that the file describes is what it is of. */
static void describe(cache_store *store)
{
    const tune_record *record;
    store->text = "";
    for (int at = 0; (record = tuff__store_next(store->store, &at)) && !store->is_described;)
        if (record->kind == RECORD_ENVIRONMENT && tuff__environment_parse(record->op, &store->environment) == TUFF_OK) {
            store->text = record->op;
            store->is_described = true;
        }
}

static tuff_status open_one(const char *path, bool is_shipped, void *state)
{
    opening *of = state;
    cache_store store = {.is_shipped = is_shipped};
    tuff_status status = is_shipped ? tuff__store_load(path, &store.store) : tuff__store_open(path, &store.store);
    if (status == TUFF_E_IO || status == TUFF_E_LIMIT) {
        (void)cli_fail(of->verb, CACHE_FINDINGS, "%s", tuff_error());
        return TUFF_OK;
    }
    TRY(status);
    store.path = tuff__strdup(path);
    describe(&store);
    const char *name = strrchr(path, '/');
    store.name = store.path ? store.path + (name - path) + 1 : "";
    if (!cache_is_wanted(of->device, store.name, store.text)) {
        tuff__store_close(store.store);
        tuff__free(store.path);
        return TUFF_OK;
    }
    if (!store.path || !GROW(of->out->items, of->out->count, of->out->capacity)) {
        tuff__store_close(store.store);
        tuff__free(store.path);
        return TUFF_E_OOM_HOST;
    }
    of->out->items[of->out->count++] = store;
    if (tuff__store_trouble(store.store)[0])
        (void)cli_fail(of->verb, CACHE_FINDINGS, "%s", tuff__store_trouble(store.store));
    return TUFF_OK;
}

int cache_open(const cli_verb *verb, const char *device, cache_stores *out)
{
    opening of = {.verb = verb, .device = device, .out = out};
    *out = (cache_stores){0};
    tuff_status status = tuff__tune_visit(open_one, &of);
    if (status == TUFF_OK) {
        out->plain = tuff__alloc(((size_t)out->count + 1) * sizeof *out->plain);
        status = out->plain ? TUFF_OK : TUFF_E_OOM_HOST;
    }
    if (status != TUFF_OK) {
        cache_close(out);
        return cache_fail(verb, "the stores");
    }
    for (int i = 0; i < out->count; i++)
        out->plain[i] = out->items[i].store;
    return CACHE_OK;
}

void cache_close(cache_stores *stores)
{
    for (int i = 0; i < stores->count; i++) {
        tuff__store_close(stores->items[i].store);
        tuff__free(stores->items[i].path);
    }
    tuff__free(stores->items);
    tuff__free((void *)stores->plain);
    tuff__free(stores->here);
    *stores = (cache_stores){0};
}

const char *cache_environment_text(const cache_stores *stores, hash128 environment)
{
    const char *found = NULL;
    for (int i = 0; i < stores->count && !found; i++)
        found = tuff__store_environment(stores->items[i].store, environment);
    return found;
}

static bool matches(const cache_selection *which, const tune_record *record)
{
    if (record->kind == RECORD_ENVIRONMENT)
        return false;
    if (which->prefix)
        return strncmp(ALL_DIGITS(record->key), which->prefix, strlen(which->prefix)) == 0;
    if (!which->pattern)
        return which->all;
    return strpbrk(which->pattern, "*?[") ? fnmatch(which->pattern, record->op, 0) == 0
                                          : contains(record->op, which->pattern);
}

static int by_op(const void *a, const void *b)
{
    return strcmp(((const cache_key *)a)->op, ((const cache_key *)b)->op);
}

static tuff_status collect(const cache_stores *stores, const cache_selection *which, cache_keys *out)
{
    const tune_record *record;
    for (int i = 0; i < stores->count; i++)
        for (int at = 0; (record = tuff__store_next(stores->items[i].store, &at));) {
            if (!matches(which, record))
                continue;
            if (!GROW(out->items, out->count, out->capacity))
                return TUFF_E_OOM_HOST;
            out->items[out->count++] = (cache_key){record->key, record->op};
        }
    if (out->count > 0)
        qsort(out->items, (size_t)out->count, sizeof *out->items, by_op);
    int kept = 0;
    for (int i = 0; i < out->count; i++)
        if (kept == 0 || strcmp(out->items[i].op, out->items[kept - 1].op) != 0)
            out->items[kept++] = out->items[i];
    out->count = kept;
    return TUFF_OK;
}

static int check_keys(const cli_verb *verb, const cache_selection *which, const cache_keys *keys)
{
    if (keys->count == 0 && which->prefix)
        return cli_fail(verb, CACHE_FINDINGS, "no key begins with %s", which->prefix);
    if (keys->count == 0 && which->pattern)
        return cli_fail(verb, CACHE_FINDINGS, "no key's text matches \"%s\"", which->pattern);
    if (which->prefix && keys->count > 1)
        return cli_fail(verb, EXIT_WRONG_USE, "%d keys begin with %s: %s %s and %s %s%s", keys->count, which->prefix,
                        KEY_DIGITS(keys->items[0].hash), keys->items[0].op, KEY_DIGITS(keys->items[1].hash),
                        keys->items[1].op, keys->count > 2 ? " among them" : "");
    return CACHE_OK;
}

int cache_find_keys(const cli_verb *verb, const cache_stores *stores, const cache_selection *which, cache_keys *out)
{
    *out = (cache_keys){0};
    const int ways = (which->prefix != NULL) + (which->pattern != NULL) + which->all;
    if (ways != 1)
        return cli_fail(verb, EXIT_WRONG_USE, "give %s", ways == 0 ? "a KEY, or --op PATTERN" : "one way to name keys");
    if (which->prefix && (!which->prefix[0] || strlen(which->prefix) > 32 ||
                          strspn(which->prefix, "0123456789abcdef") != strlen(which->prefix)))
        return cli_fail(verb, EXIT_WRONG_USE, "a key is the first of 32 hexadecimal digits, not \"%s\"", which->prefix);
    const tuff_status status = collect(stores, which, out);
    const int code = status == TUFF_OK ? check_keys(verb, which, out) : cache_fail(verb, "the keys");
    if (code != CACHE_OK)
        cache_free_keys(out);
    return code;
}

void cache_free_keys(cache_keys *keys)
{
    tuff__free(keys->items);
    *keys = (cache_keys){0};
}

static bool is_usable(const char *candidate, void *state)
{
    choice parsed;
    (void)state;
    return tuff__choice_parse(candidate, &parsed) == TUFF_OK;
}

bool cache_ask(const cache_stores *stores, const tune_environment *environment, const char *op, tune_answer *out)
{
    tune_key key;
    char generator[GENERATOR_SIZE];
    if (tuff__key_parse(op, &key) != TUFF_OK)
        return false;
    tuff__tune_lookup(&(tune_question){.key = &key,
                                       .environment = environment,
                                       .generator = tuff__generator_of(key.family, generator),
                                       .stores = stores->plain,
                                       .store_count = stores->count,
                                       .is_usable = is_usable},
                      out);
    return true;
}
