/* Portfolios: for each kernel family, a few candidates of which at least one does well on every recording. Searches on
   unknown devices begin with them; they are compiled in (src/search/portfolio.h). */
#ifndef TUFF_BENCH_RECORDER_PORTFOLIO_H
#define TUFF_BENCH_RECORDER_PORTFOLIO_H

#include "bench/recorder/recording.h"

enum { PORTFOLIO_SIZE = 8 };

/* The recordings of a folder, ordered by name, then by device. Zero-initialized: empty. */
typedef struct recordings {
    recording *items;
    int count, capacity;
} recordings;
/* Reads all files NAME.jsonl of the folder. The caller must free out even if this fails. */
tuff_status recordings_read(const char *folder, recordings *out);
void recordings_free(recordings *self);

/* Copies the recording's name up to the first dash to out, truncated to size. */
void recording_family(const recording *space, char *out, size_t size);

/* Copies the device's name up to the colon, such as "opencl-cpu"; "" if it has none. */
void recording_class(const recording *space, char *out, size_t size);

/* Makes the portfolio of a family for a class of devices by greedy cover. Each step adds the candidate that most
   increases the score: the mean, over recordings, of the best speed in the portfolio relative to the best recorded
   speed. Recordings of other classes have less weight. The default belongs to every portfolio implicitly; a candidate
   that a recording lacks has speed 0 there. Stops when no candidate improves the score. excluded_device: a device whose
   recordings are left out, or NULL. Returns the number of candidates; negative if memory runs out. */
int portfolio_make(const recordings *from, const char *family, const char *class, const char *excluded_device,
                   tune_config out[PORTFOLIO_SIZE]);

/* Returns that score, unweighted, over the recordings of the family on one device, or on all (NULL); negative if there
   are none. */
double portfolio_score(const recordings *from, const char *family, const char *device, const tune_config *portfolio,
                       int count);

/* Calls visit for the name of every family, in order. */
typedef tuff_status (*family_visitor)(const char *family, void *state);
tuff_status portfolio_families(const recordings *from, family_visitor visit, void *state);

/* Appends the text of src/search/portfolio.def. */
tuff_status portfolio_print(const recordings *from, text *out);

#endif
