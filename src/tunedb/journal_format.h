/* The pages of a journal, written by its owner (journal.c) and read by a later process (journal_recover.c). Both run on
   one machine, so the byte order is that machine's. The first page describes the owner and place 0; every other place
   has a page of its own, of which only the fields from `phase` on are used. */
#ifndef TUFF_TUNEDB_JOURNAL_FORMAT_H
#define TUFF_TUNEDB_JOURNAL_FORMAT_H

#include <stdatomic.h>

#include "tunedb/journal.h"

#define JOURNAL_MAGIC "tuffjrn2"
#define JOURNAL_MAGIC_ALONE "tuffjrn1" /* of files that are the first page alone */
#define JOURNAL_FOLDER "inflight"

enum {
    JOURNAL_PAGE = 4096,
    JOURNAL_SIZE = JOURNAL_PLACES * JOURNAL_PAGE,
    JOURNAL_TEXTS = 3840,
    JOURNAL_NAME = 192, /* bytes for "<host>.<pid>.<start>" */
    JOURNAL_PATH = 4096
};

typedef struct journal_owner {
    uint64_t pid, start; /* start: of the process, in ticks since the boot; 0: not known */
    char boot[40], host[64];
} journal_owner;

typedef struct journal_page {
    char magic[8];
    uint32_t size;           /* of the file, against those of another layout */
    _Atomic uint32_t locked; /* the owner holds a lock until it ends */
    journal_owner owner;
    uint64_t owner_check;
    _Atomic uint32_t phase;    /* stored last, and reset before anything below changes */
    uint32_t filled;           /* of the texts */
    uint64_t time, check;      /* check: of filled, time and texts */
    char texts[JOURNAL_TEXTS]; /* environment, op, candidate, each with its 0 */
} journal_page;

/* A whole page per place: threads neither store to nor flush each other's pages. */
typedef union journal_slot {
    journal_page page;
    char bytes[JOURNAL_PAGE];
} journal_slot;

/* This process. */
void tuff__journal_owner(journal_owner *out);
/* When the process of a number began, in ticks since the boot; 0 where that cannot be known, or there is none. */
uint64_t tuff__process_start(uint64_t pid);
uint64_t tuff__journal_owner_check(const journal_owner *owner);
uint64_t tuff__journal_check(const journal_page *page);
/* "<host>.<pid>.<start>" */
void tuff__journal_name(const journal_owner *owner, char *out, size_t size);
/* folder/inflight, or folder/inflight/name; TUFF_E_LIMIT where it does not fit JOURNAL_PATH bytes. */
tuff_status tuff__journal_path(const char *folder, const char *name, char *out);
/* Whether this is a folder, no link to one, that nobody but us can write to: files are removed in no other. */
bool tuff__journal_owns(const char *path);

#endif
