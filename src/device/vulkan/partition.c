/* Partitions lists of commands into submissions: with few enough commands that their ends show progress, and so little
   work that no watchdog takes it for a hanging kernel (submit/predictor.h). */
#include "base/alloc.h"
#include "device/vulkan/state.h"

static work_share share_of(const command *step, uint64_t groups)
{
    if (step->kind != COMMAND_DISPATCH)
        return (work_share){NULL, step->seconds};
    return (work_share){&step->program->scale, step->seconds * (double)groups / (double)step->group_count};
}

/* Returns the number of groups in a part. In a grid of several rows, parts must be whole rows, or groups beyond a
   part's end would run twice. */
static uint64_t part_size(const driver_device *device, const command *step)
{
    const work_share whole = share_of(step, step->group_count);
    const uint64_t row = device->physical.properties.properties.limits.maxComputeWorkGroupCount[0];
    if (step->kind != COMMAND_DISPATCH)
        return 1;
    if (!step->program->word_count)
        return step->group_count;
    const uint64_t parts = tuff__predictor_parts(&device->predictor, &whole, step->group_count);
    const uint64_t size = (step->group_count + parts - 1) / parts;
    return size > row && parts > 1 ? size / row * row : size;
}

static tuff_status add_part(vulkan_partition *out, vulkan_part part, work_share share)
{
    if (!GROW(out->parts, out->part_count, out->part_capacity) ||
        !GROW(out->shares, out->part_count, out->share_capacity))
        return TUFF_E_OOM_HOST;
    out->shares[out->part_count] = share;
    out->parts[out->part_count++] = part;
    return TUFF_OK;
}

static tuff_status add_command(const driver_device *device, const command *step, uint32_t index, vulkan_partition *out)
{
    const uint64_t count = step->kind == COMMAND_DISPATCH ? step->group_count : 1, size = part_size(device, step);
    for (uint64_t base = 0; base < count; base += size) {
        const uint64_t end = count - base > size ? base + size : count;
        const vulkan_part part = {
            .command = index, .base = base, .end = end, .is_first = base == 0, .is_last = end == count};
        TRY(add_part(out, part, share_of(step, end - base)));
    }
    return TUFF_OK;
}

static tuff_status add_segments(const driver_device *device, vulkan_partition *out)
{
    double seconds = 0;
    for (int i = 0; i < out->part_count; i++) {
        vulkan_segment *last = out->segment_count > 0 ? &out->segments[out->segment_count - 1] : NULL;
        const double own = device->predictor.is_on ? tuff__predictor_seconds(&device->predictor, &out->shares[i]) : 0;
        if (!last || last->end - last->first == device->segment_size || seconds + own > MAX_SUBMISSION_SECONDS) {
            if (!GROW(out->segments, out->segment_count, out->segment_capacity))
                return TUFF_E_OOM_HOST;
            last = &out->segments[out->segment_count++];
            *last = (vulkan_segment){.first = i};
            seconds = 0;
        }
        last->end = i + 1;
        seconds += own;
    }
    return TUFF_OK;
}

tuff_status tuff__vulkan_partition(const driver_device *device, const command *commands, uint32_t count,
                                   vulkan_partition *out)
{
    *out = (vulkan_partition){0};
    for (uint32_t i = 0; i < count; i++)
        TRY(add_command(device, &commands[i], i, out));
    return add_segments(device, out);
}

void tuff__vulkan_partition_free(vulkan_partition *self)
{
    tuff__free(self->parts);
    tuff__free(self->shares);
    tuff__free(self->segments);
    *self = (vulkan_partition){0};
}

/* Whether a segment is predicted to take longer than allowed, by more than the error of predictions. */
static bool is_too_long(const driver_device *device, const vulkan_partition *partition)
{
    for (int i = 0; i < partition->segment_count; i++) {
        double seconds = 0;
        for (int k = partition->segments[i].first; k < partition->segments[i].end; k++)
            seconds += tuff__predictor_seconds(&device->predictor, &partition->shares[k]);
        if (seconds > 1.1 * MAX_SUBMISSION_SECONDS)
            return true;
    }
    return false;
}

/* Returns how many submissions there are if time is ignored. */
static int least_segments(const driver_device *device, uint32_t command_count)
{
    return ((int)command_count + device->segment_size - 1) / device->segment_size;
}

bool tuff__vulkan_may_repartition(const driver_device *device, const vulkan_partition *partition,
                                  uint32_t command_count)
{
    double modelled = 0, predicted = 0;
    for (int i = 0; i < partition->part_count; i++) {
        modelled += partition->shares[i].seconds;
        predicted += tuff__predictor_seconds(&device->predictor, &partition->shares[i]);
    }
    return device->predictor.is_on &&
           ((uint32_t)partition->part_count > command_count ||
            partition->segment_count > least_segments(device, command_count) ||
            modelled * 5 * INITIAL_TIME_SCALE >= MAX_SUBMISSION_SECONDS || predicted * 5 >= MAX_SUBMISSION_SECONDS);
}

tuff_status tuff__vulkan_repartition(const driver_device *device, driver_recording *recording, vulkan_partition *fresh,
                                     bool *is_better)
{
    *fresh = (vulkan_partition){0};
    *is_better = false;
    if (recording->version == device->predictor.version)
        return TUFF_OK;
    recording->version = device->predictor.version;
    TRY(tuff__vulkan_partition(device, recording->commands, recording->command_count, fresh));
    *is_better = 2 * fresh->segment_count <= recording->partition.segment_count ||
                 (is_too_long(device, &recording->partition) && fresh->part_count >= recording->partition.part_count &&
                  fresh->segment_count > recording->partition.segment_count);
    /* Once every command fits, fewer submissions are better. */
    const int least = least_segments(device, recording->command_count);
    *is_better |= fresh->segment_count == least && recording->partition.segment_count > least;
    return TUFF_OK;
}
