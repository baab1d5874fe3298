/* A table of file operations for tests: the real ones, of which one can be made to fail. */
#ifndef TESTS_FAULTY_FILES_H
#define TESTS_FAULTY_FILES_H

#include <stdbool.h>

typedef enum fault_kind {
    FAULT_NONE,
    FAULT_EIO,
    FAULT_ENOSPC,
    FAULT_EINTR,
    FAULT_SHORT, /* read and write move one byte */
    FAULT_EMPTY, /* read and write move nothing and say so */
    FAULT_EXIT   /* the process ends before the operation, as by SIGKILL */
} fault_kind;

/* Installs the table. Operation number failing (from 1) goes wrong, and with sticky every one after it too. close
   really closes before it fails. */
void faulty_files_begin(fault_kind kind, int failing, bool sticky);
/* Back to the real operations. Answers whether an operation was made to go wrong. */
bool faulty_files_end(void);
int faulty_files_count(void); /* operations since begin */
int faulty_files_open(void);  /* descriptors not closed */
const char *faulty_files_log(
    void); /* the operations since begin, one letter each: o r w s(fstat) f(sync) c m(rename) l u k(mkdir) t(lstat)
             x(flock) p(pread) z(ftruncate) */
const char *faulty_files_hit(void); /* the name of the first operation that went wrong; "" before */

#endif
