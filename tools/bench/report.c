/* Reports the results of tuff bench as a table, as JSON and as Markdown. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "tools/bench/bench.h"

/* Formats a time as "1.234 ms", with four significant digits and a suitable unit. */
static const char *seconds_text(double seconds, char *buffer, size_t size)
{
    const double factors[] = {1, 1e3, 1e6};
    const char *const units[] = {"s", "ms", "us"};
    const int unit = seconds >= 1 ? 0 : seconds >= 1e-3 ? 1 : 2;
    const double value = seconds * factors[unit];
    snprintf(buffer, size, "%.*f %s", value >= 100 ? 1 : value >= 10 ? 2 : 3, value, units[unit]);
    return buffer;
}
#define SECONDS_TEXT(seconds) seconds_text((seconds), (char[32]){0}, 32)

/* Formats a rate or a fraction, or a dash if it is unknown. */
static const char *number_text(double value, int digits, char *buffer, size_t size)
{
    if (value > 0)
        snprintf(buffer, size, "%.*f", digits, value);
    else
        snprintf(buffer, size, "-");
    return buffer;
}
#define RATE_TEXT(value, digits) number_text((value), (digits), (char[32]){0}, 32)

static const char *fact_text(const bench_fact *fact, char *buffer, size_t size)
{
    if (strcmp(fact->unit, "B") == 0)
        return cli_bytes((uint64_t)fact->value, buffer, size);
    if (strcmp(fact->unit, "s") == 0)
        return seconds_text(fact->value, buffer, size);
    snprintf(buffer, size, fact->unit[0] ? "%.2f %s" : "%.6g%s", fact->value, fact->unit);
    return buffer;
}
#define FACT_TEXT(fact) fact_text((fact), (char[48]){0}, 48)

static bool is_peak(const bench_implementation *item)
{
    return item->kind == BENCH_FLOPS || item->kind == BENCH_BYTES;
}

/* Rate in 1e9 per second; 0 for a peak that measures the other quantity. */
static double rate_of(const bench_implementation *item, double amount, bench_kind other)
{
    return item->kind == other ? 0 : amount / item->figures.median * 1e-9;
}

static double flops_of(const bench_implementation *item)
{
    return rate_of(item, item->operations, BENCH_BYTES);
}

static double bytes_of(const bench_implementation *item)
{
    return rate_of(item, item->bytes, BENCH_FLOPS);
}

/* Cells of an implementation's row. Peaks have neither fractions nor a ratio; the first row has no ratio. */
typedef struct cells {
    const char *ratio, *flops_fraction, *bytes_fraction;
    char ratio_text[32], flops_text[32], bytes_text[32];
} cells;

static void fill_cells(const bench_work *work, int index, cells *out)
{
    const bench_implementation *item = &work->items[index];
    const bool peak = is_peak(item);
    out->ratio = number_text(index > 0 && !peak ? item->ratio : 0, 2, out->ratio_text, sizeof out->ratio_text);
    out->flops_fraction = number_text(peak ? 0 : item->flops_fraction, 2, out->flops_text, sizeof out->flops_text);
    out->bytes_fraction = number_text(peak ? 0 : item->bytes_fraction, 2, out->bytes_text, sizeof out->bytes_text);
}

static void print_text(const bench *self, const bench_work *work)
{
    if (!self->last_suite || strcmp(self->last_suite, work->suite) != 0)
        printf("\n%-32s %-26s %11s %11s %6s %11s %8s %7s %8s %7s %7s\n", work->suite, "implementation", "median",
               "minimum", "spread", "cpu time", "GFLOP/s", "of peak", "GB/s", "of copy", "ratio");
    for (int i = 0; i < work->count; i++) {
        const bench_implementation *item = &work->items[i];
        cells row;
        fill_cells(work, i, &row);
        printf("%-32s %-26s %11s %11s %4.0f %% %11s %8s %7s %8s %7s %7s\n", i == 0 ? work->name : "", item->name,
               SECONDS_TEXT(item->figures.median), SECONDS_TEXT(item->figures.minimum), item->figures.spread * 100,
               SECONDS_TEXT(item->figures.processor), RATE_TEXT(flops_of(item), 1), row.flops_fraction,
               RATE_TEXT(bytes_of(item), 1), row.bytes_fraction, row.ratio);
    }
    for (int i = 0; i < work->fact_count; i++)
        printf("    %-40s %s\n", work->facts[i].name, FACT_TEXT(&work->facts[i]));
    fflush(stdout);
}

static void write_markdown(const bench *self, const bench_work *work)
{
    FILE *out = self->markdown;
    if (!self->last_suite || strcmp(self->last_suite, work->suite) != 0)
        fprintf(out,
                "\n## %s\n\n| work | implementation | median | minimum | spread | cpu time | GFLOP/s | of peak | GB/s "
                "| of copy | "
                "ratio |\n"
                "|---|---|---|---|---|---|---|---|---|---|---|\n",
                work->suite);
    for (int i = 0; i < work->count; i++) {
        const bench_implementation *item = &work->items[i];
        cells row;
        fill_cells(work, i, &row);
        fprintf(out, "| %s | %s | %s | %s | %.0f %% | %s | %s | %s | %s | %s | %s |\n", i == 0 ? work->name : "",
                item->name, SECONDS_TEXT(item->figures.median), SECONDS_TEXT(item->figures.minimum),
                item->figures.spread * 100, SECONDS_TEXT(item->figures.processor), RATE_TEXT(flops_of(item), 1),
                row.flops_fraction, RATE_TEXT(bytes_of(item), 1), row.bytes_fraction, row.ratio);
    }
    for (int i = 0; i < work->fact_count; i++)
        fprintf(out, "| | %s: %s | | | | | | | | | |\n", work->facts[i].name, FACT_TEXT(&work->facts[i]));
    fflush(out);
}

static void print_json_implementation(const bench_implementation *item, bool last)
{
    static const char *const kinds[] = {"tuff", "peer", "peak", "peak"};
    printf("      {");
    cli_print_json_member("name", item->name, ", ");
    printf("\"kind\": \"%s\", \"median\": %.6g, \"minimum\": %.6g, \"spread\": %.4g, \"processor\": %.6g, "
           "\"rounds\": %d, \"runs_per_sample\": %d, \"gflops\": %.5g, \"gbytes\": %.5g, \"of_flops_peak\": %.4g, "
           "\"of_copy_peak\": %.4g, \"ratio\": %.4g,\n       \"samples\": [",
           kinds[item->kind], item->figures.median, item->figures.minimum, item->figures.spread,
           item->figures.processor, item->rounds, item->repeat, flops_of(item), bytes_of(item), item->flops_fraction,
           item->bytes_fraction, item->ratio);
    for (int i = 0; i < item->rounds; i++)
        printf("%s%.6g", i > 0 ? ", " : "", item->samples[i].seconds);
    printf("]}%s\n", last ? "" : ",");
}

static void print_json(const bench *self, const bench_work *work)
{
    printf("  %s{", self->printed > 0 ? "," : "");
    cli_print_json_member("suite", work->suite, ", ");
    cli_print_json_member("work", work->name, ", ");
    printf("\"operations\": %.17g, \"bytes\": %.17g,\n    \"facts\": {", work->operations, work->bytes);
    for (int i = 0; i < work->fact_count; i++) {
        fputs(i > 0 ? ", " : "", stdout);
        cli_print_json_text(work->facts[i].name);
        printf(": %.9g", work->facts[i].value);
    }
    printf("},\n    \"implementations\": [\n");
    for (int i = 0; i < work->count; i++)
        print_json_implementation(&work->items[i], i + 1 == work->count);
    printf("    ]}\n");
    fflush(stdout);
}

void bench_report_work(bench *self, const bench_work *work)
{
    if (self->json)
        print_json(self, work);
    else if (self->markdown != stdout)
        print_text(self, work);
    if (self->markdown)
        write_markdown(self, work);
    self->last_suite = work->suite;
    self->printed++;
}

/* Load average of the last minute, which shows whether the figures can be trusted; -1 if the system does not report
   it. */
static double load_before(void)
{
    double load = -1;
    FILE *file = fopen("/proc/loadavg", "r");
    if (file && fscanf(file, "%lf", &load) != 1)
        load = -1;
    if (file)
        fclose(file);
    return load;
}

/* Lists the libraries that are missing, which is part of the result. */
static int list_missing(const bench *self, const char **out)
{
    const char *const all[] = {bench_blas_missing_reason(), bench_clblast_missing_reason(self)};
    int count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            out[count++] = all[i];
    return count;
}

static void begin_json(const bench *self, const char *const *missing, int missing_count)
{
    printf("{\"tuff\": \"%s\", \"rounds\": %" PRId64 ", \"device\": {", tuff_version(), self->round_count);
    cli_print_json_member("selector", self->info.selector, ", ");
    cli_print_json_member("name", self->info.name, ", ");
    cli_print_json_member("driver", self->info.driver, ", ");
    cli_print_json_member("api", self->info.api, ", ");
    printf("\"compute_units\": %" PRIu32 "},\n\"load\": %.2f, \"absent\": [", self->info.compute_units, load_before());
    for (int i = 0; i < missing_count; i++) {
        fputs(i > 0 ? ", " : "", stdout);
        cli_print_json_text(missing[i]);
    }
    printf("],\n\"works\": [\n");
}

static void begin_markdown(const bench *self, const char *const *missing, int missing_count)
{
    const time_t now = time(NULL);
    char date[32] = "";
    const struct tm *parts = gmtime(&now);
    if (parts)
        strftime(date, sizeof date, "%Y-%m-%d", parts);
    fprintf(self->markdown,
            "# tuff %s on %s\n\n%s, %s, %s, %" PRIu32 " compute units, %s; load average before: %.2f. %" PRId64
            " rounds in turns; *ratio*: the time divided by that of the first row of the work, median of the rounds: "
            "above 1, the first row is faster.\n",
            tuff_version(), self->info.name, date, self->info.driver, self->info.api, self->info.compute_units,
            self->info.selector, load_before(), self->round_count);
    for (int i = 0; i < missing_count; i++)
        fprintf(self->markdown, "%s.\n", missing[i]);
}

void bench_report_begin(bench *self)
{
    const char *missing[4];
    const int count = list_missing(self, missing);
    if (self->json)
        begin_json(self, missing, count);
    else if (self->markdown != stdout)
        printf("%s (%s), %s, %s; load average before: %.2f\n%" PRId64
               " rounds in turns; ratio: the time divided by that of the first row of a work\n",
               self->info.name, self->info.selector, self->info.driver, self->info.api, load_before(),
               self->round_count);
    for (int i = 0; i < count && !self->json && self->markdown != stdout; i++)
        printf("%s\n", missing[i]);
    if (self->markdown)
        begin_markdown(self, missing, count);
}

void bench_report_end(bench *self)
{
    if (self->json)
        printf("]}\n");
}
