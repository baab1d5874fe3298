/* Decides when the background thread may use the device: once the device has been idle for long enough, no other
   process is measuring on it and, if the program is active, a pause in proportion to the last stretch of work has
   passed. */
#include "worker/background_state.h"

_Atomic uint64_t tuff__background_idle = UINT64_C(500000000);

/* Only one tuner of a process measures at a time, even if there is no worker to hold the lock file. */
static atomic_flag turn = ATOMIC_FLAG_INIT;

static bool lock_device(background *self)
{
    if (self->holds_turn)
        return true;
    if (atomic_flag_test_and_set(&turn))
        return false;
    self->holds_turn = true;
    if (!tuff__worker_is_running(self->worker) || tuff__worker_lock_device(self->worker))
        return true;
    tuff__background_unlock_device(self);
    return false;
}

void tuff__background_unlock_device(background *self)
{
    if (!self->holds_turn)
        return;
    if (tuff__worker_is_running(self->worker))
        tuff__worker_unlock_device(self->worker);
    self->holds_turn = false;
    atomic_flag_clear(&turn);
}

/* Returns for how long no work may begin, judging by the device's idle time and the share of time already used; 0 if
   work may begin. */
static uint64_t time_to_wait(const background *self)
{
    const uint64_t alone = tuff__device_idle_time(self->plan->device), now = tuff__nanoseconds();
    const uint64_t idle = atomic_load(&tuff__background_idle), at_work = BACKGROUND_AT_WORK * idle;
    if (alone < idle)
        return idle - alone;
    if (alone >= at_work || now >= self->rested)
        return 0;
    const uint64_t rest = self->rested - now, work = at_work - alone;
    return rest < work ? rest : work;
}

/* Waits for as long as it takes; returns false if the thread must end. */
static bool await_turn(background *self)
{
    const uint64_t slice = UINT64_C(500000000);
    bool was_refused = false;
    while (!tuff__background_is_stopped(self)) {
        const uint64_t time = time_to_wait(self);
        if (time == 0 && lock_device(self))
            return true;
        if (time == 0 && !was_refused) {
            self->tuning_session.stats.lock_waits++;
            tuff__background_publish(self);
        }
        was_refused = time == 0;
        if (!was_refused)
            tuff__background_unlock_device(self);
        tuff__background_sleep(self, was_refused || time > slice ? slice : time);
    }
    return false;
}

bool tuff__background_yield(background *self, bool is_between)
{
    tuning_session *session = &self->tuning_session;
    const uint64_t now = tuff__nanoseconds();
    const bool is_alone = tuff__device_idle_time(self->plan->device) >= atomic_load(&tuff__background_idle);
    if (!is_between && is_alone && self->holds_turn && !tuff__background_is_stopped(self))
        return true;
    if (self->began > 0)
        self->worked += now - self->began;
    if (is_between) {
        self->rested = now + BACKGROUND_REST * self->worked;
        self->worked = 0;
    }
    const bool goes_on = time_to_wait(self) == 0 && self->holds_turn && !tuff__background_is_stopped(self);
    session->stopped |= !goes_on && !await_turn(self);
    self->began = tuff__nanoseconds();
    if (!goes_on) {
        session->begin += self->began - now;
        session->limit += self->began - now;
        session->warmed = NULL; /* idle clocks are low */
    }
    return !session->stopped;
}
