/* The batches of a training run: windows of the text that a loader prepares, or that the device draws from a copy of
   the text in its memory. */
#ifndef TUFF_TOOLS_TRAIN_BATCHES_H
#define TUFF_TOOLS_TRAIN_BATCHES_H

#include "tools/train/run_settings.h"
#include "tools/train/text.h"
#include "tuff/data.h"

typedef struct batches {
    const corpus *text;
    uint64_t seed;
    int64_t batch, window;
    tuff_loader *loader;  /* NULL if the text is on the device */
    tuff_array *resident; /* u8 [bytes of text]; NULL if a loader is used */
} batches;

/* text must outlive self. workers: threads that prepare windows. upload: when windows are sent to the device. Call
   batches_close even after a failure. */
tuff_status batches_open(batches *self, tuff_device *device, const corpus *text, const run_settings *settings,
                         int64_t workers, tuff_upload upload);
void batches_close(batches *self);

/* The windows of a step, i32 [batch, context + 1], in a graph whose step counter is set: an input that the loader
   fills, or windows drawn on the device. */
tuff_tensor *batches_windows(const batches *self, tuff_graph *graph);
/* Creates the training graph of the model over these windows. */
tuff_graph *batches_graph(const batches *self, tuff_device *device, language_model *model, tuff_optimizer *optimizer);
/* Continues after `step` steps. saved: the loader's position in a checkpoint, or "". */
tuff_status batches_seek(batches *self, int64_t step, const char *saved);
/* Writes the position for a checkpoint to out; "" if the device draws the windows, which depend only on the step. */
tuff_status batches_save_position(const batches *self, char *out, size_t size);
/* Supplies the windows of the plan's next run. */
tuff_status batches_next(batches *self, tuff_plan *plan);
/* Total seconds that steps waited for windows so far. */
double batches_wait_seconds(const batches *self);
/* Whether windows were uploaded on a separate queue. */
bool batches_use_upload_queue(const batches *self);

#endif
