/* Checkpoints of a training run. Their metadata holds the configuration and which data it learned from, so that a run
   does not resume another one's checkpoint, and the state of the model's hooks. A frozen set of parameters is in a
   second file once it differs from the initial one. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

enum { CONFIG_SIZE = 2048, STATE_SIZE = 512, MAX_ENTRIES = 6 };

/* What a checkpoint holds besides the parameters and the optimizer. */
typedef struct resumed {
    double best_validation_loss;
    int64_t frozen_step; /* -1: not stored */
    bool has_state;
    char state[STATE_SIZE];
} resumed;

/* Formats the seed and all numbers of the configuration except the number of steps. */
static void describe_config(const training *self, char *text)
{
    const example *model = self->run.model;
    size_t used = (size_t)snprintf(text, CONFIG_SIZE, "seed=%" PRIu64, self->run.seed);
    for (int i = 0; i < example_field_count(model) && used < CONFIG_SIZE; i++) {
        const example_field *field = example_field_at(model, i);
        if (strcmp(field->name, "steps") != 0)
            used += (size_t)snprintf(text + used, CONFIG_SIZE - used, " %s=%.9g", field->name,
                                     example_field_value(field, self->run.config));
    }
}

/* Whether the data is that of the checkpoint. One without an entry, or data that has no description, is accepted. */
static bool has_same_data(const training *self, const char *path, const char *kept)
{
    const char *given = self->data_text;
    if (!kept || !kept[0] || !given[0] || strcmp(kept, given) == 0)
        return true;
    fprintf(stderr, "%s: %s was trained on other data (%s) than this run has (%s); resume it with the same --data\n",
            self->run.model->name, path, kept, given);
    return false;
}

static bool is_of_this_run(const training *self, const tuff_file *file)
{
    char config[CONFIG_SIZE];
    const char *name = tuff_file_metadata(file, "example"), *kept = tuff_file_metadata(file, "config");
    describe_config(self, config);
    return name && kept && strcmp(name, self->run.model->name) == 0 && strcmp(kept, config) == 0;
}

static int64_t frozen_step_of(const tuff_file *file)
{
    const char *text = tuff_file_metadata(file, "frozen step");
    return text ? strtoll(text, NULL, 10) : -1;
}

/* Reads the metadata of a checkpoint. Returns false, after a line on standard error, if it does not belong to this
   example, configuration and data. Checked before anything is changed. */
static bool read_metadata(const training *self, const char *path, resumed *out)
{
    char config[CONFIG_SIZE];
    tuff_file *file = tuff_file_open(path);
    if (!file) {
        fprintf(stderr, "%s: %s\n", self->run.model->name, tuff_error());
        return false;
    }
    const char *name = tuff_file_metadata(file, "example"), *kept = tuff_file_metadata(file, "config");
    const char *best = tuff_file_metadata(file, "best validation loss"), *state = tuff_file_metadata(file, "state");
    *out = (resumed){.best_validation_loss = best ? strtod(best, NULL) : NAN,
                     .frozen_step = frozen_step_of(file),
                     .has_state = state != NULL};
    snprintf(out->state, sizeof out->state, "%s", state ? state : "");
    bool good = is_of_this_run(self, file);
    describe_config(self, config);
    if (!good)
        fprintf(stderr, "%s: %s is a checkpoint of %s (%s); this run is %s\n", self->run.model->name, path,
                name ? name : "another program", kept ? kept : "", config);
    good = good && has_same_data(self, path, tuff_file_metadata(file, "data"));
    tuff_file_close(file);
    return good;
}

/* Loads the frozen parameters of a checkpoint. Its file has the checkpoint's name with .frozen before .prev or .best. A
   run that was ended between the two saves leaves a newer one there, and the right one as the previous one. */
static tuff_status load_frozen(training *self, const char *path, int64_t step)
{
    static const char *const suffixes[] = {"", ".prev", ".best"};
    const size_t length = strlen(path), room = length + sizeof ".frozen.prev";
    size_t stem = length;
    char *name = malloc(room);
    tuff_status status = name ? TUFF_E_FORMAT : TUFF_E_OOM_HOST;
    for (int i = 1; i < 3; i++)
        if (length > 5 && strcmp(path + length - 5, suffixes[i]) == 0)
            stem = length - 5;
    for (int i = 0; i < 3 && status == TUFF_E_FORMAT; i++) {
        (void)snprintf(name, room, "%.*s.frozen%s", (int)stem, path, suffixes[i]);
        tuff_file *file = tuff_file_open(name);
        const bool is_right = file && is_of_this_run(self, file) && frozen_step_of(file) == step;
        tuff_file_close(file);
        if (is_right)
            status = tuff_checkpoint_load(name, self->run.frozen, NULL);
    }
    if (status == TUFF_E_FORMAT) {
        fprintf(stderr, "%s: %s needs the frozen parameters of step %" PRId64 ", but %.*s.frozen does not hold them\n",
                self->run.model->name, path, step, (int)stem, path);
        self->error_reported = true;
    }
    free(name);
    return status;
}

/* Restores what the hooks keep. Checkpoints of older versions lack it: the schedules then begin anew. */
static tuff_status restore(training *self, const char *path, const resumed *kept)
{
    example_run *run = &self->run;
    tuff_status status = TUFF_OK;
    run->best_validation_loss = kept->best_validation_loss;
    if ((run->model->has_frozen && kept->frozen_step < 0) || (run->model->read_state && !kept->has_state)) {
        fprintf(stderr, "%s: %s lacks schedules or frozen parameters, which begin anew: this is another run\n",
                run->model->name, path);
        run->best_validation_loss = NAN;
        run->frozen_step = run->step;
        return run->model->has_frozen ? tuff_parameters_copy(run->frozen, run->parameters) : TUFF_OK;
    }
    if (run->model->has_frozen) {
        run->frozen_step = kept->frozen_step;
        status = run->frozen_step > 0 ? load_frozen(self, path, run->frozen_step) : TUFF_OK;
    }
    return status == TUFF_OK && run->model->read_state ? run->model->read_state(run, kept->state) : status;
}

tuff_status training_resume(training *self)
{
    const char *path = self->options->resume;
    int32_t batches = 0;
    resumed kept;
    if (!path)
        return TUFF_OK;
    if (!read_metadata(self, path, &kept)) {
        self->error_reported = true;
        return TUFF_E_FORMAT;
    }
    tuff_status status = tuff_checkpoint_load(path, self->run.parameters, self->run.optimizer);
    if (status == TUFF_OK)
        status = tuff_array_read(tuff_optimizer_batch_counter(self->run.optimizer), &batches, sizeof batches);
    if (status != TUFF_OK)
        return status;
    const int64_t parts = example_batches_per_step(self->run.settings);
    const int64_t steps = self->run.settings->steps;
    self->first_step = self->run.step = batches / parts;
    if (self->options->bench || self->run.step < steps)
        return restore(self, path, &kept);
    fprintf(stderr, "%s: %s is a checkpoint of step %" PRId64 "; --steps %" PRId64 " leaves nothing to do: give more\n",
            self->run.model->name, path, self->run.step, steps);
    self->error_reported = true;
    return TUFF_E_USAGE;
}

/* Saves the frozen parameters before the checkpoint that needs them, with the same names, and after the previous
   checkpoint, so that one of its two files always fits the checkpoint. */
static tuff_status save_frozen(const training *self, const tuff_checkpoint_options *options)
{
    const tuff_status before = self->writer ? tuff_checkpoint_writer_wait(self->writer) : TUFF_OK;
    if (before != TUFF_OK)
        return before;
    const size_t room = strlen(self->options->save) + sizeof ".frozen";
    char *path = malloc(room);
    if (!path)
        return TUFF_E_OOM_HOST;
    (void)snprintf(path, room, "%s.frozen", self->options->save);
    const tuff_status status = tuff_checkpoint_save_as(path, self->run.frozen, NULL, options);
    free(path);
    return status;
}

tuff_status training_save(training *self, bool is_best)
{
    const example_run *run = &self->run;
    char config[CONFIG_SIZE], best[40], frozen[32], state[STATE_SIZE];
    const char *keys[MAX_ENTRIES] = {"example", "config", "best validation loss", "data"};
    const char *texts[MAX_ENTRIES] = {run->model->name, config, best, self->data_text};
    tuff_checkpoint_options options = {
        .keys = keys, .texts = texts, .metadata_count = 4, .step = run->step, .best = is_best};
    /* A second checkpoint of a step would replace the one of an earlier step under the name of the previous one. */
    if (!self->options->save || self->saved_step == run->step)
        return TUFF_OK;
    self->saved_step = run->step;
    describe_config(self, config);
    snprintf(best, sizeof best, "%.17g", run->best_validation_loss);
    if (run->model->has_frozen) {
        snprintf(frozen, sizeof frozen, "%" PRId64, run->frozen_step);
        keys[options.metadata_count] = "frozen step";
        texts[options.metadata_count++] = frozen;
    }
    if (run->model->write_state) {
        run->model->write_state(run, state, sizeof state);
        keys[options.metadata_count] = "state";
        texts[options.metadata_count++] = state;
    }
    const tuff_status status = run->frozen_step > 0 ? save_frozen(self, &options) : TUFF_OK;
    if (status != TUFF_OK)
        return status;
    if (!self->writer)
        self->writer = tuff_checkpoint_writer_create(run->parameters, run->optimizer);
    return self->writer ? tuff_checkpoint_writer_save(self->writer, self->options->save, &options) : tuff_last_status();
}
