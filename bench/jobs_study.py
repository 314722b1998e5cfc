#!/usr/bin/env python3
"""Studies `convoy-master jobs` on an emulated LAN of unequal slaves (see lan.py): 12 jobs of different sizes over three slaves
with CPU quotas of 1:2:4, and the time until the last job has ended (makespan). It stands beside the bound that no order of whole
jobs can beat: the larger of

    total      the operations of all jobs over the summed speed of the slaves,
    longest    those of the longest job over the speed of the fastest slave.

The speed of a slave is the one of this run: the operations of its jobs over its seconds on them. So the ratio of makespan and
bound shows what the placing of jobs costs, and not what quotas, links and the master's dense layers cost.

Then the study runs the same jobs once more and kills a slave when half of the first makespan is over. All jobs must end, each
with exactly the weights of the undisturbed run; the study fails otherwise. The bound of this run counts the slave until then. A
slave that did no whole job in this run counts with its speed of the first run.

It writes a row for each run to --csv. It needs root, iproute2 and cgroups; without root it skips, with exit code 77.

usage: bench/jobs_study.py [options]      (after scripts/build)
"""
import argparse
import contextlib
import csv
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from emulated_lan import BIN, PORT, ROOT, Lan, stop

SKIPPED = 77
# Filters of conv1 and conv2, and epochs. The longest job is about six times as long as the shortest.
JOBS = [(16, 32, 3), (8, 48, 4), (16, 64, 3), (24, 48, 2), (8, 16, 4), (16, 96, 2),
        (12, 40, 3), (24, 64, 4), (8, 32, 2), (16, 48, 3), (20, 32, 4), (12, 24, 5)]
FIELDS = ["machine", "commit", "date", "run", "jobs", "slaves", "quotas", "mbits", "makespan_s", "bound_total_s", "bound_longest_s",
          "makespan_to_bound", "fastest_alone_s", "killed", "killed_after_s", "lost", "equal_weights", "other_work_percent"]


def write_list(file):
    """Writes the list of jobs."""
    lines = ["net: " + json.dumps(str(ROOT / "nets/glyphs.yaml")), "jobs:"]
    for number, (first, second, epochs) in enumerate(JOBS, 1):
        lines.append(f"  - {{name: j{number:02}, epochs: {epochs}, seed: {number}, "
                     f"set: {{conv1.filters: {first}, conv2.filters: {second}}}}}")
    pathlib.Path(file).write_text("\n".join(lines) + "\n", encoding="utf-8")


def busy_seconds():
    """Returns the seconds that the cores have spent on programs so far, and all their seconds."""
    fields = [int(word) for word in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    tick = os.sysconf("SC_CLK_TCK")
    return (sum(fields) - fields[3] - fields[4]) / tick, sum(fields) / tick


def seconds_of(process):
    """Returns the processor seconds of a process and all its threads; 0 where it is gone."""
    with contextlib.suppress(OSError):
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


class Study:
    """The machines, and the runs on them."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.lan = Lan(folder, options.mbits)
        self.master = self.lan.add("master", max(options.quotas))
        self.slaves = [self.lan.add(f"s{i + 1:02}", quota) for i, quota in enumerate(options.quotas)]
        write_list(f"{folder}/jobs.yaml")

    def run(self, name, kill=None, after=0.0):
        """Trains all jobs, and kills the slave `kill` when the first job began `after` seconds ago. Returns what happened."""
        out = f"{self.folder}/{name}"
        address = f"tcp://{self.master['address']}:{PORT}"
        slaves = {slave["name"]: self.lan.start(slave, [BIN / "convoy-slave", address, "--insecure", "--cache", "none",
                                                        "--device", "cpu", "--threads", 1, "--name", slave["name"]],
                                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                  for slave in self.slaves}
        words = [BIN / "convoy-master", "jobs", f"{self.folder}/jobs.yaml", "--slaves", len(self.slaves), "--master-jobs", 0,
                 "--listen", address, "--insecure", "--device", "cpu", "--threads", 1, "--format", "json", "--out", out]
        log = open(f"{self.folder}/{name}.log", "w+", encoding="utf-8")
        master = self.lan.start(self.master, words, stdout=log, stderr=subprocess.STDOUT)
        run = {"events": [], "killed_after": None, "began": None, "out": out}
        members = [master, *slaves.values()]
        used = work = whole = 0.0
        told = open(log.name, encoding="utf-8")
        text = ""
        try:
            while True:
                ended = master.poll() is not None
                text += told.read()
                *lines, text = text.split("\n")
                now = time.monotonic()
                for line in lines:
                    with contextlib.suppress(json.JSONDecodeError):
                        event = json.loads(line)
                        run["events"].append((now, event))
                        if event["event"] == "begin" and run["began"] is None:
                            run["began"] = now
                            used, (work, whole) = sum(map(seconds_of, members)), busy_seconds()
                        if event["event"] in ("notice", "error") and self.options.verbose:
                            print(f"       {event.get('text') or event.get('message')}", flush=True)
                if ended:
                    break
                self.lan.cgroups.free_network_threads()
                if kill and run["began"] and run["killed_after"] is None and now - run["began"] >= after:
                    used -= seconds_of(slaves[kill])  # what it did is not counted from here on
                    stop([slaves[kill]])
                    run["killed_after"] = time.monotonic() - run["began"]
                run["used"], run["busy"] = sum(map(seconds_of, members)), busy_seconds()
                time.sleep(0.05)
            if master.returncode != 0:
                sys.exit(f"jobs_study: the master failed: {[event for _, event in run['events']][-3:]} {text}")
        finally:
            stop(members)
            told.close()
            log.close()
        busy, seconds = run["busy"][0] - work, run["busy"][1] - whole
        run["other_work"] = max(0.0, busy - max(0.0, run["used"] - used)) / seconds
        return run

    def close(self):
        self.lan.close()


def summary(run):
    """Returns the makespan, the operations of each job, and each slave's operations a second in the jobs that it did as a whole."""
    gflops, operations, seconds, done, lost = {}, {}, {}, {}, set()
    end = run["began"]
    for when, event in run["events"]:
        if event["event"] == "machine":
            gflops[event["machine"]] = event["gflops"]
        elif event["event"] == "begin":
            predicted = event["predicted_seconds"] * gflops[event["machine"]]
            operations.setdefault(event["job"], predicted)  # of the whole job, when it begins for the first time
        elif event["event"] == "leave":
            end = when
            if event["outcome"] == "lost":
                lost.add(event["job"])
            elif event["outcome"] == "finished" and event["job"] not in lost:
                done[event["machine"]] = done.get(event["machine"], 0.0) + operations[event["job"]]
                seconds[event["machine"]] = seconds.get(event["machine"], 0.0) + event["seconds"]
    return end - run["began"], operations, {machine: done[machine] / seconds[machine] for machine in done}


def bounds(operations, speeds, killed=None, after=0.0):
    """Returns the two bounds in seconds. A killed slave counts for `after` seconds."""
    total, longest = sum(operations.values()), max(operations.values())
    left = {machine: speed for machine, speed in speeds.items() if machine != killed}
    by_total = total / sum(speeds.values())
    if killed and by_total > after:
        by_total = after + (total - after * sum(speeds.values())) / sum(left.values())
    fastest = max(left.values())
    return by_total, longest / fastest if killed != max(speeds, key=speeds.get) else longest / speeds[killed]


def equal_weights(one, other):
    """Returns how many jobs have the same weights in both runs, to the bit."""
    def weights(run, number):
        return pathlib.Path(f"{run['out']}/j{number:02}/weights.safetensors").read_bytes()

    return sum(weights(one, number) == weights(other, number) for number in range(1, len(JOBS) + 1))


def row_of(options, name, run, speeds, operations):
    makespan = summary(run)[0]
    total, longest = bounds(operations, speeds, options.kill if run["killed_after"] else None, run["killed_after"] or 0.0)
    finished = sum(event["event"] == "leave" and event["outcome"] == "finished" for _, event in run["events"])
    lost = sum(event["event"] == "leave" and event["outcome"] == "lost" for _, event in run["events"])
    if finished != len(JOBS):
        sys.exit(f"jobs_study: {finished} of {len(JOBS)} jobs have finished in the run '{name}'")
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {"machine": options.machine, "commit": commit.stdout.strip(), "date": datetime.date.today().isoformat(),
            "run": name, "jobs": len(JOBS), "slaves": len(options.quotas), "quotas": " ".join(f"{q:g}" for q in options.quotas),
            "mbits": f"{options.mbits:g}", "makespan_s": f"{makespan:.1f}", "bound_total_s": f"{total:.1f}",
            "bound_longest_s": f"{longest:.1f}", "makespan_to_bound": f"{makespan / max(total, longest):.3f}",
            "fastest_alone_s": f"{sum(operations.values()) / max(speeds.values()):.1f}",
            "killed": options.kill if run["killed_after"] else "",
            "killed_after_s": f"{run['killed_after']:.1f}" if run["killed_after"] else "", "lost": lost,
            "other_work_percent": f"{100 * run['other_work']:.0f}"}


def show(row, speeds):
    print(f"{row['run']}: {row['makespan_s']} s for {row['jobs']} jobs; bounds: total {row['bound_total_s']} s, longest job "
          f"{row['bound_longest_s']} s; {row['makespan_to_bound']} times the larger. The fastest slave alone would take "
          f"{row['fastest_alone_s']} s. Speeds of the slaves in their jobs: "
          + ", ".join(f"{name} {speed:.2f} GFLOP/s" for name, speed in sorted(speeds.items()))
          + f". Other programs took {row['other_work_percent']} % of the cores"
          + (f". {row['killed']} was killed after {row['killed_after_s']} s: {row['lost']} job went on elsewhere, and "
             f"{row['equal_weights']} of {row['jobs']} jobs have the same weights to the bit" if row["killed"] else ""),
          flush=True)


def study(options, folder):
    runs = Study(options, folder)
    try:
        first = runs.run("undisturbed")
        makespan, operations, speeds = summary(first)
        missing = {slave["name"] for slave in runs.slaves} - set(speeds)
        if missing:
            sys.exit(f"jobs_study: {', '.join(sorted(missing))} trained no job, so that its speed is not known; is this "
                     "machine busy?")
        rows = [{**row_of(options, "undisturbed", first, speeds, operations), "equal_weights": ""}]
        show(rows[0], speeds)
        second = runs.run("killed", options.kill, makespan / 2)
        if second["killed_after"] is None:
            sys.exit("jobs_study: the second run was over before the slave was killed")
        equal = equal_weights(first, second)
        speeds.update(summary(second)[2])  # the others may be faster while one is gone
        rows.append({**row_of(options, "killed", second, speeds, operations), "equal_weights": equal})
        show(rows[1], speeds)
        return rows, equal == len(JOBS)
    finally:
        runs.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quotas", default="0.15,0.3,0.6", help="CPU quotas of the slaves in cores, separated by commas")
    parser.add_argument("--mbits", type=float, default=1000.0, help="speed of each link")
    parser.add_argument("--kill", default="s02", help="slave that is killed in the second run: s01 for the first quota, and so on")
    parser.add_argument("--csv", default="jobs-study.csv", help="file for the rows; it is written anew")
    parser.add_argument("--machine", default="here", help="name of this machine in the rows")
    parser.add_argument("--verbose", action="store_true", help="print the notices of the master")
    options = parser.parse_args()
    options.quotas = [float(word) for word in options.quotas.split(",")]
    if options.kill not in [f"s{i + 1:02}" for i in range(len(options.quotas))] or len(options.quotas) < 2:
        parser.error(f"--kill {options.kill} must be one of at least two slaves")
    if os.geteuid() != 0:
        print("jobs_study: skipped, because network namespaces and CPU groups need root; run it with sudo")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        rows, equal = study(options, folder)
    with open(options.csv, "w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    if not equal:
        sys.exit("jobs_study: some jobs have other weights than in the undisturbed run")


if __name__ == "__main__":
    main()
