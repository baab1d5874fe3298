/* Portfolios: for every family of kernels the few candidates that, between them, serve all that was recorded best. They
   are where searches begin on devices that nobody measured, and are compiled in (src/search/portfolio.h). */
#ifndef TUFF_BENCH_RECORDER_PORTFOLIO_H
#define TUFF_BENCH_RECORDER_PORTFOLIO_H

#include "bench/recorder/recording.h"

enum { PORTFOLIO_SIZE = 8 };

/* The recordings of a folder, ordered by name, then by device. Zero is none. */
typedef struct recordings {
    recording *items;
    int count, capacity;
} recordings;
/* All of its files NAME.jsonl. out is to be freed whatever is returned. */
tuff_status recordings_read(const char *folder, recordings *out);
void recordings_free(recordings *self);

/* What the name of a recording begins with, up to the first dash: into out, cut at size. */
void recording_family(const recording *space, char *out, size_t size);

/* What the device's name begins with, up to a colon: "opencl-cpu"; "" where it has none. */
void recording_class(const recording *space, char *out, size_t size);

/* The greedy cover of what is recorded for a family, for a class of devices, whose recordings count for more: each
   candidate is the one that adds most to the mean, over recordings, of the best speed in the portfolio as a part of the
   best speed there is; the default is always in it, and what a recording does not have is not known to be any good
   there. Ends where nothing gains. excluded_device: a device that is left out; NULL: none. Returns how many; negative
   where memory ran out. */
int portfolio_make(const recordings *from, const char *family, const char *class, const char *excluded_device,
                   tune_config out[PORTFOLIO_SIZE]);

/* That mean, over the recordings of the family on one device, or on all (NULL); negative where there are none. */
double portfolio_score(const recordings *from, const char *family, const char *device, const tune_config *portfolio,
                       int count);

/* Calls visit for the name of every family, in order. */
typedef tuff_status (*family_visitor)(const char *family, void *state);
tuff_status portfolio_families(const recordings *from, family_visitor visit, void *state);

/* Appends the text of src/search/portfolio.def. */
tuff_status portfolio_print(const recordings *from, text *out);

#endif
