/* The process that tunes for a program: finds its executable, starts it and ends it. worker.h talks to it. */
#ifndef TUFF_WORKER_WORKER_PROCESS_H
#define TUFF_WORKER_WORKER_PROCESS_H

#include <sys/types.h>

#include "base/status.h"

typedef struct worker_process {
    pid_t id; /* 0 if there is no process */
    int fd;   /* this process's end of a socket to it */
} worker_process;

/* Finds the program that is run as `PROGRAM tune worker`: TUFF_WORKER if that variable is set (empty: none), else
   tuff__worker_own_path if it is not NULL, else the tool next to a shared library, else the installed tool. Returns
   false if it cannot be run; out then says where it was looked for. */
bool tuff__worker_find(char *out, size_t size);
/* The tool sets this to its own file: it is its own worker. */
extern const char *tuff__worker_own_path;

/* Starts the process in a process group of its own, with a socket as stdin, no stdout, and the program's stderr.
   TUFF_E_IO if that fails. */
tuff_status tuff__worker_spawn(const char *path, worker_process *out);
/* Closes the socket, waits up to grace nanoseconds for the process to end, kills it and its group if it has not, and
   reaps it. Returns the status from waitpid, or -1 if it was reaped elsewhere or does not even end when it is killed.
   Does nothing if there is no process. */
int tuff__worker_reap(worker_process *self, uint64_t grace);

/* Returns the limit from TUFF_TUNE_WATCHDOG in nanoseconds, which applies to silence and to a step; `default_limit` if
   the variable is not set. */
uint64_t tuff__worker_watchdog(uint64_t default_limit);

#endif
