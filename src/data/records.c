/* Files of records, read with pread instead of being mapped. Both use the kernel's page cache, and a batch is copied to
   staging memory anyway. But if the file is truncated while it is in use, pread returns a short read, which becomes an
   error, whereas a mapping would end the process with SIGBUS. */
#include <errno.h>
#include <string.h>

#include "base/file/error.h"
#include "data/loader.h"

static uint64_t record_size(const batch_layout *layout)
{
    uint64_t size = 0;
    for (int i = 0; i < layout->field_count; i++)
        size += layout->fields[i].sample_size;
    return size;
}

static tuff_status check_fields(const batch_layout *layout)
{
    for (int i = 0; i < layout->field_count; i++)
        if (layout->fields[i].spec.collate != TUFF_COLLATE_STACK)
            return FAIL(TUFF_E_USAGE,
                        "loader: \"%.100s\": records of a file have a fixed size: its collate must be STACK",
                        layout->fields[i].spec.name);
    return record_size(layout) > 0 ? TUFF_OK : FAIL(TUFF_E_USAGE, "loader: the records of the file are empty");
}

tuff_status tuff__records_open(tuff_loader *self)
{
    TRY(check_fields(&self->layout));
    const uint64_t size = record_size(&self->layout), header = self->options.header_size;
    if (self->options.record_stride == 0)
        self->options.record_stride = size;
    const uint64_t stride = self->options.record_stride;
    TRY(tuff__reader_open(self->path, &self->file));
    const uint64_t all = self->file.size;
    /* The last record need not be followed by the rest of its stride. */
    const uint64_t count = all >= size && header <= all - size ? (all - size - header) / stride + 1 : 0;
    if (count == 0 || (uint64_t)self->sample_count > count)
        return FAIL(TUFF_E_FORMAT, "%s: its %llu bytes hold %llu records of %llu bytes, %lld requested", self->path,
                    (unsigned long long)all, (unsigned long long)count, (unsigned long long)size,
                    (long long)(self->sample_count > 0 ? self->sample_count : 1));
    if (self->sample_count == 0)
        self->sample_count = (int64_t)count;
    return TUFF_OK;
}

static tuff_status read_at(const file_reader *file, uint64_t offset, void *data, uint64_t size)
{
    for (uint64_t done = 0; done < size;) {
        ssize_t got = -1;
        UNINTERRUPTED(got, tuff__file.pread(file->fd, (unsigned char *)data + done, (size_t)(size - done),
                                            (off_t)(offset + done)));
        if (got < 0)
            return tuff__fail_errno("read", file->path);
        if (got == 0)
            return FAIL(TUFF_E_IO,
                        "%s: cannot read a record at bytes %llu to %llu: the file had %llu bytes when it was "
                        "opened and was truncated since",
                        file->path, (unsigned long long)offset, (unsigned long long)(offset + size),
                        (unsigned long long)file->size);
        done += (uint64_t)got;
    }
    return TUFF_OK;
}

/* pread keeps no position, so all workers share one descriptor without a lock. */
tuff_status tuff__records_read(const tuff_loader *self, int64_t index, void *const *data)
{
    uint64_t offset = self->options.header_size + (uint64_t)index * self->options.record_stride;
    for (int i = 0; i < self->layout.field_count; i++) {
        const uint64_t size = self->layout.fields[i].sample_size;
        TRY(read_at(&self->file, offset, data[i], size));
        offset += size;
    }
    return TUFF_OK;
}
