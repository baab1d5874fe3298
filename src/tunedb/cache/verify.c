/* Reading files line by line and saying what is wrong with which. */
#include <string.h>

#include "base/file/list.h"
#include "tunedb/cache/cache.h"
#include "kernels/config.h"
#include "tunedb/store_state.h"

enum { FILE_LIMIT = 256 << 20 };

typedef struct checking {
    const char *path;
    const verify_listener *to;
    arena texts;
    const tune_store *store; /* what describes the environments: the file, or the store that it is a part of */
    tuff_cache_verify_result found;
} checking;

static void find(checking *of, int line, const char *what, const char *detail)
{
    if (of->to->finding)
        of->to->finding(of->to->user, of->path, line, what, detail);
}

/* What this version cannot use of the record; NULL where all can be. */
static const char *unusable(const tune_record *record)
{
    tune_config parsed;
    tune_key key;
    if (tuff__key_parse(record->op, &key) != TUFF_OK || tuff__config_parse(record->candidate, &parsed) != TUFF_OK)
        return "cannot be used";
    for (int i = 0; i < RUNNERS_UP; i++)
        if (tuff__config_parse(record->runners_up[i], &parsed) != TUFF_OK)
            return "a runner-up cannot be used";
    return NULL;
}

static void check_environment(checking *of, int line, const tune_record *record)
{
    tune_environment environment;
    const bool whole = tuff__environment_parse(record->op, &environment) == TUFF_OK;
    of->found.ok += whole;
    of->found.invalid += !whole;
    if (!whole)
        find(of, line, "environment", tuff_error());
}

static void check_record(checking *of, int line, const tune_record *record)
{
    const tune_record *bad;
    const char *what, *generator = record->generator[0] ? record->generator : NULL;
    if (record->kind == RECORD_ENVIRONMENT) {
        check_environment(of, line, record);
    } else if ((what = unusable(record))) {
        of->found.invalid++;
        find(of, line, what, tuff_error());
    } else if (!tuff__store_environment(of->store, record->environment)) {
        of->found.orphans++;
        find(of, line, "of an environment that no line describes", record->op);
    } else if ((record->kind == RECORD_WIN || record->kind == RECORD_PIN) &&
               (bad = tuff__store_bad(of->store, record->environment, record->key, record->candidate, generator)) &&
               tuff__record_bars(bad, generator)) {
        of->found.rejected++;
        find(of, line, record->kind == RECORD_WIN ? "a winner that was rejected" : "a pin that was rejected",
             bad->reason);
    } else {
        of->found.ok++;
    }
}

static tuff_status check_line(checking *of, int number, const char *line, size_t size)
{
    tune_record record;
    line_state state;
    TRY(tuff__record_read(line, size, &of->texts, &record, &state));
    switch (state) {
    case LINE_GOOD:
        check_record(of, number, &record);
        break;
    case LINE_DAMAGED:
        of->found.damaged++;
        find(of, number, "damaged", "the check of the line does not hold");
        break;
    case LINE_MALFORMED:
        of->found.malformed++;
        find(of, number, "malformed", "the line is whole, and no record");
        break;
    case LINE_UNKNOWN:
        of->found.unknown++;
        find(of, number, "of a later version", "");
        break;
    }
    return TUFF_OK;
}

static tuff_status check_lines(checking *of, const char *data, size_t size)
{
    int number = 0;
    for (size_t at = 0; at < size;) {
        const char *end = memchr(data + at, '\n', size - at);
        const size_t length = end ? (size_t)(end - data) - at : size - at;
        number++;
        if (length > 0)
            TRY(check_line(of, number, data + at, length));
        at += length + 1;
    }
    return TUFF_OK;
}

int tuff__verdict_findings(const tuff_cache_verify_result *of)
{
    return of->damaged + of->malformed + of->unknown + of->invalid + of->orphans + of->rejected;
}

static tuff_status check_file(checking *of, bool is_part)
{
    void *data = NULL;
    size_t size = 0;
    tune_store *store = NULL;
    TRY(is_part ? tuff__cache_read(of->path, FILE_LIMIT, &data, &size)
                : tuff__file_read(of->path, FILE_LIMIT, &data, &size));
    tuff_status status = is_part ? TUFF_OK : tuff__store_load(of->path, &store);
    if (store)
        of->store = store;
    if (status == TUFF_OK)
        status = check_lines(of, data, size);
    tuff__store_close(store);
    tuff__free(data);
    return status;
}

/* part_of: the store of ours that the file is a part of, which nobody else may be able to write; NULL for others. */
static tuff_status verify_path(const char *path, const tune_store *part_of, const verify_listener *to)
{
    checking of = {.path = path, .to = to, .store = part_of};
    if (to->begin)
        to->begin(path, to->user);
    const tuff_status status = check_file(&of, part_of != NULL);
    if (status == TUFF_OK && to->heard)
        to->heard(path, &of.found, to->user);
    if (status != TUFF_OK && to->failed)
        to->failed(path, to->user);
    tuff__arena_free(&of.texts);
    return status;
}

tuff_status tuff__cache_verify_path(const char *path, const verify_listener *to)
{
    return verify_path(path, NULL, to);
}

/* One file that cannot be read does not hide the others: the first failure stays, with its message. */
typedef struct verifying {
    const tune_store *store;
    const verify_listener *to;
    tuff_status first;
    char why[TUFF_ERROR_SIZE];
} verifying;

static void take(verifying *of, tuff_status status)
{
    if (status == TUFF_OK || of->first != TUFF_OK)
        return;
    of->first = status;
    (void)snprintf(of->why, sizeof of->why, "%s", tuff_error());
}

static tuff_status give(const verifying *of)
{
    return of->first == TUFF_OK ? TUFF_OK : FAIL(of->first, "%s", of->why);
}

static tuff_status verify_shard(const char *name, void *state)
{
    verifying *of = state;
    char path[STORE_PATH];
    if (tuff__store_is_shard(of->store, name) && tuff__store_path_of(of->store, name, path))
        take(of, verify_path(path, of->store, of->to));
    return TUFF_OK;
}

tuff_status tuff__cache_verify_one(const tuff_cache *self, int index, const verify_listener *to)
{
    const cache_file *file = &self->files[index];
    char folder[STORE_PATH];
    verifying of = {.store = file->store, .to = to};
    take(&of, verify_path(file->path, file->is_shipped ? NULL : file->store, to));
    if (!file->is_shipped && tuff__store_path_of(file->store, ".", folder))
        take(&of, tuff__file_list(folder, file->name, verify_shard, &of));
    return give(&of);
}

/* What programs are told. */
typedef struct telling {
    tuff_cache_finding finding;
    void *user;
    tuff_cache_verify_result sum;
} telling;

static void pass_on(void *user, const char *path, int line, const char *what, const char *detail)
{
    const telling *of = user;
    if (of->finding)
        of->finding(of->user, path, line, what, detail);
}

static void add_up(const char *path, const tuff_cache_verify_result *found, void *user)
{
    telling *of = user;
    (void)path;
    of->sum.ok += found->ok;
    of->sum.damaged += found->damaged;
    of->sum.malformed += found->malformed;
    of->sum.unknown += found->unknown;
    of->sum.invalid += found->invalid;
    of->sum.orphans += found->orphans;
    of->sum.rejected += found->rejected;
}

tuff_status tuff_cache_verify(const tuff_cache *cache, tuff_cache_finding finding, void *user,
                              tuff_cache_verify_result *out)
{
    telling told = {.finding = finding, .user = user};
    const verify_listener to = {.finding = pass_on, .heard = add_up, .user = &told};
    verifying of = {.first = TUFF_OK};
    if (!cache)
        return FAIL(TUFF_E_USAGE, "cache: the cache is NULL");
    for (int i = 0; i < cache->count; i++)
        if (cache->files[i].is_wanted)
            take(&of, tuff__cache_verify_one(cache, i, &to));
    if (out)
        *out = told.sum;
    return give(&of);
}

tuff_status tuff_cache_verify_file(const char *path, tuff_cache_finding finding, void *user,
                                   tuff_cache_verify_result *out)
{
    telling told = {.finding = finding, .user = user};
    const verify_listener to = {.finding = pass_on, .heard = add_up, .user = &told};
    if (!path)
        return FAIL(TUFF_E_USAGE, "cache: the path is NULL");
    TRY(tuff__cache_verify_path(path, &to));
    if (out)
        *out = told.sum;
    return TUFF_OK;
}

static bool is_strike(const tune_record *record, void *state)
{
    int *count = state;
    *count += record->kind == RECORD_BAD;
    return record->kind == RECORD_BAD;
}

tuff_status tuff_cache_forget_rejected(tuff_cache *cache, int *count)
{
    int dropped = 0;
    if (!cache)
        return FAIL(TUFF_E_USAGE, "cache: the cache is NULL");
    for (int i = 0; i < cache->count; i++)
        if (cache->files[i].is_wanted && !cache->files[i].is_shipped)
            TRY(tuff__store_compact(cache->files[i].store, is_strike, &dropped));
    if (count)
        *count = dropped;
    return TUFF_OK;
}
