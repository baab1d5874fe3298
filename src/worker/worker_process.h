/* The process that tunes for a program: found, started, ended. */
#ifndef TUFF_WORKER_WORKER_PROCESS_H
#define TUFF_WORKER_WORKER_PROCESS_H

#include <sys/types.h>

#include "base/status.h"

typedef struct worker_process {
    pid_t id; /* 0: there is none */
    int fd;   /* a socket to it */
} worker_process;

/* The program that is run with the words "tune worker": TUFF_WORKER where the environment has it (empty: none), else
   tuff__worker_own where it is not NULL, else the tool beside a shared library, else where the tool is installed. False
   where there is none; the text then says what was looked for. */
bool tuff__worker_find(char *out, size_t size);
/* The file of the tool itself, which is its own worker. */
extern const char *tuff__worker_own;

/* Starts it in a group of its own, with a socket as its input, no output, and the program's error stream. TUFF_E_IO
   where that cannot be. */
tuff_status tuff__worker_spawn(const char *path, worker_process *out);
/* Closes the socket, waits so long for the process to end, kills it otherwise, and takes it off the list of processes.
   Returns its status as of waitpid; -1 where somebody else took that. Nothing where there is none. */
int tuff__worker_reap(worker_process *self, uint64_t grace);

/* Nanoseconds that TUFF_TUNE_WATCHDOG allows without a sign of life, or for one step; `usual` where it says nothing. */
uint64_t tuff__worker_watchdog(uint64_t usual);

#endif
