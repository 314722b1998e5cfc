#!/usr/bin/env python3
"""Tests bench/schemes.py, bench/accuracy_of_schemes.py and bench/cut_data.py without a network: which runs they ask convoy-master
for, the arithmetic of their rows, and that runs in a CSV file are not done again.

    tests/programs/schemes_bench_test.py [CLASS]..."""
import argparse
import csv
import gzip
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
sys.path.insert(0, str(BENCH))
sys.dont_write_bytecode = True

import accuracy_of_schemes as accuracy  # noqa: E402  (beside the benchmarks)
import cut_data  # noqa: E402  (beside the benchmarks)
import lan  # noqa: E402  (beside the benchmarks)
import schemes  # noqa: E402  (beside the benchmarks)


def options_of(**changes):
    """The options of schemes.py."""
    usual = {"schemes": "join,none,split", "servers": "central", "split_servers": "", "semaphore": False, "sync_every": "",
             "wire": "bf16", "batches_of_a_worker": 5, "batch": 16, "paced": "60", "mbits": 20.0}
    return argparse.Namespace(**{**usual, **changes})


class Runs(unittest.TestCase):
    def names(self, **changes):
        options = options_of(**changes)
        return [schemes.plan_name(options, scheme) for scheme in schemes.schemes_of(options)]

    def test_each_scheme_has_a_run_for_each_server_that_it_can_have(self):
        self.assertEqual(self.names(), ["join-bf16", "none-bf16", "auto-bf16"])
        self.assertEqual(self.names(servers="central,distributed", semaphore=True),
                         ["join-bf16", "join-bf16-semaphore", "join-bf16-distributed", "none-bf16", "none-bf16-semaphore", "auto-bf16"])
        self.assertEqual(self.names(schemes="split", split_servers="central,distributed"),
                         ["auto-bf16", "star-samples-bf16", "ring-samples-bf16"])
        self.assertEqual(self.names(schemes="join", sync_every="1,16"), ["join-bf16", "join-bf16-every1", "join-bf16-every16"])
        self.assertEqual(self.names(schemes="join", servers="distributed"), ["join-bf16-distributed"])

    def test_words_become_options_of_the_master(self):
        self.assertEqual(lan.words_of("join-bf16-every16"), ["--sync", "join", "--wire", "bf16", "--sync-every", "16"])
        self.assertEqual(lan.words_of("join-bf16-distributed"), ["--sync", "join", "--wire", "bf16", "--server", "distributed"])
        self.assertEqual(lan.words_of("none-fp32-semaphore"), ["--sync", "none", "--wire", "fp32", "--semaphore"])
        self.assertEqual(lan.words_of("none-fp32"), ["--sync", "none", "--no-semaphore", "--wire", "fp32"])
        self.assertEqual(lan.words_of("star-samples-bf16"), ["--exchange", "star", "--layout", "samples", "--wire", "bf16"])

    def test_unknown_words_are_refused(self):
        for change in ({"schemes": "join,both"}, {"servers": "none"}, {"schemes": "split", "split_servers": "x"}):
            with self.assertRaisesRegex(SystemExit, "is not known; choose among"):
                self.names(**change)

    def test_local_steps_are_taken_from_one_exchange_of_moments_to_the_next(self):
        options = options_of(batches_of_a_worker=5)
        self.assertEqual(schemes.batches_of(options, schemes.Scheme("join", "central")), (5, 1))
        self.assertEqual(schemes.batches_of(options, schemes.Scheme("join", "central", False, 16)), (64, 32))
        self.assertEqual(schemes.batches_of(options, schemes.Scheme("join", "central", False, 3)), (66, 33))


class Rows(unittest.TestCase):
    def row(self, scheme, notices=(), **changes):
        results = [schemes.Run(0.5, list(notices), 0.25, 4000.0, 1000.0), schemes.Run(0.7, list(notices), 0.25, 4000.0, 1000.0)]
        return schemes.row_of(options_of(**changes), "net", 1.2, 4, scheme, results)

    def test_a_row_has_speed_and_traffic(self):
        row = self.row(schemes.Scheme("join", "central", True))
        self.assertEqual((row["speedup"], row["images_a_second"], row["low"], row["high"]), ("2.000", "26.67", "0.5000", "0.7000"))
        self.assertEqual((row["kb_an_image"], row["weights_kb_an_image"], row["cpu_percent"]), ("4.00", "1.00", "25"))
        self.assertEqual(schemes.title_of(row), "join central semaphore")
        self.assertEqual(row["predicted"], "", "a simulation predicts it, with the times of a run")
        self.assertEqual(schemes.title_of(self.row(schemes.Scheme("join", "central", False, 8))), "join central every 8")

    def test_the_planner_predicts_what_has_a_plan(self):
        said = ["plan: ring; a step takes about 1.6 s, on this machine alone 4 s"]
        self.assertEqual(self.row(schemes.Scheme("split", schemes.PLANNED), said)["predicted"], "0.750")
        # A step of a distributed server has the batches of four workers.
        self.assertEqual(self.row(schemes.Scheme("join", "distributed"), said)["predicted"], "3.000")

    def test_predictions_are_those_of_the_row(self):
        rows = [self.row(schemes.Scheme("join", "central")), self.row(schemes.Scheme("join", "distributed"), ["a step takes about 1.6 s"]),
                self.row(schemes.Scheme("split", schemes.PLANNED)), self.row(schemes.Scheme("join", "central", False, 8))]

        def said(words):
            times = {"gradient_s": "1", "transfer_s": "1"}
            assert ("--sync-every" in words) == (words[words.index("--type") + 1] == "sync-join")
            speedups = {"estimate_speedup": 1.5, "simulated_speedup": 2.5 if "--master" in words else 3.5}
            return [{"type": kind, "server": server, "workers": "4", **times, **speedups}
                    for kind in schemes.TYPES.values() for server in schemes.SERVERS]

        with tempfile.TemporaryDirectory() as kept, mock.patch.object(schemes, "estimate_rows", side_effect=said) as asked:
            schemes.predict(options_of(), rows, kept)
        self.assertEqual(asked.call_count, 4, "central and distributed servers share an estimate, and local steps have one")
        columns = [[row[column] for column in ("formula", "simulated_plain", "predicted", "error_percent")] for row in rows]
        self.assertEqual(columns, [["1.500", "3.500", "2.500", "-20.0"], ["1.500", "3.500", "3.000", "-33.3"], ["", "", "", ""],
                                   ["1.500", "3.500", "2.500", "-20.0"]])

    def test_rows_of_older_files_are_read(self):
        rows = schemes.read([ROOT / "bench/results/schemes.csv"])
        self.assertGreater(len(rows), 50)
        self.assertEqual(schemes.scheme_of(rows[0]), schemes.Scheme("join", "central"))


class Accuracy(unittest.TestCase):
    def test_data_are_cut(self):
        with tempfile.TemporaryDirectory() as folder:
            whole, some = pathlib.Path(folder, "whole"), pathlib.Path(folder, "some")
            whole.mkdir()
            for part in ("train", "t10k"):
                with gzip.open(whole / f"{part}-images-idx3-ubyte.gz", "wb") as file:
                    file.write(struct.pack(">IIII", 0x803, 5, 28, 28) + bytes(range(5)) * 784)
                (whole / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, 5) + bytes(range(5)))
            cut_data.cut_data(whole, some, 3, 9)
            self.assertEqual((some / "train-labels-idx1-ubyte").read_bytes(), struct.pack(">II", 0x801, 3) + bytes(range(3)))
            self.assertEqual((some / "t10k-labels-idx1-ubyte").read_bytes(), struct.pack(">II", 0x801, 5) + bytes(range(5)))
            self.assertEqual(len((some / "train-images-idx3-ubyte").read_bytes()), 16 + 3 * 784)
            for name in ("data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"):
                (whole / name).write_bytes(name.encode() + bytes(2 * cut_data.CIFAR_RECORD - len(name)))
            cut_data.cut_data(whole, some, 3, 1)
            training = (whole / "data_batch_1.bin").read_bytes() + (whole / "data_batch_2.bin").read_bytes()[: cut_data.CIFAR_RECORD]
            self.assertEqual((some / "data_batch_1.bin").read_bytes(), training)
            self.assertEqual(len((some / "test_batch.bin").read_bytes()), cut_data.CIFAR_RECORD)

    def test_a_run_ends_with_the_epoch_that_reaches_the_accuracy(self):
        progress = accuracy.Progress()
        step = {"event": "step", "seconds": 0.5, "staleness": 2, "times": [{"states_sent": 3000, "states_received": 1000}] * 2}
        for event in [{"event": "start", "batch": 100}, step, step, {"event": "epoch", "test_accuracy": 0.96}]:
            progress.take(event)
        self.assertFalse(progress.reaches(0.0), "without --until all epochs are done")
        self.assertFalse(progress.reaches(97.0))
        for event in [step, {"event": "epoch", "test_accuracy": 0.975}]:
            progress.take(event)
        self.assertTrue(progress.reaches(97.0))
        rows = accuracy.rows_of({"scheme": "none"}, progress)
        self.assertEqual([(row["epoch"], row["seconds"], row["test_accuracy_percent"]) for row in rows],
                         [("1", "1.00", "96.00"), ("2", "1.50", "97.50")])
        self.assertEqual((rows[0]["weights_kb_an_image"], rows[0]["staleness"]), ("0.080", "2.00"))
        self.assertTrue(accuracy.is_whole(argparse.Namespace(until=97.0, epochs=9), rows))
        self.assertFalse(accuracy.is_whole(argparse.Namespace(until=98.0, epochs=9), rows))
        self.assertTrue(accuracy.is_whole(argparse.Namespace(until=0.0, epochs=2), rows))

    def test_runs_of_the_file_are_not_done_again(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "accuracy.csv"
            words = [sys.executable, "-B", BENCH / "accuracy_of_schemes.py", "--net", ROOT / "nets/glyphs.yaml", "--data", "glyphs", "--set",
                     "conv1.filters=2", "--set", "conv2.filters=3", "--batch", "100", "--epochs", "1", "--seeds", "1", "--replicas", "2",
                     "--scheme", "one machine", "--scheme", "join", "--csv", file]
            outputs = [subprocess.run(words, capture_output=True, text=True, check=False) for _ in range(2)]
            for output, known in zip(outputs, (0, 2)):
                self.assertEqual(output.returncode, 0, output.stderr)
                self.assertEqual(output.stdout.count("(from an earlier call)"), known, output.stdout)
            with file.open(encoding="utf-8", newline="") as text:
                rows = list(csv.DictReader(text))
            self.assertEqual([row["scheme"] for row in rows], ["one machine", "join"])
            self.assertEqual(float(rows[0]["weights_kb_an_image"]), 0.0)
            self.assertGreater(float(rows[1]["weights_kb_an_image"]), 0.0)
            file.write_text("epoch,accuracy\n1,2\n", encoding="utf-8")
            refused = subprocess.run(words, capture_output=True, text=True, check=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("has other columns; give a new file to --csv", refused.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
