/* The training program of Vision-BDH, and the image files that it reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "each_device.h"
#include "example_program.h"

extern const example vision_bdh_example;

enum { RECORD = 3073 };

/* Writes a file of count bytes in which every RECORD-th byte is a label; wrong_at: index of a label that is too
   large. */
static const char *write_images(const char *name, int count, int wrong_at)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", cache_folder(), name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < count; i++)
        fputc(i == wrong_at ? 77 : i % RECORD == 0 ? i / RECORD % 10 : i % 251, file);
    assert_int_equal(fclose(file), 0);
    return path;
}

static void files_of_images_are_read_or_refused(void **state)
{
    (void)state;
    example_expect("--data", write_images("good.bin", 8 * RECORD, -1), 0, "accuracy");
    example_expect("--data", write_images("cut.bin", 8 * RECORD - 1, -1), 1, "truncated");
    example_expect("--data", write_images("empty.bin", 0, -1), 1, "truncated");
    example_expect("--data", write_images("few.bin", 4 * RECORD, -1), 1, "at least 5 images");
    example_expect("--data", write_images("other.bin", 8 * RECORD, 6 * RECORD), 1, "image 6 has label 77");
    example_expect("--data", "/nonexistent/x", 1, "/nonexistent/x: No such file");
    example_expect("--data", cache_folder(), 1, cache_folder());
    example_expect("--data", NULL, 2, "needs a value");
}

static void resumed_data_is_the_same(void **state)
{
    char images[256], others[256], saved[256];
    (void)state;
    snprintf(images, sizeof images, "%s", write_images("images.bin", 8 * RECORD, -1));
    snprintf(others, sizeof others, "%s", write_images("others.bin", 9 * RECORD, -1));
    snprintf(saved, sizeof saved, "%s/of_images", cache_folder());
    example_expect_all(0, NULL, "--device", "reference", "--steps", "1", "--data", images, "--save", saved, NULL);
    example_expect_all(1, "trained on other data (1 file, 24584 bytes", "--device", "reference", "--steps", "2",
                       "--data", others, "--resume", saved, NULL);
    example_expect_all(1, "than this run has (generated)", "--device", "reference", "--steps", "2", "--resume", saved,
                       NULL);
    example_expect_all(0, NULL, "--device", "reference", "--steps", "2", "--data", images, "--resume", saved, NULL);
}

static void batches_of_bad_images_are_one_line(void **state)
{
    char images[256], batches[256];
    (void)state;
    snprintf(images, sizeof images, "%s", write_images("cut.bin", 8 * RECORD - 1, -1));
    snprintf(batches, sizeof batches, "%s/batches", cache_folder());
    example_expect_all(1, "truncated", "--device", "reference", "--data", images, "--save-batches", batches, NULL);
    example_expect_one_line();
}

static void data_is_checked(void **state)
{
    batches_of_bad_images_are_one_line(state);
    files_of_images_are_read_or_refused(state);
    resumed_data_is_the_same(state);
}

int main(void)
{
    static const char *const tiny[] = {"--set", "B=2", "--set", "s=8",      "--set", "p=4",
                                       "--set", "D=8", "--set", "n=2",      "--set", "mult=2",
                                       "--set", "L=2", "--set", "warmup=0", NULL};
    return test_example_program(
        &(example_case){.model = &vision_bdh_example, .tiny = tiny, .refused = "p=3", .more = data_is_checked});
}
