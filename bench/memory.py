#!/usr/bin/env python3
"""Trains nets for a few steps on slaves of this machine, cut along filters and along images, and compares the memory that the
planner expects each slave to take for its part of the net with the most memory that its process took.

The table has the largest of the slaves. `idle` is what a slave's process takes before the run: programs, libraries and threads.
Beside its part of the net a slave holds messages on their way and images.

usage: bench/memory.py --data DATA [options]      (after scripts/build; needs Linux)
"""
import argparse
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


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="data, as for convoy-master train")
    parser.add_argument("--nets", nargs="+", default=NETS, metavar="NET:BATCH[:SET...]",
                        help="net files with their batch sizes and overrides of their fields (default: %(default)s)")
    parser.add_argument("--slaves", default="1,2,4", help="numbers of slaves, separated by commas (default: %(default)s)")
    parser.add_argument("--layouts", default="filters,samples", help="cuts, separated by commas (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=2)
    return parser.parse_args()


def memory_of(process, field):
    """Returns a figure of a process in MiB: VmRSS, what it takes now, or VmHWM, the most that it has taken."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    return int(re.search(rf"{field}:\s+(\d+) kB", status).group(1)) / MIB


def planned(text):
    """Returns the MiB of each member, from the lines of a plan about the filters of each stage."""
    members = {}
    for name, size, unit in re.findall(r"^ +(\S+) +filters .*? ([0-9.]+) ([KMG]iB)", text, re.MULTILINE):
        members[name] = members.get(name, 0.0) + float(size) * {"KiB": 1 / MIB, "MiB": 1.0, "GiB": MIB}[unit]
    return members


def measure(options, net, batch, settings, layout, count):
    """Returns the MiB of an idle slave, those that are planned for the largest, and the most that one took."""
    address = f"tcp://127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as folder:
        slaves = [subprocess.Popen([BIN / "convoy-slave", address, "--insecure", "--cache", "none", "--name", f"slave{i + 1}", "--threads", "1",
                                    "--device", "cpu"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for i in range(count)]
        cut = ["--batch", batch, "--micro-batch", batch, "--layout", layout, "--exchange", "ring" if count > 1 else "star",
               *sum((["--set", each] for each in settings), [])]
        try:
            time.sleep(1.0)
            idle = max(memory_of(slave, "VmRSS") for slave in slaves)
            members = ["--slaves", count, "--shares", ",".join(["1"] * count), "--listen", address, "--insecure", "--threads", 1]
            plan = sh(BIN / "convoy-master", "plan", ROOT / net, *cut, *members)
            sh(BIN / "convoy-master", "train", ROOT / net, "--data", options.data, "--steps", options.steps, "--out", f"{folder}/run",
               *cut, *members)
            sizes = planned(plan)
            if not sizes:
                sys.exit(f"memory.py: the plan names no filters of members: {plan}")
            return idle, max(sizes.values()), max(memory_of(slave, "VmHWM") for slave in slaves)
        finally:
            for slave in slaves:
                slave.kill()
                slave.wait()


def main():
    options = parse_arguments()
    print(f"{'net':<14}{'batch':>6}  {'layout':<10}{'slaves':>7}{'idle MiB':>10}{'planned':>10}{'most':>10}{'(most - idle) / planned':>25}")
    for words in options.nets:
        net, batch, *settings = words.split(":")
        for count in map(int, options.slaves.split(",")):
            for layout in options.layouts.split(",") if count > 1 else ["auto"]:
                idle, plan, most = measure(options, net, batch, settings, layout, count)
                print(f"{pathlib.Path(net).stem:<14}{batch:>6}  {layout:<10}{count:>7}{idle:>10.0f}{plan:>10.0f}{most:>10.0f}"
                      f"{(most - idle) / plan:>25.2f}", flush=True)


if __name__ == "__main__":
    main()
