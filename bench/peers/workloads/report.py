"""The table and the picture of bench/workloads."""

import math
import statistics

# By model: its own batch, the speedup of the whole step that its write-up claims, and whether PyTorch has a form that
# leaves out work whose result nobody reads.
MODELS = dict(
    dotgat=dict(batch=16, claim="1.4 to 2.2", less=False),
    vision_bdh=dict(batch=16, claim="1.8 to 3.5", less=True),
    ragged_sequence=dict(batch=64, claim="15 to 70", less=True),
    route_cost=dict(batch=16, claim="1.1 to 1.5", less=False),
    k1_tree=dict(batch=32, claim="3 to 5", less=False),
)


def forms_of(model, batch, quick):
    less = ["less", "less+compile"] if MODELS[model]["less"] else []
    if quick:
        return ["before", "plain", *less[:1]]
    forms = ["before", "after", "plain", "plain+compile", *less]
    return forms + ["before+compile", "after+compile"] if batch == MODELS[model]["batch"] else forms


def row(cell, name):
    return next((one for one in cell["rows"] if one["name"] == name), None)


def ratio(cell, name):
    """Returns the median and quartiles, over the rounds, of a form's time divided by that of tuff's optimized form, the
    ratio of the least times, which a busy machine distorts less, and that of processor times; None without the form."""
    other, ours = row(cell, name), row(cell, "tuff, optimized")
    if not other:
        return None
    each = [b / a for a, b in zip(ours["samples"], other["samples"])]
    low, _, high = statistics.quantiles(each, n=4, method="inclusive") if len(each) > 1 else each * 3
    least = min(other["samples"]) / min(ours["samples"])
    return statistics.median(each), low, high, least, other["processor"] / ours["processor"]


def trusted(cell, name):
    """Returns the ratio to trust on a shared machine. With one thread each, it is that of processor times, which then
    measure only the work. With more, threads that wait for each other also take processor time, so it is that of the
    least times."""
    found = ratio(cell, name)
    return found[4 if cell["threads"] == 1 else 3] if found else None


def best_plain(cell):
    """Returns the name of the fastest plain form."""
    names = [one["name"] for one in cell["rows"] if one["name"].startswith("PyTorch, plain")]
    return min(names, key=lambda name: trusted(cell, name), default=None)


def milliseconds(seconds):
    """Returns an empty text for a time that was not measured, which is NaN."""
    if math.isnan(seconds):
        return ""
    value = 1e3 * seconds
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def mebibytes(size):
    return f"{size / 2**20:.1f}"


def in_a_line(cell):
    parts = [f"{milliseconds(row(cell, 'tuff, optimized')['step'])} ms"]
    for one in cell["rows"][1:]:
        parts.append(f"{one['name']} {ratio(cell, one['name'])[0]:.2f} ({trusted(cell, one['name']):.2f})")
    parts += [f"{name}: {why}" for name, why in cell["missing"].items()]
    facts = cell["rows"][0]
    parts.append(f"in kernels {100 * facts['in_kernels']:.1f} %, host {100 * facts['host'] / facts['step']:.2f} %")
    return ", ".join(parts)


HEADER = ("model", "B", "form", "step, ms", "processor", "forward", "backward", "optimizer", "items/s", "memory, MiB",
          "times tuff's", "quartiles", "ratio of minima", "ratio of processor times",
          "claimed", "in kernels", "host", "reads")


def of_tuff(one):
    return f"{100 * one['in_kernels']:.1f} %", f"{100 * one['host'] / one['step']:.2f} %", f"{one['reads']:.0f}"


def table_rows(cell):
    model = MODELS[cell["model"]]
    for one in cell["rows"]:
        name = one["name"]
        middle, low, high, least, processor = ratio(cell, name)
        is_first = one is cell["rows"][0]
        yield (
            cell["model"] if is_first else "", str(cell["batch"]) if is_first else "", name, milliseconds(one["step"]),
            milliseconds(one["processor"]),
            *(milliseconds(one[phase]) for phase in ("forward", "backward", "optimizer")),
            f"{cell['batch'] / one['step']:.0f}", mebibytes(one["intermediates"]) if "intermediates" in one else "",
            "" if is_first else f"{middle:.2f}", "" if is_first else f"{low:.2f} to {high:.2f}",
            "" if is_first else f"{least:.2f}", "" if is_first else f"{processor:.2f}",
            model["claim"] if name == "PyTorch, before" else "",
            *(of_tuff(one) if name.startswith("tuff") else ("", "", "")))


def ordered(result):
    names = list(MODELS)
    return sorted(result["cells"], key=lambda cell: (names.index(cell["model"]), cell["batch"]))


def footnotes(result):
    for cell in ordered(result):
        apart = cell["deviation"]
        facts, other = cell["rows"][0], row(cell, "tuff, baseline")
        yield (f"- {cell['model']} {cell['batch']}: largest differences between tuff's forms in the first"
               f" three steps: {apart['loss']:.1e} (loss),"
               f" {apart['gradient_norm']:.1e} (gradient norm); {facts['launches']} launches,"
               f" {other['launches']} in the baseline; all device memory {mebibytes(facts['peak'])} and"
               f" {mebibytes(other['peak'])} MiB; threads: {cell['threads'] or 'all'},"
               f" load {cell['load']:.1f}, {cell['when']}"
               + "".join(f"; {name}: {why}" for name, why in cell["missing"].items()) + ".")


def table(result):
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    for cell in ordered(result):
        lines += ["| " + " | ".join(one) + " |" for one in table_rows(cell)]
    return "\n".join(lines) + "\n\n" + "\n".join(footnotes(result)) + "\n"


STYLE = """    text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #24292f }
    .name { font-weight: 600 }
    .number, .tick { text-anchor: middle; fill: #57606a; font-size: 12px }
    .number { text-anchor: start }
    path { stroke: #d0d7de; fill: none }
    .before { fill: #8250df } .plain { fill: #0969da } .baseline { fill: #8c959f }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .number, .tick { fill: #9198a1 }
      path { stroke: #30363d }
      .before { fill: #a371f7 } .plain { fill: #2f81f7 } .baseline { fill: #6e7681 }
    }"""
BARS = (("before", "PyTorch, the published program"), ("plain", "PyTorch, best plain form, eager or compiled"),
        ("baseline", "tuff, baseline form"))
LEFT, RIGHT, TOP, BAR, GROUP = 150, 660, 62, 14, 62


def bar_ratio(cell, kind):
    name = {"before": "PyTorch, before", "plain": best_plain(cell), "baseline": "tuff, baseline"}[kind]
    return trusted(cell, name) if name else None


def picture(result):
    """Returns a bar chart of how many times as fast tuff's optimized form is, at each model's own batch, on a
    logarithmic scale."""
    cells = [cell for cell in ordered(result) if cell["batch"] == MODELS[cell["model"]]["batch"]]
    most = max([2.0] + [bar_ratio(cell, kind) or 1 for cell in cells for kind, _ in BARS])
    place = lambda value: LEFT + (RIGHT - LEFT) * math.log(max(value, 0.8) / 0.8) / math.log(most * 1.1 / 0.8)
    height = TOP + GROUP * len(cells) + 26
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 740 {height}" width="740" height="{height}"'
             '\n     role="img" aria-label="How many times as fast a training step of tuff is">', "  <style>", STYLE, "  </style>"]
    for i, (kind, text) in enumerate(BARS):
        parts.append(f'  <rect class="{kind}" x="{LEFT}" y="{4 + 17 * i}" width="12" height="12"/>'
                     f'<text x="{LEFT + 19}" y="{15 + 17 * i}">{text}</text>')
    for tick in (1, 2, 3, 5, 10, 20, 50):
        if tick <= most * 1.1:
            x = place(tick)
            parts.append(f'  <path d="M{x:.1f} {TOP}V{height - 22}"/>'
                         f'<text class="tick" x="{x:.1f}" y="{height - 6}">{tick}x</text>')
    for row_index, cell in enumerate(cells):
        y = TOP + 8 + GROUP * row_index
        parts.append(f'  <text class="name" x="8" y="{y + 20}">{cell["model"]}</text>'
                     f'<text class="number" x="8" y="{y + 36}">batch {cell["batch"]}</text>')
        for i, (kind, _) in enumerate(BARS):
            value = bar_ratio(cell, kind)
            if value:
                begin, end = sorted((place(1), place(value)))
                parts.append(f'  <rect class="{kind}" x="{begin:.1f}" y="{y + (BAR + 2) * i}" width="{end - begin:.1f}"'
                             f' height="{BAR}"/><text class="number" x="{end + 6:.1f}" y="{y + (BAR + 2) * i + 11}">'
                             f"{value:.2f}</text>")
    return "\n".join(parts) + "\n</svg>\n"
