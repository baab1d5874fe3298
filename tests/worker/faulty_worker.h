/* A test program that is its own worker: called with "tune worker" it is one, with TUFF_TEST_FAULT an ill one. */
#ifndef TESTS_FAULTY_WORKER_H
#define TESTS_FAULTY_WORKER_H

#include <stdbool.h>

#include "tuff.h"

extern char own_program[500];
/* Sets that; false where it cannot be found. */
bool find_own_program(void);
/* Whether the program was called to be a worker; then this is all that it does. */
bool is_worker(int count, char **arguments);
int be_worker(void);

/* An empty cache, this program as the worker, and what is the matter with it, so many times:
     crash, hang   the first candidate kills or stops it
     begin         its device's opening kills it
     stuck         OpenCL does not return from it
     refuse        it has another device
     lost, nonsense   so it answers when it has measured
     other, silent, noisy   so it greets: of another build, not at all, with what is no message
     NULL          nothing */
void begin_with_worker(const char *fault, const char *times);
void set_variable(const char *name, const char *value); /* NULL takes it out of the environment */

/* For tuff_set_log: keeps what is said there, since begin_with_worker. */
void hear_line(void *user, tuff_log_level level, const char *line);
/* Fails where a line with these words was said more or less often. */
void expect_heard(const char *subject, int times);
/* Candidates that a process died of, by the device's store. */
int count_strikes(tuff_device *device);

#endif
