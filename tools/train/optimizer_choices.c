/* The words are read from the table of options, the only place that lists them. */
#include "tools/train/optimizer_choices.h"

#include <stdio.h>
#include <string.h>

const char *optimizer_choices(const char *option)
{
    optimizer_flags flags;
    optimizer_given given;
    const cli_option rows[] = {OPTIMIZER_OPTIONS(&flags, &given)};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, option) == 0)
            return rows[i].placeholder;
    return "";
}

const char *optimizer_choice(const char *option, int value, char *buffer, size_t size)
{
    const char *word = optimizer_choices(option);
    for (; value > 0 && *word; value--) {
        word += strcspn(word, "|");
        word += *word == '|';
    }
    (void)snprintf(buffer, size, "%.*s", (int)strcspn(word, "|"), word);
    return buffer;
}
