#!/usr/bin/env python3
"""What promotion saves in a search: the same trials with rungs (ASHA) and without them, each for all its epochs.

usage: search_study.py --data FOLDER [--out FOLDER] [--trials 30] [--epochs 3] [--seeds 1] [--method random] [OPTION...]

Searches LeNet with few filters for its learning rate, momentum, batch, weight decay and filters. For each seed it prints the
training images of both searches, the best test accuracy of each, and how many trials diverged. Searches go on where an earlier call
was stopped. Further options are those of convoy-master search, such as --threads 1.
"""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
SPACE = """net: {net}
method: {method}
seed: {seed}
trials: {trials}
{rungs}parameters:
  training.learning_rate: {{log: [0.0003, 1]}}
  training.momentum: {{linear: [0, 0.95]}}
  training.batch: {{choice: [32, 64, 128]}}
  training.weight_decay: {{log: [0.000001, 0.01]}}
  conv1.filters: {{integer: [4, 10]}}
  conv2.filters: {{integer: [8, 24]}}
"""


def search(options, more, seed: int, rungs: str, folder: pathlib.Path) -> list:
    """Runs a search, or the rest of it; its results."""
    if (folder / "space.yaml").exists():
        command = [options.program, "search", "--resume", str(folder), *more]
    else:
        folder.mkdir(parents=True, exist_ok=True)
        space = folder.parent / f"{folder.name}.yaml"
        space.write_text(SPACE.format(net=ROOT / "nets/lenet.yaml", method=options.method, seed=seed,
                                      trials=options.trials, rungs=rungs))
        command = [options.program, "search", str(space), "--data", options.data, "--out", str(folder),
                   "--epochs", str(options.epochs), "--set", "dense1.units=64", *more]
    subprocess.run(command, check=True, stdout=sys.stderr)
    return [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]


def summary(results: list) -> dict:
    last = {result["trial"]: result for result in results}
    tested = [result["accuracy"] for result in last.values() if result["accuracy"] is not None]
    return {"images": sum(result["images"] for result in last.values()), "best": 100 * max(tested),
            "diverged": sum(result["outcome"] == "diverged" for result in last.values()),
            "seconds": sum(result["seconds"] for result in results)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with MNIST")
    parser.add_argument("--out", default="search-study", type=pathlib.Path)
    parser.add_argument("--trials", default=30, type=int)
    parser.add_argument("--epochs", default=3, type=int)
    parser.add_argument("--first", default=6000, type=int, help="images of the lowest rung")
    parser.add_argument("--seeds", default=1, type=int)
    parser.add_argument("--method", default="random", choices=["random", "tpe"])
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/convoy-master"))
    options, more = parser.parse_known_args()
    print(f"{'seed':>4} {'search':>6} {'images':>9} {'part':>6} {'best':>8} {'diverged':>8} {'seconds':>8}")
    for seed in range(1, options.seeds + 1):
        full = None
        for name, rungs in (("full", ""), ("asha", f"rungs: {{first: {options.first}, factor: 3}}\n")):
            found = summary(search(options, more, seed, rungs, options.out / f"{name}-{seed}"))
            full = full or found
            print(f"{seed:>4} {name:>6} {found['images']:>9} {found['images'] / full['images']:>5.0%}"
                  f" {found['best']:>7.2f}% {found['diverged']:>8} {found['seconds']:>8.0f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
