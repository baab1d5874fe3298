/* Recipes of random programs: the table of their fields, drawing, conversion to and from text, and shrinking. */
#include "tools/verify/program.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tools/model/random.h"

enum { MAX_VALUES = 16 };

/* The values of a field, the simplest first, and the weight with which each is drawn. Extents are 1, primes, and one
   above and below the tile sizes of kernels. */
typedef struct field_row {
    const char *name;
    const char *values[MAX_VALUES];
    unsigned char weights[MAX_VALUES];
    bool varies; /* differs within a family */
} field_row;

#define OPTIMIZER_NAMES                                                                                             \
    "momentum", "sgd", "nesterov", "adamw", "smooth_adamw", "smooth_adam", "lion", "adafactor", "smooth_adafactor", \
        "muon"
_Static_assert(sizeof((const char *[]){OPTIMIZER_NAMES}) / sizeof(char *) == OPTIMIZER_COUNT,
               "each optimizer has a name");

static const field_row rows[FIELD_COUNT] = {
    [FIELD_FORM] = {"form", {"mlp", "convolution", "transformer", "images"}, {5, 2, 4, 2}, false},
    [FIELD_LAYERS] = {"layers", {"1", "2", "3"}, {12, 3, 1}, false},
    [FIELD_BATCH] = {"batch",
                     {"1", "2", "3", "4", "5", "7", "8", "13", "17", "33"},
                     {2, 2, 2, 2, 2, 2, 1, 1, 1, 1},
                     false},
    [FIELD_LENGTH] = {"length",
                      {"1", "2", "3", "5", "7", "13", "16", "17", "29", "32", "33", "50"},
                      {1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 1},
                      false},
    [FIELD_WIDTH] = {"width",
                     {"1", "2", "3", "6", "8", "10", "13", "16", "17", "18", "31", "32", "33", "34", "65", "96"},
                     {1, 1, 1, 3, 3, 3, 2, 3, 3, 3, 2, 3, 3, 3, 1, 1},
                     false},
    [FIELD_HEADS] = {"heads", {"1", "2", "3", "5"}, {4, 4, 2, 1}, false},
    [FIELD_SHARING] = {"sharing", {"1", "2", "3", "5"}, {5, 3, 1, 1}, false},
    [FIELD_HIDDEN] = {"hidden", {"1", "5", "17", "32", "47", "64", "129"}, {1, 1, 2, 2, 2, 2, 1}, false},
    [FIELD_INPUTS] = {"inputs", {"2", "3", "7", "16", "31", "64", "65"}, {2, 2, 2, 2, 2, 2, 2}, false},
    [FIELD_CLASSES] = {"classes", {"2", "3", "10", "16", "17", "65"}, {2, 2, 2, 2, 2, 1}, false},
    [FIELD_PATCH] = {"patch", {"1", "2", "3"}, {1, 2, 3}, false},
    [FIELD_MASK] = {"mask", {"causal", "none", "window", "lengths", "segments"}, {4, 2, 1, 2, 2}, false},
    [FIELD_POSITIONS] = {"positions", {"none", "learned", "interleaved", "half", "bias"}, {2, 4, 2, 2, 1}, false},
    [FIELD_PROJECTIONS] = {"projections", {"joined", "apart"}, {1, 1}, false},
    [FIELD_NORM] = {"norm", {"none", "layer", "plain", "rms", "group"}, {2, 4, 1, 3, 2}, false},
    [FIELD_NORM_PLACE] = {"place", {"before", "behind"}, {3, 1}, false},
    [FIELD_ACTIVATION] = {"activation",
                          {"none", "relu", "gelu", "gelu_tanh", "silu", "tanh", "swiglu"},
                          {1, 2, 2, 2, 2, 1, 2},
                          false},
    [FIELD_BIAS] = {"bias", {"no", "yes"}, {1, 3}, false},
    [FIELD_RESIDUAL] = {"residual", {"no", "yes"}, {1, 1}, true},
    [FIELD_TIED] = {"tied", {"no", "yes"}, {2, 1}, true},
    [FIELD_DROPOUT] = {"dropout", {"0", "0.1", "0.5"}, {5, 1, 1}, false},
    [FIELD_READOUT] = {"readout", {"tokens", "mean", "last"}, {3, 1, 1}, true},
    [FIELD_LOSS] = {"loss", {"cross_entropy", "smoothed", "squares"}, {4, 1, 2}, true},
    [FIELD_PARTS] = {"parts", {"1", "2", "3"}, {8, 1, 1}, false},
    [FIELD_RECOMPUTE] = {"recompute", {"no", "yes"}, {4, 1}, true},
    [FIELD_OPTIMIZER] = {"optimizer", {OPTIMIZER_NAMES}, {2, 1, 1, 2, 2, 1, 2, 1, 1, 2}, true},
    [FIELD_DECAY] = {"decay", {"0", "0.1", "all"}, {2, 1, 1}, true},
    [FIELD_CLIP] = {"clip", {"0", "0.5", "value", "groups", "all"}, {4, 2, 1, 1, 1}, true},
    [FIELD_SCHEDULE] = {"schedule", {"constant", "cosine", "linear", "one_cycle"}, {6, 1, 1, 1}, true},
    [FIELD_STEPS] = {"steps", {"1", "2", "3"}, {1, 2, 1}, true},
    [FIELD_FUSE] = {"fuse", {"all", "none"}, {9, 1}, false},
    [FIELD_FAMILY] = {"family", {"device", "register", "local"}, {6, 1, 1}, false},
    [FIELD_STRIDE] = {"stride", {"1", "2"}, {2, 1}, false},
    [FIELD_POOL] = {"pool", {"none", "max", "average", "overlapping"}, {2, 2, 1, 1}, false},
    [FIELD_SCALING] = {"scaling", {"no", "yes", "grows"}, {6, 1, 1}, true},
    [FIELD_PRECISION] = {"precision", {"f32", "f16", "bf16"}, {4, 1, 1}, false},
    [FIELD_GROUPS] = {"groups", {"none", "rates", "decay", "frozen_layer", "frozen_biases"}, {4, 1, 1, 1, 1}, true},
    [FIELD_ACCUMULATE] = {"accumulate", {"1", "2", "3"}, {6, 1, 1}, true},
    [FIELD_AVERAGE] = {"average", {"0", "0.9"}, {3, 1}, true},
};

static int count_of(program_field field)
{
    int count = 0;
    while (count < MAX_VALUES && rows[field].values[count] != NULL)
        count++;
    return count;
}

double program_number(const program_recipe *recipe, program_field field)
{
    char *end;
    const char *value = rows[field].values[recipe->choices[field]];
    const double number = strtod(value, &end);
    return *end == '\0' ? number : recipe->choices[field];
}

int64_t program_size(const program_recipe *recipe, program_field field)
{
    return (int64_t)program_number(recipe, field);
}

int program_choice(const program_recipe *recipe, program_field field)
{
    return recipe->choices[field];
}

uint64_t program_family(uint64_t seed)
{
    return seed / PROGRAM_FAMILY;
}

static unsigned char draw_value(uint64_t seed, program_field field)
{
    const field_row *row = &rows[field];
    const int count = count_of(field);
    int total = 0, at = 0;
    for (int i = 0; i < count; i++)
        total += row->weights[i];
    int roll =
        (int)(random_bits(random_key(row->varies ? seed : program_family(seed), row->name), 0) % (uint64_t)total);
    for (; roll >= row->weights[at]; at++)
        roll -= row->weights[at];
    return (unsigned char)at;
}

/* Approximate number of multiplications of a step. */
static double cost(const program_recipe *recipe)
{
    const double layers = program_number(recipe, FIELD_LAYERS), batch = program_number(recipe, FIELD_BATCH),
                 length = program_number(recipe, FIELD_LENGTH), width = program_number(recipe, FIELD_WIDTH),
                 inputs = program_number(recipe, FIELD_INPUTS), classes = program_number(recipe, FIELD_CLASSES),
                 patch = program_number(recipe, FIELD_PATCH), hidden = program_number(recipe, FIELD_HIDDEN),
                 stream = width * program_number(recipe, FIELD_HEADS);
    switch (program_choice(recipe, FIELD_FORM)) {
    case FORM_MLP:
        return 3 * batch * (inputs * width + layers * width * width + width * classes);
    case FORM_CONVOLUTION:
    case FORM_IMAGES:
        return 3 * batch * length * length * patch * patch * width * (inputs + (layers - 1) * width);
    default:
        return 3 * batch * length *
               (layers * (4 * stream * stream + 2 * length * stream + 3 * hidden * stream) +
                (inputs + classes) * stream);
    }
}

/* Limits the cost by reducing the fields that make a program large, the relatively largest value first. */
static void limit_cost(program_recipe *recipe, double most)
{
    static const program_field fields[] = {FIELD_BATCH, FIELD_LENGTH, FIELD_WIDTH, FIELD_HIDDEN, FIELD_INPUTS};
    enum { FIELDS = sizeof fields / sizeof *fields };
    while (cost(recipe) > most) {
        int largest = 0;
        for (int i = 1; i < FIELDS; i++)
            if (recipe->choices[fields[i]] * count_of(fields[largest]) >
                recipe->choices[fields[largest]] * count_of(fields[i]))
                largest = i;
        if (recipe->choices[fields[largest]] == 0)
            return;
        recipe->choices[fields[largest]]--;
    }
}

/* Whether a norm would have too few elements. A norm of one or two elements hardly depends on them: its gradients are
   only rounding errors. */
static bool is_norm_too_small(const program_recipe *recipe)
{
    enum { MIN_WIDTH = 6 };
    const int64_t heads =
        program_choice(recipe, FIELD_FORM) == FORM_TRANSFORMER ? program_size(recipe, FIELD_HEADS) : 1;
    return heads * program_size(recipe, FIELD_WIDTH) < MIN_WIDTH;
}

program_recipe program_draw(uint64_t seed)
{
    program_recipe made = {.seed = seed};
    for (int i = 0; i < FIELD_COUNT; i++)
        made.choices[i] = draw_value(seed, (program_field)i);
    limit_cost(&made, program_choice(&made, FIELD_FORM) == FORM_MLP ? 1e6 : 4e6);
    if (is_norm_too_small(&made))
        made.choices[FIELD_NORM] = NORM_NONE;
    return made;
}

void program_describe(const program_recipe *recipe, char *line, size_t size)
{
    size_t length = (size_t)snprintf(line, size, "seed=%" PRIu64, recipe->seed);
    for (int i = 0; i < FIELD_COUNT && length < size; i++)
        if (recipe->choices[i] > 0)
            length += (size_t)snprintf(line + length, size - length, " %s=%s", rows[i].name,
                                       rows[i].values[recipe->choices[i]]);
}

/* Parses a word, which must be NAME=VALUE of a field, into the recipe. */
static bool parse_word(const char *word, size_t length, program_recipe *out)
{
    char *end;
    if (strncmp(word, "seed=", 5) == 0) {
        out->seed = strtoull(word + 5, &end, 10);
        return end == word + length && end > word + 5;
    }
    for (int i = 0; i < FIELD_COUNT; i++)
        for (int k = 0; k < count_of((program_field)i); k++) {
            char text[64];
            const int size = snprintf(text, sizeof text, "%s=%s", rows[i].name, rows[i].values[k]);
            if ((size_t)size == length && strncmp(text, word, length) == 0) {
                out->choices[i] = (unsigned char)k;
                return true;
            }
        }
    return false;
}

tuff_status program_parse(const char *line, program_recipe *out)
{
    *out = (program_recipe){.seed = 1};
    for (line += strspn(line, " "); *line != '\0'; line += strspn(line, " ")) {
        const size_t length = strcspn(line, " ");
        if (!parse_word(line, length, out))
            return FAIL(TUFF_E_USAGE, "random program: invalid word \"%.*s\"", length < 80 ? (int)length : 80, line);
        line += length;
    }
    return TUFF_OK;
}

/* Tries simpler values of a field, the simplest first, while tries are left. */
static bool shrink_field(program_recipe *recipe, int field, bool (*fails)(void *, const program_recipe *), void *state,
                         int *tries)
{
    const int at = recipe->choices[field];
    for (int step = at; step > 0 && *tries > 0; step /= 2) { /* to 0, half of the way, a quarter */
        program_recipe simpler = *recipe;
        simpler.choices[field] = (unsigned char)(at - step);
        --*tries;
        if (fails(state, &simpler)) {
            *recipe = simpler;
            return true;
        }
    }
    return false;
}

void program_shrink(program_recipe *recipe, bool (*fails)(void *state, const program_recipe *recipe), void *state,
                    int tries)
{
    bool changed = true;
    while (changed && tries > 0) {
        changed = false;
        for (int i = 0; i < FIELD_COUNT; i++)
            changed |= shrink_field(recipe, i, fails, state, &tries);
    }
}
