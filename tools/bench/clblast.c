/* CLBlast with the parameters that its own tuners found. --clblast-tuned names the folder in which they were run
   (bench/tune-clblast). Of several files for one kernel, the one with the shortest time is used. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tools/bench/bench.h"

#if TUFF_WITH_OPENCL
#include "device/opencl/api.h"
#include "device/state.h"

enum { MAX_KERNELS = 16, MAX_PARAMETERS = 32 };

/* Contents of a file. The strings belong to `file`. */
typedef struct tuned {
    json_t *file;
    const char *kernel, *parameters; /* "GEMMK=0 KREG=1 ..." */
    double time;
} tuned;

static const char *text_of(const json_t *file, const char *key)
{
    const char *text = json_string_value(json_object_get(file, key));
    return text ? text : "";
}

static tuff_status read_file(const char *path, tuned *out)
{
    json_error_t problem;
    out->file = json_load_file(path, 0, &problem);
    if (!out->file)
        return FAIL(TUFF_E_FORMAT, "%s: %s", path, problem.text);
    out->kernel = text_of(out->file, "best_kernel");
    out->parameters = text_of(out->file, "best_parameters");
    out->time = strtod(text_of(out->file, "best_time"), NULL);
    if (*out->kernel && *out->parameters && out->time > 0 && strcmp(text_of(out->file, "precision"), "32") == 0)
        return TUFF_OK;
    return FAIL(TUFF_E_FORMAT, "%s: no result of a CLBlast tuner for f32", path);
}

/* Keeps the fastest file of each kernel. */
static tuff_status keep(tuned *all, int *count, const tuned *one)
{
    for (int i = 0; i < *count; i++)
        if (strcmp(all[i].kernel, one->kernel) == 0) {
            const bool better = one->time < all[i].time;
            json_decref(better ? all[i].file : one->file);
            all[i] = better ? *one : all[i];
            return TUFF_OK;
        }
    if (*count == MAX_KERNELS) {
        json_decref(one->file);
        return FAIL(TUFF_E_LIMIT, "CLBlast: more than %d kernels", MAX_KERNELS);
    }
    all[(*count)++] = *one;
    return TUFF_OK;
}

static tuff_status read_all(const char *folder, DIR *entries, tuned *all, int *count)
{
    const struct dirent *entry;
    while ((entry = readdir(entries))) {
        char path[1024];
        tuned one = {.file = NULL};
        const char *end = strrchr(entry->d_name, '.');
        if (strncmp(entry->d_name, "clblast_", 8) != 0 || !end || strcmp(end, ".json") != 0)
            continue;
        if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= sizeof path)
            return FAIL(TUFF_E_LIMIT, "CLBlast: the path of %s is too long", entry->d_name);
        const tuff_status status = read_file(path, &one);
        if (status != TUFF_OK) {
            json_decref(one.file);
            return status;
        }
        TRY(keep(all, count, &one));
    }
    return *count > 0 ? TUFF_OK : FAIL(TUFF_E_IO, "%s: no results of CLBlast's tuners", folder);
}

/* Maps a kernel name of CLBlast's tuners to the name under which CLBlast overrides its parameters. */
static const char *name_of_parameters(const char *kernel)
{
    static const struct {
        const char *tuner, *parameters;
    } names[] = {
        {"CopyMatrixFast", "Copy"},           {"CopyPadMatrix", "Pad"},
        {"TransposeMatrixFast", "Transpose"}, {"TransposePadMatrix", "Padtranspose"},
        {"XgemmDirectTN", "XgemmDirect"},     {"gemm_kernel_selection", "GemmRoutine"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(kernel, names[i].tuner) == 0)
            return names[i].parameters;
    return kernel;
}

static tuff_status apply(const bench *self, const tuned *result)
{
    char text[1024];
    const char *names[MAX_PARAMETERS];
    size_t values[MAX_PARAMETERS], count = 0;
    snprintf(text, sizeof text, "%s", result->parameters);
    for (char *word = strtok(text, " "); word && count < MAX_PARAMETERS; word = strtok(NULL, " ")) {
        char *sign = strchr(word, '=');
        if (!sign)
            return FAIL(TUFF_E_FORMAT, "CLBlast: %s: unexpected word \"%s\"", result->kernel, word);
        *sign = 0;
        if (strcmp(word, "PRECISION") == 0) /* not a parameter of the kernel */
            continue;
        names[count] = word;
        values[count++] = strtoul(sign + 1, NULL, 10);
    }
    enum { SINGLE = 32 };
    const int error = tuff__clblast.override(self->device->handle->id, name_of_parameters(result->kernel), SINGLE,
                                             count, names, values);
    return error == 0 ? TUFF_OK
                      : FAIL(TUFF_E_USAGE, "CLBlast: cannot set the parameters of %s: error %d", result->kernel, error);
}

tuff_status bench_clblast_tune(const bench *self, const char *folder)
{
    tuned all[MAX_KERNELS];
    int count = 0;
    const char *missing_reason = bench_clblast_missing_reason(self);
    if (missing_reason)
        return FAIL(TUFF_E_UNSUPPORTED, "%s", missing_reason);
    DIR *entries = opendir(folder);
    if (!entries)
        return FAIL(TUFF_E_IO, "%s: no such folder", folder);
    tuff_status status = read_all(folder, entries, all, &count);
    closedir(entries);
    for (int i = 0; i < count; i++) {
        if (status == TUFF_OK)
            status = apply(self, &all[i]);
        json_decref(all[i].file);
    }
    return status;
}
#else
tuff_status bench_clblast_tune(const bench *self, const char *folder)
{
    (void)self, (void)folder;
    return FAIL(TUFF_E_UNSUPPORTED, "CLBlast: built without OpenCL");
}
#endif
