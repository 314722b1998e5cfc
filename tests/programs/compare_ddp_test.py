#!/usr/bin/env python3
"""Tests bench/compare_ddp.py without a network: its options, its reasons to skip, and the arithmetic of its table. Where torch
is installed, also the times that a paced rank takes.

    tests/programs/compare_ddp_test.py [CLASS]...

Exit code 77: all of the tests were skipped."""
import contextlib
import csv
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
sys.path.insert(0, str(BENCH))
sys.dont_write_bytecode = True

import compare_ddp  # noqa: E402  (beside the benchmarks)
import ddp_table  # noqa: E402  (beside the benchmarks)

try:
    import ddp_worker
    import torch_net
except ImportError as missing:
    ddp_worker, WHY = None, f"{missing.name} is not installed"


def compare(*words):
    """Runs compare_ddp.py and returns how it ended."""
    return subprocess.run([sys.executable, "-B", BENCH / "compare_ddp.py", *words], capture_output=True, text=True, check=False)


class Options(unittest.TestCase):
    def expect_refused(self, words, message):
        run = compare(*words)
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn(message, run.stderr)

    def test_wrong_values_are_refused_with_what_is_expected(self):
        self.expect_refused(["--wires", "fp32,fp8"], "unknown number type 'fp8'; expected fp32, bf16, fp16")
        self.expect_refused(["--paced", "60,0"], "--paced 60,0: expected numbers above 0")
        self.expect_refused(["--paced", "nan"], "--paced nan: expected numbers above 0")
        self.expect_refused(["--shares", "x"], "--shares x: expected numbers above 0")
        self.expect_refused(["--machines", "2.5"], "--machines 2.5: expected numbers above 0")
        self.expect_refused(["--steps", "1"], "--steps must be at least 2")
        self.expect_refused(["--nets", "nets/lenet.yaml"], "expected NET:BATCH[:SET...]")
        self.expect_refused(["--nets", "nets/none.yaml:4"], "there is no file")
        self.expect_refused(["--nets", "nets/lenet.yaml:16", "--machines", "4,3"], "16 is not divisible by 3 machines")

    def test_help_names_the_options(self):
        run = compare("--help")
        self.assertEqual(run.returncode, 0, run.stderr)
        for option in ("--nets", "--machines", "--paced", "--shares", "--wires", "--rounds", "--python", "--csv"):
            self.assertIn(option, run.stdout)


class Skips(unittest.TestCase):
    def expect_skipped(self, user, words, reason):
        output = io.StringIO()
        with mock.patch("os.geteuid", return_value=user), mock.patch("sys.argv", ["compare_ddp.py", *words]), \
                contextlib.redirect_stdout(output), self.assertRaises(SystemExit) as end:
            compare_ddp.main()
        self.assertEqual(end.exception.code, 77)
        self.assertIn("compare_ddp: skipped: ", output.getvalue())
        self.assertIn(reason, output.getvalue())

    def test_an_interpreter_without_torch(self):
        with tempfile.TemporaryDirectory() as folder:
            python = pathlib.Path(folder) / "python"
            python.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n")
            python.chmod(0o755)
            self.expect_skipped(0, ["--python", str(python)], "(ModuleNotFoundError: No module named 'torch')")
            self.expect_skipped(0, ["--python", f"{folder}/none"], "No such file or directory")

    def test_a_user_who_is_not_root(self):
        self.expect_skipped(1000, [], "require root")


CASE = {"mode": "paced", "net": "lenet", "batch": 16, "speeds": [60.0, 30.0], "mbits": 250.0}
ALONE = {"Convoy": [1.0, 2.0], "DDP": [2.0, 2.0]}
RUNS = {(4, "Convoy", "fp32"): [[0.5, 0.4, 0.6], [0.8, 0.8, 0.8]],
        (4, "DDP", "fp32"): [[1.0, 1.0, 1.2], [1.0, 0.9, 1.0]],
        (4, "Convoy", "bf16"): [[0.25], [0.5]]}
USED = {key: [(0.25, 0.5), (0.35, 0.9)] for key in RUNS}


class Table(unittest.TestCase):
    def setUp(self):
        self.rows = {(row["program"], row["wire"]): row for row in ddp_table.rows_of(CASE, ALONE, RUNS, USED)}

    def test_steps_and_images(self):
        row = self.rows["Convoy", "fp32"]
        self.assertAlmostEqual(row["step_s"], 0.7)  # of 0.4, 0.5, 0.6, 0.8, 0.8, 0.8
        self.assertEqual((row["step_low"], row["step_high"], row["rounds"]), (0.4, 0.8, 2))
        self.assertAlmostEqual(row["images_s"], 16 / 0.7)
        self.assertAlmostEqual(row["alone_images_s"], 16 / 1.5)
        self.assertAlmostEqual(row["cpu_percent"], 30.0)
        self.assertAlmostEqual(row["busy_percent"], 70.0)

    def test_speedups_are_over_the_same_program_in_the_same_round(self):
        row = self.rows["Convoy", "fp32"]  # 1.0 / 0.5 and 2.0 / 0.8
        self.assertAlmostEqual(row["speedup"], 2.25)
        self.assertAlmostEqual(row["speedup_low"], 2.0)
        self.assertAlmostEqual(row["speedup_high"], 2.5)
        self.assertAlmostEqual(self.rows["DDP", "fp32"]["speedup"], 2.0)

    def test_speeds_are_taken_in_turns(self):
        row = self.rows["Convoy", "fp32"]
        self.assertEqual(row["speeds"], "60 30 60 30")
        self.assertAlmostEqual(row["ideal"], 3.0)

    def test_convoy_is_compared_with_the_same_wire(self):
        row = self.rows["Convoy", "fp32"]  # 1.0 / 0.5 and 1.0 / 0.8
        self.assertAlmostEqual(row["convoy_to_ddp"], 1.625)
        self.assertAlmostEqual(row["convoy_to_ddp_low"], 1.25)
        self.assertAlmostEqual(row["convoy_to_ddp_high"], 2.0)
        for other in (("DDP", "fp32"), ("Convoy", "bf16")):
            self.assertNotIn("convoy_to_ddp", self.rows[other])

    def test_text_has_a_place_for_each_title(self):
        lines = [ddp_table.HEADER, *map(ddp_table.text_of, self.rows.values())]
        self.assertEqual({len(line) for line in lines}, {len(ddp_table.HEADER)}, "\n".join(lines))
        self.assertIn("1.62 (1.25, 2.00)", lines[1])

    def test_csv_has_the_columns_of_results(self):
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/ddp.csv"
            ddp_table.write_csv(self.rows.values(), {"machine": "zen3", "commit": "0123abcd", "date": "2026-01-02"}, file)
            with open(file, encoding="utf-8") as text:
                rows = list(csv.DictReader(text))
        self.assertEqual(list(rows[0])[:5], ["machine", "commit", "date", "mode", "net"])
        self.assertEqual((rows[0]["machine"], rows[0]["step_s"], rows[0]["convoy_to_ddp"]), ("zen3", "0.7", "1.625"))
        self.assertEqual(rows[1]["convoy_to_ddp"], "")


@unittest.skipUnless(ddp_worker, "" if ddp_worker else WHY)
class PacedRank(unittest.TestCase):
    # Two images of 3 x 8 x 8, a convolution with 4 filters of 3 x 3, and 5 classes.
    NET = {"input": {"channels": 3, "height": 8, "width": 8},
           "layers": [{"name": "conv", "type": "conv", "filters": 4, "kernel": 3, "pad": 1, "bias": False},
                      {"name": "norm", "type": "batch_norm"}, {"name": "dense", "type": "dense", "units": 5},
                      {"name": "loss", "type": "softmax_cross_entropy"}]}

    def test_passes_take_their_operations(self):
        net = ddp_worker.PacedNet(self.NET, batch=2, gflops=1e-9)  # one operation a second
        conv = 2 * 2 * 4 * 3 * 9 * 64  # two for each product; images, filters, channels, kernel, places
        dense = 2 * 2 * 5 * 256
        self.assertEqual(net.seconds["conv"], (conv, conv))  # images need no gradient
        self.assertEqual(net.seconds["norm"], (0.0, 0.0))
        self.assertEqual(net.seconds["dense"], (dense, 2 * dense))

    def test_a_step_spends_them_and_gives_gradients_of_zeros_from_the_last_layer_on(self):
        net = ddp_worker.PacedNet(self.NET, batch=2, gflops=1.0)
        spent, ready = [], []
        net.pacer.spend = spent.append
        for name, parameter in net.named_parameters():
            parameter.register_hook(lambda gradient, name=name: ready.append((name, gradient.abs().max().item(), len(spent))))
        net.loss(net(None), None)[0].backward()
        conv, norm, dense = (net.seconds[name] for name in ("conv", "norm", "dense"))
        self.assertEqual(spent, [conv[0], norm[0], dense[0], dense[1], norm[1], conv[1]])
        self.assertEqual(sorted(name for name, *_ in ready), sorted(name for name, _ in net.named_parameters()))
        self.assertEqual({largest for _, largest, _ in ready}, {0.0})
        after = {name.split(".")[1]: passes for name, _, passes in ready}
        self.assertEqual(after, {"dense": 4, "norm": 5, "conv": 6})

    def test_shapes_name_each_layer(self):
        self.assertEqual(torch_net.Net(self.NET).shapes["conv"], (4, 8, 8))


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    if not result.wasSuccessful():
        sys.exit(1)
    if len(result.skipped) == result.testsRun:
        print(f"skipped: {WHY}", flush=True)
        sys.exit(77)
