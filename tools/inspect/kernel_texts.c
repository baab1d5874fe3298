/* Writes the kernels of known plans and of the op suite, each text once. */
#include "tools/inspect/kernel_texts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file/file.h"
#include "base/hash.h"
#include "tools/model/known_plans.h"
#include "tools/verify/suite.h"

typedef struct text_writer {
    const char *folder;
    const char *origin; /* of the current plan: "train", an op's name */
    hash128 *written;
    int count, capacity;
} text_writer;

static bool is_written(const text_writer *self, hash128 hash)
{
    for (int i = 0; i < self->count; i++)
        if (self->written[i].low == hash.low && self->written[i].high == hash.high)
            return true;
    return false;
}

static tuff_status write_text(text_writer *self, const tuff_task_info *task)
{
    const file_part whole = {task->source, strlen(task->source)};
    const hash128 hash = tuff__hash(whole.data, whole.size);
    if (is_written(self, hash))
        return TUFF_OK;
    char path[4096];
    const char *ending = strncmp(task->source, "#version", 8) == 0 ? "comp" : "cl";
    const int length =
        snprintf(path, sizeof path, "%s/%s-%016" PRIx64 ".%s", self->folder, task->program, hash.low, ending);
    if (length < 0 || (size_t)length >= sizeof path)
        return FAIL(TUFF_E_USAGE, "the folder's path is too long");
    TRY(tuff__file_write(path, &whole, 1, false, false));
    if (!GROW(self->written, self->count, self->capacity))
        return TUFF_E_OOM_HOST;
    self->written[self->count++] = hash;
    printf("%s\t%s\t%s\n", path + strlen(self->folder) + 1, self->origin, task->label);
    return TUFF_OK;
}

static tuff_status write_plan(void *state, const tuff_plan *plan)
{
    text_writer *self = state;
    tuff_plan_info info;
    TRY(tuff_plan_describe(plan, &info));
    for (int i = 0; i < info.task_count; i++) {
        tuff_task_info task;
        TRY(tuff_plan_task(plan, i, &task));
        if (task.source)
            TRY(write_text(self, &task));
    }
    return TUFF_OK;
}

/* Writes the kernels of two models: wide enough that rows of the width use the bodies for wide rows, with heads of 128
   and of 64. */
static tuff_status write_models(text_writer *self, tuff_device *device, const tuff_compile_options *options)
{
    static const model_config models[] = {
        {.form = MODEL_GPT, .layers = 2, .heads = 4, .width = 512, .context = 64, .vocabulary = 256},
        {.form = MODEL_LLAMA,
         .layers = 2,
         .heads = 4,
         .width = 256,
         .context = 60,
         .vocabulary = 258,
         .key_value_heads = 2,
         .hidden = 500}};
    tuff_status status = TUFF_OK;
    for (size_t m = 0; m < sizeof models / sizeof *models && status == TUFF_OK; m++) {
        model_plans plans;
        status = model_plans_open(device, &(model_options){.model = models[m], .batch = 2}, options, &plans);
        for (int i = 0; i < MODEL_PLAN_COUNT && status == TUFF_OK; i++) {
            self->origin = plans.items[i].name;
            status = write_plan(self, plans.items[i].plan);
        }
        model_plans_destroy(&plans);
    }
    return status;
}

/* Whether a case of the suite is needed. Elementwise ops and ops that move elements share one body each: one case per
   op is enough, and two ops cover all dtypes. */
static bool is_wanted(op_code op, tuff_dtype dtype, int index)
{
    if (!tuff__op_is_elementwise(op) && !tuff__op_is_view(op) && op != OP_PAD && op != OP_CONCAT)
        return suite_is_in_short_suite(op, dtype, index);
    return index == 0 && (dtype == TUFF_F32 || op == OP_ADD || op == OP_CAST);
}

static tuff_status write_suite(text_writer *self, tuff_device *device, const tuff_compile_options *options)
{
    suite_case test;
    for (tuff_dtype dtype = TUFF_F32; dtype <= TUFF_BOOL; dtype++)
        for (int op = 0; op < OP_COUNT; op++)
            for (int index = 0; suite_case_at((op_code)op, dtype, index, &test); index++) {
                if (!is_wanted((op_code)op, dtype, index))
                    continue;
                self->origin = test.name;
                TRY(suite_with_plan(device, &test, options, write_plan, self));
            }
    for (int index = 0; suite_composite_at(index, TUFF_F32, &test); index++) {
        self->origin = test.name;
        TRY(suite_with_plan(device, &test, options, write_plan, self));
    }
    return TUFF_OK;
}

tuff_status kernel_texts_write(tuff_device *device, const tuff_compile_options *options, const char *folder)
{
    text_writer self = {.folder = folder};
    if (tuff__file.mkdir(folder, 0777) != 0 && errno != EEXIST)
        return FAIL(TUFF_E_IO, "%s: %s", folder, strerror(errno));
    tuff_status status = write_models(&self, device, options);
    if (status == TUFF_OK)
        status = write_suite(&self, device, options);
    tuff__free(self.written);
    return status;
}
