/* Command line options from tables: parsing, --help and messages are the same for every verb. */
#include "tools/cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void cli_texts_free(cli_strings *texts)
{
    tuff__free((void *)texts->items);
    *texts = (cli_strings){0};
}

static const char *program_of(const cli_verb *verb)
{
    return verb->program ? verb->program : "tuff";
}

int cli_fail(const cli_verb *verb, int code, const char *format, ...)
{
    va_list list;
    fprintf(stderr, "%s %s: ", program_of(verb), verb->name);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    if (code == EXIT_USAGE)
        fprintf(stderr, "%s %s --help lists the options\n", program_of(verb), verb->name);
    return code;
}

int cli_fail_library(const cli_verb *verb, const char *subject)
{
    return cli_fail(verb, EXIT_FAILED, "%s: %s", subject, tuff_error());
}

static int usage_error(const cli_verb *verb, const char *option, const char *wanted, const char *got)
{
    return cli_fail(verb, EXIT_USAGE, "%s takes %s, not \"%s\"", option, wanted, got);
}

/* Prints the words of a text in lines that begin at a column; the cursor is there for the first one. A newline counts
   as a space. */
static void print_words(const char *words, int column)
{
    enum { LINE = 110 };
    int at = column;
    for (size_t length; *words; words += length) {
        words += strspn(words, " \n");
        length = strcspn(words, " \n");
        if (at > column && at + 1 + (int)length > LINE) {
            printf("\n%*s", column, "");
            at = column;
        }
        at += printf("%s%.*s", at > column ? " " : "", (int)length, words);
    }
    putchar('\n');
}

static void print_option(const cli_option *option)
{
    enum { COLUMN = 29 };
    char text[512], value[32] = "";
    const int length = printf("  %s %s ", option->name, option->placeholder ? option->placeholder : "");
    if (option->kind == CLI_INTEGER && *(const int64_t *)option->value > 0)
        snprintf(value, sizeof value, " (%lld)", (long long)*(const int64_t *)option->value);
    if (option->kind == CLI_NUMBER && *(const double *)option->value > 0)
        snprintf(value, sizeof value, " (%g)", *(const double *)option->value);
    snprintf(text, sizeof text, "%s%s", option->help, value);
    printf(length > COLUMN ? "\n%*s" : "%*s", length > COLUMN ? COLUMN : COLUMN - length, "");
    print_words(text, COLUMN);
}

static void print_help(const cli_verb *verb, const cli_option *options, int count)
{
    const char *operand = verb->operand ? verb->operand : "";
    const cli_option help = {.name = "--help", .kind = CLI_SWITCH, .help = "print this help"};
    printf("usage: %s %s%s%s [OPTIONS]\n\n", program_of(verb), verb->name, *operand ? " " : "", operand);
    print_words(verb->summary, 0);
    if (verb->about)
        print_words(verb->about, 0);
    printf("\noptions (defaults in parentheses):\n");
    for (int i = 0; i < count; i++)
        print_option(&options[i]);
    print_option(&help);
}

cli_end cli_exit(int code)
{
    return (cli_end){.now = true, .code = code};
}

static const cli_option *find_option(const cli_option *options, int count, const char *name, size_t length)
{
    for (int i = 0; i < count; i++)
        if (strlen(options[i].name) == length && strncmp(options[i].name, name, length) == 0)
            return &options[i];
    return NULL;
}

static cli_end parse_integer(const cli_verb *verb, const cli_option *option, const char *text)
{
    char *rest, wanted[96];
    errno = 0;
    const long long value = strtoll(text, &rest, 10);
    snprintf(wanted, sizeof wanted, "a whole number from %.0f to %.0f", option->low, option->high);
    if (rest == text || *rest || errno || (double)value < option->low || (double)value > option->high)
        return cli_exit(usage_error(verb, option->name, wanted, text));
    *(int64_t *)option->value = value;
    return (cli_end){0};
}

/* Reads bytes as cli_bytes prints them: 1K is 1024, and so are 1KB and 1KiB. */
static cli_end parse_bytes(const cli_verb *verb, const cli_option *option, const char *text)
{
    static const char units[] = "KMG";
    char *rest, wanted[96];
    double value = strtod(text, &rest);
    const bool is_number = rest != text;
    const char *unit = *rest ? strchr(units, *rest) : NULL;
    for (ptrdiff_t i = 0; unit && i <= unit - units; i++)
        value *= 1024;
    rest += unit ? 1 : 0;
    rest += strcmp(rest, "B") == 0 || (unit && strcmp(rest, "iB") == 0) ? strlen(rest) : 0;
    snprintf(wanted, sizeof wanted, "a number of bytes, such as 65536, 512K, 100M or 1.5G, from %.0f to %g",
             option->low, option->high);
    if (!is_number || *rest || !(value >= option->low && value <= option->high))
        return cli_exit(usage_error(verb, option->name, wanted, text));
    *(int64_t *)option->value = (int64_t)value;
    return (cli_end){0};
}

static cli_end parse_number(const cli_verb *verb, const cli_option *option, const char *text)
{
    char *rest, wanted[96];
    const double value = strtod(text, &rest);
    if (rest != text && option->placeholder && strcmp(option->placeholder, "S") == 0 && strcmp(rest, "s") == 0)
        rest++; /* seconds may have their unit */
    snprintf(wanted, sizeof wanted, "a number from %g to %g", option->low, option->high);
    if (rest == text || *rest || !isfinite(value) || value < option->low || value > option->high)
        return cli_exit(usage_error(verb, option->name, wanted, text));
    *(double *)option->value = value;
    return (cli_end){0};
}

static cli_end parse_choice(const cli_verb *verb, const cli_option *option, const char *text)
{
    const size_t length = strlen(text);
    int index = 0;
    for (const char *at = option->placeholder; at; index++) {
        const char *end = strchr(at, '|');
        const size_t size = end ? (size_t)(end - at) : strlen(at);
        if (size == length && strncmp(at, text, length) == 0) {
            *(int *)option->value = index;
            return (cli_end){0};
        }
        at = end ? end + 1 : NULL;
    }
    return cli_exit(usage_error(verb, option->name, option->placeholder, text));
}

static cli_end parse_string(const cli_verb *verb, const cli_option *option, const char *text)
{
    if (option->kind == CLI_TEXT) {
        *(const char **)option->value = text;
        return (cli_end){0};
    }
    cli_strings *texts = option->value;
    if (!GROW(texts->items, texts->count, texts->capacity))
        return cli_exit(cli_fail_library(verb, option->name));
    texts->items[texts->count++] = text;
    return (cli_end){0};
}

static cli_end parse_value(const cli_verb *verb, const cli_option *option, const char *text)
{
    switch (option->kind) {
    case CLI_INTEGER:
        return parse_integer(verb, option, text);
    case CLI_BYTES:
        return parse_bytes(verb, option, text);
    case CLI_NUMBER:
        return parse_number(verb, option, text);
    case CLI_CHOICE:
        return parse_choice(verb, option, text);
    case CLI_TEXT:
    case CLI_TEXTS:
        return parse_string(verb, option, text);
    case CLI_SWITCH:
        break;
    }
    return cli_exit(cli_fail(verb, EXIT_USAGE, "%s takes no value", option->name));
}

/* Reads "--name value" or "--name=value" at arguments[*index]. */
static cli_end parse_option(const cli_verb *verb, const cli_option *options, int option_count, int count,
                            char **arguments, int *index)
{
    const char *argument = arguments[*index], *equals = strchr(argument, '=');
    const size_t length = equals ? (size_t)(equals - argument) : strlen(argument);
    const cli_option *option = find_option(options, option_count, argument, length);
    if (!option)
        return cli_exit(cli_fail(verb, EXIT_USAGE, "unknown option %s", argument));
    if (option->given)
        *option->given = true;
    if (equals)
        return parse_value(verb, option, equals + 1);
    if (option->kind == CLI_SWITCH) {
        *(bool *)option->value = true;
        return (cli_end){0};
    }
    if (*index + 1 >= count)
        return cli_exit(cli_fail(verb, EXIT_USAGE, "%s needs a value", option->name));
    return parse_value(verb, option, arguments[++*index]);
}

/* Takes an argument that is not an option, as one of the operands or as the only one, if the verb has any. */
static cli_end parse_operand(const cli_verb *verb, const char *argument, const char **operand, cli_strings *operands)
{
    if (operands) {
        const cli_option several = {.name = "operands", .kind = CLI_TEXTS, .value = operands};
        return parse_string(verb, &several, argument);
    }
    if (!operand || *operand)
        return cli_exit(cli_fail(verb, EXIT_USAGE, "unexpected argument \"%s\"", argument));
    *operand = argument;
    return (cli_end){0};
}

static cli_end parse(const cli_verb *verb, const cli_option *options, int option_count, int count, char **arguments,
                     const char **operand, cli_strings *operands)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0) {
            print_help(verb, options, option_count);
            return cli_exit(EXIT_DONE);
        }
    }
    for (int i = 0; i < count; i++) {
        const cli_end end = arguments[i][0] == '-' && arguments[i][1]
                                ? parse_option(verb, options, option_count, count, arguments, &i)
                                : parse_operand(verb, arguments[i], operand, operands);
        if (end.now)
            return end;
    }
    return (cli_end){0};
}

cli_end cli_parse(const cli_verb *verb, const cli_option *options, int option_count, int count, char **arguments,
                  const char **operand)
{
    return parse(verb, options, option_count, count, arguments, operand, NULL);
}

cli_end cli_parse_all(const cli_verb *verb, const cli_option *options, int option_count, int count, char **arguments,
                      cli_strings *operands)
{
    return parse(verb, options, option_count, count, arguments, NULL, operands);
}

bool cli_is_any_part(const cli_strings *words, const char *name)
{
    for (int i = 0; i < words->count; i++)
        if (strstr(name, words->items[i]))
            return true;
    return false;
}

static void print_warning(void *user, tuff_log_level level, const char *text)
{
    (void)user;
    if (level <= TUFF_LOG_WARNING)
        fprintf(stderr, "tuff: %s\n", text);
}

void cli_show_warnings(void)
{
    tuff_set_log(print_warning, NULL);
}

/* Returns the last word of the verb's name. */
static const char *last_word_of(const cli_verb *verb)
{
    const char *space = strrchr(verb->name, ' ');
    return space ? space + 1 : verb->name;
}

const cli_verb *cli_find_verb(const cli_group *group, const char *name)
{
    for (int i = 0; i < group->verb_count; i++)
        if (strcmp(last_word_of(group->verbs[i]), name) == 0)
            return group->verbs[i];
    return NULL;
}

static void print_verbs(const cli_group *group, FILE *out)
{
    fprintf(out, "usage: %s VERB [OPTIONS]\n\n", group->name);
    if (group->summary)
        fprintf(out, "%s\n\n", group->summary);
    for (int i = 0; i < group->verb_count; i++)
        if (group->verbs[i]->summary)
            fprintf(out, "  %-10s %s\n", last_word_of(group->verbs[i]), group->verbs[i]->summary);
    fprintf(out, "\n%s VERB --help lists the options of a verb.\n%s", group->name, group->about);
}

int cli_run_verb(const cli_group *group, int count, char **arguments)
{
    const char *name = count > 0 ? arguments[0] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_verbs(group, stdout);
        return EXIT_DONE;
    }
    const cli_verb *verb = cli_find_verb(group, name);
    if (verb)
        return verb->run(count - 1, arguments + 1);
    if (name[0])
        fprintf(stderr, name[0] == '-' ? "%s: unknown option %s\n" : "%s: unknown verb \"%s\"\n", group->name, name);
    print_verbs(group, stderr);
    return EXIT_USAGE;
}

tuff_device *cli_open_device(const cli_verb *verb, const char *name, int *code)
{
    tuff_device *device = tuff_device_open(name);
    if (device)
        return device;
    const tuff_status status = tuff_last_status();
    *code = cli_fail(verb, status == TUFF_E_USAGE ? EXIT_USAGE : EXIT_FAILED, "%s", tuff_error());
    if (status == TUFF_E_NO_DEVICE)
        fputs("tuff devices lists the available devices; --device reference runs on the host, slowly\n", stderr);
    return NULL;
}

const char *cli_bytes(uint64_t bytes, char *buffer, size_t size)
{
    const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(buffer, size, unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return buffer;
}
