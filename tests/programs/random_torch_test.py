#!/usr/bin/env python3
"""Trains random nets for three steps with Convoy's reference device in double precision and with PyTorch, and compares the losses
and the movements of all weights.

    tests/programs/random_torch_test.py CONVOY-MASTER WRITE-RANDOM-NET [SEED]...

By default it takes the first 8 seeds, or as many as CONVOY_TORCH_NETS says, whose nets take images of one or three channels. Both
sides begin with the same weights and take all images in each step, so that no order matters; dropout is off. Weights are stored in
single precision between steps and dense layers compute in it, so differences may be 2e-4 of the movement of a tensor, or 20 times
those of PyTorch in single precision. Exit code 77: torch, PyYAML, NumPy or Pillow is not installed."""
import csv
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
STEPS, CLASSES, OF_EACH = 3, 3, 2
RATE, MOMENTUM, DECAY = 0.05, 0.9, 0.001
MEAN, DEVIATION = 0.5, 0.25


def run(*words):
    """Runs a program, which must succeed, and returns its output."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def write_images(folder, channels, height, width, random):
    """Writes a data set of random pictures, and returns the values that a net sees and the labels."""
    import numpy
    from PIL import Image
    images, labels = [], []
    for label in range(CLASSES):
        for number in range(OF_EACH):
            pixels = random.integers(0, 256, (height, width, channels), dtype=numpy.uint8)
            for part in ("train", "test"):
                place = folder / part / f"class{label}"
                place.mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels).save(place / f"{number}.png")
            images.append(((pixels.transpose(2, 0, 1) / 255 - MEAN) / DEVIATION).astype(numpy.float32))
            labels.append(label)
    return numpy.stack(images), labels


def draw_weights(model, random):
    """Gives a model random weights, rounded to single precision."""
    import numpy
    import torch
    with torch.no_grad():
        for name, values in model.named_tensors():
            shape = tuple(values.shape)
            if len(shape) > 1:
                drawn = random.standard_normal(shape) * math.sqrt(1.5 / math.prod(shape[1:]))
            else:
                drawn = random.uniform(-0.3, 0.3, shape) + (1.0 if name.endswith(".weight") else 0.0)
            values.copy_(torch.from_numpy(drawn.astype(numpy.float32).astype(numpy.float64)))


def all_tensors(model):
    """The trained tensors and the running averages, under Convoy's names."""
    tensors = dict(model.named_tensors())
    for name, values in model.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            tensors[name.replace("steps.", "")] = values
    return {name: values.detach().clone().double().numpy() for name, values in tensors.items()}


def write_safetensors(tensors, file):
    import numpy
    header, data, at = {}, [], 0
    for name, values in tensors.items():
        data.append(values.astype(numpy.float32).tobytes())
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [at, at + len(data[-1])]}
        at += len(data[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


def read_safetensors(file):
    import numpy
    content = file.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    tensors = {}
    for name, each in json.loads(content[8:8 + length]).items():
        if name != "__metadata__":
            first, last = (8 + length + offset for offset in each["data_offsets"])
            tensors[name] = numpy.frombuffer(content[first:last], numpy.float32).reshape(each["shape"]).astype(numpy.float64)
    return tensors


def torch_training(net, start, images, labels, kind):
    """Trains with PyTorch. Returns the main losses before each step, and all tensors after the last."""
    import torch
    import torch_net
    model = torch_net.Net(net).to(kind)
    with torch.no_grad():
        tensors = dict(model.named_tensors()) | {name.replace("steps.", ""): values for name, values in model.named_buffers()}
        for name, values in start.items():
            tensors[name].copy_(torch.from_numpy(values))
    optimizer = torch.optim.SGD(model.parameters(), RATE, MOMENTUM, weight_decay=DECAY)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        total, main = model.loss(model(torch.from_numpy(images).to(kind)), torch.tensor(labels))
        total.backward()
        optimizer.step()
        losses.append(main.item())
    return losses, all_tensors(model)


def convoy_training(master, file, folder):
    fields = {"input.mean": MEAN, "input.deviation": DEVIATION, "training.optimizer": "sgd", "training.learning_rate": RATE,
              "training.momentum": MOMENTUM, "training.weight_decay": DECAY}
    run(master, "train", file, "--weights", folder / "start.safetensors", "--data", folder / "data", "--batch", CLASSES * OF_EACH,
        "--epochs", STEPS, "--device", "reference64", "--threads", 1, "--out", folder / "run",
        *(word for name, value in fields.items() for word in ("--set", f"{name}={value}")))
    with (folder / "run/results.csv").open(encoding="utf-8") as rows:
        losses = [float(row["train_loss"]) for row in csv.DictReader(rows)]
    return losses, read_safetensors(folder / "run/weights.safetensors")


def differences(found, exact, start):
    """The largest difference of the losses, and of each tensor relative to its movement."""
    import numpy
    off = {"losses": max(abs(a - b) for a, b in zip(found[0], exact[0], strict=True))}
    for name, values in exact[1].items():
        moved = numpy.abs(values - start[name]).max()
        # A bias in front of a norm moves by decay alone, which storing in single precision hides.
        least = 1e-4 + 1e-3 * numpy.abs(start[name]).max()
        off[name] = float(numpy.abs(found[1][name].reshape(values.shape) - values).max() / max(moved, least))
    return off


def check(master, writer, seed, folder):
    """Compares the net of a seed. Returns whether its images can be pictures."""
    import numpy
    import torch
    import torch_net
    file = folder / "net.yaml"
    text = run(writer, seed)
    file.write_text(text.replace("dropout, rate: 0.25", "dropout, rate: 0"), encoding="utf-8")
    net = torch_net.read_net(file)
    shape = [net["input"][each] for each in ("channels", "height", "width")]
    if shape[0] == 2:
        return False
    random = numpy.random.default_rng(seed)
    images, labels = write_images(folder / "data", *shape, random)
    model = torch_net.Net(net).double()
    draw_weights(model, random)
    start = all_tensors(model)
    write_safetensors(start, folder / "start.safetensors")
    exact = torch_training(net, start, images, labels, torch.float64)
    single = torch_training(net, start, images, labels, torch.float32)
    found = convoy_training(master, file, folder)
    assert set(exact[1]) == set(found[1]), f"seed {seed}: {set(exact[1]) ^ set(found[1])}"
    own, off = differences(single, exact, start), differences(found, exact, start)
    wrong = {name: (value, own[name]) for name, value in off.items() if not value <= max(2e-4, 20 * own[name])}
    assert not wrong, f"seed {seed}: tensors and their differences, Convoy's and PyTorch's in single precision: {wrong}\n{text}"
    worst = max(off, key=off.get)
    print(f"seed {seed}: {len(net['layers'])} layers, losses {exact[0][0]:.4f} to {exact[0][-1]:.4f}, largest difference "
          f"{off[worst]:.1e} ({worst}; PyTorch in single precision {own[worst]:.1e})")
    return True


def main():
    """Skips where a package is missing."""
    try:
        import numpy  # noqa: F401
        import torch
        import yaml  # noqa: F401
        from PIL import Image  # noqa: F401
    except ImportError as missing:
        print(f"skipped: {missing.name} is not installed")
        return 77
    torch.set_num_threads(1)
    master, writer = (pathlib.Path(word) for word in sys.argv[1:3])
    asked = [int(word) for word in sys.argv[3:]]
    count, seed = len(asked) or int(os.environ.get("CONVOY_TORCH_NETS", "8")), 0
    while count > 0:
        seed = asked.pop(0) if asked else seed + 1
        with tempfile.TemporaryDirectory() as folder:
            compared = check(master, writer, seed, pathlib.Path(folder))
        count -= compared or sys.argv[3:] != []
    return 0


if __name__ == "__main__":
    sys.exit(main())
