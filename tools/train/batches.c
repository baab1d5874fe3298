/* Batches for training. The windows of a step depend only on seed and step, so that a resumed run sees the same ones,
   with any number of threads. The device draws other windows than a loader does, because it has no 64-bit integers. */
#include "tools/train/batches.h"

#include "tools/model/graphs.h"

static tuff_status fill(void *user, tuff_batch_target *target)
{
    const batches *self = user;
    corpus_batch(self->text, self->seed, target->number, self->batch, self->window, target->data[0]);
    return TUFF_OK;
}

static tuff_status open_loader(batches *self, tuff_device *device, int64_t workers, tuff_upload upload)
{
    const tuff_field windows = {.name = "windows", .dtype = TUFF_I32, .shape = {.rank = 1, .extent = {self->window}}};
    self->loader = tuff_loader_create(device, &(tuff_loader_options){.fields = &windows,
                                                                     .field_count = 1,
                                                                     .batch_size = self->batch,
                                                                     .seed = self->seed,
                                                                     .workers = (int)workers,
                                                                     .ring = workers < 2 ? 2 : (int)workers + 1,
                                                                     .batch = fill,
                                                                     .upload = upload,
                                                                     .user = self});
    return self->loader ? TUFF_OK : tuff_last_status();
}

static tuff_status copy_text(batches *self, tuff_device *device)
{
    self->resident = tuff_array_create(device, TUFF_U8, TUFF_SHAPE((int64_t)self->text->size));
    return self->resident ? tuff_array_write(self->resident, self->text->bytes, self->text->size) : tuff_last_status();
}

tuff_status batches_open(batches *self, tuff_device *device, const corpus *text, const run_settings *settings,
                         int64_t workers, tuff_upload upload)
{
    *self = (batches){.text = text,
                      .seed = (uint64_t)settings->seed,
                      .batch = settings->batch,
                      .window = settings->model.context + 1};
    return settings->resident ? copy_text(self, device) : open_loader(self, device, workers, upload);
}

void batches_close(batches *self)
{
    (void)tuff_loader_destroy(self->loader);
    tuff_array_destroy(self->resident);
    self->loader = NULL;
    self->resident = NULL;
}

/* Draws i32 [batch, window] from the text on the device: a random offset for each window, and the bytes from there
   on. */
static tuff_tensor *draw_windows(const batches *self, tuff_graph *graph)
{
    tuff_graph_seed(graph, (uint32_t)(self->seed ^ self->seed >> 32));
    tuff_tensor *places =
        tuff_random_index(graph, TUFF_SHAPE(self->batch, 1), (int64_t)self->text->size - self->window + 1);
    tuff_tensor *positions = tuff_add(places, tuff_iota(graph, TUFF_SHAPE(self->batch, self->window), 1));
    tuff_tensor *list = tuff_reshape(positions, TUFF_SHAPE(self->batch * self->window));
    tuff_tensor *bytes = tuff_gather(tuff_array_tensor(graph, self->resident), list, 0);
    return tuff_cast(tuff_reshape(bytes, TUFF_SHAPE(self->batch, self->window)), TUFF_I32);
}

tuff_tensor *batches_windows(const batches *self, tuff_graph *graph)
{
    return self->resident ? draw_windows(self, graph)
                          : tuff_input(graph, "windows", TUFF_I32, TUFF_SHAPE(self->batch, self->window));
}

tuff_graph *batches_graph(const batches *self, tuff_device *device, language_model *model, tuff_optimizer *optimizer)
{
    tuff_graph *graph = tuff_graph_create(device);
    if (!graph)
        return NULL;
    tuff_graph_step(graph, tuff_optimizer_counter(optimizer));
    train_on_windows(graph, model, optimizer, batches_windows(self, graph));
    return graph;
}

/* A saved position that fits is used. If settings have changed, the step alone determines where to continue. */
tuff_status batches_seek(batches *self, int64_t step, const char *saved)
{
    if (!self->loader || (saved[0] && tuff_loader_restore(self->loader, saved) == TUFF_OK))
        return TUFF_OK;
    return tuff_loader_seek(self->loader, (tuff_loader_position){.batch = step});
}

tuff_status batches_save_position(const batches *self, char *out, size_t size)
{
    out[0] = 0;
    return self->loader ? tuff_loader_save(self->loader, out, size) : TUFF_OK;
}

tuff_status batches_next(batches *self, tuff_plan *plan)
{
    return self->loader ? tuff_loader_next(self->loader, plan, NULL) : TUFF_OK;
}

double batches_wait_seconds(const batches *self)
{
    tuff_loader_counters counters = {0};
    if (self->loader)
        (void)tuff_loader_counters_get(self->loader, &counters);
    return (double)counters.waited * 1e-9;
}

bool batches_use_upload_queue(const batches *self)
{
    tuff_loader_counters counters = {0};
    if (self->loader)
        (void)tuff_loader_counters_get(self->loader, &counters);
    return counters.uploaded_ahead > 0;
}
