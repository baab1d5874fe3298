/* tuff kernel: prints the source of kernels as the driver of a device gets it: those of a GPT's plans or of a graph
   file, or of a small graph with one op. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/cli/options.h"
#include "tools/inspect/kernel_texts.h"
#include "tools/inspect/override_gpu.h"
#include "tools/model/known_plans.h"
#include "tools/verify/suite.h"
#include "tools/verbs.h"

/* The distinct kernels found; strings live as long as their plans. */
typedef struct kernel_list {
    tuff_task_info *items;
    int count, capacity;
    const char *file; /* a graph file; NULL: a GPT */
    const char *name; /* the name to print; NULL: list all */
    int shown;
    tuff_status status; /* of search_case */
    bool shows_all; /* show all kernels of the current plan, which was compiled for the name */
    bool json;
} kernel_list;

static bool is_known(const kernel_list *self, const tuff_task_info *task)
{
    for (int i = 0; i < self->count; i++)
        if (strcmp(self->items[i].source, task->source) == 0)
            return true;
    return false;
}

/* Whether name is one of the words of a label. */
static bool has_word(const char *label, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = label; (at = strstr(at, name)); at++)
        if ((at == label || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

static bool matches(const kernel_list *self, int index)
{
    char number[16];
    const tuff_task_info *task = &self->items[index];
    snprintf(number, sizeof number, "%d", index);
    return !self->name || self->shows_all || strcmp(number, self->name) == 0 || strcmp(task->kind, self->name) == 0 ||
           strcmp(task->program, self->name) == 0 || has_word(task->label, self->name);
}

static void print_json(const kernel_list *self, int index)
{
    const tuff_task_info *task = &self->items[index];
    printf("%s  {\"number\": %d, ", self->shown > 0 ? ",\n" : "", index);
    cli_print_json_member("program", task->program, ", ");
    cli_print_json_member("kind", task->kind, ", ");
    cli_print_json_member("ops", task->label, self->name ? ", " : "}");
    if (self->name)
        cli_print_json_member("source", task->source, "}");
}

static void print_kernel(const kernel_list *self, int index)
{
    const tuff_task_info *task = &self->items[index];
    if (self->json)
        print_json(self, index);
    else if (self->name)
        printf("/* %d: %s, a %s task of: %s */\n%s\n", index, task->program, task->kind, task->label, task->source);
    else
        printf("%3d  %-24s %-10s %s\n", index, task->program, task->kind, task->label);
}

/* Adds the kernels of a plan that are not in the list yet, and prints those that match. */
static tuff_status search_plan(kernel_list *self, const tuff_plan *plan)
{
    tuff_plan_info info;
    TRY(tuff_plan_describe(plan, &info));
    for (int i = 0; i < info.task_count; i++) {
        tuff_task_info task;
        TRY(tuff_plan_task(plan, i, &task));
        if (!task.source || is_known(self, &task))
            continue;
        if (!GROW(self->items, self->count, self->capacity))
            return TUFF_E_OOM_HOST;
        self->items[self->count++] = task;
        if (matches(self, self->count - 1)) {
            print_kernel(self, self->count - 1);
            self->shown++;
        }
    }
    return TUFF_OK;
}

/* Finds case `index` of a primitive in the suite, or the only case of a composite. */
static bool find_case(const char *name, int index, suite_case *out)
{
    for (int op = 0; op < OP_COUNT; op++)
        if (strcmp(tuff__op_info((op_code)op)->name, name) == 0)
            return suite_case_at((op_code)op, TUFF_F32, index, out);
    for (int i = 0; index == 0 && suite_composite_at(i, TUFF_F32, out); i++)
        if (strcmp(out->name, name) == 0)
            return true;
    return false;
}

/* Searches a plan that was compiled for the name. It is the last plan if it adds a kernel to the list, so that none of
   its strings is read later. */
static tuff_status search_case(void *state, const tuff_plan *plan)
{
    kernel_list *self = state;
    self->shows_all = true;
    return self->status = search_plan(self, plan);
}

/* Prints kernels of the graph file or of a GPT; if the GPT has none of the name, those of a primitive or composite of
   that name. */
static int search(kernel_list *self, tuff_device *device, const tuff_compile_options *options)
{
    model_options described = MODEL_OPTIONS_DEFAULT;
    model_plans plans;
    suite_case one;
    described.file = self->file;
    tuff_status status = model_plans_open(device, &described, options, &plans);
    fputs(self->json ? "[\n" : "", stdout);
    for (int i = 0; i < plans.count && status == TUFF_OK; i++)
        status = search_plan(self, plans.items[i].plan);
    if (status == TUFF_OK && self->name && !self->file)
        for (int i = 0; self->shown == 0 && self->status == TUFF_OK && find_case(self->name, i, &one); i++)
            (void)suite_with_plan(device, &one, options, search_case,
                                  self); /* a case that does not compile is skipped */
    if (status == TUFF_OK)
        status = self->status;
    fputs(self->json ? "\n]\n" : "", stdout);
    model_plans_destroy(&plans);
    return status == TUFF_OK
               ? EXIT_DONE
               : cli_fail_library(&verb_kernel, self->file ? "compiling the graph" : "compiling the model");
}

/* Takes the operands: none, a file, a name, or a file and a name. */
static int parse_operands(kernel_list *self, const cli_strings *operands)
{
    int taken = 0;
    if (operands->count > 0 && is_graph_file(operands->items[0]))
        self->file = operands->items[taken++];
    if (taken < operands->count)
        self->name = operands->items[taken++];
    return taken == operands->count
               ? EXIT_DONE
               : cli_fail(&verb_kernel, EXIT_USAGE, "unexpected argument \"%s\"", operands->items[taken]);
}

static int show(kernel_list *self, tuff_device *device, const tuff_compile_options *options, const char *folder)
{
    if (folder)
        return kernel_texts_write(device, options, folder) == TUFF_OK
                   ? EXIT_DONE
                   : cli_fail_library(&verb_kernel, "writing the kernels");
    const int code = search(self, device, options);
    if (code != EXIT_DONE || self->shown > 0)
        return code;
    return self->name ? cli_fail(&verb_kernel, EXIT_FAILED, "no kernel \"%s\" on this device", self->name)
                      : cli_fail(&verb_kernel, EXIT_FAILED, "this device has no kernels");
}

static int kernel(int count, char **arguments)
{
    kernel_list self = {0};
    cli_strings operands = {0};
    const char *device_name = NULL, *folder = NULL;
    int fuse = 0, family = TUFF_FAMILY_DEVICE, precision = 0, factors = 0, vendor = 0, code = EXIT_FAILED;
    const cli_option options[] = {
        DEVICE_OPTION(&device_name),
        FUSE_OPTION(&fuse, NULL),
        FAMILY_OPTION(&family, NULL),
        PRECISION_OPTION(&precision, NULL),
        MATMUL_PRECISION_OPTION(&factors, NULL),
        AS_OPTION(&vendor),
        {.name = "--out",
         .kind = CLI_TEXT,
         .value = &folder,
         .placeholder = "FOLDER",
         .help = "write every kernel of two models and of the op suite to FOLDER"},
        JSON_OPTION(&self.json, "a list with one object per line"),
    };
    const cli_end end =
        cli_parse_all(&verb_kernel, options, sizeof options / sizeof *options, count, arguments, &operands);
    code = end.now ? end.code : parse_operands(&self, &operands);
    if (!end.now && code == EXIT_DONE && folder && operands.count > 0)
        code = cli_fail(&verb_kernel, EXIT_USAGE, "--out writes all kernels and takes no FILE or NAME");
    tuff_device *device = end.now || code != EXIT_DONE ? NULL : cli_open_device(&verb_kernel, device_name, &code);
    const tuff_compile_options compile = {.describe_only = true,
                                          .fuse = fuse == 0 ? TUFF_FUSE_ALL : TUFF_FUSE_NONE,
                                          .family = (tuff_family)family,
                                          .precision = (tuff_precision)precision,
                                          .matmul_precision = (tuff_precision)factors};
    if (device) {
        override_gpu(device, vendor);
        if (tuff_device_set_describe_only(device) != TUFF_OK)
            code = cli_fail_library(&verb_kernel, "opening the device");
        else
            code = show(&self, device, &compile, folder);
    }
    tuff__free(self.items);
    cli_texts_free(&operands);
    tuff_device_close(device);
    return code;
}

const cli_verb verb_kernel = {
    .name = "kernel",
    .operand = "[FILE] [NAME]",
    .summary = "Prints the assembled source of a kernel for a device.",
    .about =
        "Without NAME, lists the kernels of the graph FILE (see tuff plan) or, without FILE, those of a GPT's plans. "
        "NAME selects kernels by number in the list, program, kind of task (map, row, column, matmul, ...) or op. "
        "With --out, writes each distinct kernel to a file and lists the files.",
    .run = kernel,
};
