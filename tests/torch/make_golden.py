#!/usr/bin/env python3
"""Computes with PyTorch, in double precision, the results that tests/train/torch_test.cpp expects of Convoy, and writes
them into this folder.

    tests/torch/make_golden.py [CASE]...

Weights, images and labels are not stored, because both sides draw them by the same formula (draw). For each gradient,
the file has its norm, its product with a random vector, and some of its values. The file also has the error of PyTorch
in single precision, which shows the effect of rounding in the net. The program needs torch (Debian: python3-torch) and
PyYAML."""

import json
import math
import pathlib
import sys
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import numpy
import torch
import torch_net

SIZE = {n: [f"input.height={n}", f"input.width={n}"] for n in (32, 48, 64, 67, 80, 96)}
NO_DROPOUT = {"alexnet": ["drop6.rate=0", "drop7.rate=0"], "squeezenet": ["drop.rate=0"],
              "vgg16e": ["drop1.rate=0", "drop2.rate=0"],
              "googlenet": ["drop.rate=0", "side1_drop.rate=0", "side2_drop.rate=0"]}
TEN = {"alexnet": ["fc6.units=128", "fc7.units=64", "fc8.units=10"], "squeezenet": ["conv10.filters=10"],
       "vgg16e": ["dense1.units=512", "dense2.units=256", "dense3.units=10"],
       "resnet34": ["dense1.units=10"], "resnet34-padded": ["dense1.units=10"],
       "mobilenet": ["dense1.units=10"], "googlenet": ["out.units=10", "side1_out.units=10", "side2_out.units=10"]}

SLOW = ["training.learning_rate=0.00002"]  # keeps rounding from changing the path of deep nets in ten steps

# Each case has a name, a net, fields to set, and a batch size.
CASES = {
    "lenet-nesterov": ("lenet", ["training.optimizer=nesterov"], 4),
    "glyphs": ("glyphs", [], 4),
    "cifar10-50-500": ("cifar10-50-500", [], 4),
    "big-mlp": ("big-mlp", [], 4),
    "resnet20": ("resnet20", [], 4),
    "resnet20-adam": ("resnet20", ["training.optimizer=adam", "training.clip=0.5", "loss.label_smoothing=0.1",
                                   "training.epsilon=0.01"], 4),
    "resnet34": ("resnet34", SIZE[48] + TEN["resnet34"] + SLOW, 8),
    "resnet34-padded": ("resnet34-padded", SIZE[48] + TEN["resnet34-padded"] + SLOW, 8),
    "alexnet": ("alexnet", SIZE[67] + NO_DROPOUT["alexnet"] + TEN["alexnet"], 4),
    "mobilenet": ("mobilenet", SIZE[96] + TEN["mobilenet"] + SLOW, 8),
    "squeezenet": ("squeezenet", SIZE[64] + NO_DROPOUT["squeezenet"] + TEN["squeezenet"], 4),
    "googlenet": ("googlenet", SIZE[80] + NO_DROPOUT["googlenet"] + TEN["googlenet"] + SLOW, 2),
    "vgg16e": ("vgg16e", SIZE[32] + NO_DROPOUT["vgg16e"] + TEN["vgg16e"] + SLOW, 2),
    "activations": ("../tests/torch/activations", [], 8),
    "gates": ("../tests/torch/gates", [], 8),
    "norms": ("../tests/torch/norms", [], 8),
    "sizes": ("../tests/torch/sizes", [], 8),
}
STEPS = 10
SAMPLES = 4


def draw(name, count):
    """Values uniform in [-1, 1), the same as torch_test.cpp draws for the name."""
    x = (numpy.arange(count, dtype=numpy.uint64) * 2654435761 + zlib.crc32(name.encode())) & 0xFFFFFFFF
    for shift, factor in ((16, 0x45D9F3B5), (15, 0x2F0B4C47), (16, 1)):
        x ^= x >> shift
        x = (x * factor) & 0xFFFFFFFF
    return x.astype(numpy.float64) / 2.0**31 - 1.0


def fill(name, tensor):
    values = draw(name, tensor.numel())
    if tensor.dim() > 1:
        values *= math.sqrt(6.0 / (tensor.numel() // tensor.shape[0]))  # standard deviation of He et al. (ICCV 2015)
    else:
        values *= 0.1
    # Weights are rounded to single precision, as in torch_test.cpp.
    tensor.data.copy_(torch.from_numpy(values.astype(numpy.float32).astype(numpy.float64)).reshape(tensor.shape))


def optimizer_of(training, parameters):
    rate, decay = training["learning_rate"], training.get("weight_decay", 0.0)
    if training.get("optimizer") == "adam":
        return torch.optim.Adam(parameters, rate, (training.get("momentum", 0.9), training.get("beta2", 0.999)),
                                training.get("epsilon", 1e-8), decay)
    return torch.optim.SGD(parameters, rate, training.get("momentum", 0.9), weight_decay=decay,
                           nesterov=training.get("optimizer") == "nesterov")


def run(net_name, fields, batch, type_of_numbers):
    fields = ["training.learning_rate=0.002"] + fields
    net = torch_net.read_net(ROOT / f"nets/{net_name}.yaml", fields)
    training = net.get("training", {})
    model = torch_net.Net(net).to(type_of_numbers)
    for name, tensor in model.named_tensors():
        fill(name, tensor)
        if name.endswith(".weight") and tensor.dim() == 1:
            tensor.data += 1.0  # weights of a batch norm are around 1
    shape = (batch, net["input"]["channels"], net["input"]["height"], net["input"]["width"])
    optimizer = optimizer_of(training, model.parameters())
    result = {"net": net_name, "set": fields, "batch": batch, "losses": [],
              "torch": torch.__version__}
    for step in range(STEPS):
        images = draw(f"images{step}", math.prod(shape)).astype(numpy.float32).astype(numpy.float64)
        labels = ((draw(f"labels{step}", batch) + 1.0) / 2.0 * model.classes).astype(numpy.int64)
        outputs = model(torch.from_numpy(images).reshape(shape).to(type_of_numbers))
        total, main = model.loss(outputs, torch.from_numpy(labels))
        optimizer.zero_grad()
        total.backward()
        if step == 0:
            result["outputs"] = [float(f"{value:.7g}") for value in outputs[-1].flatten().tolist()]
            result["gradients"] = {name: summary(name, tensor.grad) for name, tensor in model.named_tensors()}
        if "clip" in training:
            torch.nn.utils.clip_grad_norm_(model.parameters(), training["clip"])
        optimizer.step()
        result["losses"].append(float(f"{main.item():.7g}"))
    return result


def summary(name, gradient):
    values = gradient.flatten().double().numpy()
    norm = float(numpy.linalg.norm(values))
    product = float(values @ draw(name + "'", values.size))
    samples = [float(values[i * values.size // SAMPLES]) for i in range(SAMPLES)]
    return [float(f"{value:.7g}") for value in [norm, product, *samples]]


def main():
    torch.manual_seed(0)
    for name in sys.argv[1:] or CASES:
        result = run(*CASES[name], torch.float64)
        single = run(*CASES[name], torch.float32)
        result["gradients_off"] = max(abs(a - b) / exact[0] for layer, exact in result["gradients"].items()
                                      for a, b in zip(exact, single["gradients"][layer]))
        result["outputs_off"] = max(abs(a - b) for a, b in zip(result["outputs"], single["outputs"]))
        result["losses_off"] = [abs(a - b) for a, b in zip(result["losses"], single["losses"])]
        file = pathlib.Path(__file__).parent / f"{name}.json"
        file.write_text(json.dumps(result, indent=0).replace(",\n", ", ").replace("], ", "],\n") + "\n", encoding="utf-8")
        print(f"{name}: losses {result['losses'][0]} to {result['losses'][-1]}, in single precision off by up to "
              f"{max(result['losses_off']):.2g}, gradients by {result['gradients_off']:.2g} of their norm", flush=True)


if __name__ == "__main__":
    main()
