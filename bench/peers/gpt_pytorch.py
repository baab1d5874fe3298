"""The model and the training of `tuff train` in PyTorch, as a user of PyTorch would write them: a byte-level GPT-2 with
pre-norm blocks, learned positions, tied embeddings and GELU (tanh), AdamW (.9, .95, decay 0.1 on matrices), gradients
clipped at norm 1, warm-up and cosine, random windows of a text. Prints tokens per second as one line of JSON."""

import argparse
import json
import math
import time

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = (p.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for p in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, heads, width, context, vocabulary=256):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                scaled = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if scaled else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.tokens.weight.T
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def rate(step, options):
    warmup = max(1, min(100, options.steps // 10))
    if step < warmup:
        return options.learning_rate * (step + 1) / warmup
    part = (step - warmup) / max(1, options.steps - warmup)
    return options.learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * part)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    for name, default in dict(layers=4, heads=4, width=128, context=128, batch=8, steps=60, seed=1, skip=10).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--threads", type=int, default=0, help="0: PyTorch's choice")
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    options = parser.parse_args()
    if options.steps <= options.skip:
        parser.error("--steps must be more than --skip")
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    with open(options.data, "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()

    model = Gpt(options.layers, options.heads, options.width, options.context)
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [dict(params=matrices, weight_decay=0.1), dict(params=vectors, weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=options.learning_rate, betas=(0.9, 0.95))
    forward = torch.compile(model) if options.compile else model

    seconds = []
    for step in range(options.steps):
        begin = time.perf_counter()
        starts = torch.randint(len(text) - options.context - 1, (options.batch,))
        window = torch.stack([text[s : s + options.context + 1] for s in starts.tolist()])
        for group in optimizer.param_groups:
            group["lr"] = rate(step, options)
        loss = forward(window[:, :-1], window[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds.append(time.perf_counter() - begin)

    timed = seconds[options.skip :]
    tokens = options.batch * options.context
    print(json.dumps({
        "framework": "pytorch " + torch.__version__,
        "threads": torch.get_num_threads(),
        "tokens_per_second": round(tokens * len(timed) / sum(timed), 1),
        "best_tokens_per_second": round(tokens / min(timed), 1),
        "loss": round(loss.item(), 4),
    }))


if __name__ == "__main__":
    main()
