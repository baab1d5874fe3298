/* Finds stores and keys. Nothing here needs a device; devices are described, not opened. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cache/cache.h"

likeness cache_likeness(tuff_cache *cache, const tune_environment *environment)
{
    (void)tuff__cache_list_local_devices(cache); /* if memory for the list runs out, no device counts as here */
    return tuff__cache_likeness(cache, environment, false);
}

cli_end cache_parse(const cli_verb *verb, const cli_option *options, int option_count, int count, char **arguments,
                    const char **operand, cli_strings *operands, cache_common *common)
{
    cli_end end = operands ? cli_parse_all(verb, options, option_count, count, arguments, operands)
                           : cli_parse(verb, options, option_count, count, arguments, operand);
    common->selector = common->device;
    if (!end.now && tuff__cache_resolve_device(common->selector, common->environment, &common->device) != TUFF_OK)
        return (cli_end){.now = true, .code = CACHE_FAIL(verb, "%s", tuff_error())};
    return end;
}

int cache_open_any(const cli_verb *verb, const char *device, tuff_cache **out)
{
    if (tuff__cache_open(device, out) != TUFF_OK)
        return cache_fail(verb, "opening the stores");
    for (int i = 0; i < (*out)->count; i++) {
        const cache_file *file = &(*out)->files[i];
        if (file->is_wanted && tuff__store_error(file->store)[0])
            (void)cli_fail(verb, CACHE_FINDINGS, "%s", tuff__store_error(file->store));
    }
    return CACHE_OK;
}

int cache_fail_unmatched(const cli_verb *verb, const char *subject, const cache_common *common)
{
    return cli_fail(verb, CACHE_FINDINGS, "no %s matches --device \"%s\"", subject, common->selector);
}

int cache_open(const cli_verb *verb, const cache_common *common, tuff_cache **out)
{
    bool is_matched = !common->device;
    const int code = cache_open_any(verb, common->device, out);
    for (int i = 0; code == CACHE_OK && i < (*out)->count; i++)
        is_matched |= (*out)->files[i].is_wanted;
    if (code != CACHE_OK || is_matched)
        return code;
    tuff_cache_close(*out);
    *out = NULL;
    return cache_fail_unmatched(verb, "store", common);
}

static bool has_match(const cache_common *common, const tuff_cache *known, const tune_store *store)
{
    const tune_record *record;
    bool found = false;
    for (int at = 0; !found && (record = tuff__store_next(store, &at));) {
        const char *environment = tuff__store_environment(store, record->environment);
        if (!environment && known)
            environment = tuff__cache_environment(known, record->environment);
        found = environment && tuff__cache_is_wanted(common->device, "", environment);
    }
    return found;
}

int cache_check_files(const cli_verb *verb, const cache_common *common, const tuff_cache *known,
                      const char *const *paths, int count)
{
    bool found = !common->device;
    for (int i = 0; !found && i < count; i++) {
        tune_store *store = NULL;
        found = tuff__store_load(paths[i], &store) != TUFF_OK || has_match(common, known, store);
        tuff__store_close(store);
    }
    return found
               ? CACHE_OK
               : cache_fail_unmatched(verb, count > 1 ? "environment of the files" : "environment of the file", common);
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
                                          : tuff__text_contains(record->op, which->pattern);
}

static int by_op(const void *a, const void *b)
{
    return strcmp(((const cache_key *)a)->op, ((const cache_key *)b)->op);
}

static tuff_status collect(const tuff_cache *cache, const cache_selection *which, cache_keys *out)
{
    const tune_record *record;
    for (int i = 0; i < cache->count; i++)
        for (int at = 0; cache->files[i].is_wanted && (record = tuff__store_next(cache->files[i].store, &at));) {
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
        return cli_fail(verb, EXIT_USAGE, "%d keys begin with %s: %s %s and %s %s%s", keys->count, which->prefix,
                        KEY_DIGITS(keys->items[0].hash), keys->items[0].op, KEY_DIGITS(keys->items[1].hash),
                        keys->items[1].op, keys->count > 2 ? " among them" : "");
    return CACHE_OK;
}

int cache_find_keys(const cli_verb *verb, const tuff_cache *cache, const cache_selection *which, cache_keys *out)
{
    *out = (cache_keys){0};
    const int ways = (which->prefix != NULL) + (which->pattern != NULL) + which->all;
    if (ways != 1)
        return cli_fail(verb, EXIT_USAGE, "%s",
                        ways == 0 ? "expected a KEY, or --op PATTERN" : "keys can be selected in only one way");
    if (which->prefix && (!which->prefix[0] || strlen(which->prefix) > 32 ||
                          strspn(which->prefix, "0123456789abcdef") != strlen(which->prefix)))
        return cli_fail(verb, EXIT_USAGE, "expected a prefix of a key's 32 hexadecimal digits, got \"%s\"",
                        which->prefix);
    const tuff_status status = collect(cache, which, out);
    const int code = status == TUFF_OK ? check_keys(verb, which, out) : cache_fail(verb, "listing the keys");
    if (code != CACHE_OK)
        cache_free_keys(out);
    return code;
}

void cache_free_keys(cache_keys *keys)
{
    tuff__free(keys->items);
    *keys = (cache_keys){0};
}
