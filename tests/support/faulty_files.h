/* Replaces the table of file operations so that a test can make one of them fail. */
#ifndef TESTS_FAULTY_FILES_H
#define TESTS_FAULTY_FILES_H

#include <stdbool.h>

typedef enum fault_kind {
    FAULT_NONE,
    FAULT_EIO,
    FAULT_ENOSPC,
    FAULT_EINTR,
    FAULT_SHORT, /* read and write transfer one byte */
    FAULT_EMPTY, /* read and write return 0 */
    FAULT_EXIT   /* the process exits before the operation, as if by SIGKILL */
} fault_kind;

/* Installs the table. Operation number failing (from 1) fails, and if sticky, every later one too. A failing close
   still closes the file. */
void faulty_files_begin(fault_kind kind, int failing, bool sticky);
/* Restores the real operations. Returns whether an operation was made to fail. */
bool faulty_files_end(void);
int faulty_files_count(void); /* operations since begin */
int faulty_files_open(void);  /* open descriptors */
const char *faulty_files_log(
    void); /* one letter for each operation since begin: o r w s(fstat) f(sync) c m(rename) l u k(mkdir) t(lstat)
              x(flock) p(pread) z(ftruncate) */
const char *faulty_files_hit(void); /* name of the first operation that failed; "" if none */

#endif
