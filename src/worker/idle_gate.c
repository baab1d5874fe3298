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
    const uint64_t idle_time = tuff__device_idle_time(self->plan->device), now = tuff__nanoseconds();
    const uint64_t idle = atomic_load(&tuff__background_idle), active = BACKGROUND_ACTIVE_FACTOR * idle;
    if (idle_time < idle)
        return idle - idle_time;
    if (idle_time >= active || now >= self->rest_until)
        return 0;
    const uint64_t rest = self->rest_until - now, work = active - idle_time;
    return rest < work ? rest : work;
}

/* Waits for as long as it takes; returns false if the thread must end. */
static bool await_turn(background *self)
{
    const uint64_t slice = UINT64_C(500000000);
    bool was_locked_out = false;
    while (!tuff__background_is_stopped(self)) {
        const uint64_t time = time_to_wait(self);
        if (time == 0 && lock_device(self))
            return true;
        if (time == 0 && !was_locked_out) {
            self->tuning_session.stats.lock_waits++;
            tuff__background_publish(self);
        }
        was_locked_out = time == 0;
        if (!was_locked_out)
            tuff__background_unlock_device(self);
        tuff__background_sleep(self, was_locked_out || time > slice ? slice : time);
    }
    return false;
}

bool tuff__background_yield(background *self, bool is_between)
{
    tuning_session *session = &self->tuning_session;
    const uint64_t now = tuff__nanoseconds();
    const bool is_idle = tuff__device_idle_time(self->plan->device) >= atomic_load(&tuff__background_idle);
    if (!is_between && is_idle && self->holds_turn && !tuff__background_is_stopped(self))
        return true;
    if (self->work_began > 0)
        self->work_time += now - self->work_began;
    if (is_between) {
        self->rest_until = now + BACKGROUND_REST_FACTOR * self->work_time;
        self->work_time = 0;
    }
    const bool goes_on = time_to_wait(self) == 0 && self->holds_turn && !tuff__background_is_stopped(self);
    session->stopped |= !goes_on && !await_turn(self);
    self->work_began = tuff__nanoseconds();
    if (!goes_on) {
        session->begin += self->work_began - now;
        session->limit += self->work_began - now;
    }
    return !session->stopped;
}
