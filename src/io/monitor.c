/* Monitors: files that grow by whole records. A record is one write; if it fails, the file is truncated after the
   previous record, at the latest before the next write, so that nothing ever follows a torn record. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "io/monitor.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file/error.h"
#include "base/file/file.h"
#include "base/file/list.h"
#include "base/thread.h"
#include "io/json.h"

#define NAME_LIMIT 200
#define FILE_LIMIT (1ull << 32) /* largest size of a file to append to, in bytes */

struct tuff_monitor {
    tuff_monitor_format format;
    monitor_names names;
    char *path; /* of the file */
    int fd;
    bool is_regular;
    bool is_torn;  /* part of a record, which could not be cut off, follows the first `size` bytes */
    uint64_t size; /* bytes of whole records */
    text record;   /* of the current call; kept to reuse its memory */
};

/* Names become columns of CSV, members of JSON and tags of TensorBoard; what breaks one format is refused in all, so
   that a program can change the format freely. */
static tuff_status check_name(const tuff_monitor_options *options, int index)
{
    const char *name = options->names[index];
    if (!name || !name[0] || strlen(name) > NAME_LIMIT)
        return FAIL(TUFF_E_USAGE, "monitor: name %d is %s", index,
                    !name      ? "NULL"
                    : !name[0] ? "empty"
                               : "longer than 200 bytes");
    for (const char *at = name; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return FAIL(TUFF_E_USAGE, "monitor: name %d contains a control character", index);
    TRY(tuff__json_check_string(name, "monitor: a name is not valid UTF-8"));
    if (strcmp(name, "step") == 0)
        return FAIL(TUFF_E_USAGE, "monitor: the name \"step\" is reserved for the step");
    for (int i = 0; i < index; i++)
        if (strcmp(options->names[i], name) == 0)
            return FAIL(TUFF_E_USAGE, "monitor: duplicate name \"%s\"", name);
    return TUFF_OK;
}

static tuff_status check_options(const tuff_monitor_options *options)
{
    if (!options || !options->path || !options->path[0] || options->count < 0 ||
        (options->count > 0 && !options->names))
        return FAIL(TUFF_E_USAGE, "monitor: options, path or names are missing");
    if ((unsigned)options->format > TUFF_MONITOR_TENSORBOARD)
        return FAIL(TUFF_E_USAGE, "monitor: unknown format %d", (int)options->format);
    for (int i = 0; i < options->count; i++)
        TRY(check_name(options, i));
    return TUFF_OK;
}

static tuff_status copy_names(const tuff_monitor_options *options, monitor_names *out)
{
    out->items = tuff__calloc((size_t)options->count + 1, sizeof *out->items);
    if (!out->items)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < options->count; i++, out->count++)
        if (!(out->items[i] = tuff__strdup(options->names[i])))
            return TUFF_E_OOM_HOST;
    return TUFF_OK;
}

/* Creates a folder and its missing parents. */
static tuff_status make_folder(const char *path)
{
    char *part = tuff__strdup(path);
    tuff_status status = part ? TUFF_OK : TUFF_E_OOM_HOST;
    for (char *at = part; status == TUFF_OK && at && *at;) {
        at = strchr(at + 1, '/');
        if (at)
            *at = 0;
        int result = -1;
        UNINTERRUPTED(result, tuff__file.mkdir(part, 0777));
        if (result < 0 && errno != EEXIST)
            status = tuff__fail_errno("create the folder", part);
        if (at)
            *at = '/';
    }
    tuff__free(part);
    return status;
}

#define EVENT_FILE "events.out.tfevents."

/* Raises *state to the second in the name of an event file. */
static tuff_status update_latest_second(const char *name, void *state)
{
    enum { DIGITS = 10 };
    int64_t second = 0, *latest = state;
    const char *digits = name + strlen(EVENT_FILE);
    const size_t count = strspn(digits, "0123456789");
    for (size_t i = 0; i < count && count == DIGITS; i++)
        second = 10 * second + digits[i] - '0';
    if (digits[count] == '.' && second > *latest)
        *latest = second;
    return TUFF_OK;
}

/* Makes a name by which TensorBoard sorts event files, newer ones after older ones: by second, host, process and
   number. The second is later than those of all event files in the folder, even if another clock was ahead or another
   process created a file within this second. */
static tuff_status make_event_path(const char *folder, text *out)
{
    const int64_t now = (int64_t)time(NULL), last_name = 9999999999;
    int64_t latest = 0;
    TRY(tuff__file_list(folder, EVENT_FILE, update_latest_second, &latest));
    const int64_t second = latest >= now && latest < last_name ? latest + 1 : now;
    char host[64] = "";
    if (gethostname(host, sizeof host - 1) != 0 || !host[0])
        strcpy(host, "localhost");
    for (char *at = host; *at; at++)
        if (*at == '/')
            *at = '-';
    tuff__text_add(out, "%s/" EVENT_FILE "%010" PRId64 ".%s.%ld.%" PRIu64, folder, second, host, (long)getpid(),
                   tuff__nanoseconds());
    return tuff__text_status(out);
}

/* O_APPEND makes each write go to the end as it is at that time, which is what truncation after a failed record relies
   on. */
static tuff_status open_file(tuff_monitor *self, const tuff_monitor_options *options)
{
    const bool is_new = options->format == TUFF_MONITOR_TENSORBOARD;
    const int creation_flag = is_new ? O_EXCL : options->append ? 0 : O_TRUNC;
    text path = {0};
    if (is_new) {
        TRY(make_folder(options->path));
        TRY(make_event_path(options->path, &path));
    }
    self->path = tuff__strdup(is_new ? tuff__text_get(&path) : options->path);
    tuff__text_free(&path);
    if (!self->path)
        return TUFF_E_OOM_HOST;
    UNINTERRUPTED(self->fd,
                  tuff__file.open(self->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | creation_flag, 0666));
    if (self->fd < 0)
        return tuff__fail_errno("open", self->path);
    struct stat info;
    int result = -1;
    UNINTERRUPTED(result, tuff__file.fstat(self->fd, &info));
    if (result < 0)
        return tuff__fail_errno("examine", self->path);
    self->is_regular = S_ISREG(info.st_mode);
    self->size = self->is_regular ? (uint64_t)info.st_size : 0;
    return TUFF_OK;
}

/* Truncates the file to its whole records. Pipes and devices cannot be truncated. */
static tuff_status truncate_file(tuff_monitor *self)
{
    int result = 0;
    if (self->is_regular)
        UNINTERRUPTED(result, tuff__file.ftruncate(self->fd, (off_t)self->size));
    self->is_torn = result < 0;
    return result < 0 ? tuff__fail_errno("truncate", self->path) : TUFF_OK;
}

/* Writes the record; on failure restores the file and keeps the failure's message. */
static tuff_status write_record(tuff_monitor *self)
{
    TRY(tuff__text_status(&self->record));
    if (self->is_torn)
        TRY(truncate_file(self));
    const tuff_status status =
        tuff__write_all(self->fd, self->path, tuff__text_get(&self->record), self->record.length);
    if (status == TUFF_OK) {
        self->size += self->record.length;
        return TUFF_OK;
    }
    saved_error failure;
    tuff__error_save(&failure);
    (void)truncate_file(self);
    tuff__error_restore(&failure);
    return status;
}

/* Keeps the records of an earlier run, except those that this run writes again. */
static tuff_status keep_earlier_records(tuff_monitor *self, int64_t first_step)
{
    void *data;
    size_t size;
    TRY(tuff__file_read(self->path, FILE_LIMIT, &data, &size));
    const text *header = &self->record;
    const bool same = self->format != TUFF_MONITOR_CSV ||
                      (size >= header->length && memcmp(data, tuff__text_get(header), header->length) == 0);
    const uint64_t cut = tuff__monitor_find_cut(self->format, data, size, first_step);
    tuff__free(data);
    if (!same)
        return FAIL(TUFF_E_FORMAT, "cannot append to %s: its columns are different; choose another file", self->path);
    if (cut == self->size)
        return TUFF_OK;
    self->size = cut;
    return truncate_file(self);
}

static tuff_status open_monitor(tuff_monitor *self, const tuff_monitor_options *options)
{
    TRY(copy_names(options, &self->names));
    TRY(open_file(self, options));
    tuff__monitor_begin(self->format, &self->names, options->append, options->first_step, &self->record);
    TRY(tuff__text_status(&self->record));
    return self->size > 0 ? keep_earlier_records(self, options->first_step) : write_record(self);
}

tuff_monitor *tuff_monitor_open(const tuff_monitor_options *options)
{
    if (check_options(options) != TUFF_OK)
        return NULL;
    tuff_monitor *self = tuff__calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->format = options->format;
    self->fd = -1;
    if (open_monitor(self, options) == TUFF_OK)
        return self;
    (void)tuff_monitor_close(self);
    return NULL;
}

/* An unknown name is an error, because CSV has no column for it. A missing one leaves its column empty. */
static tuff_status check_scalars(const tuff_monitor *self, const tuff_scalar *scalars, int count)
{
    if (!self || count < 0 || (count > 0 && !scalars))
        return FAIL(TUFF_E_USAGE, "monitor: the %s", self ? "scalars are missing" : "monitor is NULL");
    for (int i = 0; i < count; i++) {
        bool known = false;
        for (int k = 0; k < self->names.count && scalars[i].name && !known; k++)
            known = strcmp(self->names.items[k], scalars[i].name) == 0;
        if (!known)
            return FAIL(TUFF_E_USAGE, "monitor: unknown name \"%.200s\": it was not given when %s was opened",
                        scalars[i].name ? scalars[i].name : "", self->path);
    }
    return TUFF_OK;
}

/* Nothing is buffered here and nothing is flushed to the disk: records survive a crash of the program, not necessarily
   one of the machine. */
tuff_status tuff_monitor_write(tuff_monitor *monitor, int64_t step, const tuff_scalar *scalars, int count)
{
    TRY(check_scalars(monitor, scalars, count));
    tuff__text_clear(&monitor->record);
    tuff__monitor_record(monitor->format, &monitor->names, step, scalars, count, &monitor->record);
    return write_record(monitor);
}

tuff_status tuff_monitor_close(tuff_monitor *monitor)
{
    tuff_status status = TUFF_OK;
    if (!monitor)
        return TUFF_OK;
    /* An interrupted close has released the descriptor: closing again could hit a file of another thread. */
    if (monitor->fd >= 0 && tuff__file.close(monitor->fd) && errno != EINTR)
        status = tuff__fail_errno("close", monitor->path);
    for (int i = 0; i < monitor->names.count; i++)
        tuff__free(monitor->names.items[i]);
    tuff__free(monitor->names.items);
    tuff__free(monitor->path);
    tuff__text_free(&monitor->record);
    tuff__free(monitor);
    return status;
}
