/* tuff bench: measures how fast the device and the library are, against the device's limits and other software, in one
   run. */
#include <string.h>

#include "tools/bench/bench.h"
#include "tools/cli/options.h"
#include "tools/model/options.h"
#include "tools/verbs.h"

typedef struct suite {
    const char *name;
    tuff_status (*run)(bench *self);
} suite;

static const suite suites[] = {{"matmul", bench_matmul},       {"attention", bench_attention},
                               {"norms", bench_norms},         {"elementwise", bench_elementwise},
                               {"optimizer", bench_optimizer}, {"gpt", bench_gpt},
                               {"launch", bench_launch},       {"graph", bench_graph}};
enum { SUITE_COUNT = (int)(sizeof suites / sizeof *suites) };

/* If only a graph file is given, only the suite graph runs. */
static bool is_wanted(const bench *self, const char *name)
{
    if (strcmp(name, "graph") == 0)
        return self->graph != NULL;
    for (int i = 0; i < self->suites.count; i++)
        if (strcmp(self->suites.items[i], name) == 0)
            return true;
    return self->suites.count == 0 && !self->graph;
}

/* Moves the graph file from the operands to self->graph. */
static int find_graph(bench *self)
{
    int kept = 0;
    for (int i = 0; i < self->suites.count; i++) {
        const char *word = self->suites.items[i];
        const bool is_file = is_graph_file(word);
        if (is_file && self->graph)
            return cli_fail(&verb_bench, EXIT_USAGE, "%s and %s: expected at most one graph file", self->graph, word);
        if (is_file)
            self->graph = word;
        else
            self->suites.items[kept++] = word;
    }
    self->suites.count = kept;
    return EXIT_DONE;
}

static int check_suites(const bench *self)
{
    for (int i = 0; i < self->suites.count; i++) {
        bool known = false;
        for (int k = 0; k < SUITE_COUNT; k++)
            known = known || strcmp(self->suites.items[i], suites[k].name) == 0;
        if (!known)
            return cli_fail(&verb_bench, EXIT_USAGE, "unknown suite \"%s\"", self->suites.items[i]);
        if (strcmp(self->suites.items[i], "graph") == 0 && !self->graph)
            return cli_fail(&verb_bench, EXIT_USAGE, "the suite graph needs a graph file");
    }
    if (self->json && self->markdown_path && strcmp(self->markdown_path, "-") == 0)
        return cli_fail(&verb_bench, EXIT_USAGE,
                        "--json and \"--markdown -\" cannot be combined: both write to standard output");
    return EXIT_DONE;
}

static cli_end parse(int count, char **arguments, bench *self)
{
    const cli_option options[] = {
        DEVICE_OPTION(&self->device_name),
        {"--rounds", CLI_INTEGER, &self->round_count, "N", "samples per implementation, taken alternately", 1, 1000,
         NULL},
        {"--only", CLI_TEXTS, &self->wanted, "TEXT",
         "run only benchmarks whose name contains TEXT; may be given several times", 0, 0, NULL},
        {"--skip", CLI_TEXTS, &self->skipped, "TEXT",
         "leave out implementations whose name contains TEXT, such as CLBlast; may be given several times", 0, 0, NULL},
        {"--quick", CLI_SWITCH, &self->quick, NULL, "small sizes and short samples: a smoke test, not a measurement", 0,
         0, NULL},
        PRECISION_OPTION(&self->precision, &self->has_precision),
        JSON_OPTION(&self->json, "one object with all samples"),
        {"--markdown", CLI_TEXT, &self->markdown_path, "FILE",
         "write tables in Markdown, as in bench/results; -: standard output", 0, 0, NULL},
        {"--peer", CLI_TEXTS, &self->peer_commands, "COMMAND",
         "also measure a program that runs the same benchmarks (see bench/peers); may be given several times", 0, 0,
         NULL},
        TUNING_OPTIONS(&self->tune),
        {"--clblast-tuned", CLI_TEXT, &self->clblast_folder, "FOLDER",
         "use the results of CLBlast's own tuners (see bench/tune-clblast)", 0, 0, NULL},
    };
    return cli_parse_all(&verb_bench, options, sizeof options / sizeof *options, count, arguments, &self->suites);
}

static int run_suites(bench *self)
{
    for (int i = 0; i < SUITE_COUNT; i++) {
        if (!is_wanted(self, suites[i].name))
            continue;
        const tuff_status status = suites[i].run(self);
        if (status != TUFF_OK)
            return cli_fail_library(&verb_bench, suites[i].name);
    }
    if (self->printed == 0)
        return cli_fail(&verb_bench, EXIT_FAILED, "--only matches no benchmark");
    return EXIT_DONE;
}

static int open_all(bench *self)
{
    int code = EXIT_DONE;
    self->device = cli_open_device(&verb_bench, self->device_name, &code);
    if (!self->device)
        return code;
    if (tuff_device_describe(self->device, &self->info) != TUFF_OK || bench_peaks_create(self) != TUFF_OK)
        return cli_fail_library(&verb_bench, "cannot measure the device's peak");
    if (bench_peers_start(self) != TUFF_OK)
        return cli_fail_library(&verb_bench, "cannot start a peer");
    if (self->clblast_folder && bench_clblast_tune(self, self->clblast_folder) != TUFF_OK)
        return cli_fail_library(&verb_bench, "--clblast-tuned");
    if (!self->markdown_path)
        return EXIT_DONE;
    self->markdown = strcmp(self->markdown_path, "-") == 0 ? stdout : fopen(self->markdown_path, "w");
    return self->markdown ? EXIT_DONE : cli_fail(&verb_bench, EXIT_FAILED, "cannot write %s", self->markdown_path);
}

static int close_all(bench *self, int code)
{
    bench_peers_end(self);
    bench_peaks_destroy(self);
    tuff_device_close(self->device);
    if (!self->markdown || self->markdown == stdout)
        return code;
    const bool failed = ferror(self->markdown) != 0, closed = fclose(self->markdown) == 0;
    if ((failed || !closed) && code == EXIT_DONE)
        code = cli_fail(&verb_bench, EXIT_FAILED, "cannot write %s", self->markdown_path);
    return code;
}

static int run_bench(int count, char **arguments)
{
    bench self = {.round_count = 10};
    const cli_end end = parse(count, arguments, &self);
    int code = end.code;
    if (!end.now)
        code = find_graph(&self);
    if (!end.now && code == EXIT_DONE)
        code = check_suites(&self);
    if (!end.now && code == EXIT_DONE) {
        code = open_all(&self);
        if (code == EXIT_DONE) {
            cli_catch_interrupt(); /* only now: Ctrl-C ends a wait for a peer that never answers */
            bench_report_begin(&self);
            code = run_suites(&self);
            bench_report_end(&self);
        }
        code = close_all(&self, code);
    }
    cli_texts_free(&self.suites);
    cli_texts_free(&self.wanted);
    cli_texts_free(&self.skipped);
    cli_texts_free(&self.peer_commands);
    return code;
}

const cli_verb verb_bench = {
    .name = "bench",
    .operand = "[FILE] [SUITE...]",
    .summary = "Benchmarks tuff against the device's peak and other software, in alternating samples.",
    .about =
        "Suites: matmul, attention, norms, elementwise, optimizer, gpt, launch; default: all. FILE is a graph file\n"
        "(see tuff plan), which is measured fused, tuned and unfused, in addition to the suites that are named.\n"
        "Times are meaningful only on an idle machine; ratios tolerate a little noise.",
    .run = run_bench,
};
