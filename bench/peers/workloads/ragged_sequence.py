"""Algorithm distillation with ragged contexts (examples/ragged_sequence.c)."""

import math

import torch
from torch.nn import functional

import transformer
from workload import Form, normal, uniform

SIZES = dict(B=64, K=20, D=64, n_heads=4, F=256, L=2, pos_rows=88, grid=9, type_loss_weight=0.1)
OPTIMIZER = dict(lr=3e-4, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.01)
ROW, ACTIONS, TYPES = 10, 5, 3
STEP, START, END = 0, 1, 2


def parameters(sizes, generator):
    D = sizes["D"]
    made = dict(pos=normal(generator, 0.02, sizes["pos_rows"], D), Ty=normal(generator, 1, TYPES, D))
    first = transformer.layer_parameters(generator, D, sizes["F"])
    for i in range(sizes["L"]):
        made.update({f"layers.{i}.{name}": value for name, value in first.items()})
    made["Wc"], made["bc"] = uniform(generator, 1 / math.sqrt(ROW), D, ROW), uniform(generator, 1 / math.sqrt(ROW), D)
    made["Eq"] = normal(generator, 1, sizes["grid"] ** 2, D)
    made["m_start"], made["m_end"] = normal(generator, 0.02, D), normal(generator, 0.02, D)
    for name, count in (("a", ACTIONS), ("t", TYPES)):
        made["W" + name] = uniform(generator, 1 / math.sqrt(D), count, D)
        made["b" + name] = uniform(generator, 1 / math.sqrt(D), count)
    return made


def indices(before, now, i, B, N, S):
    """Returns rows of the table ctx [B·N] | queries [B] | start | end | zero, and the types of the tokens of sample
    i."""
    context, start, end = i * N, B * N + B, B * N + B + 1
    index = [start, *range(context, context + before), end] if before else []
    kind = [START, *[STEP] * before, END] if before else []
    index += [start, *range(context + before, context + before + now), B * N + i]
    kind += [START, *[STEP] * (now + 1)]
    return index + [end + 1] * (S - len(index)), kind + [TYPES] * (S - len(kind))


def prepare(sizes, one):
    """Collates a batch: rows of ten numbers with one-hot actions, and indices for the forms that gather."""
    B, N = one["actions"].shape
    lengths = [b + n + (4 if b else 2) for b, n in zip(one["before"], one["now"])]
    S = max(lengths)
    rows = [indices(b, n, i, B, N, S) for i, (b, n) in enumerate(zip(one["before"], one["now"]))]
    hot = functional.one_hot(one["actions"], ACTIONS).float()
    one["rows"] = torch.cat([one["states"].float(), hot, one["rewards"][..., None], one["next"].float()], 2)
    one["index"], one["kind"] = (torch.tensor([row[part] for row in rows]) for part in (0, 1))
    one["cell"] = one["query"][:, 0] * sizes["grid"] + one["query"][:, 1]
    return one


def batches(sizes, count, generator):
    """Returns batches. Regions and positions are drawn as from all samples, moves at random. One sample has the
    greatest length, so that all batches have the same shape."""
    B, K, grid = sizes["B"], sizes["K"], sizes["grid"]
    N, made = 2 * K - 1, []
    draw = lambda limit, *shape: torch.randint(limit, shape, generator=generator)
    for _ in range(count):
        before = [K if region > 0 else 0 for region in draw(1000 // K, B).tolist()]
        now = draw(K, B).tolist()
        before[0], now[0] = K, K - 1
        kind = torch.tensor([END if n == K - 1 else STEP for n in now])
        action = torch.where(kind == END, -1, draw(ACTIONS, B))
        one = dict(before=before, now=now, states=draw(grid, B, N, 2), next=draw(grid, B, N, 2), type=kind, action=action,
                   actions=draw(ACTIONS, B, N), rewards=(draw(20, B, N) == 0).float(), query=draw(grid, B, 2))
        made.append(prepare(sizes, one))
    return made


def golden(file, sizes):
    whole = lambda name: file["input." + name].long()
    one = dict(before=whole("prev_len").tolist(), now=whole("cur_len").tolist(), states=whole("states"),
               next=whole("next_states"), actions=whole("actions"), rewards=file["input.rewards"],
               query=whole("query_states"), type=whole("target_type"), action=whole("target_action"))
    return prepare(sizes, one)


class Before(Form):
    """Assembles tokens one by one: each takes an index of one element, a lookup of its type and an addition. The loss
    checks on the host which samples count."""

    reads_loss = True
    compiles = False

    def layer(self, i):
        return {name: self.p[f"layers.{i}.{name}"] for name in transformer.NAMES}

    def typed(self, vector, kind):
        return vector + functional.embedding(torch.tensor([kind]), self.p["Ty"])[0]

    def sequence(self, context, query, before, now):
        tokens = []
        if before:
            tokens.append(self.typed(self.p["m_start"], START))
            for t in range(before):
                tokens.append(self.typed(context[t], STEP))
            tokens.append(self.typed(self.p["m_end"], END))
        tokens.append(self.typed(self.p["m_start"], START))
        for t in range(before, before + now):
            tokens.append(self.typed(context[t], STEP))
        tokens.append(self.typed(query, STEP))
        return torch.stack(tokens)

    def tokens(self, batch):
        context = functional.linear(batch["rows"], self.p["Wc"], self.p["bc"])
        queries = functional.embedding(batch["cell"], self.p["Eq"])
        made = [self.sequence(context[i], queries[i], before, now)
                for i, (before, now) in enumerate(zip(batch["before"], batch["now"]))]
        most = max(len(one) for one in made)
        return torch.stack([functional.pad(one, (0, 0, 0, most - len(one))) for one in made])

    def encode(self, x):
        mask = transformer.causal_mask(x.shape[1])
        for i in range(self.sizes["L"]):
            p = self.layer(i)
            out = transformer.library_attention(x, p, self.sizes["n_heads"], self.dropout, mask, False)
            x = transformer.layer(x, p, out, self.drop)
        return x[:, -1]

    def heads(self, z):
        return (functional.linear(z, self.p["W" + name], self.p["b" + name]) for name in "at")

    def loss(self, batch):
        x = self.tokens(batch)
        action, kind = self.heads(self.encode(x + self.p["pos"][: x.shape[1]]))
        loss = functional.cross_entropy(kind, batch["type"]) * self.sizes["type_loss_weight"]
        counts = batch["type"] == STEP
        if counts.any():
            loss = loss + functional.cross_entropy(action[counts], batch["action"][counts])
        return loss


class After(Before):
    """Looks up three types; the tokens of a sample are slices that are joined, padded and stacked."""

    compiles = True

    def sequence(self, context, query, before, now):
        step, start, end = self.kinds
        first = self.p["m_start"][None] + start
        parts = [first, context[:before] + step, self.p["m_end"][None] + end] if before else []
        parts += [first, context[before : before + now] + step, query[None] + step]
        return torch.cat(parts)

    def tokens(self, batch):
        self.kinds = [functional.embedding(torch.tensor([kind]), self.p["Ty"]) for kind in (STEP, START, END)]
        return super().tokens(batch)


class Plain(Before):
    """Assembles the tokens with one gather and one addition; means are masked."""

    fused = True
    reads_loss = False
    compiles = True

    def tokens(self, batch):
        context = functional.linear(batch["rows"], self.p["Wc"], self.p["bc"]).flatten(0, 1)
        queries = functional.embedding(batch["cell"], self.p["Eq"])
        zero = torch.zeros(1, context.shape[1])
        table = torch.cat([context, queries, self.p["m_start"][None], self.p["m_end"][None], zero])
        return functional.embedding(batch["index"], table) + functional.embedding(
            batch["kind"], torch.cat([self.p["Ty"], zero]))

    def encode(self, x):
        for i in range(self.sizes["L"]):
            p = self.layer(i)
            x = transformer.layer(x, p, transformer.plain_attention(x, p, self.sizes["n_heads"], self.dropout), self.drop)
        return x[:, -1]

    def loss(self, batch):
        x = self.tokens(batch)
        action, kind = self.heads(self.encode(x + self.p["pos"][: x.shape[1]]))
        count = (batch["type"] == STEP).sum().clamp(min=1)
        of_actions = functional.cross_entropy(action, batch["action"], ignore_index=-1, reduction="sum") / count
        return of_actions + functional.cross_entropy(kind, batch["type"]) * self.sizes["type_loss_weight"]


class Less(Plain):
    """Computes in the last layer only the position that is read, with keys and values of all positions."""

    def encode(self, x):
        for i in range(self.sizes["L"] - 1):
            p = self.layer(i)
            x = transformer.layer(x, p, transformer.plain_attention(x, p, self.sizes["n_heads"], self.dropout), self.drop)
        B, S, D = x.shape
        n, p, rows = self.sizes["n_heads"], self.layer(self.sizes["L"] - 1), x[:, -1]
        weight, bias = p["in_proj.weight"], p["in_proj.bias"]
        q = functional.linear(rows, weight[:D], bias[:D]).view(B, 1, n, D // n).transpose(1, 2)
        k, v = functional.linear(x, weight[D:], bias[D:]).view(B, S, 2, n, D // n).permute(2, 0, 3, 1, 4)
        out = functional.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
        out = functional.linear(out.transpose(1, 2).reshape(B, D), p["out_proj.weight"], p["out_proj.bias"])
        return transformer.layer(rows, p, out, self.drop)


FORMS = dict(before=Before, after=After, plain=Plain, less=Less)
