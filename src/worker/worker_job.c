/* Writes and reads worker_job for the message BEGIN, and computes the hash by which both sides check that they found
   the same keys. */
#include "worker/worker.h"

#include "base/bytes.h"
#include "kernels/tunables.h"

hash128 tuff__worker_hash_keys(const tuning_session *session)
{
    hash128 all = {0};
    for (int i = 0; i < session->task_count; ++i) {
        const hash128 pair[] = {all, session->tasks[i].hash};
        all = tuff__hash(pair, sizeof pair);
    }
    return all;
}

static void write_options(text *out, const tuff_compile_options *options)
{
    const tuff_tune_options *tuning = tuff__tune_options(options);
    tuff__put_u32(out, options->fuse);
    tuff__put_u32(out, options->family);
    tuff__put_u32(out, options->matmul_library);
    tuff__put_u32(out, options->precision);
    tuff__put_u32(out, options->matmul_precision);
    tuff__put_u8(out, options->barrier_everywhere);
    tuff__put_u64(out, options->memory_budget);
    tuff__put_u32(out, tuning->mode);
    tuff__put_u32(out, tuning->milliseconds);
    tuff__put_u8(out, tuning->background);
    tuff__put_u32(out, tuning->seed);
    tuff__put_u64(out, tuning->memory);
    tuff__put_u8(out, tuning->progress != NULL);
    tuff__put_u8(out, tuning->log != NULL);
    tuff__put_text(out, tuning->log);
}

static void write_fusion(text *out, const worker_job *job)
{
    text passes = {0};
    tuff__config_format(&job->passes, &passes);
    tuff__put_text(out, tuff__text_get(&passes));
    tuff__text_free(&passes);
}

static void read_fusion(byte_reader *from, worker_job *out)
{
    char passes[512];
    tuff__get_text(from, passes, sizeof passes);
    from->failed = from->failed || tuff__config_parse(passes, &out->passes) != TUFF_OK;
}

void tuff__worker_write_job(text *out, const worker_job *job)
{
    tuff__put_text(out, job->cache);
    tuff__put_text(out, job->selector);
    tuff__put_text(out, job->environment);
    write_options(out, &job->options);
    tuff__put_u32(out, (uint32_t)job->buffer_limit);
    write_fusion(out, job);
    tuff__put_u64(out, job->compile_timeout);
    tuff__put_u64(out, job->keys.low);
    tuff__put_u64(out, job->keys.high);
    tuff__put_bytes(out, job->graph, job->graph_size);
}

/* Placeholder for the program's callback; the receiver of the job replaces it. */
static bool progress_placeholder(void *user, const tuff_tune_progress *now)
{
    (void)user;
    (void)now;
    return true;
}

static void read_options(byte_reader *from, worker_job *job)
{
    tuff_compile_options *out = &job->options;
    tuff_tune_options *tuning = &job->tuning;
    out->tuning = tuning;
    out->fuse = (tuff_fuse_mode)tuff__get_below(from, TUFF_FUSE_NONE + 1);
    out->family = (tuff_family)tuff__get_below(from, FAMILY_COUNT);
    out->matmul_library = (tuff_matmul_library)tuff__get_below(from, TUFF_MATMUL_CLBLAST + 1);
    out->precision = (tuff_precision)tuff__get_below(from, TUFF_PRECISION_BF16 + 1);
    out->matmul_precision = (tuff_precision)tuff__get_below(from, TUFF_PRECISION_BF16 + 1);
    out->barrier_everywhere = tuff__get_bool(from);
    out->memory_budget = tuff__get_u64(from);
    tuning->mode = (tuff_tune_mode)tuff__get_below(from, TUFF_TUNE_MAX + 1);
    tuning->milliseconds = tuff__get_u32(from);
    tuning->background = tuff__get_bool(from);
    tuning->seed = tuff__get_u32(from);
    tuning->memory = tuff__get_u64(from);
    tuning->progress = tuff__get_bool(from) ? progress_placeholder : NULL;
    const bool has_log = tuff__get_bool(from);
    tuff__get_text(from, job->log, sizeof job->log);
    tuning->log = has_log ? job->log : NULL;
    tuning->environment = TUFF_TUNE_ENVIRONMENT_NONE;
}

tuff_status tuff__worker_read_job(byte_reader *from, worker_job *out)
{
    *out = (worker_job){.buffer_limit = 0};
    tuff__get_text(from, out->cache, sizeof out->cache);
    tuff__get_text(from, out->selector, sizeof out->selector);
    tuff__get_text(from, out->environment, sizeof out->environment);
    read_options(from, out);
    out->buffer_limit = tuff__get_below(from, MAX_BINDINGS + 1);
    read_fusion(from, out);
    out->compile_timeout = tuff__get_u64(from);
    out->keys.low = tuff__get_u64(from);
    out->keys.high = tuff__get_u64(from);
    out->graph = tuff__get_bytes(from, &out->graph_size);
    return tuff__reader_status(from, "the job");
}
