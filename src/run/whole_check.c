/* Looks at the results of runs of a whole graph, from where the program's arrays were. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "run/whole_parts.h"

/* Arrays that are assigned hold what they did at first; outputs, what no kernel stores. */
static tuff_status begin_anew(whole *self)
{
    stage *on = self->on;
    const launch_list *made = &self->plan->made.lowered;
    if (on->restoring != NULL)
        TRY(tuff__submit(on->device, on->restoring));
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

static tuff_status read_into(whole *self, const result *of, void *out)
{
    if (of->size == 0)
        return TUFF_OK;
    return of->name != NULL ? tuff_plan_read(self->plan, of->name, out, (size_t)of->size)
                            : tuff__storage_read(self->on->device, of->memory->to, of->offset, out, of->size);
}

static tuff_status read_result(whole *self, result *of)
{
    if (of->last == NULL)
        of->last = tuff__alloc((size_t)of->size + 1);
    return of->last == NULL ? TUFF_E_OOM_HOST : read_into(self, of, of->last);
}

static tuff_status run_anew(whole *self)
{
    TRY(tuff__whole_load(self));
    TRY(begin_anew(self));
    TRY(tuff_plan_run(self->plan));
    return tuff_plan_wait(self->plan);
}

enum { AT_ONCE = 4096 };

/* Of a result: how far it is from what is right, and how far that is from nothing, or from what an array held. */
typedef struct difference {
    double apart, moved, right;    /* sums of squares; right: of what is right itself */
    double most_apart, most_moved; /* of an element */
    bool is_number;                /* the same elements are none */
} difference;

static void add_difference(const result *of, const double *before, uint64_t at, int64_t count, difference *sum)
{
    double now[AT_ONCE], right[AT_ONCE];
    tuff__to_double(of->dtype, (const char *)of->last + at, count, now);
    tuff__to_double(of->dtype, (const char *)of->right + at, count, right);
    for (int64_t i = 0; i < count; ++i) {
        const double apart = now[i] == right[i] ? 0 : fabs(now[i] - right[i]);
        const double moved = isfinite(right[i]) ? fabs(right[i] - before[i]) : 0;
        if (isnan(now[i]) && isnan(right[i]))
            continue;
        sum->is_number &= isfinite(apart);
        sum->apart += apart * apart;
        sum->moved += moved * moved;
        sum->right += isfinite(right[i]) ? right[i] * right[i] : 0;
        sum->most_apart = apart > sum->most_apart ? apart : sum->most_apart;
        sum->most_moved = moved > sum->most_moved ? moved : sum->most_moved;
    }
}

/* What elements of an array held at first; of an output, nothing. */
static tuff_status read_before(const stage *on, const result *of, uint64_t at, int64_t count, double *out)
{
    char block[AT_ONCE * sizeof(double)];
    for (int64_t i = 0; i < count; ++i)
        out[i] = 0;
    if (of->memory == NULL)
        return TUFF_OK;
    TRY(tuff__storage_read(on->device, of->memory->first, of->offset + at, block,
                           (uint64_t)count * tuff_dtype_size(of->dtype)));
    tuff__to_double(of->dtype, block, count, out);
    return TUFF_OK;
}

/* What roundings of sums in another order may make of a result, as a part of it; of an array, as a part of how far it
   moved: an optimizer's step may turn where a gradient is next to nothing. What no rounding explains is far more: a
   step that is missing is all of it. No element is apart by more than the farthest ones move. */
static bool is_near(const stage *on, const result *of, const difference *sum)
{
    const double share = (on->is_narrow ? 10 : 1) * (of->memory != NULL ? 5e-2 : 2e-3);
    const double rounding = of->dtype == TUFF_F32 ? 1e-6 : 1e-2, most = of->memory != NULL ? 4 : 0.25;
    const double floor = rounding * sqrt(sum->right);
    return sum->is_number && sqrt(sum->apart) <= share * sqrt(sum->moved) + floor &&
           sum->most_apart <= most * sum->most_moved + floor;
}

static tuff_status compare(const stage *on, const result *of, bool *near)
{
    difference sum = {.is_number = true};
    double before[AT_ONCE];
    const size_t size = tuff_dtype_size(of->dtype);
    const int64_t count = (int64_t)(of->size / size);
    for (int64_t i = 0; i < count; i += AT_ONCE) {
        const int64_t part = count - i < AT_ONCE ? count - i : AT_ONCE;
        TRY(read_before(on, of, (uint64_t)i * size, part, before));
        add_difference(of, before, (uint64_t)i * size, part, &sum);
    }
    *near = is_near(on, of, &sum);
    return TUFF_OK;
}

static tuff_status keep(result *of)
{
    tuff__free(of->right);
    of->right = tuff__memdup(of->last, (size_t)of->size + 1);
    return of->right == NULL ? TUFF_E_OOM_HOST : TUFF_OK;
}

tuff_status tuff__whole_check(whole *self, bool keeps, char *wrong, size_t size)
{
    stage *on = self->on;
    wrong[0] = '\0';
    TRY(run_anew(self));
    for (int i = 0; i < on->result_count; ++i) {
        result *of = &on->results[i];
        bool near = true;
        TRY(read_result(self, of));
        TRY(keeps ? keep(of) : compare(on, of, &near));
        if (!near && wrong[0] == '\0')
            (void)snprintf(wrong, size, "%s %d differs from what the graph gives as usual",
                           of->name != NULL ? "output" : "assigned array", i);
    }
    return TUFF_OK;
}

tuff_status tuff__whole_repeat(whole *self, bool *same)
{
    stage *on = self->on;
    *same = true;
    TRY(run_anew(self));
    for (int i = 0; i < on->result_count; ++i) {
        const result *of = &on->results[i];
        void *again = tuff__alloc((size_t)of->size + 1);
        if (again == NULL)
            return TUFF_E_OOM_HOST;
        const tuff_status status = read_into(self, of, again);
        *same &= memcmp(again, of->last, (size_t)of->size) == 0;
        tuff__free(again);
        TRY(status);
    }
    return TUFF_OK;
}
