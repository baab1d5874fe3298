/* tuff verify: runs the op suite, random programs or the graph of a file on a device and compares every element with
   the float64 reference. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/options.h"
#include "tools/model/options.h"
#include "tools/verify/names.h"
#include "tools/verify/suite.h"
#include "tools/verify/verify.h"
#include "tools/verify/verify_graph.h"
#include "tools/verbs.h"

/* Which options the command line gave. */
typedef struct given_options {
    bool fuse, family, matmul, steps, seed;
} given_options;

typedef struct verification {
    tuff_device *device;
    suite_options options;
    suite_selection only;
    int64_t programs;         /* number of programs to run instead of ops; 0: none */
    const char *program;      /* line that describes a single program, or NULL */
    graph_verification graph; /* to run instead of ops, if it has a file */
    given_options given;
    int fuse, family, matmul; /* indices of choices */
    int64_t seed;
    bool json;
    int rows;
    int64_t cases, elements, failures;
    double worst;
} verification;

static void print_row(verification *self, const char *op, const suite_result *result)
{
    const char *dtype = tuff_dtype_name(result->dtype);
    if (self->json) {
        printf("%s  {\"op\": \"%s\", \"dtype\": \"%s\", \"cases\": %d, \"elements\": %" PRId64
               ", \"failures\": %" PRId64 ", \"worst_over_bar\": %.4g, ",
               self->rows > 0 ? ",\n" : "", op, dtype, result->case_count, result->element_count, result->failure_count,
               result->worst < 1e300 ? result->worst : 1e300);
        cli_print_json_member("failure", result->failure, "}");
    } else {
        printf("%-18s %-5s %5d %10" PRId64 " %12.3g  %s\n", op, dtype, result->case_count, result->element_count,
               result->worst, result->failure_count == 0 ? "ok" : "FAILED");
        if (result->failure_count > 0)
            printf("    %" PRId64 " beyond tolerance: %s\n", result->failure_count, result->failure);
    }
    fflush(stdout);
    self->rows++;
}

static void add_result(verification *self, const char *op, const suite_result *result)
{
    print_row(self, op, result);
    self->cases += result->case_count;
    self->elements += result->element_count;
    self->failures += result->failure_count;
    if (result->worst > self->worst)
        self->worst = result->worst;
}

static void verify_op(verification *self, op_code op)
{
    for (tuff_dtype dtype = TUFF_F32; dtype <= TUFF_BOOL; dtype++) {
        suite_result result = {0};
        if (suite_run(self->device, op, dtype, &self->options, &result))
            add_result(self, tuff__op_info(op)->name, &result);
    }
}

static void verify_composite(verification *self, int index)
{
    static const tuff_dtype dtypes[] = {TUFF_F32, TUFF_F16, TUFF_BF16};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        suite_case composite;
        suite_result result = {.dtype = dtypes[i]};
        if (!suite_composite_at(index, dtypes[i], &composite))
            continue;
        suite_run_case(self->device, &composite, &self->options, &result);
        add_result(self, composite.name, &result);
    }
}

static void verify_selected(verification *self)
{
    suite_case composite;
    for (int op = 0; op < OP_COUNT; op++)
        if (suite_is_selected(&self->only, tuff__op_info((op_code)op)->name))
            verify_op(self, (op_code)op);
    for (int index = 0; suite_composite_at(index, TUFF_F32, &composite); index++)
        if (suite_is_selected(&self->only, composite.name))
            verify_composite(self, index);
}

static int verify_all(verification *self)
{
    tuff_device_info info;
    if (tuff_device_describe(self->device, &info) != TUFF_OK)
        return cli_fail_library(&verb_verify, "cannot describe the device");
    if (self->json)
        printf("[\n");
    else
        printf("%s (%s), %s, %s\n%-18s %-5s %5s %10s %12s\n", info.name, info.selector, info.api, info.driver, "op",
               "dtype", "cases", "elements", "worst/tol.");
    verify_selected(self);
    if (self->json)
        printf("\n]\n");
    else
        printf("%" PRId64 " cases, %" PRId64 " elements, %" PRId64 " failures; worst error %.3g of its tolerance\n",
               self->cases, self->elements, self->failures, self->worst);
    return self->failures == 0 ? EXIT_DONE : EXIT_FAILED;
}

static int report_unknown_op(const char *name)
{
    const char *similar[SUITE_SIMILAR];
    char list[256] = "";
    size_t used = 0;
    const int count = suite_similar_names(name, similar);
    for (int i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", similar[i]);
    if (count == 0)
        return cli_fail(&verb_verify, EXIT_USAGE, "unknown op \"%s\"", name);
    return cli_fail(&verb_verify, EXIT_USAGE, "unknown op \"%s\"; similar: %s", name, list);
}

static bool runs_programs(const verification *self)
{
    return self->programs > 0 || self->program != NULL;
}

static int verify_on(verification *self, const char *device)
{
    int code = EXIT_FAILED;
    /* The kernels of random programs are not needed again, and thousands of them would push useful ones out of the
       cache. */
    if (runs_programs(self))
        (void)setenv("TUFF_CACHE_DIR", "", 1);
    self->device = cli_open_device(&verb_verify, device, &code);
    if (!self->device)
        return code;
    if (runs_programs(self))
        code = verify_programs(&verb_verify, self->device, self->programs, self->seed, self->program, self->json);
    else if (self->graph.file)
        code = verify_graph(&verb_verify, self->device, &self->graph);
    else
        code = verify_all(self);
    tuff_device_close(self->device);
    return code;
}

static cli_end parse(int count, char **arguments, verification *self, const char **device, const char **name)
{
    given_options *given = &self->given;
    const cli_option options[] = {
        DEVICE_OPTION(device),
        FUSE_OPTION(&self->fuse, &given->fuse),
        FAMILY_OPTION(&self->family, &given->family),
        MATMUL_OPTION(&self->matmul, &given->matmul),
        {.name = "--programs",
         .kind = CLI_INTEGER,
         .value = &self->programs,
         .placeholder = "N",
         .high = 1e9,
         .help = "run N random training programs instead of ops, starting with --seed"},
        {.name = "--program",
         .kind = CLI_TEXT,
         .value = &self->program,
         .placeholder = "LINE",
         .help = "run the program that LINE describes, such as \"seed=7 form=mlp ...\""},
        {.name = "--steps",
         .kind = CLI_INTEGER,
         .value = &self->graph.steps,
         .placeholder = "N",
         .low = 1,
         .high = 1e6,
         .given = &given->steps,
         .help = "runs of the graph of FILE, each from the reference's arrays"},
        {.name = "--data",
         .kind = CLI_TEXT,
         .value = &self->graph.data,
         .placeholder = "FILE",
         .help = "safetensors with inputs and arrays of the graph by name, such as a checkpoint; others are random"},
        SEED_OPTION(&self->seed, "seed of the inputs, or of the first random program", &given->seed),
        JSON_OPTION(&self->json, "a list with one object per line"),
    };
    return cli_parse(&verb_verify, options, sizeof options / sizeof *options, count, arguments, name);
}

/* Rejects what random programs ignore: they choose their ops and the compiler's options themselves, and a line has its
   own seed. */
static int check_programs(const verification *self, const char *name)
{
    const given_options *given = &self->given;
    const char *runs = self->program ? "--program" : "--programs";
    const struct {
        bool ignored;
        const char *word;
    } all[] = {
        {name != NULL, name},
        {given->fuse, "--fuse"},
        {given->family, "--family"},
        {given->matmul, "--matmul"},
        {self->program && self->programs > 0, "--programs"},
        {self->program && given->seed, "--seed"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].ignored)
            return cli_fail(&verb_verify, EXIT_USAGE, "%s has no effect with %s", all[i].word, runs);
    return EXIT_DONE;
}

static int check(verification *self, const char *name)
{
    if (self->graph.file && runs_programs(self))
        return cli_fail(&verb_verify, EXIT_USAGE, "%s is a graph file: it cannot be combined with random programs",
                        name);
    if (!self->graph.file && (self->given.steps || self->graph.data))
        return cli_fail(&verb_verify, EXIT_USAGE, "%s needs a graph file", self->given.steps ? "--steps" : "--data");
    if (runs_programs(self))
        return check_programs(self, name);
    if (!self->graph.file && !suite_select(name, &self->only))
        return report_unknown_op(name);
    return EXIT_DONE;
}

static int verify(int count, char **arguments)
{
    verification self = {.graph = {.steps = 1}};
    const char *device = NULL, *name = NULL;
    const cli_end end = parse(count, arguments, &self, &device, &name);
    if (end.now)
        return end.code;
    self.graph.file = name && is_graph_file(name) ? name : NULL;
    const int code = check(&self, name);
    if (code != EXIT_DONE)
        return code;
    self.options = (suite_options){.compile = {.fuse = self.fuse == 0 ? TUFF_FUSE_ALL : TUFF_FUSE_NONE,
                                               .family = (tuff_family)self.family,
                                               .matmul_library = (tuff_matmul_library)self.matmul},
                                   .seed = (uint32_t)self.seed};
    self.graph.compile = self.options.compile;
    self.graph.seed = (uint64_t)self.seed;
    self.graph.json = self.json;
    return verify_on(&self, device);
}

const cli_verb verb_verify = {
    .name = "verify",
    .operand = "[NAME|FILE]",
    .summary = "Compares a device with the float64 reference: the op suite, random programs, or the graph of a file.",
    .about =
        "NAME is a primitive or a composite, such as exp or softmax, or a common prefix of several. Prints the worst\n"
        "error of each op relative to its tolerance.\n"
        "FILE is a graph that was saved by tuff_graph_save, or by tuff train or tuff plan with --save-graph. Its "
        "inputs\n"
        "and arrays get random values. Prints the error of every output, and of every array that a run changes,\n"
        "relative to its largest element or change.\n"
        "--programs compares every parameter and every moment of the optimizer in random training programs, and "
        "reduces\n"
        "a failing one to the smallest that still fails.\n"
        "Exits with 1 if an element exceeds its tolerance.",
    .run = verify,
};
