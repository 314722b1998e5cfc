#!/usr/bin/env python3
"""Measures the cost of failures. Starts a master and slaves on this machine, lets them train, and disturbs one slave:

    kill      its process is killed
    suspend   its process is stopped (SIGSTOP), which looks like an unplugged machine
    hang      only its computing thread is stopped; the process still answers

The script measures the time until the master reports the loss (noticed), from there to the next step (next step), and
to the step that was in progress at the failure (all made up). With --protection it measures instead the time per step
with the default snapshots and without any, and with encryption and without. It needs Linux.

    bench/failures.py [--slaves 2,4,7] [--faults kill,suspend,hang] [--rounds N] [--net NET] [--set FIELD=VALUE]...
    bench/failures.py --protection [--slaves 2] [--rounds N] [--seconds S]
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import queue
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from unequal_slaves import free_port, spread

ROOT = pathlib.Path(__file__).resolve().parent.parent
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207


def stop_thread(pid):
    """Stops only the main thread of a process, which is the thread that computes."""
    libc = ctypes.CDLL(None, use_errno=True)
    for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
        if libc.ptrace(request, pid, None, None) != 0:
            sys.exit(f"failures: cannot stop a thread of process {pid}: {os.strerror(ctypes.get_errno())}")


class Run:
    """A master and its slaves."""

    def __init__(self, options, count, extra, insecure=False):
        self.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self.folder.name)
        address = f"tcp://127.0.0.1:{free_port()}"
        keys = ["--keys", str(folder / "keys.json")]
        environment = dict(os.environ)
        secured = ["--insecure"]
        if not insecure:
            secured = []
            environment["CONVOY_KEY"] = subprocess.run([options.programs / "convoy-master", "key", "--make", *keys], check=True,
                                                       capture_output=True, text=True).stdout.strip()
        self.slaves = [subprocess.Popen([options.programs / "convoy-slave", address, "--cache", "none",
                                         "--name", f"s{i + 1}", "--threads", "1", "--device", "cpu", *secured], env=environment, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL) for i in range(count)]
        command = [options.programs / "convoy-master", "train", options.net, "--slaves", str(count), "--exchange", "ring",
                   "--shares", ",".join("1" * count), "--listen", address, "--batch", str(options.batch), "--threads", "1",
                   "--epochs", "100000", "--format", "json", "--out", str(folder / "run"), *(secured or keys), *extra]
        for field in options.set:
            command += ["--set", field]
        self.master = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.events = queue.Queue()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.master.stdout:
            self.events.put((time.monotonic(), json.loads(line)))
        self.events.put((time.monotonic(), None))

    def wait_for(self, wanted, patience=120):
        """Returns (time, event) of the first event for which `wanted` is true."""
        end = time.monotonic() + patience
        while True:
            try:
                when, event = self.events.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                sys.exit(f"failures: the master reported no such event within {patience} s")
            if event is None:
                sys.exit(f"failures: the master ended: {self.master.stderr.read()}")
            if wanted(event):
                return when, event

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in [self.master, *self.slaves]:
            # The signal goes to the process number, because subprocess takes a traced thread's report for the end of
            # its process.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        for process in [self.master, *self.slaves]:
            with contextlib.suppress(ChildProcessError):
                process.wait(timeout=20)
        self.reader.join()
        self.folder.cleanup()


def is_step(event):
    return event["event"] == "step"


def disturb(options, count, fault, draw):
    """Returns the seconds until the loss is noticed, until the next step, and until all is made up."""
    with Run(options, count, []) as run:
        _, event = run.wait_for(is_step)
        steady = event["step"] + options.warm_up
        run.wait_for(lambda event: is_step(event) and event["step"] >= steady)
        time.sleep(draw.uniform(0.0, 1.0))
        victim = draw.choice(run.slaves)
        failed = time.monotonic()
        if fault == "hang":
            stop_thread(victim.pid)
        else:
            victim.send_signal(signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
        done = 0

        def lost(event):
            nonlocal done
            done = event["step"] if is_step(event) else done
            return event["event"] == "notice" and re.search(r"; \d+ slaves? (is|are) left", event["text"])

        noticed, _ = run.wait_for(lost)
        first, event = run.wait_for(is_step)
        made_up = first
        if event["step"] < done + 1:
            made_up, _ = run.wait_for(lambda event: is_step(event) and event["step"] >= done + 1)
        return noticed - failed, first - noticed, made_up - noticed


def seconds_per_step(options, count, extra, insecure):
    with Run(options, count, extra, insecure) as run:
        begin, event = run.wait_for(lambda event: is_step(event) and event["step"] >= options.warm_up)
        first = event["step"]
        end, event = run.wait_for(lambda event: is_step(event) and time.monotonic() - begin >= options.seconds)
        return (end - begin) / (event["step"] - first)


def protection(options):
    never = ["--snapshot-seconds", "1e6"]
    for count in options.slaves:
        snapshots, encryption = [], []
        for number in range(options.rounds):
            # Runs that are close in time are compared; the order alternates.
            cases = [("default", [], False), ("none", never, False), ("plain", never, True)]
            seconds = {name: seconds_per_step(options, count, extra, insecure)
                       for name, extra, insecure in (cases if number % 2 == 0 else reversed(cases))}
            snapshots.append(seconds["default"] / seconds["none"])
            encryption.append(seconds["none"] / seconds["plain"])
            print(f"round {number + 1}, {count} slaves: a step takes {seconds['default'] * 1e3:.1f} ms, without snapshots "
                  f"{seconds['none'] * 1e3:.1f}, and without encryption {seconds['plain'] * 1e3:.1f}", flush=True)
        print(f"{count} slaves: with snapshots / without {spread(snapshots, '.3f')}; "
              f"encrypted / plain {spread(encryption, '.3f')}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slaves", default="2,4,7", help="numbers of slaves")
    parser.add_argument("--faults", default="kill,suspend,hang")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1, help="seed of the moments and the victims")
    parser.add_argument("--net", default=ROOT / "nets/glyphs.yaml", help="net file for the glyphs data")
    parser.add_argument("--set", action="append", default=[], help="override of the net file")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--warm-up", type=int, default=20, help="steps before anything is measured")
    parser.add_argument("--protection", action="store_true", help="measure the cost of snapshots and encryption")
    parser.add_argument("--seconds", type=float, default=60.0, help="with --protection: seconds of each run")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bin", help="folder of the programs")
    options = parser.parse_args()
    options.slaves = [int(word) for word in options.slaves.split(",")]
    options.faults = options.faults.split(",")
    for fault in options.faults:
        if fault not in ("kill", "suspend", "hang"):
            parser.error(f"--faults {fault}: expected kill, suspend or hang")
    if options.protection:
        protection(options)
        return
    draw = random.Random(options.seed)
    print(f"{'slaves':>6} {'fault':<8} {'noticed (s)':<22} {'next step (s)':<22} {'all made up (s)':<22}")
    for count in options.slaves:
        for fault in options.faults:
            rounds = [disturb(options, count, fault, draw) for _ in range(options.rounds)]
            columns = [spread(column, ".2f") for column in zip(*rounds)]
            print(f"{count:>6} {fault:<8} " + " ".join(f"{column:<22}" for column in columns), flush=True)


if __name__ == "__main__":
    main()
