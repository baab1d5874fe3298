/* Checks for duplicate names in lists of any length. */
#include <stdlib.h>
#include <string.h>

#include "graph/blob/parts.h"

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *tuff__duplicate_name(const char **names, int count)
{
    if (count > 0)
        qsort(names, (size_t)count, sizeof *names, compare_names);
    for (int i = 1; i < count; i++)
        if (names[i][0] != '\0' && strcmp(names[i - 1], names[i]) == 0)
            return names[i];
    return NULL;
}
