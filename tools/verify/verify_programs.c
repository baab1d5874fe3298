/* tuff verify --programs: runs random training steps on a device, compares every parameter and every moment of the
   optimizer with the float64 reference, and checks relations between programs. */
#include <inttypes.h>
#include <stdio.h>

#include "tools/verify/program_check.h"
#include "tools/verify/verify.h"

enum { LINE_SIZE = 640 };

typedef struct output {
    bool json;
    int failures;
} output;

static void print_failure(void *user, const program_failure *failed)
{
    output *self = user;
    char line[LINE_SIZE], smallest[LINE_SIZE];
    program_describe(&failed->recipe, line, sizeof line);
    program_describe(&failed->smallest, smallest, sizeof smallest);
    if (self->json) {
        printf("%s  {", self->failures > 0 ? ",\n" : "");
        cli_print_json_member("check", failed->check, ", ");
        cli_print_json_member("program", line, ", ");
        cli_print_json_member("failure", failed->report.failure, ", ");
        cli_print_json_member("smallest", smallest, ", ");
        cli_print_json_member("smallest_failure", failed->smallest_report.failure, "}");
    } else {
        printf("FAILED, %s: --program \"%s\"\n    %s\n  the smallest that fails: --program \"%s\"\n    %s\n",
               failed->check, line, failed->report.failure, smallest, failed->smallest_report.failure);
    }
    self->failures++;
    fflush(stdout);
}

static int verify_line(const cli_verb *verb, program_context *context, const char *line, program_totals *totals,
                       output *to)
{
    program_recipe recipe;
    if (program_parse(line, &recipe) != TUFF_OK)
        return cli_fail(verb, EXIT_USAGE, "%s", tuff_error());
    for (int check = 0; check < program_check_count; check++)
        program_check_one(context, &recipe, check, totals, print_failure, to);
    return EXIT_DONE;
}

int verify_programs(const cli_verb *verb, tuff_device *device, int64_t count, int64_t seed, const char *line, bool json)
{
    program_context context = {.device = device, .reference = tuff_device_open("reference")};
    program_totals totals = {.programs = 0};
    output to = {.json = json};
    int code = EXIT_DONE;
    if (context.reference == NULL)
        return cli_fail_library(verb, "cannot open the reference device");
    printf("%s", json ? "[\n" : "");
    if (line != NULL)
        code = verify_line(verb, &context, line, &totals, &to);
    cli_catch_interrupt();
    for (int64_t i = 0; line == NULL && i < count && !cli_is_interrupted(); i++)
        program_check_seed(&context, (uint64_t)(seed + i), &totals, print_failure, &to);
    program_context_clear(&context);
    tuff_device_close(context.reference);
    if (json)
        printf("%s]\n", to.failures > 0 ? "\n" : "");
    else if (code == EXIT_DONE)
        printf("%" PRId64 " programs and %" PRId64 " further checks, %" PRId64
               " elements (%.2g %% with tolerances too wide to be informative): %" PRId64 " failures\n",
               totals.programs, totals.other_checks, totals.elements,
               totals.elements > 0 ? 100.0 * (double)totals.wide / (double)totals.elements : 0, totals.failed);
    return code != EXIT_DONE ? code : totals.failed == 0 ? EXIT_DONE : EXIT_FAILED;
}
