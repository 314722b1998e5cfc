#!/usr/bin/env python3
"""Disturbs a run over an emulated LAN with faults drawn from a seed. Slaves and the master are killed and restarted,
slaves are suspended as a whole or only the thread that computes, and links are cut, lossy, slow, or delay, duplicate and
reorder packets. The run must go on, and end with the same weights as an undisturbed run that had the same plans at the
same steps. The test needs root, iproute2 and cgroups; it exits with code 77 without them.

usage: tests/chaos/network_chaos.py [--seconds 60 | --faults N] [--seed 1] [--least N] [--spare NAMES] [--record FOLDER]
                                                                                                    (after scripts/build)

--least is the run's --least-slaves: with fewer slaves the run waits for more.

--record writes each process's memory and open files over time, as resources.csv and, with gnuplot, resources.png.
--spare names machines (master, a, b, c) that are not killed, so that their processes can be followed for long.
"""
import argparse
import contextlib
import json
import multiprocessing
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import emulated_lan as lan  # noqa: E402  (beside the benchmarks)
from failures import stop_thread  # noqa: E402
from late_link import TUN, LateLink  # noqa: E402

BIN = lan.BIN
NAMES = ["a", "b", "c"]
NET = [ROOT / "nets/glyphs.yaml", "--set", "conv1.filters=6", "--set", "conv2.filters=9", "--batch", "50", "--threads", "1",
       "--device", "cpu", "--epochs", "5000", "--format", "json"]
RING = ["--exchange", "ring"]
MBITS = 200


def hold_thread(pid):
    """Stops the thread that computes for as long as this process lives."""
    stop_thread(pid)
    signal.pause()


class World:
    """The machines and their processes."""

    def __init__(self, folder, least):
        self.folder = pathlib.Path(folder)
        self.least = least
        self.keys = self.folder / "keys.json"
        self.key = lan.sh(BIN / "convoy-master", "key", "--make", "--keys", self.keys).strip()
        self.lan = lan.Lan(folder, MBITS)
        self.late = {}
        try:
            self.machine = {name: self.lan.add(name, 1.0) for name in ["master", *NAMES]}
            if os.access(TUN, os.R_OK | os.W_OK):
                self.late = {name: LateLink(machine["outer"], number, number)
                             for number, (name, machine) in enumerate(self.machine.items())}
            else:
                print(f"there is no {TUN} on this system, so no link delays packets", flush=True)
        except (SystemExit, OSError):
            self.lan.close()
            raise
        self.process = {}
        self.started = {}
        self.suspended = set()
        self.hung = {}
        self.resume = []

    def address(self):
        return f"tcp://{self.machine['master']['address']}:{lan.PORT}"

    def start(self, name):
        if name == "master":
            words = [BIN / "convoy-master", "train", *NET, *RING, "--slaves", "3", "--shares", "3,2,1", "--least-slaves",
                     self.least, "--listen", self.address(), "--keys", self.keys, "--snapshot-seconds", "0.5", "--checkpoint-seconds", "2", "--out",
                     self.folder / "run", *self.resume]
            self.resume = ["--resume"]
        else:
            words = ["env", f"CONVOY_KEY={self.key}", f"XDG_CACHE_HOME={self.folder}/cache", BIN / "convoy-slave", self.address(), "--name", name, "--threads", "1",
                     "--device", "cpu"]
        log = open(self.folder / f"{name}.log", "a", encoding="utf-8")
        self.process[name] = self.lan.start(self.machine[name], words, stdout=log, stderr=subprocess.STDOUT)
        self.started[name] = self.started.get(name, 0) + 1

    def alive(self, name):
        return self.process[name].poll() is None

    def works(self, name):
        return self.alive(name) and name not in self.suspended and name not in self.hung

    def signal(self, name, number):
        os.killpg(self.process[name].pid, number)

    def program_of(self, name):
        """The process that computes; None where it is just being started."""
        pid = self.process[name].pid
        with contextlib.suppress(OSError, IndexError):
            for _ in range(4):
                if pathlib.Path(f"/proc/{pid}/comm").read_text().startswith("convoy-"):
                    return pid
                pid = int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        return None

    def tc(self, name, *words):
        lan.sh("tc", "qdisc", "replace", "dev", self.machine[name]["outer"], "root", *words)

    def heal_link(self, name):
        lan.sh("ip", "link", "set", self.machine[name]["outer"], "up")
        if name in self.late:
            self.late[name].heal()
        self.tc(name, "tbf", "rate", f"{MBITS}mbit", "burst", "128kb", "latency", "50ms")

    def heal(self, name):
        """Restores a machine: its process runs, and its link works."""
        self.heal_link(name)
        if name in self.suspended:
            self.signal(name, signal.SIGCONT)
            self.suspended.discard(name)
        if name in self.hung:
            holder = self.hung.pop(name)
            holder.kill()
            holder.join()
        if not self.alive(name):
            self.start(name)

    def harm(self, name, deed):
        if deed == "kill":
            self.signal(name, signal.SIGKILL)
            self.process[name].wait()
        elif deed == "suspend":
            self.signal(name, signal.SIGSTOP)
            self.suspended.add(name)
        elif deed == "hang":
            # Another process holds the thread: this one would take its stop for the slave's end.
            self.hung[name] = multiprocessing.get_context("spawn").Process(target=hold_thread, args=(self.program_of(name),))
            self.hung[name].start()
        elif deed == "cut":
            lan.sh("ip", "link", "set", self.machine[name]["outer"], "down")
        elif deed == "lose":
            # The queue has room for two offloaded packets, so packets of a burst are dropped.
            self.tc(name, "tbf", "rate", f"{MBITS / 4:g}mbit", "burst", "70kb", "limit", "140kb")
        elif deed == "delay":
            self.late[name].engage()
        elif deed == "slow":
            self.tc(name, "tbf", "rate", "2mbit", "burst", "32kb", "latency", "200ms")

    def close(self):
        for holder in self.hung.values():
            holder.kill()
        lan.stop(self.process.values())
        for late in self.late.values():
            late.close()
        self.lan.close()


def events(folder):
    for line in (folder / "events.jsonl").read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue  # the line was cut off when the master was killed


PLOT = """set datafile separator ','
set terminal pngcairo size 900,600 font 'sans,10'
set output 'resources.png'
set multiplot layout 2,1
set xlabel 'seconds'
set key outside
set ylabel 'resident memory (MiB)'
names = 'master a b c'
plot for [name in names] 'resources.csv' using (stringcolumn(2) eq name ? $1 : 1/0):4 with points pt 7 ps 0.3 title name
set ylabel 'open files'
plot for [name in names] 'resources.csv' using (stringcolumn(2) eq name ? $1 : 1/0):5 with points pt 7 ps 0.3 title name
"""


class Recorder:
    """Records each process's memory and open files once a second. A restarted process gets a new number."""

    def __init__(self, world, folder):
        self.world, self.folder = world, pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.over = threading.Event()
        self.rows = []
        self.thread = threading.Thread(target=self.record, daemon=True)
        self.thread.start()

    def record(self):
        begin = time.monotonic()
        while not self.over.wait(1.0):
            for name in list(self.world.process):
                try:
                    pid = self.world.program_of(name)
                    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
                    files = len(os.listdir(f"/proc/{pid}/fd"))
                except (OSError, IndexError, ValueError):
                    continue  # the process is being killed or started
                self.rows.append([round(time.monotonic() - begin, 1), name, self.world.started[name],
                                  round(pages * os.sysconf("SC_PAGESIZE") / 2**20, 1), files])

    def close(self):
        self.over.set()
        self.thread.join()
        lines = ["seconds,machine,process,memory_mib,files", *(",".join(map(str, row)) for row in self.rows)]
        (self.folder / "resources.csv").write_text("\n".join(lines) + "\n")
        (self.folder / "resources.gnuplot").write_text(PLOT)
        subprocess.run(["gnuplot", "resources.gnuplot"], cwd=self.folder, check=False)
        lives = {}
        for _, name, number, memory, files in self.rows:
            lives.setdefault((name, number), []).append((memory, files))
        for name in self.world.machine:
            values = max((rows for (each, _), rows in lives.items() if each == name), key=len, default=[])
            tenth = max(1, len(values) // 10)
            if len(values) < 20:
                continue
            early, late = values[tenth:2 * tenth], values[-tenth:]
            print(f"{name}: over {len(values)} s, memory {max(m for m, _ in early)} MiB early and {max(m for m, _ in late)} late; "
                  f"open files {max(f for _, f in early)} and {max(f for _, f in late)}", flush=True)


def steps_in(folder):
    return sum(1 for event in events(folder) if event["event"] == "step")


def segments_of(folder):
    """The plans as [(steps done when the plan began, plan)]. A loss or a restarted master takes the run back."""
    segments, done, last = [], 0, 0

    def begin(at, plan):
        while segments and segments[-1][0] >= at:
            segments.pop()
        segments.append((at, plan))

    for event in events(folder):
        kind = event["event"]
        if kind == "start":
            done = event["first_step"]
            begin(done, event["plan"])
        elif kind == "step":
            done = event["step"]
        elif kind == "plan":
            segments.append((done, event["plan"]))
        elif kind == "checkpoint":
            last = event["step"]
        elif kind == "notice" and event["text"].startswith("going on after step "):
            done = int(event["text"][len("going on after step "):].split(";")[0])
            begin(done, segments[-1][1])
    return segments, last


def replay(folder, segments, steps):
    """Repeats the run with the same plans at the same steps on this machine, undisturbed."""
    for number, (begun, plan) in enumerate(segments):
        until = segments[number + 1][0] if number + 1 < len(segments) else steps
        if until == begun:
            continue
        words = [BIN / "convoy-master", "train", *NET, "--steps", until, "--out", folder / "replayed"]
        words += ["--resume"] if begun else []
        slaves = []
        if plan["members"] != ["master"]:
            file = folder / "plan.json"
            file.write_text(json.dumps(plan))
            words += [*RING, "--slaves", len(plan["members"]), "--plan", file, "--listen", "tcp://127.0.0.1:5577", "--insecure"]
            slaves = [subprocess.Popen([BIN / "convoy-slave", "tcp://127.0.0.1:5577", "--insecure", "--cache", "none", "--name", name, "--threads",
                                        "1", "--device", "cpu", "--once"], stdout=subprocess.DEVNULL)
                      for name in plan["members"]]
        run = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, timeout=600)
        for slave in slaves:
            slave.wait(timeout=20)
        if run.returncode != 0:
            sys.exit(f"network_chaos: the replay failed: {run.stdout[-500:]}{run.stderr}")


def disturb(world, options):
    """Disturbs the run for options.seconds or options.faults. Returns a text with the number of faults of each kind."""
    draw = random.Random(options.seed)
    deeds = {}
    end = time.monotonic() + options.seconds
    while sum(deeds.values()) < options.faults if options.faults else time.monotonic() < end:
        time.sleep(draw.uniform(0.3, 2.0))
        name = draw.choice([*NAMES, *NAMES, "master"])
        if draw.random() < 0.5:
            world.heal(name)
            continue
        deed = draw.choice(["kill", "suspend", "hang", "cut", "lose", "delay", "slow"])
        if (name == "master" and deed in ("suspend", "hang")) or (deed == "delay" and not world.late):
            continue
        if not world.works(name) or (deed == "kill" and name in options.spare):
            continue
        if deed == "hang" and not world.program_of(name):
            continue
        world.harm(name, deed)
        what = deed if name != "master" else f"{deed} (master)"
        deeds[what] = deeds.get(what, 0) + 1
        if name == "master" and deed == "kill":
            world.start("master")
    for name in world.machine:
        world.heal(name)
    kinds = ", ".join(f"{deed} {count}" for deed, count in sorted(deeds.items()))
    return f"{sum(deeds.values())} faults: {kinds}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--faults", type=int, help="faults to inject, instead of the seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=int, default=0, help="slaves without which the run waits")
    parser.add_argument("--spare", type=lambda text: text.split(","), default=[], help="machines not to kill")
    parser.add_argument("--record", metavar="FOLDER", help="folder for resources.csv and resources.png")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        try:
            world = World(name, options.least)
        except (SystemExit, OSError) as error:
            print(f"skipped: an emulated LAN cannot be made here (it needs root, iproute2 and cgroups): {error}")
            sys.exit(77)
        try:
            for each in world.machine:
                world.start(each)
            time.sleep(5)
            recorder = Recorder(world, options.record) if options.record else None
            done = disturb(world, options)
            if recorder:
                recorder.close()
            time.sleep(10)
            before = steps_in(folder / "run")
            patience = time.monotonic() + 60
            while steps_in(folder / "run") == before:
                if time.monotonic() > patience:
                    sys.exit(f"network_chaos: after {done} the run does not go on:\n"
                             f"{(folder / 'master.log').read_text()[-3000:]}")
                time.sleep(1)
            world.signal("master", signal.SIGINT)
            if world.process["master"].wait(timeout=60) != 130:
                sys.exit(f"network_chaos: the master ended badly:\n{(folder / 'master.log').read_text()[-3000:]}")
        finally:
            world.close()
        segments, steps = segments_of(folder / "run")
        print(f"{done}; {steps} steps under {len(segments)} plans", flush=True)
        replay(folder, segments, steps)
        weights = [(folder / run / "weights.safetensors").read_bytes() for run in ("run", "replayed")]
        if weights[0] != weights[1]:
            sys.exit("network_chaos: the weights differ from those of the undisturbed run")
        print("the weights equal those of an undisturbed run")


if __name__ == "__main__":
    main()
