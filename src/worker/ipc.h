/* The protocol between a program and the worker that tunes for it: messages over a socket, each with a kind and a
   length. The program makes calls, the worker replies, and during a call the worker may call back. Both must be from
   the same build, which the first message proves. */
#ifndef TUFF_WORKER_IPC_H
#define TUFF_WORKER_IPC_H

#include "base/bytes.h"
#include "base/hash.h"

/* The comment of each kind lists its contents, in the order in which base/bytes.h writes them. */
typedef enum ipc_kind {
    /* The worker's first message: the text of tuff__ipc_build. */
    IPC_HELLO,
    /* From the program. BEGIN: worker_job (worker.h). The reply is READY: the text of an error, "" if there is none. */
    IPC_BEGIN,
    IPC_READY,
    /* Locks the device; the reply is REPLY with a bool. UNLOCK_DEVICE unlocks it and has no reply. */
    IPC_LOCK_DEVICE,
    IPC_UNLOCK_DEVICE,
    /* u32 task, u64 nanoseconds for it, u64 nanoseconds for later tasks, u32 keys wanted, u32 keys done. */
    IPC_MEASURE,
    /* All keys of the graph: u64 nanoseconds. */
    IPC_MEASURE_ALL,
    /* The reply to both: u32 status, text of an error, bool whether the device was lost, u32 keys done, stats; then u32
       key count, and for each key in the order of the tasks bool whether measured, u32 tier, text of the choice. If the
       device was lost, the choices may be missing. */
    IPC_MEASURED,
    /* Compiles a program into the cache: text name, text source, u32 buffers, words, local size, subgroup size. The
       reply is REPLY with a bool. */
    IPC_COMPILE,
    /* Asks the worker to end in an orderly way. */
    IPC_END,
    IPC_REPLY,
    /* From the worker during a call. YIELD: bool is_between, stats. The reply GO comes when the device may be used:
       bool whether to continue, u64 nanoseconds spent waiting. */
    IPC_YIELD,
    IPC_GO,
    /* u32 keys, u32 keys done, double seconds left, text key, text best, u64 nanoseconds of the default and of the
       best, u32 candidates, u32 rejected, text rejection. The reply is REPLY with a bool; false stops measuring. */
    IPC_PROGRESS,
    /* Without a reply. LOG: u32 level and text. ALIVE: empty. */
    IPC_LOG,
    IPC_ALIVE,
    IPC_KINDS
} ipc_kind;

typedef struct ipc_message {
    ipc_kind kind;
    unsigned char *data; /* owned */
    size_t size, capacity;
} ipc_message;

/* Sends a message. TUFF_E_IO if the other end is closed or does not read. Raises no signal. */
tuff_status tuff__ipc_send(int fd, ipc_kind kind, const text *body);
/* Receives the next message of at most `most` bytes. TUFF_E_TIMEOUT after that many nanoseconds (UINT64_MAX: never),
   TUFF_E_IO if the other end is closed, TUFF_E_FORMAT if the message is invalid. Reuses the buffer of *out. */
tuff_status tuff__ipc_receive(int fd, size_t most, uint64_t nanoseconds, ipc_message *out);
byte_reader tuff__ipc_reader(const ipc_message *message);
void tuff__ipc_free(ipc_message *message);

/* Writes "0.1.0 6f0e...": the version, and a hash of everything that both ends must agree on. Returns out. */
enum { IPC_BUILD_SIZE = 64 };
const char *tuff__ipc_build(char *out);

#endif
