/* Saving a run. The copy that the device makes needs as much memory as the state. If that is not available, steps wait
   until a checkpoint is written. */
#include "tools/train/saving.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file/file.h"
#include "base/status.h"

static tuff_status make_name(char *out, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);
static tuff_status make_name(char *out, size_t size, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const int length = vsnprintf(out, size, format, list);
    va_end(list);
    return length >= 0 && (size_t)length < size ? TUFF_OK : FAIL(TUFF_E_USAGE, "%.200s...: path too long", out);
}

/* Checks that the folder of path exists. A link to a folder counts. */
static tuff_status check_folder(const char *option, const char *path)
{
    struct stat entry;
    char folder[1024];
    const char *slash = strrchr(path, '/');
    if (!slash)
        return TUFF_OK;
    TRY(make_name(folder, sizeof folder, "%.*s/.", (int)(slash - path), path));
    if (tuff__file.lstat(folder, &entry) == 0)
        return TUFF_OK;
    return FAIL(TUFF_E_IO, "%s %s: folder %.*s does not exist", option, path, (int)(slash - path), path);
}

/* Writes and removes a probe file under an unused name. */
tuff_status saving_check_path(const char *option, const char *path)
{
    struct stat entry;
    char probe[1024];
    if (!path)
        return TUFF_OK;
    if (tuff__file.lstat(path, &entry) == 0 && S_ISDIR(entry.st_mode))
        return FAIL(TUFF_E_IO, "%s %s: is a folder", option, path);
    TRY(check_folder(option, path));
    for (int i = 0; i == 0 || tuff__file.lstat(probe, &entry) == 0; i++)
        TRY(make_name(probe, sizeof probe, "%s.probe-%d", path, i));
    TRY(tuff__file_write(probe, NULL, 0, false, false));
    return tuff__file_remove(probe);
}

/* Whether the file at path has the best weights of a run in this state. PATH.best always does if the best step matches;
   other checkpoints only if they are of that step. */
static bool has_best_weights(const char *path, const run_state *state, bool is_named_best)
{
    run_settings found;
    return run_settings_read(path, &found) == TUFF_OK && found.state.has_best &&
           found.state.best_step == state->best_step && found.state.best_loss == state->best_loss &&
           (is_named_best || found.state.step == state->best_step);
}

/* Length of FILE in FILE.prev and FILE.step-<n>; 0 for other names. */
static size_t length_of_original(const char *path)
{
    const char *dot = strrchr(path, '.');
    if (!dot)
        return 0;
    const bool is_step = strncmp(dot, ".step-", 6) == 0 && dot[6] && strspn(dot + 6, "0123456789") == strlen(dot + 6);
    return is_step || strcmp(dot, ".prev") == 0 ? (size_t)(dot - path) : 0;
}

tuff_status saving_find_best(const char *path, const run_state *state, char *out, size_t size)
{
    const int original = (int)length_of_original(path);
    TRY(make_name(out, size, "%s.best", path));
    if (has_best_weights(out, state, true))
        return TUFF_OK;
    if (original > 0) {
        TRY(make_name(out, size, "%.*s.best", original, path));
        if (has_best_weights(out, state, true))
            return TUFF_OK;
        TRY(make_name(out, size, "%.*s.step-%" PRId64, original, path, state->best_step));
        if (has_best_weights(out, state, false))
            return TUFF_OK;
        TRY(make_name(out, size, "%.*s.best", original, path));
    }
    return FAIL(TUFF_E_IO, "%s does not contain the best weights of the run, from step %" PRId64, out,
                state->best_step);
}

/* A run that was killed after writing its best checkpoint and before naming it FILE.best lacks that name, and so does a
   run that resumes under another name. Creates the name if possible, else sets lacks_best. */
static tuff_status find_lacking_best(save_state *self, const run_state *state)
{
    char best[1024];
    if (!state->has_best)
        return TUFF_OK;
    TRY(make_name(best, sizeof best, "%s.best", self->path));
    if (has_best_weights(best, state, true))
        return TUFF_OK;
    if (has_best_weights(self->path, state, false))
        return tuff__file_keep_as(self->path, best, true);
    self->lacks_best = true;
    return TUFF_OK;
}

tuff_status saving_open(save_state *self, const char *path, int64_t keep, bool async, const run_state *state,
                        language_model *model, tuff_optimizer *optimizer)
{
    *self = (save_state){
        .path = path, .keep = keep, .model = model, .optimizer = optimizer, .saved = -1, .begun = -1, .failed = -1};
    if (!path)
        return TUFF_OK;
    TRY(find_lacking_best(self, state));
    if (!async)
        return TUFF_OK;
    self->writer = tuff_checkpoint_writer_create(model->parameters, optimizer);
    return self->writer || tuff_last_status() == TUFF_E_OOM_DEVICE ? TUFF_OK : tuff_last_status();
}

static tuff_status save(const save_state *self, const run_metadata *metadata, int64_t step, bool is_best)
{
    const tuff_checkpoint_options options = {.keys = metadata->keys,
                                             .texts = (const char *const *)metadata->texts,
                                             .metadata_count = RUN_METADATA_COUNT,
                                             .step = step,
                                             .keep = (int)self->keep,
                                             .best = is_best};
    if (self->writer)
        return tuff_checkpoint_writer_save(self->writer, self->path, &options);
    return tuff_checkpoint_save_as(self->path, self->model->parameters, self->optimizer, &options);
}

static tuff_status note_failure(save_state *self, int64_t step, bool is_best, tuff_status status)
{
    self->failed = step;
    self->lacks_best = self->lacks_best || is_best;
    return status;
}

tuff_status saving_wait(save_state *self)
{
    const tuff_status status = self->writer ? tuff_checkpoint_writer_wait(self->writer) : TUFF_OK;
    const int64_t step = self->begun;
    self->begun = -1;
    if (status != TUFF_OK)
        return note_failure(self, step, self->is_best, status);
    if (step >= 0) {
        self->saved = step;
        self->lacks_best = self->lacks_best && !self->is_best;
    }
    return TUFF_OK;
}

/* Saves the weights of an earlier step, whose own save failed. The current checkpoint is finished first, so that it is
   not lost if this fails again. */
static tuff_status save_lacking_best(save_state *self, const run_metadata *metadata, tuff_parameters *best)
{
    char path[1024];
    TRY(saving_wait(self));
    TRY(make_name(path, sizeof path, "%s.best", self->path));
    TRY(tuff_checkpoint_save(path, best, NULL, metadata->keys, (const char *const *)metadata->texts,
                             RUN_METADATA_COUNT));
    self->lacks_best = false;
    return TUFF_OK;
}

tuff_status saving_begin(save_state *self, const run_settings *settings, int64_t step, bool is_best,
                         tuff_parameters *best)
{
    run_metadata metadata;
    if (self->saved == step && !is_best)
        return TUFF_OK;
    tuff_status status = run_settings_metadata(settings, &metadata);
    if (status == TUFF_OK)
        status = save(self, &metadata, step, is_best);
    if (status == TUFF_OK) {
        self->begun = step;
        self->is_best = is_best;
        if (self->lacks_best && !is_best && best)
            status = save_lacking_best(self, &metadata, best);
    }
    run_metadata_free(&metadata);
    return status == TUFF_OK ? TUFF_OK : note_failure(self, step, is_best, status);
}

void saving_close(save_state *self)
{
    (void)tuff_checkpoint_writer_destroy(self->writer);
    self->writer = NULL;
}

bool saving_is_written(const save_state *self)
{
    run_settings found;
    return run_settings_read(self->path, &found) == TUFF_OK && found.state.step == self->failed;
}
