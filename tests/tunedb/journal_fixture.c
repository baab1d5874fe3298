/* Processes that die, and what their journals report. */
#define _DEFAULT_SOURCE 1
#include "journal_fixture.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "scratch_folder.h"

void check(bool condition)
{
    if (!condition)
        _exit(99);
}

void killed(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

void ended(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

reported_crash last;

tuff_status note(const journal_crash *crash, void *state)
{
    (void)state;
    last.count++;
    last.phase = crash->phase;
    last.rebooted = crash->rebooted;
    last.time = crash->time;
    strcpy(last.environment, crash->environment);
    strcpy(last.op, crash->op);
    strcpy(last.candidate, crash->candidate);
    return TUFF_OK;
}

journal_counts recover(void)
{
    journal_counts out;
    memset(&last, 0, sizeof last);
    assert_int_equal(tuff__journal_recover(scratch_folder(), note, NULL, &out), TUFF_OK);
    assert_int_equal(last.count, out.crashes);
    return out;
}

void assert_counts(journal_counts counts, int crashes, int idle, int alive, int damaged)
{
    assert_int_equal(counts.crashes, crashes);
    assert_int_equal(counts.idle, idle);
    assert_int_equal(counts.alive, alive);
    assert_int_equal(counts.damaged, damaged);
}

int count_files(void)
{
    char command[1024], line[32] = "";
    (void)snprintf(command, sizeof command, "ls -A %s/inflight 2>/dev/null | wc -l", scratch_folder());
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(line, sizeof line, pipe));
    assert_int_equal(pclose(pipe), 0);
    return atoi(line);
}

void clear_files(void)
{
    char command[1024];
    (void)snprintf(command, sizeof command, "rm -rf '%s/inflight'", scratch_folder());
    assert_int_equal(system(command), 0);
}

journal *open_journal(void)
{
    journal *out;
    assert_int_equal(tuff__journal_open(scratch_folder(), &out), TUFF_OK);
    assert_string_equal(tuff__journal_error(out), "");
    return out;
}

void die(journal_phase entered, journal_phase moved, bool leave)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) {
        killed(child);
        return;
    }
    journal *own;
    check(tuff__journal_open(scratch_folder(), &own) == TUFF_OK);
    check(tuff__journal_enter(own, entered, "device x", "matmul 8x8", "map.local_size=4", true) == TUFF_OK);
    tuff__journal_set_phase(own, moved);
    if (leave)
        tuff__journal_leave(own);
    (void)raise(SIGKILL);
}

void write_journal(const char *name, const journal_owner *owner, bool locked, journal_phase phase)
{
    char path[64];
    static journal_slot whole[JOURNAL_PLACES];
    journal_page *page = &whole[0].page;
    memset(whole, 0, sizeof whole);
    memcpy(page->magic, JOURNAL_MAGIC, sizeof page->magic);
    page->size = JOURNAL_SIZE;
    page->owner = *owner;
    page->owner_check = tuff__journal_owner_check(owner);
    page->locked = locked;
    page->phase = phase;
    memcpy(page->texts, "d\0o\0c", 6);
    page->filled = 6;
    page->check = tuff__journal_check(page);
    (void)mkdir(scratch_path("inflight"), 0700);
    (void)snprintf(path, sizeof path, "inflight/%s", name);
    scratch_write(path, whole, sizeof whole);
}

journal_owner dead_owner(void)
{
    journal_owner owner;
    tuff__journal_describe_owner(&owner);
    owner.start++;
    return owner;
}

journal_slot *write_dead_journal(journal_phase phase, size_t *size)
{
    const journal_owner owner = dead_owner();
    write_journal("dead.1.2", &owner, true, phase);
    journal_slot *whole = (journal_slot *)(void *)scratch_read("inflight/dead.1.2", size);
    assert_non_null(whole);
    return whole;
}

void *share_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

void unshare_memory(void *memory, size_t size)
{
    assert_int_equal(munmap(memory, size), 0);
}
