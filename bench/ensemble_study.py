#!/usr/bin/env python3
"""What ensembles, snapshots and teachers gain over single nets where training images are few.

usage: ensemble_study.py --data FOLDER [--out FOLDER] [--images 1000] [--members 5] [--epochs 40] [--seeds 3]
                         [--more 10000] [OPTION...]

For each seed it trains members from different random weights and combines them; trains one net with the schedule `snapshots`, for as
many epochs as one member, and combines its snapshots; and trains a small student alone, with the members as its teacher, and with
the members as its teacher on more images, whose labels it does not use (mix 1). The student on more images trains for --more-epochs.
The table has test accuracies in percent, for each seed and as mean and standard deviation over the seeds. The images are the first
of CIFAR-10 (binary) or of MNIST. Runs that an earlier call has finished are not trained again. Further options are those of
convoy-master train, such as --threads 1.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

from cut_data import cut_data, is_cifar

ROOT = pathlib.Path(__file__).resolve().parents[1]
COLUMNS = ("member, mean", "member, best", "ensemble", "votes", "last snapshot", "snapshots", "student alone", "student taught",
           "taught on more")
NET = """name: small
input: {{channels: {channels}, height: {size}, width: {size}}}
layers:
  - {{name: conv1, type: conv, filters: {filters}, kernel: 5, pad: same}}
  - {{name: relu1, type: relu}}
  - {{name: pool1, type: max_pool, kernel: 2}}
  - {{name: conv2, type: conv, filters: {filters2}, kernel: 5, pad: same}}
  - {{name: relu2, type: relu}}
  - {{name: pool2, type: max_pool, kernel: 2}}
  - {{name: dense1, type: dense, units: {units}}}
  - {{name: relu3, type: relu}}
  - {{name: dense2, type: dense, units: 10}}
  - {{name: loss, type: softmax_cross_entropy}}
training: {{batch: 50, learning_rate: {rate}, momentum: 0.9, weight_decay: 0.0005, schedule: {{kind: cosine}}}}
"""


class Study:
    """The runs of all seeds, in a folder."""

    def __init__(self, options, more):
        self.options, self.more = options, more
        self.data = options.out / f"data-{options.images}"
        cut_data(options.data, self.data, options.images, options.tests)
        self.more_data = options.out / f"data-{options.more}"
        cut_data(options.data, self.more_data, options.more, options.tests)
        shape = {"channels": 3, "size": 32} if is_cifar(options.data) else {"channels": 1, "size": 28}
        self.net, self.small = options.out / "net.yaml", options.out / "student.yaml"
        self.net.write_text(NET.format(**shape, filters=16, filters2=32, units=64, rate=options.rate))
        self.small.write_text(NET.format(**shape, filters=6, filters2=8, units=24, rate=options.rate))

    def call(self, *words) -> dict:
        """Runs the master and returns its last line, an object."""
        done = subprocess.run([self.options.program, *map(str, words), "--format", "json"], stdout=subprocess.PIPE, text=True,
                              check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, words))}: {done.stdout}")
        return json.loads(done.stdout.splitlines()[-1])

    def train(self, net: pathlib.Path, name: str, seed: int, *settings, data=None, epochs=0) -> pathlib.Path:
        """Trains a net unless an earlier call has done it; its run folder."""
        run = self.options.out / name
        events = run / "events.jsonl"
        if events.exists() and '"event":"end","how":"finished"' in events.read_text():
            return run
        words = [word for each in settings for word in ("--set", each)]
        self.call("train", net, "--data", data or self.data, "--out", run, "--seed", seed, "--epochs",
                  epochs or self.options.epochs, *words,
                  *self.more, *(["--resume"] if (run / "config.yaml").exists() else []))
        print(f"{name} is trained", file=sys.stderr, flush=True)
        return run

    def accuracy(self, *members, how=()) -> tuple:
        """The accuracies in percent of the members, and of them as an ensemble; of one member alone, where there is one."""
        if len(members) == 1:
            run = members[0] if members[0].is_dir() else members[0].parent
            weights = members[0] / "weights.safetensors" if members[0].is_dir() else members[0]
            return [], 100 * self.call("test", run / "config.yaml", "--weights", weights)["accuracy"]
        found = self.call("ensemble", *members, *how)
        return [100 * each["accuracy"] for each in found["members"]], 100 * found["accuracy"]

    def of_seed(self, seed: int) -> list:
        count = self.options.members
        members = [self.train(self.net, f"{seed}/member-{i}", 100 * seed + i) for i in range(1, count + 1)]
        each, together = self.accuracy(*members)
        votes = self.accuracy(*members, how=["--vote"])[1]
        cycles = self.train(self.net, f"{seed}/snapshots", seed, "training.schedule={kind: snapshots}",
                            f"training.cycles={count}")
        snapshots = [cycles / f"snapshot-{i}.safetensors" for i in range(1, count + 1)]
        parts, joined = self.accuracy(*snapshots)
        alone = self.train(self.small, f"{seed}/student-alone", seed)
        teachers = ", ".join(f"'{member.resolve()}'" for member in members)
        teaching = [f"training.teacher=[{teachers}]", f"training.temperature={self.options.temperature}"]
        taught = self.train(self.small, f"{seed}/student-taught", seed, *teaching, f"training.mix={self.options.mix}")
        more = self.train(self.small, f"{seed}/student-more", seed, *teaching, "training.mix=1", data=self.more_data,
                          epochs=self.options.more_epochs)
        return [statistics.mean(each), max(each), together, votes, parts[-1], joined, self.accuracy(alone)[1],
                self.accuracy(taught)[1], self.accuracy(more)[1]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=pathlib.Path, help="folder with CIFAR-10 (binary) or MNIST")
    parser.add_argument("--out", default="ensemble-study", type=pathlib.Path)
    parser.add_argument("--images", default=1000, type=int, help="training images")
    parser.add_argument("--tests", default=10000, type=int, help="test images")
    parser.add_argument("--members", default=5, type=int, help="members, and snapshots; epochs must be a multiple of it")
    parser.add_argument("--epochs", default=40, type=int)
    parser.add_argument("--rate", default=0.02, type=float)
    parser.add_argument("--temperature", default=4.0, type=float)
    parser.add_argument("--more", default=10000, type=int, help="images of the student that uses no labels")
    parser.add_argument("--more-epochs", default=20, type=int, help="epochs of this student")
    parser.add_argument("--mix", default=0.9, type=float)
    parser.add_argument("--seeds", default=3, type=int)
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/convoy-master"))
    options, more = parser.parse_known_args()
    study = Study(options, more)
    print(f"{'seed':>4} " + " ".join(f"{column:>14}" for column in COLUMNS))
    rows = []
    for seed in range(1, options.seeds + 1):
        rows.append(study.of_seed(seed))
        print(f"{seed:>4} " + " ".join(f"{value:>14.2f}" for value in rows[-1]), flush=True)
    for name, of in (("mean", statistics.mean), ("sd", statistics.stdev)):
        if len(rows) > 1:
            print(f"{name:>4} " + " ".join(f"{of(column):>14.2f}" for column in zip(*rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
