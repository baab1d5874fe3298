/* The training of random programs: the optimizer's options, groups of parameters, and the graphs of a step. */
#include <stdlib.h>

#include "base/status.h"
#include "tools/verify/program_build.h"

/* Options of groups 1 and up, for the parameters that match a pattern. */
typedef struct group_row {
    const char *pattern;
    tuff_parameter_group options;
} group_row;

static const group_row group_rows[][PROGRAM_GROUPS] = {
    [GROUPS_NONE] = {{.pattern = NULL}},
    [GROUPS_RATES] = {{PROGRAM_VECTORS, {.rate_factor = 0.5}},
                      {PROGRAM_LAYER, {.rate_factor = 2, .elementwise = true}}},
    [GROUPS_DECAY] = {{PROGRAM_VECTORS, {.weight_decay = 0.05}}, {PROGRAM_LAYER, {.weight_decay = -1}}},
    [GROUPS_FROZEN_LAYER] = {{PROGRAM_LAYER, {.frozen = true}}},
    [GROUPS_FROZEN_BIASES] = {{PROGRAM_VECTORS, {.frozen = true}}},
};

static void choose_rule(const program_recipe *recipe, tuff_optimizer_options *made)
{
    typedef struct rule_row {
        tuff_optimizer_kind kind;
        double rate, epsilon, momentum;
        bool nesterov;
    } rule_row;
    static const rule_row rows[] = {
        [OPTIMIZER_MOMENTUM] = {.kind = TUFF_SGD, .rate = 1e-2, .momentum = 0.9},
        [OPTIMIZER_SGD] = {.kind = TUFF_SGD, .rate = 1e-2},
        [OPTIMIZER_NESTEROV] = {.kind = TUFF_SGD, .rate = 1e-2, .momentum = 0.9, .nesterov = true},
        [OPTIMIZER_ADAMW] = {.kind = TUFF_ADAMW, .rate = 1e-3},
        [OPTIMIZER_SMOOTH_ADAMW] = {.kind = TUFF_ADAMW, .rate = 1e-3, .epsilon = 1e-2},
        [OPTIMIZER_SMOOTH_ADAM] = {.kind = TUFF_ADAM, .rate = 1e-3, .epsilon = 1e-2},
        [OPTIMIZER_LION] = {.kind = TUFF_LION, .rate = 1e-3},
        [OPTIMIZER_ADAFACTOR] = {.kind = TUFF_ADAFACTOR, .rate = 1e-2},
        [OPTIMIZER_SMOOTH_ADAFACTOR] = {.kind = TUFF_ADAFACTOR, .rate = 1e-2, .epsilon = 1e-4},
        [OPTIMIZER_MUON] = {.kind = TUFF_MUON, .rate = 1e-2},
    };
    _Static_assert(sizeof rows / sizeof *rows == OPTIMIZER_COUNT, "each optimizer has a row");
    const rule_row *row = &rows[program_choice(recipe, FIELD_OPTIMIZER)];
    made->kind = row->kind;
    made->learning_rate = row->rate;
    made->epsilon = row->epsilon;
    made->momentum = row->momentum;
    made->nesterov = row->nesterov;
    made->elementwise_rate = row->kind == TUFF_MUON ? 3e-3 : 0;
}

static void choose_schedule(const program_recipe *recipe, tuff_optimizer_options *made)
{
    static const tuff_schedule schedules[] = {TUFF_SCHEDULE_CONSTANT, TUFF_SCHEDULE_COSINE, TUFF_SCHEDULE_LINEAR,
                                              TUFF_SCHEDULE_ONE_CYCLE};
    made->schedule = schedules[program_choice(recipe, FIELD_SCHEDULE)];
    if (program_choice(recipe, FIELD_SCHEDULE) == 0)
        return;
    made->warmup_steps = 1;
    made->total_steps = 4;
    made->final_fraction = 0.1;
}

/* Options without groups, which the caller adds. */
static tuff_optimizer_options optimizer_options(const program_recipe *recipe)
{
    static const tuff_loss_scaling kept = {.initial = 0x1p10}, grows = {.initial = 0x1p8, .interval = 1};
    const int decay = program_choice(recipe, FIELD_DECAY), clip = program_choice(recipe, FIELD_CLIP),
              scaling = program_choice(recipe, FIELD_SCALING);
    tuff_optimizer_options made = {
        .weight_decay = decay != 0 ? 0.1 : 0,
        .decay_all = decay == 2,
        .clip_norm = clip == CLIP_NORM || clip == CLIP_ALL ? 0.5 : 0,
        .clip_value = clip == CLIP_VALUE || clip == CLIP_ALL ? 0.02 : 0,
        .loss_scaling = scaling == SCALING_GROWS ? &grows
                        : scaling != 0           ? &kept
                                                 : NULL,
        .accumulate = program_run_count(recipe),
        .average_decay = program_number(recipe, FIELD_AVERAGE),
    };
    choose_rule(recipe, &made);
    choose_schedule(recipe, &made);
    return made;
}

static bool clips_groups(const program_recipe *recipe)
{
    return program_choice(recipe, FIELD_CLIP) == CLIP_GROUPS || program_choice(recipe, FIELD_CLIP) == CLIP_ALL;
}

tuff_status program_state_make(const program_recipe *recipe, tuff_device *device, program_state *out)
{
    const group_row *rows = group_rows[program_choice(recipe, FIELD_GROUPS)];
    tuff_parameter_group groups[1 + PROGRAM_GROUPS] = {{.rate_factor = 1}};
    const char *patterns[PROGRAM_GROUPS];
    tuff_optimizer_options options = optimizer_options(recipe);
    *out = (program_state){.parameters = NULL};
    for (int i = 0; i < PROGRAM_GROUPS; i++)
        patterns[i] = rows[i].pattern;
    TRY(program_build_parameters(recipe, device, patterns, &out->parameters));
    options.group_count = 1;
    for (int i = 0; i < PROGRAM_GROUPS; i++)
        if (patterns[i] != NULL)
            groups[options.group_count++] = rows[i].options;
    for (int i = 0; i < options.group_count && clips_groups(recipe); i++)
        groups[i].clip_norm = 0.2 * (i + 1);
    options.groups = groups;
    out->optimizer = tuff_optimizer_create(out->parameters, &options);
    const tuff_status status = out->optimizer != NULL ? TUFF_OK : tuff_last_status();
    if (status != TUFF_OK)
        program_state_free(out);
    return status;
}

void program_state_free(program_state *state)
{
    tuff_optimizer_destroy(state->optimizer);
    tuff_parameters_destroy(state->parameters);
    *state = (program_state){.parameters = NULL};
}

int program_run_count(const program_recipe *recipe)
{
    return (int)program_size(recipe, FIELD_ACCUMULATE);
}

int program_graph_count(const program_recipe *recipe)
{
    return program_run_count(recipe) > 1 ? 2 : 1;
}

static tuff_status build_step(const program_recipe *recipe, tuff_graph *graph, const program_state *state, int index,
                              tuff_optimizer_tensors *made)
{
    tuff_tensor *loss;
    tuff_graph_step(graph, tuff_optimizer_batch_counter(state->optimizer));
    if (index > 0)
        return tuff_optimizer_update(state->optimizer, graph, made);
    TRY(program_build_loss(recipe, graph, state->parameters, &loss));
    return program_run_count(recipe) > 1 ? tuff_optimizer_accumulate(state->optimizer, loss)
                                         : tuff_optimizer_apply(state->optimizer, loss, made);
}

tuff_graph *program_graph(const program_recipe *recipe, tuff_device *device, const program_state *state, int index)
{
    tuff_optimizer_tensors made = {.loss = NULL};
    tuff_graph *graph = tuff_graph_create(device);
    if (graph == NULL)
        return NULL;
    if (build_step(recipe, graph, state, index, &made) != TUFF_OK) {
        tuff_graph_destroy(graph);
        return NULL;
    }
    if (made.loss != NULL) {
        tuff_output(graph, "loss", made.loss);
        tuff_output(graph, "norm", made.gradient_norm);
        tuff_output(graph, "rate", made.learning_rate);
    }
    return graph;
}
