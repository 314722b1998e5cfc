#!/usr/bin/env python3
"""Trains nets for a few steps on slaves of this machine, cut along filters and along images, and compares the memory that the
planner expects each slave to take with the most memory that its process took.

The table has the largest of the slaves. `idle` is what a slave's process takes before the run: programs, libraries and threads.
`shards` is what the slave counts for its filters and maps, and `host` what it counts for values on their way, both in MiB.
Weights that a slave keeps in case they are needed again are not counted, unless --memory leaves little room for them.

usage: bench/memory.py --data DATA [options]      (after scripts/build; needs Linux)
"""
import argparse
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from emulated_lan import BIN, ROOT, sh
from local_run import free_port

NETS = ["nets/resnet34.yaml:16", "nets/vgg16e.yaml:8"]
MIB = 1024.0
FACTOR = 1.3  # what shards really take on the device cpu, for each byte of their tensors (DeviceInfo::memory_factor)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="data, as for convoy-master train")
    parser.add_argument("--nets", nargs="+", default=NETS, metavar="NET:BATCH[:SET...]",
                        help="net files with their batch sizes and overrides of their fields (default: %(default)s)")
    parser.add_argument("--slaves", default="1,2,4", help="numbers of slaves, separated by commas (default: %(default)s)")
    parser.add_argument("--layouts", default="filters,samples", help="cuts, separated by commas (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--tight", action="store_true", help="allow the slaves (--memory) no more than the plan needs")
    return parser.parse_args()


def memory_of(process, field):
    """Returns a figure of a process in MiB: VmRSS, what it takes now, or VmHWM, the most that it has taken."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    return int(re.search(rf"{field}:\s+(\d+) kB", status).group(1)) / MIB


def planned(text):
    """Returns what each member takes, in MiB, for its shards and on the host, from the lines of a plan."""
    lines = re.findall(r" takes ([0-9.]+) MiB for its filters and maps, ([0-9.]+) MiB for values on their way", text)
    return [(FACTOR * float(shards), float(host)) for shards, host in lines]


class Slaves:
    """Slaves of this machine."""

    def __init__(self, address, count, memory):
        bound = ["--memory", f"{memory}MiB"] if memory else []
        self.processes = [subprocess.Popen([BIN / "convoy-slave", address, "--insecure", "--cache", "none", "--name", f"slave{i + 1}", "--threads", "1",
                                            "--device", "cpu", *bound], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                          for i in range(count)]

    def most(self, field):
        """Returns the largest figure of a slave; see memory_of()."""
        return max(memory_of(process, field) for process in self.processes)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


def measure(options, net, batch, settings, layout, count):
    """Returns the MiB of an idle slave, those that are planned for the largest, and the most that one took."""
    address = f"tcp://127.0.0.1:{free_port()}"
    # With fixed shares the plan is the same, whatever the speeds and the memory of the slaves.
    members = ["--slaves", count, "--shares", ",".join(["1"] * count), "--listen", address, "--insecure", "--threads", 1, "--batch", batch,
               "--micro-batch", batch, "--layout", layout, "--exchange", "ring" if count > 1 else "star",
               *sum((["--set", each] for each in settings), [])]
    with Slaves(address, count, 0):
        plan = sh(BIN / "convoy-master", "plan", ROOT / net, *members)
    sizes = planned(plan)
    if not sizes:
        sys.exit(f"memory.py: the plan names no memory of members: {plan}")
    shards, host = max(sizes, key=sum)
    with Slaves(address, count, math.ceil(shards + host) if options.tight else 0) as slaves, tempfile.TemporaryDirectory() as folder:
        time.sleep(1.0)
        idle = slaves.most("VmRSS")
        sh(BIN / "convoy-master", "train", ROOT / net, "--data", options.data, "--steps", options.steps, "--out", f"{folder}/run", *members)
        return idle, shards, host, slaves.most("VmHWM")


def main():
    options = parse_arguments()
    print(f"{'net':<14}{'batch':>6}  {'layout':<10}{'slaves':>7}{'idle MiB':>10}{'shards':>10}{'host':>10}{'most':>10}"
          f"{'(most - idle) / (shards + host)':>33}")
    for words in options.nets:
        net, batch, *settings = words.split(":")
        for count in map(int, options.slaves.split(",")):
            for layout in options.layouts.split(",") if count > 1 else ["auto"]:
                idle, shards, host, most = measure(options, net, batch, settings, layout, count)
                print(f"{pathlib.Path(net).stem:<14}{batch:>6}  {layout:<10}{count:>7}{idle:>10.0f}{shards:>10.0f}{host:>10.0f}{most:>10.0f}"
                      f"{(most - idle) / (shards + host):>33.2f}", flush=True)


if __name__ == "__main__":
    main()
