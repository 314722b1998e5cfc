#!/usr/bin/env python3
"""One rank of PyTorch's DistributedDataParallel over gloo: it trains a net file on random images, all on one thread, and
prints a JSON line for each step with its seconds. compare_ddp.py starts one on each machine.

With --paced it computes nothing: each convolution and each dense layer takes the time of its floating-point operations at
the given speed, and gradients of zeros become ready layer by layer during the backward pass, so that DDP's reducer sends
what it would send. Batch norms, activations, pooling and the update take no time. A layer's passes are those that
Convoy's paced devices count: forward, gradient of the weights and, but for the first convolution, gradient of the input.

The script needs torch and PyYAML."""
import argparse
import datetime
import json
import os
import sys
import time

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # emulated machines have no names, of which torch warns

import torch
import torch.distributed as distributed
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

import torch_net

HOOKS = {"fp16": default_hooks.fp16_compress_hook, "bf16": default_hooks.bf16_compress_hook}
PATIENCE = datetime.timedelta(minutes=5)  # after which a rank gives the others up
FORMATS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}


class Pacer:
    """Lets modelled time pass. Work of the program between two passes counts as part of the passes, as in a paced device of
    Convoy, from begin() on."""

    def __init__(self):
        self.until = 0.0

    def begin(self):
        self.until = time.monotonic()

    def spend(self, seconds):
        self.until += seconds
        time.sleep(max(0.0, self.until - time.monotonic()))


class PacedLayer(torch.autograd.Function):
    """A layer that computes nothing. Its forward and backward pass take the given seconds, and the gradients of its parameters are
    zeros, which autograd passes on when the backward pass is over."""

    @staticmethod
    def forward(context, before, pacer, seconds, *parameters):
        context.pacer, context.seconds = pacer, seconds[1]
        context.shapes = [parameter.shape for parameter in parameters]
        pacer.spend(seconds[0])
        return before.clone()

    @staticmethod
    def backward(context, gradient):
        context.pacer.spend(context.seconds)
        return (gradient, None, None, *(torch.zeros(shape) for shape in context.shapes))


class PacedNet(torch_net.Net):
    """A net that takes the time of computing `batch` images at a speed in GFLOP/s. Its layers follow one another in the order of
    the file."""

    def __init__(self, net, batch, gflops):
        super().__init__(net)
        self.pacer = Pacer()
        first = next(layer["name"] for layer in self.layers if layer["type"] in ("conv", "dense"))
        self.seconds = {name: self.passes(name, batch, 1e9 * gflops, name != first) for name in self.steps}

    def passes(self, name, batch, flops_a_second, input_gradient):
        """Returns the seconds of the layer's forward and backward pass."""
        weights = next((each for each in self.steps[name].parameters() if each.dim() > 1), None)
        if weights is None:
            return 0.0, 0.0
        _, height, width = self.shapes[name]
        forward = 2.0 * batch * weights.numel() * height * width / flops_a_second
        return forward, forward * (2 if input_gradient else 1)

    def forward(self, images):
        self.pacer.begin()  # DDP has sent the buffers of batch norms by now, and waiting for them is no part of a pass
        value = torch.zeros(1, requires_grad=True)
        for name, step in self.steps.items():
            value = PacedLayer.apply(value, self.pacer, self.seconds[name], *step.parameters())
        return value

    def loss(self, outputs, _labels):
        return outputs.sum(), outputs


class Rank:
    """A model with its data, which steps by itself or, with several ranks, under DDP with its default settings."""

    def __init__(self, options, net):
        self.paced = options.paced > 0.0
        self.module = PacedNet(net, options.batch, options.paced) if self.paced else torch_net.Net(net)
        shape = (options.batch, net["input"]["channels"], net["input"]["height"], net["input"]["width"])
        memory_format = FORMATS["NCHW" if self.paced else options.memory_format]
        self.images = torch.zeros(1) if self.paced else torch.randn(shape).contiguous(memory_format=memory_format)
        self.labels = torch.randint(0, self.module.classes, (options.batch,))
        self.model = self.module.to(memory_format=memory_format)
        if options.ranks > 1:
            self.model = torch.nn.parallel.DistributedDataParallel(self.module)
            if options.wire in HOOKS:
                self.model.register_comm_hook(None, HOOKS[options.wire])
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=1e-4, momentum=0.9)

    def step(self):
        """Trains on a batch and returns the seconds."""
        start = time.monotonic()
        self.optimizer.zero_grad(set_to_none=True)
        self.module.loss(self.model(self.images), self.labels)[0].backward()
        if not self.paced:
            self.optimizer.step()
        return time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", required=True, help="net file")
    parser.add_argument("--set", action="append", default=[], help="override of the net file, as for convoy-master train")
    parser.add_argument("--batch", type=int, required=True, help="images of a step on this rank")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--paced", type=float, default=0.0, metavar="GFLOPS", help="take the time of a machine of this speed, and "
                        "compute nothing")
    parser.add_argument("--memory-format", choices=sorted(FORMATS), default="NHWC")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--wire", choices=["fp32", *sorted(HOOKS)], default="fp32", help="number type of the gradients that travel")
    parser.add_argument("--address", default="", help="address of rank 0, as HOST:PORT")
    parser.add_argument("--interface", default="", help="network interface that gloo uses")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if options.ranks > 1:
        os.environ["GLOO_SOCKET_IFNAME"] = options.interface
        distributed.init_process_group("gloo", init_method=f"tcp://{options.address}", rank=options.rank,
                                       world_size=options.ranks, timeout=PATIENCE)
    rank = Rank(options, torch_net.read_net(options.net, options.set))
    for _ in range(options.steps):
        print(json.dumps({"seconds": rank.step()}), flush=True)
    if options.ranks > 1:
        distributed.barrier()
        distributed.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
