/* tuff tune report: writes the results of tuning as a page or as JSON. */
#include <stdio.h>
#include <string.h>

#include "base/file/file.h"
#include "io/json.h"
#include "tools/model/options.h"
#include "tools/tune/report_data.h"
#include "tools/tune/verbs.h"

typedef struct report_options {
    cache_common common;
    model_options description;
    const char *path;
} report_options;

static int write_page(const json_t *data, const char *path)
{
    text page = {0};
    int code = EXIT_DONE;
    if (report_page(data, &page) != TUFF_OK)
        code = cli_fail_library(&tune_verb_report, "creating the page");
    const file_part part = {tuff__text_get(&page), page.length};
    if (code == EXIT_DONE && !path && fwrite(part.data, 1, part.size, stdout) != part.size)
        code = cli_fail(&tune_verb_report, EXIT_FAILED, "cannot write the output");
    if (code == EXIT_DONE && path && tuff__file_write(path, &part, 1, false, false) != TUFF_OK)
        code = cli_fail_library(&tune_verb_report, "--out");
    tuff__text_free(&page);
    return code;
}

static int print(const report_options *self, json_t *data)
{
    if (!data)
        return cli_fail(&tune_verb_report, EXIT_FAILED, "out of memory");
    if (self->common.json)
        return cache_print_json(&tune_verb_report, data, EXIT_DONE);
    const int code = write_page(data, self->path);
    json_decref(data);
    return code;
}

/* common: selects the stores by --device; NULL: all. */
static int report_on(const report_options *self, const cache_common *common, const model_plans *plans,
                     const tune_environment *here)
{
    tuff_cache *cache;
    int code = common ? cache_open(&tune_verb_report, common, &cache) : cache_open_any(&tune_verb_report, NULL, &cache);
    if (code != CACHE_OK)
        return code;
    tuff__json_begin();
    code = print(self, report_data(cache, plans, here));
    tuff_cache_close(cache);
    return code;
}

static int report_model(const report_options *self)
{
    int code = EXIT_FAILED;
    tuff_device_info info;
    tune_environment here;
    model_plans plans = {0};
    const tuff_compile_options options = {.describe_only = true};
    tuff_device *device = cli_open_device(&tune_verb_report, self->common.selector, &code);
    if (!device)
        return code;
    if (tuff_device_describe(device, &info) != TUFF_OK || tuff_device_set_describe_only(device) != TUFF_OK ||
        model_plans_open(device, &self->description, &options, &plans) != TUFF_OK) {
        code =
            cli_fail_library(&tune_verb_report, self->description.file ? "compiling the graph" : "compiling the model");
    } else {
        tuff__environment_from_info(&info, &here);
        code = report_on(self, NULL, &plans, &here);
    }
    model_plans_destroy(&plans);
    tuff_device_close(device);
    return code;
}

static int report(int count, char **arguments)
{
    report_options self = {.description = MODEL_OPTIONS_DEFAULT};
    const cli_option options[] = {
        CACHE_COMMON(self.common),
        {.name = "--out",
         .kind = CLI_TEXT,
         .value = &self.path,
         .placeholder = "FILE",
         .help = "write the page to FILE instead of standard output"},
        MODEL_OPTIONS(&self.description),
    };
    const cli_end end = cache_parse(&tune_verb_report, options, sizeof options / sizeof *options, count, arguments,
                                    &self.description.file, NULL, &self.common);
    if (end.now)
        return end.code;
    if (self.common.json && self.path)
        return cli_fail(&tune_verb_report, EXIT_USAGE, "--out cannot be combined with --json");
    if (!self.description.given && !self.description.file)
        return report_on(&self, &self.common, NULL, NULL);
    if (model_options_complete(&self.description) != TUFF_OK)
        return cli_fail(&tune_verb_report, EXIT_USAGE, "%s", tuff_error());
    return report_model(&self);
}

const cli_verb tune_verb_report = {
    .name = "tune report",
    .operand = GRAPH_OPERAND,
    .summary = "Writes the results of tuning as a self-contained HTML page, or as JSON.",
    .about =
        "Shows for each key the default, the winner, the spread of the candidates' times, and which candidates were\n"
        "rejected and why. With model options (such as --layers) or a graph FILE (see tuff tune warm), shows only the\n"
        "keys of its plans, on one device, with the share of the kernels' time that tuning saves.",
    .run = report,
};
