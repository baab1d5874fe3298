/* Calls the C library directly, because the tests are about the library's own file operations. */
#define _GNU_SOURCE
#include "scratch_folder.h"

#include <dirent.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[512];
static pid_t owner; /* so that child processes of a test leave the folder alone */

/* Removes the folder of a test that a signal or its alarm ends. Calls only async-signal-safe functions. */
static void remove_and_die(int number)
{
    if (getpid() == owner) {
        const pid_t child = fork();
        if (child == 0) {
            (void)execl("/bin/rm", "rm", "-rf", "--", folder, (char *)NULL);
            _exit(1);
        }
        (void)waitpid(child, NULL, 0);
    }
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static void watch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGPIPE};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction now, wanted = {.sa_handler = remove_and_die};
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            (void)sigaction(numbers[i], &wanted, NULL);
    }
}

int scratch_folder_make(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder, sizeof folder, "%s/tuff-test-XXXXXX", base && base[0] ? base : ".");
    owner = getpid();
    watch_signals();
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *found, int kind, struct FTW *place)
{
    (void)found, (void)kind, (void)place;
    return remove(path);
}

int scratch_folder_remove(void **state)
{
    (void)state;
    return nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *scratch_folder(void)
{
    return folder;
}

const char *scratch_path(const char *name)
{
    static char paths[8][1024];
    static int turn;
    char *path = paths[turn++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

const char *scratch_list(void)
{
    static char list[4096];
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort);
    list[0] = 0;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        size_t used = strlen(list);
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
            (void)snprintf(list + used, sizeof list - used, "%s ", name);
        free(entries[i]);
    }
    free(entries);
    return list;
}

void scratch_write(const char *name, const void *data, size_t size)
{
    FILE *file = fopen(scratch_path(name), "wb");
    if (file) {
        (void)fwrite(data, 1, size, file);
        (void)fclose(file);
        (void)chmod(scratch_path(name), 0600);
    }
}

char *scratch_read(const char *name, size_t *size)
{
    FILE *file = fopen(scratch_path(name), "rb");
    if (!file)
        return NULL;
    char *data = NULL;
    size_t used = 0, got = 1;
    while (got) {
        char *larger = realloc(data, used + 65536 + 1);
        if (!larger)
            break;
        data = larger;
        got = fread(data + used, 1, 65536, file);
        used += got;
    }
    (void)fclose(file);
    if (data)
        data[used] = 0;
    if (size)
        *size = used;
    return data;
}
