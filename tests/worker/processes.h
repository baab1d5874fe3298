/* Processes and files as a test sees them from outside; each fails the test where what it says is not so. */
#ifndef TESTS_PROCESSES_H
#define TESTS_PROCESSES_H

#include <sys/types.h>

/* A child of a process, once it has one. */
pid_t await_child(pid_t parent);
/* Does not run any more after so long. */
void expect_gone(pid_t one, int milliseconds);
/* Files that this process has open. */
int count_open_files(void);
/* This process has no child, not even one that ended. */
void expect_no_child(void);

#endif
