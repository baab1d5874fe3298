/* Checkpoints of a training run. Their metadata holds the configuration, so that a run does not resume another one's
   checkpoint. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

enum { CONFIG_SIZE = 2048 };

/* Formats the seed and all numbers of the configuration except the number of steps. */
static void describe_config(const training *self, char *text)
{
    const example *model = self->run.model;
    size_t used = (size_t)snprintf(text, CONFIG_SIZE, "seed=%" PRIu64, self->run.seed);
    for (int i = 0; i < example_field_count(model) && used < CONFIG_SIZE; i++) {
        const char *name = example_field_at(model, i)->name;
        double value = 0;
        example_get(model, self->run.config, name, &value);
        if (strcmp(name, "steps") != 0)
            used += (size_t)snprintf(text + used, CONFIG_SIZE - used, " %s=%.9g", name, value);
    }
}

/* Whether the checkpoint belongs to this example and configuration. Checked before anything is changed. */
static bool is_resumable(const training *self, const char *path, double *best)
{
    char config[CONFIG_SIZE];
    describe_config(self, config);
    tuff_file *file = tuff_file_open(path);
    if (!file) {
        fprintf(stderr, "%s: %s\n", self->run.model->name, tuff_error());
        return false;
    }
    const char *name = tuff_file_metadata(file, "example"), *kept = tuff_file_metadata(file, "config");
    const char *best_text = tuff_file_metadata(file, "best validation loss");
    const bool good = name && kept && strcmp(name, self->run.model->name) == 0 && strcmp(kept, config) == 0;
    *best = best_text ? strtod(best_text, NULL) : NAN;
    if (!good)
        fprintf(stderr, "%s: %s is a checkpoint of %s (%s); this run is %s\n", self->run.model->name, path,
                name ? name : "another program", kept ? kept : "", config);
    tuff_file_close(file);
    return good;
}

tuff_status training_resume(training *self)
{
    const char *path = self->options->resume;
    int32_t batches = 0;
    if (!path)
        return TUFF_OK;
    if (!is_resumable(self, path, &self->run.best_validation_loss)) {
        self->error_reported = true;
        return TUFF_E_FORMAT;
    }
    tuff_status status = tuff_checkpoint_load(path, self->run.parameters, self->run.optimizer);
    if (status == TUFF_OK)
        status = tuff_array_read(tuff_optimizer_batch_counter(self->run.optimizer), &batches, sizeof batches);
    const int64_t parts = self->run.settings->accumulate > 1 ? self->run.settings->accumulate : 1;
    self->first_step = self->run.step = batches / parts;
    return status;
}

tuff_status training_save(training *self, bool is_best)
{
    const char *const keys[] = {"example", "config", "best validation loss"};
    char config[CONFIG_SIZE], best[40];
    const char *const texts[] = {self->run.model->name, config, best};
    if (!self->options->save)
        return TUFF_OK;
    describe_config(self, config);
    snprintf(best, sizeof best, "%.17g", self->run.best_validation_loss);
    const tuff_checkpoint_options options = {
        .keys = keys, .texts = texts, .metadata_count = 3, .step = self->run.step, .best = is_best};
    if (!self->writer)
        self->writer = tuff_checkpoint_writer_create(self->run.parameters, self->run.optimizer);
    return self->writer ? tuff_checkpoint_writer_save(self->writer, self->options->save, &options) : tuff_last_status();
}
