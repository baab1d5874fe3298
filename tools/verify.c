/* tuff verify: the op suite on a device, every element against the float64 reference. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/suite.h"
#include "tools/verify.h"
#include "tools/verbs.h"

typedef struct verification {
    tuff_device *device;
    suite_options options;
    const char *only;    /* an op's name, or NULL */
    int64_t programs;    /* that are run instead of ops; 0: none */
    const char *program; /* the line of one, or NULL */
    int64_t seed;
    bool json;
    int rows;
    int64_t cases, elements, failures;
    double worst;
} verification;

static void print_row(verification *self, const suite_result *result)
{
    const char *op = tuff__op_info(result->op)->name, *dtype = tuff_dtype_name(result->dtype);
    if (self->json) {
        printf("%s  {\"op\": \"%s\", \"dtype\": \"%s\", \"cases\": %d, \"elements\": %" PRId64
               ", \"failures\": %" PRId64 ", \"worst_over_bar\": %.4g, \"failure\": ",
               self->rows > 0 ? ",\n" : "", op, dtype, result->case_count, result->element_count, result->failure_count,
               result->worst < 1e300 ? result->worst : 1e300);
        cli_print_json_text(result->failure);
        printf("}");
    } else {
        printf("%-12s %-5s %5d %10" PRId64 " %12.3g  %s\n", op, dtype, result->case_count, result->element_count,
               result->worst, result->failure_count == 0 ? "ok" : "FAILED");
        if (result->failure_count > 0)
            printf("    %" PRId64 " beyond: %s\n", result->failure_count, result->failure);
    }
    fflush(stdout);
    self->rows++;
}

static void verify_op(verification *self, op_code op)
{
    for (tuff_dtype dtype = TUFF_F32; dtype <= TUFF_BOOL; dtype++) {
        suite_result result = {0};
        if (!suite_run(self->device, op, dtype, &self->options, &result))
            continue;
        print_row(self, &result);
        self->cases += result.case_count;
        self->elements += result.element_count;
        self->failures += result.failure_count;
        if (result.worst > self->worst)
            self->worst = result.worst;
    }
}

static int verify_all(verification *self)
{
    tuff_device_info info;
    if (tuff_device_describe(self->device, &info) != TUFF_OK)
        return cli_fail_library(&verb_verify, "describing the device");
    if (self->json)
        printf("[\n");
    else
        printf("%s (%s), %s, %s\n%-12s %-5s %5s %10s %12s\n", info.name, info.selector, info.api, info.driver, "op",
               "dtype", "cases", "elements", "worst/bar");
    for (int op = 0; op < OP_COUNT; op++)
        if (!self->only || strcmp(tuff__op_info((op_code)op)->name, self->only) == 0)
            verify_op(self, (op_code)op);
    if (self->json)
        printf("\n]\n");
    else
        printf("%" PRId64 " cases, %" PRId64 " elements, %" PRId64 " failures; worst error %.3g of its bar\n",
               self->cases, self->elements, self->failures, self->worst);
    if (self->rows == 0)
        return cli_fail(&verb_verify, EXIT_WRONG_USE, "there is no op \"%s\" in the suite",
                        self->only ? self->only : "");
    return self->failures == 0 ? EXIT_DONE : EXIT_FAILED;
}

static int verify_on(verification *self, const char *device)
{
    const bool runs_programs = self->programs > 0 || self->program != NULL;
    int code = EXIT_FAILED;
    /* Thousands of kernels that nobody needs again would push out those that somebody does. */
    if (runs_programs)
        (void)setenv("TUFF_CACHE_DIR", "", 1);
    self->device = cli_open_device(&verb_verify, device, &code);
    if (!self->device)
        return code;
    code = runs_programs
               ? verify_programs(&verb_verify, self->device, self->programs, self->seed, self->program, self->json)
               : verify_all(self);
    tuff_device_close(self->device);
    return code;
}

static int verify(int count, char **arguments)
{
    verification self = {0};
    const char *device = NULL;
    int fuse = 0, family = 0, matmul = 0;
    const cli_option options[] = {
        {.name = "--device", .kind = CLI_TEXT, .value = &device, .placeholder = "D", .help = CLI_DEVICE_HELP},
        {.name = "--fuse",
         .kind = CLI_CHOICE,
         .value = &fuse,
         .placeholder = "on|off",
         .help = "off: every op a kernel of its own"},
        {.name = "--family",
         .kind = CLI_CHOICE,
         .value = &family,
         .placeholder = "device|register|local|subgroup",
         .help = "kernels for CPUs, for GPUs, or with subgroups; device: those of its kind"},
        {.name = "--matmul",
         .kind = CLI_CHOICE,
         .value = &matmul,
         .placeholder = "own|clblast",
         .help = "whose kernels compute matmuls"},
        {.name = "--programs",
         .kind = CLI_WHOLE,
         .value = &self.programs,
         .placeholder = "N",
         .high = 1e9,
         .help = "instead of ops, so many random training steps, from seed S on"},
        {.name = "--program",
         .kind = CLI_TEXT,
         .value = &self.program,
         .placeholder = "LINE",
         .help = "the one that such a line describes: \"seed=7 form=mlp ...\""},
        {.name = "--seed",
         .kind = CLI_WHOLE,
         .value = &self.seed,
         .placeholder = "S",
         .high = 9e15,
         .help = "of the inputs, or of the first program"},
        {.name = "--json",
         .kind = CLI_SWITCH,
         .value = &self.json,
         .help = "for programs: a list of objects, one a line"},
    };
    const cli_end end =
        cli_parse(&verb_verify, options, sizeof options / sizeof *options, count, arguments, &self.only);
    if (end.now)
        return end.code;
    self.options = (suite_options){.compile = {.fuse = fuse == 0 ? TUFF_FUSE_ALL : TUFF_FUSE_NONE,
                                               .family = (tuff_family)family,
                                               .matmul_library = (tuff_matmul_library)matmul},
                                   .seed = (uint32_t)self.seed};
    return verify_on(&self, device);
}

const cli_verb verb_verify = {
    .name = "verify",
    .operand = "[OP]",
    .summary = "Runs the op suite, or random programs, on a device against the float64 reference.",
    .about =
        "Prints the worst error of each op over its bar. With --programs every parameter and every moment of the "
        "optimizer of random training steps is compared; what fails is made as small as it still fails. Exits with "
        "1 where an element is beyond its bar.",
    .run = verify,
};
