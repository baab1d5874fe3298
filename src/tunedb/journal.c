/* Writes the journal of this process. What is stored in mapped pages survives the process, however it ends; to survive
   a crash of the machine, the page must also be flushed to disk (msync). The layout is in journal_format.h;
   journal_recover.c reads the journals of other processes. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file/file.h"
#include "base/file/error.h"
#include "base/hash.h"
#include "base/thread.h"
#include "tunedb/journal_format.h"

static_assert(sizeof(journal_slot) == JOURNAL_PAGE, "a place of a journal is one page");

/* The most journals that one process can have. */
enum { MAX_NAMES = 64 };

static mutex naming = MUTEX_INITIALIZER; /* held from the choice of a name until a file has it */

struct journal {
    journal_slot *places; /* JOURNAL_PLACES of them; NULL if there is no file */
    int fd;
    char path[JOURNAL_PATH], error[512];
};

const char *tuff__boot_id_path = "/proc/sys/kernel/random/boot_id";

const char *tuff__journal_phase_text(journal_phase phase)
{
    static const char *const texts[] = {
#define X(name, text) text,
        JOURNAL_PHASE_MAP(X)
#undef X
    };
    return (unsigned)phase < JOURNAL_PHASES ? texts[phase] : "unknown";
}

/* Reads the beginning of a small system file whose size is not known in advance; "" if there is none. */
static void read_system_file(const char *path, char *out, size_t size)
{
    size_t filled = 0;
    out[0] = 0;
    int fd = -1;
    UNINTERRUPTED(fd, tuff__file.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0));
    if (fd < 0)
        return;
    for (ssize_t got = 1; got > 0 && filled + 1 < size;) {
        UNINTERRUPTED(got, tuff__file.read(fd, out + filled, size - 1 - filled));
        filled += got > 0 ? (size_t)got : 0;
    }
    out[filled] = 0;
    (void)tuff__file.close(fd);
}

/* proc(5): the start time is field 22. Fields are counted from the end of the process name, which may contain
   anything. */
uint64_t tuff__process_start_time(uint64_t pid)
{
    char path[64], stat[1024];
    (void)snprintf(path, sizeof path, "/proc/%" PRIu64 "/stat", pid);
    read_system_file(path, stat, sizeof stat);
    const char *at = strrchr(stat, ')');
    for (int field = 2; at && field < 22; field++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    return at ? strtoull(at, NULL, 10) : 0;
}

void tuff__journal_describe_owner(journal_owner *out)
{
    memset(out, 0, sizeof *out);
    out->pid = (uint64_t)getpid();
    out->start = tuff__process_start_time(out->pid);
    read_system_file(tuff__boot_id_path, out->boot, sizeof out->boot);
    out->boot[strcspn(out->boot, "\n")] = 0;
    if (gethostname(out->host, sizeof out->host - 1) != 0 || !out->host[0])
        memcpy(out->host, "host", 5);
    for (char *at = out->host; *at; at++)
        if (*at == '/')
            *at = '_';
}

uint64_t tuff__journal_owner_check(const journal_owner *owner)
{
    return tuff__hash64(owner, sizeof *owner, JOURNAL_PAGE);
}

uint64_t tuff__journal_check(const journal_page *page)
{
    return tuff__hash64(page->texts, sizeof page->texts, page->time ^ (uint64_t)page->filled << 48);
}

void tuff__journal_name(const journal_owner *owner, char *out, size_t size)
{
    (void)snprintf(out, size, "%s.%" PRIu64 ".%" PRIu64, owner->host, owner->pid, owner->start);
}

tuff_status tuff__journal_path(const char *folder, const char *name, char *out)
{
    const char *slash = name[0] ? "/" : "";
    const int length = snprintf(out, JOURNAL_PATH, "%s/" JOURNAL_FOLDER "%s%s", folder, slash, name);
    return length < JOURNAL_PATH ? TUFF_OK : FAIL(TUFF_E_LIMIT, "journal: the path of the cache folder is too long");
}

bool tuff__journal_is_private_folder(const char *path)
{
    struct stat found;
    int result = -1;
    UNINTERRUPTED(result, tuff__file.lstat(path, &found));
    return result == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() && !(found.st_mode & (S_IWGRP | S_IWOTH));
}

static tuff_status make_folder(const char *folder, char *path)
{
    TRY(tuff__journal_path(folder, "", path));
    int result = -1;
    UNINTERRUPTED(result, tuff__file.mkdir(path, 0700));
    if (result < 0 && errno != EEXIST)
        return tuff__fail_errno("create the folder", path);
    if (!tuff__journal_is_private_folder(path))
        return FAIL(TUFF_E_IO, "cannot use %s: not a folder owned by this user and writable only by this user", path);
    return TUFF_OK;
}

/* Chooses a free file name: a process may have several journals. */
static tuff_status choose_path(const char *folder, const journal_owner *owner, char *path)
{
    char name[JOURNAL_NAME], numbered[JOURNAL_NAME + 16];
    tuff__journal_name(owner, name, sizeof name);
    for (int i = 0; i < MAX_NAMES; i++) {
        struct stat found;
        (void)snprintf(numbered, sizeof numbered, i ? "%s.%d" : "%s", name, i);
        TRY(tuff__journal_path(folder, numbered, path));
        int result = -1;
        UNINTERRUPTED(result, tuff__file.lstat(path, &found));
        if (result < 0 && errno == ENOENT)
            return TUFF_OK;
    }
    return FAIL(TUFF_E_LIMIT, "journal: too many journals for one process: %s and %d more exist", name, MAX_NAMES - 1);
}

/* Writes a complete, idle file at path. */
static tuff_status write_pages(const char *path, const journal_owner *owner)
{
    journal_slot *places = tuff__calloc(JOURNAL_PLACES, sizeof *places);
    if (!places)
        return TUFF_E_OOM_HOST;
    journal_page *page = &places->page;
    memcpy(page->magic, JOURNAL_MAGIC, sizeof page->magic);
    page->size = JOURNAL_SIZE;
    page->owner = *owner;
    page->owner_check = tuff__journal_owner_check(owner);
    const file_part whole = {places, JOURNAL_SIZE};
    const tuff_status status = tuff__file_write(path, &whole, 1, true, false);
    tuff__free(places);
    return status;
}

static tuff_status map_pages(journal *self)
{
    UNINTERRUPTED(self->fd, tuff__file.open(self->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0));
    if (self->fd < 0)
        return tuff__fail_errno("open", self->path);
    void *places = mmap(NULL, JOURNAL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, 0);
    if (places == MAP_FAILED)
        return tuff__fail_errno("map", self->path);
    self->places = places;
    return TUFF_OK;
}

/* Locks the file for this process, as a sign that it is alive; children do not inherit the lock. If the file system
   does not support locks, the pid and the start time have to do. */
static void lock_file(journal *self)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(self->fd, F_SETLK, &whole) == 0)
        atomic_store(&self->places->page.locked, 1);
}

static void unmap_file(journal *self)
{
    if (self->places)
        (void)munmap(self->places, JOURNAL_SIZE);
    if (self->fd >= 0)
        (void)tuff__file.close(self->fd);
    self->places = NULL;
    self->fd = -1;
}

static tuff_status make_file(journal *self, const char *folder)
{
    journal_owner owner;
    if (!folder)
        return FAIL(TUFF_E_IO, "no cache folder");
    tuff__journal_describe_owner(&owner);
    TRY(make_folder(folder, self->path));
    tuff__lock(&naming);
    tuff_status status = choose_path(folder, &owner, self->path);
    if (status == TUFF_OK)
        status = write_pages(self->path, &owner);
    tuff__unlock(&naming);
    TRY(status);
    status = map_pages(self);
    if (status) {
        unmap_file(self);
        (void)tuff__file.unlink(self->path);
        return status;
    }
    lock_file(self);
    return TUFF_OK;
}

tuff_status tuff__journal_open(const char *folder, journal **out)
{
    *out = NULL;
    journal *self = tuff__calloc(1, sizeof *self);
    if (!self)
        return TUFF_E_OOM_HOST;
    self->fd = -1;
    const tuff_status status = make_file(self, folder);
    if (status == TUFF_E_OOM_HOST) {
        tuff__free(self);
        return status;
    }
    if (status)
        (void)snprintf(self->error, sizeof self->error, "no journal: %s", tuff_error());
    *out = self;
    return TUFF_OK;
}

void tuff__journal_close(journal *self)
{
    if (!self)
        return;
    const bool has_file = self->places;
    unmap_file(self);
    if (has_file)
        (void)tuff__file.unlink(self->path);
    tuff__free(self);
}

void tuff__journal_abandon(const journal *self)
{
    if (!self->places)
        return;
    for (int i = 0; i < JOURNAL_PLACES; i++) /* in case the file cannot be removed */
        atomic_store(&self->places[i].page.phase, JOURNAL_IDLE);
    (void)tuff__file.unlink(self->path);
}

const char *tuff__journal_error(const journal *self)
{
    return self->error;
}

static tuff_status write_texts(journal_page *page, const char *const texts[3])
{
    size_t sizes[3], filled = 0;
    for (int i = 0; i < 3; i++) {
        sizes[i] = strlen(texts[i]) + 1;
        if (sizes[i] > JOURNAL_TEXTS - filled)
            return FAIL(TUFF_E_LIMIT, "journal: the texts of a candidate are longer than %d bytes", JOURNAL_TEXTS);
        filled += sizes[i];
    }
    atomic_store(&page->phase, JOURNAL_IDLE);
    memset(page->texts, 0, sizeof page->texts);
    for (size_t i = 0, at = 0; i < 3; at += sizes[i++])
        memcpy(page->texts + at, texts[i], sizes[i]);
    page->filled = (uint32_t)filled;
    return TUFF_OK;
}

/* Flushes a place to disk. The system's pages may be larger than the journal's. */
static int sync_place(const journal *self, int place)
{
    const long unit = sysconf(_SC_PAGESIZE);
    const size_t begin = (size_t)place * JOURNAL_PAGE, end = begin + JOURNAL_PAGE;
    const size_t from = unit > 0 ? begin - begin % (size_t)unit : begin;
    return msync((char *)self->places + from, end - from, MS_SYNC);
}

tuff_status tuff__journal_acquire_slot(journal *self, int place, journal_phase phase, const char *environment,
                                       const char *op, const char *candidate, bool durable)
{
    assert(place >= 0 && place < JOURNAL_PLACES);
    if (!self->places)
        return TUFF_OK;
    journal_page *page = &self->places[place].page;
    TRY(write_texts(page, (const char *const[]){environment, op, candidate}));
    page->time = (uint64_t)time(NULL);
    page->check = tuff__journal_check(page);
    atomic_store(&page->phase, phase);
    return !durable || sync_place(self, place) == 0 ? TUFF_OK : tuff__fail_errno("write", self->path);
}

void tuff__journal_release_slot(journal *self, int place)
{
    if (self->places)
        atomic_store(&self->places[place].page.phase, JOURNAL_IDLE);
}

tuff_status tuff__journal_enter(journal *self, journal_phase phase, const char *environment, const char *op,
                                const char *candidate, bool durable)
{
    return tuff__journal_acquire_slot(self, 0, phase, environment, op, candidate, durable);
}

void tuff__journal_set_phase(journal *self, journal_phase phase)
{
    if (self->places)
        atomic_store(&self->places->page.phase, phase);
}

void tuff__journal_leave(journal *self)
{
    tuff__journal_release_slot(self, 0);
}
