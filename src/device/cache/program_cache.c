/* One file per entry, little-endian: 8 bytes of magic, u32 format, u32 header length, u64 payload length, 16 bytes of
   XXH3-128 over the whole entry with these 16 zeroed; then, still in the header, the key text; then the payload. The
   hash protects against damage; the owner and mode checks of tuff__cache_read protect against other users of the
   machine. */
#include "device/cache/program_cache.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/checked.h"
#include "base/file/list.h"
#include "base/hash.h"
#include "base/log.h"

enum {
    FORMAT = 1,
    FORMAT_AT = 8,
    HEADER_LENGTH_AT = 12,
    PAYLOAD_LENGTH_AT = 16,
    HASH_AT = 24,
    KEY_AT = 40,
    ENTRY_LIMIT = 256 << 20,
    PATH_SIZE = 4096
};
static const unsigned char magic[8] = {'t', 'u', 'f', 'f', 0x8f, 'k', 0x0d, 0x0a};

static void write_le(unsigned char *at, uint64_t value, int size)
{
    for (int i = 0; i < size; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static void write_hash(unsigned char *at, hash128 hash)
{
    write_le(at, hash.low, 8);
    write_le(at + 8, hash.high, 8);
}

/* Warns once per process that there is no cache, unless it is off on purpose. */
static void warn_no_cache(void)
{
    static atomic_bool is_warned;
    if (!tuff__cache_is_off() && !atomic_exchange(&is_warned, true))
        tuff__log(TUFF_LOG_WARNING, "no program cache, programs are recompiled at every start: %s", tuff_error());
}

static bool find_folder(char *folder)
{
    const bool found = tuff__cache_folder(folder, PATH_SIZE) == TUFF_OK;
    if (!found)
        warn_no_cache();
    return found;
}

bool tuff__program_cache_is_on(void)
{
    char folder[PATH_SIZE];
    return find_folder(folder);
}

/* Writes the path of the entry's file: the folder and a hash of the key text. Returns false if there is no cache. */
static bool entry_path(cache_key key, char *path)
{
    char folder[PATH_SIZE];
    if (!find_folder(folder))
        return false;
    hash128 hash = tuff__hash(key.text, strlen(key.text));
    int length = snprintf(path, PATH_SIZE, "%s/%016llx%016llx.%s", folder, (unsigned long long)hash.high,
                          (unsigned long long)hash.low, key.kind);
    return length > 0 && length < PATH_SIZE;
}

/* Returns why an entry is refused; NULL if it is intact and has this key. Zeroes the hash in place. */
static const char *rejection_reason(unsigned char *entry, size_t size, cache_key key)
{
    size_t key_length = strlen(key.text);
    if (size < KEY_AT || memcmp(entry, magic, sizeof magic) != 0)
        return "it is not a tuff cache file";
    byte_reader reader = {.data = entry, .size = size, .at = FORMAT_AT};
    if (tuff__get_u32(&reader) != FORMAT)
        return "it has another format version";
    const uint64_t header = tuff__get_u32(&reader), payload = tuff__get_u64(&reader);
    if (header < KEY_AT || header > size || payload != size - header)
        return "its length does not match its header";
    unsigned char hash[16], stored[16];
    memcpy(stored, entry + HASH_AT, sizeof stored);
    memset(entry + HASH_AT, 0, sizeof stored);
    write_hash(hash, tuff__hash(entry, size));
    if (memcmp(hash, stored, sizeof hash) != 0)
        return "its checksum does not match";
    if (header - KEY_AT != key_length || memcmp(entry + KEY_AT, key.text, key_length) != 0)
        return "its key does not match";
    return NULL;
}

bool tuff__program_cache_load(cache_key key, blob *payload)
{
    char path[PATH_SIZE];
    void *data = NULL;
    size_t size = 0;
    *payload = (blob){0};
    if (!entry_path(key, path) || tuff__cache_read(path, ENTRY_LIMIT, &data, &size) != TUFF_OK)
        return false;
    const char *reason = rejection_reason(data, size, key);
    if (reason) {
        tuff__log(TUFF_LOG_WARNING, "ignoring cache entry %s: %s", path, reason);
    } else {
        size_t header = KEY_AT + strlen(key.text);
        payload->size = size - header;
        payload->data = tuff__memdup((unsigned char *)data + header, payload->size);
    }
    tuff__free(data);
    return payload->data != NULL;
}

bool tuff__program_cache_store(cache_key key, blob payload)
{
    char path[PATH_SIZE];
    size_t key_length = strlen(key.text), header, size;
    if (!tuff__add_size(KEY_AT, key_length, &header) || !tuff__add_size(header, payload.size, &size) ||
        size > ENTRY_LIMIT || !entry_path(key, path))
        return false;
    unsigned char *entry = tuff__calloc(1, size);
    if (!entry)
        return false;
    memcpy(entry, magic, sizeof magic);
    write_le(entry + FORMAT_AT, FORMAT, 4);
    write_le(entry + HEADER_LENGTH_AT, header, 4);
    write_le(entry + PAYLOAD_LENGTH_AT, payload.size, 8);
    memcpy(entry + KEY_AT, key.text, key_length);
    if (payload.size > 0)
        memcpy(entry + header, payload.data, payload.size);
    write_hash(entry + HASH_AT, tuff__hash(entry, size));
    file_part part = {entry, size};
    const bool is_written = tuff__file_write(path, &part, 1, false, false) == TUFF_OK;
    if (!is_written)
        tuff__log(TUFF_LOG_INFO, "cannot write cache entry %s: %s", path, tuff_error());
    tuff__free(entry);
    return is_written;
}

void tuff__program_cache_drop(cache_key key)
{
    char path[PATH_SIZE];
    if (entry_path(key, path))
        tuff__file.unlink(path);
}

/* A file in the folder. */
typedef struct cached_file {
    char *name;
    uint64_t used; /* seconds since 1970 */
    uint64_t size;
} cached_file;

typedef struct cached_files {
    const char *folder;
    cached_file *items;
    int count, capacity;
    uint64_t size;
} cached_files;

static bool has_extension(const char *name, const char *extension)
{
    const size_t length = strlen(name), expected = strlen(extension);
    return length > expected && strcmp(name + length - expected, extension) == 0;
}

/* Marks of programs have a few bytes each, but take a block. */
static uint64_t size_on_disk(const struct stat *file)
{
    enum { BLOCK = 4096 };
    const uint64_t size = (uint64_t)file->st_size;
    return size > BLOCK ? size : BLOCK;
}

static tuff_status add_file(const char *name, void *state)
{
    cached_files *self = state;
    char path[PATH_SIZE];
    struct stat found;
    const int length = snprintf(path, sizeof path, "%s/%s", self->folder, name);
    const bool is_program =
        has_extension(name, ".program") || has_extension(name, ".seen") || has_extension(name, ".pipelines");
    if (!is_program || length < 0 || length >= (int)sizeof path || tuff__file.lstat(path, &found) != 0 ||
        !S_ISREG(found.st_mode))
        return TUFF_OK;
    if (!GROW(self->items, self->count, self->capacity))
        return TUFF_E_OOM_HOST;
    const time_t used = found.st_atime > found.st_mtime ? found.st_atime : found.st_mtime;
    cached_file *file = &self->items[self->count];
    *file = (cached_file){tuff__strdup(name), used > 0 ? (uint64_t)used : 0, size_on_disk(&found)};
    if (!file->name)
        return TUFF_E_OOM_HOST;
    self->count++;
    self->size += file->size;
    return TUFF_OK;
}

static int oldest_first(const void *a, const void *b)
{
    const cached_file *first = a, *second = b;
    return (first->used > second->used) - (first->used < second->used);
}

static void remove_oldest(cached_files *self, uint64_t limit)
{
    const uint64_t before = self->size;
    int removed = 0;
    qsort(self->items, (size_t)self->count, sizeof *self->items, oldest_first);
    for (int i = 0; i < self->count && self->size > limit; i++) {
        char path[PATH_SIZE];
        (void)snprintf(path, sizeof path, "%s/%s", self->folder, self->items[i].name);
        if (tuff__file.unlink(path) != 0)
            continue;
        self->size -= self->items[i].size;
        removed++;
    }
    tuff__log(TUFF_LOG_INFO, "the cache held %.0f MiB of programs: removed the %d least recently used",
              (double)before / (1 << 20), removed);
}

void tuff__program_cache_trim(uint64_t limit)
{
    char folder[PATH_SIZE - 256];
    cached_files all = {.folder = folder};
    if (tuff__cache_folder(folder, sizeof folder) != TUFF_OK)
        return;
    if (tuff__file_list(folder, "", add_file, &all) == TUFF_OK && all.size > limit)
        remove_oldest(&all, limit / 2);
    for (int i = 0; i < all.count; i++)
        tuff__free(all.items[i].name);
    tuff__free(all.items);
}
