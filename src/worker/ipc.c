/* Sends and receives messages over a socket, with deadlines. ipc.h lists the kinds. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "worker/ipc.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "kernels/tunables.h"
#include "ops/ops.h"
#include "tuff/tune.h"
#include "tunedb/kernel_hash.h"

/* Increase this with every change of the contents of messages. */
#define IPC_VERSION 3
enum { HEAD_SIZE = 12 };

static tuff_status fail_closed(void)
{
    return FAIL(TUFF_E_IO, "the other process closed the connection");
}

static tuff_status send_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        const ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return fail_closed();
        data += sent;
        size -= (size_t)sent;
    }
    return TUFF_OK;
}

tuff_status tuff__ipc_send(int fd, ipc_kind kind, const text *body)
{
    text all = {0};
    tuff__put_u32(&all, kind);
    tuff__put_bytes(&all, body == NULL ? "" : tuff__text_get(body), body == NULL ? 0 : body->length);
    tuff_status status = tuff__text_status(&all);
    if (status == TUFF_OK && body != NULL)
        status = tuff__text_status(body);
    if (status == TUFF_OK)
        status = send_all(fd, all.data, all.length);
    tuff__text_free(&all);
    return status;
}

/* Waits until there is data to read. */
static tuff_status await(int fd, uint64_t until)
{
    for (;;) {
        const uint64_t now = tuff__nanoseconds(), left = until > now ? until - now : 0;
        const uint64_t milliseconds = left / 1000000 + (left % 1000000 != 0);
        struct pollfd from = {.fd = fd, .events = POLLIN};
        const int ready = poll(&from, 1, until == UINT64_MAX ? -1 : milliseconds > 60000 ? 60000 : (int)milliseconds);
        if (ready > 0)
            return TUFF_OK;
        if (ready < 0 && errno != EINTR)
            return fail_closed();
        if (ready == 0 && tuff__nanoseconds() >= until)
            return FAIL(TUFF_E_TIMEOUT, "timeout waiting for the other process");
    }
}

static tuff_status receive_all(int fd, unsigned char *data, size_t size, uint64_t until)
{
    while (size > 0) {
        TRY(await(fd, until));
        const ssize_t got = recv(fd, data, size, MSG_DONTWAIT);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return fail_closed();
        data += got;
        size -= (size_t)got;
    }
    return TUFF_OK;
}

static tuff_status make_room(ipc_message *message, size_t size)
{
    if (size < message->capacity)
        return TUFF_OK;
    unsigned char *data = tuff__realloc_array(message->data, size + 1, 1);
    if (data == NULL)
        return TUFF_E_OOM_HOST;
    message->data = data;
    message->capacity = size + 1;
    return TUFF_OK;
}

tuff_status tuff__ipc_receive(int fd, size_t most, uint64_t nanoseconds, ipc_message *out)
{
    unsigned char head[HEAD_SIZE];
    const uint64_t now = tuff__nanoseconds(), until = nanoseconds > UINT64_MAX - now ? UINT64_MAX : now + nanoseconds;
    TRY(receive_all(fd, head, sizeof head, until));
    byte_reader from = {.data = head, .size = sizeof head};
    const uint32_t kind = tuff__get_u32(&from);
    const uint64_t size = tuff__get_u64(&from);
    if (kind >= IPC_KINDS || size > most)
        return FAIL(TUFF_E_FORMAT, "invalid message from the other process");
    out->kind = (ipc_kind)kind;
    out->size = 0;
    TRY(make_room(out, (size_t)size));
    TRY(receive_all(fd, out->data, (size_t)size, until));
    out->size = (size_t)size;
    return TUFF_OK;
}

byte_reader tuff__ipc_reader(const ipc_message *message)
{
    return (byte_reader){.data = message->data, .size = message->size};
}

void tuff__ipc_free(ipc_message *message)
{
    tuff__free(message->data);
    *message = (ipc_message){0};
}

static hash128 hash_build(void)
{
    static const char *const families[] = {"map",     "row",       "column", "matmul", "scan",
                                           "scatter", "attention", "fusion", "task"};
    text all = {0};
    char kernel_hash[KERNEL_HASH_SIZE];
    tuff__text_add(&all, "%d %zu %d %d", IPC_VERSION, sizeof(tuff_tune_stats), OP_COUNT, TUNABLE_COUNT);
    for (size_t i = 0; i < sizeof families / sizeof *families; ++i)
        tuff__text_add(&all, " %s", tuff__kernel_hash(families[i], kernel_hash));
    for (int i = 0; i < OP_COUNT; ++i)
        tuff__text_add(&all, " %s", tuff__op_info((op_code)i)->name);
    const hash128 made = tuff__hash(tuff__text_get(&all), all.length);
    tuff__text_free(&all);
    return made;
}

const char *tuff__ipc_build(char *out)
{
    const hash128 hash = hash_build();
    (void)snprintf(out, IPC_BUILD_SIZE, "%.20s %016" PRIx64 "%016" PRIx64, tuff_version(), hash.high, hash.low);
    return out;
}
