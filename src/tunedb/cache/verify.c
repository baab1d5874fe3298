/* tuff_cache_verify: reads every file line by line and reports damaged lines, records that today's kernels cannot use,
   and winners and pins that were rejected later. */
#include <string.h>

#include "base/file/list.h"
#include "tunedb/cache/cache.h"
#include "kernels/config.h"
#include "tunedb/store_state.h"

enum { FILE_LIMIT = 256 << 20 };

typedef struct file_check {
    const char *path;
    const verify_listener *to;
    arena texts;
    const tune_store *store; /* where environments are looked up: the file itself, or the store that it is part of */
    tuff_cache_verify_result found;
} file_check;

static void report_finding(file_check *self, int line, const char *subject, const char *detail)
{
    if (self->to->on_finding)
        self->to->on_finding(self->to->user, self->path, line, subject, detail);
}

/* Returns what this version cannot use of the record; NULL if it can use everything. */
static const char *find_unusable_part(const tune_record *record)
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

static void check_environment(file_check *self, int line, const tune_record *record)
{
    tune_environment environment;
    const bool valid = tuff__environment_parse(record->op, &environment) == TUFF_OK;
    self->found.ok += valid;
    self->found.invalid += !valid;
    if (!valid)
        report_finding(self, line, "environment", tuff_error());
}

static void check_record(file_check *self, int line, const tune_record *record)
{
    const tune_record *rejection;
    const char *subject, *kernel_hash = record->kernel_hash[0] ? record->kernel_hash : NULL;
    if (record->kind == RECORD_ENVIRONMENT) {
        check_environment(self, line, record);
    } else if ((subject = find_unusable_part(record))) {
        self->found.invalid++;
        report_finding(self, line, subject, tuff_error());
    } else if (!tuff__store_environment(self->store, record->environment)) {
        self->found.orphans++;
        report_finding(self, line, "unknown environment", record->op);
    } else if ((record->kind == RECORD_WIN || record->kind == RECORD_PIN) &&
               (rejection = tuff__store_rejection(self->store, record->environment, record->key, record->candidate,
                                                  kernel_hash)) &&
               tuff__record_rejects(rejection, kernel_hash)) {
        self->found.rejected++;
        report_finding(self, line,
                       record->kind == RECORD_WIN ? "a winner that was rejected" : "a pin that was rejected",
                       rejection->reason);
    } else {
        self->found.ok++;
    }
}

static tuff_status check_line(file_check *self, int number, const char *line, size_t size)
{
    tune_record record;
    line_state state;
    TRY(tuff__record_read(line, size, &self->texts, &record, &state));
    switch (state) {
    case LINE_GOOD:
        check_record(self, number, &record);
        break;
    case LINE_DAMAGED:
        self->found.damaged++;
        report_finding(self, number, "damaged", "checksum mismatch");
        break;
    case LINE_MALFORMED:
        self->found.malformed++;
        report_finding(self, number, "malformed", "the checksum matches, but the line is not a valid record");
        break;
    case LINE_UNKNOWN:
        self->found.unknown++;
        report_finding(self, number, "from a later version", "");
        break;
    }
    return TUFF_OK;
}

static tuff_status check_lines(file_check *self, const char *data, size_t size)
{
    int number = 0;
    for (size_t at = 0; at < size;) {
        const char *end = memchr(data + at, '\n', size - at);
        const size_t length = end ? (size_t)(end - data) - at : size - at;
        number++;
        if (length > 0)
            TRY(check_line(self, number, data + at, length));
        at += length + 1;
    }
    return TUFF_OK;
}

int tuff__verify_finding_count(const tuff_cache_verify_result *result)
{
    return result->damaged + result->malformed + result->unknown + result->invalid + result->orphans + result->rejected;
}

static tuff_status check_file(file_check *self, bool is_part)
{
    void *data = NULL;
    size_t size = 0;
    tune_store *store = NULL;
    TRY(is_part ? tuff__cache_read(self->path, FILE_LIMIT, &data, &size)
                : tuff__file_read(self->path, FILE_LIMIT, &data, &size));
    tuff_status status = is_part ? TUFF_OK : tuff__store_load(self->path, &store);
    if (store)
        self->store = store;
    if (status == TUFF_OK)
        status = check_lines(self, data, size);
    tuff__store_close(store);
    tuff__free(data);
    return status;
}

/* Verifies one file. part_of: the user's store that the file is part of, which must not be writable by other users;
   NULL for other files. */
static tuff_status verify_path(const char *path, const tune_store *part_of, const verify_listener *to)
{
    file_check self = {.path = path, .to = to, .store = part_of};
    if (to->on_file_begin)
        to->on_file_begin(path, to->user);
    const tuff_status status = check_file(&self, part_of != NULL);
    if (status == TUFF_OK && to->on_file_done)
        to->on_file_done(path, &self.found, to->user);
    if (status != TUFF_OK && to->on_file_failed)
        to->on_file_failed(path, to->user);
    tuff__arena_free(&self.texts);
    return status;
}

tuff_status tuff__cache_verify_path(const char *path, const verify_listener *to)
{
    return verify_path(path, NULL, to);
}

/* State of verifying several files. A file that cannot be read does not hide the others: only the first error and its
   message are kept, and returned at the end. */
typedef struct cache_check {
    const tune_store *store;
    const verify_listener *to;
    tuff_status first;
    char why[TUFF_ERROR_SIZE];
} cache_check;

static void note_error(cache_check *self, tuff_status status)
{
    if (status == TUFF_OK || self->first != TUFF_OK)
        return;
    self->first = status;
    (void)snprintf(self->why, sizeof self->why, "%s", tuff_error());
}

static tuff_status first_error(const cache_check *self)
{
    return self->first == TUFF_OK ? TUFF_OK : FAIL(self->first, "%s", self->why);
}

static tuff_status verify_shard(const char *name, void *state)
{
    cache_check *self = state;
    char path[STORE_PATH];
    if (tuff__store_is_shard(self->store, name) && tuff__store_sibling_path(self->store, name, path))
        note_error(self, verify_path(path, self->store, self->to));
    return TUFF_OK;
}

tuff_status tuff__cache_verify_one(const tuff_cache *self, int index, const verify_listener *to)
{
    const cache_file *file = &self->files[index];
    char folder[STORE_PATH];
    cache_check state = {.store = file->store, .to = to};
    note_error(&state, verify_path(file->path, file->is_shipped ? NULL : file->store, to));
    if (!file->is_shipped && tuff__store_sibling_path(file->store, ".", folder))
        note_error(&state, tuff__file_list(folder, file->name, verify_shard, &state));
    return first_error(&state);
}

/* Adapts a program's callback, and sums up the counts. */
typedef struct program_listener {
    tuff_cache_finding finding;
    void *user;
    tuff_cache_verify_result sum;
} program_listener;

static void forward_finding(void *user, const char *path, int line, const char *subject, const char *detail)
{
    const program_listener *state = user;
    if (state->finding)
        state->finding(state->user, path, line, subject, detail);
}

static void add_counts(const char *path, const tuff_cache_verify_result *found, void *user)
{
    program_listener *state = user;
    (void)path;
    state->sum.ok += found->ok;
    state->sum.damaged += found->damaged;
    state->sum.malformed += found->malformed;
    state->sum.unknown += found->unknown;
    state->sum.invalid += found->invalid;
    state->sum.orphans += found->orphans;
    state->sum.rejected += found->rejected;
}

tuff_status tuff_cache_verify(const tuff_cache *cache, tuff_cache_finding finding, void *user,
                              tuff_cache_verify_result *out)
{
    program_listener listener = {.finding = finding, .user = user};
    const verify_listener to = {.on_finding = forward_finding, .on_file_done = add_counts, .user = &listener};
    cache_check self = {.first = TUFF_OK};
    if (!cache)
        return FAIL(TUFF_E_USAGE, "cache: the cache is NULL");
    for (int i = 0; i < cache->count; i++)
        if (cache->files[i].is_wanted)
            note_error(&self, tuff__cache_verify_one(cache, i, &to));
    if (out)
        *out = listener.sum;
    return first_error(&self);
}

tuff_status tuff_cache_verify_file(const char *path, tuff_cache_finding finding, void *user,
                                   tuff_cache_verify_result *out)
{
    program_listener listener = {.finding = finding, .user = user};
    const verify_listener to = {.on_finding = forward_finding, .on_file_done = add_counts, .user = &listener};
    if (!path)
        return FAIL(TUFF_E_USAGE, "cache: the path is NULL");
    TRY(tuff__cache_verify_path(path, &to));
    if (out)
        *out = listener.sum;
    return TUFF_OK;
}

static bool is_rejection(const tune_record *record, void *state)
{
    int *count = state;
    *count += record->kind == RECORD_REJECTION;
    return record->kind == RECORD_REJECTION;
}

tuff_status tuff_cache_forget_rejected(tuff_cache *cache, int *count)
{
    int dropped = 0;
    if (!cache)
        return FAIL(TUFF_E_USAGE, "cache: the cache is NULL");
    for (int i = 0; i < cache->count; i++)
        if (cache->files[i].is_wanted && !cache->files[i].is_shipped)
            TRY(tuff__store_compact(cache->files[i].store, is_rejection, &dropped));
    if (count)
        *count = dropped;
    return TUFF_OK;
}
