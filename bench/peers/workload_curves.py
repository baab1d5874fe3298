#!/usr/bin/env python3
"""Trains the models of the example programs in PyTorch, from the same weights on the same batches, and compares curves.

    build/examples/dotgat --steps 2000 --set dropout=0 --save-batches dotgat.batches
    build/examples/dotgat --steps 2000 --set dropout=0 --log-every 20 --log dotgat.csv
    build/pytorch/bin/python bench/peers/workload_curves.py train dotgat.batches dotgat-pytorch.csv
    build/pytorch/bin/python bench/peers/workload_curves.py compare --svg curves.svg dotgat=dotgat.csv,dotgat-pytorch.csv

`bench/compare` creates the environment build/pytorch. A curve has the mean of the loss since the previous line; --every
N of train sets the number of steps between lines (20), --steps N ends the training early, and --double trains in
float64, which shows how much of a difference is rounding. k1_tree draws its batches on the device; this script
generates its words and its draws again. Weights have the program's names, see examples/*.c. The models are written from
their formulas, without code of tuff. Dropout must be 0.
"""
import csv
import json
import math
import struct
import sys
import time

import numpy
import torch
import torch.nn.functional as F

TYPES = {"F32": numpy.float32, "I32": numpy.int32, "U8": numpy.uint8}


def read_file(path):
    """Returns the numbers of the configuration, and the tensors by name."""
    data = numpy.memmap(path, mode="r")
    size = struct.unpack("<Q", bytes(data[:8]))[0]
    header = json.loads(bytes(data[8 : 8 + size]))
    texts = header.pop("__metadata__")
    config = {key: float(text) if key != "example" else text for key, text in texts.items()}
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = data[8 + size + begin : 8 + size + end].view(TYPES[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return config, tensors


def heads_first(x, heads):
    """[..., length, heads * d] -> [..., heads, length, d]"""
    return x.unflatten(-1, (heads, -1)).transpose(-2, -3)


def attend(q, k, v, heads, causal=False, bias=None):
    length = q.shape[-2]
    q, k, v = (heads_first(x, heads) for x in (q, k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = scores + torch.full((length, length), -math.inf).triu(1)
    return (torch.softmax(scores, -1) @ v).transpose(-2, -3).flatten(-2)


def encoder_layer(p, name, h, heads):
    """Post-norm: LN1(h + MHA(h)), then LN2 of that and its MLP."""
    width = h.shape[-1]
    q, k, v = F.linear(h, p[name + ".in_proj.weight"], p[name + ".in_proj.bias"]).chunk(3, -1)
    out = F.linear(attend(q, k, v, heads, causal=True), p[name + ".out_proj.weight"], p[name + ".out_proj.bias"])
    h = F.layer_norm(h + out, (width,), p[name + ".ln1.gain"], p[name + ".ln1.bias"], 1e-5)
    inner = F.gelu(F.linear(h, p[name + ".W1"], p[name + ".b1"]))
    out = F.linear(inner, p[name + ".W2"], p[name + ".b2"])
    return F.layer_norm(h + out, (width,), p[name + ".ln2.gain"], p[name + ".ln2.bias"], 1e-5)


class Dotgat:
    def __init__(self, config, fixed):
        self.heads, self.messages = int(config["n"]), int(config["S"])
        self.seen = torch.tensor(fixed["C"], dtype=torch.get_default_dtype())
        self.ties = torch.tensor(fixed["learn_mask"], dtype=torch.bool)

    @staticmethod
    def norm(x, gain):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1.1920928955078125e-7) * gain

    @staticmethod
    def per_agent(x, weight):
        return torch.einsum("btai,aio->btao", x, weight)

    def attention(self, p, u, name):
        q, k = (self.per_agent(u, p["W%s_%s" % (which, name)]) for which in "qk")
        return q, k, u @ p["Wv_%s_shared" % name].T

    def loss(self, p, batch):
        agents = len(self.seen)
        bias = torch.full((agents, agents), -math.inf).masked_scatter(self.ties, p["bias_param"])
        bias = torch.where(torch.eye(agents, dtype=torch.bool), torch.ones(()), bias)
        h = self.per_agent(batch["X"][:, :, None, :] * self.seen, p["W_embed"])
        h = self.norm(h, p["prenorm.gain"])
        for _ in range(self.messages):
            qkv = (x.transpose(1, 2) for x in self.attention(p, self.norm(h, p["memnorm.gain"]), "mem"))
            h = h + attend(*qkv, self.heads, causal=True).transpose(1, 2)
            h = h + attend(*self.attention(p, self.norm(h, p["socnorm.gain"]), "soc"), self.heads, bias=bias)
            u = self.norm(h, p["mlpnorm.gain"])
            h = h + self.per_agent(F.silu(self.per_agent(u, p["W1"]) + p["b1"]), p["W2"]) + p["b2"]
        y = self.per_agent(self.norm(h, p["prednorm.gain"]), p["W_dec"]) + p["b_dec"]
        return (y[..., 0] - batch["y_true"][:, :, None]).square().mean()


class VisionBdh:
    def __init__(self, config, fixed):
        self.patch, self.recurrences = int(config["p"]), int(config["L"])
        tokens = int(config["s"] // config["p"]) ** 2 + 1
        code = int(config["mult"] * config["D"] // config["n"])
        pair = torch.arange(code) // 2 * 2
        frequency = (65536 ** (-pair.double() / code) / (2 * math.pi)).float()
        turns = torch.arange(tokens).float()[:, None] * frequency
        phase = turns.remainder(1) * (2 * math.pi)
        self.cos, self.sin = (table.to(torch.get_default_dtype()) for table in (phase.cos(), phase.sin()))

    @staticmethod
    def norm(x):
        return F.layer_norm(x, x.shape[-1:], eps=1e-5)

    def rope(self, x):
        turned = torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)
        return x * self.cos + turned * self.sin

    def loss(self, p, batch):
        patches = F.conv2d(batch["images"], p["patch.weight"], p["patch.bias"], stride=self.patch)
        patches = patches.flatten(2).transpose(1, 2)
        x = torch.cat((p["cls"].expand(len(patches), 1, -1), patches), 1) + p["pos"]
        for _ in range(self.recurrences):
            x = self.norm(x)
            u = F.relu(x[:, None] @ p["E"])
            r = self.rope(u)
            y = self.norm(r @ r.transpose(-1, -2) @ x[:, None])
            gated = u * F.relu(y @ p["F"])
            y = self.norm(gated.transpose(1, 2).flatten(2) @ p["Dc"])
            x = self.norm(x + y)
        logits = F.linear(self.norm(x[:, 0]), p["head.weight"], p["head.bias"])
        return F.cross_entropy(logits, batch["labels"].long())


class RaggedSequence:
    def __init__(self, config, fixed):
        self.layers, self.heads, self.grid = int(config["L"]), int(config["n_heads"]), int(config["grid"])
        self.type_weight = config["type_loss_weight"]

    def loss(self, p, batch):
        action = F.one_hot(batch["actions"].long(), 5)
        numbers = (batch["states"], action, batch["rewards"][..., None], batch["next_states"])
        rows = torch.cat([x.to(p["Wc"].dtype) for x in numbers], -1)
        width = len(p["m_start"])
        cells = self.grid * batch["query_states"][:, 0] + batch["query_states"][:, 1]
        table = torch.cat((F.linear(rows, p["Wc"], p["bc"]).flatten(0, 1), F.embedding(cells, p["Eq"]),
                           p["m_start"][None], p["m_end"][None], torch.zeros(1, width)))
        types = torch.cat((p["Ty"], torch.zeros(1, width)))
        kind = torch.where(batch["type_index"] < 0, 3, batch["type_index"])
        longest = int(batch["length"].max())
        x = (F.embedding(batch["gather_index"], table) + F.embedding(kind, types))[:, :longest]
        x = x + p["pos"][:longest]
        for i in range(self.layers):
            x = encoder_layer(p, "layers.%d" % i, x, self.heads)
        z = x[:, -1]
        wanted, kind = batch["target_action"].long(), batch["target_type"].long()
        asked = wanted >= 0
        action = F.cross_entropy(F.linear(z, p["Wa"], p["ba"])[asked], wanted[asked]) if asked.any() else 0
        return action + self.type_weight * F.cross_entropy(F.linear(z, p["Wt"], p["bt"]), kind)


MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


class SplitMix:
    def __init__(self, seed, stream):
        self.state = mix(mix(seed + GOLDEN & MASK) + stream & MASK)

    def bits(self):
        self.state = self.state + GOLDEN & MASK
        return mix(self.state)

    def uniform(self):
        return (self.bits() >> 11) * 2.0**-53


def threefry(key, ordinal, indices, step):
    """Returns the upper 24 bits of the first word of Threefry-2x32-20."""
    keys = numpy.array([key, ordinal, 0x1BD11BDA ^ key ^ ordinal], dtype=numpy.uint32)
    x = indices.astype(numpy.uint32) + keys[0]
    y = numpy.full_like(x, step) + keys[1]
    for number in range(20):
        left = numpy.uint32((13, 15, 26, 6, 17, 29, 16, 24)[number % 8])
        x = x + y
        y = (y << left | y >> numpy.uint32(32 - left)) ^ x
        if number % 4 == 3:
            at = number // 4 + 1
            x = x + keys[at % 3]
            y = y + keys[(at + 1) % 3] + numpy.uint32(at)
    return (x >> numpy.uint32(8)).astype(numpy.int64)


class K1Tree:
    """The data are words of three synthetic languages, in which each word has four possible successors, in windows of S
    words that are S / 2 apart."""

    LANGUAGES, WINDOWS, MARKS = 3, 2000, 4

    def __init__(self, config, fixed):
        for name in ("S", "B", "L", "n", "depth", "branching", "top_k", "seed", "steps"):
            setattr(self, name, int(config[name]))
        self.tree = config["tree"] > 0
        if config["l2"] or config["subtree"] or config["next_word"]:
            raise SystemExit("only the default choice of nodes and the published targets are supported")
        vocabulary = int(config["V"])
        self.stride = self.S // 2
        self.words, self.first = [], []
        for language in range(self.LANGUAGES):
            self.words += [0] * (-len(self.words) % self.stride)
            self.first.append(len(self.words) // self.stride)
            random, word = SplitMix(self.seed, language), self.MARKS
            for _ in range(self.S + 1 + (self.WINDOWS - 1) * self.stride):
                u = random.uniform()
                which = 0 if u < 0.5 else 1 if u < 0.75 else 2 if u < 0.9 else 3
                follower = SplitMix(self.seed, language + 1 << 48 | which << 40 | word)
                word = self.MARKS + follower.bits() % (vocabulary - self.MARKS)
                self.words.append(word)
        self.words = numpy.array(self.words)
        self.nodes = (self.branching**self.depth - 1) // (self.branching - 1) if self.tree else 0

    def batch(self, step):
        trained = self.WINDOWS - 2 * (self.WINDOWS // 20)
        samples = numpy.arange(self.B)
        drawn = threefry(self.seed, 0, samples, step) * 128 + (threefry(self.seed, 1, samples, step) >> 17)
        rows = self.first[step * self.LANGUAGES // self.steps] + drawn % (2**31 - 1) % trained
        places = rows[:, None] * self.stride + numpy.arange(self.S)
        return {"x": torch.from_numpy(self.words[places]), "y": torch.from_numpy(self.words[places + 1])}

    def node(self, p, v, h, level):
        h = encoder_layer(p, "nodes.%d" % v, h, self.n)
        if level + 1 == self.depth:
            return h
        below = [self.node(p, self.branching * v + i + 1, h, level + 1) for i in range(self.branching)]
        return torch.stack(below).mean(0)

    def loss(self, p, batch):
        h = F.embedding(batch["x"], p["Emb"]) + p["pos"][: self.S]
        if self.tree:
            h = self.node(p, 0, h, 0)
        else:
            for i in range(self.L):
                h = encoder_layer(p, "layers.%d" % i, h, self.n)
        h = F.layer_norm(h, h.shape[-1:], p["ln_out.gain"], p["ln_out.bias"], 1e-5)
        logits = F.linear(h, p["Wo"], p["bo"])
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), batch["y"][:, 1:].flatten())

    def list_nodes(self, v=0):
        children = [self.branching * v + i + 1 for i in range(self.branching)]
        return [v] + [node for child in children if child < self.nodes for node in self.list_nodes(child)]

    def choose(self, p):
        """Zeroes the gradients of all nodes except those with the largest sums of norms."""
        own = [[tensor for name, tensor in p.items() if name.startswith("nodes.%d." % v)] for v in range(self.nodes)]
        scores = [sum(tensor.grad.norm().item() for tensor in tensors) for tensors in own]
        for v in sorted(self.list_nodes(), key=lambda node: -scores[node])[self.top_k :] if self.tree else []:
            for tensor in own[v]:
                tensor.grad.zero_()


MODELS = {"dotgat": Dotgat, "vision_bdh": VisionBdh, "ragged_sequence": RaggedSequence, "k1_tree": K1Tree}


def rate_at(config, step):
    """Returns the rate: linear from rate / warmup, then a cosine to final_rate, over steps or epochs."""
    rate, last, warmup, epoch = config["lr"], config["final_rate"], config["warmup"], config["epoch_steps"]
    total = math.ceil(config["steps"] / epoch) if epoch else config["steps"]
    at = step // epoch if epoch else step
    if at < warmup:
        return rate * (at + 1) / warmup
    if last >= 1:
        return rate
    return rate * (last + (1 - last) * (1 + math.cos(math.pi * (at - warmup) / (total - warmup))) / 2)


def train(path, out, every, steps):
    config, tensors = read_file(path)
    if config["dropout"] or config["accumulate"] > 1:
        raise SystemExit("dropout must be 0, and gradients must not be accumulated")
    dtype = torch.get_default_dtype()
    inputs = {name[6:]: values for name, values in tensors.items() if name.startswith("input.")}
    model = MODELS[config["example"]](config, inputs)
    p = {name[6:]: torch.tensor(values, dtype=dtype).requires_grad_()
         for name, values in tensors.items() if name[:6] == "param."}
    optimizer = torch.optim.AdamW(p.values(), lr=config["lr"], betas=(config["beta1"], config["beta2"]),
                                  eps=config["eps"], weight_decay=config["weight_decay"])
    total, count = torch.zeros(()), 0
    started = time.time()
    with open(out, "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["step", "loss", "learning rate"])
        for step in range(steps or int(config["steps"])):
            if hasattr(model, "batch"):
                batch = model.batch(step)
            else:
                batch = {name: torch.from_numpy(values[step].copy()) for name, values in inputs.items()
                         if values.shape[0] == config["steps"]}
                batch = {name: x.to(dtype) if x.is_floating_point() else x for name, x in batch.items()}
            optimizer.param_groups[0]["lr"] = rate_at(config, step)
            optimizer.zero_grad()
            loss = model.loss(p, batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(p.values(), config["clip_norm"])
            if hasattr(model, "choose"):
                model.choose(p)
            optimizer.step()
            total, count = total + loss.detach(), count + 1
            if count == every:
                lines.writerow([step + 1, "%.9g" % (total.item() / count), "%.9g" % rate_at(config, step)])
                file.flush()
                total, count = torch.zeros(()), 0
    print("%s: %.1f steps/s" % (config["example"], (step + 1) / (time.time() - started)))


def read_curve(path, column):
    with open(path, newline="") as file:
        return [(int(row["step"]), float(row[column])) for row in csv.DictReader(file) if row[column]]


def per_window(curve, window):
    """Returns the means over windows of steps; every line stands for the steps since the previous one."""
    sums, counts, before = {}, {}, 0
    for step, loss in curve:
        at = (step - 1) // window
        sums[at] = sums.get(at, 0) + loss * (step - before)
        counts[at] = counts.get(at, 0) + step - before
        before = step
    return [sums[at] / counts[at] for at in sorted(sums)]


def draw(name, curves, left, top):
    width, height, colours = 300, 170, ("#06c", "#d60")
    values = [loss for curve in curves for _, loss in curve]
    low, high, last = min(values), max(values), curves[0][-1][0]
    parts = ['<g transform="translate(%d %d)">' % (left, top),
             '<rect width="%d" height="%d" fill="none" stroke="#999"/>' % (width, height),
             '<text x="4" y="-5">%s: %.4g to %.4g, %d steps</text>' % (name, high, low, last)]
    for curve, colour, dash in zip(curves, colours, ("", ' stroke-dasharray="4 4"')):
        points = " ".join("%.1f,%.1f" % (width * step / last, height - height * (loss - low) / (high - low or 1))
                          for step, loss in curve)
        parts.append('<polyline fill="none" stroke="%s"%s points="%s"/>' % (colour, dash, points))
    return parts + ["</g>"]


def compare(words):
    """Compares the curves of words of the form NAME=TUFF.csv,PYTORCH.csv, or NAME:COLUMN=TUFF.csv for a metric that
    PyTorch does not have, over the whole windows of 100 steps that both curves have."""
    svg = words[words.index("--svg") + 1] if "--svg" in words else None
    names = [word for word in words if word not in ("--svg", svg)]
    parts = []
    print("| run | steps | first 100 | last 100 | steps of PyTorch | its first 100 | its last 100 "
          "| largest difference of a mean over 100 steps |\n|---|---|---|---|---|---|---|---|")
    for number, word in enumerate(names):
        name, paths = word.split("=", 1)
        column = name.split(":", 1)[1] if ":" in name else "loss"
        curves = [read_curve(path, column) for path in paths.split(",")]
        means = [per_window(curve, 100)[: curve[-1][0] // 100] for curve in curves]
        cells = [name.replace(":", ", "), str(curves[0][-1][0])] + ["%.5g" % means[0][i] for i in (0, -1)]
        if len(means) == 2:
            worst = max((abs(a - b) / abs(b), i) for i, (a, b) in enumerate(zip(*means)))
            cells += [str(100 * len(means[1]))] + ["%.5g" % means[1][i] for i in (0, -1)]
            cells += ["%.2g %% at step %d" % (100 * worst[0], 100 * worst[1] + 100)]
        print("| " + " | ".join(cells + [""] * (8 - len(cells))) + " |")
        parts += draw(cells[0], curves, 20 + number % 2 * 340, 30 + number // 2 * 215)
    if svg:
        with open(svg, "w") as file:
            file.write('<svg xmlns="http://www.w3.org/2000/svg" width="700" height="%d" font-family="sans-serif" '
                       'font-size="12">\n' % (20 + (len(names) + 1) // 2 * 215))
            file.write("\n".join(parts) + "\n</svg>\n")


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["train"] and len(words) >= 3:
        if "--double" in words:
            torch.set_default_dtype(torch.float64)
        numbers = {name: int(words[words.index(name) + 1]) for name in ("--steps", "--every") if name in words}
        train(words[1], words[2], numbers.get("--every", 20), numbers.get("--steps"))
    elif words[:1] == ["compare"] and len(words) >= 2:
        compare(words[1:])
    else:
        raise SystemExit(__doc__)
