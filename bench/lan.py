#!/usr/bin/env python3
"""Runs Convoy on an emulated LAN on one machine: each slave, and the master, has a network namespace of its own behind
a link of a given bandwidth, and a CPU quota of a share of a core (except for its network threads). Prints the time of a
training step, the speedup over one such machine, and the planner's prediction. Needs root, iproute2 and cgroups.
Without --data it draws random images, of 10 classes where they are as small as those of CIFAR-10, else of 20.

With --paced the machines compute nothing and take the time that machines of the given speeds would take, so that one
small machine shows what many do at full speed; there are no quotas then. All of their traffic is real, so the cores of
this machine must be fast enough for it: the column CPU says how much of them the members used, and in brackets how busy
all programs kept them. Where they are not, scale speeds down: links scale with them. With --measured as well, the numbers
of --paced are parts of a core of this machine: its times are measured first, and divided by these numbers. So the times
are those of real kernels, by a line through those of two small batches, without the slices in which quotas let programs
compute.

usage: bench/lan.py [options]      (after scripts/build)

The time of the one machine is measured while the other machines train too, each alone, so that the cost of the
emulation does not count as an effect of the LAN. Each round measures it again before the plans, and compares speedups
within the round, because the processor under all machines is faster in some minutes than in others. Scaling down keeps
ratios: a quarter of a core with 250 Mbit/s stands for a core with 1 Gbit/s.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import zlib

from emulated_lan import BIN, PORT, ROOT, Lan, parts_of_cores, sh, stop, work_so_far


CLASSES = 20  # of photographs that are drawn


def png(width, height, pixels):
    """Returns a PNG of 8-bit RGB pixels."""
    def chunk(kind, data):
        body = kind + data
        return len(data).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")

    rows = b"".join(b"\0" + pixels[3 * width * y:3 * width * (y + 1)] for y in range(height))
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")


def draw_photographs(folder, count):
    """Writes `count` small images of random pixels, of CLASSES classes, which Convoy enlarges to the size that a net reads."""
    generator = random.Random(1)
    size = 32
    for number in range(count):
        place = pathlib.Path(folder) / f"class{number % CLASSES:02}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:05}.png").write_bytes(png(size, size, generator.randbytes(3 * size * size)))


def draw_images(folder, count):
    """Writes CIFAR-10 files of random pixels, with `count` images in each of the six files."""
    generator = random.Random(1)
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        with open(pathlib.Path(folder) / name, "wb") as file:
            for _ in range(count):
                file.write(bytes([generator.randrange(10)]) + generator.randbytes(3072))
    (pathlib.Path(folder) / "batches.meta.txt").write_text("\n".join(f"class{i}" for i in range(10)) + "\n")


def draw_data(folder, images, few=False):
    """Draws data of both kinds, enough for runs that train on `images` images, or with `few` hardly more than these."""
    draw_images(make(f"{folder}/cifar"), images // 5 + 1 if few else max(200, images // 5 + 1))
    draw_photographs(f"{folder}/photographs", images * 5 // 4 if few else max(200, images * 5 // 4 + 5 * CLASSES))


def command(options, folder, machine, run, steps):
    data = options.data or f"{folder}/{'photographs' if reads_photographs(options) else 'cifar'}"
    checkpoints = [] if options.paced else ["--checkpoint-seconds", 100000]
    return [BIN / "convoy-master", "train", ROOT / options.net, "--data", data, "--batch", options.batch,
            "--steps", steps, "--device", device_of(options, machine), "--threads", 1, "--format", "json", "--out", run,
            *checkpoints, *sum((["--set", each] for each in options.set), [])]


def reads_photographs(options):
    """Returns whether the net reads larger images than those of CIFAR-10."""
    return not re.search(r"height: 32\b", (ROOT / options.net).read_text())


def device_of(options, machine):
    """Returns the name of a machine's device."""
    if not options.paced:
        return "cpu"
    return f"paced:{machine['times']}" if "times" in machine else f"paced:{machine['speed']:g}"


def measure_core(options, folder, speeds):
    """Writes a calibration for each speed: the times of this machine's processor with one thread, divided by the speed. One
    slave is timed while nothing else computes; so the plans cannot share a dense layer, which needs the times of several."""
    shutil.rmtree(f"{folder}/measured", ignore_errors=True)
    words = command(argparse.Namespace(**{**vars(options), "paced": ""}), folder, {}, f"{folder}/measured", 1)
    address = f"tcp://127.0.0.1:{PORT}"
    slave = subprocess.Popen([BIN / "convoy-slave", address, "--insecure", "--cache", "none", "--device", "cpu", "--threads", "1",
                              "--once"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        sh(*words, "--slaves", 1, "--listen", address, "--insecure")
    finally:
        stop([slave])

    def slower(value, speed):
        if isinstance(value, list):
            return [slower(each, speed) for each in value]
        if not isinstance(value, dict):
            return value
        times = ("head_", "seconds_alone", "forward", "backward_", "update")
        return {key: each / speed if key.startswith(times) else slower(each, speed) for key, each in value.items()}

    measured = json.loads(pathlib.Path(f"{folder}/measured/calibration.json").read_text())
    for speed in set(speeds):
        pathlib.Path(times_of_core(folder, speed)).write_text(json.dumps(slower(measured, speed)))


def times_of_core(folder, speed):
    """Returns the name of a file of measure_core()."""
    return f"{folder}/core-{speed:g}.json"


def train_alone(options, lan, folder, machines, steps):
    """Returns the seconds of a step of the fastest machine alone. The others train alone at the same time, because all
    of them share caches and memory, unless they are paced."""
    if options.paced:
        machines = [max(machines, key=lambda machine: machine["speed"])]
    for machine in machines:
        shutil.rmtree(f"{folder}/{machine['name']}-alone", ignore_errors=True)
    fastest = max(machine["speed"] for machine in machines)
    running = {}
    try:
        for machine in machines:
            slower = machine["speed"] < fastest  # slower machines work until the fastest have finished
            words = command(options, folder, machine, f"{folder}/{machine['name']}-alone", 1000 * steps if slower else steps)
            running[machine["name"]] = lan.start(machine, words, stdout=subprocess.DEVNULL if slower else subprocess.PIPE)
        outputs = [running[machine["name"]].communicate()[0] for machine in machines if machine["speed"] == fastest]
    finally:
        stop(running.values())
    seconds = []
    for output in outputs:
        steps_seen = [json.loads(line)["seconds"] for line in output.splitlines() if line.startswith('{"event":"step"')]
        seconds += steps_seen[1:]
    if not seconds:
        errors = [json.loads(line)["message"] for line in outputs[0].splitlines() if line.startswith('{"event":"error"')]
        sys.exit(f"lan: one machine alone did not train: {' '.join(errors) or 'it took fewer than two steps; give more --steps'}")
    return statistics.median(seconds)


def train(options, lan, folder, master, slaves, plan, steps, skipped=1, left_out=0):
    """Returns the seconds of each step except the first `skipped` and the last `left_out`, the notices, the bytes of each of these
    steps on the master's link (out, in), the plan, how the slaves spent their time, the parts of this machine's cores that the
    members and that all programs used, and the bytes of weights and gradients that went from and to the master in each of the
    steps. Returns nothing where a slave was lost, because the steps do not compare."""
    words = command(options, folder, master, f"{folder}/run", steps)
    shutil.rmtree(f"{folder}/run", ignore_errors=True)
    open_links, key = ["--insecure"], []
    if "secure" in plan.split("-"):
        key_file = f"{folder}/keys.json"
        open_links, key = [], ["env", f"CONVOY_KEY={sh(BIN / 'convoy-master', 'key', '--make', '--keys', key_file).strip()}"]
        words += ["--keys", key_file]
    words += ["--slaves", len(slaves), "--listen", f"tcp://{master['address']}:{PORT}", *open_links,
              *([] if options.paced else ["--snapshot-seconds", "1e6"]), *words_of(plan)]
    running = [lan.start(slave, [*key, BIN / "convoy-slave", f"tcp://{master['address']}:{PORT}", *open_links, "--cache", "none",
                                 "--device", device_of(options, slave), "--threads", 1, "--name", slave["name"],
                                 "--once"],
                         stdout=open(f"{folder}/{slave['name']}.log", "w", encoding="utf-8"), stderr=subprocess.STDOUT)
               for slave in slaves]
    seconds, notices, moved, spent = [], [], [], {"compute": 0.0, "transfer": 0.0, "wait": 0.0}
    work, weights = [], []  # at the end of each step, and in each step
    try:
        process = lan.start(master, words, stdout=subprocess.PIPE)
        running.append(process)
        for line in process.stdout:
            if not seconds:
                lan.cgroups.free_network_threads()
            with contextlib.suppress(json.JSONDecodeError):
                event = json.loads(line)
                if event.get("event") == "notice":
                    notices.append(event["text"])
                elif event.get("event") == "error":
                    notices.append(event["message"])
                elif event.get("event") == "step":
                    seconds.append(event["seconds"])
                    moved.append(lan.bytes_of(master))
                    work.append(work_so_far(running))
                    weights.append(sum(member["states_sent"] + member["states_received"] for member in event["times"]))
                    for member in event["times"] if len(seconds) > skipped else []:
                        for what in spent:
                            spent[what] += member[what]
        if process.wait() != 0:
            logs = [pathlib.Path(f"{folder}/{slave['name']}.log").read_text().splitlines()[-1:] for slave in slaves]
            sys.exit(f"lan.py: the run failed; {notices[-2:]}; the last lines of the slaves' logs: {logs}")
        lost = [notice for notice in notices if re.search(r"; \d+ slaves? (is|are) left", notice)]
        if lost:
            print(f"       a slave was lost, so the run does not count and is repeated: {lost[0]}", flush=True)
            return None
        plan = json.loads(pathlib.Path(f"{folder}/run/plan.json").read_text())
    finally:
        stop(running)
    first, end = (skipped, len(seconds) - left_out) if len(seconds) > skipped + left_out else (1, len(seconds))
    traffic = [(moved[end - 1][i] - moved[first - 1][i]) / max(1, end - first) for i in (0, 1)]
    return (seconds[first:end] or seconds, notices, traffic, plan, spent, parts_of_cores(work[0], work[-1]),
            statistics.mean(weights[first:end] or weights))


def words_of(plan):
    """Returns the master's options for a plan of --plans, or for a scheme of replicas such as "join-bf16-semaphore"."""
    exchange, *rest = plan.split("-")
    schemes = {"join": ["--sync", "join"], "none": ["--sync", "none"]}
    words = {"auto": [], "thesis": ["--plan", "thesis"], **schemes}.get(exchange, ["--exchange", exchange])
    if exchange == "none" and "semaphore" not in rest:
        words.append("--no-semaphore")
    options = {"filters": "--layout", "samples": "--layout", "central": "--server", "distributed": "--server"}
    for each in rest:
        if each == "semaphore":
            words.append("--semaphore")
        elif each == "once":
            words.append("--images-once")
        elif each.startswith("every"):
            words += ["--sync-every", each.removeprefix("every")]
        elif each != "secure":
            words += ["--micro-batch" if each.isdigit() else options.get(each, "--wire"), each]
    return words


def print_row(count, name, bases, ideal, runs):
    """Prints the row of a plan from its runs: the medians of the steps, of the predictions, and of the speedups over
    the one machine in the same round. Returns the relative error of the prediction, or nothing where there is no
    prediction."""
    seconds = [each for run in runs for each in run[0]]
    step = statistics.median(seconds)
    speedups = [base / statistics.median(run[0]) for base, run in zip(bases, runs)]
    _, notices, traffic, plan, spent, *_ = runs[-1]
    used, busy = (statistics.median(run[5][i] for run in runs) for i in (0, 1))
    said = [re.search(r"a step takes about ([0-9.e+-]+) s", " ".join(run[1])) for run in runs]
    prediction = statistics.median(float(each.group(1)) for each in said) if all(said) else None
    predicted = f"{prediction:.3f}" if prediction else "-"
    how = plan["exchange"]
    if plan["members"] == ["master"]:  # the prediction is for the slaves, which the plan does not use
        how = "alone" + (f", with slaves {predicted} s are predicted" if prediction else "")
        predicted = "-"
    if plan["micro_batches"] > 1:
        how += f", micro-batches of {plan['batch'] // plan['micro_batches']}"
    if any(stage["replicated"] for stage in plan["stages"]):
        how += ", replicated"
    if len(runs) > 1:
        how = f"speedups {', '.join(f'{each:.2f}' for each in speedups)}; {how}"
    whole = sum(spent.values()) or 1.0
    how += "; " + ", ".join(f"{what} {100 * part / whole:.0f} %" for what, part in spent.items())
    for notice in notices:
        if "instead" in notice or "alone, since" in notice:
            print(f"       {notice}")
    print(f"{count:>6} {name:<12}{step:>8.3f} {f'({min(seconds):.3f}, {max(seconds):.3f})':<16}{predicted:>10}"
          f"{statistics.median(speedups):>8.2f}{ideal:>6.2f}{traffic[0] / 1e6:>8.1f}{traffic[1] / 1e6:>8.1f}"
          f"{f'{100 * used:.0f} % ({100 * busy:.0f} %)':>14}  {how}", flush=True)
    return prediction / step - 1.0 if prediction and plan["members"] != ["master"] else None


def train_or_again(options, lan, folder, master, slaves, plan):
    """Returns train(), which is repeated once where a slave was lost."""
    for _ in range(2):
        run = train(options, lan, folder, master, slaves, plan, options.steps, options.skip)
        if run is not None:
            return run
    sys.exit("lan.py: a slave was lost again")


def machines_of(options, lan, speeds, count, times=None):
    """Adds the machines of the master and of the slaves. Speeds are shares of a core, or GFLOP/s of paced machines, which
    take the times of the file times(speed) instead where it is given."""
    def machine(name, speed):
        added = {**lan.add(name, None if options.paced else speed), "speed": speed}
        return {**added, "times": times(speed)} if times else added

    return machine("master", max(speeds)), [machine(f"s{i + 1:02}", speeds[i % len(speeds)]) for i in range(count)]


def table(options, folder, speeds, counts):
    """Prints the rows of one net and batch size, and returns the relative errors of the predictions."""
    fastest = max(speeds)
    alone_steps = min(options.steps, 3)
    times = (lambda speed: times_of_core(folder, speed)) if options.measured else None
    described = options.paced and not options.measured
    mbits = options.mbits or (1000.0 * fastest / options.gflops if described else 0.0)
    lan = Lan(folder, mbits or 10000)
    try:
        master, slaves = machines_of(options, lan, speeds, max(counts), times)
        if options.measured:
            measure_core(options, folder, speeds)
        bases = [options.alone or train_alone(options, lan, folder, slaves, alone_steps)]
        kind = f"paced machine of {fastest:g} GFLOP/s, links of {mbits:g} Mbit/s" if described else \
            f"{'paced ' if options.paced else ''}machine of {fastest:g} cores"
        print(f"{options.net}, batch {options.batch}; one {kind}: {bases[0]:.3f} s a step; TCP by {lan.congestion}",
              flush=True)
        if not mbits:
            measured = flops(options) / bases[0] / 1e9
            mbits = round(1000.0 * measured / options.gflops)
            print(f"it does {measured:.1f} GFLOP/s; links of {mbits:g} Mbit/s stand to it as 1 Gbit/s to "
                  f"{options.gflops:g} GFLOP/s", flush=True)
            lan.close()
            lan = Lan(folder, mbits)
            master, slaves = machines_of(options, lan, speeds, max(counts), times)
        print(f"{'slaves':>6} {'plan':<12}{'step/s':>8} {'(least, most)':<16}{'predicted':>10}{'speedup':>8}"
              f"{'ideal':>6}{'out MB':>8}{'in MB':>8}{'CPU (all)':>14}  plan; slaves' time", flush=True)
        rows = {(count, plan): [] for count in counts for plan in options.plans.split(",")}
        errors = []
        for number in range(options.rounds):
            if number > 0:
                if options.measured:
                    measure_core(options, folder, speeds)
                bases.append(options.alone or train_alone(options, lan, folder, slaves, alone_steps))
                print(f"       round {number + 1}: the one machine {bases[-1]:.2f} s a step", flush=True)
            for (count, plan), runs in rows.items():
                runs.append(train_or_again(options, lan, folder, master, slaves[:count], plan))
                if number + 1 == options.rounds:
                    ideal = sum(speeds[i % len(speeds)] for i in range(count)) / fastest
                    errors.append(print_row(count, plan, bases, ideal, runs))
        return [error for error in errors if error is not None]
    finally:
        lan.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", default="nets/cifar10-500-1500.yaml",
                        help="net files, separated by commas")
    parser.add_argument("--data", default="", help="data, as for convoy-master train (default: random pixels, as CIFAR-10 or, "
                        f"for nets that read larger images, as photographs of {CLASSES} classes)")
    parser.add_argument("--set", action="append", default=[], help="override of the net file, as for convoy-master train")
    parser.add_argument("--batch", default="64", help="batch sizes, separated by commas")
    parser.add_argument("--slaves", default="1,2,4", help="numbers of slaves, separated by commas")
    parser.add_argument("--shares", default="0.25", help="CPU quotas of the slaves in cores, taken in turns")
    parser.add_argument("--paced", default="", metavar="GFLOPS[,GFLOPS...]",
                        help="speeds of machines that compute nothing and take the time of computing, taken in turns; "
                        "they replace --shares")
    parser.add_argument("--measured", action="store_true",
                        help="the numbers of --paced are parts of a core of this machine, whose times are measured")
    parser.add_argument("--mbits", type=float, default=0.0,
                        help="bandwidth of each link; 0: scaled by the machine's speed, with 1 Gbit/s for --gflops")
    parser.add_argument("--gflops", type=float, default=240.0, help="see --mbits (default: 240)")
    parser.add_argument("--steps", type=int, default=4, help="steps of a run")
    parser.add_argument("--skip", type=int, default=1, metavar="STEPS", help="first steps of a run that are not counted (default: 1)")
    parser.add_argument("--images", type=int, default=0, help="without --data: number of images to train on. If it is small, slaves "
                        "have kept many of the images of later steps with plans like auto-once (see --skip); 0: no run sees an image twice")
    parser.add_argument("--rounds", type=int, default=1, help="number of runs of the one machine and of each plan, each with a "
                        "calibration; the rows show medians")
    parser.add_argument("--alone", type=float, default=0.0, help="seconds of a step on one machine; 0: measure them")
    parser.add_argument("--plans", default="star,ring,auto",
                        help="plans, separated by commas: star, ring, thesis or auto, with -bf16 for a 16-bit wire, -N for "
                        "micro-batches of N images, -filters or -samples for what machines share, -once for images that travel to a slave "
                        "once, and -secure for encrypted links that ask for a key")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("lan.py: network namespaces and CPU groups require root; run it with sudo")
    speeds = [float(speed) for speed in (options.paced or options.shares).split(",")]
    counts = [int(count) for count in options.slaves.split(",")]
    nets = options.net.split(",")
    batches = [int(batch) for batch in options.batch.split(",")]
    errors = []
    if options.measured and not options.paced:
        sys.exit("lan.py: --measured is for paced machines; give --paced with their parts of a core")
    with tempfile.TemporaryDirectory() as folder:
        if not options.data:
            draw_data(folder, options.images or max(batches) * (options.steps + 1), few=bool(options.images))
        for options.net in nets:
            for options.batch in batches:
                errors += table(options, folder, speeds, counts)
    if errors:
        sizes = [abs(error) for error in errors]
        print(f"predictions of {len(errors)} steps: off by {100 * statistics.median(sizes):.1f} % in the median, "
              f"{100 * max(sizes):.1f} % at most; on average {100 * statistics.mean(errors):+.1f} %")


def make(folder):
    """Makes a folder and returns its name."""
    pathlib.Path(folder).mkdir()
    return folder


def flops(options):
    """Returns the floating-point operations of a step in the net's convolutions, from the figures of convoy-master
    plan."""
    words = [BIN / "convoy-master", "plan", ROOT / options.net, "--batch", options.batch, "--device", "cpu",
             "--threads", "1", *sum((["--set", each] for each in options.set), [])]
    stages = [float(figure) * 1e9 for figure in re.findall(r"([0-9.]+) GFLOP a pass", sh(*words))]
    return sum(stage * (2 if i == 0 else 3) for i, stage in enumerate(stages))


if __name__ == "__main__":
    main()
