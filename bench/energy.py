#!/usr/bin/env python3
"""Compares the joules that a plan predicts with those of a run, on an emulated LAN of paced machines with made-up meters.

Each machine has a network namespace behind a shaped link, a paced device, and a RAPL counter of its own in a folder. A watcher
looks at each machine every 2 ms or so: whether its program sleeps for its paced device, and whether its link is busy. It adds the
watts of that state to the machine's counter, which the program reads like a real one. So the joules of the run depend on what the
machines did, and the prediction on what the simulator thinks that they do. Needs root and iproute2.

usage: bench/energy.py [options]      (after scripts/build)
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from emulated_lan import BIN, PORT, ROOT, Lan, stop
from lan import draw_images, draw_photographs, reads_photographs


class Watcher(threading.Thread):
    """Keeps the counters of machines up to date."""

    MOVING = 2000  # bytes between two looks; fewer are signs of life

    def __init__(self, lan, watts):
        super().__init__(daemon=True)
        self.lan, self.watts, self.ending, self.looks = lan, watts, False, 0
        self.bytes_per_second = lan.mbits * 125e3
        self.machines = {}

    def add(self, machine, folder):
        """Makes the counter of a machine, and returns the folder of its meters."""
        zone = pathlib.Path(folder) / "sys/class/powercap/intel-rapl:0"
        zone.mkdir(parents=True)
        (zone / "name").write_text("package-0")
        (zone / "max_energy_range_uj").write_text("1000000000000")
        counter = os.open(zone / "energy_uj", os.O_CREAT | os.O_RDWR)
        os.pwrite(counter, b"00000000000005000000", 0)
        self.machines[machine["name"]] = {"machine": machine, "counter": counter, "joules": 5.0, "program": None,
                                          "bytes": self.lan.bytes_of(machine), "busy": [0.0, 0.0], "time": time.monotonic()}
        return folder

    def watch(self, machine, program):
        self.machines[machine["name"]]["program"] = program

    def run(self):
        while not self.ending:
            for each in self.machines.values():
                self.look(each)
            self.looks += 1
            time.sleep(0.0015)

    def look(self, each):
        now, counted = time.monotonic(), self.lan.bytes_of(each["machine"])
        # The system hands packets of up to 64 kB to a link at once, which then is busy for milliseconds without counting a byte.
        for way, (before, after) in enumerate(zip(each["bytes"], counted)):
            if after - before > self.MOVING:
                each["busy"][way] = max(each["busy"][way], each["time"]) + (after - before) / self.bytes_per_second
        try:
            sleeps = "nanosleep" in pathlib.Path(f"/proc/{each['program'].pid}/wchan").read_text()
        except (OSError, AttributeError):  # the program has ended, or not begun
            sleeps = False
        state = "compute" if sleeps else "transfer" if max(each["busy"]) > each["time"] else "idle"
        each["joules"] += self.watts[state] * (now - each["time"])
        each["time"], each["bytes"] = now, counted
        os.pwrite(each["counter"], f"{1e6 * each['joules']:020.0f}".encode(), 0)


def run_once(options, lan, folder, master, slaves, steps, arguments):
    """Runs a training and returns its events. The watcher sees all its programs."""
    watcher = Watcher(lan, options.power)
    roots = {machine["name"]: watcher.add(machine, tempfile.mkdtemp(dir=folder)) for machine in [master, *slaves]}

    def start(machine, words, **more):
        return lan.start(machine, ["env", f"CONVOY_METER_ROOT={roots[machine['name']]}", "CONVOY_NVML_LIBRARY=none", *words], **more)

    address = f"tcp://{master['address']}:{PORT}"
    watcher.start()
    running = []
    try:
        for slave in slaves:
            running.append(start(slave, [BIN / "convoy-slave", address, "--insecure", "--cache", "none", "--device",
                                         f"paced:{slave['speed']:g}", "--name", slave["name"], "--once"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT))
            watcher.watch(slave, running[-1])
        time.sleep(options.idle)  # so that the idle power is known
        data = f"{folder}/{'photographs' if reads_photographs(options) else 'cifar'}"
        words = [BIN / "convoy-master", "train", ROOT / options.net, "--data", data, "--batch", options.batch, "--steps", steps,
                 "--device", f"paced:{options.speeds[0]:g}", "--threads", 1, "--format", "json", "--out", tempfile.mkdtemp(dir=folder) + "/run",
                 "--slaves", len(slaves), "--listen", address, "--insecure", "--wire", options.wire, *arguments]
        running.append(start(master, words, stdout=subprocess.PIPE))
        watcher.watch(master, running[-1])
        events = [json.loads(line) for line in running[-1].stdout if line.startswith("{")]
        if running[-1].wait() != 0:
            sys.exit(f"energy.py: the run failed: {events[-1:]}")
        calibration = json.loads(pathlib.Path(words[words.index("--out") + 1], "calibration.json").read_text())
        return events, calibration
    finally:
        watcher.ending = True
        watcher.join()
        stop(running)


def with_watts(calibration, power, file):
    """Writes the calibration with the power of all machines, and returns the file."""
    for member in calibration["members"]:
        member["watts"] = power
    calibration["watts"] = power
    pathlib.Path(file).write_text(json.dumps(calibration))
    return file


def compare(options, name, events):
    """Prints the predicted and the measured joules of a run, and returns their ratio."""
    notices = " ".join(event["text"] for event in events if event["event"] == "notice")
    predicted = re.search(r"predicted energy: ([0-9.e+-]+) J a step, ([0-9.e+-]+) J/image", notices)
    seconds = float(re.search(r"a step takes about ([0-9.e+-]+) s", notices).group(1))
    end = next(event for event in events if event["event"] == "end")
    energy = end["energy"]
    if energy["measured_members"] != options.slaves + 1 or not predicted:
        sys.exit(f"energy.py: not all machines were measured, or nothing was predicted: {energy}; {notices}")
    steps = [event["seconds"] for event in events if event["event"] == "step"]
    step = statistics.median(steps[1:])
    measured = energy["joules_per_image"]
    print(f"{name:<10} step {step:.4f} s, predicted {seconds:.4f} s; {measured:.4f} J/image measured, {float(predicted.group(2)):.4f} "
          f"predicted ({100 * (float(predicted.group(2)) / measured - 1):+.1f} %)", flush=True)
    return float(predicted.group(2)) / measured


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", default="nets/cifar10-50-500.yaml", help="net file")
    parser.add_argument("--batch", type=int, default=64, help="images in a step")
    parser.add_argument("--slaves", type=int, default=2, help="number of slaves")
    parser.add_argument("--speeds", default="20", help="GFLOP/s of the slaves, which repeat; the master is like the first")
    parser.add_argument("--mbits", type=float, default=80, help="links in Mbit/s")
    parser.add_argument("--watts", default="5:25:8", help="IDLE:COMPUTE:TRANSFER of all machines")
    parser.add_argument("--wire", default="fp32", help="number type on the wire")
    parser.add_argument("--plans", default="ring,star", help="exchanges, separated by commas: star, ring")
    parser.add_argument("--objective", default="time", help="what the plan is chosen by: time, energy, edp")
    parser.add_argument("--steps", type=int, default=60, help="steps of a run")
    parser.add_argument("--idle", type=float, default=2.0, help="seconds that slaves wait before a run")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("energy.py: network namespaces need root")
    options.speeds = [float(each) for each in options.speeds.split(",")]
    options.power = dict(zip(("idle", "compute", "transfer"), map(float, options.watts.split(":"))))
    with tempfile.TemporaryDirectory() as folder:
        images = pathlib.Path(folder)
        (images / "cifar").mkdir()
        draw_images(images / "cifar", options.batch * (options.steps + 1) // 5 + 1)
        if reads_photographs(options):
            draw_photographs(images / "photographs", options.batch * (options.steps + 1))
        lan = Lan(folder, options.mbits)
        try:
            master = {**lan.add("master"), "speed": options.speeds[0]}
            slaves = [{**lan.add(f"s{i + 1:02}"), "speed": options.speeds[i % len(options.speeds)]} for i in range(options.slaves)]
            print(f"{options.net}, batch {options.batch}; {options.slaves} slaves of {options.speeds} GFLOP/s, links of "
                  f"{options.mbits:g} Mbit/s, {options.watts} W", flush=True)
            for plan in options.plans.split(","):
                words = ["--exchange", plan]
                _, calibration = run_once(options, lan, folder, master, slaves, 3, words)
                file = with_watts(calibration, options.power, f"{folder}/watts.json")
                events, learned = run_once(options, lan, folder, master, slaves, options.steps,
                                           [*words, "--power-from", file, "--objective", options.objective])
                compare(options, plan, events)
                (images / "learned.json").write_text(json.dumps(learned))
                events, _ = run_once(options, lan, folder, master, slaves, options.steps,
                                     [*words, "--power-from", images / "learned.json", "--objective", options.objective])
                compare(options, "  learned", events)
        finally:
            lan.close()


if __name__ == "__main__":
    main()
