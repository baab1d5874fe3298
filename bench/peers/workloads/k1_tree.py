"""A language model whose blocks are the nodes of a tree; each step updates some of them (examples/k1_tree.c)."""

import math

import torch
from torch.nn import functional

import transformer
from workload import Form, uniform

SIZES = dict(B=32, S=32, P=64, V=1000, D=64, n=4, F=128, depth=3, branching=3, top_k=5)
OPTIMIZER = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)


def node_count(sizes):
    return sum(sizes["branching"] ** level for level in range(sizes["depth"]))


def preorder(sizes, node=0):
    """Returns the nodes in the order in which the published program lists them; earlier ones win ties."""
    made = [node]
    for i in range(1, sizes["branching"] + 1):
        if sizes["branching"] * node + i < node_count(sizes):
            made += preorder(sizes, sizes["branching"] * node + i)
    return made


def parameters(sizes, generator):
    V, D = sizes["V"], sizes["D"]
    xavier = lambda *shape: uniform(generator, math.sqrt(6 / sum(shape)), *shape)
    made = dict(Emb=xavier(V, D), pos=xavier(sizes["P"], D))
    for node in range(node_count(sizes)):
        for name, value in transformer.layer_parameters(generator, D, sizes["F"]).items():
            made[f"nodes.{node}.{name}"] = xavier(*value.shape) if value.dim() > 1 else value
    made["ln_out.gain"], made["ln_out.bias"] = torch.ones(D), torch.zeros(D)
    made["Wo"], made["bo"] = xavier(V, D), uniform(generator, 1 / math.sqrt(D), V)
    return made


def batches(sizes, count, generator):
    """Returns windows of a text on the device; each step draws its own."""
    words = torch.randint(4, sizes["V"], (20000,), generator=generator)
    windows = words.unfold(0, sizes["S"] + 1, sizes["S"] // 2)
    data = dict(x=windows[:, :-1].contiguous(), y=windows[:, 1:].contiguous(), B=sizes["B"])
    return [data] * count


def golden(file, sizes):
    return dict(x=file["input.x"].long(), y=file["input.y"].long(), B=None)


def draw(batch):
    if batch["B"] is None:
        return batch["x"], batch["y"]
    rows = torch.randint(len(batch["x"]), (batch["B"],))
    return batch["x"][rows], batch["y"][rows]


class Before(Form):
    """Computes one node after another; attention also returns its mean probabilities; the mask is made for every node.
    The host reads the norm of each tensor, sorts the nodes, and clears gradients one by one."""

    reads_loss = True
    keeps_mask = False

    def __init__(self, sizes, parameters, dropout):
        super().__init__(sizes, parameters, dropout)
        self.nodes = [{name: self.p[f"nodes.{node}.{name}"] for name in transformer.NAMES}
                      for node in range(node_count(sizes))]
        self.order = preorder(sizes)
        self.mask = transformer.causal_mask(sizes["P"])

    def node(self, p, z):
        S = z.shape[1]
        mask = self.mask[:S, :S] if self.keeps_mask else transformer.causal_mask(S)
        return transformer.layer(
            z, p, transformer.library_attention(z, p, self.sizes["n"], self.dropout, mask, True), self.drop)

    def tree(self, h, node=0):
        z, branching = self.node(self.nodes[node], h), self.sizes["branching"]
        if branching * node + 1 >= len(self.nodes):
            return z
        return torch.stack([self.tree(z, branching * node + i) for i in range(1, branching + 1)]).mean(0)

    def loss(self, batch):
        x, y = draw(batch)
        h = functional.embedding(x, self.p["Emb"]) + self.p["pos"][: x.shape[1]]
        h = transformer.norm(self.tree(h), self.p, "ln_out")
        logits = functional.linear(h, self.p["Wo"], self.p["bo"])[:, :-1]
        return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), y[:, 1:].reshape(-1))

    def select(self):
        scores = {node: sum(value.grad.norm().item() for value in self.nodes[node].values()) for node in self.order}
        kept = sorted(self.order, key=lambda node: -scores[node])[: self.sizes["top_k"]]
        for node in self.order:
            if node not in kept:
                for value in self.nodes[node].values():
                    value.grad.zero_()


class After(Before):
    """Keeps the mask, reads the loss only for lines of output, and takes five nodes without sorting all. Norms are
    still read one by one."""

    reads_loss = False
    keeps_mask = True

    def select(self):
        norms = torch.tensor([sum(value.grad.norm().item() for value in self.nodes[node].values()) for node in self.order])
        kept = {self.order[i] for i in torch.topk(norms, self.sizes["top_k"]).indices.tolist()}
        for node in self.order:
            if node not in kept:
                for value in self.nodes[node].values():
                    value.grad.zero_()


class Plain(Form):
    """Stacks the parameters of a level's nodes and computes these nodes side by side; scores, choice and clearing stay
    on the device."""

    fused = True

    def own(self, parameters):
        made = {name: value for name, value in parameters.items() if not name.startswith("nodes.")}
        first = 0
        for level in range(self.sizes["depth"]):
            count = self.sizes["branching"] ** level
            for name in transformer.NAMES:
                made[f"{level}.{name}"] = torch.stack([parameters[f"nodes.{first + i}.{name}"] for i in range(count)])
            first += count
        return super().own(made)

    def linear(self, x, level, weight, bias):
        return torch.baddbmm(self.p[f"{level}.{bias}"][:, None], x, self.p[f"{level}.{weight}"].mT)

    def norm(self, x, level, name):
        made = functional.layer_norm(x, [x.shape[-1]], None, None, 1e-5)
        return torch.addcmul(self.p[f"{level}.{name}.bias"][:, None], made, self.p[f"{level}.{name}.gain"][:, None])

    def level(self, z, level, B):
        """Computes a level; z is [nodes, B·S, D]."""
        nodes, rows, D = z.shape
        n = self.sizes["n"]
        qkv = self.linear(z, level, "in_proj.weight", "in_proj.bias").view(nodes * B, rows // B, 3, n, D // n)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        out = functional.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        out = self.linear(out.transpose(1, 2).reshape(nodes, rows, D), level, "out_proj.weight", "out_proj.bias")
        h = self.norm(z + self.drop(out), level, "ln1")
        inner = self.drop(functional.gelu(self.linear(h, level, "W1", "b1")))
        return self.norm(h + self.drop(self.linear(inner, level, "W2", "b2")), level, "ln2")

    def loss(self, batch):
        return self.loss_of(*draw(batch))

    def loss_of(self, x, y):
        B, S = x.shape
        D = self.sizes["D"]
        h = (functional.embedding(x, self.p["Emb"]) + self.p["pos"][:S]).view(1, B * S, D)
        for level in range(self.sizes["depth"]):
            nodes = self.sizes["branching"] ** level
            h = self.level(h.repeat_interleave(nodes // len(h), 0) if nodes > len(h) else h, level, B)
        h = transformer.norm(h.mean(0), self.p, "ln_out")
        logits = functional.linear(h, self.p["Wo"], self.p["bo"]).view(B, S, -1)[:, :-1]
        return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), y[:, 1:].reshape(-1))

    def compile(self, mode):
        self.loss_of = torch.compile(self.loss_of, dynamic=False, mode=mode)

    def select(self):
        levels = range(self.sizes["depth"])
        grads = [[self.p[f"{level}.{name}"].grad for name in transformer.NAMES] for level in levels]
        scores = torch.cat([sum(torch.linalg.vector_norm(g.flatten(1), dim=1) for g in level) for level in grads])
        kept = torch.zeros_like(scores).scatter_(0, torch.topk(scores, self.sizes["top_k"]).indices, 1.0)
        for level, mask in zip(grads, kept.split([len(level[0]) for level in grads])):
            for g in level:
                g.mul_(mask.view(-1, *[1] * (g.dim() - 1)))


FORMS = dict(before=Before, after=After, plain=Plain)
