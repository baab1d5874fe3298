/* A folder is read completely before any name is visited, so that visitors may add and remove files. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "base/file/list.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file/error.h"

typedef struct name_list {
    char **names;
    int count, capacity;
} name_list;

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static tuff_status add_name(name_list *list, const char *name)
{
    if (!GROW(list->names, list->count, list->capacity))
        return TUFF_E_OOM_HOST;
    char *copy = tuff__strdup(name);
    if (!copy)
        return TUFF_E_OOM_HOST;
    list->names[list->count++] = copy;
    return TUFF_OK;
}

/* Reads the names. Only errno distinguishes an error of readdir from the end of the folder. */
static tuff_status read_names(DIR *opened, const char *folder, const char *prefix, name_list *out)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(opened);
        if (!entry)
            return errno == 0 ? TUFF_OK : tuff__fail_errno("list", folder);
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            TRY(add_name(out, entry->d_name));
    }
}

tuff_status tuff__file_list(const char *folder, const char *prefix, name_visitor visit, void *state)
{
    name_list list = {.count = 0};
    DIR *opened = opendir(folder);
    if (!opened)
        return errno == ENOENT ? TUFF_OK : tuff__fail_errno("list", folder);
    tuff_status status = read_names(opened, folder, prefix, &list);
    (void)closedir(opened);
    if (status == TUFF_OK && list.count > 0)
        qsort(list.names, (size_t)list.count, sizeof *list.names, compare_names);
    for (int i = 0; i < list.count; i++) {
        if (status == TUFF_OK)
            status = visit(list.names[i], state);
        tuff__free(list.names[i]);
    }
    tuff__free(list.names);
    return status;
}

static void get_host_name(char *out, size_t size)
{
    if (gethostname(out, size) != 0 || !out[0])
        snprintf(out, size, "host");
    out[size - 1] = 0;
    for (char *c = out; *c; c++)
        if (*c == '/')
            *c = '_';
}

void tuff__process_name(char *out, size_t size)
{
    char host[128];
    get_host_name(host, sizeof host);
    snprintf(out, size, "%s.%ld", host, (long)getpid());
}

bool tuff__process_may_live(const char *name)
{
    char host[128], *end = NULL;
    get_host_name(host, sizeof host);
    const size_t length = strlen(host);
    if (strncmp(name, host, length) != 0 || name[length] != '.')
        return true;
    const long pid = strtol(name + length + 1, &end, 10);
    if (pid <= 0 || *end != 0)
        return true;
    return getpgid((pid_t)pid) >= 0 || errno != ESRCH;
}
