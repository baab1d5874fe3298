/* What an open device consists of: for the files of this folder only. Every field but info, driver and handle is
   guarded by the lock (some can be read without it), and so is every call of a driver. */
#ifndef TUFF_DEVICE_STATE_H
#define TUFF_DEVICE_STATE_H

#include <stdatomic.h>

#include "device/device.h"

struct tuff_device {
    const driver *_Atomic driver; /* NULL: the reference device */
    driver_device *handle;        /* NULL with it */
    driver driver_override;       /* what driver points at, where some of the driver's calls are replaced */
    tuff_device_info info;
    mutex lock;
    bool lost; /* sticky: every later call answers lost_message */
    char lost_message[256];
    tuff_device_counters counters;
    storage *idle; /* the pool: buffers that nobody uses, last released first */
    uint64_t idle_size;
    program *programs;
    uint64_t compile_limit; /* nanoseconds that the driver's compiler may take; 0: any time */
    bool is_stuck;          /* it took longer, and may still be in the driver */
    struct job *under_way;  /* compilations beside other calls (watch.c) */
    uint64_t keeping_cost;  /* nanoseconds for the bytes of the last program that was kept late; 0: there was none */
    /* Ordinals of the last submission, and of the last one known to be done. These four can be read without lock. */
    _Atomic uint64_t submitted, finished;
    _Atomic uint64_t used;   /* when a call last gave it work, or waited for some; 0: never */
    _Atomic bool is_working; /* such a call is under way */
};

/* A device of the driver on an application's own objects, as the driver's wrap takes them; NULL on failure. */
tuff_device *tuff__device_wrap(const driver *calls, const void *handles);

/* Locks the device. Fails, and leaves it unlocked, where the device was lost. */
tuff_status tuff__device_begin(tuff_device *device);
/* TUFF_E_DEVICE_LOST in place of TUFF_E_OOM_DEVICE where it was not memory that was short: some drivers answer alike to
   both. Lock held. */
tuff_status tuff__device_lost_or(tuff_device *device, tuff_status status);
/* Notes a loss in status, unlocks and answers status. */
tuff_status tuff__device_end(tuff_device *device, tuff_status status);

/* The same for calls that give the device work or wait for some: tuff__device_idle_time counts from them. */
tuff_status tuff__device_begin_work(tuff_device *device);
tuff_status tuff__device_end_work(tuff_device *device, tuff_status status);

/* Waits for the device and gives all idle buffers back to the driver; false where there were none. Lock held. */
bool tuff__pool_trim(tuff_device *device);
/* Where status says that memory was short, gives the pool's idle buffers back: whether there were any, so that the call
   that answered status is worth repeating. Lock held. */
bool tuff__pool_reclaim(tuff_device *device, tuff_status status);

/* The driver's wait, which makes every submission finished. Lock held. */
tuff_status tuff__device_drain(tuff_device *device);

/* The driver's program_create in a thread of its own, for compile_limit at most; made may be NULL. Where that passes:
   TUFF_E_DEVICE_LOST, and nothing reaches the driver any more. Lock held. */
tuff_status tuff__create_watched(tuff_device *device, const program_request *request, blob cached, blob *made,
                                 driver_program **out);
/* The same without the lock, beside other calls, and without a limit of its own: TUFF_E_DEVICE_LOST too where
   tuff__device_give_up_compiles ended it, *begun then stays. For drivers that compile in parallel. */
tuff_status tuff__create_beside(tuff_device *device, const program_request *request, blob cached,
                                _Atomic uint64_t *begun, blob *made, driver_program **out);

/* Runs the self-test or reads its record, fills in the proved fields of device->info and turns off features that are
   not proved. Fails where the device or memory did, not where a feature is missing. */
tuff_status tuff__device_prove(tuff_device *device);

#endif
