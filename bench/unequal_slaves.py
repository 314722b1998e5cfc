#!/usr/bin/env python3
"""Trains with slaves of unequal speed on this machine, and compares their shares and the step time with the ideal.

    bench/unequal_slaves.py [--slave core=N[,isa=AVX2][,busy]]... [--net NET] [--set FIELD=VALUE]... [--rounds N]

Each slave has one thread on a core of its own. isa=AVX2 disables AVX-512 in its oneDNN; busy makes a second program
compete for its core. In every round each slave trains alone, and then all train together, so that a machine that slows
down affects all runs. The runs alone give each slave's computing time c and the overhead o of a step (transfer, dense
layers, loss). The ideal step of all slaves is 1 / sum(1 / c) + o, and the ideal share of a slave is its 1 / c divided
by the sum. The script needs Linux."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from local_run import free_port

ROOT = pathlib.Path(__file__).resolve().parent.parent
WARM_UP = 3  # steps that do not count


def parse_slave(text):
    slave = {"busy": False, "isa": None, "core": None}
    for word in text.split(","):
        key, _, value = word.partition("=")
        if key not in slave:
            raise argparse.ArgumentTypeError(f"'{word}': give core=N, isa=NAME or busy")
        slave[key] = True if key == "busy" else value
    if slave["core"] is None:
        raise argparse.ArgumentTypeError(f"'{text}' has no core=N; every slave needs a core")
    return slave


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--slave", action="append", type=parse_slave,
                        help="core=N[,isa=NAME][,busy] (default: core=0 and core=1,isa=AVX2)")
    parser.add_argument("--net", default=ROOT / "nets/glyphs.yaml", help="net file for the glyphs data")
    parser.add_argument("--set", action="append", help="override of the net file (default: 50 and 500 filters)")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bin",
                        help="folder of the programs")
    options = parser.parse_args()
    options.slave = options.slave or [parse_slave("core=0"), parse_slave("core=1,isa=AVX2")]
    options.set = options.set or ["conv1.filters=50", "conv2.filters=500"]
    return options


def start_slave(options, name, slave, address):
    environment = dict(os.environ)
    if slave["isa"]:
        environment["DNNL_MAX_CPU_ISA"] = slave["isa"]
    command = ["taskset", "-c", slave["core"], options.programs / "convoy-slave", address, "--insecure", "--cache", "none",
               "--name", name, "--once", "--threads", "1", "--device", "cpu"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def train(options, slaves):
    """Returns the events of a run with the given slaves, {name: slave}."""
    helpers = [subprocess.Popen(["taskset", "-c", slave["core"], sys.executable, "-c", "while True: pass"])
               for slave in slaves.values() if slave["busy"]]
    address = f"tcp://127.0.0.1:{free_port()}"
    processes = [start_slave(options, name, slave, address) for name, slave in slaves.items()]
    command = [options.programs / "convoy-master", "train", options.net, "--slaves", str(len(slaves)), "--exchange", "star",
               "--listen", address, "--insecure", "--snapshot-seconds", "1e6", "--steps", str(options.steps), "--batch", str(options.batch),
               "--threads", "1", "--format", "json"]
    for field in options.set:
        command += ["--set", field]
    try:
        with tempfile.TemporaryDirectory() as folder:
            command += ["--out", folder + "/run"]
            run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if run.returncode != 0:
            sys.exit(f"unequal_slaves: the master failed: {run.stderr}")
        return [json.loads(line) for line in run.stdout.splitlines()]
    finally:
        for process in processes + helpers:
            process.kill()
            process.wait()


def steps(events):
    return [event for event in events if event["event"] == "step"][WARM_UP:]


def median_of(events, number):
    return statistics.median(number(event) for event in steps(events))


def shares(events):
    start = next(event for event in events if event["event"] == "start")
    return {member["member"]: member["share"] for member in start["members"]}


def spread(values, form):
    values = sorted(values)
    return f"{statistics.median(values):{form}} ({values[0]:{form}} to {values[-1]:{form}})"


def main():
    options = parse_arguments()
    slaves = {f"slave{i + 1}": slave for i, slave in enumerate(options.slave)}
    ratios, idle, given, fair = [], [], {name: [] for name in slaves}, {name: [] for name in slaves}
    for number in range(options.rounds):
        compute, overhead = {}, []
        for name, slave in slaves.items():
            alone = train(options, {name: slave})
            compute[name] = median_of(alone, lambda event: event["times"][0]["compute"])
            overhead.append(median_of(alone, lambda event: event["seconds"] - event["times"][0]["compute"]))
        together = train(options, slaves)
        total = sum(1 / seconds for seconds in compute.values())
        ideal = 1 / total + statistics.mean(overhead)
        step = median_of(together, lambda event: event["seconds"])
        ratios.append(step / ideal)
        idle.append(median_of(together, lambda event: max(
            member["wait"] for member in event["times"]) / event["seconds"]))
        for name, share in shares(together).items():
            given[name].append(share)
            fair[name].append(1 / compute[name] / total)
        print(f"round {number + 1}: alone "
              + ", ".join(f"{name} {seconds * 1e3:.0f} ms" for name, seconds in compute.items())
              + f" and {statistics.mean(overhead) * 1e3:.0f} ms of overhead; together {step * 1e3:.0f} ms, "
              f"ideal {ideal * 1e3:.0f} ms", flush=True)
    print(f"\n{'':<10} {'core':>5} {'isa':>8} {'busy':>5}   share                    speed alone")
    for name, slave in slaves.items():
        print(f"{name:<10} {slave['core']:>5} {slave['isa'] or 'all':>8} {'yes' if slave['busy'] else 'no':>5}   "
              f"{spread(given[name], '.3f')}   {spread(fair[name], '.3f')}")
    print(f"step / ideal: {spread(ratios, '.3f')}; "
          f"longest wait of a slave {100 * statistics.median(idle):.0f} % of a step")


if __name__ == "__main__":
    main()
