/* Selects ops of the suite by name, and finds names similar to one that is unknown. */
#include "tools/verify/names.h"

#include <string.h>

#include "tools/verify/suite.h"

enum { NAME_SIZE = 40 };

/* Names of the primitives that have a case in the suite ("" for others), then of the composites; NULL after the
   last. */
static const char *name_at(int index)
{
    suite_case test;
    if (index >= OP_COUNT)
        return suite_composite_at(index - OP_COUNT, TUFF_F32, &test) ? test.name : NULL;
    for (tuff_dtype dtype = TUFF_F32; dtype <= TUFF_BOOL; dtype++)
        if (suite_case_at((op_code)index, dtype, 0, &test))
            return test.name;
    return ""; /* never requested */
}

bool suite_is_selected(const suite_selection *self, const char *name)
{
    if (!self->name)
        return true;
    const size_t length = strlen(self->name);
    return strncmp(name, self->name, length) == 0 && (self->is_prefix || name[length] == '\0');
}

bool suite_select(const char *requested, suite_selection *out)
{
    const char *name;
    for (int by_prefix = 0; by_prefix < 2; by_prefix++) {
        *out = (suite_selection){requested, by_prefix};
        for (int i = 0; (name = name_at(i)) != NULL; i++)
            if (name[0] && suite_is_selected(out, name))
                return true;
    }
    return false;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Levenshtein distance (1966), computed row by row. */
static int distance(const char *a, const char *b)
{
    int row[NAME_SIZE + 1];
    const int columns = (int)strlen(b);
    if (columns > NAME_SIZE)
        return columns;
    for (int k = 0; k <= columns; k++)
        row[k] = k;
    for (int i = 0; a[i]; i++) {
        int diagonal = row[0];
        row[0] = i + 1;
        for (int k = 1; k <= columns; k++) {
            const int replaced = diagonal + (a[i] != b[k - 1]);
            diagonal = row[k];
            row[k] = least(replaced, least(row[k], row[k - 1]) + 1);
        }
    }
    return row[columns];
}

/* Returns how different two names are, or -1 if they are not similar. A name that contains the other counts like two
   replaced letters. */
static int name_difference(const char *given, const char *name)
{
    const int length = (int)strlen(given), apart = distance(given, name);
    if (apart <= (length < 5 ? 1 : 2))
        return apart;
    return length >= 3 && strstr(name, given) != NULL ? 2 : -1;
}

int suite_similar_names(const char *given, const char *similar[SUITE_SIMILAR])
{
    const char *name;
    int count = 0;
    for (int wanted = 0; wanted <= 2; wanted++)
        for (int i = 0; (name = name_at(i)) != NULL && count < SUITE_SIMILAR; i++)
            if (name[0] && name_difference(given, name) == wanted)
                similar[count++] = name;
    return count;
}
