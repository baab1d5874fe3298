/* Version, status codes, dtypes, shapes, and the hooks for memory and log text.

   Ownership: a device outlives everything made on it. A graph owns its tensors; they are not freed one by one. Arrays,
   graphs, plans and devices are destroyed by whoever created them. Memory that you pass in is borrowed for the duration
   of the call, unless the function's comment says until when. Strings and pointers that a function returns belong to
   the library, unless its comment says otherwise.

   Threads: a device and its arrays may be shared by threads. A graph or a plan is used by one thread at a time. Status
   and message of the last error are kept per thread; allocator and log callback are process-wide.

   Errors: fallible functions return a tuff_status, or NULL where they would return a new object. tuff_last_status() and
   tuff_error() then tell what went wrong. Lookups such as tuff_parameters_find also return NULL, without an error.
   Wrong use is an error (TUFF_E_USAGE), except that accessors such as tuff_array_dtype need a valid pointer.

   Reserved fields of structs are for later versions: zero them, best by designated initialisers.

   The library never aborts, exits, prints, throws or installs a signal handler. With tuff_tune_options.background it
   calls atexit, because tuning threads must leave the drivers before these are unloaded: once for the first thread, and
   at most once more for each; the tuning worker, where one is used, is a child process (tuff/tune.h). */
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

/* What fallible functions return. X(name, text). */
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

/* The status of this thread's last error: after a function returned NULL (or -1), why it did: out of memory, a lost
   device, an unsupported feature. A successful call leaves it as it was. TUFF_OK before the first error. */
TUFF_API tuff_status tuff_last_status(void);

/* The message of this thread's last error: one line of at most 1023 bytes that names the op, the shapes and what to do
   about it. Empty before the first error; valid until the thread's next one. */
TUFF_API const char *tuff_error(void);

/* Element types. Kernels compute in f32, i32, u32 and bool; the others are storage types.
   f64 and i64 exist in files only: arrays and tensors cannot have them (TUFF_E_DTYPE). */
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

/* Bytes of one element; 0 where dtype is none of the above. */
TUFF_API size_t tuff_dtype_size(tuff_dtype dtype);
/* "f32", "bf16", ... Static storage. */
TUFF_API const char *tuff_dtype_name(tuff_dtype dtype);

#define TUFF_MAX_RANK 8 /* axes of a shape */

/* Extents of a tensor, outermost axis first; elements are row-major. Rank 0 is a scalar. An extent may be 0. */
typedef struct tuff_shape {
    int rank;
    int64_t extent[TUFF_MAX_RANK];
} tuff_shape;

/* The number of elements; -1 if it does not fit int64_t or an extent is negative. */
TUFF_API int64_t tuff_shape_count(tuff_shape shape);
/* Whether ranks and extents are equal. */
TUFF_API bool tuff_shape_equal(tuff_shape a, tuff_shape b);

/* Where all host memory of the library comes from. Process-wide, because much of it belongs to no device: graphs,
   files, the cache, the list of devices. The functions are called from every thread that calls the library and from the
   library's own, and behave as malloc, realloc and free do: allocate and reallocate return NULL on failure, blocks are
   aligned for any type. */
typedef struct tuff_allocator {
    void *(*allocate)(void *user, size_t size);
    void *(*reallocate)(void *user, void *block, size_t size);
    void (*release)(void *user, void *block);
    void *user;
} tuff_allocator;

/* Call it before any other function of the library, or never: blocks are released by the allocator that is set then.
   allocator is copied; NULL, or one that lacks a function, restores malloc, realloc and free. */
TUFF_API void tuff_set_allocator(const tuff_allocator *allocator);

typedef enum tuff_log_level { TUFF_LOG_ERROR, TUFF_LOG_WARNING, TUFF_LOG_INFO, TUFF_LOG_DEBUG } tuff_log_level;

/* Receives messages that are not errors of a call, such as a device that was passed over. text is one line without a
   newline, valid during the call. Called from every thread that calls the library and from the library's own. */
typedef void (*tuff_log_callback)(void *user, tuff_log_level level, const char *text);
/* Sets the callback. Process-wide, because drivers are loaded and devices listed before there is any device. NULL turns
   logging off, which is the default. May be called at any time; a call of the earlier callback that another thread has
   begun may go on after this returned, so that its user must stay valid until no other thread uses the library and no
   plan with background tuning is left. */
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
