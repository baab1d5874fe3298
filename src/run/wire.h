/* What a program and the helper that tunes for it say to each other, over a socket: messages of a kind, each with its
   length in front. The helper answers calls, and while it is at one it calls back. Both are of the same build, which
   the first message proves. */
#ifndef TUFF_RUN_WIRE_H
#define TUFF_RUN_WIRE_H

#include "base/bytes.h"
#include "base/hash.h"

/* Behind each: what it carries, in the order of the functions of base/bytes.h that write it. */
typedef enum wire_kind {
    /* The helper's first word: a text, tuff__wire_build's. */
    WIRE_HELLO,
    /* From the program. BEGIN: helper_job (helper.h); READY answers it: an error's text, "" where there is none. */
    WIRE_BEGIN,
    WIRE_READY,
    /* Takes the silicon: ANSWER is bool. LEAVE has no answer. */
    WIRE_TAKE,
    WIRE_LEAVE,
    /* u32 subject, u64 nanoseconds for it and for those behind it, u32 keys wanted and done. */
    WIRE_MEASURE,
    /* u32 status, text of an error, bool whether the device was lost, u32 keys done, bool whether measured, u32 tier,
       text of the choice, stats. */
    WIRE_MEASURED,
    /* All of the graph: u64 nanoseconds. MEASURED_ALL: u32 status, text of an error, bool whether the device was lost,
       stats; then u32 keys, and for each u64, u64 its hash, bool whether measured, u32 tier, text of the choice. */
    WIRE_MEASURE_ALL,
    WIRE_MEASURED_ALL,
    /* A program into the cache: text name, text, u32 buffers, words, local size, subgroup size; ANSWER is bool. */
    WIRE_COMPILE,
    /* The helper ends in order. */
    WIRE_END,
    WIRE_ANSWER,
    /* From the helper within a call. GIVE_WAY: bool is_between, stats. GO answers it once the device may be used: bool
       whether there is anything to go on with, u64 nanoseconds that waiting took. */
    WIRE_GIVE_WAY,
    WIRE_GO,
    /* u32 keys, done, double seconds left, text key, best, u64 default's and best's nanoseconds, u32 candidates,
       rejected, text rejection; ANSWER is bool: false stops. */
    WIRE_PROGRESS,
    /* Without an answer: u32 level and text; nothing at all. */
    WIRE_LOG,
    WIRE_ALIVE,
    WIRE_KINDS
} wire_kind;

typedef struct wire_message {
    wire_kind kind;
    unsigned char *data; /* owned */
    size_t size, capacity;
} wire_message;

/* TUFF_E_IO where nobody is at the other end, or does not read. Never a signal. */
tuff_status tuff__wire_send(int fd, wire_kind kind, const text *body);
/* The next message, of at most so many bytes: TUFF_E_TIMEOUT after so many nanoseconds (UINT64_MAX: never), TUFF_E_IO
   where the other end is closed, TUFF_E_FORMAT for what is no message. The buffer of *out is used again. */
tuff_status tuff__wire_receive(int fd, size_t most, uint64_t nanoseconds, wire_message *out);
byte_reader tuff__wire_reader(const wire_message *of);
void tuff__wire_free(wire_message *of);

/* "0.1.0 6f0e...": of what both ends must have in common. */
enum { WIRE_BUILD_SIZE = 64 };
const char *tuff__wire_build(char *out);

#endif
