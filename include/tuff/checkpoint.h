/* Checkpoints beside the training: saved by a thread of their own from a copy that the device makes. The files are
   those of tuff_checkpoint_save, which tuff_checkpoint_load reads. */
#ifndef TUFF_CHECKPOINT_H
#define TUFF_CHECKPOINT_H

#include "tuff/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Saves a set of parameters and its optimizer. Used by one thread at a time, apart from its own. */
typedef struct tuff_checkpoint_writer tuff_checkpoint_writer;

/* Makes the copy of the state in device memory, which takes as much as the state itself. parameters and optimizer,
   which may be NULL, must outlive the writer. NULL on failure: TUFF_E_USAGE, TUFF_E_OOM_DEVICE, memory. */
TUFF_API tuff_checkpoint_writer *tuff_checkpoint_writer_create(tuff_parameters *parameters, tuff_optimizer *optimizer);
/* Waits for the save under way and frees the writer; NULL is allowed. The result of that save, as of
   tuff_checkpoint_writer_wait. */
TUFF_API tuff_status tuff_checkpoint_writer_destroy(tuff_checkpoint_writer *writer);

/* What is saved, and under which names. Zero is the default of every field. Texts are copied. */
typedef struct tuff_checkpoint_options {
    const char *const *keys;  /* of the metadata, as in tuff_checkpoint_save */
    const char *const *texts; /* behind these keys */
    int metadata_count;
    int64_t step; /* for names; not negative */
    /* > 0: the checkpoint is also PATH.step-<step>, and of the files PATH.step-<n> with n <= step the `keep` with the
       largest n stay. Those of later steps are another run's, and are left alone. */
    int keep;
    bool best; /* the checkpoint is also PATH.best */
    uint32_t reserved[16];
} tuff_checkpoint_options;

/* Saves the state that the runs enqueued so far lead to: enqueues a copy of it on the device, and returns; a thread
   reads the copy and writes the file while later runs go on. path and the other names each are the old file or the
   whole new one at any time, as with tuff_file_save; what path was before is kept as path.prev. The other names are
   links to the same file where the file system has links. At most one save is under way: where one is, it is waited for
   first, and if it failed its error is returned and nothing is begun. options may be NULL. */
TUFF_API tuff_status tuff_checkpoint_writer_save(tuff_checkpoint_writer *writer, const char *path,
                                                 const tuff_checkpoint_options *options);
/* The same without a writer and without a copy: waits for the device and returns when the file is written. */
TUFF_API tuff_status tuff_checkpoint_save_as(const char *path, tuff_parameters *parameters, tuff_optimizer *optimizer,
                                             const tuff_checkpoint_options *options);
/* Waits for the save under way. Its error, once, where it failed; path is then as it was before, unless the error is
   about one of the other names. */
TUFF_API tuff_status tuff_checkpoint_writer_wait(tuff_checkpoint_writer *writer);

/* Copies all parameters to another set of the same names and shapes on the same device, on the device and without
   waiting, as tuff_array_copy: a set that stays as it was at some step, such as the best one so far. TUFF_E_USAGE where
   the sets differ. */
TUFF_API tuff_status tuff_parameters_copy(tuff_parameters *to, tuff_parameters *from);
/* A set of the same parameters in the same groups on the same device, with copies of their values. Destroy it as any
   other. NULL on failure. */
TUFF_API tuff_parameters *tuff_parameters_clone(tuff_parameters *parameters);

#ifdef __cplusplus
}
#endif
#endif
