/* Runs every file of tests/data/safetensors, and every truncation and bit flip of the small ones, through the fuzz
   target, which aborts on an error. */
#define _POSIX_C_SOURCE 200809L
#include "fuzz_safetensors.c"

#include <dirent.h>

#define FLIP_LIMIT 1000

/* Exactly as large as the input, so that a sanitizer detects reads beyond it. */
static void replay(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    require(copy != NULL, "no memory");
    memcpy(copy, data, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void replay_neighbours(uint8_t *data, size_t size)
{
    for (size_t length = 0; length < size; length++)
        replay(data, length);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        data[bit / 8] = (uint8_t)(data[bit / 8] ^ (1u << bit % 8));
        replay(data, size);
        data[bit / 8] = (uint8_t)(data[bit / 8] ^ (1u << bit % 8));
    }
}

static void replay_file(const char *path)
{
    static uint8_t data[1 << 20];
    FILE *file = fopen(path, "rb");
    require(file != NULL, "an input cannot be opened");
    size_t size = fread(data, 1, sizeof data, file);
    (void)fclose(file);
    replay(data, size);
    if (size <= FLIP_LIMIT)
        replay_neighbours(data, size);
}

int main(void)
{
    DIR *folder = opendir(TUFF_TEST_DATA "/safetensors");
    require(folder != NULL, "there is no corpus");
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char path[4096];
        (void)snprintf(path, sizeof path, TUFF_TEST_DATA "/safetensors/%s", entry->d_name);
        if (entry->d_name[0] != '.') {
            replay_file(path);
            count++;
        }
    }
    (void)closedir(folder);
    require(count >= 20, "the corpus is not whole");
    printf("%d inputs\n", count);
    return 0;
}

/* libFuzzer has its own; nothing is mutated here. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t limit)
{
    (void)data, (void)limit;
    return size;
}
