/* Processes and files as seen from outside; each function fails the test if its condition does not hold. */
#ifndef TESTS_PROCESSES_H
#define TESTS_PROCESSES_H

#include <sys/types.h>

/* Waits for a process to have a child, and returns it. */
pid_t await_child(pid_t parent);
/* The process ends within so many milliseconds. */
void expect_gone(pid_t one, int milliseconds);
/* Returns the number of files that this process has open. */
int count_open_files(void);
/* This process has no child, not even a zombie. */
void expect_no_child(void);

#endif
