#!/usr/bin/env python3
"""Measures the schemes of data-parallel training on an emulated LAN of paced machines (see lan.py; needs root), and
compares them with what is said of them beforehand.

For each net, number of workers, scheme and server it trains for some batches of each worker, and prints images per
second and the speedup over one machine. Beside them are the speedups by the formulas of Slampa (2017), by a simulation
that knows only the times of a gradient and of a transfer, and by the simulation of convoy-master (`convoy-bench
estimate --master`). All three take their times from the first run, which has the fewest workers, and the link's
speed from --mbits. For `split`, the plan of tiles, the prediction is the planner's.

At the end it says how far off the predictions are in the median, and in how many pairs of schemes that differ by more
than 5 % the faster one is the one predicted.

usage: bench/schemes.py [options]      (after scripts/build)
"""
import argparse
import csv
import itertools
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import lan
from emulated_lan import BIN, Lan, sh

NETS = [
    "nets/vgg16e.yaml:8:input.height=128:input.width=128:dense3.units=20",
    "nets/googlenet.yaml:16:side1_out.units=20:side2_out.units=20:out.units=20",
    "nets/squeezenet.yaml:16:conv10.filters=20",
    "nets/resnet34.yaml:16:dense1.units=20",
]
TYPES = {"join": "sync-join", "none": "async"}  # schemes of convoy-master by their names in convoy-bench estimate
FIELDS = ["net", "batch", "gflops", "mbits", "wire", "workers", "scheme", "server", "semaphore", "rounds", "seconds_a_batch",
          "low", "high", "images_a_second", "speedup", "formula", "simulated_plain", "predicted", "error_percent", "cpu_percent"]
DIFFERENT = 0.05  # the least difference of two schemes for which their order counts


def schemes_of(options):
    """Returns the schemes to measure, as (scheme, server, semaphore). Servers and semaphores that convoy-master does not
    have are left out."""
    known = sh(BIN / "convoy-master", "train", "--help")
    servers = options.servers.split(",") if "--server " in known else ["central"]
    semaphores = [False, True] if options.semaphore and "--semaphore" in known else [False]
    schemes = []
    for scheme in options.schemes.split(","):
        if scheme == "split":
            schemes.append((scheme, "-", False))
        elif scheme in TYPES:
            schemes += [(scheme, server, semaphore) for server in servers for semaphore in semaphores]
        else:
            sys.exit(f"schemes.py: unknown scheme '{scheme}'; expected join, none or split")
    return schemes


def plan_name(options, scheme, server, semaphore):
    """Returns the scheme as a plan of lan.train()."""
    words = ["auto" if scheme == "split" else scheme, options.wire]
    if server == "distributed":
        words.append(server)
    return "-".join(words + (["semaphore"] if semaphore else []))


def run(options, emulated, folder, machines, scheme):
    """Trains, and returns the seconds of a batch, the notices, and the part of this machine's cores that members
    used. The first batch of each worker does not count, and for `none` nor does the last one, after which the worker is
    sent no weights."""
    master, slaves = machines
    count, name = len(slaves), scheme[0]
    batches = options.batches_of_a_worker
    steps, first = (batches * count, count) if name == "none" else (batches, 1)
    for _ in range(2):
        result = lan.train(options, emulated, folder, master, slaves, plan_name(options, *scheme), steps, first)
        if result is not None:
            seconds, notices, _, _, _, used = result
            if name == "none":
                seconds = seconds[:-count]
            in_a_step = count if name == "join" else 1
            return statistics.mean(seconds) / in_a_step, notices, used[0]
    sys.exit("schemes.py: a slave was lost again")


def estimate_rows(words):
    """Returns the rows of convoy-bench estimate."""
    words = [*words, "--output", "csv", "--jitter", 1]  # timers and threads are late at times
    return list(csv.DictReader(sh(BIN / "convoy-bench", "estimate", *words).splitlines()))


def predictions(options, kept, count, semaphore):
    """Returns, by type and server, the speedups over one machine by the formulas, by the simulation without a director, and
    by the simulation of convoy-master."""
    common = ["--workers", count, "--batches", (options.batches_of_a_worker - 1) * count, "--skip", count,
              "--type", ",".join(TYPES.values())]
    common += ["--semaphore"] if semaphore else []

    def rows_of(words):
        rows = estimate_rows([*words, *common])
        return {(row["type"], row["server"]): row for row in rows if int(row["workers"]) == count}

    ours = rows_of(["--from-run", kept, "--master", "--link", options.mbits])
    times = next(iter(ours.values()))
    plain = rows_of(["--t-grad", times["gradient_s"], "--t-comm", times["transfer_s"], "--latency", 0])
    return {point: (float(row["estimate_speedup"]), float(plain[point]["simulated_speedup"]), float(row["simulated_speedup"]))
            for point, row in ours.items()}


def predict(options, rows, kept):
    """Adds predictions to the rows of a net. `kept` is the folder of a run of replicas of one slave."""
    known = {}
    for row in rows:
        if row["scheme"] == "split":
            row["formula"] = row["simulated_plain"] = ""
        else:
            point = (row["workers"], row["semaphore"])
            if point not in known:
                known[point] = predictions(options, kept, *point)
            said = known[point][TYPES[row["scheme"]], row["server"]]
            row["formula"], row["simulated_plain"], row["predicted"] = (f"{speedup:.3f}" for speedup in said)
        row["error_percent"] = f"{100 * error_of(row, 'predicted'):.1f}" if row["predicted"] else ""


def predicted_split(notices, alone):
    """Returns the planner's speedup, or nothing."""
    said = re.search(r"a step takes about ([0-9.e+-]+) s", " ".join(notices))
    return alone / float(said.group(1)) if said else None


def measure(options, net, folder):
    """Measures and prints the rows of a net."""
    options.net, batch, *options.set = net.split(":")
    options.batch = int(batch)
    emulated = Lan(folder, options.mbits)
    rows = []
    try:
        speeds = [float(options.paced)]
        master, slaves = lan.machines_of(options, emulated, speeds, max(options.counts))
        alone = lan.train_alone(options, emulated, folder, slaves, 3)
        name = pathlib.Path(options.net).stem
        print(f"\n{name}, batch {options.batch}: one machine {alone:.4f} s a batch; links of {options.mbits:g} Mbit/s", flush=True)
        points = list(itertools.product(options.counts, schemes_of(options)))
        runs = {point: [] for point in points}
        kept = f"{options.out}/run-{name}"
        shutil.rmtree(kept, ignore_errors=True)
        for _ in range(options.rounds):
            for count, scheme in points:
                runs[count, scheme].append(run(options, emulated, folder, (master, slaves[:count]), scheme))
                if scheme[0] != "split" and not os.path.exists(kept):
                    shutil.copytree(f"{folder}/run", kept)
        for (count, (what, server, semaphore)), results in runs.items():
            seconds = [each[0] for each in results]
            middle = statistics.median(seconds)
            split = predicted_split(results[-1][1], alone) if what == "split" else None
            rows.append({"net": name, "batch": options.batch, "gflops": options.paced, "mbits": f"{options.mbits:g}",
                         "wire": options.wire, "workers": count, "scheme": what, "server": server, "semaphore": int(semaphore),
                         "rounds": len(results), "seconds_a_batch": f"{middle:.4f}", "low": f"{min(seconds):.4f}",
                         "high": f"{max(seconds):.4f}", "images_a_second": f"{options.batch / middle:.2f}",
                         "speedup": f"{alone / middle:.3f}", "predicted": f"{split:.3f}" if split else "",
                         "cpu_percent": f"{100 * statistics.median(each[2] for each in results):.0f}"})
        predict(options, rows, kept)
        for row in rows:
            print_row(row)
    finally:
        emulated.close()
    return rows


def print_row(row):
    print(f"{row['workers']:>3} {title_of(row):<28}{row['seconds_a_batch']:>9} s "
          f"({row['low']} to {row['high']}) speedup {row['speedup']:>6}, formula {row['formula'] or '-':>6}, plain "
          f"{row['simulated_plain'] or '-':>6}, predicted {row['predicted'] or '-':>6} ({row['error_percent']} %), "
          f"CPU {row['cpu_percent']} %", flush=True)


def error_of(row, column):
    """Returns the relative error of the predicted time: positive where the prediction is too slow."""
    return float(row["speedup"]) / float(row[column]) - 1.0


def order_of(rows, column):
    """Returns in how many pairs of schemes, of the same net and number of workers, the faster one has the larger
    speedup in `column`, and how many pairs there are. Pairs whose speedups differ by less than 5 % do not count."""
    right = pairs = 0
    for one, other in itertools.combinations(rows, 2):
        if (one["net"], one["workers"]) != (other["net"], other["workers"]) or not (one[column] and other[column]):
            continue
        ratio = float(one["speedup"]) / float(other["speedup"])
        if abs(math.log(ratio)) <= math.log(1.0 + DIFFERENT):
            continue
        pairs += 1
        right += (ratio > 1.0) == (float(one[column]) > float(other[column]))
    return right, pairs


def summary(rows):
    """Prints how good the predictions are over all points."""
    servers = [row for row in rows if row["scheme"] != "split"]
    for what, column, some in (("formulas", "formula", servers),
                               ("simulation without a director", "simulated_plain", servers),
                               ("simulation of convoy-master", "predicted", servers),
                               ("the same, with split by the planner", "predicted", rows)):
        errors = [error_of(row, column) for row in some if row[column]]
        if not errors:
            continue
        right, pairs = order_of(some, column)
        print(f"{what}: {len(errors)} points, off by {100 * statistics.median(map(abs, errors)):.1f} % in the median, "
              f"{100 * max(map(abs, errors)):.1f} % at most, {100 * statistics.mean(errors):+.1f} % on average; the faster of "
              f"{pairs} pairs is named rightly in {right}")


def title_of(row):
    """Returns the name of a row's scheme for people."""
    server = row["server"] if row["server"] != "-" else ""
    return " ".join(filter(None, [row["scheme"], server, "semaphore" if row["semaphore"] else ""]))


def draw(rows, folder):
    """Draws a picture for each net: the speedup by the number of workers, with a line for each scheme as measured and a
    dashed one as predicted."""
    for net in dict.fromkeys(row["net"] for row in rows):
        lines = {}
        for row in rows:
            if row["net"] == net:
                lines.setdefault(title_of(row), []).append(row)
        data, plots = "", []
        for number, (title, points) in enumerate(lines.items()):
            points.sort(key=lambda row: row["workers"])
            block = "".join(f"{row['workers']} {row['speedup']} {row['predicted'] or 'NaN'}\n" for row in points)
            data += f"$line{number} << END\n{block}END\n"
            plots += [f"$line{number} using 1:2 with linespoints linetype {number + 1} title '{title}'",
                      f"$line{number} using 1:3 with lines dashtype 2 linetype {number + 1} title '{title}, predicted'"]
        script = pathlib.Path(folder) / f"schemes-{net}.gnuplot"
        script.write_text(f"{data}set terminal pngcairo size 700,500\nset output 'schemes-{net}.png'\nset xlabel 'workers'\n"
                          f"set ylabel 'speedup over one machine'\nset title '{net}'\nset yrange [0:*]\nset xtics 1\nset grid\n"
                          "set key outside bottom center horizontal\nplot " + ", \\\n     ".join(plots) + "\n")
        if shutil.which("gnuplot") is None or subprocess.run(["gnuplot", script.name], cwd=folder, check=False).returncode != 0:
            print(f"schemes.py: {script} was not drawn: gnuplot is not installed, or failed", file=sys.stderr)


def write(rows, file):
    with open(file, "w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, FIELDS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read(files):
    """Returns the rows of earlier runs."""
    rows = []
    for file in files:
        with open(file, encoding="utf-8") as text:
            rows += [{**row, "workers": int(row["workers"]), "semaphore": int(row["semaphore"])} for row in csv.DictReader(text)]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", nargs="+", default=NETS, metavar="NET:BATCH[:SET...]",
                        help="net files with their batch sizes and overrides of their fields (default: the source's four nets)")
    parser.add_argument("--data", default="", help="data, as for convoy-master train (default: random pixels)")
    parser.add_argument("--workers", default="1,2,4,8", help="numbers of workers, separated by commas")
    parser.add_argument("--schemes", default="join,none,split", help="schemes, separated by commas: join, none, split")
    parser.add_argument("--servers", default="central,distributed", help="servers of join and none, separated by commas")
    parser.add_argument("--semaphore", action="store_true", help="measure join and none also with the semaphore")
    parser.add_argument("--paced", default="60", help="speed of each machine in GFLOP/s")
    parser.add_argument("--mbits", type=float, default=0.0, help="speed of each link (default: 1 Gbit/s for each 240 GFLOP/s)")
    parser.add_argument("--wire", default="bf16", choices=["fp32", "bf16", "fp16"],
                        help="number type of maps and images on the wire; weights and gradients of join and none travel in fp32")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each point; the rows show medians")
    parser.add_argument("--batches-of-a-worker", type=int, default=5,
                        help="batches of each worker in a run, at least 3; the first does not count")
    parser.add_argument("--out", default="schemes", help="folder for schemes.csv, the pictures, and a run of each net, which has its times")
    parser.add_argument("--read", nargs="*", default=[], metavar="FILE",
                        help="take the rows of these files and measure nothing: say how good the predictions are, and draw")
    parser.add_argument("--predict", default="", metavar="FOLDER",
                        help="with --read: predict again, from the runs that --out kept in this folder")
    options = parser.parse_args()
    if options.batches_of_a_worker < 3:
        parser.error("--batches-of-a-worker must be at least 3")
    pathlib.Path(options.out).mkdir(parents=True, exist_ok=True)
    if options.read:
        rows = read(options.read)
        if options.predict:
            for net, some in itertools.groupby(rows, lambda row: row["net"]):
                some = list(some)
                options.mbits = float(some[0]["mbits"])
                predict(options, some, f"{options.predict}/run-{net}")
            write(rows, f"{options.out}/schemes.csv")
        for row in rows:
            print_row(row)
    else:
        rows = measure_all(options)
    summary(rows)
    draw(rows, options.out)


def measure_all(options):
    if os.geteuid() != 0:
        sys.exit("schemes.py: network namespaces require root; run it with sudo")
    options.counts = [int(count) for count in options.workers.split(",")]
    options.mbits = options.mbits or 1000.0 * float(options.paced) / 240.0
    most = max(int(net.split(":")[1]) for net in options.nets)
    images = most * max(options.counts) * (options.batches_of_a_worker + 2)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        if not options.data:
            lan.draw_data(folder, images)
        for net in options.nets:
            rows += measure(options, net, folder)
            write(rows, f"{options.out}/schemes.csv")
    return rows


if __name__ == "__main__":
    main()
