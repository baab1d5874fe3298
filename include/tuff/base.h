/* Version, status codes, dtypes, shapes, and the hooks for memory allocation and log messages.

   Ownership: a device outlives everything made on it. A graph owns its tensors; they are not freed one by one. Whoever
   creates an array, a graph, a plan or a device destroys it. Memory that you pass in is borrowed for the duration of
   the call, unless the function's comment names a longer time. Strings and pointers that a function returns belong to
   the library, unless its comment says otherwise.

   Threads: several threads may share a device and its arrays. A graph or a plan may be used by only one thread at a
   time. Status and message of the last error are kept per thread; the allocator and the log callback are process-wide.

   Errors: fallible functions return a tuff_status, or NULL instead of a new object. tuff_last_status() and tuff_error()
   then say what went wrong. Lookups such as tuff_parameters_find also return NULL, without an error. Wrong use is an
   error (TUFF_E_USAGE), except that accessors such as tuff_array_dtype need a valid pointer.

   Reserved fields of structs are for later versions: set them to zero, most easily with designated initializers.

   The library never aborts, exits, prints, throws or installs a signal handler. With tuff_tune_options.background it
   calls atexit, because tuning threads must have left the drivers before these are unloaded: once for the first thread,
   and at most once more for each. The tuning worker, if one is used, is a child process (tuff/tune.h). */
#ifndef TUFF_BASE_H
#define TUFF_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version of these headers; tuff_version() returns that of the library. */
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

/* Returns the version of the library that is running, such as "0.1.0". Static storage. */
TUFF_API const char *tuff_version(void);

/* The result of a fallible function. X(name, text). */
#define TUFF_STATUS_MAP(X)                                         \
    X(OK, "no error")                                              \
    X(E_USAGE, "invalid use of the library")                       \
    X(E_SHAPE, "incompatible shapes")                              \
    X(E_DTYPE, "incompatible dtypes")                              \
    X(E_OOM_HOST, "out of host memory")                            \
    X(E_OOM_DEVICE, "out of device memory")                        \
    X(E_LIMIT, "a limit of the device or the library is exceeded") \
    X(E_COMPILE, "a kernel failed to compile")                     \
    X(E_DEVICE_LOST, "the device was lost")                        \
    X(E_TIMEOUT, "the device did not respond in time")             \
    X(E_NO_DEVICE, "no such device")                               \
    X(E_UNSUPPORTED, "not supported")                              \
    X(E_FORMAT, "malformed file")                                  \
    X(E_IO, "input or output failed")                              \
    X(E_NUMERIC, "numerical error")

typedef enum tuff_status {
#define TUFF_STATUS_ENUMERATOR(name, text) TUFF_##name,
    TUFF_STATUS_MAP(TUFF_STATUS_ENUMERATOR)
#undef TUFF_STATUS_ENUMERATOR
} tuff_status;

/* Returns the name of a status, such as "TUFF_E_SHAPE". Static storage, never NULL. */
TUFF_API const char *tuff_status_name(tuff_status status);

/* Returns the status of this thread's last error. After a function has returned NULL (or -1) it gives the reason: out
   of memory, a lost device, an unsupported feature. A successful call does not change it. TUFF_OK before the first
   error. */
TUFF_API tuff_status tuff_last_status(void);

/* Returns the message of this thread's last error: one line of at most 1023 bytes that names the op and the shapes and
   says what to do. Empty before the first error; valid until the thread's next error. */
TUFF_API const char *tuff_error(void);

/* Element types. Kernels compute in f32, i32, u32 and bool; the others are storage types. f64 and i64 exist only in
   files: arrays and tensors cannot have them (TUFF_E_DTYPE). */
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

/* Returns the size of one element in bytes; 0 if dtype is none of the above. */
TUFF_API size_t tuff_dtype_size(tuff_dtype dtype);
/* Returns the name of a dtype: "f32", "bf16", ... Static storage. */
TUFF_API const char *tuff_dtype_name(tuff_dtype dtype);

#define TUFF_MAX_RANK 8 /* the largest number of axes of a shape */

/* Extents of a tensor, outermost axis first; elements are row-major. Rank 0 is a scalar. An extent may be 0. */
typedef struct tuff_shape {
    int rank;
    int64_t extent[TUFF_MAX_RANK];
} tuff_shape;

/* Returns the number of elements; -1 if it does not fit into int64_t or an extent is negative. */
TUFF_API int64_t tuff_shape_count(tuff_shape shape);
/* Whether rank and extents of both shapes are equal. */
TUFF_API bool tuff_shape_equal(tuff_shape a, tuff_shape b);

/* Source of all host memory of the library. Process-wide, because much of the memory belongs to no device: graphs,
   files, the cache, the list of devices. The functions are called from every thread that calls the library and from the
   library's own threads, and behave like malloc, realloc and free: allocate and reallocate return NULL on failure, and
   blocks are aligned for any type. jansson, with which tuff reads and writes JSON, has one allocator in a process: from
   the first use by tuff on, it is this one. A program that uses jansson itself sets no other allocator, and releases
   what jansson returns with jansson's functions. */
typedef struct tuff_allocator {
    void *(*allocate)(void *user, size_t size);
    void *(*reallocate)(void *user, void *block, size_t size);
    void (*release)(void *user, void *block);
    void *user;
} tuff_allocator;

/* Sets the allocator. Call this before any other function of the library, or never: blocks are released by the
   allocator that is set at that time. allocator is copied; NULL, or an allocator that lacks a function, restores
   malloc, realloc and free. */
TUFF_API void tuff_set_allocator(const tuff_allocator *allocator);

typedef enum tuff_log_level { TUFF_LOG_ERROR, TUFF_LOG_WARNING, TUFF_LOG_INFO, TUFF_LOG_DEBUG } tuff_log_level;

/* Receives messages that are not errors of a call, for example about a device that was skipped. text is one line
   without a newline, valid during the call. Called from every thread that calls the library and from the library's own
   threads. */
typedef void (*tuff_log_callback)(void *user, tuff_log_level level, const char *text);
/* Sets the log callback. Process-wide, because drivers are loaded and devices listed before any device exists. NULL
   turns logging off, which is the default. May be called at any time. Another thread may still be inside the old
   callback after this returns, so the old callback's user must stay valid until no other thread uses the library and no
   plan with background tuning is left. */
TUFF_API void tuff_set_log(tuff_log_callback callback, void *user);

#ifdef __cplusplus
}

/* TUFF_SHAPE(512, 768) for C++. */
template <typename... Extents> static inline tuff_shape tuff_shape_of(Extents... extents)
{
    static_assert(sizeof...(extents) <= TUFF_MAX_RANK, "a shape has at most 8 extents");
    return tuff_shape{static_cast<int>(sizeof...(extents)), {static_cast<int64_t>(extents)...}};
}
#define TUFF_SHAPE(...) tuff_shape_of(__VA_ARGS__)
#define TUFF_SCALAR tuff_shape_of()
#else
/* TUFF_SHAPE(512, 768): a shape literal with 1 to 8 extents. TUFF_SCALAR: the shape of rank 0. */
#define TUFF_SHAPE(...) \
    ((tuff_shape){.rank = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .extent = {__VA_ARGS__}})
#define TUFF_SCALAR ((tuff_shape){.rank = 0})
#endif

#endif
