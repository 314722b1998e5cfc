#!/usr/bin/env python3
"""Exports ensembles as ONNX models and runs them with onnxruntime: the outputs must be those of `convoy-master ensemble --predict`.

    tests/programs/ensemble_onnx_test.py CONVOY-MASTER

Exit code 77: onnxruntime, NumPy or Pillow is not installed."""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
WAYS = {"probabilities": [], "logits": ["--mean", "logits"], "votes": ["--vote"]}
SMALL = ["--batch", "100", "--steps", "20", "--threads", "1"]


def run(*words):
    """Runs a program, which must succeed, and returns its output."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def answers(master, members, way, images):
    """The scores of each image, by class."""
    lines = run(master, "ensemble", *members, *WAYS[way], "--top", 10, "--format", "json", "--threads", 1, "--predict", *images)
    scores = []
    for line in lines.splitlines():
        classes = json.loads(line)["classes"]
        name = "probability" if way == "probabilities" else "score"
        scores.append([each[name] for each in sorted(classes, key=lambda each: each["class"])])
    return scores


def check(master, folder):
    """Trains three members of two kinds, and compares each way to combine them."""
    import numpy
    import onnxruntime
    from PIL import Image

    members = [folder / name for name in ("a", "b", "c")]
    glyphs = ROOT / "nets" / "glyphs.yaml"
    run(master, "train", glyphs, "--out", members[0], *SMALL)
    run(master, "train", glyphs, "--out", members[1], "--seed", 2, "--set", "conv1.filters=5", *SMALL)
    run(master, "train", glyphs, "--out", members[2], "--seed", 3, "--set", "input.mean=0.3", "--set", "input.deviation=0.6", *SMALL)
    random = numpy.random.default_rng(1)
    pixels = random.integers(0, 256, (5, 1, 28, 28), dtype=numpy.uint8)
    images = []
    for number, image in enumerate(pixels):
        images.append(folder / f"{number}.png")
        Image.fromarray(image[0]).save(images[-1])
    for way, words in WAYS.items():
        model = folder / f"{way}.onnx"
        run(master, "ensemble", *members, *words, "--export", model)
        session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        found = session.run(None, {"input": pixels.astype(numpy.float32) / 255})
        assert [output.name for output in session.get_outputs()] == [way]
        expected = numpy.array(answers(master, members, way, images))
        assert found[0].shape == expected.shape, found[0].shape
        largest = numpy.abs(expected).max()
        error = numpy.abs(found[0] - expected).max() / largest
        assert error < 1e-5, f"{way}: the outputs differ by {error}"
        print(f"{way}: {len(images)} images, largest difference {error:.1e} of the largest output")


def main():
    """Skips where a package is missing."""
    try:
        import numpy  # noqa: F401
        import onnxruntime  # noqa: F401
        from PIL import Image  # noqa: F401
    except ImportError as missing:
        print(f"skipped: {missing.name} is not installed")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        check(pathlib.Path(sys.argv[1]), pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
