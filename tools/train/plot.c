/* Draws on a grid finer than characters: 2 x 4 dots form a braille character (Unicode 2800 to 28FF); in ASCII a dot is
   an asterisk. */
#define _DEFAULT_SOURCE 1
#include "tools/train/plot.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LABEL = 9, MAX_COLUMNS = 200, MAX_DOTS = 2 * MAX_COLUMNS };

/* Mean loss of each column of dots, interpolated linearly; NAN before the first value and after the last. */
typedef struct curve {
    double means[MAX_DOTS];
    int count;
    double low, high;
} curve;

/* Interpolates the columns between two that have values. */
static void connect(curve *self, int from, int to)
{
    for (int i = from + 1; i < to && from >= 0; i++)
        self->means[i] = self->means[from] + (self->means[to] - self->means[from]) * (i - from) / (to - from);
}

static curve make_curve(const history *lines, const plot_size *size, int dots)
{
    curve out = {.count = dots, .low = INFINITY, .high = -INFINITY};
    double sums[MAX_DOTS] = {0};
    int counts[MAX_DOTS] = {0};
    const int64_t first = lines->count > 0 ? lines->lines[0].step : 0;
    const double steps = fmax((double)(size->last_step - first), 1);
    for (int i = 0; i < lines->count; i++) {
        const int at = (int)((double)(lines->lines[i].step - first) / steps * (double)(dots - 1));
        if (!isfinite(lines->lines[i].loss) || at < 0 || at >= dots)
            continue;
        sums[at] += lines->lines[i].loss;
        counts[at]++;
    }
    int known = -1;
    for (int i = 0; i < dots; i++) {
        out.means[i] = counts[i] > 0 ? sums[i] / counts[i] : (double)NAN;
        if (counts[i] > 0) {
            out.low = fmin(out.low, out.means[i]);
            out.high = fmax(out.high, out.means[i]);
            connect(&out, known, i);
            known = i;
        }
    }
    return out;
}

/* Row of dots of a loss, from the top. */
static int row_of(const curve *line, double loss, int rows)
{
    const double height = line->high - line->low;
    const double part = height > 0 ? (line->high - loss) / height : 0.5;
    return (int)(part * (double)(rows - 1) + 0.5);
}

/* Bit of each dot of a braille character, by row and column. */
static const unsigned char braille_dots[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

static void add_braille(text *out, const curve *line, int column, int row, int rows)
{
    unsigned bits = 0;
    for (int x = 0; x < 2; x++) {
        const double loss = line->means[2 * column + x];
        const int at = isnan(loss) ? -1 : row_of(line, loss, 4 * rows) - 4 * row;
        bits |= at >= 0 && at < 4 ? braille_dots[at][x] : 0;
    }
    const char bytes[] = {(char)0xe2, (char)(0xa0 | bits >> 6), (char)(0x80 | (bits & 63))};
    tuff__text_add_bytes(out, bits ? bytes : " ", bits ? 3 : 1);
}

static void add_ascii(text *out, const curve *line, int column, int row, int rows)
{
    const double loss = line->means[column];
    tuff__text_add(out, "%s", !isnan(loss) && row_of(line, loss, rows) == row ? "*" : " ");
}

void plot_draw(const history *lines, const plot_size *size, text *out)
{
    const int columns = size->columns > MAX_COLUMNS ? MAX_COLUMNS : size->columns < 8 ? 8 : size->columns;
    const curve line = make_curve(lines, size, size->braille ? 2 * columns : columns);
    if (!(line.low <= line.high))
        return;
    for (int row = 0; row < size->rows; row++) {
        if (row == 0 || row == size->rows - 1)
            tuff__text_add(out, "%*.4f |", LABEL - 2, row == 0 ? line.high : line.low);
        else
            tuff__text_add(out, "%*s|", LABEL - 1, "");
        for (int column = 0; column < columns; column++)
            (size->braille ? add_braille : add_ascii)(out, &line, column, row, size->rows);
        while (out->length > 0 && !out->failed && out->data[out->length - 1] == ' ')
            out->length--;
        tuff__text_add(out, "\n");
    }
    char last[32];
    const int width = snprintf(last, sizeof last, "%" PRId64, size->last_step);
    tuff__text_add(out, "%*s%-*" PRId64 "%s\n", LABEL, "", columns - width, lines->lines[0].step, last);
}

static bool is_utf8(void)
{
    static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        if (!value || !value[0])
            continue;
        const char *encoding = strchr(value, '.');
        return encoding && (strncasecmp(encoding, ".utf-8", 6) == 0 || strncasecmp(encoding, ".utf8", 5) == 0);
    }
    return false;
}

plot_size plot_terminal_size(int64_t last_step)
{
    struct winsize window = {0};
    int columns = 80, rows = 24;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 && window.ws_row > 0) {
        columns = window.ws_col;
        rows = window.ws_row;
    }
    return (plot_size){.columns = columns - LABEL - 1, /* a line as wide as the terminal would wrap */
                       .rows = rows >= 20   ? 10
                               : rows >= 10 ? 5
                                            : 3,
                       .last_step = last_step,
                       .braille = is_utf8()};
}
