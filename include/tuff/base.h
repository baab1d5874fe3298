/* Version, status codes, dtypes, shapes, and the hooks for memory and log text.

   Ownership, in four sentences: a device outlives what was made on it; a graph owns its tensors, none is
   freed singly; arrays, graphs, plans and devices are destroyed by whoever created them; memory you pass in
   is borrowed for the call unless a function's comment names the event that ends the loan.

   Threads: a device may be shared by threads; a graph or a plan is used by one thread at a time.

   The library never aborts, exits, prints, throws or installs a handler, but for one of atexit where
   tuff_compile_options.tune_background asks for a thread: it must have left its driver before that is taken down. */
#ifndef TUFF_BASE_H
#define TUFF_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version of these headers; tuff_version() is the library's. */
#define TUFF_VERSION_MAJOR 0
#define TUFF_VERSION_MINOR 1
#define TUFF_VERSION_PATCH 0

#if defined(_WIN32)
#define TUFF_API
#elif defined(__GNUC__)
#define TUFF_API __attribute__((visibility("default")))
#else
#define TUFF_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that is running, "0.1.0". Static storage. */
TUFF_API const char *tuff_version(void);

/* Every fallible call answers one of these. X(name, text). */
#define TUFF_STATUS_MAP(X)                                         \
    X(OK, "no error")                                              \
    X(E_USAGE, "wrong use")                                        \
    X(E_SHAPE, "shapes do not fit")                                \
    X(E_DTYPE, "dtypes do not fit")                                \
    X(E_OOM_HOST, "out of host memory")                            \
    X(E_OOM_DEVICE, "out of device memory")                        \
    X(E_LIMIT, "a limit of the device or the library is exceeded") \
    X(E_COMPILE, "a kernel did not compile")                       \
    X(E_DEVICE_LOST, "the device was lost")                        \
    X(E_TIMEOUT, "the device did not answer in time")              \
    X(E_NO_DEVICE, "no such device")                               \
    X(E_UNSUPPORTED, "not supported here")                         \
    X(E_FORMAT, "malformed file")                                  \
    X(E_IO, "input or output failed")                              \
    X(E_NUMERIC, "numeric failure")

typedef enum tuff_status {
#define X(name, text) TUFF_##name,
    TUFF_STATUS_MAP(X)
#undef X
} tuff_status;

/* The name of a status, such as "TUFF_E_SHAPE". Static storage, never NULL. */
TUFF_API const char *tuff_status_name(tuff_status status);

/* What went wrong in the last failed call of this thread: one line, at most 1023 bytes, that names the op,
   the shapes and what to do. Empty before the first failure. Valid until the thread's next failure. */
TUFF_API const char *tuff_error(void);

/* Element types. Kernels compute in f32, i32, u32 and bool; the others are storage types.
   f64 and i64 exist in files only: arrays and tensors of them are refused. */
typedef enum tuff_dtype {
    TUFF_F32,
    TUFF_F16,
    TUFF_BF16,
    TUFF_I32,
    TUFF_U32,
    TUFF_I8,
    TUFF_U8,
    TUFF_BOOL, /* stored as one byte, 0 or 1 */
    TUFF_F64,
    TUFF_I64
} tuff_dtype;

/* Bytes of one element. */
TUFF_API size_t tuff_dtype_size(tuff_dtype dtype);
/* "f32", "bf16", ... Static storage. */
TUFF_API const char *tuff_dtype_name(tuff_dtype dtype);

#define TUFF_MAX_RANK 8 /* axes of a shape */

/* Extents of a tensor, outermost first. Rank 0 is a scalar. An extent may be 0. */
typedef struct tuff_shape {
    int rank;
    int64_t extent[TUFF_MAX_RANK];
} tuff_shape;

/* The number of elements; -1 where the product does not fit int64 or an extent is negative. */
TUFF_API int64_t tuff_shape_count(tuff_shape shape);
TUFF_API bool tuff_shape_equal(tuff_shape a, tuff_shape b);

/* Where all memory of the library comes from. Process-wide; set it before any other call, or never.
   allocate answers NULL on failure. The library's own blocks are aligned as malloc's. */
typedef struct tuff_allocator {
    void *(*allocate)(void *user, size_t size);
    void *(*reallocate)(void *user, void *block, size_t size);
    void (*release)(void *user, void *block);
    void *user;
} tuff_allocator;

/* NULL restores malloc, realloc and free. */
TUFF_API void tuff_set_allocator(const tuff_allocator *allocator);

typedef enum tuff_log_level { TUFF_LOG_ERROR, TUFF_LOG_WARNING, TUFF_LOG_INFO, TUFF_LOG_DEBUG } tuff_log_level;

/* Receives text the library would otherwise keep to itself. text is one line without its end, valid during the
   call; the callback may come from any thread that calls the library. NULL turns logging off (the default). */
typedef void (*tuff_log_callback)(void *user, tuff_log_level level, const char *text);
TUFF_API void tuff_set_log(tuff_log_callback callback, void *user);

#ifdef __cplusplus
}

/* TUFF_SHAPE(512, 768) in C++. */
template <typename... Extents> static inline tuff_shape tuff_shape_of(Extents... extents)
{
    static_assert(sizeof...(extents) <= TUFF_MAX_RANK, "a shape has at most 8 extents");
    return tuff_shape{static_cast<int>(sizeof...(extents)), {static_cast<int64_t>(extents)...}};
}
#define TUFF_SHAPE(...) tuff_shape_of(__VA_ARGS__)
#define TUFF_SCALAR tuff_shape_of()
#else
/* TUFF_SHAPE(512, 768): a shape literal of 1 to 8 extents. TUFF_SCALAR: the shape of rank 0. */
#define TUFF_SHAPE(...) \
    ((tuff_shape){.rank = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .extent = {__VA_ARGS__}})
#define TUFF_SCALAR ((tuff_shape){.rank = 0})
#endif

#endif
