/* The process that tunes for a program: finding its executable file, starting and ending it. worker.h talks to it. */
#ifndef TUFF_WORKER_WORKER_PROCESS_H
#define TUFF_WORKER_WORKER_PROCESS_H

#include <sys/types.h>

#include "base/status.h"

typedef struct worker_process {
    pid_t id; /* 0: there is none */
    int fd;   /* a socket to it */
} worker_process;

/* Finds the program that is run as `PROGRAM tune worker`: TUFF_WORKER if the environment has it (empty: none), else
   tuff__worker_own if it is not NULL, else the tool beside a shared library, else the installed tool. False if there is
   none; out then says where it was looked for. */
bool tuff__worker_find(char *out, size_t size);
/* Set by the tool, which is its own worker: its file. */
extern const char *tuff__worker_own;

/* Starts it in a process group of its own, with a socket as stdin, no stdout, and the program's stderr. TUFF_E_IO if
   that fails. */
tuff_status tuff__worker_spawn(const char *path, worker_process *out);
/* Closes the socket, waits up to grace nanoseconds for the process to end, then kills it, and reaps it. Returns the
   status that waitpid gave; -1 if someone else reaped it. Does nothing if there is no process. */
int tuff__worker_reap(worker_process *self, uint64_t grace);

/* The limit of TUFF_TUNE_WATCHDOG in nanoseconds, for silence and for a step; `default_limit` if it is not set. */
uint64_t tuff__worker_watchdog(uint64_t default_limit);

#endif
