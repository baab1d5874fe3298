/* Where stores are kept on disk: the user's cache folder, the shipped folder, file names, and the file that locks a
   device for measuring. Owns no memory except the list of stores of a lookup. tunedb/store.h says what a store
   contains. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "tunedb/folder.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file/list.h"
#include "base/library.h"
#include "tunedb/environment.h"
#include "tunedb/store_state.h"

#ifndef TUFF_SHARE_FOLDER
#define TUFF_SHARE_FOLDER "/usr/local/share/tuff"
#endif

/* Appends a word in lower case, with a dash for each run of characters that are neither letters nor digits. */
static size_t add_word(char *out, size_t used, size_t size, const char *word)
{
    for (; *word && used + 1 < size; word++) {
        if (isalnum((unsigned char)*word))
            out[used++] = (char)tolower((unsigned char)*word);
        else if (used > 0 && out[used - 1] != '-')
            out[used++] = '-';
    }
    out[used] = 0;
    return used;
}

/* Appends the words with which a store's name begins; a device's version is left out if so wanted. Returns the length,
   without a dash at the end. */
static size_t add_device(const char *environment, bool with_version, char *out)
{
    tune_environment parts;
    char device[sizeof parts.device];
    size_t used = 0;
    if (tuff__environment_parse(environment, &parts) == TUFF_OK) {
        used = add_word(out, 0, 16, parts.backend);
        out[used++] = '-';
        tuff__environment_unversioned_device(parts.device, device, sizeof device);
        used = add_word(out, used, STORE_NAME_SIZE - 32, with_version ? parts.device : device);
    } else {
        used = add_word(out, 0, STORE_NAME_SIZE - 32, "device");
    }
    return used - (out[used - 1] == '-');
}

const char *tuff__tune_store_name(const char *environment, char *out)
{
    const hash128 hash = tuff__hash_text(environment);
    const size_t used = add_device(environment, true, out);
    (void)snprintf(out + used, STORE_NAME_SIZE - used, "-%08" PRIx32 ".jsonl", (uint32_t)(hash.high >> 32));
    return out;
}

tuff_status tuff__tune_folder(char *out, size_t size)
{
    return tuff__cache_subfolder("tune/v1", out, size);
}

static tuff_status join(char *folder, size_t size, const char *name)
{
    const size_t length = strlen(folder);
    const int written = snprintf(folder + length, size - length, "/%s", name);
    if (written < 0 || (size_t)written >= size - length)
        return FAIL(TUFF_E_IO, "tune: the path of a store is longer than %zu bytes", size - 1);
    return TUFF_OK;
}

tuff_status tuff__tune_store_path(const char *environment, char *out, size_t size)
{
    char name[STORE_NAME_SIZE];
    TRY(tuff__tune_folder(out, size));
    return join(out, size, tuff__tune_store_name(environment, name));
}

/* Appends to the path of a folder. Returns false if the result is no folder. */
static bool enter_folder(char *path, size_t size, const char *relative)
{
    struct stat there;
    return join(path, size, relative) == TUFF_OK && stat(path, &there) == 0 && S_ISDIR(there.st_mode);
}

/* Writes the path of share/tuff in an installation, which may have been moved, or in the source tree whose build folder
   the program is in. Returns false if there is none. A library may be in a subfolder of lib. */
static bool find_share_folder(char *out, size_t size)
{
    return (tuff__program_folder(out, size) && enter_folder(out, size, "../share/tuff")) ||
           (tuff__library_folder(out, size) && enter_folder(out, size, "../share/tuff")) ||
           (tuff__library_folder(out, size) && enter_folder(out, size, "../../share/tuff"));
}

/* Writes the path of the folder of shipped stores, which need not exist. TUFF_E_IO if it cannot be determined. */
static tuff_status shipped_folder(char *out, size_t size)
{
    const char *setting = getenv("TUFF_SHARE_DIR");
    const bool is_set = setting && setting[0];
    if (!is_set && find_share_folder(out, size))
        return join(out, size, "tune");
    if ((size_t)snprintf(out, size, "%s", is_set ? setting : TUFF_SHARE_FOLDER) >= size)
        return FAIL(TUFF_E_IO, "tune: the path of the shipped files is longer than %zu bytes", size - 1);
    return join(out, size, "tune");
}

tuff_status tuff__tune_open(const char *environment, tune_store **out)
{
    char path[FOLDER_SIZE], reason[TUFF_ERROR_SIZE] = "";
    const tuff_status found = tuff__tune_store_path(environment, path, sizeof path);
    if (found != TUFF_OK)
        snprintf(reason, sizeof reason, "%s", tuff_error());
    TRY(tuff__store_open(found == TUFF_OK ? path : NULL, out));
    if (found != TUFF_OK)
        tuff__store_set_error(*out, reason);
    const tuff_status status = tuff__store_set_environment(*out, environment);
    if (status != TUFF_OK) {
        tuff__store_close(*out);
        *out = NULL;
    }
    return status;
}

typedef struct visit {
    const char *folder;
    bool is_shipped;
    store_visitor visit;
    void *state;
} visit;

static tuff_status visit_name(const char *name, void *state)
{
    static const char ending[] = ".jsonl";
    const visit *visited = state;
    char path[FOLDER_SIZE];
    const size_t length = strlen(name);
    if (length < sizeof ending || strcmp(name + length - (sizeof ending - 1), ending) != 0)
        return TUFF_OK;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", visited->folder, name) >= sizeof path)
        return FAIL(TUFF_E_IO, "tune: the path of a store is longer than %zu bytes", sizeof path - 1);
    return visited->visit(path, visited->is_shipped, visited->state);
}

static tuff_status visit_folder(bool is_shipped, store_visitor visitor, void *state)
{
    char folder[FOLDER_SIZE];
    visit visited = {.folder = folder, .is_shipped = is_shipped, .visit = visitor, .state = state};
    TRY(is_shipped ? shipped_folder(folder, sizeof folder) : tuff__tune_folder(folder, sizeof folder));
    return tuff__file_list(folder, "", visit_name, &visited);
}

tuff_status tuff__tune_visit_stores(store_visitor visitor, void *state)
{
    TRY(visit_folder(false, visitor, state));
    return visit_folder(true, visitor, state);
}

typedef struct store_search {
    char name[STORE_NAME_SIZE]; /* of the environment's store */
    char stem[STORE_NAME_SIZE]; /* how the names of the shipped stores of the device begin, whatever its version */
    tune_stores *out;
} store_search;

static tuff_status append(tune_stores *stores, tune_store *store)
{
    if (!GROW(stores->items, stores->count, stores->capacity)) {
        tuff__store_close(store);
        return TUFF_E_OOM_HOST;
    }
    stores->items[stores->count++] = store;
    return TUFF_OK;
}

/* Adds a store: of the shipped ones, those of the device, whatever the driver; of the user's, all but the first, which
   is already open. */
static tuff_status open_one(const char *path, bool is_shipped, void *state)
{
    store_search *self = state;
    tune_store *store = NULL;
    const char *name = strrchr(path, '/') + 1;
    if (is_shipped ? strncmp(name, self->stem, strlen(self->stem)) != 0 : strcmp(name, self->name) == 0)
        return TUFF_OK;
    const tuff_status status = is_shipped ? tuff__store_load_shipped(path, &store) : tuff__store_open(path, &store);
    if (status != TUFF_OK)
        return status == TUFF_E_OOM_HOST ? status : TUFF_OK;
    return append(self->out, store);
}

tuff_status tuff__tune_open_stores(const char *environment, bool with_other_environments, tune_stores *out)
{
    tune_store *first = NULL;
    store_search self = {.out = out};
    *out = (tune_stores){0};
    (void)tuff__tune_store_name(environment, self.name);
    const size_t length = add_device(environment, false, self.stem);
    (void)snprintf(self.stem + length, sizeof self.stem - length, "-");
    tuff_status status = tuff__tune_open(environment, &first);
    if (status == TUFF_OK)
        status = append(out, first);
    if (status == TUFF_OK)
        status = visit_folder(true, open_one, &self);
    if (with_other_environments && status != TUFF_E_OOM_HOST)
        status = visit_folder(false, open_one, &self);
    if (status != TUFF_E_OOM_HOST)
        return TUFF_OK;
    tuff__tune_close_stores(out);
    return status;
}

void tuff__tune_close_stores(tune_stores *stores)
{
    for (int i = 0; i < stores->count; i++)
        tuff__store_close(stores->items[i]);
    tuff__free(stores->items);
    *stores = (tune_stores){0};
}

bool tuff__tune_lock_path(const tune_environment *environment, char *out, size_t size)
{
    char folder[FOLDER_SIZE];
    if (tuff__tune_folder(folder, sizeof folder) != TUFF_OK)
        return false;
    const hash128 name = tuff__hash_text(environment->device);
    const int length = strcmp(environment->kind, "cpu") == 0 ? snprintf(out, size, "%s/cpu.tune.lock", folder)
                       : environment->device_id != 0
                           ? snprintf(out, size, "%s/gpu-%04" PRIx32 "-%04" PRIx32 ".tune.lock", folder,
                                      environment->vendor, environment->device_id)
                           : snprintf(out, size, "%s/gpu-%08" PRIx32 ".tune.lock", folder, (uint32_t)name.low);
    return length > 0 && (size_t)length < size;
}
