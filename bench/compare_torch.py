#!/usr/bin/env python3
"""Trains the same net with Convoy and with PyTorch on this machine and prints the ratio of their speeds.

    bench/compare_torch.py [--net NET]... [--threads N]... [--device cuda:0] [--rounds N] [--programs FOLDER]

Both run whole training steps (forward, loss, backward, SGD with momentum) on random images with the same number of
threads. They take turns of a few steps, round after round, so that a machine that slows down affects both. PyTorch runs
in each of its memory formats, and the faster one counts. With --device cuda:0 both use that GPU, in 32-bit floats,
whose factors --tf32 lets both round. The script needs torch (Debian: python3-torch), PyYAML (python3-yaml) and a built convoy-bench."""

import argparse
import csv
import io
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--net", action="append", help="net file (default: the 50:500 and the 500:1500 net)")
    parser.add_argument("--set", action="append", default=[], metavar="LAYER.FIELD=VALUE", help="as for convoy-master train")
    parser.add_argument("--threads", type=int, action="append", help="threads (default: 1 and 2)")
    parser.add_argument("--device", default="cpu", help="Convoy's device; PyTorch uses the same GPU (default: cpu)")
    parser.add_argument("--tf32", action="store_true", help="let both round factors to 10 bits of mantissa on a GPU")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="least steps of each in a round; a round takes at least half a "
                        "second")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--programs", default=ROOT / "build/release/bin", help="folder that holds convoy-bench")
    options = parser.parse_args()
    options.net = options.net or [ROOT / "nets/cifar10-50-500.yaml", ROOT / "nets/cifar10-500-1500.yaml"]
    options.threads = options.threads or ([1, 2] if options.device == "cpu" else [1])
    return options


class Torch:
    def __init__(self, net, memory_format, batch, device, torch, torch_net):
        self.wait = torch.cuda.synchronize if device != "cpu" else lambda: None
        self.model = torch_net.Net(net).to(device=device, memory_format=memory_format)
        shape = (batch, net["input"]["channels"], net["input"]["height"], net["input"]["width"])
        self.images = torch.randn(shape, device=device).contiguous(memory_format=memory_format)
        self.labels = torch.randint(0, self.model.classes, (batch,), device=device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4, momentum=0.9)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.model.loss(self.model(self.images), self.labels)[0].backward()
        self.optimizer.step()

    def rate(self, steps):
        """Returns the images/s of the median step. The first step warms the caches after the other program's turn and
        does not count."""
        self.step()
        self.wait()
        seconds = []
        for _ in range(steps):
            start = time.perf_counter()
            self.step()
            self.wait()
            seconds.append(time.perf_counter() - start)
        return len(self.labels) / statistics.median(seconds)


def torch_device(name, tf32, torch):
    """Returns PyTorch's device for Convoy's device `name`, and makes it compute in the same precision."""
    kind, _, number = name.partition(":")
    if kind in ("cpu", "eigen"):
        return "cpu"
    if kind not in ("cuda", "cublas"):
        sys.exit(f"compare_torch: PyTorch has no device like {name}; use cpu, eigen, cuda:N or cublas:N")
    if not torch.cuda.is_available():
        print(f"skipped: PyTorch sees no GPU for {name}")
        sys.exit(0)
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    return f"cuda:{number or 0}"


def convoy_rate(options, net, threads, steps):
    command = [pathlib.Path(options.programs) / "convoy-bench", "train", "--net", net, "--threads", str(threads),
               "--device", options.device, "--batch", str(options.batch), "--repeats", str(steps), "--no-bare",
               "--format", "csv"]
    if options.tf32:
        command.append("--tf32")
    for override in options.set:
        command += ["--set", override]
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
    return float(next(csv.DictReader(io.StringIO(run.stdout)))["images_s"])


def main():
    options = parse_arguments()
    try:
        import torch
        import torch_net
    except ImportError as error:
        sys.exit(f"compare_torch: {error.name} is not installed; on Debian: apt-get install python3-torch python3-yaml")
    rival_device = torch_device(options.device, options.tf32, torch)
    formats = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}
    print(f"batch {options.batch}, torch {torch.__version__}, {options.rounds} rounds of {options.steps} steps")
    print(f"{'net':<20} {'threads':>7} {'Convoy':>8} {'NCHW':>8} {'NHWC':>8} images/s   Convoy / the faster (low to high)")
    for file in options.net:
        net = torch_net.read_net(file, options.set)
        for threads in options.threads:
            torch.set_num_threads(threads)
            rivals = {name: Torch(net, value, options.batch, rival_device, torch, torch_net) for name, value in formats.items()}
            rates = {name: [] for name in ("Convoy", *formats)}
            # Turns of a few milliseconds would measure how threads and caches warm up after the other program's turn.
            steps = max(options.steps, min(10000, round(0.5 * convoy_rate(options, file, threads, 3) / options.batch)))
            for _ in range(options.rounds):
                rates["Convoy"].append(convoy_rate(options, file, threads, steps))
                for name, rival in rivals.items():
                    rates[name].append(rival.rate(steps))
            faster = max(formats, key=lambda name: statistics.median(rates[name]))
            ratios = sorted(ours / theirs for ours, theirs in zip(rates["Convoy"], rates[faster]))
            medians = [statistics.median(rates[name]) for name in rates]
            print(f"{net['name']:<20} {threads:>7} {medians[0]:>8.1f} {medians[1]:>8.1f} {medians[2]:>8.1f}            "
                  f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)


if __name__ == "__main__":
    main()
