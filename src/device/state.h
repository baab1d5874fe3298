/* The state of an open device, for the files of this folder only. The lock guards every field except info, driver and
   handle (some can be read without it), and every call of a driver. */
#ifndef TUFF_DEVICE_STATE_H
#define TUFF_DEVICE_STATE_H

#include <stdatomic.h>

#include "device/device.h"

struct tuff_device {
    const driver *_Atomic driver; /* NULL: the reference device */
    driver_device *handle;        /* NULL on the reference device */
    driver driver_override;       /* what driver points at if some of the driver's calls are replaced */
    tuff_device_info info;
    mutex lock;
    mutex host_run; /* the reference device: held during a run and during writes; taken before the lock */
    bool lost; /* sticky: every later call fails with lost_message */
    _Atomic bool describes_only; /* its storages get no memory; can be read without the lock */
    bool has_timed_out; /* the last wait for all submissions ended without progress */
    char lost_message[256];
    tuff_device_counters counters;
    storage *idle; /* the pool: unused buffers, most recently released first */
    uint64_t idle_size;
    program *programs;
    uint64_t compile_limit;     /* nanoseconds that the driver's compiler may take; 0: no limit */
    bool is_stuck;              /* a compilation took longer, and may still be in the driver */
    struct job *jobs_in_flight; /* compilations concurrent with other calls (compile_deadline.c) */
    uint64_t binary_cost;       /* nanoseconds to get the bytes of the program last stored late; 0: there was none */
    /* Ordinals of the last submission, and of the last one known to be done. These and the next two can be read without
       the lock. */
    _Atomic uint64_t submitted, finished;
    _Atomic uint64_t last_use; /* when a call last submitted work or waited for it; 0: never */
    _Atomic bool is_working;   /* such a call is in progress */
};

/* Makes a device of the driver from an application's own objects, in the form that the driver's wrap takes; NULL on
   failure. */
tuff_device *tuff__device_wrap(const driver *calls, const void *handles);

/* Locks the device. Fails, and leaves it unlocked, if the device was lost. */
tuff_status tuff__device_begin(tuff_device *device);
/* Returns TUFF_E_DEVICE_LOST instead of TUFF_E_OOM_DEVICE if the device is lost rather than short of memory: some
   drivers return the same error for both. Lock held. */
tuff_status tuff__device_detect_loss(tuff_device *device, tuff_status status);
/* Records a loss that status reports, unlocks and returns status. */
tuff_status tuff__device_end(tuff_device *device, tuff_status status);

/* The same for calls that submit work or wait for it: tuff__device_idle_time counts from them. */
tuff_status tuff__device_begin_work(tuff_device *device);
tuff_status tuff__device_end_work(tuff_device *device, tuff_status status);

/* Waits for the device and returns all idle buffers to the driver; false if there were none. Lock held. */
bool tuff__pool_trim(tuff_device *device);
/* If status is an out-of-memory error, returns the pool's idle buffers to the driver. Returns whether there were any,
   so that the call that failed is worth repeating. Lock held. */
bool tuff__pool_reclaim(tuff_device *device, tuff_status status);

/* Calls the driver's wait, after which every submission counts as finished. Lock held. */
tuff_status tuff__device_drain(tuff_device *device);

/* Calls the driver's program_create in a thread of its own, for compile_limit at most; made may be NULL. After that
   time returns TUFF_E_DEVICE_LOST, and no call reaches the driver any more. Lock held. */
tuff_status tuff__create_with_deadline(tuff_device *device, const program_request *request, blob cached, blob *made,
                                       driver_program **out);
/* The same without the lock, concurrently with other calls, and without a limit of its own. Also returns
   TUFF_E_DEVICE_LOST if tuff__device_give_up_compiles ended it; *begun then keeps its value. For drivers that compile
   in parallel. */
tuff_status tuff__create_concurrently(tuff_device *device, const program_request *request, blob cached,
                                      _Atomic uint64_t *begun, blob *made, driver_program **out);

/* Runs the self-test or reads its record, fills in the proved fields of device->info and turns off features that are
   not proved. Fails if the device or memory failed, but not if a feature is missing. */
tuff_status tuff__device_self_test(tuff_device *device);

#endif
