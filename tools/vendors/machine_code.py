"""Finds the loops of a kernel's machine code and classifies their instructions.

Reads the output of nvdisasm (.sass), LLVM's assembly for AMD (.s; that of Mesa's ACO, .aco, is similar) and ocloc's
disassembly (.asm). Loops are the natural loops of the control flow graph. If a loop branches, the path that is counted
is the one with the most loads, stores and multiplications, and of these the one with the fewest instructions: whole
vectors rather than the elements at an edge. A loop inside it counts once, unless the kernel's products are known.
"""
import collections
import itertools
import re

Instruction = collections.namedtuple("Instruction", "op kind width slots lanes")
# slots: issue slots of the unit that multiplies; the two instructions of a pair (v_dual_*) share one. A packed
# instruction (v_pk_*_f32) is two instructions like a pair, so that kernels of both kinds are counted alike.
# lanes: Intel: how many lanes it is for; 0: it is the same for all of a subgroup. Others: 1.

MULTIPLIES = ("multiply", "matrix")

# Keyed by the first part of a name; other names are integer arithmetic.
NVIDIA_KINDS = {
    "multiply": "FFMA HFMA2", "matrix": "HMMA IMMA HGMMA", "local_load": "LDS LDSM", "local_store": "STS",
    "global_load": "LDG LD", "global_store": "STG ST", "copy": "LDGSTS UBLKCP", "special": "MUFU", "barrier": "BAR",
    "spill": "LDL STL", "convert": "F2F F2FP I2F F2I I2FP", "float": "FADD FMUL FMNMX FSEL FSETP HADD2 HMUL2 FSET",
    "branch": "BRA BSSY BSYNC EXIT WARPSYNC CALL RET BREAK YIELD BRX", "move": "MOV SEL CS2R S2R PRMT S2UR R2UR SHFL",
    "wait": "DEPBAR LDGDEPBAR NOP MEMBAR CCTL"}
NVIDIA = {name: kind for kind, names in NVIDIA_KINDS.items() for name in names.split()}


def nvidia(op, line):
    base, parts = op.split(".")[0], op.split(".")[1:]
    kind = NVIDIA.get(base, "scalar" if base.startswith("U") else "integer")
    width = 1
    if base == "LDSM":
        width = 16 if "4" in parts else 8 if "2" in parts else 4
    elif "load" in kind or "store" in kind or kind == "copy":
        width = 16 if "128" in parts else 8 if "64" in parts else 4
        width = 2 if re.search(r"\.[US]16\b", op) else 1 if re.search(r"\.[US]8\b", op) else width
    return "move" if op.startswith("HFMA2.MMA") else kind, width


AMD_RULES = [(re.compile(pattern), kind) for pattern, kind in (
    (r"v_(pk_)?(fma|fmac|mac|mad)\w*_(f32|f16)|v_dual_fma\w*_f32|v_fma_mix|v_dot2", "multiply"),
    (r"v_(mfma|wmma|smfmac)", "matrix"), (r"ds_(load|read)", "local_load"), (r"ds_(store|write)", "local_store"),
    (r"ds_(bpermute|swizzle|permute)", "move"),
    (r"(global|flat|buffer)_load", "global_load"), (r"(global|flat|buffer)_store", "global_store"),
    (r"scratch_", "spill"), (r"s_barrier(_signal\w*)?$", "barrier"),
    (r"s_(waitcnt|wait_|barrier_wait|delay|nop|clause|sleep)|buffer_(gl|inv)", "wait"), (r"s_(cbranch|branch)", "branch"),
    (r"s_", "scalar"), (r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_", "special"), (r"v_cvt", "convert"),
    (r"v_(pk_)?(add|sub|mul|max|min|max3|min3)\w*_f\d+|v_dual_(add|mul|max|min|sub)\w*_f32|v_cmpx?\w*_f\d+", "float"),
    (r"v_mov|v_dual_mov|v_pk_mov|v_accvgpr|v_perm|\w*cndmask|\w*lane", "move"), (r"v_", "integer"))]


def amd(op, line):
    kind = next((kind for pattern, kind in AMD_RULES if pattern.match(op)), "other")
    bits = re.search(r"(?:b|u|i|d)(\d+)(?:_d16\w*)?$", op)
    words = re.search(r"dwordx?(\d?)$", op)
    width = 4 * int(words.group(1) or 1) if words else int(bits.group(1)) // 8 if bits else 2 if "short" in op else 1
    if kind == "multiply":
        return kind, 1
    return kind, width * 2 if re.match(r"ds_(load_|read|store_|write)2", op) else width


def is_packed(op):
    """Whether an instruction does what two of 32 bits do, on neighbouring registers."""
    return re.match(r"v_pk_(\w+_f32|mov_b32)$", op) is not None


def intel_message(op, line):
    note = line.lower().split("//")[-1]
    if "barrier" in note or "gtwy" in op:
        return "barrier", 1
    if "fence" in note:
        return "wait", 1
    if "scratch" in note:
        return "spill", 4
    is_local = "slm" in line.lower() or re.search(r"0x[0-9a-f]*fe\s", line.lower()) is not None
    is_store = "write" in note or "store" in note
    width = 4
    sized, words = re.search(r"\.d(\d+)(?:u32)?(?:x(\d+))?", note), re.search(r"oword.* x(\d+)", note)
    if words:
        width = 16 * int(words.group(1))
    elif sized:
        width = int(sized.group(1)) // 8 * int(sized.group(2) or 1)
    elif "with x" in note:
        width = 4 * len(re.search(r"with (x\w*)", note).group(1))
    elif "16b" in note:
        width = 2
    return ("local_" if is_local else "global_") + ("store" if is_store else "load"), width


def intel(op, line):
    base = op.split(".")[0]
    floats = re.search(r":(f|hf|bf)\b", line) is not None
    if base in ("send", "sends", "sendc", "load", "store", "lsc"):
        return intel_message(op, line)
    if base in ("sync", "nop", "wait"):
        return "wait", 1  # "sync.bar" waits for the signal of a message
    kinds = {"mad": "multiply" if floats else "integer", "mac": "multiply" if floats else "integer", "math": "special",
             "mov": "move", "movi": "move", "sel": "move"}
    if base.startswith("dpas"):
        return "matrix", 1
    if base in ("while", "goto", "join", "jmpi", "if", "else", "endif", "break", "cont", "brc", "brd", "ret", "call"):
        return "branch", 1
    return kinds.get(base, "float" if floats and base in ("add", "mul", "cmp", "min", "max", "rndd") else "integer"), 1


class Code:
    """Instructions, positions of labels, and branches: position -> (label, whether execution may fall through)."""

    def __init__(self, path):
        self.form = path.rsplit(".", 1)[-1]
        self.items, self.labels, self.branches, self.subgroup = [], {}, {}, 1
        take = {"sass": self.take_sass, "s": self.take_amd, "aco": self.take_amd, "asm": self.take_intel}[self.form]
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                take(line.rstrip("\n"))

    def add(self, op, classify, line, slots=1.0, lanes=1):
        self.items.append(Instruction(op, *classify(op, line), slots, lanes))

    def take_sass(self, line):
        label = re.match(r"^(\.L_\w+):", line)
        if label:
            self.labels[label.group(1)] = len(self.items)
        found = re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:\{ )?(@!?U?P[T\d]+ )?\s*([A-Z][\w.]*)(.*)", line)
        if not found:
            return
        guard, op, rest = found.groups()
        to = re.search(r"\((\.L_\w+)\)", rest)
        if op.startswith("BRA") and to:
            self.branches[len(self.items)] = to.group(1), guard is not None or " P" in rest or "UP" in rest
        elif op.startswith("CALL.REL.NOINC") and to:  # a jump too far for a branch that keeps lanes together
            self.branches[len(self.items)] = to.group(1), guard is not None
        elif op.startswith("EXIT"):
            self.branches[len(self.items)] = None, guard is not None
        self.add("NOP" if guard and guard.startswith("@!PT") else op, nvidia, line)

    def take_amd(self, line):
        label = re.match(r"^(\.?L?BB\w+):", line)
        if label:
            self.labels[label.group(1)] = len(self.items)
        found = re.match(r"^\t([a-z]\w+)(.*)", line)
        if not found:
            return
        op, rest = found.groups()
        to = re.search(r"(\.?L?BB\w+)", rest)
        if op.startswith(("s_cbranch", "s_branch")) and to:
            self.branches[len(self.items)] = to.group(1), op != "s_branch"
        elif op == "s_endpgm":
            self.branches[len(self.items)] = None, False
        parts = [op] + re.findall(r"::\s*(v_dual_\w+)", rest) + [op] * is_packed(op)
        for part in parts:
            self.add(part, amd, line, 1 / len(parts))

    def take_intel(self, line):
        label = re.match(r"^\s*(L\d+):", line)
        if label:
            self.labels[label.group(1)] = len(self.items)
        found = re.match(r"^\s*(\((?:W|W&)?[^)]*\))?\s*([a-z][\w.]*)\s", line)
        if not found or found.group(2) == "illegal":
            return
        guard, op = found.groups()
        targets = re.findall(r"\b(L\d+)\b", line)
        if op.split(".")[0] in ("goto", "jmpi", "while", "brc", "brd") and targets:
            self.branches[len(self.items)] = targets[-1], guard is not None and "f" in guard
        lanes, first = map(int, re.search(r"\((\d+)\|M(\d+)\)", line + "(1|M0)").groups())
        is_uniform = lanes == 1 or (guard is not None and guard.startswith("(W"))
        if op.startswith("send") and not is_uniform:
            self.subgroup = max(self.subgroup, first + lanes)
        self.add(op, intel, line, lanes=0 if is_uniform else lanes)


class Flow:
    """Basic blocks and their natural loops: header -> blocks."""

    def __init__(self, code):
        self.items = code.items
        starts = {0, *code.labels.values(), *(at + 1 for at in code.branches)}
        starts = sorted(at for at in starts if at < len(code.items))
        index = {at: i for i, at in enumerate(starts)}
        self.spans = [(at, starts[i + 1] if i + 1 < len(starts) else len(code.items)) for i, at in enumerate(starts)]
        self.following = []
        for i, (_, end) in enumerate(self.spans):
            to, falls = code.branches.get(end - 1, (None, True))
            follow = [index[code.labels[to]]] if code.labels.get(to, len(code.items)) in index else []
            self.following.append(follow + [i + 1] * (falls and i + 1 < len(self.spans)))
        self.before = [[] for _ in self.spans]
        for i, follow in enumerate(self.following):
            for to in follow:
                self.before[to].append(i)
        self.loops = self.find_loops()

    def dominators(self):
        every = set(range(len(self.spans)))
        found = [every.copy() for _ in self.spans]
        found[0] = {0}
        changed = True
        while changed:
            changed = False
            for i in range(1, len(self.spans)):
                known = [found[p] for p in self.before[i]]
                new = (set.intersection(*known) if known else set()) | {i}
                changed |= new != found[i]
                found[i] = new
        return found

    def find_loops(self):
        dominators, loops = self.dominators(), {}
        for i, follow in enumerate(self.following):
            for header in follow:
                if header not in dominators[i]:
                    continue
                body, todo = {header}, [i]
                while todo:
                    at = todo.pop()
                    if at not in body:
                        body.add(at)
                        todo.extend(self.before[at])
                loops.setdefault(header, set()).update(body)
        return loops

    def part(self, block):
        return self.items[slice(*self.spans[block])]

    def worth(self, block):
        part = self.part(block)
        useful = any(one.kind in ("global_load", "copy", "local_store") + MULTIPLIES for one in part)
        return (1 if useful else 0), -len(part)

    def way_through(self, header):
        """The blocks of the best path from the header back to it, with inner loops as a whole."""
        body, best = self.loops[header], {}

        def visit(block, path):
            if block in best:
                return best[block]
            best[block] = answer = None
            for to in self.following[block]:
                rest = None
                if to == header:
                    rest = (0, 0), []
                elif to in body and to not in path:
                    rest = visit(to, path | {to})
                if rest is not None and (answer is None or rest[0] > answer[0]):
                    answer = rest
            if answer is not None:
                useful, size = self.worth(block)
                answer = (answer[0][0] + useful, answer[0][1] + size), [block] + answer[1]
            best[block] = answer
            return answer

        found = visit(header, {header})
        blocks = set(found[1]) if found else set(body)
        for other, inside in self.loops.items():
            if other != header and other in blocks and inside < body:
                blocks |= self.way_through(other)
        return blocks

    def instructions(self, header):
        return [one for block in sorted(self.way_through(header)) for one in self.part(block)]

    def innermost_with_most(self, kind):
        """The smallest of the loops with the most instructions of a kind, on any path."""
        parts = {header: [one for block in blocks for one in self.part(block)] for header, blocks in self.loops.items()}
        return max(parts, key=lambda header: (sum(one.kind == kind for one in parts[header]), -len(parts[header])))

    def multiplying_inside(self, header):
        """The multiplying loops inside a loop."""
        return [other for other, inside in self.loops.items() if inside < self.loops[header] and
                multiplies(self.instructions(other)) > 0]

    def repeated(self, header, products):
        """The instructions of one iteration in order, with inner loops repeated as often as they run. products: for
        each product that inner loops compute, in order, its multiply-adds and the number of pieces into which the
        outermost of its loops divides it. Products without a loop are unrolled: together they make up the multiply-adds
        outside inner loops."""
        inner = self.multiplying_inside(header)
        way = self.way_through(header).union(*(self.way_through(other) for other in inner))
        outer = sorted(one for one in inner if not any(self.loops[one] < self.loops[other] for other in inner))
        straight = multiplies([one for block in way if not any(block in self.loops[other] for other in outer)
                               for one in self.part(block)])
        if len(products) < len(outer):
            raise ValueError("found %d multiplying loops, expected %d" % (len(outer), len(products)))
        left = min(itertools.combinations(products, len(outer)),
                   key=lambda some: abs(sum(one[0] for one in products) - sum(one[0] for one in some) - straight))
        times = dict.fromkeys(way, 1)
        for (product, pieces), loop in zip(left, outer):
            blocks = [block for block in self.way_through(loop) if block in way]
            nested = [one for one in inner if self.loops[one] < self.loops[loop]]
            innermost = min(nested, key=lambda one: len(self.loops[one])) if nested else loop
            if nested:
                times.update(dict.fromkeys(blocks, pieces))
            blocks = self.way_through(innermost)
            times.update(dict.fromkeys(blocks, round(product / multiplies(self.instructions(innermost)))))
        return [one for block in sorted(way) for _ in range(times[block]) for one in self.part(block)]


def multiplies(part):
    return sum(one.width if one.kind == "multiply" else 1 for one in part if one.kind in MULTIPLIES)


def weight(part):
    """The weight by which the main loop is chosen."""
    of = {"matrix": 16, "float": 0.01, "special": 0.01, "global_load": 0.01, "copy": 0.01}
    return sum(one.width if one.kind == "multiply" else of.get(one.kind, 0) for one in part)


def main_loop(path, products=()):
    """Returns the instructions of the loop that multiplies most (the smallest of several; on matrix units the smallest
    with all matrix instructions and a barrier, or else loads count too), or of the whole kernel if it has no loop, and
    those of the whole kernel. products: the products of loops inside it, so that these count as often as they run
    (Flow.repeated)."""
    code = Code(path)
    flow = Flow(code)
    parts = [flow.instructions(header) for header in flow.loops] or [code.items]
    most = max(weight(part) for part in parts)
    uses_units = any(one.kind == "matrix" for one in code.items)
    if products and uses_units:
        return flow.repeated(flow.innermost_with_most("matrix"), products), code.items
    if products:
        header = max(flow.loops,
                     key=lambda one: (len(flow.multiplying_inside(one)), multiplies(flow.instructions(one))))
        return flow.repeated(header, products), code.items
    whole = [part for part in parts if multiplies(part) == multiplies(code.items)
             and any(one.kind == "barrier" for one in part)]
    if uses_units and whole:
        return min(whole, key=len), code.items
    least = 1 if uses_units else 0.98  # a loop around it adds some for addresses: dg2 divides with multiply-adds
    return min((part for part in parts if weight(part) >= least * most), key=len), code.items


def loop_of_phases(path, totals):
    """Returns the instructions that a lane executes in one iteration of a loop whose body is a sequence of loops, and
    those of the whole kernel. The inner loops are repeated until each has the number of multiplications in totals. The
    first result is None if the number of inner loops differs."""
    code = Code(path)
    flow = Flow(code)
    outer = [header for header, body in flow.loops.items()
             if any(one.kind == "barrier" for one in flow.instructions(header))]
    outer = min(outer, key=lambda header: len(flow.loops[header]), default=None)
    if outer is None:
        return None, code.items
    inside = [header for header, body in flow.loops.items()
              if header != outer and body < flow.loops[outer] and multiplies(flow.instructions(header)) > 0]
    inside = sorted(header for header in inside
                    if not any(other != header and flow.loops[other] < flow.loops[header] for other in inside))
    if len(inside) != len(totals):
        return None, code.items
    nested = set().union(*(flow.loops[header] for header in inside))
    part = [one for block in sorted(flow.way_through(outer) - nested) for one in flow.part(block)]
    for header, total in zip(inside, totals):
        turn = flow.instructions(header)
        part += turn * round(total / multiplies(turn))
    return part, code.items


def issue_share(part, target):
    """The share of the vector unit's peak that the issue rate allows. NVIDIA: every instruction takes the scheduler's
    only slot of a cycle; sm_80 multiplies in two cycles, so that half of its slots are free. AMD: only vector
    arithmetic takes a slot of the vector unit; the peak of gfx11 needs pairs (v_dual_*), that of gfx90a and gfx942
    v_pk_fma_f32. Intel: float, matrix and move instructions use one pipe, integer ones another. A matrix instruction
    counts as one multiply-add."""
    count = multiplies(part)
    if count == 0:
        return 0.0
    if target.startswith("sm_"):
        cycles = 2 if target == "sm_80" else 1
        return count * cycles / max(len(part), count * cycles)
    if target.startswith("gfx"):
        return count / 2 / sum(one.slots for one in part if one.op.startswith("v_"))
    kinds = collections.Counter(one.kind for one in part)
    return count / max(count + kinds["float"] + kinds["move"] + kinds["convert"], kinds["integer"])


def wide_share(part):
    """The share of the bytes moved from and to global memory that move in accesses of at least 16 bytes; 1 if none
    move."""
    moved = [one.width for one in part if one.kind in ("global_load", "global_store", "copy")]
    return sum(width for width in moved if width >= 16) / sum(moved) if moved else 1


def fetched(path):
    """The bytes that a lane reads from global memory in accesses of at least 16 bytes, in all the code of a kernel,
    each instruction once. If a compiler divides an access among the lanes of a subgroup, its parts count as one."""
    code = Code(path)
    return sum(one.width * one.lanes for one in code.items
               if one.kind in ("global_load", "copy") and one.width >= 16) / code.subgroup


def narrow_accesses(part):
    """The number of accesses of lanes to global memory with less than 16 bytes."""
    return sum(one.kind in ("global_load", "global_store", "copy") and one.width < 16 and one.lanes > 0 for one in part)


def widths(part, kind):
    """Number of accesses of a kind by width in bytes, widest first."""
    found = collections.Counter(one.width for one in part if one.kind == kind)
    return dict(sorted(found.items(), reverse=True))
