"""Shared code of the training programs in PyTorch. A workload is a module with

    SIZES       the numbers of the small configuration, named as in golden files and in the examples' --help
    OPTIMIZER   lr, betas, eps, weight_decay of AdamW; clip is 1
    parameters(sizes, generator)       initial parameters by name
    batches(sizes, count, generator)   count batches, each a dict
    golden(file, sizes)                the batch of a golden file
    FORMS       by name: "before" and "after" are the published programs; "plain" is the best plain form: PyTorch's own
                fused ops, everything on the device, the mathematics of "before"; "less", for workloads that have such
                work, leaves out work whose result nobody reads, as tuff's optimized form does

A form is a subclass of Form, rewritten from the formulas with the inefficiencies that the write-ups name."""

import json
import math
import signal
import struct
import time

import torch


class Form:
    fused = False  # AdamW as one kernel
    reads_loss = False  # on the host, in every step
    compiles = True  # False if there is no graph, because the host reads values within the loss, or one of 10,000 nodes

    def __init__(self, sizes, parameters, dropout):
        self.sizes, self.dropout = sizes, dropout
        self.p = self.own(parameters)
        self.trained = [value for value in self.p.values() if value.requires_grad]

    def own(self, parameters):
        """Returns the parameters of the form, made from those of the workload."""
        return {name: torch.nn.Parameter(value.clone()) for name, value in parameters.items()}

    def loss(self, batch):
        raise NotImplementedError

    def compile(self, mode):
        self.loss = torch.compile(self.loss, dynamic=False, mode=mode)

    def select(self):
        """Called between clipping and the optimizer."""

    def drop(self, x):
        return torch.nn.functional.dropout(x, self.dropout) if self.dropout > 0 else x


def uniform(generator, bound, *shape):
    return (torch.rand(*shape, generator=generator) * 2 - 1) * bound


def normal(generator, deviation, *shape):
    return torch.randn(*shape, generator=generator) * deviation


def linear_parameters(made, generator, name, inputs, outputs):
    """Adds the parameters of a linear layer: weights [out, in] within Xavier's bound, and a bias of zeros."""
    made[name + ".weight"] = uniform(generator, math.sqrt(6 / (inputs + outputs)), outputs, inputs)
    made[name + ".bias"] = torch.zeros(outputs)


class TooSlow(Exception):
    pass


def within(seconds, work):
    """Stops work that takes more processor time, such as the compilation of a graph with thousands of nodes. The alarm
    goes off repeatedly, because compilers catch exceptions that are raised within them."""

    def late(*_):
        raise TooSlow(f"compilation took more than {seconds} s of processor time")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1)
    try:
        work()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def moved(value, device):
    """Moves the tensors of a batch or of parameters to a device."""
    if torch.is_tensor(value):
        return value.to(device)
    if isinstance(value, dict):
        return {name: moved(one, device) for name, one in value.items()}
    return type(value)(moved(one, device) for one in value) if isinstance(value, (list, tuple)) else value


class Training:
    """Runs steps of a form. PyTorch on the CPU computes synchronously, so clocks can separate the phases of a step. On a
    GPU only whole steps are timed, because waiting between the phases would slow them down."""

    def __init__(self, workload, name, sizes, batch, compiled, compile_limit, dropout=0.1):
        device = torch.get_default_device()
        self.on_gpu = device.type != "cpu"
        torch.manual_seed(1)
        with torch.device("cpu"):  # the same numbers on every device
            generator = torch.Generator().manual_seed(1)
            parameters = workload.parameters(sizes, generator)
            self.batches = workload.batches(dict(sizes, B=batch), 8, generator)
        self.batches = moved(self.batches, device)
        self.form = workload.FORMS[name](sizes, moved(parameters, device), dropout)
        self.rule = torch.optim.AdamW(self.form.trained, fused=self.form.fused, **workload.OPTIMIZER)
        self.count = 0
        if compiled:
            self.form.compile("reduce-overhead" if self.on_gpu else None)
            within(compile_limit, lambda: [self.step() for _ in range(2)])
        else:
            self.step()

    def step(self, phases=None):
        clock = [time.perf_counter()]
        batch = self.batches[self.count % len(self.batches)]
        self.count += 1
        loss = self.form.loss(batch)
        clock.append(time.perf_counter())
        loss.backward()
        clock.append(time.perf_counter())
        torch.nn.utils.clip_grad_norm_(self.form.trained, 1.0)
        self.form.select()
        self.rule.step()
        self.rule.zero_grad(set_to_none=True)
        if self.form.reads_loss:
            loss.item()
        clock.append(time.perf_counter())
        if phases is not None:
            for i in range(3):
                phases[i] += clock[i + 1] - clock[i]

    def steps(self, count):
        phases = [0.0, 0.0, 0.0]
        processor, begin = time.process_time(), time.perf_counter()
        for _ in range(count):
            self.step(phases)
        if self.on_gpu:
            torch.cuda.synchronize()
            phases = [math.nan] * 3
        seconds, processor = time.perf_counter() - begin, time.process_time() - processor
        return dict(seconds=seconds, processor=processor, forward=phases[0], backward=phases[1], optimizer=phases[2])


class Golden:
    """A safetensors file: f32, i32 and u8 tensors, and metadata."""

    types = dict(F32=torch.float32, I32=torch.int32, U8=torch.uint8)

    def __init__(self, path):
        with open(path, "rb") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            self.header = json.loads(file.read(size))
            self.data = bytearray(file.read())
        self.metadata = self.header.pop("__metadata__", {})

    def __getitem__(self, name):
        entry = self.header[name]
        begin, end = entry["data_offsets"]
        values = torch.frombuffer(self.data[begin:end], dtype=self.types[entry["dtype"]]).clone()
        return values.reshape(entry["shape"])

    def parameters(self):
        return {name[6:]: self[name] for name in self.header if name.startswith("param.")}

    def sizes(self, names):
        return {name: type(value)(float(self.metadata[name])) if name in self.metadata else value
                for name, value in names.items()}


def verify(workload, path):
    """Prints the relative deviation of each form's loss and gradient norm from a golden file. "after" need not be the
    same function."""
    file = Golden(path)
    sizes = file.sizes(workload.SIZES)
    batch = workload.golden(file, sizes)
    for name, kind in workload.FORMS.items():
        form = kind(sizes, file.parameters(), 0.0)
        loss = form.loss(batch)
        loss.backward()
        norm = torch.sqrt(sum((value.grad**2).sum() for value in form.trained if value.grad is not None))
        wanted, wanted_norm = file["out.loss"].item(), file["grad_norm"].item()
        print(f"{name}: loss {loss.item():.7g} of {wanted:.7g} ({abs(loss.item() / wanted - 1):.1e}),"
              f" norm of gradients {norm.item():.7g} of {wanted_norm:.7g} ({abs(norm.item() / wanted_norm - 1):.1e})")
