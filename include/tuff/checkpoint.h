/* Checkpoints written while training continues: the device makes a copy of the state, and a thread saves it. The files
   are the same as those of tuff_checkpoint_save, and tuff_checkpoint_load reads them. */
#ifndef TUFF_CHECKPOINT_H
#define TUFF_CHECKPOINT_H

#include "tuff/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Saves a set of parameters and its optimizer. Used by one thread at a time, apart from its own thread. */
typedef struct tuff_checkpoint_writer tuff_checkpoint_writer;

/* Creates a writer, with device memory for the copy of the state, as much as the state itself takes. parameters and
   optimizer, which may be NULL, must outlive the writer. NULL on failure: TUFF_E_USAGE, TUFF_E_OOM_DEVICE, memory. */
TUFF_API tuff_checkpoint_writer *tuff_checkpoint_writer_create(tuff_parameters *parameters, tuff_optimizer *optimizer);
/* Waits for the save in progress and frees the writer; NULL is allowed. Returns the result of that save, like
   tuff_checkpoint_writer_wait. */
TUFF_API tuff_status tuff_checkpoint_writer_destroy(tuff_checkpoint_writer *writer);

/* What is saved, and under which names. Zero is the default of every field. Strings are copied. */
typedef struct tuff_checkpoint_options {
    const char *const *keys;  /* keys of the metadata, as in tuff_checkpoint_save */
    const char *const *texts; /* texts of these keys */
    int metadata_count;
    int64_t step; /* for names of files; not negative */
    /* > 0: the checkpoint is also saved as PATH.step-<step>, and of the files PATH.step-<n> with n <= step the `keep`
       with the largest n are kept. Files of later steps belong to another run and are left alone. */
    int keep;
    bool best; /* the checkpoint is also saved as PATH.best */
    uint32_t reserved[16];
} tuff_checkpoint_options;

/* Saves the state as it will be after the runs enqueued so far: enqueues a copy of it on the device and returns; a
   thread reads the copy and writes the file while later runs continue. As with tuff_file_save, path and each of the
   other names refer to the complete old or the complete new file at any time, and the previous file at path is kept as
   path.prev. The other names are hard links to the same file if the file system supports them. At most one save is in
   progress: a call first waits for the previous one and, if that failed, returns its error and saves nothing. options
   may be NULL. */
TUFF_API tuff_status tuff_checkpoint_writer_save(tuff_checkpoint_writer *writer, const char *path,
                                                 const tuff_checkpoint_options *options);
/* The same without a writer and without a copy: waits for the device and returns when the file is written. */
TUFF_API tuff_status tuff_checkpoint_save_as(const char *path, tuff_parameters *parameters, tuff_optimizer *optimizer,
                                             const tuff_checkpoint_options *options);
/* Waits for the save in progress. If it failed, returns its error, once; path is then unchanged, unless the error is
   about one of the other names. */
TUFF_API tuff_status tuff_checkpoint_writer_wait(tuff_checkpoint_writer *writer);

/* Copies all parameters to another set with the same names and shapes on the same device, on the device and without
   waiting, like tuff_array_copy. Use it to keep the parameters of some step, such as the best one so far. TUFF_E_USAGE
   if the sets differ. */
TUFF_API tuff_status tuff_parameters_copy(tuff_parameters *to, tuff_parameters *from);
/* Creates a set with the same parameters and groups on the same device, with copies of their values. Destroy it like
   any other. NULL on failure. */
TUFF_API tuff_parameters *tuff_parameters_clone(tuff_parameters *parameters);

#ifdef __cplusplus
}
#endif
#endif
