"""What tools/check-loops demands of a kernel's counts: the figures that the project promises, and the rows of
bench/vendor-loops.tsv, which are counts of an earlier run with some margin. A figure holds whatever was recorded; a row
notices a loss long before a figure is missed, and covers kernels of which nothing is promised. And how many kernels may
spill registers in tools/check-vendors."""
import collections
import csv
import fnmatch
import os

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench/vendor-loops.tsv")
AT_LEAST = ("multiply", "issue", "local_width", "global_width", "wide", "waves", "groups")
AT_MOST = ("reads", "barriers", "registers", "scratch", "fetched", "narrow", "local")
COLUMNS = ("kernel", "target", "multiply", "issue", "reads", "local_width", "global_width", "wide", "barriers",
           "registers", "waves", "scratch")
UNRECORDED = ("fetched", "narrow", "local", "groups")  # columns that only figures are about
LEAST_MULTIPLY = 30
UNITS_ROOM, WIDE_ROOM = 0.95, 0.9  # how much of a recorded count must remain

Counts = collections.namedtuple("Counts", COLUMNS + UNRECORDED + ("loop", "kinds"))
Figure = collections.namedtuple("Figure", "kernels targets column bound")
Exemption = collections.namedtuple("Exemption", "kernels targets column bound reason")

# Kernels and targets are patterns of file names, separated by spaces.
MATMULS = "matmul_f32_??.matmul_local matmul_shared.matmul_local"
UNIT_MATMULS = "units_*f16_??.matmul_cooperative"
ROWS = "row_*.matmul_gemv_local attention_one_query.matmul_gemv_local"
SUMS = "*.column_local"
ATTENTION = "attention_64.* attention_128.* gradients_*.attention_local gradients_*.attention_backward_local"
FIGURES = tuple(Figure(*one) for one in (
    (MATMULS, "sm_80 sm_90", "multiply", 85),
    (MATMULS, "gfx1100 gfx942", "issue", 90),
    (MATMULS, "dg2 pvc", "multiply", 75),
    (MATMULS, "*", "reads", 0.063),
    (MATMULS, "*", "local_width", 16),
    (MATMULS, "*", "barriers", 1),
    (MATMULS, "sm_90", "registers", 128),
    (MATMULS, "gfx*", "registers", 215),
    (MATMULS, "*", "scratch", 0),
    (UNIT_MATMULS, "sm_90", "multiply", 35),
    (UNIT_MATMULS, "gfx942 dg2 pvc", "multiply", 15),
    (UNIT_MATMULS, "*", "global_width", 16),
    (UNIT_MATMULS, "*", "narrow", 0),
    (UNIT_MATMULS, "*", "scratch", 0),
    (ROWS, "*", "global_width", 16),
    (ROWS, "*", "scratch", 0),
    (SUMS, "*", "global_width", 16),
    (ATTENTION, "*", "multiply", 70),
    (ATTENTION, "*", "barriers", 6),
    (ATTENTION, "*", "scratch", 0),
    ("units_attention_*.attention_* units_gradients_*.attention_*", "*", "scratch", 0),
    # One barrier for each reduction of a row.
    ("layer_norm*.row_local softmax*.row_local adamw.row_local", "*", "barriers", 2),
    ("adamw.row_local.[23]", "*", "barriers", 1),
    ("gelu*.map adamw.map*", "*", "barriers", 0),
    # Every element is read once, and moved in accesses of 16 bytes.
    ("layer_norm.row_local", "*", "fetched", 12),  # x, gain, bias
    ("softmax.row_local adamw.row_local.[23] gelu.map", "*", "fetched", 4),
    ("adamw.row_local", "*", "fetched", 8),
    ("adamw.map", "*", "fetched", 16),  # weight, gradient and two moments
    ("layer_norm_f16.row_local", "*", "fetched", 10),  # x in 16 bits, gain and bias in 32
    ("softmax_f16.row_local gelu_f16.map", "*", "fetched", 2),
    ("layer_norm*.row_local softmax*.row_local gelu*.map adamw.row_local* adamw.map", "*", "narrow", 0),
    ("row_f32.matmul_gemv_local", "*", "local", 0),
    ("row_f32.matmul_gemv_local", "*", "wide", 100),
    ("row_f32.matmul_gemv_local", "sm_*", "groups", 4 * 132),  # four for each unit of an H100
))

# Kernels that fall short of a figure, the bound that holds instead, and why. check-loops complains of one that is not
# needed any more.
EXEMPTIONS = tuple(Exemption(*one) for one in (
    ("gelu_f16.map", "gfx1100-aco", "narrow", 2, "GLSL has no vectors of eight elements: 8 bytes are read and stored"),
    ("layer_norm_f16.row_local softmax_f16.row_local", "gfx1100-aco", "narrow", 8,
     "as above, for each of the four vectors that a lane keeps"),
))

# How many texts of a kernel that tools/check-vendors compiles for a target spill registers or keep arrays in memory.
# None of all others does. The numbers may only fall: check-vendors complains of one that is too high as well.
SPILLING = {
    # 128 bytes with heads of 128 and tiles of 32 by 32; smaller tiles would multiply less than the figure above.
    ("attention_backward_local", "pvc"): 1,
}


def matches(one, kernel, target):
    return (any(fnmatch.fnmatchcase(kernel, pattern) for pattern in one.kernels.split())
            and any(fnmatch.fnmatchcase(target, pattern) for pattern in one.targets.split()))


def is_met(column, value, bound):
    return value >= bound if column in AT_LEAST else value <= bound


def demand(column, bound):
    return "%s %g" % ("at least" if column in AT_LEAST else "at most", bound)


def missed_figures(one, figures=FIGURES, exemptions=EXEMPTIONS):
    """Yields a complaint for each figure that a kernel misses."""
    for figure in figures:
        if not matches(figure, one.kernel, one.target):
            continue
        exempt = [other for other in exemptions
                  if other.column == figure.column and matches(other, one.kernel, one.target)]
        bound = exempt[0].bound if exempt else figure.bound
        value = getattr(one, figure.column)
        if not is_met(figure.column, value, bound):
            yield "%s on %s: %s is %g, promised is %s" % (one.kernel, one.target, figure.column, value,
                                                          demand(figure.column, bound))


def needless_exemptions(found, figures=FIGURES, exemptions=EXEMPTIONS):
    """Yields a complaint for each exemption all of whose kernels, of those counted, meet the figures without it."""
    for exempt in exemptions:
        exempted = [figure for figure in figures if figure.column == exempt.column]
        counted = [one for one in found if matches(exempt, one.kernel, one.target)]
        if counted and not any(list(missed_figures(one, exempted, ())) for one in counted):
            yield "exemption of %s on %s from %s is not needed" % (exempt.kernels, exempt.targets, exempt.column)


def with_room(one, column):
    """Returns the requirement for a kernel with this count, with a margin because compiler versions differ a little.
    None, no requirement, for the multiply-adds of a kernel that hardly multiplies, and where nothing could fail."""
    value = getattr(one, column)
    if one.kinds["matrix"] and column in ("multiply", "issue"):  # few by nature, each of them thousands of operations
        return round(value * UNITS_ROOM, 2) if column == "multiply" else None
    hardly_multiplies = one.multiply < LEAST_MULTIPLY and not one.kinds["matrix"]
    if column in ("multiply", "issue", "reads", "local_width") and hardly_multiplies:
        return None
    if column in ("multiply", "issue"):
        return max(0, value - 2)
    if column == "wide":
        return int(value * WIDE_ROOM) or None
    if column == "registers":
        return value + 8 if value < 248 else value
    return round(value + 0.004, 3) if column == "reads" and value else value


def row_of(one):
    """Returns the row of the table that demands a kernel's counts."""
    demanded = [with_room(one, column) for column in COLUMNS[2:]]
    demanded = ["-" if value is None else "%g" % value for value in demanded]
    return dict(zip(COLUMNS, [one.kernel, one.target] + demanded))


def read_table(path=TABLE):
    with open(path, encoding="utf-8") as file:
        rows = csv.DictReader((line for line in file if not line.startswith("#")), delimiter="\t")
        return {(row["kernel"], row["target"]): row for row in rows}


def write_table(rows, path=TABLE):
    with open(path, "w", encoding="utf-8") as file:
        print("# Requirements of tools/check-loops: minimum for columns %s; maximum for %s." % (
            ", ".join(one for one in AT_LEAST if one in COLUMNS), ", ".join(one for one in AT_MOST if one in COLUMNS)),
              file=file)
        print(*COLUMNS, sep="\t", file=file)
        for key in sorted(rows):
            print(*(rows[key][column] for column in COLUMNS), sep="\t", file=file)


def record(found, table, targets):
    """Writes the table; rows of targets whose compilers did not run stay."""
    rows = {key: row for key, row in table.items() if key[1] not in targets}
    rows.update({(one.kernel, one.target): row_of(one) for one in found})
    write_table(rows)


def shortcomings(one, row):
    """Yields a complaint for each column in which a kernel falls short of its row."""
    for column in COLUMNS[2:]:
        if row[column] == "-":
            continue
        value, demanded = getattr(one, column), float(row[column])
        if not is_met(column, value, demanded):
            yield "%s on %s: %s is %g, expected %s" % (one.kernel, one.target, column, value, demand(column, demanded))


def complaints(found, failures, table, everything, figures=FIGURES, exemptions=EXEMPTIONS):
    """Yields everything that is wrong; everything: whether all kernels were compiled, so that others need no row."""
    yield from failures
    for one in found:
        row = table.get((one.kernel, one.target))
        if row is None:
            yield "%s on %s: no row in the table" % (one.kernel, one.target)
        else:
            yield from shortcomings(one, row)
        yield from missed_figures(one, figures, exemptions)
    counted, targets = {(one.kernel, one.target) for one in found}, {one.target for one in found}
    if everything:
        yield from needless_exemptions(found, figures, exemptions)
        for kernel, target in table:
            if target in targets and (kernel, target) not in counted:
                yield "%s on %s: in the table, but not compiled" % (kernel, target)


def spilling_complaints(found, targets, spilling=SPILLING):
    """Yields a complaint for each kernel and target of which more texts spill than SPILLING says, or fewer. found: the
    number of texts by kernel and target; targets: those that were compiled for."""
    for kernel, target in sorted({*found, *(key for key in spilling if key[1] in targets)}):
        count, most = found.get((kernel, target), 0), spilling.get((kernel, target), 0)
        if count > most:
            yield "%s for %s: %d texts spill, at most %d are expected" % (kernel, target, count, most)
        elif count < most:
            yield "%s for %s: %d texts spill, so limits.py need not allow %d" % (kernel, target, count, most)
