/* Plans of a stage's graph: made, timed, and put aside while others need the memory. */
#include "run/whole_parts.h"

#include "compile/schedule/cost.h"
#include "run/fit.h"
#include "run/trial.h"

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
    const tuff_status status = tuff__fit_plan(plan, self->graph, &self->options);
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
    out->kernels = tuff__launch_list_hash(&plan->made.lowered, &items);
    out->cost = tuff__launch_list_cost(&plan->made.lowered);
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

static bool may_go_on(const stage *self)
{
    return self->guard.may_go_on == NULL || self->guard.may_go_on(self->guard.user);
}

static tuff_status end_in_time(void)
{
    return FAIL(TUFF_E_TIMEOUT, "tune: there is no time for all kernels of the graph");
}

static tuff_status before_program(void *state, const program_request *request)
{
    (void)request;
    return may_go_on(state) ? TUFF_OK : end_in_time();
}

/* Bytes that lowering set aside. */
static uint64_t size_of(const launch_list *of)
{
    uint64_t size = of->peak + of->constant_size;
    for (int i = 0; i < of->input_count; ++i)
        size += tuff__storage_size(of->buffers[of->inputs[i].buffer].storage);
    for (int i = 0; i < of->output_count; ++i)
        size += tuff__storage_size(of->buffers[of->outputs[i].buffer].storage);
    return size;
}

static tuff_status fill_plan(whole *self, tuff_plan *plan)
{
    const stage *on = self->on;
    self->size = size_of(&plan->made.lowered);
    if (on->own + self->size > on->most)
        return FAIL(TUFF_E_OOM_DEVICE, "tune: the graph takes more than the tuner may");
    plan->before_program = before_program;
    plan->before_state = self->on;
    TRY(tuff__record(plan));
    return write_inputs(plan);
}

static tuff_status make_plan(whole *self)
{
    tuff_plan *plan;
    TRY(fit(self->on, &self->by, &plan));
    const tuff_status status = fill_plan(self, plan);
    if (status != TUFF_OK) {
        tuff_plan_destroy(plan);
        return status;
    }
    self->plan = plan;
    self->on->used += self->size;
    return TUFF_OK;
}

static tuff_status run_alone(tuff_plan *plan, command *one)
{
    recording *made;
    TRY(tuff__recording_create(plan->device, one, 1, true, false, &made));
    tuff_status status = tuff__submit(plan->device, made);
    if (status == TUFF_OK)
        status = tuff__wait(plan->device);
    tuff__recording_destroy(plan->device, made);
    return status;
}

/* The first run, in which drivers may still compile: command by command. */
static tuff_status run_in_steps(whole *self)
{
    tuff_plan *plan = self->plan;
    for (int i = 0; i < plan->made.command_count; ++i) {
        if (!may_go_on(self->on))
            return end_in_time();
        TRY(run_alone(plan, &plan->made.commands[i]));
    }
    return TUFF_OK;
}

/* Others make way where memory is lacking, those first that were not used for longest. */
static tuff_status load(whole *self)
{
    stage *on = self->on;
    if (self->plan != NULL)
        return TUFF_OK;
    const bool is_first = self->programs == NULL;
    tuff_status status = make_plan(self);
    for (whole *other; status == TUFF_E_OOM_DEVICE && (other = least_used(on, self)) != NULL;) {
        unload(other);
        status = make_plan(self);
    }
    TRY(status);
    for (whole *other; on->used > on->most && (other = least_used(on, self)) != NULL;)
        unload(other);
    release_programs(self);
    if (is_first)
        TRY(run_in_steps(self));
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
    *out = self;
    return TUFF_OK;
}

uint64_t tuff__whole_size(const whole *self)
{
    return self->plan == NULL ? 0 : self->size;
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
    TRY(tuff__whole_load(self));
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

tuff_status tuff__whole_load(whole *self)
{
    put_first(self);
    return load(self);
}
