/* Events are "complete" events (ph X) of the Trace Event Format, in microseconds; rows are its threads. */
#include "tools/profile/trace.h"

#include <inttypes.h>

#include "base/file/file.h"

enum { ROW_TASKS, ROW_PHASES };

/* Returns the thread id of a row: never 0, and unique within the trace, because readers identify threads by it. */
static int thread_of(const trace *self, int row)
{
    return 10 * self->process_count + row;
}

static void begin_event(trace *self)
{
    tuff__text_add(&self->events, "%s    {", self->events.length > 0 ? ",\n" : "");
}

/* Names a process, or one of its rows. */
static void add_name(trace *self, const char *kind, int row, const char *name)
{
    begin_event(self);
    tuff__text_add(&self->events, "\"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"name\": \"%s\", \"args\": {\"name\": ",
                   self->process_count, thread_of(self, row), kind);
    tuff__text_add_json(&self->events, name);
    tuff__text_add(&self->events, "}}");
}

static void begin_span(trace *self, int row, const char *name, double start, double duration)
{
    begin_event(self);
    tuff__text_add(&self->events, "\"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, \"name\": ",
                   self->process_count, thread_of(self, row), start, duration);
    tuff__text_add_json(&self->events, name);
}

static void add_task(trace *self, const tuff_task_info *task, double start, double duration)
{
    const double seconds = (double)task->nanoseconds * 1e-9;
    begin_span(self, ROW_TASKS, task->label, start, duration);
    tuff__text_add(&self->events,
                   ", \"cat\": \"%s\", \"args\": {\"phase\": \"%s\", \"program\": ", tuff_phase_name(task->phase),
                   tuff_phase_name(task->phase));
    tuff__text_add_json(&self->events, task->program);
    tuff__text_add(&self->events,
                   ", \"ops\": %d, \"items\": %" PRIu64 ", \"bytes_read\": %" PRIu64 ", \"bytes_written\": %" PRIu64
                   ", \"GB/s\": %.3f, \"GFLOP/s\": %.3f}}",
                   task->op_count, task->items, task->bytes_read, task->bytes_written,
                   (double)(task->bytes_read + task->bytes_written) / seconds * 1e-9,
                   task->operations / seconds * 1e-9);
}

/* A period in which all tasks belong to one phase. */
typedef struct phase_span {
    tuff_phase phase;
    double start, end; /* microseconds; end 0: none is open */
} phase_span;

static void close_span(trace *self, const phase_span *open)
{
    if (open->end <= 0)
        return;
    begin_span(self, ROW_PHASES + (int)open->phase, tuff_phase_name(open->phase), open->start, open->end - open->start);
    tuff__text_add(&self->events, "}");
}

static void add_tasks(trace *self, const tuff_plan *plan, int count)
{
    const double base = self->end;
    phase_span open = {.end = 0};
    for (int i = 0; i < count; i++) {
        tuff_task_info task;
        if (tuff_plan_task(plan, i, &task) != TUFF_OK || task.nanoseconds == 0)
            continue;
        const double start = base + (double)task.start * 1e-3, duration = (double)task.nanoseconds * 1e-3;
        add_task(self, &task, start, duration);
        if (open.end <= 0 || open.phase != task.phase) {
            close_span(self, &open);
            open = (phase_span){.phase = task.phase, .start = start};
        }
        open.end = start + duration;
        self->end = open.end > self->end ? open.end : self->end;
    }
    close_span(self, &open);
}

void trace_add(trace *self, const tuff_plan *plan, const char *name)
{
    tuff_plan_info info = {0};
    (void)tuff_plan_describe(plan, &info);
    self->process_count++;
    add_name(self, "process_name", ROW_TASKS, name);
    add_name(self, "thread_name", ROW_TASKS, "tasks");
    for (int phase = TUFF_PHASE_FORWARD; phase <= TUFF_PHASE_OPTIMIZER; phase++)
        add_name(self, "thread_name", ROW_PHASES + phase, tuff_phase_name((tuff_phase)phase));
    add_tasks(self, plan, info.task_count);
}

tuff_status trace_write(const trace *self, const char *path)
{
    static const char head[] = "{\"displayTimeUnit\": \"ns\",\n  \"traceEvents\": [\n", tail[] = "\n  ]}\n";
    TRY(tuff__text_status(&self->events));
    const file_part parts[] = {
        {head, sizeof head - 1}, {tuff__text_get(&self->events), self->events.length}, {tail, sizeof tail - 1}};
    return tuff__file_write(path, parts, 3, false, false);
}

void trace_free(trace *self)
{
    tuff__text_free(&self->events);
    *self = (trace){.process_count = 0};
}
