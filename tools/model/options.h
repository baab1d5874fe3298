/* The rows of an option table that describe a model, for verbs that compile one without training it. */
#ifndef TUFF_TOOLS_MODEL_OPTIONS_H
#define TUFF_TOOLS_MODEL_OPTIONS_H

#include "tools/cli/cli.h"
#include "tools/model/model.h"

typedef struct model_options {
    model_config model;
    int64_t batch;
    int form;
    bool given;         /* whether any of the options was given; if not, the defaults describe a model too */
    bool recompute;     /* for verbs with RECOMPUTE_OPTION */
    const char *file;   /* a graph file in place of a model; NULL: none. The operand of most verbs */
    int precision;      /* for verbs with PRECISION_OPTION: a tuff_precision */
    bool has_precision; /* it was given, so the file's is ignored */
    bool has_matmul_precision;          /* --matmul-precision was given, so the file's is ignored */
    const tuff_optimizer_options *rule; /* optimizer of the training step; NULL: model_optimizer_options */
} model_options;

/* How verbs name their operand, and what --help says about it. */
#define GRAPH_OPERAND "[FILE]"
#define GRAPH_ABOUT                                                                                             \
    "FILE is a graph that was saved by tuff_graph_save, or by tuff train or tuff plan with --save-graph. It\n"  \
    "replaces the model, and is compiled with the options that were saved with it. Its inputs and arrays get\n" \
    "random values."

#define MODEL_OPTIONS_DEFAULT                                                                                   \
    {                                                                                                           \
        .model = {.form = MODEL_GPT, .layers = 4, .heads = 4, .width = 128, .context = 128, .vocabulary = 256}, \
        .batch = 8                                                                                              \
    }

#define MODEL_OPTIONS(options)                                                                                         \
    {"--form", CLI_CHOICE, &(options)->form, "gpt|llama", "architecture of the model", 0, 0, &(options)->given},       \
        {"--layers", CLI_INTEGER, &(options)->model.layers, "N", "transformer blocks", 1, 1000, &(options)->given},    \
        {"--heads", CLI_INTEGER, &(options)->model.heads, "N", "attention heads; must divide the width",               \
         1,         1 << 20,     &(options)->given},                                                                   \
        {"--key-value-heads",                                                                                          \
         CLI_INTEGER,                                                                                                  \
         &(options)->model.key_value_heads,                                                                            \
         "N",                                                                                                          \
         "llama: number of key and value heads; 0: same as --heads",                                                   \
         0,                                                                                                            \
         1 << 20,                                                                                                      \
         &(options)->given},                                                                                           \
        {"--width", CLI_INTEGER, &(options)->model.width, "N", "width of the residual stream",                         \
         1,         1 << 20,     &(options)->given},                                                                   \
        {"--hidden", CLI_INTEGER, &(options)->model.hidden, "N", "llama: hidden size of the MLP; 0: 8/3 of the width", \
         0,          1 << 20,     &(options)->given},                                                                  \
        {"--context", CLI_INTEGER, &(options)->model.context, "N", "context length in bytes",                          \
         1,           1 << 20,     &(options)->given},                                                                 \
    {                                                                                                                  \
        "--batch", CLI_INTEGER, &(options)->batch, "N", "sequences per step", 1, 1 << 20, &(options)->given            \
    }

/* Fills in the defaults of members that depend on others, then checks the configuration. form: index of the choice. */
tuff_status model_config_complete(model_config *model, int form);
/* Completes the model. TUFF_E_USAGE also if the command line has both a file and options of a model. */
tuff_status model_options_complete(model_options *self);
/* Whether a word of the command line names a graph file: it has a dot or a slash, which no kernel, op or suite has in
   its name, or it is the path of such a file. */
bool is_graph_file(const char *word);

#endif
