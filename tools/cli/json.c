/* Prints texts as JSON strings on standard output, for the verbs that have --json. */
#include "base/text.h"
#include "tools/cli/cli.h"

void cli_print_json_text(const char *source)
{
    text out = {0};
    tuff__text_add_json(&out, source);
    fputs(tuff__text_status(&out) == TUFF_OK ? tuff__text_get(&out) : "null", stdout);
    tuff__text_free(&out);
}

void cli_print_json_member(const char *name, const char *value, const char *end)
{
    printf("\"%s\": ", name);
    cli_print_json_text(value);
    fputs(end, stdout);
}
