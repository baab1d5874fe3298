/* Where the batches of a training run come from: windows of the text that a loader prepares, or that the device draws
   from a copy of the text in its memory. */
#ifndef TUFF_TOOLS_TRAIN_BATCHES_H
#define TUFF_TOOLS_TRAIN_BATCHES_H

#include "tools/train/run_settings.h"
#include "tools/train/text.h"
#include "tuff/data.h"

typedef struct batches {
    const corpus *text;
    uint64_t seed;
    int64_t batch, window;
    tuff_loader *loader;  /* NULL: the text is on the device */
    tuff_array *resident; /* u8 [bytes of text]; NULL: a loader has it */
} batches;

/* text must outlive it. workers: threads that prepare windows. upload: when they go to the device. Free it whatever is
   returned. */
tuff_status batches_open(batches *self, tuff_device *device, const corpus *text, const run_settings *settings,
                         int64_t workers, tuff_upload upload);
void batches_close(batches *self);

/* The windows of a step, i32 [batch, context + 1], in a graph whose step is set: the input that a loader fills, or a
   drawing. */
tuff_tensor *batches_windows(const batches *self, tuff_graph *graph);
/* The training graph of the model over these windows. */
tuff_graph *batches_graph(const batches *self, tuff_device *device, language_model *model, tuff_optimizer *optimizer);
/* Goes on behind so many steps. saved: the loader's position as a checkpoint has it; "": it has none. */
tuff_status batches_seek(batches *self, int64_t step, const char *saved);
/* The position as a text for a checkpoint; "" where the device draws the windows, for the step says it all. */
tuff_status batches_tell(const batches *self, char *out, size_t size);
/* Gives the plan's next run its windows. */
tuff_status batches_next(batches *self, tuff_plan *plan);
/* Seconds that steps waited for windows so far. */
double batches_waited(const batches *self);
/* Whether they reached the device on a queue of their own. */
bool batches_are_sent_beside(const batches *self);

#endif
