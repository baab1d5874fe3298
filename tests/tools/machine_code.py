"""Feeds saved machine code to tools/check-loops: it counts what is there, and each way to make the code worse misses a
row, a figure, or both. Also tries what tools/check-vendors says of candidates for GPUs and of spills. Usage:
machine_code.py SOURCE_FOLDER"""
import collections
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import re
import sys
import tempfile

source = sys.argv[1]
sys.path.insert(0, os.path.join(source, "tools/vendors"))
import limits  # noqa: E402
import machine_code  # noqa: E402


def load(script):
    loader = importlib.machinery.SourceFileLoader(script.replace("-", "_"), os.path.join(source, "tools", script))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


check_loops, check_vendors = load("check-loops"), load("check-vendors")

NAME = "product.matmul_local"
FIGURES = tuple(limits.Figure("*.matmul_local", *one) for one in (
    ("sm_*", "multiply", 70), ("gfx*", "multiply", 65), ("sm_*", "issue", 70), ("gfx*", "issue", 83),
    ("*", "reads", 0.13), ("*", "local_width", 16), ("*", "wide", 100), ("*", "barriers", 2), ("*", "registers", 64),
    ("*", "scratch", 0)))
# By column: what the listing of sm_90 and that of gfx1100 have. Their loop is made from tests/data/machine_code.
COUNTS = {"sm_90": dict(multiply=74, issue=74, reads=0.125, local_width=16, global_width=16, wide=100, barriers=2),
          "gfx1100": dict(multiply=67, issue=84, reads=0.125, local_width=16, global_width=16, wide=100, barriers=2)}
LISTINGS = {"sm_90": "product.sass", "gfx1100": "product.s"}
failures = 0


def expect(holds, message):
    global failures
    if not holds:
        failures += 1
        print("FAILED: " + message)


def listing(target):
    with open(os.path.join(source, "tests/data/machine_code", LISTINGS[target]), encoding="utf-8") as file:
        return file.read()


def count(text, target, folder, registers=56, scratch=0, name=NAME, kernel_text="", listed=None):
    """Returns what check-loops counts in the machine code. listed: the name of its file, which tells the form."""
    path = os.path.join(folder, listed or LISTINGS[target])
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    with open(os.path.join(folder, "kernel"), "w", encoding="utf-8") as file:
        file.write(kernel_text)
    kernel = check_loops.Kernel(file.name, name, 1, 64, 0)
    return check_loops.count(kernel, target, path, registers, 4, scratch)


def replaced(text, pattern, by, times):
    changed, count = re.subn(pattern, by, text, count=times, flags=re.M)
    expect(count == times, "%s occurs only %d times" % (pattern, count))
    return changed


# Changes of the machine code by target, and the columns in which the row and the figures then fail.
MOVED = r"^( +/\*\w+\*/ +)FFMA (R\w+)(.*)$", r"\1MOV \2, R0 ;"
CHANGES = {
    "sm_90": {
        "multiply-adds removed": (*MOVED, 8, {"multiply", "issue", "reads"}, {"multiply", "issue", "reads"}),
        "instructions added": (r"^(.* FFMA .*)$", r"\1\n        /*0000*/                   IADD3 R0, R0, 0x1, RZ ;", 12,
                               {"multiply", "issue"}, {"multiply", "issue"}),
        "a spill": (r"^(.* FFMA .*)$", r"\1\n        /*0000*/                   STL [R1], R0 ;", 1, {"scratch"},
                    {"scratch"}),
        "a narrower load from global memory": (r"LDG\.E\.128", "LDG.E.64", 1, {"global_width", "wide"}, {"wide"}),
        "a narrower load from local memory": (r"LDS\.128", "LDS.64", 1, {"local_width"}, {"local_width"}),
        "another barrier": (r"^(.* BAR\..*)$", r"\1\n\1", 1, {"barriers"}, {"barriers"})},
    "gfx1100": {
        "multiply-adds removed": (r"^\tv_dual_fmac_f32 (v\d+), (v\d+), v\d+ :: v_dual_fmac_f32.*$",
                                  r"\tv_mov_b32_e32 \1, \2", 4, {"multiply", "issue", "reads"},
                                  {"multiply", "issue", "reads"}),
        "pairs split": (r"^\t(v_dual_fmac_f32 v\d+, v\d+, v\d+) :: (v_dual_fmac_f32.*)$", r"\t\1\n\t\2", 8, {"issue"},
                        {"issue"}),
        "a spill": (r"^(\tv_dual_fmac_f32 .*)$", r"\1\n\tscratch_store_b32 off, v0, off", 1, {"scratch"}, {"scratch"}),
        "a narrower load from global memory": (r"global_load_b128", "global_load_b64", 1, {"global_width", "wide"},
                                               {"wide"}),
        "a narrower load from local memory": (r"ds_load_b128", "ds_load_b64", 1, {"local_width"}, {"local_width"}),
        "another barrier": (r"^\ts_barrier$", "\ts_barrier\n\ts_barrier", 1, {"barriers"}, {"barriers"})}}


def columns_of(complaints, word):
    """Returns the columns that complaints with the word name."""
    return {re.match(r"\S+ on \S+: (\w+) is", one).group(1) for one in complaints if word in one}


def check(one, target, table, expected, message):
    complaints = list(limits.complaints([one], [], table, False, FIGURES, ()))
    for word, columns in zip(("expected", "promised"), expected):
        found = columns_of(complaints, word)
        expect(found == columns,
               "%s, %s: %s columns %s, not %s" % (target, message, word, sorted(found), sorted(columns)))


def check_listing(target, folder):
    good = count(listing(target), target, folder)
    for column, value in COUNTS[target].items():
        expect(getattr(good, column) == value,
               "%s: %s is %g, not %g" % (target, column, getattr(good, column), value))
    table = {(NAME, target): limits.row_of(good)}
    check(good, target, table, (set(), set()), "unchanged")
    for message, (pattern, by, times, *columns) in CHANGES[target].items():
        worse = count(replaced(listing(target), pattern, by, times), target, folder)
        check(worse, target, table, columns, message)
    check(count(listing(target), target, folder, registers=80), target, table, ({"registers"},) * 2, "more registers")
    check(count(listing(target), target, folder, scratch=16), target, table, ({"scratch"},) * 2, "scratch")
    expect(any("no row" in one for one in limits.complaints([good], [], {}, False, FIGURES, ())),
           "a kernel without a row")
    missing = {("other.map", target): table[NAME, target], **table}
    expect(any("not compiled" in one for one in limits.complaints([good], [], missing, True, FIGURES, ())),
           "a row without a kernel")


# The loops of a product by Intel's compiler (IGC for dg2; most multiply-adds are left out) and of gradients of rows by
# Mesa's (ACO for gfx1100): how many instructions of each kind they have, and the widths of their loads in bytes.
KINDS = {
    "product.asm": (dict(integer=50, branch=4, wait=19, global_load=2, move=19, local_load=32, multiply=64,
                         local_store=2, barrier=1), {16: 34}),
    "rows.aco": (dict(scalar=27, branch=7, integer=45, move=1, wait=15, global_load=8, float=15, multiply=12,
                      local_store=1, local_load=1), {16: 9})}
# Changes of these listings: pattern, replacement, how often, and how the counts of kinds and of widths change.
MAD = r"^\tmad \(8\|M0\)(.*):f  (.*):f  (.*):f  (.*):f"
KIND_CHANGES = {
    "product.asm": {
        "integers": (MAD, r"\tmad (8|M0)\1:d  \2:d  \3:d  \4:d", 4, dict(multiply=-4, integer=4), {}),
        "halves": (MAD, r"\tmad (8|M0)\1:hf  \2:hf  \3:hf  \4:hf", 4, {}, {}),
        "matrix instructions": (MAD, r"\tdpas.8x8 (8|M0)\1:f  \2:f  \3:hf  \4:hf", 2, dict(multiply=-2, matrix=2),
                                {}),
        "a spill": (MAD, "\tsend.dc0 (8|M0)  r1  r127  null:0  0x0  0x022843FD  // wr:1h+0, rd:2; scratch block read",
                    1, dict(multiply=-1, spill=1), {}),
        "narrow loads": (r"(0x02406001 .*) with xyzw", r"\1 with x", 1, {}, {16: -1, 4: 1}),
        "halves in memory": (r"(0x02406001 .*); untyped surface read with xyzw", r"\1; byte scattered read 16b", 1, {},
                             {16: -1, 2: 1}),
        "loads from global memory": (r"0x024060FE", "0x02406001", 3, dict(local_load=-3, global_load=3), {})},
    "rows.aco": {
        "products of integers": (r"v_fma(c?)_f32", r"v_mad\1_u32_u24", 2, dict(multiply=-2, integer=2), {}),
        "matrix instructions": (r"v_fmac?_f32\w*", "v_wmma_f32_16x16x16_f16", 2, dict(multiply=-2, matrix=2), {}),
        "halves": (r"v_fmac?_f32\w*", "v_pk_fma_f16", 2, {}, {}),
        "a spill": (r"\tbuffer_load_b128", "\tscratch_load_b128", 1, dict(global_load=-1, spill=1), {16: -1}),
        "narrow loads": (r"\tbuffer_load_b128", "\tbuffer_load_b32", 2, {}, {16: -2, 4: 2}),
        "halves in memory": (r"\tbuffer_load_b128", "\tbuffer_load_d16_b16", 1, {}, {16: -1, 2: 1}),
        "a barrier": (r"^\tv_fma", "\ts_barrier\n\tv_fma", 1, dict(barrier=1), {})}}


def kinds_of(text, name, folder):
    """Counts the kinds of a listing's main loop, and the widths of its loads."""
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    loop, _ = machine_code.main_loop(path, None)
    loads = [one.width for one in loop if one.kind in ("global_load", "local_load")]
    return collections.Counter(one.kind for one in loop), collections.Counter(loads)


def check_kinds(name, folder):
    with open(os.path.join(source, "tests/data/machine_code", name), encoding="utf-8") as file:
        text = file.read()
    kinds, widths = kinds_of(text, name, folder)
    expect((kinds, widths) == KINDS[name], "%s: %s, widths %s" % (name, dict(kinds), dict(widths)))
    for message, (pattern, by, times, *changes) in KIND_CHANGES[name].items():
        changed = kinds_of(replaced(text, pattern, by, times), name, folder)
        for before, after, change in zip((kinds, widths), changed, changes):
            wanted = collections.Counter(before)
            wanted.update(change)
            expect(+after == +wanted, "%s, %s: %s, not %s" % (name, message, dict(after), dict(+wanted)))


# A loop over panels with two inner loops of matrix instructions, and others around them.
PANELS = """kernel:
\tv_mov_b32 v0, 0
.LBB0_1:
\tglobal_load_b128 v[0:3], v[4:5], off
\ts_barrier
.LBB0_2:
\tds_load_b128 v[8:11], v7
\tv_wmma_f32_16x16x16_f16 v[16:23], v[8:15], v[24:31], v[16:23]
\ts_cbranch_scc0 .LBB0_2
\ts_barrier
\tv_exp_f32 v0, v1
%s.LBB0_3:
\tds_load_b128 v[8:11], v7
\tv_wmma_f32_16x16x16_f16 v[16:23], v[8:15], v[24:31], v[16:23]
\ts_cbranch_scc0 .LBB0_3
\ts_cbranch_scc0 .LBB0_1
\ts_endpgm
"""
DEFINES = "".join("#define %s %d\n" % one for one in dict(
    LOCAL_SIZE=128, MATRIX_LANES=32, MATRIX_M=16, MATRIX_N=16, MATRIX_K=16, TILE_ROWS=1, KEYS=64, KEY_STEPS=4,
    VALUE_BLOCKS=2).items())


def check_inner_loops(folder):
    """Inner loops count as often as they run: 16 times, and 8 times. The share of matrix instructions is then large
    enough for a relative margin to notice instructions outside them."""
    name, target = "panels.attention_cooperative", "gfx1100"
    good = count(PANELS % "", target, folder, name=name, kernel_text=DEFINES)
    expect(good.kinds["matrix"] == 24 and good.kinds["local_load"] == 24 and good.kinds["special"] == 1,
           "inner loops: %s" % good.kinds)
    table = {(name, target): limits.row_of(good)}
    worse = count(PANELS % ("\tv_exp_f32 v0, v1\n" * 5), target, folder, name=name, kernel_text=DEFINES)
    check(good, target, table, (set(), set()), "inner loops")
    check(worse, target, table, ({"multiply"}, set()), "inner loops and more exponentials")
    few = good._replace(multiply=0.6)
    few_row = {(name, target): limits.row_of(few)}
    check(few._replace(multiply=0.5), target, few_row, ({"multiply"}, set()), "a small share")


# A row that lanes keep in registers, four vectors each: two operands, a parameter, and the row's result.
ROW_TEXT = """#define COLUMN_TAIL 0
#define VEC 4
#define ROW_STEPS 4
__kernel void row()
{
    const int a0 = PARAM(4);
    LOADV_f32(b0, a0 + i);
#if VEC == 1 || COLUMN_TAIL
    LOAD_f32(b0, a0 + i);
#endif
    STORE_f32(b1, a2, v1);
}
"""
MESSAGE = "        send.%s r32 r32 null:0 0x0 0x0 {$1} // %s\n"
ROW_CODE = {
    "sm_90": (".L_x_1:\n" + "".join("        /*0010*/ %s ;\n" % one for one in [
        *["LDG.E.128 R4, [R2]"] * 8, "LDG.E R8, [R2]", "LDS R9, [R2]", "STG.E [R2], R8", "@P0 BRA `(.L_x_1)"]),
              "LDG.E.128", "LDG.E.64"),
    # Half of a subgroup at a time. Messages with a mask for all lanes, or for one, are uniform.
    "dg2": ("L0:\n" + (MESSAGE % ("dc1 (16|M0)", "untyped surface read with xyzw") +
                       MESSAGE % ("dc1 (16|M16)", "untyped surface read with xyzw")) * 8 +
            "(W)" + MESSAGE % ("dc0 (8|M0)", "byte gathering read 32b") +
            MESSAGE % ("ugm (1|M0)", "load.ugm.d32x32t.a32") + MESSAGE % ("slm (16|M0)", "load.slm.d32.a32") +
            MESSAGE % ("ugm (16|M0)", "store.ugm.d32.a64") + "(f0.0)  while (16|M0)  L0\n", "with xyzw", "with xy")}


def check_rows(folder):
    """Bytes read for each element, narrow accesses beyond those of the text, and accesses to local memory."""
    for target, (code, wide, narrow) in ROW_CODE.items():
        listed = "row.sass" if target == "sm_90" else "row.asm"
        found = count(code, target, folder, name="row.row_local", kernel_text=ROW_TEXT, listed=listed)
        expect((found.fetched, found.narrow, found.local, found.groups) == (8, 0, 1, 1),
               "%s: a row: %s" % (target, found[-6:-2]))
        worse = count(code.replace(wide, narrow, 8), target, folder, name="row.row_local", kernel_text=ROW_TEXT,
                      listed=listed)
        expect(worse.fetched < 8 and worse.narrow > 0, "%s: narrower loads of a row: %s" % (target, worse[-6:-2]))
        figures = (limits.Figure("*", "*", "fetched", 4), limits.Figure("*", "*", "narrow", 0),
                   limits.Figure("*", "*", "local", 0), limits.Figure("*", "*", "groups", 2))
        for one, missed in ((found, {"fetched", "local", "groups"}), (worse, {"narrow", "local", "groups"})):
            complaints = list(limits.missed_figures(one, figures, ()))
            expect(columns_of(complaints, "promised") == missed, "figures of a row on %s: %s" % (target, complaints))
        tail = count(code.replace(wide, narrow, 1), target, folder, name="row.row_local",
                     kernel_text=ROW_TEXT.replace("TAIL 0", "TAIL 1"), listed=listed)
        expect(tail.narrow == 0 and limits.row_of(found).keys() == set(limits.COLUMNS), "a row with a rest")


def check_packed(folder):
    """A packed instruction counts as the two that it does, in one slot of the vector unit, as a pair does."""
    target, pairs = "gfx1100", 31
    packed = replaced(listing(target), r"^\tv_dual_fmac_f32 .* :: v_dual_fmac_f32 .*$",
                      r"\tv_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[0:1]", pairs)
    good, found = count(listing(target), target, folder), count(packed, target, folder)
    expect(found[2:9] == good[2:9] and found.kinds == good.kinds, "packed: %s, pairs: %s" % (found[2:9], good[2:9]))
    single = count(replaced(packed, r"^\tv_pk_fma_f32 .*$", r"\tv_fma_f32 v0, v2, v4, v0", pairs), target, folder)
    expect(single.kinds["multiply"] == good.kinds["multiply"] - pairs and single.issue < good.issue, "not packed")
    moved = count(replaced(packed, r"^\tv_pk_fma_f32 .*$", r"\tv_pk_mov_b32 v[0:1], v[2:3], v[4:5]", 4), target, folder)
    expect(moved.kinds["move"] == good.kinds["move"] + 8, "packed moves: %s" % moved.kinds)


def check_exemptions(folder):
    good = count(listing("sm_90"), "sm_90", folder)
    figures = (limits.Figure("*", "sm_90", "multiply", 80),)
    for bound, missed, needless in ((70, 0, 0), (75, 1, 0)):
        exempt = (limits.Exemption("product.*", "sm_*", "multiply", bound, "it is small"),)
        expect(len(list(limits.missed_figures(good, figures, exempt))) == missed, "an exemption to %d" % bound)
        expect(len(list(limits.needless_exemptions([good], figures, exempt))) == needless, "needless: %d" % bound)
    exempt = (limits.Exemption("product.*", "sm_*", "multiply", 60, "it is small"),)
    expect(list(limits.needless_exemptions([good], FIGURES, exempt)), "an exemption that is not needed")


def check_tables():
    """Each figure is about kernels that the table has, and each exemption about a figure."""
    rows = limits.read_table()
    for figure in limits.FIGURES:
        for pattern in figure.kernels.split():
            one = figure._replace(kernels=pattern)
            expect(any(limits.matches(one, *key) for key in rows), "no row for the figure %s" % (one,))
        expect(figure.column in limits.COLUMNS[2:] + limits.UNRECORDED, "no column %s" % figure.column)
    for exempt in limits.EXEMPTIONS:
        figures = [one for one in limits.FIGURES if one.column == exempt.column]
        expect(any(limits.matches(exempt, *key) and limits.matches(one, *key) for one in figures for key in rows),
               "no figure for the exemption %s" % (exempt,))
        expect(len(exempt.reason) > 20, "no reason for the exemption %s" % (exempt,))
    for key, row in rows.items():
        expect(all(row[column] == "-" or float(row[column]) >= 0 for column in limits.COLUMNS[2:]), "row %s" % (key,))
        # A requirement that nothing can miss is none.
        expect(row["multiply"] != "0" and row["wide"] != "0", "row %s cannot fail" % (key,))


def check_candidates(folder):
    """A candidate that spills is listed but is no error, unlike another kernel, or one that does not compile. It may
    need as much local memory as its GPU has."""
    path = os.path.join(folder, "attention.f16_64.2.1.attention_backward_local.2.32.cl")
    with open(path, "w", encoding="utf-8") as file:
        file.write("#define LOCAL_SIZE 64\n")
    name = "attention.f16_64.2.1.attention_backward_local.2"
    one = check_vendors.Candidate(path, name, "49152", "attention_backward_local.keys=8", "portfolio")
    other = check_vendors.Kernel(path, "f32")
    expect(one.name == "attention_backward_local" and one.candidate.endswith("keys=8"), "its name")
    allowed = dict(limits.SPILLING)
    limits.SPILLING.clear()
    for kernel, spills, failure, count in ((one, 4, "", 0), (one, 0, "error", 1), (other, 4, "", 1), (other, 0, "", 0)):
        found = list(check_vendors.complaints([kernel.row("dg2", spills=spills, failure=failure)], [kernel]))
        expect(len(found) == count, "complaints of %s with %d spills: %s" % (type(kernel).__name__, spills, found))
    for name, count in (("map", 1), ("attention_backward_local", 0), ("attention_backward_cooperative_shared", 0)):
        other.name = name
        found = list(check_vendors.complaints([other.row("dg2", local=49152)], [other]))
        expect(len(found) == count, "complaints of the local memory of %s: %s" % (name, found))
    for size, count in ((49152, 0), (49153, 1)):
        found = list(check_vendors.complaints([one.row("sm_90", local=size)], [one]))
        expect(len(found) == count, "complaints of %d bytes of local memory: %s" % (size, found))
    limits.SPILLING.update(allowed)


def check_spilling():
    """The number of texts that spill is exact, for each kernel and target that was compiled."""
    row = check_vendors.Row("map", "64 lanes", "map-1.cl", "dg2", 8, 4, 0, 0, "")
    rows = [row, row._replace(scratch=64, spills=0), row._replace(spills=0), row._replace(target="sm_90", spills=0),
            row._replace(failure="error"), row._replace(file="candidate.cl")]
    found = check_vendors.count_spilling(rows, {"candidate.cl": None})
    expect(found == {("map", "dg2"): 2}, "texts that spill: %s" % found)
    for most, targets, count in ((2, {"dg2", "sm_90"}, 0), (1, {"dg2"}, 1), (3, {"dg2"}, 1), (0, {"dg2"}, 1)):
        spilling = {("map", "dg2"): most, ("scan", "gfx1100"): 1}
        complaints = list(limits.spilling_complaints(found, targets, spilling))
        expect(len(complaints) == count, "%d may spill: %s" % (most, complaints))
    expect(list(limits.spilling_complaints({}, {"dg2"}, {("map", "dg2"): 1})), "a number that is too high")


def check_missing(folder):
    """A compiler that is missing is an error if it was named."""
    def absent(*_):
        raise check_vendors.Missing("not here")

    check_vendors.COMPILERS["igc"] = (absent,) + check_vendors.COMPILERS["igc"][1:]
    check_vendors.write_all = lambda *_: [check_vendors.Kernel(os.path.join(folder, "one.cl"), "f32")]
    with open(os.path.join(folder, "one.cl"), "w", encoding="utf-8") as file:
        file.write("#define LOCAL_SIZE 64\n")
    for tool, name in ((check_vendors, "igc"), (check_loops, "aco")):
        try:
            tool.report_missing(name, "not here", [name])
            expect(False, "%s is missing and was named" % name)
        except SystemExit as why:
            expect(str(why).startswith(name + " is missing"), "what is said of %s: %s" % (name, why))
    try:
        check_vendors.main(folder, folder, ["igc"], [check_vendors.SELF_TEST])
        expect(False, "check-vendors ends without the named compiler")
    except SystemExit as why:
        expect("igc is missing" in str(why), "what check-vendors says: %s" % why)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        check_vendors.report_missing("igc", "not here", [])
    expect("skipping igc: not here" in said.getvalue(), "a compiler that was not named is skipped")


def main():
    expect(machine_code.wide_share([]) == 1, "nothing is moved")
    with tempfile.TemporaryDirectory() as folder:
        for target in LISTINGS:
            check_listing(target, folder)
        for name in KINDS:
            check_kinds(name, folder)
        check_inner_loops(folder)
        check_rows(folder)
        check_packed(folder)
        check_exemptions(folder)
        check_candidates(folder)
        check_missing(folder)
    check_spilling()
    check_tables()
    print("%d failures" % failures)
    return 1 if failures else 0


sys.exit(main())
