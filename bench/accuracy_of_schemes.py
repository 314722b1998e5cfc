#!/usr/bin/env python3
"""Trains a net under each scheme of data-parallel training with several seeds, and compares the accuracy on the test images
with that of one machine after as many training images.

Slaves are processes on this machine, one for each replica, so that asynchronous replicas and backups are real. They share its
cores, so the seconds of a run say nothing about a LAN (bench/schemes.py measures speed).

usage: bench/accuracy_of_schemes.py --data DATA [options]      (after scripts/build)
"""
import argparse
import csv
import json
import pathlib
import statistics
import sys
import tempfile

from local_run import free_port, run_with_slaves

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build/release/bin"
FIELDS = ["net", "data", "replicas", "batch", "scheme", "seed", "epoch", "test_accuracy_percent", "staleness"]
ALONE = "one machine"
SCHEMES = {  # name: options of convoy-master train
    ALONE: "",
    "split": "--sync split",
    "join": "--sync join",
    "join, scaled rate": "--sync join --scale-rate",
    "join, 1 backup": "--sync join --backup 1",
    "local steps": "--sync join --sync-every 8",
    "outer step": "--sync join --sync-every 8 --outer-momentum 0.9 --outer-rate 0.7",
    "none": "--sync none",
    "none, staleness 1": "--sync none --staleness 1",
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", default="nets/lenet.yaml", help="net file (default: %(default)s)")
    parser.add_argument("--data", required=True, help="data, as for convoy-master train")
    parser.add_argument("--set", action="append", default=[], help="override of the net file; repeatable")
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--batch", type=int, default=0, help="images of a replica's batch (default: the net file's)")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--scheme", action="append", choices=SCHEMES, help="repeatable (default: all)")
    parser.add_argument("--csv", type=pathlib.Path, help="file to which the accuracies are added")
    return parser.parse_args()


def train(options, scheme, seed):
    """Returns the accuracy in percent after each epoch, and the mean staleness of gradients where there is one."""
    count = 0 if scheme == ALONE else options.replicas
    address = f"tcp://127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as folder:
        command = [BIN / "convoy-master", "train", options.net, "--data", options.data, "--out", f"{folder}/run", "--seed", seed,
                   "--epochs", options.epochs, "--threads", 1, "--format", "json", *SCHEMES[scheme].split()]
        command += ["--batch", options.batch] if options.batch else []
        command += ["--slaves", count, "--insecure", "--listen", address] if count else []
        for field in options.set:
            command += ["--set", field]
        slave = [BIN / "convoy-slave", address, "--insecure", "--cache", "none", "--once", "--threads", 1, "--device", "cpu"]
        run = run_with_slaves(command, [[*slave, "--name", f"slave{i}"] for i in range(count)], folder)
    if run.returncode != 0:
        sys.exit(f"accuracy_of_schemes.py: {scheme}: the master failed: {run.stdout[-500:]}{run.stderr[-500:]}")
    events = [json.loads(line) for line in run.stdout.splitlines()]
    stale = [event["staleness"] for event in events if event["event"] == "step" and "staleness" in event]
    return [100 * event["test_accuracy"] for event in events if event["event"] == "epoch"], statistics.mean(stale) if stale else None


def write(options, rows):
    if not options.csv:
        return
    begun = options.csv.exists()
    with options.csv.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if not begun:
            writer.writeheader()
        writer.writerows(rows)


def main():
    options = parse_arguments()
    names = options.scheme or list(SCHEMES)
    last = {name: [] for name in names}
    staleness = {name: [] for name in names}
    for seed in range(1, options.seeds + 1):
        for name in names:
            accuracies, stale = train(options, name, seed)
            last[name].append(accuracies[-1])
            staleness[name] += [] if stale is None else [stale]
            write(options, [{"net": pathlib.Path(options.net).stem, "data": pathlib.Path(options.data).name, "replicas": options.replicas,
                             "batch": options.batch or "net's", "scheme": name, "seed": seed, "epoch": epoch + 1,
                             "test_accuracy_percent": f"{accuracy:.2f}", "staleness": "" if stale is None else f"{stale:.2f}"}
                            for epoch, accuracy in enumerate(accuracies)])
            print(f"seed {seed}, {name}: " + ", ".join(f"{accuracy:.2f}" for accuracy in accuracies), flush=True)
    print(f"\n{'scheme':<20} {'accuracy in percent, median (lowest to highest)':<48} {'staleness':>9}")
    for name in names:
        values = sorted(last[name])
        stale = f"{statistics.mean(staleness[name]):.2f}" if staleness[name] else "-"
        print(f"{name:<20} {f'{statistics.median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f})':<48} {stale:>9}")


if __name__ == "__main__":
    main()
