#!/usr/bin/env python3
"""Compares the plans of Convoy with data parallelism as Slampa's formulas (2017) predict it, for this machine.

For each net, on an emulated LAN (see lan.py; needs root), the script prints tg, the time of one batch's gradient on one
machine; tc, the time that all weights take over one link (by `convoy-bench transport`); the speedups of synchronous
data parallelism that the formulas give for tg and tc with the better of a central and a distributed server, for whole
batches ("join": the effective batch grows with the number of machines) and for split batches; and the speedup of Convoy
with the same batch, both measured and simulated from the machines that the run has timed.

usage: bench/data_parallel.py --data PHOTOS [options]      (after scripts/build)
"""
import argparse
import csv
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
    """Returns the number of weights that a run wrote."""
    with open(f"{run}/weights.safetensors", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return sum(math.prod(each["shape"]) for name, each in header.items() if name != "__metadata__")


def transfer_seconds(emulated, machines, count):
    """Returns the seconds that `count` floats take from one machine to the other."""
    size = max(1, round(4 * count / 65536)) * 65536
    words = [BIN / "convoy-bench", "transport", "--tensors", size, "--frames", 65536, "--repeats", 1, "--format", "csv"]
    address = f"tcp://{machines[0]['address']}:{PORT + 10}"
    sender = emulated.start(machines[0], [*words, "--listen", address], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    running = [sender]
    try:
        sender.stderr.readline()  # the sender listens now
        running.append(emulated.start(machines[1], [*words, "--connect", address], stdout=subprocess.DEVNULL))
        output = sender.communicate(timeout=600)[0]
    finally:
        stop(running)
    ours = re.search(r"^tensor,[0-9]+,[^,]*,([0-9.]+),", output, re.MULTILINE)
    if not ours:
        sys.exit(f"data_parallel.py: convoy-bench transport printed no timing of a tensor; its output: {output}")
    return 4 * count / 1e6 / float(ours.group(1))


def data_parallel(gradient, transfer, workers):
    """Returns, by number of workers, the speedups of synchronous data parallelism on whole and on split batches by the
    formulas of `convoy-bench estimate`, each with the better server."""
    words = ["--t-grad", gradient, "--t-comm", transfer, "--workers", workers, "--type", "sync-join,sync-split", "--seeds", 1]
    speedups = {}
    for row in csv.DictReader(sh(BIN / "convoy-bench", "estimate", *words, "--output", "csv").splitlines()):
        both = speedups.setdefault(int(row["workers"]), {"sync-join": 0.0, "sync-split": 0.0})
        both[row["type"]] = max(both[row["type"]], float(row["estimate_speedup"]))
    return {count: (both["sync-join"], both["sync-split"]) for count, both in speedups.items()}


def simulated(options, run, wire):
    """Returns the seconds of a step by number of machines, all of which are like the run's."""
    words = [BIN / "convoy-bench", "simulate", "--net", ROOT / options.net, "--batch", options.batch, "--from-run", run,
             "--slaves", options.simulate, "--exchange", "auto", "--wire", wire, "--format", "csv"]
    rows = [line.split(",") for line in sh(*words).splitlines()[1:]]
    return {int(row[0]): float(row[2]) for row in rows}


def measure(options, folder):
    """Measures and prints the rows of a net."""
    most = max(options.counts)
    emulated = Lan(folder, 10000)
    try:
        busy = [emulated.add(f"busy{i}", options.share) for i in range(most)]
        gradient = lan.train_alone(options, emulated, folder, busy, options.steps)
        parameters = parameters_of(f"{folder}/busy0-alone")
        for machine in busy:  # checkpoints take gigabytes
            shutil.rmtree(f"{folder}/{machine['name']}-alone")
        mbits = round(1000.0 * lan.flops(options) / gradient / 1e9 / options.gflops)
        emulated.close()
        emulated = Lan(folder, mbits)
        master = emulated.add("master", options.share)
        slaves = [emulated.add(f"s{i + 1:02}", options.share) for i in range(most)]
        transfer = transfer_seconds(emulated, [master, slaves[0]], parameters)
        print(f"\n{options.net}, batch {options.batch}, {parameters / 1e6:.2f} million weights, links of {mbits} Mbit/s: "
              f"tg {gradient:.2f} s, tc {transfer:.2f} s", flush=True)
        asked_for = sorted({*options.counts, *(int(count) for count in options.simulate.split(","))})
        formulas = data_parallel(gradient, transfer, asked_for[-1])
        for workers in asked_for:
            join, split = formulas[workers]
            print(f"  {workers} machines, data parallel by the formulas: {join:.2f} on whole batches, {split:.2f} on split ones")
        for wire in options.wires.split(","):
            for count in options.counts:
                seconds, notices, _, plan, *_ = lan.train(options, emulated, folder, master, slaves[:count], f"auto-{wire}",
                                                         options.steps)
                step = statistics.median(seconds)
                said = re.search(r"a step takes about ([0-9.e+-]+) s(, on this machine alone ([0-9.e+-]+) s)?", " ".join(notices))
                how = "alone" if plan["members"] == ["master"] else f"{plan['exchange']}, {plan['micro_batches']} micro-batches"
                print(f"  {count} machines, as planned, {wire}: {gradient / step:.2f}, step {step:.2f} s ({min(seconds):.2f} to "
                      f"{max(seconds):.2f}), predicted {said.group(1)}, alone {said.group(3)}; {how}", flush=True)
                shutil.rmtree(f"{folder}/kept", ignore_errors=True)
                shutil.copytree(f"{folder}/run", f"{folder}/kept")
            for count, step in simulated(options, f"{folder}/kept", wire).items():
                print(f"  {count} machines, as planned, {wire}, simulated: {gradient / step:.2f}, step {step:.2f} s", flush=True)
    finally:
        emulated.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", default=NETS, help="net files with their batch sizes, as NET:BATCH, separated by commas")
    parser.add_argument("--data", required=True, help="data, as for convoy-master train")
    parser.add_argument("--slaves", default="2,4", help="measured numbers of machines beside the master")
    parser.add_argument("--simulate", default="2,4,8", help="simulated numbers of machines")
    parser.add_argument("--share", type=float, default=0.35, help="share of a core that each machine may use")
    parser.add_argument("--wires", default="fp32,bf16", help="number types on the wire")
    parser.add_argument("--gflops", type=float, default=240.0, help="machine speed for which a link would "
                        "have 1 Gbit/s; links are scaled by the machines' measured speed")
    parser.add_argument("--steps", type=int, default=4, help="steps of a run; the first is not counted")
    parser.set_defaults(paced="")
    parser.add_argument("--set", action="append", default=[], help="override of the net file, as for convoy-master train")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("data_parallel.py: network namespaces and CPU groups require root; run it with sudo")
    options.counts = [int(count) for count in options.slaves.split(",")]
    for each in options.nets.split(","):
        options.net, batch = each.split(":")
        options.batch = int(batch)
        with tempfile.TemporaryDirectory() as folder:
            measure(options, folder)


if __name__ == "__main__":
    main()
