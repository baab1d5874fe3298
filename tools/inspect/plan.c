/* tuff plan: shows what the training step and the next token of a language model, or a program's graph, consist of on a
   device. */
#include <inttypes.h>
#include <stdio.h>

#include "api/controls.h"
#include "device/device.h"
#include "tools/cli/options.h"
#include "tools/inspect/override_gpu.h"
#include "tools/model/fastest.h"
#include "tools/model/options.h"
#include "tools/tune/tuning.h"
#include "tools/verbs.h"

typedef struct plan_options {
    model_options description;
    int64_t memory_budget;
    const char *device, *save_graph;
    int fuse, matmul, family, matmul_precision, vendor;
    bool json, profile, summary;
    tuning tune;
} plan_options;

static void print_task(const tuff_task_info *task, int index, bool profile)
{
    printf("%4d  %-10s %10" PRIu64 " items %10s read %10s written", index, task->kind, task->items,
           BYTES_TEXT(task->bytes_read), BYTES_TEXT(task->bytes_written));
    if (profile)
        printf(" %9.1f us", (double)task->nanoseconds * 1e-3);
    printf("  %s\n", task->label ? task->label : "");
}

static void print_json_task(const tuff_task_info *task, bool last)
{
    printf("      {");
    cli_print_json_member("kind", task->kind ? task->kind : "", ", ");
    cli_print_json_member("ops", task->label ? task->label : "", ", ");
    cli_print_json_member("program", task->program ? task->program : "", ", ");
    printf("\"op_count\": %d, \"items\": %" PRIu64 ", \"bytes_read\": %" PRIu64 ", \"bytes_written\": %" PRIu64
           ", \"operations\": %.0f, \"nanoseconds\": %" PRIu64 "}%s\n",
           task->op_count, task->items, task->bytes_read, task->bytes_written, task->operations, task->nanoseconds,
           last ? "" : ",");
}

static int print_tasks(const model_plan *known, const tuff_plan_info *info, const plan_options *options)
{
    for (int i = 0; i < info->task_count; i++) {
        tuff_task_info task;
        if (tuff_plan_task(known->plan, i, &task) != TUFF_OK)
            return cli_fail_library(&verb_plan, "describing a task");
        if (options->json)
            print_json_task(&task, i + 1 == info->task_count);
        else if (!options->summary)
            print_task(&task, i, options->profile);
    }
    return EXIT_DONE;
}

/* Writes the plan's hash as 32 digits; "" if it has none. */
static const char *plan_digits(const tuff_plan *plan, char *out)
{
    uint64_t hash[2];
    out[0] = 0;
    if (tuff_plan_hash(plan, hash) == TUFF_OK)
        snprintf(out, 33, "%016" PRIx64 "%016" PRIx64, hash[0], hash[1]);
    return out;
}
#define PLAN_DIGITS(plan) plan_digits((plan), (char[33]){0})

/* Prints members of the plan's object, indented like its other members. */
static void print_json_tuning(const tuff_plan *plan)
{
    tuff_tune_stats stats;
    if (tuff_plan_tune_stats(plan, &stats) != TUFF_OK)
        return;
    printf("    \"tuning\": {\"tasks\": %d, \"keys\": %d, \"hits\": {\"override\": %d, \"same\": %d, "
           "\"other_driver\": %d, \"nearest\": %d, \"seed\": %d, \"portfolio\": %d, \"default\": %d},\n",
           stats.tasks, stats.keys, stats.hits[TUFF_TUNE_HIT_PIN], stats.hits[TUFF_TUNE_HIT_SAME],
           stats.hits[TUFF_TUNE_HIT_OTHER_DRIVER], stats.hits[TUFF_TUNE_HIT_NEAREST], stats.hits[TUFF_TUNE_HIT_SEED],
           stats.hits[TUFF_TUNE_HIT_PORTFOLIO], stats.hits[TUFF_TUNE_HIT_DEFAULT]);
    printf("      \"misses\": {\"unknown\": %d, \"seed\": %d, \"other_texts\": %d, \"unusable\": %d}, "
           "\"measured\": %d, \"improved\": %d, \"left_out\": %d,\n",
           stats.misses[TUFF_TUNE_MISS_UNKNOWN], stats.misses[TUFF_TUNE_MISS_SEED],
           stats.misses[TUFF_TUNE_MISS_OTHER_KERNELS], stats.misses[TUFF_TUNE_MISS_UNUSABLE], stats.measured,
           stats.improved, stats.skipped);
    printf("      \"compiles\": %" PRIu64 ", \"launches\": %" PRIu64 ", \"rejected\": {\"wrong\": %" PRIu64
           ", \"race\": %" PRIu64 ", \"limits\": %" PRIu64 ", \"spills\": %" PRIu64 ", \"slow\": %" PRIu64
           ", \"crash\": %" PRIu64 ", \"hang\": %" PRIu64 "},\n",
           stats.compiles, stats.launches, stats.wrong, stats.races, stats.limits, stats.spills, stats.slow,
           stats.crashes, stats.hangs);
    printf("      \"nanoseconds\": %" PRIu64 ", \"compile_nanoseconds\": %" PRIu64 ", \"sample_nanoseconds\": %" PRIu64
           ", \"verify_nanoseconds\": %" PRIu64 ", \"damaged_lines\": %" PRIu64 ", \"lock_waits\": %" PRIu64
           ", \"prefetched\": %" PRIu64 ", \"prefetch_nanoseconds\": %" PRIu64 "},\n",
           stats.nanoseconds, stats.compile_nanoseconds, stats.sample_nanoseconds, stats.verify_nanoseconds,
           stats.damaged_lines, stats.lock_waits, stats.prefetched, stats.prefetch_nanoseconds);
}

static void print_json_plan(const model_plan *known, const tuff_plan_info *info, const tuff_plan_info *unfused)
{
    printf("  \"%s\": {\n    \"hash\": \"%s\",\n", known->name, PLAN_DIGITS(known->plan));
    print_json_tuning(known->plan);
    printf("    \"tasks\": %d, \"dispatches\": %d, \"copies\": %d, \"nodes\": %d, "
           "\"programs\": %d, "
           "\"memory_peak\": %" PRIu64 ", \"memory_unplanned\": %" PRIu64 ", \"constant_size\": %" PRIu64
           ", \"dispatches_unfused\": %d, \"matmuls\": %d, \"narrow_matmuls\": %d,\n"
           "    \"task_list\": [\n",
           info->task_count, info->dispatch_count, info->copy_count, info->node_count, info->program_count,
           info->memory_peak, info->memory_unplanned, info->constant_size, unfused->dispatch_count, info->matmul_count,
           info->narrow_matmul_count);
}

static void print_plan(const model_plan *known, const tuff_plan_info *info, const tuff_plan_info *unfused)
{
    printf("%s: %d nodes in %d tasks: %d dispatches, %d copies; without fusion %d dispatches, %.1f times as many\n"
           "intermediates need %s at the peak, %s without sharing memory; %s of constants; %d programs\n",
           known->name, info->node_count, info->task_count, info->dispatch_count, info->copy_count,
           unfused->dispatch_count,
           (double)unfused->dispatch_count / (info->dispatch_count > 0 ? info->dispatch_count : 1),
           BYTES_TEXT(info->memory_peak), BYTES_TEXT(info->memory_unplanned), BYTES_TEXT(info->constant_size),
           info->program_count);
    if (info->narrow_matmul_count > 0)
        printf("%d of %d matmuls read both operands in 16 bits\n", info->narrow_matmul_count, info->matmul_count);
    if (PLAN_DIGITS(known->plan)[0])
        printf("plan hash %s\n", PLAN_DIGITS(known->plan));
}

static int show(const model_plans *plans, const model_plans *unfused, int index, const plan_options *options)
{
    const model_plan *known = &plans->items[index];
    tuff_plan_info info, other;
    if (options->profile && (model_plan_write(plans, index) != TUFF_OK || tuff_plan_profile(known->plan) != TUFF_OK))
        return cli_fail_library(&verb_plan, "timing the plan");
    if (tuff_plan_describe(known->plan, &info) != TUFF_OK ||
        tuff_plan_describe(unfused->items[index].plan, &other) != TUFF_OK)
        return cli_fail_library(&verb_plan, "describing the plan");
    fputs(options->json && index > 0 ? "  ,\n" : "", stdout);
    (options->json ? print_json_plan : print_plan)(known, &info, &other);
    const int code = print_tasks(known, &info, options);
    fputs(options->json ? "    ]}\n" : "\n", stdout);
    return code;
}

static int show_all(const model_plans *plans, const model_plans *unfused, const plan_options *options)
{
    int code = EXIT_DONE;
    fputs(options->json ? "{\n" : "", stdout);
    for (int i = 0; i < plans->count && code == EXIT_DONE; i++)
        code = show(plans, unfused, i, options);
    fputs(options->json ? "}\n" : "", stdout);
    return code;
}

static tuff_status save_graph(const model_plans *plans, const tuff_compile_options *options, const char *path)
{
    const model_plan *train = &plans->items[MODEL_PLAN_TRAIN];
    return model_graph_save(train->graph, train->name, plans->model.parameters, options, path);
}

/* Without the choices of tuning. */
static tuff_compile_options compile_options(const plan_options *options)
{
    /* A manifest may only contain kernels that the driver accepts. */
    return (tuff_compile_options){.describe_only = !options->profile && options->tune.save_manifest == NULL,
                                  .fuse = options->fuse == 0 ? TUFF_FUSE_ALL : TUFF_FUSE_NONE,
                                  .matmul_library = (tuff_matmul_library)options->matmul,
                                  .family = (tuff_family)options->family,
                                  .memory_budget = (uint64_t)options->memory_budget,
                                  .precision = (tuff_precision)options->description.precision,
                                  .matmul_precision = (tuff_precision)options->matmul_precision};
}

/* Models larger than the device's memory can be described, too. */
static tuff_status omit_memory(tuff_device *device, const tuff_compile_options *options)
{
    tuff_tune_options tune = {.mode = TUFF_TUNE_CACHED};
    if (options->tuning != NULL) {
        tune = *options->tuning;
        tuff__controls_apply(&tune); /* $TUFF_TUNE may ask for measurements */
    }
    return options->describe_only && tune.mode < TUFF_TUNE_QUICK ? tuff_device_set_describe_only(device) : TUFF_OK;
}

static int fail_to_compile(const plan_options *options)
{
    return cli_fail_library(&verb_plan, options->description.file ? "compiling the graph" : "compiling the model");
}

#define NO_PLAN "reference runs no kernels: there is no plan to show"

/* Whether an option asks for more than the graph and the options that are saved with it. */
static bool needs_kernels(const plan_options *options)
{
    const tuning *tune = &options->tune;
    return !options->save_graph || options->json || options->profile || options->vendor > 0 || tune->manifest ||
           tune->save_manifest || tune->mode >= TUFF_TUNE_QUICK;
}

/* The graph of a model can be saved even so. */
static int save_without_kernels(tuff_device *device, const plan_options *options)
{
    const tuff_compile_options requested = compile_options(options);
    model_plans plans = {0};
    int code = EXIT_DONE;
    if (omit_memory(device, &requested) != TUFF_OK ||
        model_plans_open(device, &options->description, &requested, &plans) != TUFF_OK)
        code = fail_to_compile(options);
    else if (needs_kernels(options))
        code = cli_fail(&verb_plan, EXIT_FAILED, NO_PLAN);
    else if (save_graph(&plans, &requested, options->save_graph) != TUFF_OK)
        code = cli_fail_library(&verb_plan, "--save-graph");
    else
        fputs(NO_PLAN "\n", stderr);
    model_plans_destroy(&plans);
    return code;
}

static int compile_and_show(tuff_device *device, plan_options *options)
{
    tuff_compile_options requested = compile_options(options);
    const tuff_compile_options single = {.describe_only = true, .fuse = TUFF_FUSE_NONE};
    model_plans plans = {0}, unfused = {0};
    int code;
    tuning_apply(&options->tune, &requested);
    tuff_status status = omit_memory(device, &requested);
    if (status == TUFF_OK)
        status = model_plans_open(device, &options->description, &requested, &plans);
    bool saved = true;
    for (int i = 0; i < plans.count; i++)
        saved = tuning_end(&options->tune, plans.items[i].plan) && saved;
    if (!saved)
        code = EXIT_FAILED;
    else if (status != TUFF_OK || model_plans_open(device, &options->description, &single, &unfused) != TUFF_OK)
        code = fail_to_compile(options);
    else if (options->save_graph && save_graph(&plans, &requested, options->save_graph) != TUFF_OK)
        code = cli_fail_library(&verb_plan, "--save-graph");
    else
        code = show_all(&plans, &unfused, options);
    model_plans_destroy(&plans);
    model_plans_destroy(&unfused);
    return code;
}

static cli_end parse(int count, char **arguments, plan_options *self)
{
    const cli_option options[] = {
        WORK_DEVICE_OPTION(&self->device),
        MODEL_OPTIONS(&self->description),
        FUSE_OPTION(&self->fuse, NULL),
        MATMUL_OPTION(&self->matmul, NULL),
        FAMILY_OPTION(&self->family, NULL),
        PRECISION_OPTION(&self->description.precision, &self->description.has_precision),
        MATMUL_PRECISION_OPTION(&self->matmul_precision, &self->description.has_matmul_precision),
        AS_OPTION(&self->vendor),
        RECOMPUTE_OPTION(&self->description.recompute),
        MEMORY_BUDGET_OPTION(&self->memory_budget),
        TUNING_OPTIONS(&self->tune),
        {"--profile", CLI_SWITCH, &self->profile, NULL, "run once, and print the time of each task", 0, 0, NULL},
        {"--summary", CLI_SWITCH, &self->summary, NULL, "leave out the list of tasks", 0, 0, NULL},
        {"--save-graph", CLI_TEXT, &self->save_graph, "FILE",
         "write the graph of the training step to FILE, with the options it is compiled with", 0, 0, NULL},
        JSON_OPTION(&self->json, "one object with both plans"),
    };
    return cli_parse(&verb_plan, options, sizeof options / sizeof *options, count, arguments, &self->description.file);
}

static int plan(int count, char **arguments)
{
    plan_options self = {.description = MODEL_OPTIONS_DEFAULT};
    const cli_end end = parse(count, arguments, &self);
    if (end.now)
        return end.code;
    if (model_options_complete(&self.description) != TUFF_OK)
        return cli_fail(&verb_plan, EXIT_USAGE, "%s", tuff_error());
    if (self.description.file && self.save_graph)
        return cli_fail(&verb_plan, EXIT_USAGE, "--save-graph saves the graph of a model: %s is already a graph file",
                        self.description.file);
    int code = EXIT_FAILED;
    const fastest_work work = {.described = &self.description, .matmul_precision = self.matmul_precision};
    tuff_device *device = cli_open_device_for(&verb_plan, self.device, &work, &code);
    if (!device)
        return code;
    override_gpu(device, self.vendor);
    code = tuff__device_is_reference(device) ? save_without_kernels(device, &self) : compile_and_show(device, &self);
    tuff_device_close(device);
    return code;
}

const cli_verb verb_plan = {
    .name = "plan",
    .operand = GRAPH_OPERAND,
    .summary = "Shows the tasks and memory of a GPT's or Llama's training step and next token, or of a graph file.",
    .about =
        GRAPH_ABOUT "\nEach task lists the ops that were fused into it. Models larger than the device's memory can "
                    "be described, too. The reference device has no plan to show, but --save-graph works.",
    .run = plan,
};
