/* The additional names of a saved checkpoint: one with its step, of which the last ones are kept, and that of the best
   one. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file/file.h"
#include "base/file/list.h"
#include "base/text.h"
#include "train/checkpoint_files.h"
#include "tuff/checkpoint.h"

/* The steps of the existing files. */
typedef struct step_list {
    int64_t *steps;
    int count, capacity;
    size_t prefix; /* length of the name before the number */
} step_list;

static tuff_status add_step(const char *name, void *state)
{
    step_list *self = state;
    const char *digits = name + self->prefix;
    const size_t length = strlen(digits);
    /* Accepts only numbers as this file writes them, no other names with the same prefix. */
    if (length == 0 || strspn(digits, "0123456789") != length || (digits[0] == '0' && length > 1))
        return TUFF_OK;
    errno = 0;
    const int64_t step = strtoll(digits, NULL, 10);
    if (errno != 0)
        return TUFF_OK;
    if (!GROW(self->steps, self->count, self->capacity))
        return TUFF_E_OOM_HOST;
    self->steps[self->count++] = step;
    return TUFF_OK;
}

/* Latest first. */
static int compare_steps(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? 1 : a > b ? -1 : 0;
}

static tuff_status list_steps(const char *path, step_list *out)
{
    const char *slash = strrchr(path, '/');
    text folder = {0}, prefix = {0};
    tuff__text_add_bytes(&folder, slash ? path : ".", slash && slash != path ? (size_t)(slash - path) : 1);
    tuff__text_add(&prefix, "%s.step-", slash ? slash + 1 : path);
    out->prefix = prefix.length;
    tuff_status status = tuff__text_status(&folder);
    if (status == TUFF_OK)
        status = tuff__text_status(&prefix);
    if (status == TUFF_OK)
        status = tuff__file_list(tuff__text_get(&folder), tuff__text_get(&prefix), add_step, out);
    tuff__text_free(&folder);
    tuff__text_free(&prefix);
    return status;
}

static tuff_status remove_step(const char *path, int64_t step)
{
    text name = {0};
    tuff__text_add(&name, "%s.step-%" PRId64, path, step);
    tuff_status status = tuff__text_status(&name);
    if (status == TUFF_OK)
        status = tuff__file_remove(tuff__text_get(&name));
    tuff__text_free(&name);
    return status;
}

/* Later steps come from an earlier run that this one repeats. They are neither counted nor removed: the user may have
   gone back on purpose. */
static tuff_status remove_old_steps(const char *path, int64_t step, int keep)
{
    step_list list = {0};
    tuff_status status = list_steps(path, &list);
    if (list.count > 0)
        qsort(list.steps, (size_t)list.count, sizeof *list.steps, compare_steps);
    int kept = 0;
    for (int i = 0; i < list.count && status == TUFF_OK; i++)
        if (list.steps[i] <= step && ++kept > keep)
            status = remove_step(path, list.steps[i]);
    tuff__free(list.steps);
    return status;
}

/* The additional name is a hard link where the file system has them, so that the state is written only once. */
static tuff_status keep_as(const char *path, const char *format, int64_t step)
{
    text name = {0};
    tuff__text_add(&name, format, path, step);
    tuff_status status = tuff__text_status(&name);
    if (status == TUFF_OK)
        status = tuff__file_keep_as(path, tuff__text_get(&name), true);
    tuff__text_free(&name);
    return status;
}

/* The new name exists before old files are removed, so that at any time at least `keep` steps can be loaded. */
tuff_status tuff__rotate_checkpoints(const char *path, int64_t step, int keep, bool best)
{
    if (best)
        TRY(keep_as(path, "%s.best", step));
    if (keep <= 0)
        return TUFF_OK;
    TRY(keep_as(path, "%s.step-%" PRId64, step));
    return remove_old_steps(path, step, keep);
}

tuff_status tuff__check_checkpoint_options(const tuff_checkpoint_options *options)
{
    if (options->metadata_count < 0 || (options->metadata_count > 0 && (!options->keys || !options->texts)))
        return FAIL(TUFF_E_USAGE,
                    "checkpoint: metadata_count is %d: it must not be negative, and keys and texts must not be NULL",
                    options->metadata_count);
    if (options->step < 0 || options->keep < 0)
        return FAIL(TUFF_E_USAGE, "checkpoint: step %" PRId64 ", keep %d: neither may be negative", options->step,
                    options->keep);
    return TUFF_OK;
}

tuff_status tuff_checkpoint_save_as(const char *path, tuff_parameters *parameters, tuff_optimizer *optimizer,
                                    const tuff_checkpoint_options *options)
{
    static const tuff_checkpoint_options defaults = {0};
    const tuff_checkpoint_options *given = options ? options : &defaults;
    TRY(tuff__check_checkpoint_options(given));
    TRY(tuff_checkpoint_save(path, parameters, optimizer, given->keys, given->texts, given->metadata_count));
    return tuff__rotate_checkpoints(path, given->step, given->keep, given->best);
}
