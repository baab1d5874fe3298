/* Recomputes the results in golden files and prints the largest deviation of each quantity next to its tolerance.
   Usage: golden FILE... [--device D] [--fuse off] [--turn I/N] [--allow-skips]. Exits with 1 if a deviation exceeds its
   tolerance or, unless that is allowed, something in a file was not computed; with 2 on wrong usage. */
#include <stdio.h>
#include <string.h>

#include "golden_common.h"

typedef struct arguments {
    const char *device;
    tuff_compile_options compile;
    int turn, turns;
    int file_count;
    bool allow_skips;
} arguments;

/* Moves the file names to the front of words. */
static bool read_arguments(int count, char **words, arguments *out)
{
    *out = (arguments){0};
    for (int i = 0; i < count; i++) {
        if (strcmp(words[i], "--device") == 0 && i + 1 < count)
            out->device = words[++i];
        else if (strcmp(words[i], "--fuse") == 0 && i + 1 < count)
            out->compile.fuse = strcmp(words[++i], "off") == 0 ? TUFF_FUSE_NONE : TUFF_FUSE_ALL;
        else if (strcmp(words[i], "--turn") == 0 && i + 1 < count &&
                 sscanf(words[i + 1], "%d/%d", &out->turn, &out->turns) == 2 && out->turn < out->turns)
            i++;
        else if (strcmp(words[i], "--allow-skips") == 0)
            out->allow_skips = true;
        else if (words[i][0] == '-')
            return false;
        else
            words[out->file_count++] = words[i];
    }
    return out->file_count > 0;
}

static void check_file(golden_run *run, const char *path)
{
    tuff_file *file = tuff_file_open(path);
    run->file = file;
    printf("%s\n", path);
    if (!file)
        golden_broken(run, path);
    else if (!golden_training(run) && !golden_ops(run) && !golden_workload(run))
        golden_skip(run, path, "neither a training run, nor cases of ops, nor a training example");
    tuff_file_close(file);
}

int main(int count, char **words)
{
    arguments given;
    if (!read_arguments(count - 1, words + 1, &given)) {
        fputs("usage: golden FILE... [--device D] [--fuse on|off] [--turn I/N] [--allow-skips]\n", stderr);
        return 2;
    }
    golden_run run = {
        .device = tuff_device_open(given.device), .compile = given.compile, .turn = given.turn, .turns = given.turns};
    if (!run.device) {
        fprintf(stderr, "golden: %s\n", tuff_error());
        return 1;
    }
    for (int i = 0; i < given.file_count; i++)
        check_file(&run, words[1 + i]);
    tuff_device_close(run.device);
    printf("%d within their bars, %d beyond, %d skipped\n", run.passed, run.failed, run.skipped);
    return run.failed > 0 || run.passed == 0 || (run.skipped > 0 && !given.allow_skips);
}
