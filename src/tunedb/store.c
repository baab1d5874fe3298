/* A store in memory: reads its files and finds records. Records are kept in the order of the files; a hash index over
   what identifies a record (kind, environment, key and, for rejections, candidate) finds the newest one, from which
   those of other kernel hashes are linked. store_write.c appends and compacts, store_state.h has what the two share. */
#include "tunedb/store.h"

#include <string.h>

#include "base/file/list.h"
#include "tunedb/store_state.h"

enum { FILE_LIMIT = 256 << 20, MIN_INDEX = 64 };

/* Hashes what records must have in common for the later one to replace the earlier; winners and rejections must also
   agree in the kernel_hash. */
static uint64_t hash_identity(const tune_record *record)
{
    const hash128 none = {0};
    const struct {
        hash128 environment, key, candidate;
        uint64_t kind;
    } all = {record->environment, record->key,
             record->kind == RECORD_REJECTION ? tuff__hash_text(record->candidate) : none, (uint64_t)record->kind};
    return tuff__hash64(&all, sizeof all, 0);
}

static bool has_same_identity(const tune_record *a, const tune_record *b)
{
    return a->kind == b->kind && tuff__is_same_hash(a->key, b->key) &&
           tuff__is_same_hash(a->environment, b->environment) &&
           (a->kind != RECORD_REJECTION || strcmp(a->candidate, b->candidate) == 0);
}

/* Returns the slot of the record with the same identity, or the empty slot where it would go. */
static int *find_slot(const tune_store *store, const tune_record *record)
{
    for (uint64_t i = hash_identity(record);; i++) {
        int *slot = &store->index[i & (uint64_t)(store->index_size - 1)];
        if (*slot == 0 || has_same_identity(&store->records[*slot - 1], record))
            return slot;
    }
}

static bool grow_index(tune_store *store)
{
    if (2 * (store->count + 1) <= store->index_size)
        return true;
    const int size = store->index_size == 0 ? MIN_INDEX : 2 * store->index_size;
    int *larger = tuff__calloc((size_t)size, sizeof *larger);
    if (!larger)
        return false;
    tuff__free(store->index);
    store->index = larger;
    store->index_size = size;
    for (int i = 0; i < store->count; i++)
        if (!store->states[i].is_superseded)
            *find_slot(store, &store->records[i]) = i + 1; /* later records overwrite earlier ones */
    return true;
}

/* Follows the links from the newest record to the one of the same kernel_hash. Returns where its number is stored, or
   where the 0 that ends the chain is. */
static int *find_same_kernel(const tune_store *store, int *newest, const tune_record *like)
{
    int *at = newest;
    while (*at > 0 && tuff__record_is_result(like->kind) &&
           strcmp(store->records[*at - 1].kernel_hash, like->kernel_hash) != 0)
        at = &store->states[*at - 1].older;
    return at;
}

/* Unlinks a record and marks it as dead. at: where the number of a live record is stored. */
static void unlink_record(tune_store *store, int *at)
{
    record_state *state = &store->states[*at - 1];
    state->is_superseded = true;
    *at = state->older;
    state->older = 0;
    store->counts.superseded++;
}

static void drop_old_kernels(tune_store *store, int *newest)
{
    int *at = newest;
    for (int i = 0; *at > 0 && i < MAX_KERNEL_HASHES; i++)
        at = &store->states[*at - 1].older;
    while (*at > 0)
        unlink_record(store, at);
}

/* Whether a later line does not replace an earlier one. Shards may be older than the lines of the main file. */
static bool is_outranked(const tune_store *store, const tune_record *later, const tune_record *earlier)
{
    return tuff__record_is_foreign(later, earlier) || (store->is_reading_shard && later->time < earlier->time);
}

tuff_status tuff__store_insert(tune_store *store, const tune_record *record)
{
    if (!grow_index(store) || !GROW(store->records, store->count, store->capacity))
        return TUFF_E_OOM_HOST;
    if (store->state_capacity < store->capacity) {
        record_state *states = tuff__realloc_array(store->states, (size_t)store->capacity, sizeof *states);
        if (!states)
            return TUFF_E_OOM_HOST;
        store->states = states;
        store->state_capacity = store->capacity;
    }
    int *newest = find_slot(store, record), *before = find_same_kernel(store, newest, record);
    const bool outranked = *before > 0 && is_outranked(store, record, &store->records[*before - 1]);
    record_state *state = &store->states[store->count];
    store->records[store->count++] = *record;
    *state = (record_state){.is_superseded = outranked};
    store->counts.superseded += outranked;
    if (outranked)
        return TUFF_OK;
    if (*before > 0)
        unlink_record(store, before);
    state->older = *newest;
    *newest = store->count;
    drop_old_kernels(store, newest);
    return TUFF_OK;
}

static tuff_status read_line(tune_store *store, const char *line, size_t size)
{
    tune_record record;
    line_state state;
    store->counts.lines++;
    TRY(tuff__record_read(line, size, &store->texts, &record, &state));
    if (state == LINE_GOOD)
        return tuff__store_insert(store, &record);
    store->counts.damaged += state == LINE_DAMAGED || state == LINE_MALFORMED;
    if (state == LINE_DAMAGED)
        return TUFF_OK;
    store->counts.unknown += state == LINE_UNKNOWN;
    tuff__text_add_bytes(&store->unknown, line, size);
    tuff__text_add_bytes(&store->unknown, "\n", 1);
    return tuff__text_status(&store->unknown);
}

static tuff_status read_lines(tune_store *store, const char *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        const char *end = memchr(data + at, '\n', size - at);
        const size_t length = end ? (size_t)(end - data) - at : size - at;
        if (length > 0)
            TRY(read_line(store, data + at, length));
        at += length + 1;
    }
    return TUFF_OK;
}

void tuff__store_set_error(tune_store *store, const char *why)
{
    if (!store->error[0])
        snprintf(store->error, sizeof store->error, "%s", why);
}

/* Parses the data that was read, and frees it. */
static tuff_status parse_and_free(tune_store *store, void *data, size_t size)
{
    store->counts.bytes += size;
    const tuff_status status = read_lines(store, data, size);
    tuff__free(data);
    return status;
}

static tuff_status read_file(tune_store *store, const char *path)
{
    void *data = NULL;
    size_t size = 0;
    struct stat found;
    if (tuff__file.lstat(path, &found) != 0 && errno == ENOENT)
        return TUFF_OK;
    const tuff_status status = tuff__cache_read(path, FILE_LIMIT, &data, &size);
    if (status == TUFF_E_OOM_HOST)
        return status;
    if (status != TUFF_OK) {
        tuff__store_set_error(store, tuff_error());
        return TUFF_OK;
    }
    return parse_and_free(store, data, size);
}

bool tuff__store_is_shard(const tune_store *store, const char *name)
{
    const char *base = tuff__store_file_name(store);
    const size_t length = strlen(base);
    return strncmp(name, base, length) == 0 && name[length] == '.' && strcmp(name + length, ".lock") != 0 &&
           strncmp(name + length, ".tmp-", 5) != 0;
}

static tuff_status read_shard(const char *name, void *state)
{
    tune_store *store = state;
    char path[STORE_PATH];
    if (!tuff__store_is_shard(store, name) || !tuff__store_sibling_path(store, name, path))
        return TUFF_OK;
    store->counts.shards++;
    store->is_reading_shard = true;
    const tuff_status status = read_file(store, path);
    store->is_reading_shard = false;
    return status;
}

const char *tuff__store_file_name(const tune_store *store)
{
    const char *slash = strrchr(store->path, '/');
    return slash ? slash + 1 : store->path;
}

bool tuff__store_sibling_path(const tune_store *store, const char *name, char *out)
{
    const int length = (int)(tuff__store_file_name(store) - store->path);
    return snprintf(out, STORE_PATH, "%.*s%s", length, store->path, name) < STORE_PATH;
}

static tuff_status read_all(tune_store *store)
{
    char folder[STORE_PATH];
    TRY(read_file(store, store->path));
    if (!tuff__store_sibling_path(store, ".", folder))
        return TUFF_OK;
    const tuff_status status = tuff__file_list(folder, tuff__store_file_name(store), read_shard, store);
    if (status == TUFF_E_IO)
        tuff__store_set_error(store, tuff_error());
    return status == TUFF_E_IO ? TUFF_OK : status;
}

/* Returns the inode of the file, which changes when the file is compacted. */
static uint64_t inode_of(const char *path)
{
    struct stat found;
    return tuff__file.lstat(path, &found) == 0 ? (uint64_t)found.st_ino : 0;
}

static bool reset(tune_store *store)
{
    char *path = store->path, *environment = store->environment;
    tuff__store_clear(store);
    *store = (tune_store){.path = path, .environment = environment};
    return grow_index(store);
}

/* Reads the file and its shards. If another process compacts the file in between, records could be missing from both,
   so all is read again. */
static tuff_status read_consistently(tune_store *store)
{
    enum { TRIES = 4 };
    for (int i = 0; store->path && i < TRIES; i++) {
        const uint64_t before = inode_of(store->path);
        TRY(read_all(store));
        if (before == 0 || inode_of(store->path) == before)
            break;
        if (i + 1 < TRIES && !reset(store))
            return TUFF_E_OOM_HOST;
    }
    return TUFF_OK;
}

tuff_status tuff__store_open(const char *path, tune_store **out)
{
    tune_store *store = tuff__calloc(1, sizeof *store);
    tuff_status status = store ? TUFF_OK : TUFF_E_OOM_HOST;
    if (store && path && !(store->path = tuff__strdup(path)))
        status = TUFF_E_OOM_HOST;
    if (status == TUFF_OK)
        status = grow_index(store) ? read_consistently(store) : TUFF_E_OOM_HOST;
    if (status != TUFF_OK) {
        tuff__store_close(store);
        store = NULL;
    }
    *out = store;
    return status;
}

tuff_status tuff__store_load(const char *path, tune_store **out)
{
    void *data = NULL;
    size_t size = 0;
    *out = NULL;
    TRY(tuff__file_read(path, FILE_LIMIT, &data, &size));
    tuff_status status = tuff__store_open(NULL, out);
    if (status != TUFF_OK) {
        tuff__free(data);
        return status;
    }
    status = parse_and_free(*out, data, size);
    if (status != TUFF_OK) {
        tuff__store_close(*out);
        *out = NULL;
    }
    return status;
}

tuff_status tuff__store_load_shipped(const char *path, tune_store **out)
{
    TRY(tuff__store_load(path, out));
    for (int i = 0; i < (*out)->count; i++)
        if ((*out)->records[i].kind == RECORD_WIN && !tuff__record_is_seed(&(*out)->records[i]))
            (*out)->records[i].source = "shipped";
    return TUFF_OK;
}

tuff_status tuff__store_set_environment(tune_store *store, const char *environment)
{
    char *copy = tuff__strdup(environment);
    if (!copy)
        return TUFF_E_OOM_HOST;
    tuff__free(store->environment);
    store->environment = copy;
    return TUFF_OK;
}

void tuff__store_clear(tune_store *store)
{
    tuff__free(store->records);
    tuff__free(store->states);
    tuff__free(store->index);
    tuff__text_free(&store->unknown);
    tuff__arena_free(&store->texts);
}

void tuff__store_close(tune_store *store)
{
    if (!store)
        return;
    tuff__store_clear(store);
    tuff__free(store->environment);
    tuff__free(store->path);
    tuff__free(store);
}

/* Finds the record of the given kernel hash; if there is none, or the kernel hash is NULL, the newest. */
static const tune_record *find(const tune_store *store, const tune_record *like)
{
    int *newest = find_slot(store, like);
    const int own = like->kernel_hash ? *find_same_kernel(store, newest, like) : 0, found = own > 0 ? own : *newest;
    return found > 0 ? &store->records[found - 1] : NULL;
}

const tune_record *tuff__store_winner(const tune_store *store, hash128 environment, hash128 key,
                                      const char *kernel_hash)
{
    return find(
        store,
        &(tune_record){
            .kind = RECORD_WIN, .environment = environment, .key = key, .candidate = "", .kernel_hash = kernel_hash});
}

const tune_record *tuff__store_superseded(const tune_store *store, const tune_record *record)
{
    const tune_record *found = find(store, record);
    const bool is_other =
        found && tuff__record_is_result(record->kind) && strcmp(found->kernel_hash, record->kernel_hash) != 0;
    return is_other ? NULL : found;
}

const tune_record *tuff__store_pin(const tune_store *store, hash128 environment, hash128 key)
{
    return find(store, &(tune_record){.kind = RECORD_PIN, .environment = environment, .key = key, .candidate = ""});
}

const tune_record *tuff__store_rejection(const tune_store *store, hash128 environment, hash128 key,
                                         const char *candidate, const char *kernel_hash)
{
    const tune_record any = {
        .kind = RECORD_REJECTION, .environment = environment, .key = key, .candidate = candidate, .kernel_hash = ""};
    tune_record like = any;
    like.kernel_hash = kernel_hash;
    const tune_record *found = find(store, &like);
    const bool is_own = !kernel_hash || !found || strcmp(found->kernel_hash, kernel_hash) == 0;
    return is_own ? found : find(store, &any);
}

const tune_record *tuff__stores_rejection(const tune_store *const *stores, int count, hash128 environment, hash128 key,
                                          const char *candidate, const char *kernel_hash)
{
    for (int i = 0; i < count; i++) {
        const tune_record *found = tuff__store_rejection(stores[i], environment, key, candidate, kernel_hash);
        if (tuff__record_rejects(found, kernel_hash))
            return found;
    }
    return NULL;
}

const tune_record *tuff__store_next(const tune_store *store, int *at)
{
    while (*at < store->count) {
        const int i = (*at)++;
        if (!store->states[i].is_superseded)
            return &store->records[i];
    }
    return NULL;
}

const char *tuff__store_environment(const tune_store *store, hash128 environment)
{
    const tune_record *found =
        find(store, &(tune_record){.kind = RECORD_ENVIRONMENT, .environment = environment, .candidate = ""});
    return found ? found->op : NULL;
}

const char *tuff__store_file(const tune_store *store)
{
    return store->path ? store->path : "";
}

store_counts tuff__store_count(const tune_store *store)
{
    return store->counts;
}

const char *tuff__store_unknown(const tune_store *store)
{
    return tuff__text_get(&store->unknown);
}

const char *tuff__store_error(const tune_store *store)
{
    return store->error;
}

bool tuff__store_needs_compaction(const tune_store *store)
{
    const store_counts *counts = &store->counts;
    return counts->bytes > 1 << 20 && 2 * (counts->damaged + counts->superseded) > counts->lines;
}
