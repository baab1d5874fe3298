/* tuff profile: how long each kernel of a language model's training step and next token, or of a program's graph,
   takes, and how close it comes to the device's limits. */
#include <inttypes.h>
#include <stdio.h>

#include "tools/cli/options.h"
#include "tools/model/fastest.h"
#include "tools/model/options.h"
#include "tools/profile/kernels.h"
#include "tools/profile/trace.h"
#include "tools/train/optimizer_choices.h"
#include "tools/tune/tuning.h"
#include "tools/verbs.h"

typedef struct profile_options {
    model_options description;
    int64_t memory_budget, runs;
    const char *device, *trace_path;
    optimizer_flags optimizer;
    int fuse, matmul, plan; /* plan: 0 for both, else 1 + index of a known plan */
    bool has_optimizer, json;
    tuning tune;
} profile_options;

typedef struct profiling {
    const profile_options *options;
    tuff_device_info device;
    device_peaks peaks;
    model_plans plans;
    trace trace;
} profiling;

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* Formats a rate, or a dash if there is none. */
static const char *rate_text(double amount, double seconds, char *buffer, size_t size)
{
    (void)snprintf(buffer, size, amount > 0 ? "%.1f" : "-", amount / seconds * 1e-9);
    return buffer;
}
#define RATE_TEXT(amount, seconds) rate_text((amount), (seconds), (char[32]){0}, 32)

static void print_kernel(const profiling *self, const kernel_profile *kernel, const plan_profile *profile)
{
    char fraction[32] = "-";
    if (kernel_fraction(kernel, &self->peaks) > 0)
        (void)snprintf(fraction, sizeof fraction, "%.0f %%", 100 * kernel_fraction(kernel, &self->peaks));
    printf("%5.1f %% %10.3f ms %5d  %-9s %9s %7s %8s %9" PRIu64 "  %s\n", percent(kernel->seconds, profile->seconds),
           1e3 * kernel->seconds, kernel->calls, tuff_phase_name(kernel->phase),
           RATE_TEXT(kernel->operations, kernel->seconds), RATE_TEXT(kernel->bytes, kernel->seconds), fraction,
           kernel->items, kernel->label);
}

static void print_text(const profiling *self, const char *name, const plan_profile *profile)
{
    printf("%s, median of %d runs: %.3f ms in kernels:", name, profile->runs, 1e3 * profile->seconds);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        if (profile->phases[phase] > 0)
            printf(" %s %.3f ms (%.0f %%),", tuff_phase_name((tuff_phase)phase), 1e3 * profile->phases[phase],
                   percent(profile->phases[phase], profile->seconds));
    printf(" %.3f ms for a whole run\n", 1e3 * profile->run_seconds);
    printf("  share          time calls  phase       GFLOP/s    GB/s  of peak     items  ops\n");
    for (int i = 0; i < profile->count; i++)
        print_kernel(self, &profile->kernels[i], profile);
    putchar('\n');
}

static void print_json_kernel(const profiling *self, const kernel_profile *kernel, const plan_profile *profile)
{
    printf("      {");
    cli_print_json_member("program", kernel->program, ", ");
    cli_print_json_member("kind", kernel->kind, ", ");
    cli_print_json_member("ops", kernel->label, ", ");
    printf("\"phase\": \"%s\", \"calls\": %d, \"items\": %" PRIu64
           ", \"seconds\": %.9g, \"share\": %.6g, \"operations\": %.0f, "
           "\"bytes\": %.0f, \"operations_per_second\": %.6g, \"bytes_per_second\": %.6g, \"of_peak\": %.4g}",
           tuff_phase_name(kernel->phase), kernel->calls, kernel->items, kernel->seconds,
           profile->seconds > 0 ? kernel->seconds / profile->seconds : 0, kernel->operations, kernel->bytes,
           kernel->operations / kernel->seconds, kernel->bytes / kernel->seconds,
           kernel_fraction(kernel, &self->peaks));
}

static void print_json(const profiling *self, const char *name, const plan_profile *profile)
{
    printf(
        "    {\"name\": \"%s\", \"runs\": %d, \"tasks\": %d, \"seconds\": %.9g, \"run_seconds\": %.9g, \"phases\": {",
        name, profile->runs, profile->task_count, profile->seconds, profile->run_seconds);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        printf("%s\"%s\": %.9g", phase > 0 ? ", " : "", tuff_phase_name((tuff_phase)phase), profile->phases[phase]);
    printf("},\n    \"kernels\": [\n");
    for (int i = 0; i < profile->count; i++) {
        print_json_kernel(self, &profile->kernels[i], profile);
        fputs(i + 1 < profile->count ? ",\n" : "\n", stdout);
    }
    printf("    ]}");
}

static tuff_status run_profiled(tuff_plan *plan, int64_t runs, plan_profile *out)
{
    for (int64_t i = 0; i < runs; i++) {
        TRY(tuff_plan_profile(plan));
        TRY(profile_add_run(out, plan));
    }
    return profile_finish(out, plan);
}

static int show_plan(profiling *self, int index, bool first)
{
    const model_plan *known = &self->plans.items[index];
    plan_profile profile = {.count = 0};
    int code = EXIT_DONE;
    if (model_plan_write(&self->plans, index) != TUFF_OK ||
        run_profiled(known->plan, self->options->runs, &profile) != TUFF_OK) {
        code = cli_fail_library(&verb_profile, "timing the plan");
    } else {
        fputs(self->options->json && !first ? ",\n" : "", stdout);
        (self->options->json ? print_json : print_text)(self, known->name, &profile);
        if (self->options->trace_path)
            trace_add(&self->trace, known->plan, known->name);
    }
    profile_free(&profile);
    return code;
}

static int show(profiling *self)
{
    const int wanted = self->options->plan - 1;
    int code = EXIT_DONE;
    bool first = true;
    if (self->options->json) {
        putchar('{');
        cli_print_json_member("device", self->device.name, ", ");
        cli_print_json_member("selector", self->device.selector, ", ");
        printf("\"peak\": {\"operations_per_second\": %.6g, \"bytes_per_second\": %.6g},\n  \"plans\": [\n",
               self->peaks.operations, self->peaks.bytes);
    }
    if (!self->options->json && self->peaks.operations > 0 && self->peaks.bytes > 0)
        printf("%s (%s): at most %.1f GFLOP/s and %.1f GB/s, measured now\n\n", self->device.name,
               self->device.selector, 1e-9 * self->peaks.operations, 1e-9 * self->peaks.bytes);
    for (int i = 0; i < self->plans.count && code == EXIT_DONE; i++) {
        if (wanted >= 0 && wanted != i)
            continue;
        code = show_plan(self, i, first);
        first = false;
    }
    fputs(self->options->json ? "\n  ]}\n" : "", stdout);
    if (code == EXIT_DONE && self->options->trace_path &&
        trace_write(&self->trace, self->options->trace_path) != TUFF_OK)
        code = cli_fail_library(&verb_profile, "--trace");
    return code;
}

static int compile_and_show(tuff_device *device, profile_options *options)
{
    tuff_compile_options requested = {.fuse = options->fuse == 0 ? TUFF_FUSE_ALL : TUFF_FUSE_NONE,
                                      .matmul_library = (tuff_matmul_library)options->matmul,
                                      .memory_budget = (uint64_t)options->memory_budget,
                                      .precision = (tuff_precision)options->description.precision};
    profiling self = {.options = options};
    int code;
    tuning_apply(&options->tune, &requested);
    tuff_status status = model_plans_open(device, &options->description, &requested, &self.plans);
    bool saved = true;
    for (int i = 0; i < self.plans.count; i++)
        saved = tuning_end(&options->tune, self.plans.items[i].plan) && saved;
    if (status == TUFF_OK && !self.plans.is_file)
        status = model_initialize(&self.plans.model, 1);
    if (status == TUFF_OK)
        status = tuff_device_describe(device, &self.device);
    if (!saved) {
        code = EXIT_FAILED;
    } else if (status != TUFF_OK) {
        code =
            cli_fail_library(&verb_profile, options->description.file ? "compiling the graph" : "compiling the model");
    } else {
        if (self.device.device_class != TUFF_DEVICE_REFERENCE)
            peaks_measure(device, &self.peaks);
        code = show(&self);
    }
    trace_free(&self.trace);
    model_plans_destroy(&self.plans);
    return code;
}

static cli_end parse(int count, char **arguments, profile_options *self)
{
    const cli_option options[] = {
        {"--plan", CLI_CHOICE, &self->plan, "both|train|generate",
         "a training step, or the forward pass for the next token", 0, 0, NULL},
        WORK_DEVICE_OPTION(&self->device),
        MODEL_OPTIONS(&self->description),
        {"--optimizer", CLI_CHOICE, &self->optimizer.kind, optimizer_choices("--optimizer"),
         "optimizer of the training step, with the defaults of tuff train", 0, 0, &self->has_optimizer},
        PRECISION_OPTION(&self->description.precision, &self->description.has_precision),
        FUSE_OPTION(&self->fuse, NULL),
        MATMUL_OPTION(&self->matmul, NULL),
        RECOMPUTE_OPTION(&self->description.recompute),
        MEMORY_BUDGET_OPTION(&self->memory_budget),
        TUNING_OPTIONS(&self->tune),
        {"--runs", CLI_INTEGER, &self->runs, "N", "profiled runs; the time of a task is its median over them", 1, 1000,
         NULL},
        {"--trace", CLI_TEXT, &self->trace_path, "FILE", "write the timeline of the last run, for ui.perfetto.dev", 0,
         0, NULL},
        JSON_OPTION(&self->json, "one object with the plans and their kernels"),
    };
    return cli_parse(&verb_profile, options, sizeof options / sizeof *options, count, arguments,
                     &self->description.file);
}

/* Rejects options of the training step if only the other plan is profiled. */
static int check_ignored(const profile_options *self)
{
    const char *ignored = self->has_optimizer ? "--optimizer" : self->description.recompute ? "--recompute" : NULL;
    if (ignored == NULL || self->plan != 1 + MODEL_PLAN_GENERATE)
        return EXIT_DONE;
    return cli_fail(&verb_profile, EXIT_USAGE, "%s has no effect with --plan generate", ignored);
}

static int profile(int count, char **arguments)
{
    profile_options self = {.description = MODEL_OPTIONS_DEFAULT, .optimizer = optimizer_flags_default(), .runs = 5};
    optimizer_setup setup;
    const cli_end end = parse(count, arguments, &self);
    if (end.now)
        return end.code;
    self.description.given |= self.has_optimizer;
    if (model_options_complete(&self.description) != TUFF_OK)
        return cli_fail(&verb_profile, EXIT_USAGE, "%s", tuff_error());
    if (self.description.file && self.plan > 0)
        return cli_fail(&verb_profile, EXIT_USAGE, "--plan selects a plan of a model: %s has only one",
                        self.description.file);
    int code = check_ignored(&self);
    if (code != EXIT_DONE)
        return code;
    optimizer_setup_make(&self.optimizer, 1e-3, 1000, &setup);
    self.description.rule = &setup.options;
    tuff_device *device =
        cli_open_device_for(&verb_profile, self.device, &(fastest_work){.described = &self.description}, &code);
    if (!device)
        return code;
    code = compile_and_show(device, &self);
    tuff_device_close(device);
    return code;
}

const cli_verb verb_profile = {
    .name = "profile",
    .operand = GRAPH_OPERAND,
    .summary = "Times each kernel of a GPT's or Llama's training step and next token, or of a graph file.",
    .about = GRAPH_ABOUT
    "\n"
    "Kernels are sorted by time. \"of peak\" is the minimum time of the kernel's arithmetic and memory traffic, at\n"
    "the rates that a loop of multiply-adds and a large copy reach on the device, as a fraction of its actual time.\n"
    "It exceeds 100 % if the kernel's memory stays in caches.",
    .run = profile,
};
