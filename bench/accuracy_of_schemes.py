#!/usr/bin/env python3
"""Trains a net under each scheme of data-parallel training with several seeds, and compares with one machine: the accuracy on the
test images after as many training images, the traffic of weights and gradients, and the staleness of gradients.

Slaves are processes on this machine, one for each replica, so that asynchronous replicas and backups are real. They share its
cores, so the seconds of a run say nothing about a LAN (bench/schemes.py measures speed).

With --shares the machines are those of an emulated LAN (as root; see lan.py): each computes with that share of a core, so they may
be unequal, and seconds count. One machine has the largest share, and so does the master. With --until a run ends with the first
epoch after which the accuracy is reached, and the table has the seconds of training until then, without those of tests. Epochs
should be short, so take a part of the data (--images).

Runs that the file of --csv has already are not done again.

usage: bench/accuracy_of_schemes.py --data DATA [options]      (after scripts/build)
"""
import argparse
import contextlib
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from cut_data import cut_data
from emulated_lan import BIN, PORT, Lan, stop
from local_run import free_port

ALONE = "one machine"
SCHEMES = {  # name: options of convoy-master train
    ALONE: "",
    "split": "--sync split",
    "join": "--sync join",
    "join, scaled rate": "--sync join --scale-rate",
    "join, 1 backup": "--sync join --backup 1",
    "join in bf16": "--sync join --wire bf16",
    "local steps, 4": "--sync join --sync-every 4",
    "local steps": "--sync join --sync-every 8",
    "3 local steps in bf16": "--sync join --sync-every 3 --wire bf16",
    "6 local steps in bf16": "--sync join --sync-every 6 --wire bf16",
    "local steps in bf16": "--sync join --sync-every 8 --wire bf16",
    "local steps, 16": "--sync join --sync-every 16",
    "local steps, 32": "--sync join --sync-every 32",
    "growing steps": "--sync join --sync-every 4 --sync-up-to 64 --wire bf16",
    "outer step": "--sync join --sync-every 8 --outer-momentum 0.9 --outer-rate 0.7",
    "none": "--sync none",
    "none, half momentum": "--sync none --set training.momentum=0.45",
    "none, staleness 1": "--sync none --staleness 1",
}
# What tells a run from others.
KEY = ["net", "set", "data", "images", "machines", "mbits", "batch", "epochs", "until", "scheme", "seed"]
FIELDS = [*KEY, "epoch", "seconds", "test_accuracy_percent", "staleness", "weights_kb_an_image"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", default="nets/lenet.yaml", help="net file (default: %(default)s)")
    parser.add_argument("--data", required=True, help="data, as for convoy-master train")
    parser.add_argument("--images", type=int, default=0,
                        help="take this many training images, the first ones of CIFAR-10 (binary) or MNIST (default: all)")
    parser.add_argument("--tests", type=int, default=10000, help="with --images: take this many test images")
    parser.add_argument("--set", action="append", default=[], help="override of the net file; repeatable")
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--batch", type=int, default=0, help="images of a replica's batch (default: the net file's)")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--scheme", action="append", choices=SCHEMES, help="repeatable (default: all)")
    parser.add_argument("--until", type=float, default=0.0, metavar="PERCENT",
                        help="end a run when the test accuracy reaches this; --epochs is then the most that it may take")
    parser.add_argument("--shares", default="", metavar="SHARE[,SHARE...]",
                        help="shares of a core of the slaves' machines, one for each replica; all shares and the master's together "
                        "must leave room on this machine's cores (needs root)")
    parser.add_argument("--mbits", type=float, default=250.0, help="with --shares: speed of each link (default: %(default)g)")
    parser.add_argument("--csv", type=pathlib.Path, help="file to which each epoch of a run is added")
    options = parser.parse_args()
    options.shares = [float(share) for share in options.shares.split(",") if share]
    if options.shares:
        options.replicas = len(options.shares)
    return options


class Machines:
    """The machines of the runs: those of an emulated LAN, or processes on this machine."""

    def __init__(self, options, folder):
        self.lan = Lan(folder, options.mbits) if options.shares else None
        if self.lan:
            self.master = self.lan.add("master", max(options.shares))
            self.slaves = [self.lan.add(f"s{i + 1:02}", share) for i, share in enumerate(options.shares)]
        else:
            self.master, self.slaves = None, [None] * options.replicas

    def address(self):
        return f"tcp://{self.master['address']}:{PORT}" if self.lan else f"tcp://127.0.0.1:{free_port()}"

    def start(self, machine, words, **streams):
        """Starts a process that stop() ends."""
        if self.lan:
            return self.lan.start(machine, words, **streams)
        return subprocess.Popen([str(word) for word in words], text=True, start_new_session=True, **streams)

    def have_begun(self):
        """Frees the threads of the network from the shares, which would stop links."""
        if self.lan:
            self.lan.cgroups.free_network_threads()

    def close(self):
        if self.lan:
            self.lan.close()


def command_of(options, scheme, seed, folder):
    words = [BIN / "convoy-master", "train", options.net, "--data", options.data, "--out", f"{folder}/run", "--seed", seed, "--device",
             "cpu", "--epochs", options.epochs, "--threads", 1, "--format", "json", "--checkpoint-seconds", 100000]
    words += ["--batch", options.batch] if options.batch else []
    words += sum((["--set", each] for each in options.set), [])
    return words + SCHEMES[scheme].split()


class Progress:
    """What a run has told so far."""

    def __init__(self):
        self.epochs = []  # of each, seconds of training so far and accuracy in percent
        self.seconds = 0.0
        self.steps = 0
        self.images = 0  # in a step
        self.bytes = 0.0  # of weights, gradients and moments, to the master and from it
        self.staleness = []

    def take(self, event):
        """Takes an event of the master."""
        if event["event"] == "start":
            self.images = event["batch"]
        elif event["event"] == "step":
            self.steps += 1
            self.seconds += event["seconds"]
            self.bytes += sum(member["states_sent"] + member["states_received"] for member in event["times"])
            self.staleness += [event["staleness"]] if "staleness" in event else []
        elif event["event"] == "epoch":
            self.epochs.append((self.seconds, 100 * event["test_accuracy"]))

    def reaches(self, until):
        return bool(until and self.epochs and self.epochs[-1][1] >= until)


def train(options, machines, scheme, seed):
    """Trains until the end, or until the accuracy is reached, and returns the Progress."""
    slaves = [] if scheme == ALONE else machines.slaves
    progress, address = Progress(), machines.address()
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/log", "w", encoding="utf-8") as log:
        command = command_of(options, scheme, seed, folder)
        command += ["--slaves", len(slaves), "--insecure", "--listen", address] if slaves else []
        slave = [BIN / "convoy-slave", address, "--insecure", "--cache", "none", "--threads", 1, "--device", "cpu"]
        running = [machines.start(each, [*slave, "--name", f"slave{i}"], stdout=subprocess.DEVNULL, stderr=log)
                   for i, each in enumerate(slaves)]
        failure = ""
        try:
            master = machines.start(machines.master, command, stdout=subprocess.PIPE, stderr=log)
            running.append(master)
            for line in master.stdout:
                with contextlib.suppress(json.JSONDecodeError):
                    event = json.loads(line)
                    if progress.steps == 0:
                        machines.have_begun()
                    progress.take(event)
                    failure = event["message"] if event["event"] == "error" else failure
                if progress.reaches(options.until):
                    return progress
            if master.wait() != 0:
                told = failure or pathlib.Path(log.name).read_text(encoding="utf-8")[-500:]
                sys.exit(f"accuracy_of_schemes.py: {scheme}: the master failed: {told}")
        finally:
            stop(running)
    return progress


def key_of(options, scheme, seed):
    """Returns the columns that tell this run from others, as text."""
    machines = " ".join(f"{share:g}" for share in options.shares) or f"{options.replicas} processes"
    values = [pathlib.Path(options.net).stem, " ".join(options.set), options.name, options.images or "all", machines,
              f"{options.mbits:g}" if options.shares else "-", options.batch or "net's", options.epochs,
              f"{options.until:g}" if options.until else "-", scheme, seed]
    return dict(zip(KEY, map(str, values)))


def rows_of(key, progress):
    """Returns a row for each epoch of a run."""
    stale = f"{statistics.mean(progress.staleness):.2f}" if progress.staleness else ""
    traffic = f"{1e-3 * progress.bytes / max(1, progress.steps * progress.images):.3f}"
    return [{**key, "epoch": str(epoch + 1), "seconds": f"{seconds:.2f}", "test_accuracy_percent": f"{accuracy:.2f}", "staleness": stale,
             "weights_kb_an_image": traffic} for epoch, (seconds, accuracy) in enumerate(progress.epochs)]


def is_whole(options, rows):
    """Returns whether these are all rows of a run."""
    last = rows[-1] if rows else None
    return bool(last) and (int(last["epoch"]) == options.epochs or has_reached(options, last))


def has_reached(options, row):
    return bool(options.until) and float(row["test_accuracy_percent"]) >= options.until


def read(file):
    """Returns the rows of earlier runs."""
    if not file or not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as text:
        reader = csv.DictReader(text)
        if reader.fieldnames != FIELDS:
            sys.exit(f"accuracy_of_schemes.py: {file} has other columns; give a new file to --csv")
        return list(reader)


def write(file, rows):
    if not file:
        return
    begun = file.exists()
    with file.open("a", encoding="utf-8", newline="") as text:
        writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
        if not begun:
            writer.writeheader()
        writer.writerows(rows)


def spread(values, digits):
    """Returns mean, standard deviation and range."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return (f"{statistics.mean(values):.{digits}f} +- {deviation:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})")


def print_table(options, runs):
    """Prints a line for each scheme from the rows of its runs."""
    titles = f"{'to one machine':>14} {'weights KB/image':>17} {'staleness':>9}"
    seconds = f"  seconds to {options.until:g} %" if options.until else ""
    print(f"\n{'scheme':<20} {'accuracy in percent, mean +- sd (range)':<40} {titles}{seconds}")
    accuracies = {name: [float(rows[-1]["test_accuracy_percent"]) for rows in of] for name, of in runs.items()}
    for name, of in runs.items():
        alone = accuracies.get(ALONE)
        change = f"{statistics.mean(accuracies[name]) - statistics.mean(alone):+.2f}" if alone and name != ALONE else "-"
        stale = [float(rows[-1]["staleness"]) for rows in of if rows[-1]["staleness"]]
        line = (f"{name:<20} {spread(accuracies[name], 2):<40} {change:>14} "
                f"{statistics.mean(float(rows[-1]['weights_kb_an_image']) for rows in of):>17.2f} "
                f"{f'{statistics.mean(stale):.2f}' if stale else '-':>9}")
        if options.until:
            reached = [float(rows[-1]["seconds"]) for rows in of if has_reached(options, rows[-1])]
            missed = len(of) - len(reached)
            line += f"  {spread(reached, 1) if reached else '-'}" + (f"; {missed} of {len(of)} runs did not reach it" if missed else "")
        print(line)


def main():
    options = parse_arguments()
    names = options.scheme or list(SCHEMES)
    options.name = pathlib.Path(options.data).name
    earlier = read(options.csv)
    runs = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ends:
        if options.images:
            cut_data(pathlib.Path(options.data), pathlib.Path(folder) / "data", options.images, options.tests)
            options.data = f"{folder}/data"
        machines = None
        for seed in range(1, options.seeds + 1):
            for name in names:
                key = key_of(options, name, seed)
                rows = [row for row in earlier if all(row[column] == key[column] for column in KEY)]
                known = is_whole(options, rows)
                if not known:
                    if machines is None:
                        machines = Machines(options, folder)
                        ends.callback(machines.close)
                    rows = rows_of(key, train(options, machines, name, seed))
                    write(options.csv, rows)
                runs[name].append(rows)
                print(f"seed {seed}, {name}: " + ", ".join(row["test_accuracy_percent"] for row in rows) +
                      f"; {rows[-1]['seconds']} s{' (from an earlier call)' if known else ''}", flush=True)
    print_table(options, runs)


if __name__ == "__main__":
    main()
