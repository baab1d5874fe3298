/* tuff cache export and import: stores as one file for another machine, and back. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "io/json.h"
#include "tools/cache.h"

typedef struct export
{
    bool lock, anonymous;
    text lines;
    int wins, bad, pins, environments;
}
export;

static tuff_status put(export *to, const tune_record *record)
{
    tune_record copy = *record;
    if (to->anonymous)
        copy.time -= copy.time % 86400;
    to->wins += record->kind == RECORD_WIN;
    to->bad += record->kind == RECORD_BAD;
    to->pins += record->kind == RECORD_PIN;
    to->environments += record->kind == RECORD_ENVIRONMENT;
    return tuff__record_write(&copy, &to->lines);
}

/* Pins say what one person wanted, and "user" may be a name one day. */
static tuff_status export_store(export *to, const cache_store *store)
{
    const tune_record *record;
    for (int at = 0; (record = tuff__store_next(store->store, &at));)
        if (!to->anonymous || record->kind != RECORD_PIN)
            TRY(put(to, record));
    const char *unknown = tuff__store_unknown(store->store);
    tuff__text_add_bytes(&to->lines, unknown, strlen(unknown));
    return tuff__text_status(&to->lines);
}

/* Whether an earlier store has said what the key runs with there. */
static bool was_locked(const cache_stores *stores, int index, const tune_record *record)
{
    for (int i = 0; i < index; i++)
        if (tuff__store_win(stores->items[i].store, record->environment, record->key) ||
            tuff__store_pin(stores->items[i].store, record->environment, record->key))
            return true;
    return false;
}

/* A manifest is pins alone: of every key that has a pin or a winner, what it runs with. */
static tuff_status lock_store(export *to, const cache_stores *stores, int index)
{
    const tune_store *store = stores->items[index].store;
    const tune_record *record;
    for (int at = 0; (record = tuff__store_next(store, &at));) {
        const bool is_pinned = tuff__store_pin(store, record->environment, record->key) != NULL;
        if (record->kind == RECORD_ENVIRONMENT) {
            TRY(put(to, record));
        } else if (record->kind == RECORD_PIN ||
                   (record->kind == RECORD_WIN && !is_pinned && strcmp(record->source, "seed") != 0)) {
            tune_record pin = *record;
            pin.kind = RECORD_PIN;
            pin.reason = "lock";
            pin.phase = "";
            if (!was_locked(stores, index, record))
                TRY(put(to, &pin));
        }
    }
    return TUFF_OK;
}

static tuff_status export_all(export *to, const cache_stores *stores)
{
    for (int i = 0; i < stores->count; i++)
        if (to->lock)
            TRY(lock_store(to, stores, i));
        else if (!stores->items[i].is_shipped)
            TRY(export_store(to, &stores->items[i]));
    return TUFF_OK;
}

static int write_lines(const export *from, const char *path, const cache_common *common)
{
    const file_part part = {tuff__text_get(&from->lines), from->lines.length};
    const bool is_output = strcmp(path, "-") == 0;
    if (is_output)
        return fwrite(part.data, 1, part.size, stdout) == part.size
                   ? CACHE_OK
                   : CACHE_REFUSE(&cache_verb_export, "the output could not be written");
    if (tuff__file_write(path, &part, 1, true, false) != TUFF_OK)
        return cache_fail(&cache_verb_export, "the file");
    if (common->json)
        return cache_print_json(&cache_verb_export,
                                json_pack("{s:o, s:i, s:i, s:i, s:i}", "path", cache_json_text(path), "win", from->wins,
                                          "bad", from->bad, "pin", from->pins, "environments", from->environments),
                                CACHE_OK);
    printf("exported %d win, %d bad, %d pin of %d environments to %s\n", from->wins, from->bad, from->pins,
           from->environments, path);
    return CACHE_OK;
}

static int export_to(const char *path, export *to, const cache_common *common)
{
    cache_stores stores;
    int code = cache_open(&cache_verb_export, common->device, &stores);
    if (code != CACHE_OK)
        return code;
    tuff__json_begin();
    code = export_all(to, &stores) == TUFF_OK ? write_lines(to, path, common)
                                              : cache_fail(&cache_verb_export, "the records");
    for (int i = 0; i < stores.count && code == CACHE_OK; i++)
        code = tuff__store_trouble(stores.items[i].store)[0] ? CACHE_FINDINGS : CACHE_OK;
    tuff__text_free(&to->lines);
    cache_close(&stores);
    return code;
}

static int run_export(int count, char **arguments)
{
    cache_common common = {0};
    export to = {0};
    const char *path = NULL;
    const cli_option options[] = {
        CACHE_COMMON(common),
        {.name = "--lock",
         .kind = CLI_SWITCH,
         .value = &to.lock,
         .help = "a manifest: a pin for what each key runs with"},
        {.name = "--anon", .kind = CLI_SWITCH, .value = &to.anonymous, .help = "without pins, times cut to days"}};
    const cli_end end = cache_parse(&cache_verb_export, options, 4, count, arguments, &path, NULL, &common);
    if (end.now)
        return end.code;
    if (!path)
        return cli_fail(&cache_verb_export, EXIT_WRONG_USE, "give a file, or -");
    if (to.lock && to.anonymous)
        return cli_fail(&cache_verb_export, EXIT_WRONG_USE, "--lock and --anon are two kinds of files");
    return export_to(path, &to, &common);
}

const cli_verb cache_verb_export = {
    .name = "cache export",
    .operand = "FILE",
    .summary = "Writes the stores into one file, which other machines can import.",
    .run = run_export,
};

typedef struct import {
    cache_stores *stores;
    tune_store *from;
    const char *device; /* of --device */
    bool as_seed;
    int imported, skipped, seeds, strangers, nameless;
    hash128 *seen; /* environments */
    int seen_count, seen_capacity;
} import;

/* What the machine is to an environment: the best of its devices and its own stores. */
static likeness likeness_here(import *of, const tune_environment *environment)
{
    likeness best = cache_likeness(of->stores, environment);
    for (int i = 0; i < of->stores->count; i++) {
        const cache_store *store = &of->stores->items[i];
        if (store->is_shipped || !store->is_described)
            continue;
        const likeness found = tuff__environment_compare(&store->environment, environment);
        best = found < best ? found : best;
    }
    return best;
}

/* Whether what is here of the same key is to be kept. */
static bool is_newer_here(const tune_store *here, const tune_record *record)
{
    const tune_record *win = tuff__store_win(here, record->environment, record->key),
                      *pin = tuff__store_pin(here, record->environment, record->key);
    if (record->kind == RECORD_PIN)
        return pin && pin->time >= record->time;
    if (record->kind == RECORD_BAD)
        return tuff__store_bad(here, record->environment, record->key, record->candidate) != NULL;
    return win &&
           (strcmp(record->source, "seed") == 0 || win->time >= record->time || tuff__record_is_weaker(record, win));
}

static tuff_status import_record(import *of, tune_store *to, const tune_record *record, likeness like)
{
    tune_record copy = *record;
    if (record->kind == RECORD_ENVIRONMENT || (of->as_seed && record->kind != RECORD_WIN))
        return TUFF_OK;
    if (record->kind == RECORD_WIN && strcmp(record->source, "seed") != 0)
        copy.source = of->as_seed ? "seed" : "import";
    if (is_newer_here(to, &copy)) {
        of->skipped++;
        return TUFF_OK;
    }
    TRY(tuff__store_add(to, &copy));
    if (tuff__store_trouble(to)[0])
        return FAIL(TUFF_E_IO, "%s", tuff__store_trouble(to));
    const bool is_own = like == LIKENESS_SAME && !of->as_seed;
    of->imported += is_own;
    of->strangers += !is_own && like > LIKENESS_OTHER_DRIVER;
    of->seeds += !is_own && like <= LIKENESS_OTHER_DRIVER;
    return TUFF_OK;
}

/* All records of one environment into our store of it. text: NULL where nobody knows it. */
static tuff_status import_environment(import *of, hash128 hash, const char *source)
{
    tune_environment parts;
    tune_store *to = NULL;
    const tune_record *record;
    if (!source || tuff__environment_parse(source, &parts) != TUFF_OK) {
        for (int at = 0; (record = tuff__store_next(of->from, &at));)
            of->nameless += record->kind != RECORD_ENVIRONMENT && tuff__is_same_hash(record->environment, hash);
        return TUFF_OK;
    }
    if (!cache_is_wanted(of->device, "", source))
        return TUFF_OK;
    const likeness like = likeness_here(of, &parts);
    TRY(tuff__tune_open(source, &to));
    tuff_status status = TUFF_OK;
    for (int at = 0; status == TUFF_OK && (record = tuff__store_next(of->from, &at));)
        if (tuff__is_same_hash(record->environment, hash))
            status = import_record(of, to, record, like);
    tuff__store_close(to);
    return status;
}

static bool was_seen(const import *of, hash128 environment)
{
    for (int i = 0; i < of->seen_count; i++)
        if (tuff__is_same_hash(of->seen[i], environment))
            return true;
    return false;
}

/* Environment by environment. Where the line of one was damaged, a store here may know its text. */
static tuff_status import_all(import *of)
{
    const tune_record *record;
    for (int at = 0; (record = tuff__store_next(of->from, &at));) {
        if (record->kind == RECORD_ENVIRONMENT || was_seen(of, record->environment))
            continue;
        if (!GROW(of->seen, of->seen_count, of->seen_capacity))
            return TUFF_E_OOM_HOST;
        of->seen[of->seen_count++] = record->environment;
        const char *source = tuff__store_environment(of->from, record->environment);
        TRY(import_environment(of, record->environment,
                               source ? source : cache_environment_text(of->stores, record->environment)));
    }
    return TUFF_OK;
}

/* "imported 380, skipped 20 (local newer), seeds 12 (driver differs), rejected 1 (crc)" */
static void print_import(const import *of)
{
    const store_counts counts = tuff__store_count(of->from);
    printf("imported %d, skipped %d (local newer), seeds %d (%s)", of->imported, of->skipped, of->seeds,
           of->as_seed ? "as asked" : "driver differs");
    if (of->strangers)
        printf(", other devices %d (seeds where they are alike)", of->strangers);
    printf(", rejected %" PRIu64 " (crc)", counts.damaged);
    if (of->nameless)
        printf(", %d (environment not known)", of->nameless);
    if (counts.unknown)
        printf(", %" PRIu64 " (of a later version)", counts.unknown);
    putchar('\n');
}

static int report_import(const import *of, const cache_common *common)
{
    const store_counts counts = tuff__store_count(of->from);
    const int code = counts.damaged || counts.unknown || of->nameless ? CACHE_FINDINGS : CACHE_OK;
    if (!common->json) {
        print_import(of);
        return code;
    }
    return cache_print_json(&cache_verb_import,
                            json_pack("{s:i, s:i, s:i, s:i, s:I, s:i, s:I}", "imported", of->imported, "skipped",
                                      of->skipped, "seeds", of->seeds, "other_devices", of->strangers, "damaged",
                                      (json_int_t)counts.damaged, "environment_unknown", of->nameless, "later_version",
                                      (json_int_t)counts.unknown),
                            code);
}

static int import_from(const char *path, import *of, const cache_common *common)
{
    cache_stores stores;
    int code = cache_open(&cache_verb_import, NULL, &stores);
    if (code != CACHE_OK)
        return code;
    tuff__json_begin();
    of->stores = &stores;
    of->device = common->device;
    tuff_status status = tuff__store_load(path, &of->from);
    if (status == TUFF_OK)
        status = import_all(of);
    code = status == TUFF_OK ? report_import(of, common) : cache_fail(&cache_verb_import, "the file");
    tuff__store_close(of->from);
    tuff__free(of->seen);
    cache_close(&stores);
    return code;
}

static int run_import(int count, char **arguments)
{
    cache_common common = {0};
import of = {0 };
    const char *path = NULL;
    const cli_option options[] = {CACHE_COMMON(common),
                                  {.name = "--as-seed",
                                   .kind = CLI_SWITCH,
                                   .value = &of.as_seed,
                                   .help = "winners only, and they are measured again before they are used"}};
    const cli_end end = cache_parse(&cache_verb_import, options, 3, count, arguments, &path, NULL, &common);
    if (end.now)
        return end.code;
    if (!path)
        return cli_fail(&cache_verb_import, EXIT_WRONG_USE, "give a file");
    return import_from(path, &of, &common);
}

const cli_verb cache_verb_import = {
    .name = "cache import",
    .operand = "FILE",
    .summary = "Takes the records of an exported file into the stores; what was measured here later stays.",
    .about = "Exits with 1 where lines of the file were damaged, of a later version or of no known environment.",
    .run = run_import,
};
