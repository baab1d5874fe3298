/* Compares every file that a run writes with all others. Files are compared rather than names, because one file can
   have several; one that does not exist yet has only its folder and its name. */
#include "tools/train/run_files.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/train/validation.h"
#include "tools/verbs.h"

enum { PATH_SIZE = 4096 };

typedef struct run_file {
    const char *option, *path; /* path NULL: no such file */
    const char *suffix;        /* appended to the path */
    bool is_written, is_checkpoint;
} run_file;

static bool are_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Writes the path of the file's folder, and returns the name of the file in it. */
static const char *split(const char *path, char *folder)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    snprintf(folder, PATH_SIZE + 1, "%.*s.", (int)(name - path), path);
    return name;
}

/* Whether two files that do not exist would be one. */
static bool will_be_one(const char *a, const char *b)
{
    struct stat of_a, of_b;
    char folder_a[PATH_SIZE + 1], folder_b[PATH_SIZE + 1];
    const char *name_a = split(a, folder_a), *name_b = split(b, folder_b);
    if (stat(folder_a, &of_a) != 0 || stat(folder_b, &of_b) != 0)
        return strcmp(a, b) == 0;
    return are_same(&of_a, &of_b) && strcmp(name_a, name_b) == 0;
}

/* Whether both are one regular file. Devices and pipes may be shared. */
static bool is_one_file(const char *a, const char *b)
{
    struct stat of_a, of_b;
    const bool has_a = stat(a, &of_a) == 0, has_b = stat(b, &of_b) == 0;
    if (has_a && has_b)
        return S_ISREG(of_a.st_mode) && are_same(&of_a, &of_b);
    return !has_a && !has_b && will_be_one(a, b);
}

/* Returns false if there is no such file, or if its name is too long for one. */
static bool find_path(const run_file *file, char *out)
{
    return file->path && (size_t)snprintf(out, PATH_SIZE, "%s%s", file->path, file->suffix) < PATH_SIZE;
}

/* The names of a run's checkpoints are links to the same files, and a run may replace the one that it resumes from. */
static bool may_be_one(const run_file *a, const run_file *b)
{
    return (!a->is_written && !b->is_written) || (a->is_checkpoint && b->is_checkpoint);
}

static const char *describe(const run_file *file, char *out, size_t size)
{
    if (!file->suffix[0])
        return file->option;
    snprintf(out, size, "FILE%s of %s", file->suffix, file->option);
    return out;
}

static cli_end check_pair(const cli_verb *verb, const run_file *a, const run_file *b)
{
    char path_a[PATH_SIZE], path_b[PATH_SIZE], name_a[64], name_b[64];
    if (may_be_one(a, b) || !find_path(a, path_a) || !find_path(b, path_b) || !is_one_file(path_a, path_b))
        return (cli_end){0};
    return cli_exit(cli_fail(verb, EXIT_USAGE, "%s and %s are the same file, %s", describe(a, name_a, sizeof name_a),
                             describe(b, name_b, sizeof name_b), path_b));
}

cli_end run_files_check(const cli_verb *verb, const train_options *options)
{
    const run_settings *settings = &options->settings;
    const char *validate = validation_reads_file(settings->validate) ? settings->validate : NULL;
    const run_file files[] = {
        {"--validate", validate, "", false, false},
        {"--rates", settings->optimizer.rates[0] ? settings->optimizer.rates : NULL, "", false, false},
        {"--lock-manifest", options->tune.manifest, "", false, false},
        {"--resume", options->resume, "", false, true},
        {"--resume", options->resume, ".best", false, true},
        {"--log", options->log, "", true, false},
        {"--csv", options->csv, "", true, false},
        {"--tensorboard", options->tensorboard, "", true, false},
        {"--report", options->report, "", true, false},
        {"--save", options->save, "", true, true},
        {"--save", options->save, ".prev", true, true},
        {"--save", settings->validate[0] ? options->save : NULL, ".best", true, true},
        {"--save-graph", options->save_graph, "", true, false},
        {"--save-graph", settings->optimizer.accumulate > 1 ? options->save_graph : NULL, ".update", true, false},
        {"--save-manifest", options->tune.save_manifest, "", true, false},
    };
    const int count = (int)(sizeof files / sizeof *files);
    cli_end end = {0};
    for (int i = 0; i < count && !end.now; i++) {
        for (int j = 0; j < options->data.count && !end.now; j++)
            end = check_pair(verb, &(run_file){"--data", options->data.items[j], "", false, false}, &files[i]);
        for (int j = 0; j < i && !end.now; j++)
            end = check_pair(verb, &files[j], &files[i]);
    }
    return end;
}
