/* The stage has copies of the program's arrays; results are all outputs and all arrays that the graph assigns. */
#include "run/whole.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "compile/foresee.h"
#include "compile/simplify.h"
#include "run/fit.h"
#include "run/trial.h"
#include "run/tuner.h"

/* A storage of the program, and the one that stands for it. */
typedef struct mirrored {
    storage *from, *to;
    bool is_assigned; /* plans change what it holds */
} mirrored;

/* What a run leaves behind: an output, or (storage set) an array that was assigned. */
typedef struct result {
    const char *name; /* of an output */
    storage *storage;
    uint64_t offset, size;
    tuff_dtype dtype;
    void *right, *last; /* as it should be, and as it was seen last */
} result;

struct stage {
    tuff_device *device, *from;
    tuff_graph *graph; /* a copy of the program's */
    tuff_compile_options options;
    uint64_t most, used;
    mirrored *storages;
    int storage_count, storage_capacity;
    tuff_array **arrays; /* of the graph; owned */
    int array_count, array_capacity;
    result *results;
    int result_count;
    bool is_narrow;
    whole *first; /* all plans, the last used first */
};

struct whole {
    stage *on;
    choice by;
    tuff_plan *plan;    /* NULL while others have its memory */
    program **programs; /* then its programs, which are not compiled again */
    int program_count;
    uint64_t size; /* that it takes of the stage's bytes */
    whole *next;
};

/* ---- The stage ---- */

static tuff_status copy_storage(const stage *self, const mirrored *of)
{
    enum { AT_ONCE = 4 << 20 };
    const uint64_t size = tuff__storage_size(of->from);
    void *block = tuff__alloc(size < AT_ONCE ? (size_t)size : AT_ONCE);
    tuff_status status = block == NULL ? TUFF_E_OOM_HOST : TUFF_OK;
    for (uint64_t at = 0; at < size && status == TUFF_OK; at += AT_ONCE) {
        const uint64_t count = size - at < AT_ONCE ? size - at : AT_ONCE;
        status = tuff__storage_read(self->from, of->from, at, block, count);
        if (status == TUFF_OK)
            status = tuff__storage_write(self->device, of->to, at, block, count);
    }
    tuff__free(block);
    return status;
}

static tuff_status mirror_storage(stage *self, storage *from, mirrored **out)
{
    for (int i = 0; i < self->storage_count; ++i)
        if (self->storages[i].from == from) {
            *out = &self->storages[i];
            return TUFF_OK;
        }
    const uint64_t size = tuff__storage_size(from);
    if (self->used + size > self->most)
        return FAIL(TUFF_E_LIMIT, "tune: the graph's arrays are more than the tuner may take");
    if (!GROW(self->storages, self->storage_count, self->storage_capacity))
        return TUFF_E_OOM_HOST;
    mirrored *made = &self->storages[self->storage_count];
    *made = (mirrored){.from = from};
    TRY(tuff__storage_create(self->device, size, false, &made->to));
    ++self->storage_count;
    self->used += size;
    *out = made;
    return copy_storage(self, made);
}

static tuff_status mirror_array(stage *self, node *of, tuff_array **out)
{
    const tuff_array *from = of->attributes.array;
    mirrored *memory = NULL;
    TRY(mirror_storage(self, from->storage, &memory));
    memory->is_assigned |= of->op == OP_ASSIGN;
    if (!GROW(self->arrays, self->array_count, self->array_capacity))
        return TUFF_E_OOM_HOST;
    *out = tuff__array_like(from, self->device, memory->to);
    if (*out == NULL)
        return TUFF_E_OOM_HOST;
    self->arrays[self->array_count++] = *out;
    return TUFF_OK;
}

/* The live nodes of the program's graph, with arrays of this device. A counter that belongs to the graph is an array
   like others then, raised by a node. */
static tuff_status mirror_graph(stage *self, tuff_graph *source)
{
    self->graph = tuff__simplify(source, true);
    if (self->graph == NULL)
        return tuff__last_status() == TUFF_OK ? TUFF_E_OOM_HOST : tuff__last_status();
    tuff_graph *graph = self->graph;
    tuff_array *counter = graph->owns_step ? graph->step_array : NULL;
    graph->device = self->device;
    graph->owns_step = false;
    graph->step_array = NULL;
    tuff_status status = TUFF_OK;
    for (int i = 0; i < graph->node_count && status == TUFF_OK; ++i) {
        node *at = graph->nodes[i];
        const tuff_dtype dtype = at->outputs[0].dtype;
        self->is_narrow |= dtype == TUFF_F16 || dtype == TUFF_BF16 || dtype == TUFF_I8;
        if (at->op == OP_ARRAY || at->op == OP_ASSIGN)
            status = mirror_array(self, at, &at->attributes.array);
    }
    tuff_array_destroy(counter);
    return status;
}

static tuff_status list_results(stage *self)
{
    const tuff_graph *graph = self->graph;
    self->results = tuff__calloc((size_t)(graph->output_count + graph->assign_count) + 1, sizeof *self->results);
    if (self->results == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < graph->output_count; ++i) {
        const tuff_tensor *value = graph->outputs[i].tensor;
        self->results[self->result_count++] =
            (result){.name = graph->outputs[i].name,
                     .dtype = value->dtype,
                     .size = (uint64_t)tuff_shape_count(value->shape) * tuff_dtype_size(value->dtype)};
    }
    for (int i = 0; i < graph->assign_count; ++i) {
        const tuff_array *array = graph->assigns[i]->attributes.array;
        self->results[self->result_count++] =
            (result){.storage = array->storage,
                     .offset = array->offset,
                     .dtype = array->dtype,
                     .size = (uint64_t)tuff_shape_count(array->shape) * tuff_dtype_size(array->dtype)};
    }
    return TUFF_OK;
}

tuff_status tuff__stage_create(tuff_graph *source, tuff_device *device, const tuff_compile_options *options,
                               uint64_t most, stage **out)
{
    stage *self = tuff__calloc(1, sizeof *self);
    *out = NULL;
    if (self == NULL)
        return TUFF_E_OOM_HOST;
    *self = (stage){.device = device, .from = source->device, .most = most};
    self->options = (tuff_compile_options){.fuse = options->fuse, .family = options->family, .tune = TUFF_TUNE_CACHED};
    tuff_status status = mirror_graph(self, source);
    if (status == TUFF_OK)
        status = list_results(self);
    if (status != TUFF_OK) {
        tuff__stage_destroy(self);
        return status;
    }
    *out = self;
    return TUFF_OK;
}

void tuff__stage_destroy(stage *self)
{
    if (self == NULL)
        return;
    tuff_graph_destroy(self->graph);
    for (int i = 0; i < self->array_count; ++i)
        tuff_array_destroy(self->arrays[i]);
    for (int i = 0; i < self->storage_count; ++i)
        tuff__storage_release(self->storages[i].to);
    for (int i = 0; i < self->result_count; ++i) {
        tuff__free(self->results[i].right);
        tuff__free(self->results[i].last);
    }
    tuff__free(self->arrays);
    tuff__free(self->storages);
    tuff__free(self->results);
    tuff__free(self);
}

/* ---- Plans ---- */

static tuff_status fit(stage *self, const choice *by, tuff_plan **out)
{
    tuff_plan *plan = tuff__calloc(1, sizeof *plan);
    *out = NULL;
    if (plan == NULL)
        return TUFF_E_OOM_HOST;
    plan->device = self->device;
    plan->begun = tuff__nanoseconds();
    plan->is_for_once = true;
    plan->passes.by = *by;
    const tuff_status status = tuff__fit(plan, self->graph, &self->options);
    plan->graph_key.family[0] = '\0'; /* it is what is tried */
    if (status != TUFF_OK) {
        tuff_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return TUFF_OK;
}

tuff_status tuff__stage_foresee(stage *self, const choice *by, whole_form *out)
{
    tuff_plan *plan;
    *out = (whole_form){.cost = 0};
    TRY(fit(self, by, &plan));
    out->found = plan->passes.found;
    uint32_t items;
    out->kernels = tuff__launches_hash(&plan->made.lowered, &items);
    out->cost = tuff__foresee_cost(&plan->made.lowered);
    tuff_plan_destroy(plan);
    return TUFF_OK;
}

static void release_programs(whole *self)
{
    for (int i = 0; i < self->program_count; ++i)
        tuff__program_release(self->on->device, self->programs[i]);
    tuff__free(self->programs);
    self->programs = NULL;
    self->program_count = 0;
}

/* Its memory is others' now; its programs stay. */
static void unload(whole *self)
{
    if (self->plan == NULL)
        return;
    release_programs(self);
    self->programs = self->plan->made.programs;
    self->program_count = self->programs == NULL ? 0 : self->plan->made.command_count;
    self->plan->made.programs = NULL;
    self->on->used -= self->size;
    tuff_plan_destroy(self->plan);
    self->plan = NULL;
}

static whole *least_used(const stage *self, const whole *but)
{
    whole *last = NULL;
    for (whole *one = self->first; one != NULL; one = one->next)
        if (one->plan != NULL && one != but)
            last = one;
    return last;
}

/* Inputs are small numbers, indices among them: below what lookups of the graph find something at. */
static int64_t index_bound(const tuff_graph *graph)
{
    int64_t bound = 0;
    for (int i = 0; i < graph->node_count; ++i) {
        const node *at = graph->nodes[i];
        if (at->op != OP_GATHER && at->op != OP_SCATTER_ADD)
            continue;
        const int64_t extent = at->inputs[0]->shape.extent[at->attributes.axis];
        bound = bound == 0 || extent < bound ? extent : bound;
    }
    return bound > 0 ? bound : 64;
}

static double made_up(uint32_t roll, tuff_dtype dtype, int64_t bound)
{
    if (tuff__dtype_is_float(dtype))
        return (int)(roll % 17) / 8.0 - 1.0;
    return dtype == TUFF_BOOL ? roll % 2 : (double)(roll % (uint32_t)(bound > INT32_MAX ? INT32_MAX : bound));
}

static tuff_status write_input(tuff_plan *plan, const named_buffer *of, int64_t bound)
{
    const int64_t count = tuff_shape_count(of->shape);
    const size_t size = tuff_dtype_size(of->dtype);
    char *data = tuff__alloc((size_t)count * size + 1);
    uint64_t state = 0x9E3779B97F4A7C15u;
    if (data == NULL)
        return TUFF_E_OOM_HOST;
    for (int64_t i = 0; i < count; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const double value = made_up((uint32_t)(state >> 33), of->dtype, bound);
        tuff__from_double(of->dtype, &value, 1, data + (size_t)i * size);
    }
    const tuff_status status = tuff_plan_write(plan, of->name, data, (size_t)count * size);
    tuff__free(data);
    return status;
}

static tuff_status write_inputs(tuff_plan *plan)
{
    const int count = plan->made.lowered.input_count;
    plan->written = tuff__calloc((size_t)count + 1, sizeof *plan->written);
    if (plan->written == NULL)
        return TUFF_E_OOM_HOST;
    const int64_t bound = index_bound(plan->graph);
    for (int i = 0; i < count; ++i)
        TRY(write_input(plan, &plan->made.lowered.inputs[i], bound));
    return TUFF_OK;
}

static tuff_status make_plan(whole *self)
{
    stage *on = self->on;
    tuff_plan *plan;
    TRY(fit(on, &self->by, &plan));
    tuff_status status = tuff__tune(plan, NULL, &on->options);
    if (status == TUFF_OK && plan->made.commands == NULL)
        status = tuff__record(plan);
    if (status == TUFF_OK)
        status = write_inputs(plan);
    if (status != TUFF_OK) {
        tuff_plan_destroy(plan);
        return status;
    }
    self->plan = plan;
    self->size = plan->made.lowered.peak + plan->made.lowered.constant_size;
    on->used += self->size;
    return TUFF_OK;
}

/* Others make way where memory is lacking, those first that were not used for longest. A first run finds what drivers
   leave for it. */
static tuff_status load(whole *self)
{
    stage *on = self->on;
    if (self->plan != NULL)
        return TUFF_OK;
    tuff_status status = make_plan(self);
    for (whole *other; status == TUFF_E_OOM_DEVICE && (other = least_used(on, self)) != NULL;) {
        unload(other);
        status = make_plan(self);
    }
    TRY(status);
    for (whole *other; on->used > on->most && (other = least_used(on, self)) != NULL;)
        unload(other);
    release_programs(self);
    TRY(tuff_plan_run(self->plan));
    return tuff_plan_wait(self->plan);
}

static void take_out(whole *self)
{
    for (whole **at = &self->on->first; *at != NULL; at = &(*at)->next)
        if (*at == self) {
            *at = self->next;
            return;
        }
}

static void put_first(whole *self)
{
    take_out(self);
    self->next = self->on->first;
    self->on->first = self;
}

tuff_status tuff__whole_create(stage *on, const choice *by, whole **out)
{
    whole *self = tuff__calloc(1, sizeof *self);
    *out = NULL;
    if (self == NULL)
        return TUFF_E_OOM_HOST;
    *self = (whole){.on = on, .by = *by};
    put_first(self);
    const tuff_status status = load(self);
    if (status != TUFF_OK) {
        tuff__whole_destroy(self);
        return status;
    }
    if (on->used > on->most)
        tuff__log(TUFF_LOG_DEBUG, "tune: a plan alone takes more than the tuner may");
    *out = self;
    return TUFF_OK;
}

void tuff__whole_destroy(whole *self)
{
    if (self == NULL)
        return;
    unload(self);
    release_programs(self);
    take_out(self);
    tuff__free(self);
}

void tuff__whole_give_programs(whole *self, program ***out, int *count)
{
    unload(self);
    *out = self->programs;
    *count = self->program_count;
    self->programs = NULL;
    self->program_count = 0;
}

tuff_status tuff__whole_time(whole *self, int count, uint64_t limit, uint64_t *nanoseconds)
{
    put_first(self);
    TRY(load(self));
    for (int i = 0; i < count; ++i) {
        const uint64_t begin = tuff__nanoseconds();
        TRY(tuff_plan_run(self->plan));
        TRY(tuff_plan_wait(self->plan));
        nanoseconds[i] = tuff__nanoseconds() - begin;
        for (int k = i + 1; k < count && limit > 0 && nanoseconds[i] > limit; ++k)
            nanoseconds[k] = nanoseconds[i];
        if (limit > 0 && nanoseconds[i] > limit)
            break;
    }
    return TUFF_OK;
}

/* ---- Results ---- */

/* Arrays that are assigned hold what the program's do; outputs, what no kernel stores. */
static tuff_status begin_anew(whole *self)
{
    stage *on = self->on;
    const lowered *made = &self->plan->made.lowered;
    for (int i = 0; i < on->storage_count; ++i)
        if (on->storages[i].is_assigned)
            TRY(copy_storage(on, &on->storages[i]));
    for (int i = 0; i < made->output_count; ++i) {
        storage *memory = made->buffers[made->outputs[i].buffer].storage;
        const uint64_t size = tuff__storage_size(memory);
        void *poison = tuff__alloc((size_t)size);
        if (poison == NULL)
            return TUFF_E_OOM_HOST;
        memset(poison, 0xFF, (size_t)size); /* NaN in every dtype that has one */
        const tuff_status status = tuff__storage_write(on->device, memory, 0, poison, size);
        tuff__free(poison);
        TRY(status);
    }
    return TUFF_OK;
}

static tuff_status read_result(whole *self, result *of)
{
    if (of->last == NULL)
        of->last = tuff__alloc((size_t)of->size + 1);
    if (of->last == NULL)
        return TUFF_E_OOM_HOST;
    if (of->size == 0)
        return TUFF_OK;
    return of->name != NULL ? tuff_plan_read(self->plan, of->name, of->last, (size_t)of->size)
                            : tuff__storage_read(self->on->device, of->storage, of->offset, of->last, of->size);
}

static tuff_status run_anew(whole *self)
{
    put_first(self);
    TRY(load(self));
    TRY(begin_anew(self));
    TRY(tuff_plan_run(self->plan));
    return tuff_plan_wait(self->plan);
}

typedef struct difference {
    double apart, size; /* sums of squares */
    bool is_number;     /* the same elements are none */
} difference;

static void add_difference(const result *of, uint64_t at, int64_t count, difference *sum)
{
    enum { MOST = 256 };
    double now[MOST], right[MOST];
    tuff__to_double(of->dtype, (const char *)of->last + at, count, now);
    tuff__to_double(of->dtype, (const char *)of->right + at, count, right);
    for (int64_t i = 0; i < count; ++i) {
        const double apart = now[i] == right[i] ? 0 : now[i] - right[i];
        if (isnan(now[i]) && isnan(right[i]))
            continue;
        sum->is_number &= isfinite(apart);
        sum->apart += apart * apart;
        sum->size += isfinite(right[i]) ? right[i] * right[i] : 0;
    }
}

/* By the whole result: single elements may be anything that a rounding decides. */
static bool is_right(const stage *on, const result *of)
{
    enum { AT_ONCE = 256 };
    const double share = on->is_narrow ? 2e-2 : 2e-3;
    difference sum = {.is_number = true};
    const size_t size = tuff_dtype_size(of->dtype);
    const int64_t count = (int64_t)(of->size / size);
    for (int64_t i = 0; i < count; i += AT_ONCE)
        add_difference(of, (uint64_t)i * size, count - i < AT_ONCE ? count - i : AT_ONCE, &sum);
    return sum.is_number && sqrt(sum.apart) <= share * sqrt(sum.size);
}

tuff_status tuff__whole_check(whole *self, bool keeps, char *wrong, size_t size)
{
    stage *on = self->on;
    wrong[0] = '\0';
    TRY(run_anew(self));
    for (int i = 0; i < on->result_count; ++i) {
        result *of = &on->results[i];
        TRY(read_result(self, of));
        if (keeps) {
            tuff__free(of->right);
            of->right = tuff__memdup(of->last, (size_t)of->size + 1);
            if (of->right == NULL)
                return TUFF_E_OOM_HOST;
        } else if (wrong[0] == '\0' && !is_right(on, of)) {
            (void)snprintf(wrong, size, "%s %d differs from what the graph gives as usual",
                           of->name != NULL ? "output" : "assigned array", i);
        }
    }
    return TUFF_OK;
}

tuff_status tuff__whole_repeat(whole *self, bool *same)
{
    stage *on = self->on;
    *same = true;
    TRY(run_anew(self));
    for (int i = 0; i < on->result_count; ++i) {
        result *of = &on->results[i];
        void *before = tuff__memdup(of->last, (size_t)of->size + 1);
        if (before == NULL)
            return TUFF_E_OOM_HOST;
        const tuff_status status = read_result(self, of);
        *same &= memcmp(before, of->last, (size_t)of->size) == 0;
        tuff__free(before);
        TRY(status);
    }
    return TUFF_OK;
}
