#!/usr/bin/env python3
"""Trains nets with two builds of Convoy in turns and prints the ratio of their speeds.

    bench/compare_builds.py OLD [NEW] [--nets FILE[:BATCH[:STEPS]] ...] [--rounds N] [--threads N]

OLD and NEW are folders with a convoy-bench, such as build/release/bin of two checkouts; NEW is this checkout's by default. In
each round both run whole training steps (`convoy-bench train --no-bare`) on the same net file, and the one that begins changes from
round to round. The first round warms the machine and does not count. The result is the median of the ratios of the rounds.
"""
import argparse
import csv
import io
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NETS = {  # batch and steps of a turn, which takes some seconds on two cores
    "glyphs": (64, 600), "lenet": (64, 400), "lenet-tanh": (64, 300), "small-mlp": (64, 3000), "medium-mlp": (64, 1000),
    "big-mlp": (64, 300), "resnet20": (128, 6), "cifar10-50-500": (64, 5), "cifar10-150-800": (32, 3),
    "cifar10-300-1000": (32, 2), "cifar10-500-1500": (16, 2), "squeezenet": (16, 4), "mobilenet": (16, 5), "googlenet": (16, 2), "alexnet": (16, 4),
    "resnet34": (16, 2), "resnet34-padded": (16, 2), "vgg16e": (8, 1)}


def net_of(text):
    """Returns the file, batch and steps of FILE[:BATCH[:STEPS]]."""
    file, *numbers = text.split(":")
    batch, steps = NETS.get(pathlib.Path(file).stem, (16, 3))
    try:
        numbers = [int(number) for number in numbers]
    except ValueError:
        numbers = [0]
    if len(numbers) > 2 or any(number < 1 for number in numbers):
        raise argparse.ArgumentTypeError(f"'{text}' is not FILE[:BATCH[:STEPS]] with whole numbers from 1 on")
    return (file, *(numbers + [batch, steps][len(numbers):]))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("old", type=pathlib.Path, help="folder with the convoy-bench to compare with")
    parser.add_argument("new", type=pathlib.Path, nargs="?", default=ROOT / "build/release/bin",
                        help="folder with the other convoy-bench (default: build/release/bin of this checkout)")
    parser.add_argument("--nets", type=net_of, nargs="+", metavar="FILE[:BATCH[:STEPS]]",
                        help="net files, with the images of a batch and the steps of a turn (default: all of nets/)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.nets = options.nets or [net_of(str(ROOT / f"nets/{name}.yaml")) for name in NETS]
    for folder in (options.old, options.new):
        if not (folder / "convoy-bench").is_file():
            parser.error(f"{folder} has no convoy-bench; build it with scripts/build, and give the folder of the programs")
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def rate(folder, net, threads):
    """Returns the images/s of the median step of one turn."""
    file, batch, steps = net
    run = subprocess.run([folder / "convoy-bench", "train", "--net", file, "--batch", str(batch), "--repeats", str(steps),
                          "--threads", str(threads), "--no-bare", "--format", "csv"], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"compare_builds: {folder}/convoy-bench failed with {file}: {run.stderr.strip()}")
    return float(next(csv.DictReader(io.StringIO(run.stdout)))["images_s"])


def main():
    options = parse_arguments()
    print(f"{'net':<18} {'batch':>5} {'old':>9} {'new':>9} images/s   new / old (low to high)")
    for net in options.nets:
        rates = []
        for turn in range(options.rounds + 1):
            order = (options.old, options.new) if turn % 2 else (options.new, options.old)
            turn_rates = {folder: rate(folder, net, options.threads) for folder in order}
            rates.append((turn_rates[options.old], turn_rates[options.new]))
        rates = rates[1:]
        ratios = sorted(new / old for old, new in rates)
        old, new = (statistics.median(each) for each in zip(*rates))
        name = pathlib.Path(net[0]).stem
        print(f"{name:<18} {net[1]:>5} {old:>9.1f} {new:>9.1f}            {statistics.median(ratios):.3f} "
              f"({ratios[0]:.3f} to {ratios[-1]:.3f})", flush=True)


if __name__ == "__main__":
    main()
