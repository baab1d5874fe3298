/* Comparison of one tensor of a graph: see the header. */
#include "tools/verify/graph_result.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "ops/ops.h"
#include "tools/cli/cli.h"

/* Fractions of the largest element of a part, and of the tensor. */
#define TOLERANCE 1e-4
#define FLOOR 1e-6
/* Multiple of the deviations found on the grids. */
#define NOISE 5
/* A tolerance above this fraction of the largest element says little; so does a tensor with this fraction of such
   elements. */
#define WIDE 0.1

tuff_status graph_result_make(graph_result *out)
{
    out->count = tuff_shape_count(out->shape);
    const size_t size = (size_t)out->count + 1;
    out->begin = out->is_array ? calloc(size, sizeof *out->begin) : NULL;
    out->value = calloc(size, sizeof *out->value);
    out->noise = calloc(size, sizeof *out->noise);
    return (out->begin || !out->is_array) && out->value && out->noise ? TUFF_OK
                                                                      : FAIL(TUFF_E_OOM_HOST, "graph: out of memory");
}

void graph_result_free(graph_result *self)
{
    free(self->begin);
    free(self->value);
    free(self->noise);
}

void graph_result_clear_noise(graph_result *self)
{
    memset(self->noise, 0, (size_t)self->count * sizeof *self->noise);
}

static double distance(double moved, double value)
{
    if (moved == value || (isnan(moved) && isnan(value)))
        return 0;
    return isfinite(moved) && isfinite(value) ? fabs(moved - value) : INFINITY;
}

void graph_result_add_noise(graph_result *self, const double *moved)
{
    for (int64_t i = 0; i < self->count; i++)
        self->noise[i] = fmax(self->noise[i], distance(moved[i], self->value[i]));
}

/* Returns an element's size, or its change; 0 if that is not finite. */
static double size_of(const graph_result *self, int64_t at)
{
    const double size = fabs(self->value[at] - (self->begin ? self->begin[at] : 0));
    return isfinite(size) ? size : 0;
}

/* What a comparison needs to know about some elements. */
typedef struct extremes {
    double largest, noise; /* finite */
} extremes;

static extremes find_extremes(const graph_result *self, int64_t first, int64_t end)
{
    extremes found = {0, 0};
    for (int64_t i = first; i < end; i++) {
        found.largest = fmax(found.largest, size_of(self, i));
        if (isfinite(self->noise[i]))
            found.noise = fmax(found.noise, self->noise[i]);
    }
    return found;
}

/* Whether got is what remains of a number within `most` of the value after a store, which may turn a large number into
   an infinity. */
static bool is_within(const graph_result *self, int64_t at, double got, double most)
{
    const double value = self->value[at];
    if (isnan(got) || isnan(value))
        return isnan(got) && isnan(value);
    return got >= tuff__round_to(self->dtype, value - most) && got <= tuff__round_to(self->dtype, value + most);
}

/* The rounding of arrays when they are stored, and twice for what was computed from such a number. */
static double stored_rounding(const graph_result *self, double value)
{
    const double unit = self->dtype == TUFF_F16 ? 0x1p-11 : self->dtype == TUFF_BF16 ? 0x1p-8 : 0x1p-24;
    return isfinite(value) ? 2 * unit * fabs(value) + 0x1p-126 : 0;
}

static void describe_failure(graph_result *self, int step, int64_t at, double got, double most)
{
    snprintf(self->failure, sizeof self->failure,
             "step %d: %" PRId64 " of %" PRId64 " elements are wrong: element %" PRId64
             " is %.9g, expected %.9g within %.2g",
             step, self->wrong, self->count, at, got, self->value[at], most);
}

typedef struct step_comparison {
    double largest, error, ratio;
    int64_t wide, wrong, first; /* first: the wrong element with the lowest index */
    double first_tolerance;
} step_comparison;

static void compare_element(const graph_result *self, int64_t at, double got, extremes part, step_comparison *to)
{
    const bool is_float = tuff__dtype_is_float(self->dtype);
    const double most =
        is_float ? TOLERANCE * part.largest + FLOOR * to->largest + NOISE * part.noise : NOISE * self->noise[at];
    if (isinf(self->noise[at]) || (!is_float && most > 0)) {
        to->wide++;
        return;
    }
    to->wide += is_float && part.largest > 0 && most > WIDE * part.largest;
    const double apart = distance(got, self->value[at]),
                 allowed = most + (is_float ? stored_rounding(self, self->value[at]) : 0);
    if (isfinite(apart)) {
        to->error = fmax(to->error, apart);
        to->ratio = fmax(to->ratio, apart == 0 ? 0 : apart / allowed);
    }
    if (!is_within(self, at, got, allowed) && to->wrong++ == 0) {
        to->first = at;
        to->first_tolerance = allowed;
    }
}

void graph_result_compare(graph_result *self, const double *got, int step)
{
    step_comparison found = {.largest = find_extremes(self, 0, self->count).largest};
    if (self->wrong > 0)
        return;
    for (int64_t first = 0; first < self->count; first += GRAPH_RESULT_PART) {
        const int64_t end = self->count - first < GRAPH_RESULT_PART ? self->count : first + GRAPH_RESULT_PART;
        const extremes part = find_extremes(self, first, end);
        for (int64_t i = first; i < end; i++)
            compare_element(self, i, got[i], part, &found);
    }
    self->wrong = found.wrong;
    if (found.wrong > 0)
        describe_failure(self, step, found.first, got[found.first], found.first_tolerance);
    if (found.wrong > 0 || step == 1 || found.ratio > self->ratio) {
        self->largest = found.largest;
        self->error = found.largest > 0 ? found.error / found.largest : found.error;
        self->ratio = found.ratio;
        self->wide = found.wide;
    }
}

bool graph_result_says_little(const graph_result *self)
{
    return self->wrong == 0 && self->count > 0 &&
           (self->largest == 0 || (double)self->wide > WIDE * (double)self->count);
}

static const char *outcome(const graph_result *self)
{
    if (self->wrong > 0)
        return "FAILED";
    return !graph_result_says_little(self) ? "ok" : self->largest == 0 ? "zero" : "wide";
}

void graph_result_print(const graph_result *self)
{
    char name[64];
    if (self->name[0])
        snprintf(name, sizeof name, "%s %s", self->is_array ? "array" : "output", self->name);
    else
        snprintf(name, sizeof name, "array number %d", self->number);
    tuff__text_one_line(name);
    printf("%-36s %-5s %-14s %10.3g %9.2g %11.2g  %s\n", name, tuff_dtype_name(self->dtype), SHAPE_TEXT(self->shape),
           self->largest, self->error, self->ratio, outcome(self));
    if (self->wrong > 0)
        printf("    %s\n", self->failure);
}

void graph_result_print_json(const graph_result *self)
{
    printf("  {");
    cli_print_json_member("name", self->name, ", ");
    printf("\"kind\": \"%s\", \"number\": %d, \"dtype\": \"%s\", \"elements\": %" PRId64
           ", \"largest\": %.6g, \"error\": %.4g, \"worst_over_bar\": %.4g, \"outcome\": \"%s\", \"wrong\": %" PRId64
           ", ",
           self->is_array ? "array" : "output", self->number, tuff_dtype_name(self->dtype), self->count, self->largest,
           self->error, self->ratio < 1e300 ? self->ratio : 1e300, outcome(self), self->wrong);
    cli_print_json_member("failure", self->failure, "}");
}
