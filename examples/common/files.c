/* Compares every file that a run writes with all others, finds out whether it can be written, and describes the files
   of --data. */
#define _POSIX_C_SOURCE 200809L
#include "files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, MAX_FILES = 10 };

typedef struct run_file {
    const char *option, *path; /* path NULL: no such file */
    const char *suffix;        /* appended to the path */
    bool is_written, is_checkpoint;
    bool is_replaced; /* written beside its old version, and then renamed */
} run_file;

/* Lists the files of a run except those of --data. Returns their number. */
static int list_files(const example *model, const example_options *options, run_file *out)
{
    const bool has_update = ((const example_settings *)options->config)->accumulate > 1;
    const run_file files[MAX_FILES] = {
        {"--resume", options->resume, "", false, true, false},
        {"--log", options->log, "", true, false, false},
        {"--report", options->report, "", true, false, false},
        {"--save", options->save, "", true, true, true},
        {"--save", options->save, ".prev", true, true, true},
        {"--save", options->validate_every > 0 ? options->save : NULL, ".best", true, true, true},
        {"--save", model->has_frozen ? options->save : NULL, ".frozen", true, true, true},
        {"--save-graph", options->save_graph, "", true, false, true},
        {"--save-graph", has_update ? options->save_graph : NULL, ".update", true, false, true},
        {"--save-batches", options->save_batches, "", true, false, true},
    };
    int count = 0;
    for (int i = 0; i < MAX_FILES; i++)
        if (files[i].path)
            out[count++] = files[i];
    return count;
}

/* Writes the path; false if it is too long for a file. */
static bool write_path(const run_file *file, char *out)
{
    return (size_t)snprintf(out, PATH_SIZE, "%s%s", file->path, file->suffix) < PATH_SIZE;
}

/* Writes the path of the folder of a file, ending in "/.", and returns the file's name in it. */
static const char *split(const char *path, char *folder)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    snprintf(folder, PATH_SIZE + 2, "%.*s.", (int)(name - path), path);
    return name;
}

/* Writes a text that is equal for two paths of one file. A file can have several names; one that does not exist yet has
   only its folder and its name. Returns false for devices and pipes, which outputs may share. */
static bool identify(const run_file *file, char *out, size_t size)
{
    char path[PATH_SIZE], folder[PATH_SIZE + 2];
    struct stat found;
    const char *name = "";
    if (!write_path(file, path))
        return false;
    if (stat(path, &found) == 0) {
        if (!S_ISREG(found.st_mode))
            return false;
    } else {
        name = split(path, folder);
        if (stat(folder, &found) != 0)
            return (size_t)snprintf(out, size, "%s", path) < size;
    }
    return (size_t)snprintf(out, size, "%" PRIu64 ":%" PRIu64 "/%s", (uint64_t)found.st_dev, (uint64_t)found.st_ino,
                            name) < size;
}

/* The names of a run's checkpoints are links to the same files, and a run may replace the one that it resumes from. */
static bool are_distinct(const example *model, const run_file *a, const run_file *b)
{
    char first[2 * PATH_SIZE], second[2 * PATH_SIZE];
    if ((!a->is_written && !b->is_written) || (a->is_checkpoint && b->is_checkpoint))
        return true;
    if (!identify(a, first, sizeof first) || !identify(b, second, sizeof second) || strcmp(first, second) != 0)
        return true;
    fprintf(stderr, "%s: %s %s%s and %s %s%s are the same file; name another one\n", model->name, a->option, a->path,
            a->suffix, b->option, b->path, b->suffix);
    return false;
}

/* Copies the next file of --data from *list, which it advances. Returns false at the end. */
static bool next_data_file(const example *model, const char **list, char *path)
{
    const size_t length = *list ? (model->reads_several_files ? strcspn(*list, ",") : strlen(*list)) : 0;
    if (!*list)
        return false;
    snprintf(path, PATH_SIZE, "%.*s", (int)(length < PATH_SIZE ? length : PATH_SIZE - 1), *list);
    *list = (*list)[length] ? *list + length + 1 : NULL;
    return true;
}

bool example_files_are_distinct(const example *model, const example_options *options)
{
    run_file files[MAX_FILES];
    char path[PATH_SIZE];
    const int count = list_files(model, options, files);
    for (const char *list = options->data; next_data_file(model, &list, path);) {
        const run_file data = {.option = "--data", .path = path, .suffix = ""};
        for (int i = 0; i < count; i++)
            if (!are_distinct(model, &data, &files[i]))
                return false;
    }
    for (int i = 1; i < count; i++)
        for (int j = 0; j < i; j++)
            if (!are_distinct(model, &files[j], &files[i]))
                return false;
    return true;
}

/* Returns 0, or the error that writing the file would have. */
static int find_error(const run_file *file)
{
    char path[PATH_SIZE], folder[PATH_SIZE + 2];
    struct stat found;
    if (!write_path(file, path))
        return ENAMETOOLONG;
    (void)split(path, folder);
    const bool exists = stat(path, &found) == 0;
    if (exists && S_ISDIR(found.st_mode))
        return EISDIR;
    const char *changed = exists && !file->is_replaced ? path : folder;
    return access(changed, changed == path ? W_OK : W_OK | X_OK) == 0 ? 0 : errno;
}

bool example_files_are_writable(const example *model, const example_options *options)
{
    run_file files[MAX_FILES];
    const int count = list_files(model, options, files);
    for (int i = 0; i < count; i++) {
        const int error = files[i].is_written ? find_error(&files[i]) : 0;
        if (error) {
            fprintf(stderr, "%s: cannot write %s %s%s: %s\n", model->name, files[i].option, files[i].path,
                    files[i].suffix, strerror(error));
            return false;
        }
    }
    return true;
}

/* FNV-1a (Fowler, Noll, Vo). */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3;
    return hash;
}

/* Adds up to `size` bytes that begin at `from`. Returns false if they cannot be read. */
static bool hash_part(FILE *file, off_t from, char *part, size_t size, uint64_t *hash)
{
    if (fseeko(file, from, SEEK_SET) != 0)
        return false;
    *hash = hash_bytes(*hash, part, fread(part, 1, size, file));
    return !ferror(file);
}

static bool hash_file(const char *path, uint64_t *bytes, uint64_t *hash)
{
    enum { PART = 65536 };
    struct stat found;
    char part[PART];
    FILE *file = stat(path, &found) == 0 && S_ISREG(found.st_mode) ? fopen(path, "rb") : NULL;
    if (!file)
        return false;
    const uint64_t size = (uint64_t)found.st_size;
    *bytes += size;
    *hash = hash_bytes(*hash, &size, sizeof size);
    const bool good = hash_part(file, 0, part, PART, hash) &&
                      (found.st_size <= PART || hash_part(file, found.st_size - PART, part, PART, hash));
    fclose(file);
    return good;
}

void example_data_describe(const example *model, const example_options *options, char *out, size_t size)
{
    uint64_t bytes = 0, hash = 0xcbf29ce484222325;
    char path[PATH_SIZE];
    int count = 0;
    snprintf(out, size, "generated");
    for (const char *list = options->data; next_data_file(model, &list, path); count++)
        if (!hash_file(path, &bytes, &hash)) {
            out[0] = 0;
            return;
        }
    if (count > 0)
        snprintf(out, size, "%d file%s, %" PRIu64 " bytes, hash %016" PRIx64, count, count > 1 ? "s" : "", bytes, hash);
}
