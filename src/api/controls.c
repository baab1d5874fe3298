/* Environment variables that set tuning options, for users who cannot change the program (docs/tuning.md). */
#include "api/controls.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* Warns once per variable, because programs compile many plans. */
static void warn(atomic_flag *warned, const char *name, const char *value, const char *expected)
{
    if (!atomic_flag_test_and_set(warned))
        tuff__log(TUFF_LOG_WARNING, "tune: ignoring %s=%.60s: expected %s", name, value, expected);
}

/* Returns the value of a variable; NULL if it is unset or empty. */
static const char *get_variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* Returns the index of a variable's value in words; -1 if it is unset or not among them. */
static int read_choice(const char *name, const char *const *words, int count, const char *expected, atomic_flag *warned)
{
    const char *value = get_variable(name);
    for (int i = 0; i < count && value != NULL; ++i)
        if (strcmp(value, words[i]) == 0)
            return i;
    if (value != NULL)
        warn(warned, name, value, expected);
    return -1;
}

static int read_mode(void)
{
    static const char *const names[] = {[TUFF_TUNE_CACHED] = "cached",
                                        [TUFF_TUNE_OFF] = "off",
                                        [TUFF_TUNE_QUICK] = "quick",
                                        [TUFF_TUNE_NORMAL] = "normal",
                                        [TUFF_TUNE_MAX] = "max"};
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    return read_choice("TUFF_TUNE", names, sizeof names / sizeof *names, "off, cached, quick, normal or max", &warned);
}

static int read_isolation(void)
{
    static const char *const names[] = {
        [TUFF_ISOLATE_AUTO] = "auto", [TUFF_ISOLATE_ON] = "on", [TUFF_ISOLATE_OFF] = "off"};
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    return read_choice("TUFF_TUNE_ISOLATE", names, sizeof names / sizeof *names, "auto, on or off", &warned);
}

static bool read_number(const char *name, uint32_t min, uint32_t max, atomic_flag *warned, uint32_t *out)
{
    enum { DIGITS = 10 };
    const char *value = get_variable(name);
    char expected[64];
    if (value == NULL)
        return false;
    const size_t length = strlen(value);
    /* strtoull would also take signs, blanks and trailing text. */
    if (length <= DIGITS && strspn(value, "0123456789") == length) {
        const unsigned long long number = strtoull(value, NULL, 10);
        if (number >= min && number <= max) {
            *out = (uint32_t)number;
            return true;
        }
    }
    (void)snprintf(expected, sizeof expected, "a whole number from %lu to %lu", (unsigned long)min, (unsigned long)max);
    warn(warned, name, value, expected);
    return false;
}

/* A list with one illegal entry is ignored as a whole: its other half would be a combination that nobody asked for. */
tune_config tuff__controls_passes(void)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    const tune_config none = {.set = {0}};
    const char *value = get_variable("TUFF_PASSES");
    tune_config passes = none;
    bool is_legal = value == NULL || tuff__config_parse(value, &passes) == TUFF_OK;
    for (int i = 0; i < TUNABLE_COUNT; ++i)
        is_legal = is_legal && (!tuff__config_has(&passes, (tunable)i) ||
                                strcmp(tuff__tunable_info((tunable)i)->kernel, "fusion") == 0);
    if (is_legal)
        return passes;
    warn(&warned, "TUFF_PASSES", value, "a list of rewrites such as fusion.columns=0");
    return none;
}

/* A variable normally fills in only what the program left at its default. ENVIRONMENT_ALL lets variables win over the
   program, ENVIRONMENT_NONE ignores them. */
void tuff__controls_apply(tuff_tune_options *options)
{
    static atomic_flag warned_budget = ATOMIC_FLAG_INIT, warned_seed = ATOMIC_FLAG_INIT,
                       warned_deterministic = ATOMIC_FLAG_INIT, warned_background = ATOMIC_FLAG_INIT;
    const bool all = options->environment == TUFF_TUNE_ENVIRONMENT_ALL;
    uint32_t number;
    int word;
    if (options->environment == TUFF_TUNE_ENVIRONMENT_NONE)
        return;
    if ((all || options->mode == TUFF_TUNE_CACHED) && (word = read_mode()) >= 0)
        options->mode = (tuff_tune_mode)word;
    if ((all || options->isolation == TUFF_ISOLATE_AUTO) && (word = read_isolation()) >= 0)
        options->isolation = (tuff_tune_isolation)word;
    if ((all || options->milliseconds == 0) &&
        read_number("TUFF_TUNE_BUDGET_MS", 1, UINT32_MAX, &warned_budget, &number))
        options->milliseconds = number;
    if ((all || options->seed == 0) && read_number("TUFF_TUNE_SEED", 0, UINT32_MAX, &warned_seed, &number))
        options->seed = number;
    if ((all || options->log == NULL) && get_variable("TUFF_TUNE_LOG") != NULL)
        options->log = get_variable("TUFF_TUNE_LOG");
    if ((all || !options->deterministic) && read_number("TUFF_DETERMINISTIC", 0, 1, &warned_deterministic, &number))
        options->deterministic = number == 1;
    if ((all || !options->background) && read_number("TUFF_TUNE_BACKGROUND", 0, 1, &warned_background, &number))
        options->background = number == 1;
}
