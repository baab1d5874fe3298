"""tinygrad as a peer of `tuff bench gpt`: the same GPT and training step, as a user of tinygrad writes it, through its
OpenCL backend (TUFF_PEER_DEVICE names another, such as CPU). Called by bench/compare --tinygrad."""

import math
import os
import re

# tinygrad reads both variables when it is imported.
DEVICE = os.environ["DEV"] = os.environ.get("TUFF_PEER_DEVICE", "CL")
os.environ["TRAINING"] = "1"

from tinygrad import Tensor, TinyJit, nn  # noqa: E402

import peer  # noqa: E402


class Block:
    def __init__(self, width, heads):
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def __call__(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).reshape(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = parts[0].scaled_dot_product_attention(parts[1], parts[2], is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(self.up(self.norm2(x)).gelu())


class Gpt:
    def __init__(self, layers, heads, width, context, vocabulary=256):
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = [Block(width, heads) for _ in range(layers)]
        self.norm = nn.LayerNorm(width)
        for name, parameter in nn.state.get_state_dict(self).items():
            if len(parameter.shape) >= 2:
                scaled = name.endswith(("out.weight", "down.weight"))
                deviation = 0.02 / math.sqrt(2 * layers) if scaled else 0.02
                parameter.assign(Tensor.normal(*parameter.shape, std=deviation)).realize()

    def loss(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(Tensor.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.tokens.weight.T
        return logits.reshape(-1, logits.shape[-1]).sparse_categorical_crossentropy(targets.reshape(-1))


def gpt_step(layers, heads, width, length, batch):
    model = Gpt(layers, heads, width, length)
    parameters = nn.state.get_parameters(model)
    shared = dict(lr=1e-3, b1=0.9, b2=0.95, eps=1e-8)
    matrices = nn.optim.AdamW([p for p in parameters if len(p.shape) >= 2], weight_decay=0.1, **shared)
    vectors = nn.optim.AdamW([p for p in parameters if len(p.shape) < 2], weight_decay=0.0, **shared)
    rule = nn.optim.OptimizerGroup(matrices, vectors)
    windows = Tensor(peer.indices(5, 256, batch, length + 1)).realize()

    @TinyJit
    def step(windows):
        rule.zero_grad()
        loss = model.loss(windows[:, :-1], windows[:, 1:])
        loss.backward()
        # One kernel per sum: OpenCL drivers fail to link the kernel that tinygrad would make of all of them.
        norm = sum((p.grad.square().sum().contiguous() for p in rule.params), Tensor(0.0)).sqrt()
        factor = (1.0 / (norm + 1e-6)).minimum(1.0)
        for p in rule.params:
            p.grad = p.grad * factor
        return loss.realize(*rule.schedule_step())

    # The third call is the first one that replays the recording.
    for _ in range(3):
        step(windows).item()
    return lambda: step(windows).item()


def ways_of(suite, work):
    if suite != "gpt" or work.endswith(("f16", "bf16")):
        return []
    layers, heads, width, length, batch = (
        int(re.search(pattern, work).group(1)) for pattern in (r"(\d+)x", r"H(\d+)", r"x(\d+)", r"T(\d+)", r"B(\d+)")
    )
    return [(f"tinygrad, {DEVICE}", gpt_step(layers, heads, width, length, batch))]


if __name__ == "__main__":
    peer.serve(ways_of)
