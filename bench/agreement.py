#!/usr/bin/env python3
"""Trains a net over slaves of several kinds and on this machine alone, with the same seed, and compares the final
weights.

    bench/agreement.py [--net NET] [--data FOLDER] [--slaves cpu,opencl:0,aarch64] [--shares 10,9,1] [--beside eigen]

A slave is a device of this machine, or aarch64: the cross-built slave (docs/phones.md) under qemu-user. --beside trains
a second time on this machine alone, with that device, whose kernels sum in another order; slaves do not cause the
difference of that run. For each tensor the program prints the largest difference divided by the largest weight.

Tolerance: the gradients of a step are sums of up to n products, whose rounding errors add up to about sqrt(n) * 2^-24;
the errors of independent steps grow with the square root of their number. The tolerance does not apply to nets with
ReLU, clip, hard sigmoid or max pooling, because a rounding error that switches one of them changes all later steps, on
one machine as on several. The exit code is 1 where a net without them exceeds the tolerance, and 0 otherwise."""

import argparse
import array
import json
import math
import pathlib
import re
import sys
import tempfile

from local_run import free_port, run_with_slaves

ROOT = pathlib.Path(__file__).resolve().parent.parent
JUMPS = ("relu", "leaky_relu", "relu6", "clip", "hard_sigmoid", "max_pool")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", default=ROOT / "nets/lenet-tanh.yaml")
    parser.add_argument("--data", default="glyphs", help="data, as for convoy-master train (default: glyphs)")
    parser.add_argument("--slaves", default="cpu,opencl:0,aarch64", help="devices, separated by commas; each becomes a slave")
    parser.add_argument("--shares", help="fixed shares in the order of the slaves (default: by measured speed)")
    parser.add_argument("--beside", default="eigen", help="device of a second run on this machine alone, or none")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bin", help="folder of the programs")
    parser.add_argument("more", nargs="*", metavar="-- OPTIONS", help="options of convoy-master train, such as --epochs 2")
    return parser.parse_args()


def slave_command(options, number, device, address):
    program, computes = [options.programs / "convoy-slave"], device
    if device == "aarch64":
        built, sysroot = ROOT / "build/aarch64/bin/convoy-slave", ROOT / "build/aarch64-sysroot"
        if not built.exists():
            sys.exit("agreement.py: the slave for aarch64 is not built; build it with scripts/sysroot and scripts/build aarch64, "
                     "or leave it out of --slaves")
        program, computes = ["qemu-aarch64", "-L", sysroot, built], "cpu"
    return [*program, address, "--insecure", "--cache", "none", "--once", "--name", f"{number}-{device}", "--device", computes,
            "--threads", "1"]


def train(options, folder, name, device, slaves=()):
    """Trains, prints the test accuracy, and returns the run's folder."""
    address = f"tcp://127.0.0.1:{free_port()}"
    out = pathlib.Path(folder) / name.replace(":", "-")
    command = [options.programs / "convoy-master", "train", options.net, "--data", options.data, "--threads", "1", "--device",
               device, "--out", out, *options.more]
    if slaves:
        command += ["--slaves", len(slaves), "--listen", address, "--insecure"]
        command += ["--shares", options.shares] if options.shares else []
    run = run_with_slaves(command, [slave_command(options, *numbered, address) for numbered in enumerate(slaves)], folder)
    if run.returncode != 0:
        sys.exit(f"agreement.py: {name} failed: {run.stderr.strip() or run.stdout.strip()[-500:]}")
    shares = re.findall(r"^ +(\S+) +([0-9.]+) % of the work", run.stdout, re.MULTILINE)
    tests = re.findall(r"test accuracy ([0-9.]+ %)", run.stdout)
    print(f"{name}: test accuracy {tests[-1] if tests else 'not measured'}"
          + (f"; {', '.join(f'{who} {share} %' for who, share in shares[:len(slaves)])} of the work" if slaves else ""),
          flush=True)
    return out


def weights(run):
    """Returns the run's weights as {name: values}."""
    content = (run / "weights.safetensors").read_bytes()
    size = int.from_bytes(content[:8], "little")
    tensors = {}
    for name, entry in json.loads(content[8:8 + size]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            tensors[name] = array.array("f", content[8 + size + first:8 + size + last])
    return tensors


def differences(run, other):
    """Returns {name: largest difference / largest weight}."""
    a, b = weights(run), weights(other)
    return {name: max(abs(x - y) for x, y in zip(a[name], b[name])) / max(map(abs, a[name])) for name in a}


def facts(run):
    """Returns the run's tolerance, its number of steps, and whether its net has ReLU or max pooling."""
    text = (run / "config.yaml").read_text()
    batch, height, width = (int(re.search(rf"\b{field}: (\d+)", text).group(1)) for field in ("batch", "height", "width"))
    steps = (run / "events.jsonl").read_text().count('"event":"step"')
    tolerance = math.sqrt(steps * batch * height * width) * 2.0**-24
    return tolerance, steps, any(re.search(rf"type: {kind}\b", text) for kind in JUMPS)


def main():
    options = parse_arguments()
    slaves = options.slaves.split(",")
    with tempfile.TemporaryDirectory() as folder:
        alone = train(options, folder, "cpu alone", "cpu")
        columns = {"over slaves": differences(alone, train(options, folder, "over slaves", "cpu", slaves))}
        if options.beside != "none":
            columns[f"{options.beside} alone"] = differences(alone, train(options, folder, f"{options.beside} alone",
                                                                          options.beside))
        tolerance, steps, jumps = facts(alone)
    print(f"\nlargest difference from cpu alone / largest weight, after {steps} steps\n{'':<16}"
          + "".join(f"{name:>16}" for name in columns))
    for name in columns["over slaves"]:
        print(f"{name:<16}" + "".join(f"{column[name]:>16.1e}" for column in columns.values()))
    worst = max(columns["over slaves"].values())
    if jumps:
        print(f"at most {worst:.1e} over slaves; the tolerance of {tolerance:.1e} does not apply to nets with ReLU or max "
              "pooling")
        return 0
    print(f"at most {worst:.1e} over slaves, tolerance {tolerance:.1e}: " + ("agrees" if worst <= tolerance else "DIFFERS"))
    return 0 if worst <= tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
