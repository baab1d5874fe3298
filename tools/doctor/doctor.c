/* tuff doctor: checks in two minutes whether a device computes correctly and how fast it is, as a text for a report. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/thread.h"
#include "device/device.h"
#include "tools/cli/options.h"
#include "tools/doctor/speed.h"
#include "tools/inspect/devices.h"
#include "tools/verbs.h"
#include "tools/verify/program_check.h"
#include "tools/verify/suite.h"

/* Shares of the requested time; the rest is for what begins before its section's time is over and ends later. */
#define SPEED_SHARE 0.2
#define OPS_SHARE 0.4
#define PROGRAMS_SHARE 0.3

typedef struct examination {
    tuff_device *device;
    tuff_device_info info;
    double seconds; /* for the whole examination */
    uint64_t begin;
    int failures;   /* number of results that are wrong */
    int slow;       /* number of measurements far below the predictions */
    bool is_lost;
} examination;

static void fail(examination *self, const char *format, ...) PRINTF_LIKE(2, 3);

static void fail(examination *self, const char *format, ...)
{
    va_list list;
    self->failures++;
    printf("  ERROR: ");
    va_start(list, format);
    (void)vprintf(format, list);
    va_end(list);
    printf("\n");
}

static bool is_lost(examination *self)
{
    if (!self->is_lost && tuff_device_wait(self->device) == TUFF_E_DEVICE_LOST) {
        self->is_lost = true;
        fail(self, "%s", tuff_error());
    }
    return self->is_lost;
}

/* Returns the seconds for a section: its share of what the sections before have left, where it and those after have
   `shares`. Some drivers compile so slowly that speed takes twice its time. */
static double section_seconds(const examination *self, double share, double shares)
{
    const double total = SPEED_SHARE + OPS_SHARE + PROGRAMS_SHARE;
    const double left = total * self->seconds - tuff__seconds_since(self->begin), least = share * self->seconds / 2;
    return left * share / shares > least ? left * share / shares : least;
}

static void print_head(const examination *self)
{
    struct utsname system;
    printf("tuff doctor, tuff %s", tuff_version());
    if (uname(&system) == 0)
        printf(", %s %s %s", system.sysname, system.release, system.machine);
    printf("\n\ndevice\n");
    inspect_print_device(&self->info, NULL);
}

static void examine_self_test(examination *self)
{
    const tuff_device_info *info = &self->info;
    printf("\nself-test\n");
    if (info->device_class == TUFF_DEVICE_REFERENCE) {
        printf("  none: the reference device runs on the host\n");
        return;
    }
    if (!info->proved_barrier)
        fail(self, "local memory and barriers do not work");
    if (!info->proved_nan)
        printf("  note: NaNs are not preserved\n");
    if (!info->proved_negative_zero)
        printf("  note: the sign of zero is not preserved\n");
    if (!info->proved_denormals)
        printf("  note: denormals are flushed to zero\n");
    if (info->subgroup_size > 0 && info->proved_subgroup_size > 0 && info->subgroup_size != info->proved_subgroup_size)
        printf("  note: the driver reports subgroups of %u, the self-test counted %u\n", info->subgroup_size,
               info->proved_subgroup_size);
    if (info->matrix_state == TUFF_MATRICES_WRONG)
        fail(self, "the matrix units compute wrong products; they are not used");
    if (info->proved_barrier)
        printf("  passed\n");
}

/* Runs the suite of one op in one dtype. */
static void examine_op(examination *self, op_code op, tuff_dtype dtype, int *tried, int *cases)
{
    const suite_options options = {0};
    suite_result result = {0};
    if (!suite_run(self->device, op, dtype, &options, &result))
        return;
    ++*tried;
    *cases += result.case_count;
    if (result.failure_count == 0)
        return;
    fail(self, "%s %s: %" PRId64 " of %" PRId64 " elements: %s", tuff__op_info(op)->name, tuff_dtype_name(dtype),
         result.failure_count, result.element_count, result.failure);
    (void)is_lost(self); /* a lost device would make every further op fail */
}

/* Checks f32 first, for all ops, because models mostly use it. */
static void examine_ops(examination *self)
{
    static const tuff_dtype dtypes[] = {TUFF_F32, TUFF_F16, TUFF_BF16, TUFF_I32};
    const uint64_t begin = tuff__nanoseconds();
    const double seconds = section_seconds(self, OPS_SHARE, OPS_SHARE + PROGRAMS_SHARE);
    int tried = 0, cases = 0;
    bool is_complete = true;
    printf("\nops against float64\n");
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        for (int op = 0; op < OP_COUNT; op++) {
            if (tuff__seconds_since(begin) > seconds || cli_is_interrupted() || self->is_lost) {
                is_complete = false;
                continue;
            }
            examine_op(self, (op_code)op, dtypes[i], &tried, &cases);
        }
    printf("  %d pairs of op and dtype, %d cases in %.0f s%s\n", tried, cases, tuff__seconds_since(begin),
           is_complete ? "" : ", stopped early: `tuff verify` runs all");
    (void)is_lost(self);
}

static void report_program(void *user, const program_failure *failed)
{
    char line[1024];
    examination *self = user;
    program_describe(&failed->smallest, line, sizeof line);
    fail(self, "%s: tuff verify --program \"%s\": %s", failed->check, line, failed->smallest_report.failure);
}

static void examine_programs(examination *self)
{
    const uint64_t begin = tuff__nanoseconds();
    const double seconds = section_seconds(self, PROGRAMS_SHARE, PROGRAMS_SHARE);
    program_context bench = {.device = self->device, .reference = tuff_device_open("reference")};
    program_totals totals = {0};
    printf("\nrandom programs against float64\n");
    if (self->failures > 0 && bench.reference) {
        /* Failing programs would be reduced, which takes long and says less than the failures so far. */
        printf("  skipped, because earlier checks failed\n");
        tuff_device_close(bench.reference);
        return;
    }
    if (!bench.reference) {
        fail(self, "%s", tuff_error());
        return;
    }
    for (uint64_t seed = 1; tuff__seconds_since(begin) < seconds && !cli_is_interrupted() && !self->is_lost; seed++) {
        program_check_seed(&bench, seed, &totals, report_program, self);
        (void)is_lost(self);
    }
    program_context_clear(&bench);
    tuff_device_close(bench.reference);
    printf("  %" PRId64 " programs, %" PRId64 " elements in %.0f s\n", totals.programs, totals.elements,
           tuff__seconds_since(begin));
}

static void examine_speed(examination *self)
{
    doctor_speed speed;
    char failure[256];
    text lines = {0};
    printf("\nspeed\n");
    if (self->info.device_class == TUFF_DEVICE_REFERENCE || self->is_lost) {
        printf("  not measured\n");
        return;
    }
    const uint64_t begin = tuff__nanoseconds();
    const doctor_prediction predicted = doctor_predict(&self->info);
    doctor_measure(self->device, SPEED_SHARE * self->seconds, NULL, &speed, failure, sizeof failure);
    if (failure[0])
        fail(self, "%s", failure);
    self->slow = doctor_write_speed(&speed, &predicted, &lines);
    printf("%s  measured in %.0f s\n", tuff__text_get(&lines), tuff__seconds_since(begin));
    tuff__text_free(&lines);
    (void)is_lost(self);
}

static void print_result(const examination *self, double seconds)
{
    char slow[32] = "";
    if (self->slow > 0)
        snprintf(slow, sizeof slow, ", %d SLOW", self->slow);
    if (self->failures == 0)
        printf("\nresult: no errors%s, in %.0f s\n", slow, seconds);
    else
        printf("\nresult: %d ERRORS%s, in %.0f s\n", self->failures, slow, seconds);
}

static int examine(examination *self)
{
    print_head(self);
    examine_self_test(self);
    examine_speed(self);
    examine_ops(self);
    examine_programs(self);
    if (cli_is_interrupted())
        printf("\ninterrupted\n");
    print_result(self, tuff__seconds_since(self->begin));
    return self->failures == 0 ? EXIT_DONE : EXIT_FAILED;
}

static int doctor(int count, char **arguments)
{
    const char *name = NULL;
    double seconds = 120;
    int code = EXIT_FAILED;
    const cli_option options[] = {
        DEVICE_OPTION(&name),
        {.name = "--seconds",
         .kind = CLI_NUMBER,
         .value = &seconds,
         .placeholder = "S",
         .low = 1,
         .high = 86400,
         .help = "approximate run time in seconds"},
    };
    const cli_end end = cli_parse(&verb_doctor, options, sizeof options / sizeof *options, count, arguments, NULL);
    if (end.now)
        return end.code;
    (void)setenv("TUFF_CACHE_DIR", "", 1);
    examination self = {.begin = tuff__nanoseconds(), .seconds = seconds};
    self.device = cli_open_device(&verb_doctor, name, &code);
    if (!self.device)
        return code;
    cli_catch_interrupt();
    code = tuff_device_describe(self.device, &self.info) == TUFF_OK
               ? examine(&self)
               : cli_fail_library(&verb_doctor, "describing the device");
    tuff_device_close(self.device);
    return code;
}

const cli_verb verb_doctor = {
    .name = "doctor",
    .summary = "Checks a device in two minutes and prints a text for a bug report.",
    .about =
        "Prints the self-test, compares the speed in f32 (and in 16 bits if it has 16-bit arithmetic or matrix units) "
        "with what is predicted for its vendor and matrix units, and checks as many ops and random programs against "
        "the float64 "
        "reference as time allows. Results below half of the prediction are marked SLOW. Exits with 0 if there are no "
        "errors, 1 if there are some or the device cannot be opened, 2 for a usage error. A slow device is not an "
        "error.",
    .run = doctor,
};
