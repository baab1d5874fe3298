/* The pages of a journal, written by its owner (journal.c) and read by a later process (journal_recover.c). Both run on
   the same machine, so the byte order is that machine's. The first page describes the owner and holds place 0. Every
   other place has a page of its own, in which only the fields from `phase` on are used. */
#ifndef TUFF_TUNEDB_JOURNAL_FORMAT_H
#define TUFF_TUNEDB_JOURNAL_FORMAT_H

#include <stdatomic.h>

#include "tunedb/journal.h"

#define JOURNAL_MAGIC "tuffjrn2"
#define JOURNAL_MAGIC_SINGLE_PAGE "tuffjrn1" /* of files that consist of the first page only */
#define JOURNAL_FOLDER "inflight"

enum {
    JOURNAL_PAGE = 4096,
    JOURNAL_SIZE = JOURNAL_PLACES * JOURNAL_PAGE,
    JOURNAL_TEXTS = 3840,
    JOURNAL_NAME = 192, /* bytes for "<host>.<pid>.<start>" */
    JOURNAL_PATH = 4096
};

typedef struct journal_owner {
    uint64_t pid, start; /* start: start time of the process in clock ticks since boot; 0 if unknown */
    char boot[40], host[64];
} journal_owner;

typedef struct journal_page {
    char magic[8];
    uint32_t size;           /* of the file; tells layouts apart */
    _Atomic uint32_t locked; /* the owner holds a lock for as long as it runs */
    journal_owner owner;
    uint64_t owner_check;
    _Atomic uint32_t phase;    /* stored last, and reset before any field below changes */
    uint32_t filled;           /* bytes used in texts */
    uint64_t time, check;      /* check: hash of filled, time and texts */
    char texts[JOURNAL_TEXTS]; /* environment, op and candidate, each with its terminating 0 */
} journal_page;

/* A whole page per place, so that threads neither write to nor flush each other's pages. */
typedef union journal_slot {
    journal_page page;
    char bytes[JOURNAL_PAGE];
} journal_slot;

/* Fills in the description of this process. */
void tuff__journal_describe_owner(journal_owner *out);
/* Returns when the process `pid` was started, in clock ticks since boot; 0 if that is unknown or there is no such
   process. */
uint64_t tuff__process_start_time(uint64_t pid);
uint64_t tuff__journal_owner_check(const journal_owner *owner);
uint64_t tuff__journal_check(const journal_page *page);
/* "<host>.<pid>.<start>" */
void tuff__journal_name(const journal_owner *owner, char *out, size_t size);
/* Writes folder/inflight, or folder/inflight/name. TUFF_E_LIMIT if it does not fit into JOURNAL_PATH bytes. */
tuff_status tuff__journal_path(const char *folder, const char *name, char *out);
/* Whether path is a folder (not a link to one) that only we can write to. Files are removed only from such a folder. */
bool tuff__journal_is_private_folder(const char *path);

#endif
