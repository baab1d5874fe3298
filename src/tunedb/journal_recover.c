/* Reads the journals of processes that ended, to find the candidates that killed them. A journal is reported before it
   is removed: if a reader is killed in between, the next one finds it again. A lock keeps two readers from reporting
   the same journal at once. autotune/crash_history.c decides what follows from a report. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/file/error.h"
#include "base/file/list.h"
#include "tunedb/journal_format.h"

/* A temporary file gets its final name within moments, so an older one is left over. */
enum { TEMPORARY_SECONDS = 60 };

typedef struct recovery {
    const char *folder;
    journal_visitor report;
    void *state;
    journal_counts *counts;
    tuff_status visitor_status; /* error of the visitor */
    journal_owner self;
    char own_name[JOURNAL_NAME];
} recovery;

typedef enum owner_state { OWNER_ALIVE, OWNER_DEAD } owner_state;

/* Whether another process holds the lock: 1, 0, or -1 if that cannot be queried. */
static int is_locked(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_GETLK, &whole) != 0)
        return -1;
    return whole.l_type != F_UNLCK;
}

/* Whether the owner ran on this host before its last reboot. A different boot of another host says nothing about
   whether the owner has ended. */
static bool is_from_earlier_boot(const recovery *self, const journal_owner *owner)
{
    return strcmp(owner->host, self->self.host) == 0 && strcmp(owner->boot, self->self.boot) != 0;
}

/* Finds out by pid and start time whether an owner without a lock is alive. These are meaningful only on the same host
   and within the same boot. */
static owner_state owner_state_without_lock(const recovery *self, const journal_owner *owner)
{
    if (strcmp(owner->host, self->self.host) != 0)
        return OWNER_ALIVE;
    if (is_from_earlier_boot(self, owner))
        return OWNER_DEAD;
    if (getpgid((pid_t)owner->pid) < 0 && errno == ESRCH)
        return OWNER_DEAD;
    const uint64_t start = tuff__process_start_time(owner->pid);
    return start && owner->start && start != owner->start ? OWNER_DEAD : OWNER_ALIVE;
}

static owner_state owner_state_of(const recovery *self, const journal_page *page, int fd)
{
    const int locked = is_locked(fd);
    if (locked > 0)
        return OWNER_ALIVE;
    return locked == 0 && atomic_load(&page->locked) ? OWNER_DEAD : owner_state_without_lock(self, &page->owner);
}

/* Finds the three texts; returns false if they are not exactly what is filled, each terminated. */
static bool split_texts(const journal_page *page, const char *texts[3])
{
    if (page->filled > JOURNAL_TEXTS || page->check != tuff__journal_check(page))
        return false;
    const char *at = page->texts, *end = page->texts + page->filled;
    for (int i = 0; i < 3; i++) {
        const char *zero = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
        if (!zero)
            return false;
        texts[i] = at;
        at = zero + 1;
    }
    return at == end;
}

/* A file that was read; its first `count` places are valid. */
typedef struct journal_file {
    journal_slot places[JOURNAL_PLACES];
    int count;
} journal_file;

typedef enum place_state { PLACE_IDLE, PLACE_IN_FLIGHT, PLACE_DAMAGED } place_state;

static place_state place_state_of(const journal_page *page, const char *texts[3])
{
    const uint32_t phase = atomic_load(&page->phase);
    if (phase == JOURNAL_IDLE)
        return PLACE_IDLE;
    return phase < JOURNAL_PHASES && split_texts(page, texts) ? PLACE_IN_FLIGHT : PLACE_DAMAGED;
}

/* Returns when the most recent step in flight began. */
static uint64_t last_time(const journal_file *file)
{
    const char *texts[3];
    uint64_t last = 0;
    for (int i = 0; i < file->count; i++) {
        const journal_page *page = &file->places[i].page;
        if (place_state_of(page, texts) == PLACE_IN_FLIGHT && page->time > last)
            last = page->time;
    }
    return last;
}

/* Reports the candidates of a dead owner. */
static tuff_status report_crashes(recovery *self, const journal_file *file)
{
    const bool rebooted = is_from_earlier_boot(self, &file->places[0].page.owner);
    const uint64_t time = last_time(file);
    int crashes = 0, damaged = 0;
    tuff_status status = TUFF_OK;
    for (int i = 0; i < file->count && status == TUFF_OK; i++) {
        const char *texts[3];
        const place_state found = place_state_of(&file->places[i].page, texts);
        damaged += found == PLACE_DAMAGED;
        if (found != PLACE_IN_FLIGHT)
            continue;
        crashes++;
        status = self->report(&(journal_crash){.phase = (journal_phase)atomic_load(&file->places[i].page.phase),
                                               .environment = texts[0],
                                               .op = texts[1],
                                               .candidate = texts[2],
                                               .rebooted = rebooted,
                                               .time = time},
                              self->state);
    }
    self->counts->crashes += crashes;
    self->counts->damaged += damaged > 0;
    self->counts->idle += crashes + damaged == 0;
    return status;
}

/* Returns the number of places of a file of that size, judging by its first page; 0 if it is damaged. */
static int count_places(const journal_page *page, size_t size)
{
    const bool is_single_page = memcmp(page->magic, JOURNAL_MAGIC_SINGLE_PAGE, sizeof page->magic) == 0;
    const size_t expected = is_single_page ? JOURNAL_PAGE : JOURNAL_SIZE;
    const bool is_whole = (is_single_page || memcmp(page->magic, JOURNAL_MAGIC, sizeof page->magic) == 0) &&
                          page->size == expected && size >= (is_single_page ? sizeof *page : expected) &&
                          page->owner_check == tuff__journal_owner_check(&page->owner) &&
                          memchr(page->owner.boot, 0, sizeof page->owner.boot) &&
                          memchr(page->owner.host, 0, sizeof page->owner.host);
    return !is_whole ? 0 : is_single_page ? 1 : JOURNAL_PLACES;
}

/* Whether a journal was written by a later version, as the magic's last digit says; those are left alone. */
static bool is_newer_format(const journal_page *page)
{
    const size_t shared = sizeof page->magic - 1;
    return memcmp(page->magic, JOURNAL_MAGIC, shared) == 0 && page->magic[shared] > JOURNAL_MAGIC[shared];
}

typedef enum page_state { PAGE_WHOLE, PAGE_DAMAGED, PAGE_NEWER_FORMAT, PAGE_UNREADABLE } page_state;

static page_state read_pages(int fd, journal_file *out)
{
    const journal_page *page = &out->places[0].page;
    size_t filled = 0;
    ssize_t got = 1;
    while (got > 0 && filled < JOURNAL_SIZE) {
        UNINTERRUPTED(got, tuff__file.pread(fd, (char *)out->places + filled, JOURNAL_SIZE - filled, (off_t)filled));
        filled += got > 0 ? (size_t)got : 0;
    }
    if (got < 0)
        return PAGE_UNREADABLE;
    if (filled < sizeof *page)
        return PAGE_DAMAGED;
    out->count = count_places(page, filled);
    return is_newer_format(page) ? PAGE_NEWER_FORMAT : out->count > 0 ? PAGE_WHOLE : PAGE_DAMAGED;
}

/* Whether this is a regular file of the user that has not been unlinked. */
static bool is_own_file(int fd)
{
    struct stat found;
    int result = -1;
    UNINTERRUPTED(result, tuff__file.fstat(fd, &found));
    return result == 0 && S_ISREG(found.st_mode) && found.st_uid == geteuid() && found.st_nlink == 1;
}

/* Whether this process is to report the journal, because no other reader is reporting it or has done so. If the file
   system does not support locks, several readers may claim it. */
static bool claim(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const bool is_held = fcntl(fd, F_SETLK, &whole) != 0 && (errno == EAGAIN || errno == EACCES);
    return !is_held && is_own_file(fd);
}

static tuff_status read_open(recovery *self, const char *path, int fd, journal_file *file)
{
    page_state found = read_pages(fd, file);
    if (found == PAGE_NEWER_FORMAT ||
        (found == PAGE_WHOLE && owner_state_of(self, &file->places[0].page, fd) == OWNER_ALIVE) || !claim(fd)) {
        self->counts->alive++;
        return TUFF_OK;
    }
    /* Read it again: the owner may have gone on until it was found dead. */
    if (found == PAGE_WHOLE)
        found = read_pages(fd, file);
    if (found == PAGE_WHOLE)
        self->visitor_status = report_crashes(self, file);
    else
        self->counts->damaged++;
    /* If the file cannot be removed it will be reported again, which does no harm. */
    if (!self->visitor_status && found != PAGE_UNREADABLE)
        (void)tuff__file.unlink(path);
    return self->visitor_status;
}

static void remove_old_temporary(const char *path)
{
    struct stat found;
    int result = -1;
    UNINTERRUPTED(result, tuff__file.lstat(path, &found));
    if (result == 0 && S_ISREG(found.st_mode) && found.st_uid == geteuid() &&
        found.st_mtime + TEMPORARY_SECONDS < time(NULL))
        (void)tuff__file.unlink(path);
}

/* Whether a name is "<host>.<pid>.<start>", perhaps with a suffix. No other file in the folder is read or removed. */
static bool is_journal_name(const char *name)
{
    int numbers = 0;
    for (const char *at = strchr(name, '.'); at && numbers < 2; at = strchr(at + 1, '.')) {
        const size_t digits = strspn(at + 1, "0123456789");
        numbers = digits && (!at[1 + digits] || at[1 + digits] == '.') ? numbers + 1 : 0;
    }
    return name[0] != '.' && numbers == 2;
}

/* Whether a journal is this process's own: opening and closing it would release its lock. */
static bool is_own_name(const recovery *self, const char *name)
{
    const size_t length = strlen(self->own_name);
    return strncmp(name, self->own_name, length) == 0 && (!name[length] || name[length] == '.');
}

static tuff_status visit(const char *name, void *state)
{
    recovery *self = state;
    char path[JOURNAL_PATH];
    if (!is_journal_name(name) || is_own_name(self, name) || tuff__journal_path(self->folder, name, path) != TUFF_OK)
        return TUFF_OK;
    if (strstr(name, ".tmp-")) {
        remove_old_temporary(path);
        return TUFF_OK;
    }
    const int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int fd = -1;
    UNINTERRUPTED(fd, tuff__file.open(path, O_RDWR | flags, 0));
    if (fd < 0)
        UNINTERRUPTED(fd, tuff__file.open(path, O_RDONLY | flags, 0));
    if (fd < 0)
        return TUFF_OK;
    journal_file read;
    const tuff_status status = is_own_file(fd) ? read_open(self, path, fd, &read) : TUFF_OK;
    (void)tuff__file.close(fd);
    return status;
}

tuff_status tuff__journal_recover(const char *folder, journal_visitor report, void *state, journal_counts *out)
{
    char path[JOURNAL_PATH];
    recovery self = {.folder = folder, .report = report, .state = state, .counts = out};
    *out = (journal_counts){0};
    tuff__journal_describe_owner(&self.self);
    tuff__journal_name(&self.self, self.own_name, sizeof self.own_name);
    if (tuff__journal_path(folder, "", path) != TUFF_OK || !tuff__journal_is_private_folder(path))
        return TUFF_OK;
    const tuff_status status = tuff__file_list(path, "", visit, &self);
    return status == TUFF_E_OOM_HOST ? status : self.visitor_status;
}
