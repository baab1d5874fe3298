/* Makes a test program its own worker, with faults on request: see faulty_worker.h. */
#define _DEFAULT_SOURCE 1
#include "faulty_worker.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "background_fixture.h"
#include "base/thread.h"
#include "each_device.h"
#include "opencl_replaced.h"
#include "worker/ipc.h"
#include "tools/tune/verbs.h"
#include "tunedb/folder.h"
#include "tunedb/journal_format.h"
#include "tunedb/lookup.h"
#include "tune_fixture.h"

char own_program[500];

void set_variable(const char *name, const char *value)
{
    assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

/* The faulty workers. */

/* Whether this process currently tries a candidate that is not the default. */
static bool is_at_candidate(void)
{
    static char folder[FOLDER_SIZE], name[JOURNAL_NAME], path[JOURNAL_PATH];
    journal_owner owner;
    journal_page page;
    tuff__journal_describe_owner(&owner);
    tuff__journal_name(&owner, name, sizeof name);
    if (tuff__tune_folder(folder, sizeof folder) != TUFF_OK || tuff__journal_path(folder, name, path) != TUFF_OK)
        return false;
    FILE *file = fopen(path, "rb");
    const bool read = file && fread(&page, sizeof page, 1, file) == 1;
    if (file)
        (void)fclose(file);
    if (!read || page.phase == JOURNAL_IDLE || page.check != tuff__journal_check(&page))
        return false;
    const char *op = page.texts + strlen(page.texts) + 1;
    return op[strlen(op) + 1] != '\0';
}

/* Fails at the first candidate, as often as it can create one of TUFF_TEST_TIMES numbered files. */
static void *fail_at_candidate(void *argument)
{
    const int number = *(const int *)argument;
    const char *mark = getenv("TUFF_TEST_MARK");
    char path[600];
    for (; !is_at_candidate();)
        (void)usleep(300);
    for (int i = 0, times = atoi(getenv("TUFF_TEST_TIMES")); i < times; i++) {
        (void)snprintf(path, sizeof path, "%s.%d", mark, i);
        const int made = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (made < 0)
            continue;
        (void)close(made);
        (void)kill(getpid(), number);
        for (;;)
            (void)pause();
    }
    return NULL;
}

static void send_text(ipc_kind kind, const char *subject)
{
    text body = {0};
    tuff__put_text(&body, subject);
    (void)tuff__ipc_send(STDIN_FILENO, kind, &body);
    tuff__text_free(&body);
}

/* Sends results for no key, after the device was lost or not. */
static void send_empty_result(bool is_lost)
{
    const tuff_tune_stats stats = {.measured = 1};
    text body = {0};
    tuff__put_u32(&body, TUFF_OK);
    tuff__put_text(&body, "");
    tuff__put_u8(&body, is_lost);
    tuff__put_u32(&body, 1);
    tuff__put_bytes(&body, &stats, sizeof stats);
    tuff__put_u32(&body, 0);
    (void)tuff__ipc_send(STDIN_FILENO, IPC_MEASURED, &body);
    tuff__text_free(&body);
}

/* Simulates a worker whose device is lost with every key, that sends nonsense or results for too few keys, or that ends
   when it begins. */
static int play_worker(const char *fault)
{
    char build[IPC_BUILD_SIZE];
    ipc_message in = {0};
    text yes = {0};
    tuff__put_u8(&yes, true);
    send_text(IPC_HELLO, tuff__ipc_build(build));
    while (tuff__ipc_receive(STDIN_FILENO, (size_t)1 << 30, UINT64_MAX, &in) == TUFF_OK && in.kind != IPC_END)
        if (in.kind == IPC_BEGIN && strcmp(fault, "begin") == 0)
            (void)kill(getpid(), SIGKILL);
        else if (in.kind == IPC_BEGIN)
            send_text(IPC_READY, strcmp(fault, "refuse") == 0 ? "there is something else there" : "");
        else if (in.kind == IPC_LOCK_DEVICE)
            (void)tuff__ipc_send(STDIN_FILENO, IPC_REPLY, &yes);
        else if ((in.kind == IPC_MEASURE || in.kind == IPC_MEASURE_ALL) && strcmp(fault, "nonsense") != 0)
            send_empty_result(strcmp(fault, "lost") == 0);
        else if (in.kind == IPC_MEASURE || in.kind == IPC_MEASURE_ALL)
            send_text(IPC_MEASURED, "nothing of what was asked for");
    tuff__text_free(&yes);
    tuff__ipc_free(&in);
    return 0;
}

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
static cl_int CL_API_CALL never_return(cl_uint most, cl_platform_id *platforms, cl_uint *count)
{
    (void)most, (void)platforms, (void)count;
    while (pause() != 0)
        continue;
    return CL_SUCCESS;
}

static void make_opening_hang(void)
{
    tuff__cl.GetPlatformIDs = never_return;
}
#else
static void make_opening_hang(void) {}
#endif

int run_faulty_worker(void)
{
    static int number;
    pthread_t thread;
    const char *fault = getenv("TUFF_TEST_FAULT");
    if (fault && strcmp(fault, "other") == 0) {
        send_text(IPC_HELLO, "0.0.1 of long ago");
        (void)pause();
    }
    if (fault && strcmp(fault, "silent") == 0)
        (void)pause();
    if (fault && strchr("blnr", fault[0]) && strcmp(fault, "noisy") != 0)
        return play_worker(fault);
    if (fault && strcmp(fault, "noisy") == 0)
        for (;;)
            if (write(STDIN_FILENO, "what is this to mean?", 21) < 0)
                return 1;
    if (fault && strcmp(fault, "stuck") == 0)
        make_opening_hang();
    number = !fault ? 0 : strcmp(fault, "crash") == 0 ? SIGKILL : strcmp(fault, "hang") == 0 ? SIGSTOP : 0;
    if (number != 0 && pthread_create(&thread, NULL, fail_at_candidate, &number) == 0)
        (void)pthread_detach(thread);
    return tune_verb_worker.run(0, NULL);
}

/* Lines that were logged. */
static struct {
    mutex lock;
    char lines[32][600];
    int count;
} logged = {.lock = MUTEX_INITIALIZER};

void record_log_line(void *user, tuff_log_level level, const char *line)
{
    (void)user;
    tuff__lock(&logged.lock);
    if (level <= TUFF_LOG_INFO && logged.count < 32)
        (void)snprintf(logged.lines[logged.count++], sizeof *logged.lines, "%s", line);
    tuff__unlock(&logged.lock);
}

static int count_logged(const char *subject)
{
    int count = 0;
    tuff__lock(&logged.lock);
    for (int i = 0; i < logged.count; i++)
        count += strstr(logged.lines[i], subject) != NULL;
    tuff__unlock(&logged.lock);
    return count;
}

void expect_logged(const char *subject, int times)
{
    const int count = count_logged(subject);
    if (count == times)
        return;
    for (int i = 0; i < logged.count; i++)
        print_message("    logged: %s\n", logged.lines[i]);
    fail_msg("\"%s\" was logged %d times, not %d", subject, count, times);
}

static void remove_marks(void)
{
    char line[700];
    (void)snprintf(line, sizeof line, "rm -f '%s/mark'.*", cache_folder());
    assert_int_equal(system(line), 0);
}

void begin_with_worker(const char *fault, const char *times)
{
    char mark[600];
    forget_stores();
    set_idle(2 * MILLISECOND);
    logged.count = 0;
    (void)snprintf(mark, sizeof mark, "%s/mark", cache_folder());
    remove_marks();
    set_variable("TUFF_WORKER", own_program);
    set_variable("TUFF_TEST_FAULT", fault);
    set_variable("TUFF_TEST_MARK", mark);
    set_variable("TUFF_TEST_TIMES", times);
}

bool find_own_program(void)
{
    return readlink("/proc/self/exe", own_program, sizeof own_program - 1) > 0;
}

bool is_worker(int count, char **arguments)
{
    return count == 3 && strcmp(arguments[1], "tune") == 0 && strcmp(arguments[2], "worker") == 0;
}

int count_crashes(tuff_device *device)
{
    char environment[ENVIRONMENT_SIZE];
    tune_store *store = open_device_store(device, environment);
    int at = 0, count = 0;
    for (const tune_record *one; (one = tuff__store_next(store, &at)) != NULL;)
        count += one->kind == RECORD_REJECTION && strcmp(one->reason, "crash") == 0;
    tuff__store_close(store);
    return count;
}
