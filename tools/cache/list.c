/* tuff cache list: prints a line for each store, and one for each family of kernels in it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "tools/cache/cache.h"
#include "tunedb/kernel_hash.h"

/* A winner; rows are sorted by family, then gain. */
typedef struct gain_row {
    tune_key key;
    double gain;
    bool is_stale; /* measured with kernel texts other than today's */
} gain_row;

typedef struct store_summary {
    gain_row *rows;
    int count, capacity;
    int bad, pins;
    uint64_t newest;
    char family[32], current_hash[KERNEL_HASH_SIZE]; /* the family that was looked up last, and its hash */
} store_summary;

static const char *current_hash_of(store_summary *summary, const char *family)
{
    if (strcmp(summary->family, family) != 0)
        (void)tuff__kernel_hash(family, summary->current_hash);
    snprintf(summary->family, sizeof summary->family, "%s", family);
    return summary->current_hash;
}

static int by_family(const void *a, const void *b)
{
    const gain_row *first = a, *second = b;
    const int order = strcmp(first->key.family, second->key.family);
    return order ? order : (first->gain > second->gain) - (first->gain < second->gain);
}

/* Adds a winner. One whose key this version cannot read counts under "other". */
static tuff_status add_winner(store_summary *to, const tune_record *win)
{
    if (!GROW(to->rows, to->count, to->capacity))
        return TUFF_E_OOM_HOST;
    gain_row *row = &to->rows[to->count++];
    *row = (gain_row){.gain = tuff__record_gain(win)};
    if (tuff__key_parse(win->op, &row->key) != TUFF_OK)
        row->key = (tune_key){.family = "other"};
    else
        row->is_stale = strcmp(win->kernel_hash, current_hash_of(to, row->key.family)) != 0;
    return TUFF_OK;
}

static tuff_status summarize(const tune_store *store, store_summary *out)
{
    const tune_record *record;
    *out = (store_summary){.newest = tuff__store_newest(store)};
    for (int at = 0; (record = tuff__store_next(store, &at));) {
        out->bad += record->kind == RECORD_REJECTION;
        out->pins += record->kind == RECORD_PIN;
        if (record->kind == RECORD_WIN)
            TRY(add_winner(out, record));
    }
    if (out->count > 0)
        qsort(out->rows, (size_t)out->count, sizeof *out->rows, by_family);
    return TUFF_OK;
}

/* Returns how many rows from `at` on belong to the same family. */
static int family_size(const store_summary *summary, int at)
{
    int size = 1;
    while (at + size < summary->count && strcmp(summary->rows[at].key.family, summary->rows[at + size].key.family) == 0)
        size++;
    return size;
}

static int count_stale(const store_summary *summary, int at, int size)
{
    int count = 0;
    for (int i = at; i < at + size; i++)
        count += summary->rows[i].is_stale;
    return count;
}

static double median_gain(const store_summary *summary, int at, int size)
{
    const gain_row *rows = summary->rows + at;
    return (rows[(size - 1) / 2].gain + rows[size / 2].gain) / 2;
}

/* Returns the tier of lookup at which the devices here can use the store. */
static const char *tier_of(tuff_cache *cache, const cache_file *store)
{
    static const char *const tiers[] = {"T1", "T2", "T4", "T4", "-"};
    return store->is_described ? tiers[cache_likeness(cache, &store->environment)] : "-";
}

static void print_store(tuff_cache *cache, const cache_file *store, const store_summary *summary)
{
    const store_counts counts = tuff__store_count(store->store);
    printf("dev %.*s  drv %s  %d win  %d bad  %d pin  shards %" PRIu64 "  %s  newest %s%s\n",
           (int)(strlen(store->name) - strlen(".jsonl")), store->name,
           store->is_described ? store->environment.driver : "?", summary->count, summary->bad, summary->pins,
           counts.shards, BYTES_TEXT(counts.bytes), AGE_TEXT(summary->newest), store->is_shipped ? "  shipped" : "");
    if (counts.damaged || counts.unknown)
        printf("  %" PRIu64 " damaged lines, %" PRIu64 " from a later version: see tuff cache verify\n", counts.damaged,
               counts.unknown);
    for (int at = 0, size; at < summary->count; at += size) {
        size = family_size(summary, at);
        const int stale = count_stale(summary, at, size);
        printf("  %-20s %5d key%s  %.2fx  %s", summary->rows[at].key.family, size, size > 1 ? "s" : " ",
               median_gain(summary, at, size), tier_of(cache, store));
        if (stale)
            printf("  %d with other kernel texts", stale);
        putchar('\n');
    }
}

static json_t *json_families(const store_summary *summary)
{
    json_t *out = json_array();
    for (int at = 0, size; at < summary->count; at += size) {
        size = family_size(summary, at);
        (void)json_array_append_new(out, json_pack("{s:s, s:i, s:i, s:f}", "family", summary->rows[at].key.family,
                                                   "keys", size, "stale", count_stale(summary, at, size), "median_gain",
                                                   median_gain(summary, at, size)));
    }
    return out;
}

static json_t *json_store(tuff_cache *cache, const cache_file *store, const store_summary *summary)
{
    const store_counts counts = tuff__store_count(store->store);
    json_t *out = json_pack("{s:o, s:b, s:s, s:s, s:s, s:s, s:i, s:i, s:i}", "path", cache_json_text(store->path),
                            "shipped", (int)store->is_shipped, "environment", store->text, "device",
                            store->environment.device, "driver", store->environment.driver, "tier",
                            tier_of(cache, store), "win", summary->count, "bad", summary->bad, "pin", summary->pins);
    (void)json_object_update_new(
        out, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "shards", (json_int_t)counts.shards, "bytes",
                       (json_int_t)counts.bytes, "damaged", (json_int_t)counts.damaged, "unknown",
                       (json_int_t)counts.unknown, "superseded", (json_int_t)counts.superseded, "newest",
                       (json_int_t)summary->newest, "trouble", cache_json_text(tuff__store_error(store->store)),
                       "families", json_families(summary)));
    return out;
}

/* Lists a store. Sets *code if the store is damaged or cannot be read. */
static tuff_status list_one(tuff_cache *cache, const cache_file *store, json_t *list, int *code)
{
    store_summary summary;
    const tuff_status status = summarize(store->store, &summary);
    if (status == TUFF_OK && list)
        (void)json_array_append_new(list, json_store(cache, store, &summary));
    else if (status == TUFF_OK)
        print_store(cache, store, &summary);
    tuff__free(summary.rows);
    if (tuff__store_error(store->store)[0] || tuff__store_count(store->store).damaged)
        *code = CACHE_FINDINGS;
    return status;
}

static int list(int count, char **arguments)
{
    cache_common common = {0};
    tuff_cache *cache;
    const cli_option options[] = {CACHE_COMMON(common)};
    const cli_end end = cache_parse(&cache_verb_list, options, 2, count, arguments, NULL, NULL, &common);
    if (end.now)
        return end.code;
    int code = cache_open(&cache_verb_list, &common, &cache);
    if (code != CACHE_OK)
        return code;
    tuff__json_begin();
    json_t *all = common.json ? json_array() : NULL;
    tuff_status status = TUFF_OK;
    for (int i = 0; i < cache->count && status == TUFF_OK; i++)
        if (cache->files[i].is_wanted)
            status = list_one(cache, &cache->files[i], all, &code);
    if (status != TUFF_OK) {
        json_decref(all);
        code = cache_fail(&cache_verb_list, "listing the stores");
    } else if (common.json) {
        code = cache_print_json(&cache_verb_list, all, code);
    } else if (tuff_cache_file_count(cache) == 0) {
        puts("no stores");
    }
    tuff_cache_close(cache);
    return code;
}

const cli_verb cache_verb_list = {
    .name = "cache list",
    .summary = "Lists the stores: winners, rejected candidates, pins; keys and median gain per family.",
    .about =
        "The last column says how this machine's devices can use a store: T1 as it is, T2 as results of another "
        "driver\n"
        "of the device, T4 as seeds of searches, - not at all. Exits with 1 if a store is damaged or cannot be read.",
    .run = list,
};
