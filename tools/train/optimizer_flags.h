/* The options of tuff train about the optimizer: read from the command line, kept in a checkpoint, and converted to
   those of the library. */
#ifndef TUFF_TOOLS_TRAIN_OPTIMIZER_FLAGS_H
#define TUFF_TOOLS_TRAIN_OPTIMIZER_FLAGS_H

#include <jansson.h>

#include "tools/cli/cli.h"
#include "tools/model/model.h"

/* Settings of the optimizer. A momentum or warmup of -1, and a beta1, beta2 or epsilon of 0, mean the default, which
   may depend on the kind. */
typedef struct optimizer_flags {
    int kind, schedule; /* indices of choices: kind as tuff_optimizer_kind, schedule as in RATE_OPTIONS */
    int nesterov;       /* a choice: 0 off, 1 on */
    double weight_decay, momentum, clip, clip_value, average, final_fraction, beta1, beta2, epsilon;
    int64_t warmup, accumulate;
    int64_t epoch_steps; /* steps per epoch, the unit of warmup and schedule; 0: the rate changes with each step */
    int64_t update_top;  /* number of parameters that a step updates; 0: all */
    char loss_scale[32]; /* "off", "auto" or a number */
    char groups[512];    /* "PATTERN:rate=0.1,decay=0;..." */
    char rates[512];     /* file of learning rates that replaces the schedule; "": none */
    uint64_t rates_hash; /* hash of the rates in the file */
} optimizer_flags;

/* Which settings the command line gave. loss_scale, rates and groups are the strings themselves. */
typedef struct optimizer_given {
    bool kind, schedule, weight_decay, momentum, clip, clip_value, average, final_fraction, warmup, accumulate;
    bool nesterov, beta1, beta2, epsilon, epoch_steps, update_top;
    const char *loss_scale, *rates;
    cli_strings groups;
} optimizer_given;

/* The default: AdamW, decay 0.1, gradient norm clipped to 1, a cosine schedule to a tenth. */
optimizer_flags optimizer_flags_default(void);

/* Rows of the verb's table of options. */
/* clang-format off */
#define RULE_OPTIONS(flags, given) \
    {"--optimizer", CLI_CHOICE, &(flags)->kind, "adamw|sgd|adam|lion|adafactor|muon", "update rule", 0, 0, \
     &(given)->kind}, \
    {"--weight-decay", CLI_NUMBER, &(flags)->weight_decay, "R", "weight decay of matrices; default 0.1", 0, 100, \
     &(given)->weight_decay}, \
    {"--momentum", CLI_NUMBER, &(flags)->momentum, "R", "momentum of sgd (default 0.9) and muon (default 0.95)", 0, \
     0.9999, &(given)->momentum}, \
    {"--nesterov", CLI_CHOICE, &(flags)->nesterov, "off|on", "Nesterov momentum for sgd", 0, 0, \
     &(given)->nesterov}, \
    {"--beta1", CLI_NUMBER, &(flags)->beta1, "R", \
     "adamw, adam, lion, and muon's vectors: decay of the mean of gradients; default 0.9", 1e-6, \
     0.999999, &(given)->beta1}, \
    {"--beta2", CLI_NUMBER, &(flags)->beta2, "R", \
     "the same: decay of the mean of squared gradients, or of lion's momentum; default 0.95, lion 0.99", 1e-6, \
     0.999999, &(given)->beta2}, \
    {"--epsilon", CLI_NUMBER, &(flags)->epsilon, "R", \
     "added to divisors, except in sgd and lion; default 1e-8; adafactor adds it to squared gradients, default 1e-30", \
     1e-37, 1, &(given)->epsilon}, \
    {"--clip", CLI_NUMBER, &(flags)->clip, "R", "clip the norm of all gradients to R; 0: no clipping; default 1", 0, \
     1e9, &(given)->clip}, \
    {"--clip-value", CLI_NUMBER, &(flags)->clip_value, "R", "clip each gradient element to +-R; 0: no clipping", 0, \
     1e9, &(given)->clip_value}
#define RATE_OPTIONS(flags, given) \
    {"--schedule", CLI_CHOICE, &(flags)->schedule, "cosine|constant|linear|one_cycle", \
     "learning rate after the warm-up", 0, 0, &(given)->schedule}, \
    {"--warmup", CLI_INTEGER, &(flags)->warmup, "N", \
     "warm-up steps, or epochs with --epoch-steps; 0: none (one_cycle: 30 % of all steps); default: a tenth of all " \
     "steps, at most 100", \
     0, 1 << 24, &(given)->warmup}, \
    {"--final-rate", CLI_NUMBER, &(flags)->final_fraction, "R", \
     "final learning rate as a fraction of the peak; default 0.1", 0, 1, &(given)->final_fraction}, \
    {"--epoch-steps", CLI_INTEGER, &(flags)->epoch_steps, "N", \
     "steps per epoch: the learning rate changes only between epochs; 0: it changes every step", 0, 1 << 24, \
     &(given)->epoch_steps}, \
    {"--rates", CLI_TEXT, &(given)->rates, "FILE", \
     "read learning rates instead of using a schedule, one line per step or epoch; the last one stays", 0, 0, NULL}
#define OPTIMIZER_OPTIONS(flags, given) \
    RULE_OPTIONS(flags, given), \
    RATE_OPTIONS(flags, given), \
    {"--accumulate", CLI_INTEGER, &(flags)->accumulate, "N", \
     "accumulate the gradients of N batches per step; default 1", 1, 1 << 16, &(given)->accumulate}, \
    {"--ema", CLI_NUMBER, &(flags)->average, "D", \
     "keep an exponential moving average of the weights with decay D, for validation and the sample", 0, 0.999999999, \
     &(given)->average}, \
    {"--update-top", CLI_INTEGER, &(flags)->update_top, "K", \
     "in each step, update only the K parameters with the largest gradient norms; 0: all", 0, 1 << 20, \
     &(given)->update_top}, \
    {"--loss-scale", CLI_TEXT, &(given)->loss_scale, "auto|off|N", \
     "scale the loss, by a fixed N or dynamically (auto), and skip steps that overflow; default off; auto " \
     "with --precision f16", \
     0, 0, NULL}, \
    {"--group", CLI_TEXTS, &(given)->groups, "NAMES:SETTINGS", \
     "other settings for some parameters, as in '*.bias,*.gain:rate=0.5' or 'wte,wpe:decay=0'; settings are " \
     "rate=FACTOR, decay=R (of matrices), clip=NORM, frozen, elementwise (muon); may be given several times", \
     0, 0, NULL}
/* clang-format on */

/* Copies the strings that were given to flags, and checks everything. EXIT_USAGE with a message if a string is
   invalid. The file of rates is read later (rates.h). */
cli_end optimizer_flags_check(const cli_verb *verb, const optimizer_given *given, optimizer_flags *flags);
/* Sets everything that was not given to its value in `saved`, and warns on standard error of settings that differ from
   it. */
void optimizer_flags_merge(const optimizer_given *given, const optimizer_flags *saved, optimizer_flags *flags);
/* Fails if an option was given that has no effect with this kind of optimizer or this schedule. To be called after the
   merge. */
cli_end optimizer_flags_check_kind(const cli_verb *verb, const optimizer_given *given, const optimizer_flags *flags);
/* Fails if a group that was given sets a decay but has no parameter that decays. Groups of a checkpoint are
   accepted. */
cli_end optimizer_flags_check_groups(const cli_verb *verb, const optimizer_given *given, const optimizer_flags *flags,
                                     const model_config *model);
void optimizer_given_free(optimizer_given *given);
/* Whether the loss is scaled. */
bool optimizer_flags_scales_loss(const optimizer_flags *flags);

/* Converts to a JSON object, a new reference; NULL if out of memory. */
json_t *optimizer_flags_json(const optimizer_flags *flags);
/* Parses such an object. Missing keys, as in checkpoints of earlier versions, get defaults. Returns false if a value is
   malformed. */
bool optimizer_flags_parse(const json_t *object, optimizer_flags *out);

/* Options of the library, and the objects they point to. */
typedef struct optimizer_setup {
    tuff_optimizer_options options;
    tuff_loss_scaling scaling;
    tuff_parameter_group groups[TUFF_MAX_GROUPS];
    const char *patterns[TUFF_MAX_GROUPS];
    int pattern_count;
    int64_t update_top; /* options.choose_user points to it */
    char text[512];
} optimizer_setup;
/* Fills *out, which must not be moved afterwards. */
void optimizer_setup_make(const optimizer_flags *flags, double learning_rate, int64_t steps, optimizer_setup *out);

#endif
