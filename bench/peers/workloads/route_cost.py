"""A vehicle-routing policy trained by REINFORCE with a greedy rollout as the baseline (examples/route_cost.c)."""

import math

import torch
from torch.nn import functional

from workload import Form, linear_parameters, normal

SIZES = dict(B=16, N=10, Q=30, H=64, h=4, L=2, f=2, temperature=2.5, entropy_coef=0.03)
OPTIMIZER = dict(lr=1e-4, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-4)
BINS = 50


def parameters(sizes, generator):
    H, h, f, made = sizes["H"], sizes["h"], sizes["f"], {}

    def one(names, inputs, outputs):
        for name in names.split():
            linear_parameters(made, generator, name, inputs, outputs)

    one("coord.lin1", 2, H // 2), one("coord.lin2", H // 2, H // 2), one("node.lin", 3, H)
    one("demand.lin1 state.visited1 state.capacity1", 1, H // 4), one("demand.lin2", H // 4, H // 4)
    one("pointer.p1", H, H // 2), one("pointer.p2", H // 2, h), one("state.visited2 state.capacity2", H // 4, H // 2)
    one("feature combine", 3 * H // 2, H), one("state.lin1 update.gate1 update.delta1", 2 * H, H)
    one("state.current state.lin2 update.gate2 update.delta2 pointer.q pointer.k pointer.v", H, H)
    norms = ["node.ln", "state.ln", "update.ln"]
    for i in range(sizes["L"]):
        one(f"layers.{i}.q layers.{i}.k layers.{i}.v layers.{i}.out", H, H)
        one(f"layers.{i}.ff1", H, 2 * f * H), one(f"layers.{i}.ff2", f * H, H)
        made[f"layers.{i}.table"], made[f"layers.{i}.head_bias"] = normal(generator, 0.02, BINS, h), torch.zeros(h)
        norms += [f"layers.{i}.ln1", f"layers.{i}.ln2"]
    for name in norms:
        made[name + ".gain"], made[name + ".bias"] = torch.ones(H), torch.zeros(H)
    made["depot"], made["pointer.tau"] = normal(generator, 1, H // 4), torch.ones(h)
    return made


def distances(coords):
    return (coords[:, :, None] - coords[:, None]).square().sum(-1).sqrt()


def batches(sizes, count, generator):
    B, n, made = sizes["B"], sizes["N"] + 1, []
    for _ in range(count):
        demand = torch.randint(1, 11, (B, n), generator=generator)
        demand[:, 0] = 0
        coords = torch.randint(101, (B, n, 2), generator=generator) / 100
        made.append(dict(coords=coords, demand=demand.float(), capacity=torch.full((B,), float(sizes["Q"])), actions=None))
    return made


def golden(file, sizes):
    sizes["temperature"], sizes["entropy_coef"] = (float(file.metadata[k]) for k in ("temperature", "entropy_coef"))
    return dict(coords=file["input.coords"], demand=file["input.demand"].float(), capacity=file["input.capacity"].float(),
                actions=file["input.actions"].long())


class Policy(Form):
    """The network that all forms share."""

    def own(self, parameters):
        made = super().own(parameters)
        self.frozen = {name: value.detach().clone() for name, value in made.items()}
        self.greedy = False
        return made

    def weights(self):
        return self.frozen if self.greedy else self.p

    def drop(self, x):
        return x if self.greedy else super().drop(x)

    def lin(self, x, name):
        p = self.weights()
        return functional.linear(x, p[name + ".weight"], p[name + ".bias"])

    def norm(self, x, name):
        p = self.weights()
        return functional.layer_norm(x, [x.shape[-1]], p[name + ".gain"], p[name + ".bias"], 1e-5)

    def bias(self, i, bins):
        p = self.weights()
        return (functional.embedding(bins, p[f"layers.{i}.table"]) + p[f"layers.{i}.head_bias"]).permute(0, 3, 1, 2)

    def attention(self, i, u, bins):
        """Computes attention in separate steps, with scores in memory."""
        B, n, H = u.shape
        h = self.sizes["h"]
        q, k, v = (self.lin(u, f"layers.{i}.{name}").view(B, n, h, H // h).transpose(1, 2) for name in "qkv")
        scores = q @ k.mT / math.sqrt(H // h) + self.bias(i, bins)
        return (self.drop(scores.softmax(-1)) @ v).transpose(1, 2).reshape(B, n, H)

    def layer(self, i, x, bins):
        out = self.attention(i, self.norm(x, f"layers.{i}.ln1"), bins)
        x = x + self.drop(self.lin(out, f"layers.{i}.out"))
        inner = self.drop(functional.glu(self.lin(self.norm(x, f"layers.{i}.ln2"), f"layers.{i}.ff1"), -1))
        return x + self.drop(self.lin(inner, f"layers.{i}.ff2"))

    def positions(self, n, H, device):
        feature = torch.arange(H, device=device)
        angles = torch.arange(n, device=device)[:, None] * 10000 ** (-(feature // 2 * 2) / H)
        return torch.where(feature % 2 == 1, angles.cos(), angles.sin())

    def encode(self, batch, bins):
        coords, demand = batch["coords"], batch["demand"][..., None]
        B, n, _ = coords.shape
        e1 = self.drop(functional.relu(self.norm(self.lin(torch.cat([coords, demand], -1), "node.lin"), "node.ln")))
        e2 = self.lin(functional.relu(self.lin(demand, "demand.lin1")), "demand.lin2")
        depot = self.weights()["depot"]
        e3 = torch.cat([depot[None], depot.new_zeros(n - 1, len(depot))]).expand(B, -1, -1)
        e = self.lin(torch.cat([e1, e2, e3], -1), "feature") + self.positions(n, self.sizes["H"], coords.device)
        place = self.lin(functional.relu(self.lin(coords, "coord.lin1")), "coord.lin2")
        x = self.lin(torch.cat([e, place], -1), "combine")
        for i in range(self.sizes["L"]):
            x = self.layer(i, x, bins)
        return x

    def look(self, x, at, visited, load):
        """Returns the state s [B, H]; at is X[c] [B, H]."""
        v = self.lin(functional.relu(self.lin(visited[..., None].float(), "state.visited1")), "state.visited2").mean(1)
        cp = self.lin(functional.relu(self.lin(load[:, None], "state.capacity1")), "state.capacity2")
        seen = torch.cat([self.lin(at, "state.current"), v, cp], -1)
        return self.lin(functional.relu(self.norm(self.lin(seen, "state.lin1"), "state.ln")), "state.lin2")

    def update(self, x, s, visited, bins):
        u = torch.cat([x, s[:, None].expand(-1, x.shape[1], -1)], -1)
        g = torch.sigmoid(self.lin(functional.relu(self.lin(u, "update.gate1")), "update.gate2"))
        d = self.lin(functional.relu(self.norm(self.lin(u, "update.delta1"), "update.ln")), "update.delta2")
        x = x + g * d * (1 - 0.5 * visited[..., None].float())
        for i in range(min(2, self.sizes["L"])):
            x = self.layer(i, x, bins)
        return x

    def point(self, x, s, mask):
        """Returns masked logits [B, n]."""
        B, n, H = x.shape
        h = self.sizes["h"]
        q, k = self.lin(s, "pointer.q").view(B, 1, h, H // h), self.lin(x, "pointer.k").view(B, n, h, H // h)
        a = (q * k).sum(-1) / math.sqrt(H // h) / self.weights()["pointer.tau"]
        p = self.lin(functional.relu(self.lin(self.lin(x, "pointer.v"), "pointer.p1")), "pointer.p2")
        return (a + p).mean(-1).masked_fill(mask, -1e9)

    def network(self, x, at, visited, load, mask, bins, updates):
        """Returns X, the probabilities of a step and their logarithms."""
        s = self.look(x, at, visited, load)
        if updates:
            x = self.update(x, s, visited, bins)
        logits = self.point(x, s, mask)
        chances = functional.softmax(logits if self.greedy else logits / self.sizes["temperature"], -1)
        return x, logits, chances, torch.log(chances + 1e-10)

    def rollout(self, batch, dist, bins):
        """Returns cost, log-probability and entropy [B]."""
        raise NotImplementedError

    def loss(self, batch):
        dist = distances(batch["coords"])
        bins = (dist * 10).clamp(max=BINS - 1).long()
        cost, logp, entropy = self.rollout(batch, dist, bins)
        self.greedy = True
        with torch.no_grad():
            baseline = self.rollout(dict(batch, actions=None), dist, bins)[0] / self.sizes["N"]
        self.greedy = False
        raw = baseline - cost
        advantage = ((raw - raw.mean()) / (raw.std() + 1e-8)).detach()
        return -(advantage * logp).mean() - self.sizes["entropy_coef"] * entropy.mean()


class Before(Policy):
    """Keeps the state of each instance on the host, which reads every action, every test and every row of the mask;
    routes go back to the device one by one."""

    reads_loss = True
    compiles = False

    def mask_of(self, batch, visited, current, left):
        B, n = visited.shape
        mask = torch.zeros(B, n, dtype=torch.bool)
        for b in range(B):
            mask[b] = visited[b] | (batch["demand"][b] > left[b])
            if visited[b, 1:].all().item():
                if current[b] != 0:
                    mask[b] = True
                    mask[b, 0] = False
                else:
                    mask[b, 0] = False
            else:
                mask[b, 0] = current[b] == 0
        return mask

    def rollout(self, batch, dist, bins):
        B, n = batch["demand"].shape
        current, left = [0] * B, [value.item() for value in batch["capacity"]]
        visited = torch.zeros(B, n, dtype=torch.bool)
        routes, logps, entropies = [[0] for _ in range(B)], torch.zeros(B), torch.zeros(B)
        x = self.encode(batch, bins)
        for t in range(2 * n):
            done = [visited[b, 1:].all().item() and current[b] == 0 for b in range(B)]
            if all(done):
                break
            mask = self.mask_of(batch, visited, current, left)
            load = torch.tensor(left) / batch["capacity"]
            at = x[torch.arange(B), torch.tensor(current)]
            x, logits, chances, lp = self.network(x, at, visited, load, mask, bins, t > 0)
            if batch["actions"] is not None:
                actions = batch["actions"][:, t]
            else:
                actions = logits.argmax(-1) if self.greedy else torch.multinomial(chances.detach(), 1)[:, 0]
            open_ = torch.tensor([not one for one in done], dtype=torch.float32)
            logps = logps + lp.gather(1, actions[:, None])[:, 0] * open_
            entropies = entropies - (chances * lp).sum(-1) * open_
            visited = visited.clone()
            for b in range(B):
                if done[b]:
                    continue
                action = actions[b].item()
                routes[b].append(action)
                if action == 0:
                    left[b] = batch["capacity"][b].item()
                else:
                    visited[b, action] = True
                    left[b] -= batch["demand"][b, action].item()
                current[b] = action
        return self.cost(routes, dist), logps, entropies

    def cost(self, routes, dist):
        """Computes the cost inline: copies each instance's uploaded route into a padded tensor, then uses indices, a
        gather, a mask and a sum."""
        padded = torch.full((len(routes), max(map(len, routes))), -1, dtype=torch.long)
        for b, route in enumerate(routes):
            padded[b, : len(route)] = torch.tensor(route)
        start, end = padded[:, :-1], padded[:, 1:]
        valid = (start >= 0) & (end >= 0)
        row = torch.arange(len(routes))[:, None].expand_as(start)
        legs = dist[row, start.clamp(min=0), end.clamp(min=0)]
        return (legs * valid.float()).sum(1)


class After(Before):
    """Computes the cost by one function over all routes, made into one tensor; the loops over instances stay."""

    def cost(self, routes, dist):
        most = max(map(len, routes))
        padded = torch.tensor([route + [0] * (most - len(route)) for route in routes])
        index = padded[:, :-1] * dist.shape[1] + padded[:, 1:]
        return dist.flatten(1).gather(1, index).sum(1)


class Plain(Policy):
    """Computes all instances at once; the host reads one flag per decoding step, whether all are done. Queries, keys
    and values are one product, and the bias of distances is looked up once per layer and rollout."""

    fused = True

    def bias(self, i, bins):
        return bins[i]  # made by rollout

    def attention(self, i, u, bins):
        B, n, H = u.shape
        h, p = self.sizes["h"], self.weights()
        weight = torch.cat([p[f"layers.{i}.{name}.weight"] for name in "qkv"])
        shift = torch.cat([p[f"layers.{i}.{name}.bias"] for name in "qkv"])
        q, k, v = functional.linear(u, weight, shift).view(B, n, 3, h, H // h).permute(2, 0, 3, 1, 4)
        out = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=self.bias(i, bins), dropout_p=0.0 if self.greedy else self.dropout)
        return out.transpose(1, 2).reshape(B, n, H)

    def decode(self, x, demand, capacity, state, bins, given, updates):
        """Runs a decoding step; returns the next X and state, and the terms that the step adds to the sums."""
        visited, current, left = state
        B, n = demand.shape
        waiting = ~visited[:, 1:].all(1)
        mask = visited | (demand > left[:, None])
        mask = torch.cat([((current == 0) & waiting)[:, None], mask[:, 1:]], 1)
        at = x.gather(1, current[:, None, None].expand(-1, 1, x.shape[2]))[:, 0]
        x, logits, chances, lp = self.network(x, at, visited, left / capacity, mask, bins, updates)
        if given is not None:
            action = given
        elif self.greedy:
            action = logits.argmax(-1)
        else:
            action = torch.multinomial(chances.detach(), 1)[:, 0]
        open_ = (waiting | (current != 0)).float()
        logp = lp.gather(1, action[:, None])[:, 0] * open_
        entropy = -(chances * lp).sum(-1) * open_
        here = (torch.arange(n, device=action.device) == action[:, None]) & (action > 0)[:, None]
        visited = visited | here
        left = torch.where(action == 0, capacity, left - (demand * here).sum(1))
        done = (action == 0) & visited[:, 1:].all(1)
        return x, (visited, action, left), action, logp, entropy, done

    def begin(self, batch, bins):
        biases = [Policy.bias(self, i, bins) for i in range(self.sizes["L"])]
        return biases, self.encode(batch, biases)

    def rollout(self, batch, dist, bins):
        demand, capacity = batch["demand"], batch["capacity"]
        B, n = demand.shape
        biases, x = self.begin(batch, bins)
        state = torch.zeros(B, n, dtype=torch.bool), torch.zeros(B, dtype=torch.long), capacity
        route, logps, entropies = [torch.zeros(B, dtype=torch.long)], 0, 0
        for t in range(2 * (n - 1)):
            given = None if batch["actions"] is None or t >= batch["actions"].shape[1] else batch["actions"][:, t]
            x, state, action, logp, entropy, done = self.decode(x, demand, capacity, state, biases, given, t > 0)
            route.append(action)
            logps, entropies = logps + logp, entropies + entropy
            if done.all():
                break
        index = torch.stack(route, 1)
        cost = dist.flatten(1).gather(1, index[:, :-1] * n + index[:, 1:]).sum(1)
        return cost, logps, entropies

    def compile(self, mode):
        """Compiles the decoding step and the encoder, each as a graph; the host runs the loop between them. mode is
        ignored: the loop feeds a step's results to the next one, which CUDA graphs would overwrite."""
        self.decode = torch.compile(self.decode, dynamic=False)
        self.begin = torch.compile(self.begin, dynamic=False)


FORMS = dict(before=Before, after=After, plain=Plain)
