/* The HTML report of a run: its settings, the loss curve, its lines, and the time of each kernel. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "train.h"

enum { WIDTH = 720, HEIGHT = 240, MAX_TASKS = 40, MAX_LINES = 200 };

static void write_text(FILE *page, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", page);
            break;
        case '&':
            fputs("&amp;", page);
            break;
        default:
            fputc(*text, page);
        }
}

static void write_settings(const training *self, FILE *page)
{
    const example *model = self->run.model;
    tuff_device_info device = {0};
    (void)tuff_device_describe(self->run.device, &device);
    fprintf(page, "<p>");
    write_text(page, device.name);
    fprintf(page, ", %s form, seed %" PRIu64 "</p>\n<p>", self->run.optimized ? "optimized" : "baseline",
            self->run.seed);
    for (int i = 0; i < example_field_count(model); i++) {
        const example_field *field = example_field_at(model, i);
        fprintf(page, "%s=%.6g ", field->name, example_field_value(field, self->run.config));
    }
    fprintf(page, "</p>\n");
}

/* Draws the loss by step as a polyline. Values that are not finite are skipped. */
static void write_curve(const training *self, FILE *page)
{
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < self->line_count; i++)
        if (isfinite(self->lines[i].loss)) {
            low = fmin(low, self->lines[i].loss);
            high = fmax(high, self->lines[i].loss);
        }
    if (!(high >= low))
        return;
    const double range = high > low ? high - low : 1, last = (double)self->lines[self->line_count - 1].step;
    fprintf(page, "<svg viewBox=\"0 0 %d %d\" width=\"%d\"><polyline fill=\"none\" stroke=\"#06c\" points=\"", WIDTH,
            HEIGHT, WIDTH);
    for (int i = 0; i < self->line_count; i++)
        if (isfinite(self->lines[i].loss))
            fprintf(page, "%.1f,%.1f ", WIDTH * (double)self->lines[i].step / last,
                    5 + (HEIGHT - 10) * (high - self->lines[i].loss) / range);
    fprintf(page, "\"/></svg>\n<p>loss, %.5g to %.5g</p>\n", low, high);
}

static void write_lines(const training *self, FILE *page)
{
    const int every = 1 + (self->line_count - 1) / MAX_LINES;
    fprintf(page, "<table><tr><th>step<th>loss");
    for (int i = 0; i < self->metric_count; i++)
        fprintf(page, "<th>%s", self->metric_names[i]);
    fprintf(page, "<th>validation<th>gradient norm<th>rate<th>steps/s</tr>\n");
    for (int i = 0; i < self->line_count; i += every) {
        const example_line *line = &self->lines[i];
        fprintf(page, "<tr><td>%lld<td>%.5g", (long long)line->step, line->loss);
        for (int k = 0; k < self->metric_count; k++)
            fprintf(page, "<td>%.4g", line->metrics[k]);
        if (isnan(line->validation_loss))
            fprintf(page, "<td>");
        else
            fprintf(page, "<td>%.5g", line->validation_loss);
        fprintf(page, "<td>%.3g<td>%.3g<td>%.3g</tr>\n", line->gradient_norm, line->learning_rate, line->recent);
    }
    fprintf(page, "</table>\n");
}

static int by_time(const void *a, const void *b)
{
    const tuff_task_info *x = a, *y = b;
    return (x->nanoseconds < y->nanoseconds) - (x->nanoseconds > y->nanoseconds);
}

static tuff_status write_tasks(tuff_plan *plan, const char *name, FILE *page)
{
    tuff_plan_info info;
    tuff_status status = tuff_plan_profile(plan);
    if (status == TUFF_E_UNSUPPORTED) /* the reference device has no kernels */
        return TUFF_OK;
    if (status == TUFF_OK)
        status = tuff_plan_describe(plan, &info);
    if (status != TUFF_OK)
        return status;
    tuff_task_info *tasks = calloc((size_t)info.task_count + 1, sizeof *tasks);
    if (!tasks)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < info.task_count && status == TUFF_OK; i++)
        status = tuff_plan_task(plan, i, &tasks[i]);
    qsort(tasks, (size_t)info.task_count, sizeof *tasks, by_time);
    fprintf(page, "<p>One run of the %s: %d launches, %.3f ms.</p>\n<table><tr><th>ms<th>kind<th>phase<th>ops</tr>\n",
            name, info.dispatch_count, 1e-6 * (double)info.run_nanoseconds);
    for (int i = 0; i < info.task_count && i < MAX_TASKS; i++) {
        fprintf(page, "<tr><td>%.4f<td>%s<td>%s<td>", 1e-6 * (double)tasks[i].nanoseconds, tasks[i].kind,
                tuff_phase_name(tasks[i].phase));
        write_text(page, tasks[i].label);
        fprintf(page, "</tr>\n");
    }
    fprintf(page, "</table>\n");
    free(tasks);
    return status;
}

static tuff_status write_page(const training *self, FILE *page)
{
    const char *name = self->run.model->name;
    fprintf(page,
            "<!doctype html><meta charset=\"utf-8\"><title>%s</title>\n<style>body{font-family:sans-serif;margin:2em}"
            "td,th{padding:0 1em;text-align:left}</style>\n<h1>%s</h1>\n",
            name, name);
    write_settings(self, page);
    if (self->line_count < 1)
        return TUFF_OK;
    write_curve(self, page);
    write_lines(self, page);
    const tuff_status status = write_tasks(self->run.plan, self->run.update ? "plan of a batch" : "plan", page);
    return status == TUFF_OK && self->run.update ? write_tasks(self->run.update, "update", page) : status;
}

/* Removes a report that was not completely written. A device such as /dev/full stays. */
static void remove_part(const char *path)
{
    struct stat found;
    if (stat(path, &found) == 0 && S_ISREG(found.st_mode))
        (void)remove(path);
}

/* Profiling runs the plan again and so changes the weights; by then everything has been saved. */
tuff_status training_report(training *self)
{
    const char *path = self->options->report;
    FILE *page = fopen(path, "w");
    int error = page ? 0 : errno;
    const tuff_status status = page ? write_page(self, page) : TUFF_OK;
    if (page && fflush(page) != 0)
        error = errno;
    else if (page && ferror(page))
        error = EIO; /* of an earlier write, whose errno may be overwritten */
    if (page && fclose(page) != 0 && !error)
        error = errno;
    if (page && error)
        remove_part(path);
    if (!error)
        return status;
    fprintf(stderr, "%s: cannot write --report %s: %s\n", self->run.model->name, path, strerror(error));
    self->error_reported = true;
    return TUFF_E_IO;
}
