#!/usr/bin/env python3
"""Trains nets with Convoy and with PyTorch's DistributedDataParallel (DDP) over gloo on the same emulated machines (see
lan.py; needs root), and prints one table of images per second and speedups.

Both train the same net file on batches of the same size, with one thread on each machine, in turns: in each round each
program trains on one machine and then, for each number type on the wire, on all machines. With fp32 DDP sends gradients as they
are, with fp16 and bf16 it uses the compression hook of that name; its other settings are the defaults. The first steps of a run
are not counted. A speedup is over the same program on the fastest of the machines, and says nothing of which program is faster;
the column Convoy / DDP does.

Machines are paced (they take the time of computing, and all traffic is real) or have a quota of a core and compute. DDP splits
a batch evenly even over unequal machines; Convoy plans. Three differences remain. Convoy's master is one machine more, which
sends the images and computes the dense layers; DDP's ranks have their images already. Where batch norms are computed
along images, Convoy's are joint and those of DDP each rank's own. A paced machine counts every pass of a convolution in
both programs, and maps of stages without one only in Convoy.

Exit code 77: PyTorch is missing, or the user is not root. The interpreter of --python needs torch and PyYAML.

usage: bench/compare_ddp.py [options]      (after scripts/build)
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile

import ddp_table
import lan
from emulated_lan import BIN, PORT, ROOT, Lan, parts_of_cores, sh, stop, work_so_far

NETS = ["nets/squeezenet.yaml:16:conv10.filters=20", "nets/resnet34.yaml:16:dense1.units=20"]
PACED = ["60", "60,60,30,30"]  # equal and unequal machines
WIRES = ("fp32", "bf16", "fp16")
WARM_UP = 2  # steps that do not count: DDP arranges its buckets anew after the first
ALONE_STEPS = 3
SKIPPED = 77


def skip(reason):
    print(f"compare_ddp: skipped: {reason}")
    sys.exit(SKIPPED)


def need_torch(python):
    """Skips unless the interpreter has PyTorch with gloo; returns PyTorch's version."""
    program = "import torch, torch.distributed as d, yaml; assert d.is_gloo_available(), 'no gloo'; print(torch.__version__)"
    try:
        run = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
        problem = (run.stderr.strip().splitlines() or [""])[-1] if run.returncode else ""
    except OSError as error:
        problem = str(error)
    if problem or run.returncode:
        skip(f"{python} cannot import torch and yaml ({problem or 'it failed'}); give --python an interpreter that has both")
    return run.stdout.strip()


def worker(options, batch, steps, machine, *words):
    """Returns the command of a rank that trains on `batch` images a step."""
    paced = ["--paced", machine["speed"]] if options.paced else []
    return [options.python, ROOT / "bench/ddp_worker.py", "--net", ROOT / options.net, "--batch", batch, "--steps", steps,
            *paced, *words, *sum((["--set", each] for each in options.set), [])]


def seconds_in(process, after_step=lambda seconds: None):
    """Returns the seconds of a rank's steps, and calls `after_step` with them after each step."""
    seconds = []
    for line in process.stdout:
        with contextlib.suppress(json.JSONDecodeError):
            seconds.append(json.loads(line)["seconds"])
            after_step(seconds)
    return seconds


def ddp_alone(options, emulated, machines, memory_format):
    """Returns the seconds of a step of the fastest machine without DDP. As in lan.train_alone, machines that compute train at
    the same time, each alone."""
    fastest = max(machines, key=lambda machine: machine["speed"])
    running = []
    try:
        for machine in [fastest] if options.paced else [fastest, *(each for each in machines if each is not fastest)]:
            steps = WARM_UP + ALONE_STEPS if machine is fastest else 1000000
            running.append(emulated.start(machine, worker(options, options.batch, steps, machine, "--memory-format", memory_format),
                                          stdout=subprocess.PIPE if machine is fastest else subprocess.DEVNULL))
        seconds = seconds_in(running[0])
        if running[0].wait() != 0:
            sys.exit("compare_ddp: PyTorch did not train on one machine; its error is above")
    finally:
        stop(running)
    return statistics.median(seconds[WARM_UP:])


def ddp_together(options, emulated, machines, wire, memory_format):
    """Returns the seconds of the counted steps of DDP on the machines, and the parts of the cores that were used."""
    running, work = [], []

    def after_step(seconds):
        emulated.cgroups.free_network_threads()
        if len(seconds) >= WARM_UP:
            work.append(work_so_far(running))

    try:
        for rank, machine in enumerate(machines):
            words = ["--memory-format", memory_format, "--rank", rank, "--ranks", len(machines), "--wire", wire,
                     "--address", f"{machines[0]['address']}:{PORT}", "--interface", machine["inner"]]
            running.append(emulated.start(machine, worker(options, options.batch // len(machines), WARM_UP + options.steps,
                                                          machine, *words),
                                          stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL))
        seconds = seconds_in(running[0], after_step)
        if running[0].wait() != 0:
            sys.exit("compare_ddp: DDP did not train; its error is above")
    finally:
        stop(running)
    return seconds[WARM_UP:], parts_of_cores(work[0], work[-1])


def convoy_together(options, emulated, folder, master, slaves, wire):
    """Returns ddp_together() for Convoy, under the plan that it chooses."""
    steps = WARM_UP + options.steps
    for _ in range(2):
        run = lan.train(options, emulated, folder, master, slaves, f"auto-{wire}", steps, WARM_UP)
        if run is not None:
            return run[0], run[5]
    sys.exit("compare_ddp: Convoy lost a slave twice")


def faster_format(options, emulated, machines):
    """Returns PyTorch's faster memory format for the net; a paced machine has none."""
    if options.paced:
        return "NHWC"
    return min(("NCHW", "NHWC"), key=lambda each: ddp_alone(options, emulated, machines, each))


def link_speed(options, folder, speeds):
    """Returns the Mbit/s of each link: 1 Gbit/s for a machine of --gflops, in proportion to the fastest machine's speed."""
    if options.mbits:
        return options.mbits
    if options.paced:
        return 1000.0 * max(speeds) / options.gflops
    emulated = Lan(folder, 10000)
    try:
        _, machines = lan.machines_of(options, emulated, speeds, max(options.counts))
        alone = lan.train_alone(options, emulated, folder, machines, ALONE_STEPS)
    finally:
        emulated.close()
    return round(lan.flops(options) / alone / 1e6 / options.gflops)


def measure(options, folder, speeds):
    """Returns the rows of one net on machines of these speeds, taken in turns."""
    mbits = link_speed(options, folder, speeds)
    alone, runs, used = {"Convoy": [], "DDP": []}, {}, {}
    emulated = Lan(folder, mbits)
    try:
        master, machines = lan.machines_of(options, emulated, speeds, max(options.counts))
        memory_format = faster_format(options, emulated, machines)
        for _ in range(options.rounds):
            alone["Convoy"].append(lan.train_alone(options, emulated, folder, machines, ALONE_STEPS + WARM_UP))
            alone["DDP"].append(ddp_alone(options, emulated, machines, memory_format))
            for count in options.counts:
                some = machines[:count]
                for wire in options.wires:
                    both = {"Convoy": convoy_together(options, emulated, folder, master, some, wire),
                            "DDP": ddp_together(options, emulated, some, wire, memory_format)}
                    for program, (seconds, parts) in both.items():
                        runs.setdefault((count, program, wire), []).append(seconds)
                        used.setdefault((count, program, wire), []).append(parts)
    finally:
        emulated.close()
    case = {"mode": "paced" if options.paced else "quota", "net": pathlib.Path(options.net).stem, "batch": options.batch,
            "speeds": speeds, "mbits": mbits}
    rows = ddp_table.rows_of(case, alone, runs, used)
    for row in rows:
        print(ddp_table.text_of(row), flush=True)
    return rows


def processor():
    """Returns the name of this machine's processor."""
    with contextlib.suppress(OSError):
        found = re.search(r"model name\s*: (.+)", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"))
        if found:
            return found.group(1)
    return platform.machine()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", nargs="+", default=NETS, metavar="NET:BATCH[:SET...]",
                        help=f"net files with their batch sizes and overrides of their fields (default: {' '.join(NETS)})")
    parser.add_argument("--machines", default="4", help="numbers of machines, separated by commas")
    parser.add_argument("--paced", action="append", default=[], metavar="GFLOPS[,GFLOPS...]",
                        help="speeds of machines that take the time of computing, taken in turns; may be repeated for further "
                        f"rows (default, without --shares: {' and '.join(PACED)})")
    parser.add_argument("--shares", action="append", default=[], metavar="CORES[,CORES...]",
                        help="CPU quotas of machines that compute, taken in turns; may be repeated")
    parser.add_argument("--wires", default="fp32,bf16", help="number types on the wire, separated by commas: fp32, bf16, fp16")
    parser.add_argument("--mbits", type=float, default=0.0,
                        help="bandwidth of each link; 0: scaled by the machine's speed, with 1 Gbit/s for --gflops")
    parser.add_argument("--gflops", type=float, default=240.0)
    parser.add_argument("--steps", type=int, default=5, help="steps of a run that count, at least 2")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of all runs; the rows show medians")
    parser.add_argument("--data", default="", help="Convoy's data, as for convoy-master train (default: random pixels)")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has torch and PyYAML (default: this one)")
    parser.add_argument("--csv", default="", metavar="FILE", help="also write the rows to this file")
    parser.add_argument("--machine", default=processor(), help="name of this machine in the file (default: its processor)")
    options = parser.parse_args()
    check(parser, options)
    return options


def positive(parser, option, text, kind):
    """Returns the numbers of a list, all of which must be above 0."""
    try:
        values = [kind(each) for each in text.split(",")]
    except ValueError:
        values = [0]
    if not all(0 < value < float("inf") for value in values):
        parser.error(f"{option} {text}: expected numbers above 0, separated by commas, such as {4 if kind is int else '60,30'}")
    return values


def check(parser, options):
    """Checks the options and turns lists into values."""
    options.counts = positive(parser, "--machines", options.machines, int)
    options.wires = options.wires.split(",")
    unknown = [wire for wire in options.wires if wire not in WIRES]
    if unknown:
        parser.error(f"--wires: unknown number type '{unknown[0]}'; expected {', '.join(WIRES)}")
    if not options.paced and not options.shares:
        options.paced = PACED
    options.cases = [(True, positive(parser, "--paced", speeds, float)) for speeds in options.paced] + \
        [(False, positive(parser, "--shares", shares, float)) for shares in options.shares]
    if options.steps < 2 or options.rounds < 1:
        parser.error("--steps must be at least 2 and --rounds at least 1")
    nets = []
    for net in options.nets:
        file, _, rest = net.partition(":")
        batch, *overrides = rest.split(":")
        if not batch.isdigit() or int(batch) == 0:
            parser.error(f"--nets {net}: expected NET:BATCH[:SET...], such as {NETS[0]}")
        if not (ROOT / file).is_file():
            parser.error(f"--nets {net}: there is no file {ROOT / file}")
        for count in options.counts:
            if int(batch) % count:
                parser.error(f"--nets {net}: DDP splits a batch evenly, and {batch} is not divisible by {count} machines")
        nets.append((file, int(batch), overrides))
    options.nets = nets


def main():
    options = arguments()
    if os.geteuid() != 0:
        skip("network namespaces and CPU groups require root; run it with sudo")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("compare_ddp: stopped"))  # so that the LAN and its machines go
    version = need_torch(options.python)
    if not (BIN / "convoy-master").exists():
        sys.exit(f"compare_ddp: there is no {BIN / 'convoy-master'}; run scripts/build first")
    measured = {"machine": options.machine, "commit": sh("git", "-C", ROOT, "rev-parse", "--short=8", "HEAD", check=False).strip(),
                "date": datetime.date.today().isoformat()}
    print(f"torch {version}, gloo; {options.rounds} rounds of {options.steps} steps; one thread a machine")
    print(ddp_table.HEADER, flush=True)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        if not options.data:
            lan.draw_data(folder, max(batch for _, batch, _ in options.nets) * (WARM_UP + max(options.steps, ALONE_STEPS) + 1))
        for options.net, options.batch, options.set in options.nets:
            for options.paced, speeds in options.cases:
                rows += measure(options, folder, speeds)
                if options.csv:
                    ddp_table.write_csv(rows, measured, options.csv)


if __name__ == "__main__":
    main()
