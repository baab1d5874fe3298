/* Writes a store's file: appends a record under the file's lock or, if the lock is not available, to a file of this
   process ("shard"); compacts, that is, rewrites the file without superseded records and merges the shards into it. */
#include <string.h>

#include "base/file/list.h"
#include "base/log.h"
#include "base/thread.h"
#include "tunedb/store_state.h"

#define TIMEOUT 2000000000u /* nanoseconds to wait for the lock */

/* Guards the shards of this process: a compaction removes them after reading them, and any of the process's stores may
   be writing to them. */
static mutex own_shards = MUTEX_INITIALIZER;

static tuff_status lock(const tune_store *store, file_lock *out)
{
    char name[STORE_PATH];
    out->fd = -1;
    if (snprintf(name, sizeof name, "%s.lock", store->path) >= (int)sizeof name)
        return FAIL(TUFF_E_IO, "tune: the path %s is too long", store->path);
    return tuff__file_lock(name, TIMEOUT, out);
}

/* Appends to a file that no other process writes to. */
static tuff_status append_to_shard(const tune_store *store, const char *line, size_t size, bool durable)
{
    char name[STORE_PATH], process[160];
    tuff__process_name(process, sizeof process);
    if (snprintf(name, sizeof name, "%s.%s", store->path, process) >= (int)sizeof name)
        return FAIL(TUFF_E_IO, "tune: the path %s is too long", store->path);
    tuff__lock(&own_shards);
    const tuff_status status = tuff__file_append(name, line, size, durable);
    tuff__unlock(&own_shards);
    return status;
}

static tuff_status append(tune_store *store, const char *line, size_t size, bool durable)
{
    file_lock held = {.fd = -1};
    if (!store->uses_shard) {
        const tuff_status status = lock(store, &held);
        store->uses_shard = status == TUFF_E_TIMEOUT || status == TUFF_E_UNSUPPORTED;
        if (status != TUFF_OK && !store->uses_shard)
            return status;
    }
    if (store->uses_shard)
        return append_to_shard(store, line, size, durable);
    const tuff_status status = tuff__file_append(store->path, line, size, durable);
    tuff__file_unlock(&held);
    return status;
}

/* Parses the line that was written, so that memory has what another process would read. */
static tuff_status insert_line(tune_store *store, const char *line, size_t size)
{
    tune_record record;
    line_state state;
    TRY(tuff__record_read(line, size - 1, &store->texts, &record, &state));
    if (state != LINE_GOOD)
        return FAIL(TUFF_E_USAGE, "tune: the formatted record cannot be parsed");
    return tuff__store_insert(store, &record);
}

static void warn(tune_store *store, const char *why)
{
    if (!store->has_warned)
        tuff__log(TUFF_LOG_WARNING, "tune: results are not saved: %s", why);
    store->has_warned = true;
}

static tuff_status add(tune_store *store, const tune_record *record)
{
    text line = {0};
    tuff_status status = tuff__record_write(record, &line);
    if (status == TUFF_OK)
        status = insert_line(store, tuff__text_get(&line), line.length);
    if (status == TUFF_OK && !store->path && store->error[0] && !tuff__cache_is_off())
        warn(store, store->error);
    if (status == TUFF_OK && store->path) {
        /* A rejection is flushed: if it were lost when the machine goes down, the same crash would happen again. */
        const tuff_status written = append(store, tuff__text_get(&line), line.length, record->kind == RECORD_REJECTION);
        if (written == TUFF_E_OOM_HOST)
            status = written;
        else if (written != TUFF_OK)
            warn(store, tuff_error());
        if (written != TUFF_OK)
            tuff__store_set_error(store, tuff_error());
        store->counts.lines += written == TUFF_OK;
        store->counts.bytes += written == TUFF_OK ? line.length : 0;
    }
    tuff__text_free(&line);
    return status;
}

static tuff_status add_environment(tune_store *store, const char *environment)
{
    tune_record record = tuff__empty_record;
    record.kind = RECORD_ENVIRONMENT;
    record.environment = tuff__hash_text(environment);
    record.op = environment;
    if (tuff__store_environment(store, record.environment))
        return TUFF_OK;
    return add(store, &record);
}

tuff_status tuff__store_add(tune_store *store, const tune_record *record)
{
    if (store->environment && record->kind != RECORD_ENVIRONMENT)
        TRY(add_environment(store, store->environment));
    return add(store, record);
}

/* Formats all live records of the files, and appends the lines of later versions. */
static tuff_status collect(tune_store *store, record_filter drop, void *state, text *out)
{
    for (int i = 0; i < store->count; i++)
        if (!store->states[i].is_superseded && !(drop && drop(&store->records[i], state)))
            TRY(tuff__record_write(&store->records[i], out));
    tuff__text_add_bytes(out, tuff__text_get(&store->unknown), store->unknown.length);
    return tuff__text_status(out);
}

/* Removes a shard, unless its process may still be writing to it. Temporary files are those of compactions that were
   killed, because the holder of the lock is the only one to compact. */
static tuff_status remove_shard(const char *name, void *state)
{
    const tune_store *store = state;
    char path[STORE_PATH], own[160];
    const size_t length = strlen(tuff__store_file_name(store));
    if (!tuff__store_sibling_path(store, name, path))
        return TUFF_OK;
    if (strncmp(name + length, ".tmp-", 5) == 0)
        (void)tuff__file.unlink(path);
    if (!tuff__store_is_shard(store, name))
        return TUFF_OK;
    const char *process = name + length + 1;
    tuff__process_name(own, sizeof own);
    if (strcmp(process, own) == 0 || !tuff__process_may_live(process))
        (void)tuff__file.unlink(path);
    return TUFF_OK;
}

static tuff_status rewrite(tune_store *store, record_filter drop, void *state)
{
    text lines = {0};
    char folder[STORE_PATH];
    tuff_status status = collect(store, drop, state, &lines);
    const file_part part = {tuff__text_get(&lines), lines.length};
    if (status == TUFF_OK)
        status = tuff__file_write(store->path, &part, 1, true, false);
    tuff__text_free(&lines);
    if (status == TUFF_OK && tuff__store_sibling_path(store, ".", folder))
        status = tuff__file_list(folder, tuff__store_file_name(store), remove_shard, store);
    return status;
}

tuff_status tuff__store_compact(tune_store *store, record_filter drop, void *state)
{
    file_lock held;
    tune_store *fresh = NULL;
    if (!store->path)
        return FAIL(TUFF_E_IO, "tune: the store has no file");
    TRY(lock(store, &held));
    tuff__lock(&own_shards);
    tuff_status status = tuff__store_open(store->path, &fresh);
    if (status == TUFF_OK && fresh->error[0])
        status = FAIL(TUFF_E_IO, "%s", fresh->error);
    if (status == TUFF_OK)
        status = rewrite(fresh, drop, state);
    tuff__unlock(&own_shards);
    tuff__store_close(fresh);
    tuff__file_unlock(&held);
    TRY(status);
    TRY(tuff__store_open(store->path, &fresh));
    /* Move what was read into the caller's handle. */
    tuff__store_clear(store);
    char *path = store->path, *environment = store->environment, *fresh_path = fresh->path;
    *store = *fresh;
    store->path = path;
    store->environment = environment;
    tuff__free(fresh_path);
    tuff__free(fresh);
    return TUFF_OK;
}
