#!/usr/bin/env python3
"""What splitting filters makes of nets beside what data parallelism would: Slampa's table (2017), for this machine.

For each net, on an emulated LAN (see lan.py; needs root): tg, the time of one batch's gradient on one machine; tc, the time
that all weights take over one link (by `convoy-bench transport`); the speedups that his formulas give synchronous data
parallelism with those, the better of a central and a distributed server, whole batches ("join": the batch in effect is so
many times larger) and split ones; and that of Convoy with the same batch, measured, and simulated from the machines that a
run has timed.

usage: bench/data_parallel.py --data PHOTOS [options]      (after scripts/build)
"""
import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import lan
from emulated_lan import BIN, PORT, ROOT, Lan, sh, stop

NETS = "nets/vgg16e.yaml:8,nets/googlenet.yaml:16,nets/squeezenet.yaml:16,nets/resnet34.yaml:16"


def parameters_of(run):
    """Numbers in the weights that a run wrote."""
    with open(f"{run}/weights.safetensors", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return sum(math.prod(each["shape"]) for name, each in header.items() if name != "__metadata__")


def transfer_seconds(emulated, machines, count):
    """Of `count` floats from one machine to the other."""
    size = max(1, round(4 * count / 65536)) * 65536
    words = [BIN / "convoy-bench", "transport", "--tensors", size, "--frames", 65536, "--repeats", 1, "--format", "csv"]
    address = f"tcp://{machines[0]['address']}:{PORT + 10}"
    sender = emulated.start(machines[0], [*words, "--listen", address], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    running = [sender]
    try:
        sender.stderr.readline()  # it listens
        running.append(emulated.start(machines[1], [*words, "--connect", address], stdout=subprocess.DEVNULL))
        output = sender.communicate(timeout=600)[0]
    finally:
        stop(running)
    ours = re.search(r"^tensor,[0-9]+,[^,]*,([0-9.]+),", output, re.MULTILINE)
    if not ours:
        sys.exit(f"data_parallel.py: no transfer was timed; {output}")
    return 4 * count / 1e6 / float(ours.group(1))


def data_parallel(gradient, transfer, workers):
    """Speedups of synchronous data parallelism on whole and on split batches, each with the better server."""
    central = (3 * workers + 1) * transfer / 2  # the mean of the best and the worst case
    distributed = 2 * transfer * (workers - 1) / workers
    moved = min(central, distributed)
    return workers * gradient / (gradient + moved), gradient / (gradient / workers + moved)


def simulated(options, run, wire):
    """Seconds of a step by number of machines, all like those of the run."""
    words = [BIN / "convoy-bench", "simulate", "--net", ROOT / options.net, "--batch", options.batch, "--from-run", run,
             "--slaves", options.simulate, "--exchange", "auto", "--wire", wire, "--format", "csv"]
    rows = [line.split(",") for line in sh(*words).splitlines()[1:]]
    return {int(row[0]): float(row[2]) for row in rows}


def measure(options, folder):
    """The rows of a net."""
    most = max(options.counts)
    emulated = Lan(folder, 10000)
    try:
        busy = [emulated.add(f"busy{i}", options.share) for i in range(most)]
        gradient = lan.train_alone(options, emulated, folder, busy, options.steps)
        parameters = parameters_of(f"{folder}/busy0-alone")
        for machine in busy:  # checkpoints of gigabytes
            shutil.rmtree(f"{folder}/{machine['name']}-alone")
        mbits = round(1000.0 * lan.flops(options) / gradient / 1e9 / options.gflops)
        emulated.close()
        emulated = Lan(folder, mbits)
        master = emulated.add("master", options.share)
        slaves = [emulated.add(f"s{i + 1:02}", options.share) for i in range(most)]
        transfer = transfer_seconds(emulated, [master, slaves[0]], parameters)
        print(f"\n{options.net}, batch {options.batch}, {parameters / 1e6:.2f} million weights, links of {mbits} Mbit/s: "
              f"tg {gradient:.2f} s, tc {transfer:.2f} s", flush=True)
        for workers in sorted({*options.counts, *(int(count) for count in options.simulate.split(","))}):
            join, split = data_parallel(gradient, transfer, workers)
            print(f"  {workers} machines, data parallel by the formulas: {join:.2f} on whole batches, {split:.2f} on split ones")
        for wire in options.wires.split(","):
            for count in options.counts:
                seconds, notices, _, plan, _ = lan.train(options, emulated, folder, master, slaves[:count], ["--wire", wire],
                                                         options.steps)
                step = statistics.median(seconds)
                said = re.search(r"a step takes about ([0-9.e+-]+) s(, on this machine alone ([0-9.e+-]+) s)?", " ".join(notices))
                how = "alone" if plan["members"] == ["master"] else f"{plan['exchange']}, {plan['micro_batches']} micro-batches"
                print(f"  {count} machines, filters split, {wire}: {gradient / step:.2f}, step {step:.2f} s ({min(seconds):.2f} to "
                      f"{max(seconds):.2f}), predicted {said.group(1)}, alone {said.group(3)}; {how}", flush=True)
                shutil.rmtree(f"{folder}/kept", ignore_errors=True)
                shutil.copytree(f"{folder}/run", f"{folder}/kept")
            for count, step in simulated(options, f"{folder}/kept", wire).items():
                print(f"  {count} machines, filters split, {wire}, simulated: {gradient / step:.2f}, step {step:.2f} s", flush=True)
    finally:
        emulated.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", default=NETS, help="net files, each with a batch size")
    parser.add_argument("--data", required=True, help="as for convoy-master train")
    parser.add_argument("--slaves", default="2,4", help="numbers of machines beside the master that are measured")
    parser.add_argument("--simulate", default="2,4,8", help="and that are simulated")
    parser.add_argument("--share", type=float, default=0.35, help="of a core, that each machine is held to")
    parser.add_argument("--wires", default="fp32,bf16", help="number types on the wire")
    parser.add_argument("--gflops", type=float, default=240.0, help="to which links are as 1 Gbit/s, each way")
    parser.add_argument("--steps", type=int, default=4, help="of which the first is not counted")
    parser.add_argument("--set", action="append", default=[], help="as for convoy-master train")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("data_parallel.py: it makes network namespaces and CPU groups, which takes root")
    options.counts = [int(count) for count in options.slaves.split(",")]
    for each in options.nets.split(","):
        options.net, batch = each.split(":")
        options.batch = int(batch)
        with tempfile.TemporaryDirectory() as folder:
            measure(options, folder)


if __name__ == "__main__":
    main()
