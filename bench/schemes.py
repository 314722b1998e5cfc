#!/usr/bin/env python3
"""Measures the schemes of data-parallel training on an emulated LAN of paced machines (see lan.py; needs root), and
compares them with what is said of them beforehand.

For each net, number of workers, scheme and server it trains for some batches of each worker, and prints images per
second, the speedup over one machine, and the traffic per image. Beside them are the speedups by the formulas of Slampa (2017), by
a simulation that knows only the times of a gradient and of a transfer, and by the simulation of convoy-master
(`convoy-bench estimate --master`). All three take their times from the first run with a central server, which has the fewest
workers, and the link's speed from --mbits. For `split` and for a distributed server, which run by a plan, the prediction is
the planner's.

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
import typing

import lan
from emulated_lan import BIN, Lan, sh

NETS = [
    "nets/vgg16e.yaml:8:input.height=128:input.width=128:dense3.units=20",
    "nets/googlenet.yaml:16:side1_out.units=20:side2_out.units=20:out.units=20",
    "nets/squeezenet.yaml:16:conv10.filters=20",
    "nets/resnet34.yaml:16:dense1.units=20",
]
MOMENT_STEPS = 32  # of replicas that train by themselves, between two exchanges of moments
TYPES = {"join": "sync-join", "none": "async", "split": "sync-split"}  # schemes of convoy-master in convoy-bench estimate
FIELDS = ["net", "batch", "gflops", "mbits", "wire", "workers", "scheme", "server", "semaphore", "sync_every", "rounds",
          "seconds_a_batch", "low", "high", "images_a_second", "speedup", "formula", "simulated_plain", "predicted", "error_percent",
          "cpu_percent", "kb_an_image", "weights_kb_an_image"]
SERVERS = ("central", "distributed")
DIFFERENT = 0.05  # the least difference of two schemes for which their order counts
PLANNED = "-"  # the server of `split` where the planner chooses what the members share


class Scheme(typing.NamedTuple):
    name: str
    server: str
    semaphore: bool = False
    period: int = 0  # steps of join between two exchanges of models; 0: gradients are exchanged in each step


def words_of(text, known):
    """Returns the words of an option, which are separated by commas."""
    words = [word for word in text.split(",") if word]
    for word in words:
        if word not in known:
            sys.exit(f"schemes.py: '{word}' is not known; choose among {', '.join(known)}")
    return words


def schemes_of(options):
    """Returns the schemes to measure. What convoy-master refuses is left out: `none`, local steps and the semaphore on a
    distributed server."""
    servers = words_of(options.servers, SERVERS)
    schemes = []
    for name in words_of(options.schemes, TYPES):
        if name == "split":
            schemes += [Scheme(name, server) for server in [PLANNED, *words_of(options.split_servers, SERVERS)]]
        elif "central" in servers:
            schemes += [Scheme(name, "central", semaphore) for semaphore in ([False, True] if options.semaphore else [False])]
        if name == "join":
            schemes += [Scheme(name, "central", False, int(period)) for period in filter(None, options.sync_every.split(","))]
            schemes += [Scheme(name, "distributed")] if "distributed" in servers else []
    return schemes


def plan_name(options, scheme):
    """Returns the scheme as a plan of lan.train(). In a star the sums of gradients go through the master; in a ring the members
    add them."""
    if scheme.name == "split":
        exchange = {PLANNED: "auto", "central": "star-samples", "distributed": "ring-samples"}[scheme.server]
        return f"{exchange}-{options.wire}"
    words = [scheme.name, options.wire]
    words += ["distributed"] if scheme.server == "distributed" else []
    words += ["semaphore"] if scheme.semaphore else []
    return "-".join(words + ([f"every{scheme.period}"] if scheme.period else []))


def batches_of(options, scheme):
    """Returns how many batches each worker has in a run, and how many of them are at the beginning and do not count. Of local steps
    those from one exchange of moments to the next count."""
    if not scheme.period:
        return options.batches_of_a_worker, 1
    steps = scheme.period * math.ceil(MOMENT_STEPS / scheme.period)
    return 2 * steps, steps


class Run(typing.NamedTuple):
    seconds: float  # of a batch
    notices: list
    cores: float  # the part of this machine's cores that members used
    bytes_an_image: float  # on the master's link, both ways
    weights_an_image: float  # bytes of weights, gradients and moments, to the master and from it


def run(options, emulated, folder, machines, scheme):
    """Trains, and returns the Run. The first batch of each worker does not count, and for `none` nor does the last one, after which
    the worker is sent no weights."""
    master, slaves = machines
    count = len(slaves)
    batches, skipped = batches_of(options, scheme)
    steps, first, last = (batches * count, count, count) if scheme.name == "none" else (batches, skipped, 0)
    for _ in range(2):
        result = lan.train(options, emulated, folder, master, slaves, plan_name(options, scheme), steps, first, last)
        if result is not None:
            seconds, notices, traffic, _, _, used, weights = result
            in_a_step = count if scheme.name == "join" else 1
            images = options.batch * in_a_step
            return Run(statistics.mean(seconds) / in_a_step, notices, used[0], sum(traffic) / images, weights / images)
    sys.exit("schemes.py: a slave was lost again")


def estimate_rows(words):
    """Returns the rows of convoy-bench estimate."""
    words = [*words, "--output", "csv", "--jitter", 1]  # timers and threads are late at times
    return list(csv.DictReader(sh(BIN / "convoy-bench", "estimate", *words).splitlines()))


def predictions(options, kept, count, scheme):
    """Returns, by type and server, the speedups over one machine by the formulas, by the simulation without a director, and
    by the simulation of convoy-master."""
    batches, skipped = batches_of(options, scheme)
    common = ["--workers", count, "--type", TYPES["join"] if scheme.period else ",".join(TYPES.values())]
    common += ["--batches", (batches if scheme.period else batches - 1) * count, "--skip", skipped * count]
    common += ["--semaphore"] if scheme.semaphore else []
    common += ["--sync-every", scheme.period] if scheme.period else []

    def rows_of(words):
        rows = estimate_rows([*words, *common])
        return {(row["type"], row["server"]): row for row in rows if int(row["workers"]) == count}

    ours = rows_of(["--from-run", kept, "--master", "--link", options.mbits])
    times = next(iter(ours.values()))
    plain = rows_of(["--t-grad", times["gradient_s"], "--t-comm", times["transfer_s"], "--latency", 0])
    return {point: (float(row["estimate_speedup"]), float(plain[point]["simulated_speedup"]), float(row["simulated_speedup"]))
            for point, row in ours.items()}


def scheme_of(row):
    return Scheme(row["scheme"], row["server"], bool(row["semaphore"]), int(row["sync_every"] or 0))


def has_plan(row):
    """Returns whether the members share the batches of a step by one plan, so that the planner predicts its time."""
    return row["scheme"] == "split" or row["server"] == "distributed"


def predict(options, rows, kept):
    """Adds predictions to the rows of a net. `kept` is the folder of a run of replicas of one slave; without it there are none but
    the planner's."""
    known = {}
    for row in rows:
        row.setdefault("formula", "")
        row.setdefault("simulated_plain", "")
        if row["server"] != PLANNED and os.path.exists(kept):
            scheme = scheme_of(row)
            point = (row["workers"], scheme.semaphore, scheme.period)
            if point not in known:
                known[point] = predictions(options, kept, row["workers"], scheme)
            said = [f"{speedup:.3f}" for speedup in known[point][TYPES[scheme.name], scheme.server]]
            row["formula"], row["simulated_plain"] = said[:2]
            row["predicted"] = row["predicted"] if has_plan(row) else said[2]
        row["error_percent"] = f"{100 * error_of(row, 'predicted'):.1f}" if row["predicted"] else ""


def predicted_by_plan(notices, batches, alone):
    """Returns the planner's speedup in a step of some batches, or nothing."""
    said = re.search(r"a step takes about ([0-9.e+-]+) s", " ".join(notices))
    return f"{alone * batches / float(said.group(1)):.3f}" if said else ""


def row_of(options, name, alone, count, scheme, results):
    """Returns the row of a point from its runs, without predictions by replicas."""
    seconds = [each.seconds for each in results]
    middle = statistics.median(seconds)
    row = {"net": name, "batch": options.batch, "gflops": options.paced, "mbits": f"{options.mbits:g}", "wire": options.wire,
           "workers": count, "scheme": scheme.name, "server": scheme.server, "semaphore": int(scheme.semaphore),
           "sync_every": scheme.period or "", "rounds": len(results), "seconds_a_batch": f"{middle:.4f}",
           "low": f"{min(seconds):.4f}", "high": f"{max(seconds):.4f}", "images_a_second": f"{options.batch / middle:.2f}",
           "speedup": f"{alone / middle:.3f}", "predicted": "",
           "cpu_percent": f"{100 * statistics.median(each.cores for each in results):.0f}",
           "kb_an_image": f"{1e-3 * statistics.median(each.bytes_an_image for each in results):.2f}",
           "weights_kb_an_image": f"{1e-3 * statistics.median(each.weights_an_image for each in results):.2f}"}
    if has_plan(row):
        row["predicted"] = predicted_by_plan(results[-1].notices, count if scheme.name == "join" else 1, alone)
    return row


def measure(options, net, folder):
    """Measures and prints the rows of a net."""
    options.net, batch, *options.set = net.split(":")
    options.batch = int(batch)
    emulated = Lan(folder, options.mbits)
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
                if scheme.name != "split" and scheme.server == "central" and not os.path.exists(kept):
                    shutil.copytree(f"{folder}/run", kept)
        rows = [row_of(options, name, alone, *point, results) for point, results in runs.items()]
        predict(options, rows, kept)
        for row in rows:
            print_row(row)
    finally:
        emulated.close()
    return rows


def print_row(row):
    print(f"{row['workers']:>3} {title_of(row):<28}{row['seconds_a_batch']:>9} s "
          f"({row['low']} to {row['high']}) speedup {row['speedup']:>6}, formula {row['formula'] or '-':>6}, plain "
          f"{row['simulated_plain'] or '-':>6}, predicted {row['predicted'] or '-':>6} ({row['error_percent'] or '-'} %), "
          f"{row['kb_an_image'] or '-'} KB an image, of which weights {row['weights_kb_an_image'] or '-'}, CPU {row['cpu_percent']} %",
          flush=True)


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
    for what, column, some in (("formulas", "formula", rows),
                               ("simulation without a director", "simulated_plain", rows),
                               ("simulation of convoy-master", "predicted", [row for row in rows if not has_plan(row)]),
                               ("the same, with split and distributed servers by the planner", "predicted", rows)):
        errors = [error_of(row, column) for row in some if row[column]]
        if not errors:
            continue
        right, pairs = order_of(some, column)
        print(f"{what}: {len(errors)} points, off by {100 * statistics.median(map(abs, errors)):.1f} % in the median, "
              f"{100 * max(map(abs, errors)):.1f} % at most, {100 * statistics.mean(errors):+.1f} % on average; the faster of "
              f"{pairs} pairs is named rightly in {right}")


def title_of(row):
    """Returns the name of a row's scheme for people."""
    return " ".join(filter(None, [row["scheme"], row["server"] if row["server"] != PLANNED else "",
                                  "semaphore" if row["semaphore"] else "",
                                  f"every {row['sync_every']}" if row["sync_every"] else ""]))


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
                      f"$line{number} using 1:3 with lines dashtype 2 linetype {number + 1} notitle"]
        script = pathlib.Path(folder) / f"schemes-{net}.gnuplot"
        script.write_text(f"{data}set terminal pngcairo size 800,500\nset output 'schemes-{net}.png'\nset xlabel 'workers'\n"
                          f"set ylabel 'speedup over one machine'\nset title '{net} (dashed: predicted)'\nset yrange [0:*]\nset xtics 1\nset grid\n"
                          "set key outside right top vertical Left reverse\nplot " + ", \\\n     ".join(plots) + "\n")
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
            rows += [{**dict.fromkeys(FIELDS, ""), **row, "workers": int(row["workers"]), "semaphore": int(row["semaphore"])}
                     for row in csv.DictReader(text)]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", nargs="+", default=NETS, metavar="NET:BATCH[:SET...]",
                        help="net files with their batch sizes and overrides of their fields (default: the source's four nets)")
    parser.add_argument("--data", default="", help="data, as for convoy-master train (default: random pixels)")
    parser.add_argument("--workers", default="1,2,4,8", help="numbers of workers, separated by commas")
    parser.add_argument("--schemes", default="join,none,split", help="schemes, separated by commas: join, none, split")
    parser.add_argument("--servers", default="central,distributed",
                        help="servers of join and none, separated by commas; none has a central server alone")
    parser.add_argument("--split-servers", default="", metavar="SERVERS",
                        help="measure split also where the members share the images of a batch whatever the planner thinks: central "
                        "sends sums of gradients through the master, distributed from member to member; separated by commas")
    parser.add_argument("--semaphore", action="store_true",
                        help="measure join and none on a central server also with the semaphore")
    parser.add_argument("--sync-every", default="", metavar="H[,H...]",
                        help="measure join on a central server also with so many local steps between two exchanges of models")
    parser.add_argument("--paced", default="60", help="speed of each machine in GFLOP/s")
    parser.add_argument("--mbits", type=float, default=0.0, help="speed of each link (default: 1 Gbit/s for each 240 GFLOP/s)")
    parser.add_argument("--wire", default="bf16", choices=["fp32", "bf16", "fp16"],
                        help="number type in which maps, weights and gradients travel, and models if it is bf16")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each point; the rows show medians")
    parser.add_argument("--batches-of-a-worker", type=int, default=5,
                        help="batches of each worker in a run, at least 3; the first does not count")
    parser.add_argument("--out", default="schemes", help="folder for schemes.csv, the pictures, and a run of each net, with its times")
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
    batches = max(batches_of(options, scheme)[0] for scheme in schemes_of(options))
    images = most * max(options.counts) * (batches + 2)
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
