/* tuff kernel: the source of kernels as the driver of a device sees it: those of a GPT's plans, or of a small graph
   around one op. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/known_plans.h"
#include "tools/suite.h"
#include "tools/verbs.h"

/* Names of programs that were printed already. */
typedef struct kernel_search {
    const char *name; /* NULL: list */
    const char **seen;
    int seen_count, seen_capacity;
    bool json;
} kernel_search;

static bool is_seen(kernel_search *self, const char *program)
{
    for (int i = 0; i < self->seen_count; i++)
        if (strcmp(self->seen[i], program) == 0)
            return true;
    if (GROW(self->seen, self->seen_count, self->seen_capacity))
        self->seen[self->seen_count++] = program;
    return false;
}

/* Whether one of the words of a label is name. */
static bool has_word(const char *label, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = label; (at = strstr(at, name)); at++)
        if ((at == label || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

static bool matches(const kernel_search *self, const tuff_task_info *task)
{
    return !self->name || strcmp(task->kind, self->name) == 0 || strcmp(task->program, self->name) == 0 ||
           has_word(task->label, self->name);
}

static void print_task(const kernel_search *self, const tuff_task_info *task, const char *where)
{
    if (self->json) {
        printf("%s  {\"program\": ", self->seen_count > 1 ? ",\n" : "");
        cli_print_json_text(task->program);
        printf(", \"kind\": ");
        cli_print_json_text(task->kind);
        printf(", \"ops\": ");
        cli_print_json_text(task->label);
        if (self->name) {
            printf(", \"source\": ");
            cli_print_json_text(task->source);
        }
        printf("}");
    } else if (self->name) {
        printf("/* %s: %s of %s, fusing: %s */\n%s\n", task->program, task->kind, where, task->label, task->source);
    } else {
        printf("%-24s %-10s %s\n", task->program, task->kind, task->label);
    }
}

static void search_plan(kernel_search *self, const tuff_plan *plan, const char *where)
{
    tuff_plan_info info;
    if (tuff_plan_describe(plan, &info) != TUFF_OK)
        return;
    for (int i = 0; i < info.task_count; i++) {
        tuff_task_info task;
        if (tuff_plan_task(plan, i, &task) == TUFF_OK && task.source && task.program && matches(self, &task) &&
            !is_seen(self, task.program))
            print_task(self, &task, where);
    }
}

/* The first case of the op in the suite that compiles to something with a source. NULL where there is none. */
static tuff_plan *compile_op(tuff_device *device, op_code op, const tuff_compile_options *options)
{
    suite_case one;
    tuff_plan *plan = NULL;
    for (int index = 0; !plan && suite_case_at(op, TUFF_F32, index, &one); index++) {
        tuff_tensor *operands[SUITE_MAX_OPERANDS];
        tuff_graph *graph = tuff_graph_create(device);
        for (int i = 0; graph && i < one.operand_count; i++) {
            const char name[] = {(char)('a' + i), 0};
            operands[i] = tuff_input(graph, name, one.operands[i].dtype, one.operands[i].shape);
        }
        if (graph) {
            tuff_output(graph, "out", one.build(&one, graph, operands));
            plan = tuff_compile(graph, options);
        }
        tuff_graph_destroy(graph);
        tuff_plan_info info;
        if (plan && tuff_plan_describe(plan, &info) == TUFF_OK && info.dispatch_count == 0) {
            tuff_plan_destroy(plan);
            plan = NULL;
        }
    }
    return plan;
}

static void search_op(kernel_search *self, tuff_device *device, const tuff_compile_options *options)
{
    for (int op = 0; op < OP_COUNT; op++) {
        const char *name = tuff__op_info((op_code)op)->name;
        if (strcmp(name, self->name) != 0)
            continue;
        tuff_plan *plan = compile_op(device, (op_code)op, options);
        if (plan)
            search_plan(self, plan, "a graph of one op");
        tuff_plan_destroy(plan);
    }
}

static int search(kernel_search *self, tuff_device *device, const tuff_compile_options *options)
{
    const model_config config = {
        .form = MODEL_GPT, .layers = 4, .heads = 4, .width = 128, .context = 128, .vocabulary = 256};
    known_plans plans;
    if (known_plans_create(device, &config, 8, options, &plans) != TUFF_OK) {
        known_plans_destroy(&plans);
        return cli_fail_library(&verb_kernel, "compiling the model");
    }
    fputs(self->json ? "[\n" : "", stdout);
    for (int i = 0; i < KNOWN_COUNT; i++)
        search_plan(self, plans.items[i].plan, plans.items[i].name);
    if (self->name && self->seen_count == 0)
        search_op(self, device, options);
    fputs(self->json ? "\n]\n" : "", stdout);
    known_plans_destroy(&plans);
    if (self->seen_count == 0)
        return cli_fail(
            &verb_kernel, EXIT_FAILED,
            "no kernel \"%s\" on this device: tuff kernel without a name lists those of a GPT; names of ops and "
            "kinds are good too",
            self->name ? self->name : "");
    return EXIT_DONE;
}

static int kernel(int count, char **arguments)
{
    kernel_search self = {0};
    const char *device_name = NULL;
    int fuse = 0, code = EXIT_FAILED;
    const cli_option options[] = {
        {.name = "--device", .kind = CLI_TEXT, .value = &device_name, .placeholder = "D", .help = CLI_DEVICE_HELP},
        {.name = "--fuse",
         .kind = CLI_CHOICE,
         .value = &fuse,
         .placeholder = "on|off",
         .help = "off: every op a kernel of its own"},
        {.name = "--json",
         .kind = CLI_SWITCH,
         .value = &self.json,
         .help = "for programs: a list of objects, one a line"},
    };
    const cli_end end =
        cli_parse(&verb_kernel, options, sizeof options / sizeof *options, count, arguments, &self.name);
    if (end.now)
        return end.code;
    tuff_device *device = cli_open_device(&verb_kernel, device_name, &code);
    if (!device)
        return code;
    const tuff_compile_options compile = {.fuse = fuse == 0 ? TUFF_FUSE_ALL : TUFF_FUSE_NONE};
    code = search(&self, device, &compile);
    tuff__free((void *)self.seen);
    tuff_device_close(device);
    return code;
}

const cli_verb verb_kernel = {
    .name = "kernel",
    .operand = "[NAME]",
    .summary = "Prints the assembled source of a kernel for a device.",
    .about =
        "NAME is a program, a kind of task (map, row, column, matmul, ...) or an op. Without it, lists the kernels of\n"
        "a GPT's plans.",
    .run = kernel,
};
