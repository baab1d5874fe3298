/* tuff-recorder record: measures many candidates of each task and writes their times to files. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file/file.h"
#include "base/thread.h"
#include "autotune/plan_tasks.h"
#include "bench/recorder/portfolio.h"
#include "bench/recorder/tasks.h"
#include "bench/recorder/recorder.h"
#include "bench/recorder/verbs.h"
#include "tools/cli/options.h"
#include "tools/verbs.h"

enum { MAX_WANTED = 128, PATH_SIZE = 4096 };

typedef struct record_options {
    const char *device, *out, *measured_folder;
    cli_strings tasks; /* none: all */
    int64_t points, samples, seed, best;
    double seconds;
} record_options;

/* Candidates to measure of one task. */
typedef struct wanted {
    const char *name, *device;
    int best; /* number of candidates taken from each recording */
    tune_config all[MAX_WANTED];
    int count;
} wanted;

static bool is_wanted(const wanted *self, const tune_config *candidate)
{
    for (int i = 0; i < self->count; i++)
        if (tuff__config_equal(&self->all[i], candidate))
            return true;
    return false;
}

/* Adds the best candidates of a recording that are not in the list yet. */
static void add_best(wanted *self, const recording *space)
{
    for (int k = 0; k < self->best && self->count < MAX_WANTED; k++) {
        const recorded_point *best = NULL;
        for (int i = 0; i < space->count; i++) {
            const recorded_point *one = &space->points[i];
            if (one->median && (!best || one->median < best->median) && !is_wanted(self, &one->config))
                best = one;
        }
        if (best)
            self->all[self->count++] = best->config;
    }
}

/* Adds the best of all recordings of the same family except the one being made. */
static tuff_status add_best_of_family(const char *folder, wanted *self)
{
    recordings others;
    char own[32], family[32];
    const tuff_status status = recordings_read(folder, &others);
    for (int i = 0; i < others.count && !status; i++) {
        const recording *space = &others.items[i];
        recording_family(&(recording){.name = self->name}, own, sizeof own);
        recording_family(space, family, sizeof family);
        if (strcmp(family, own) == 0 &&
            (strcmp(space->name, self->name) != 0 || strcmp(space->device, self->device) != 0))
            add_best(self, space);
    }
    recordings_free(&others);
    return status;
}

/* "opencl-cpu: AMD EPYC, Intel(R) OpenCL, LINUX": begins with the device class. */
static void describe_device(const tune_environment *environment, char *out, size_t size)
{
    (void)snprintf(out, size, "%s-%s: %s, %s", environment->backend, environment->kind, environment->device,
                   environment->platform);
}

static tuff_status write_recording(const char *path, const recording *space)
{
    text lines = {0};
    recording_print_header(space, &lines);
    for (int i = 0; i < space->count; i++)
        recording_print_point(&space->points[i], &lines);
    tuff_status status = tuff__text_status(&lines);
    if (!status)
        status = tuff__file_write(path, &(file_part){lines.data, lines.length}, 1, false, false);
    tuff__text_free(&lines);
    return status;
}

static void print_result(const char *name, const recording *space, const recorder_counts *counts, double seconds)
{
    const uint64_t baseline = recording_find(space, &(tune_config){0})->median;
    printf("%-32s %4d points, %d new, %d rejected, %d not lowered; default %.1f us, best %.3f of that; "
           "drift %.2f; %.1f s\n",
           name, space->count, counts->added, counts->rejected, counts->not_lowered, (double)baseline * 1e-3,
           (double)recording_best(space) / (double)baseline, counts->drift, seconds);
    (void)fflush(stdout);
}

/* Reads the existing recording, if any, adds to it and writes it. */
static tuff_status record_key(const record_options *options, const record_task *task, const evaluator *evaluator_used,
                              const tune_environment *environment)
{
    static const tune_config nothing;
    char device[512], path[PATH_SIZE];
    recording space = {0};
    recorder_counts counts;
    const uint64_t begin = tuff__nanoseconds();
    wanted wanted_candidates = {.name = task->name, .device = device, .best = (int)options->best};
    describe_device(environment, device, sizeof device);
    if (snprintf(path, sizeof path, "%s/%s.jsonl", options->out, task->name) >= (int)sizeof path)
        return FAIL(TUFF_E_IO, "record: the path of %s is too long", task->name);
    struct stat there;
    if (tuff__file.lstat(path, &there) == 0) {
        TRY(recording_read(path, &space));
        if (strcmp(space.device, device) != 0) {
            recording_free(&space);
            return FAIL(TUFF_E_USAGE, "record: %s was recorded on another device", path);
        }
    } else {
        TRY(recording_begin(&space, task->name, device, &nothing, 0));
    }
    tuff_status status =
        options->measured_folder ? add_best_of_family(options->measured_folder, &wanted_candidates) : TUFF_OK;
    const recorder_settings settings = {.points = (int)options->points,
                                        .samples = (int)options->samples,
                                        .seconds = options->seconds,
                                        .extra = wanted_candidates.all,
                                        .extra_count = wanted_candidates.count,
                                        .seed = (uint64_t)options->seed,
                                        .is_stopped = cli_is_interrupted};
    if (!status)
        status = recorder_run(evaluator_used, &settings, &space, &counts);
    if (!status)
        status = write_recording(path, &space);
    if (!status)
        print_result(task->name, &space, &counts, tuff__seconds_since(begin));
    recording_free(&space);
    return status;
}

/* Returns -1 if the graph has no tunable key of the family. */
static int find_key(const plan_tasks *all, const record_task *task)
{
    int found = -1;
    for (int i = 0; i < tuff__plan_tasks_count(all); i++)
        if (strcmp(tuff__plan_tasks_key(all, i)->family, task->family) == 0 && (found < 0 || task->last))
            found = i;
    return found;
}

static tuff_status record_plan(const record_options *options, const record_task *task, tuff_plan *plan)
{
    plan_tasks *all = NULL;
    TRY(tuff__plan_tasks_create(plan, &all));
    const int index = find_key(all, task);
    tuff_status status = TUFF_OK;
    if (index >= 0) {
        const evaluator evaluator_used = tuff__plan_tasks_evaluator(all, index);
        status = record_key(options, task, &evaluator_used, tuff__plan_tasks_environment(all));
    } else {
        printf("%-32s nothing to tune on this device\n", task->name);
    }
    tuff__plan_tasks_destroy(all);
    return status;
}

static tuff_status record_task_of(tuff_device *device, const record_options *options, const record_task *task)
{
    record_graph graph;
    tuff_plan *plan = NULL;
    tuff_status status = record_graph_build(device, task, &graph);
    if (!status) {
        plan = tuff_compile(graph.graph, &(tuff_compile_options){
                                             .tuning = &(tuff_tune_options){
                                                 .mode = TUFF_TUNE_OFF, .environment = TUFF_TUNE_ENVIRONMENT_NONE}});
        status = plan ? record_plan(options, task, plan) : tuff_last_status();
    }
    tuff_plan_destroy(plan);
    record_graph_end(&graph);
    return status;
}

static bool is_selected(const record_options *options, const record_task *task)
{
    return options->tasks.count == 0 || cli_is_any_part(&options->tasks, task->name);
}

/* Continues after a task that failed, unless the device or memory is lost or files cannot be written. */
static int record_all(tuff_device *device, const record_options *options)
{
    int code = EXIT_DONE, count = 0;
    for (const record_task *task = record_tasks; task->name && !cli_is_interrupted(); task++) {
        if (!is_selected(options, task))
            continue;
        count++;
        const tuff_status status = record_task_of(device, options, task);
        if (status)
            code = cli_fail_library(&recorder_record, task->name);
        if (status == TUFF_E_DEVICE_LOST || status == TUFF_E_OOM_HOST || status == TUFF_E_IO)
            break;
    }
    if (count == 0)
        return cli_fail(&recorder_record, EXIT_USAGE, "no task name contains '%s'", options->tasks.items[0]);
    return cli_is_interrupted() ? EXIT_FAILED : code;
}

static bool make_folder(const char *path)
{
    struct stat there;
    return tuff__file.mkdir(path, 0777) == 0 || (tuff__file.lstat(path, &there) == 0 && S_ISDIR(there.st_mode));
}

static int record(const record_options *self)
{
    int code = EXIT_FAILED;
    if (!self->out)
        return cli_fail(&recorder_record, EXIT_USAGE, "record needs --out FOLDER");
    if (!make_folder(self->out))
        return cli_fail(&recorder_record, EXIT_FAILED, "%s is not a folder and cannot be created", self->out);
    tuff_device *device = cli_open_device(&recorder_record, self->device, &code);
    if (!device)
        return code;
    cli_catch_interrupt();
    code = record_all(device, self);
    tuff_device_close(device);
    return code;
}

static int run(int count, char **arguments)
{
    record_options self = {.points = 100, .samples = 5, .seconds = 60, .best = 2, .seed = 1};
    const cli_option options[] = {
        DEVICE_OPTION(&self.device),
        {"--out", CLI_TEXT, &self.out, "FOLDER", "write TASK.jsonl there, or add to it if it exists", 0, 0, NULL},
        {"--only", CLI_TEXTS, &self.tasks, "TEXT", "only tasks whose name contains TEXT; may be repeated", 0, 0, NULL},
        {"--points", CLI_INTEGER, &self.points, "N", "candidates per task", 1, 100000, NULL},
        {"--samples", CLI_INTEGER, &self.samples, "N", "times kept per candidate", 2, RECORDER_SAMPLES, NULL},
        {"--seconds", CLI_NUMBER, &self.seconds, "S", "approximate time limit for each task", 0, 1e6, NULL},
        {"--with", CLI_TEXT, &self.measured_folder, "FOLDER",
         "also measure the best candidates of the recordings in FOLDER", 0, 0, NULL},
        {"--best", CLI_INTEGER, &self.best, "N", "candidates taken from each recording of --with", 1, 16, NULL},
        SEED_OPTION(&self.seed, "of the random candidates", NULL),
    };
    const cli_end end = cli_parse(&recorder_record, options, sizeof options / sizeof *options, count, arguments, NULL);
    const int code = end.now ? end.code : record(&self);
    cli_texts_free(&self.tasks);
    return code;
}

const cli_verb recorder_record = {
    .program = "tuff-recorder",
    .name = "record",
    .summary = "Verifies and times many candidates for a list of tasks on a device, and writes the times to files.",
    .about =
        "Writes one JSON Lines file per task; bench/recorder/recording.h describes the format. Ctrl-C stops after the\n"
        "task being measured and keeps the files written so far.",
    .run = run,
};
