/* tuff cache merge and diff: merges exported files, or compares two of them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/json.h"
#include "tools/cache/cache.h"

static void report_conflict(const tune_record *kept, const tune_record *left_out, void *state)
{
    json_t *list = state;
    if (list)
        (void)json_array_append_new(
            list, json_pack("{s:o, s:o}", "kept", cache_json_record(kept), "left_out", cache_json_record(left_out)));
    else
        printf("conflict %s %s\n  kept %s %.3f ms (n %" PRIu64 ", %s ago)\n  left %s %.3f ms (n %" PRIu64 ", %s ago)\n",
               KEY_DIGITS(kept->key), kept->op, cache_candidate(kept->candidate), (double)kept->nanoseconds[1] / 1e6,
               kept->samples, AGE_TEXT(kept->time), cache_candidate(left_out->candidate),
               (double)left_out->nanoseconds[1] / 1e6, left_out->samples, AGE_TEXT(left_out->time));
}

static int report_merge(const tuff_cache_merged *counts, const char *path, json_t *conflicts)
{
    const int code = counts->damaged ? CACHE_FINDINGS : CACHE_OK;
    if (!conflicts) {
        printf("merged %d win into %s: conflicts %d, damaged lines left out %" PRIu64 "\n", counts->winners, path,
               counts->conflicts, counts->damaged);
        return code;
    }
    json_t *out = json_pack("{s:o, s:i, s:I, s:O}", "path", cache_json_text(path), "win", counts->winners, "damaged",
                            (json_int_t)counts->damaged, "conflicts", conflicts);
    return cache_print_json(&cache_verb_merge, out, code);
}

static int merge_files(const cli_strings *files, const char *path, const cache_common *common)
{
    tuff_cache_merged counts;
    const int matched =
        cache_check_files(&cache_verb_merge, common, NULL, (const char *const *)files->items, files->count);
    if (matched != CACHE_OK)
        return matched;
    tuff__json_begin();
    json_t *conflicts = common->json ? json_array() : NULL;
    const tuff_status status = tuff__cache_merge((const char *const *)files->items, files->count, common->device, path,
                                                 report_conflict, conflicts, &counts);
    const int code =
        status == TUFF_OK ? report_merge(&counts, path, conflicts) : cache_fail(&cache_verb_merge, "merging the files");
    json_decref(conflicts);
    return code;
}

static int merge(int count, char **arguments)
{
    cache_common common = {0};
    cli_strings files = {0};
    const char *path = NULL;
    const cli_option options[] = {{.name = "--out",
                                   .kind = CLI_TEXT,
                                   .value = &path,
                                   .placeholder = "FILE",
                                   .help = "the file to write; may be one of the inputs"},
                                  CACHE_COMMON(common)};
    const cli_end end = cache_parse(&cache_verb_merge, options, 3, count, arguments, NULL, &files, &common);
    int code = end.code;
    if (!end.now && (files.count < 2 || !path))
        code = cli_fail(&cache_verb_merge, EXIT_USAGE, "expected two or more files, and --out FILE");
    else if (!end.now)
        code = merge_files(&files, path, &common);
    cli_texts_free(&files);
    return code;
}

const cli_verb cache_verb_merge = {
    .name = "cache merge",
    .operand = "FILE FILE...",
    .summary = "Merges files. Of two winners for a key, keeps the one with better evidence, and prints both.",
    .about =
        "Better evidence is a measurement in the environment that uses it, then far more samples, then a later time.",
    .run = merge,
};

typedef struct difference {
    const tune_store *a, *b;
    const char *device;
    bool by_key; /* each file has only one environment, so the two need not be the same */
    json_t *list;
    int only_a, only_b, winners, times, same;
} difference;

/* Finds the environment that all records share; returns false if there are several. */
static bool find_environment(const tune_store *store, hash128 *out)
{
    const tune_record *record;
    bool found = false;
    for (int at = 0; (record = tuff__store_next(store, &at));) {
        if (found && !tuff__is_same_hash(record->environment, *out))
            return false;
        *out = record->environment;
        found = true;
    }
    return found;
}

static void print_difference(difference *diff, const char *subject, const tune_record *a, const tune_record *b)
{
    const tune_record *any = a ? a : b;
    if (diff->list) {
        (void)json_array_append_new(diff->list,
                                    json_pack("{s:s, s:o?, s:o?}", "what", subject, "a",
                                              a ? cache_json_record(a) : NULL, "b", b ? cache_json_record(b) : NULL));
        return;
    }
    printf("%s %s %s\n", subject, KEY_DIGITS(any->key), any->op);
    for (int i = 0; i < 2; i++) {
        const tune_record *one = i ? b : a;
        if (one)
            printf("  %c %s %.3f ms, %.2fx\n", i ? 'B' : 'A', cache_candidate(one->candidate),
                   (double)one->nanoseconds[1] / 1e6, tuff__record_gain(one));
    }
}

/* Compares two winners of a key. Times within 5 % count as the same. */
static void compare(difference *diff, const tune_record *a, const tune_record *b)
{
    const double ratio = (double)b->nanoseconds[1] / (double)(a->nanoseconds[1] ? a->nanoseconds[1] : 1);
    if (strcmp(a->candidate, b->candidate) != 0) {
        diff->winners++;
        print_difference(diff, "other winner", a, b);
    } else if (ratio > 1.05 || ratio < 1 / 1.05) {
        diff->times++;
        print_difference(diff, "other time", a, b);
    } else {
        diff->same++;
    }
}

/* Finds the winner of the same kernel texts; if there is none, the newest of others. */
static const tune_record *find_same(const tune_store *store, hash128 environment, const tune_record *record)
{
    return tuff__store_winner(store, environment, record->key, record->kernel_hash);
}

static void find_differences(difference *diff, hash128 environment_a, hash128 environment_b)
{
    const tune_record *record, *other;
    for (int at = 0; (record = tuff__store_next(diff->a, &at));) {
        if (record->kind != RECORD_WIN || !tuff__cache_record_is_wanted(diff->device, diff->a, record))
            continue;
        other = find_same(diff->b, diff->by_key ? environment_b : record->environment, record);
        diff->only_a += !other;
        if (other)
            compare(diff, record, other);
        else
            print_difference(diff, "only in A", record, NULL);
    }
    for (int at = 0; (record = tuff__store_next(diff->b, &at));) {
        if (record->kind != RECORD_WIN || !tuff__cache_record_is_wanted(diff->device, diff->b, record) ||
            find_same(diff->a, diff->by_key ? environment_a : record->environment, record))
            continue;
        diff->only_b++;
        print_difference(diff, "only in B", NULL, record);
    }
}

/* Lines that cannot be compared are findings too: files without a readable line are not the same. */
static int report_differences(difference *diff)
{
    const store_counts a = tuff__store_count(diff->a), b = tuff__store_count(diff->b);
    const uint64_t damaged = a.damaged + b.damaged, unknown = a.unknown + b.unknown;
    const bool is_same = diff->only_a + diff->only_b + diff->winners + diff->times == 0 && damaged + unknown == 0;
    const int code = is_same ? CACHE_OK : CACHE_FINDINGS;
    if (diff->list)
        return cache_print_json(&cache_verb_diff,
                                json_pack("{s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:O}", "same", diff->same,
                                          "other_winner", diff->winners, "other_time", diff->times, "only_a",
                                          diff->only_a, "only_b", diff->only_b, "damaged", (json_int_t)damaged,
                                          "later_version", (json_int_t)unknown, "differences", diff->list),
                                code);
    printf("same %d, other winner %d, other time %d, only in A %d, only in B %d\n", diff->same, diff->winners,
           diff->times, diff->only_a, diff->only_b);
    if (damaged + unknown > 0)
        printf("left out: %" PRIu64 " damaged lines, %" PRIu64 " from a later version; see tuff cache verify\n",
               damaged, unknown);
    return code;
}

static int diff_files(const char *first, const char *second, const cache_common *common)
{
    tune_store *a = NULL, *b = NULL;
    hash128 environment_a = {0}, environment_b = {0};
    tuff__json_begin();
    tuff_status status = tuff__store_load(first, &a);
    if (status == TUFF_OK)
        status = tuff__store_load(second, &b);
    int code = CACHE_ERROR;
    if (status == TUFF_OK) {
        difference diff = {.a = a, .b = b, .device = common->device, .list = common->json ? json_array() : NULL};
        diff.by_key = find_environment(a, &environment_a) && find_environment(b, &environment_b);
        find_differences(&diff, environment_a, environment_b);
        code = report_differences(&diff);
        json_decref(diff.list);
    } else {
        code = cache_fail(&cache_verb_diff, "reading the files");
    }
    tuff__store_close(a);
    tuff__store_close(b);
    return code;
}

static int diff(int count, char **arguments)
{
    cache_common common = {0};
    cli_strings files = {0};
    const cli_option options[] = {CACHE_COMMON(common)};
    const cli_end end = cache_parse(&cache_verb_diff, options, 2, count, arguments, NULL, &files, &common);
    int code = end.code;
    if (!end.now && files.count != 2)
        code = cli_fail(&cache_verb_diff, EXIT_USAGE, "expected two files");
    else if (!end.now)
        code = cache_check_files(&cache_verb_diff, &common, NULL, (const char *const *)files.items, files.count);
    if (!end.now && code == CACHE_OK)
        code = diff_files(files.items[0], files.items[1], &common);
    cli_texts_free(&files);
    return code;
}

const cli_verb cache_verb_diff = {
    .name = "cache diff",
    .operand = "A B",
    .summary = "Compares the winners of two files: keys that only one has, different winners, different times.",
    .about =
        "If each file has only one environment, the two may differ, so that drivers can be compared. Exits with 1 if\n"
        "there are differences, or lines that are damaged or from a later version; times within 5 % count as equal.",
    .run = diff,
};
