#!/usr/bin/env python3
"""Trains imported nets for ten steps, and compares the losses with those of PyTorch in the same steps.

    bench/train_imports.py [NET]... [--how new-18] [--steps 10] [--batch 2] [--csv FILE]

The nets are those of bench/import_models.py, for as many classes as a batch has images. Exporters fold a batch norm behind a
convolution into the convolution's weights, and some of them one behind a dense layer, so PyTorch trains the net with the
same folding; batch norms that are left use the statistics of the batch. Dropout and stochastic depth are off on both sides, because an export for inference has neither.

The data are one batch of random PNG files, so that every step is an epoch and no order of images matters. The learning rate is
--progress times the first loss divided by the square of the gradient's norm, so that a step of any net changes the loss by
about this fraction, but no more than moves all weights by --move times their norm. PyTorch trains in double precision and in single. The table shows the first loss and the last in double
precision, and the largest difference of the losses of all steps from double precision, relative to the largest change of the
loss: of Convoy, and of PyTorch in single precision, with the threads of --threads. A net agrees where Convoy's difference is at most --most, or
--times PyTorch's own.

The script needs what bench/import_models.py needs, and ends with a reason where something is missing. The exit code is 1 where
a net differs, and 0 otherwise."""

import argparse
import csv
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import import_models
import usual_nets


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="NET", help="names of nets (default: all)")
    parser.add_argument("--how", default="new-18", help="exporter and opset")
    parser.add_argument("--steps", type=int, default=10, help="number of steps")
    parser.add_argument("--batch", type=int, default=2, help="images, and classes")
    parser.add_argument("--progress", type=float, default=0.002, help="fraction of the loss that a step of the first rate removes")
    parser.add_argument("--move", type=float, default=0.002, help="largest movement of the weights, relative to their norm")
    parser.add_argument("--momentum", type=float, default=0.5, help="momentum of stochastic gradient descent")
    parser.add_argument("--most", type=float, default=1e-3, help="difference of losses, relative to their change, that is no finding")
    parser.add_argument("--times", type=float, default=5, help="or so many times PyTorch's own difference")
    parser.add_argument("--threads", type=int, default=2, help="threads of each program")
    import_models.add_program_options(parser)
    return parser.parse_args()


def without_chance(net):
    """Turns dropout and stochastic depth off."""
    import torch
    import torchvision
    for module in net.modules():
        if isinstance(module, (torch.nn.Dropout, torch.nn.Dropout2d, torchvision.ops.StochasticDepth)):
            module.p = 0.0
    return net


def fold_scales(net):
    """Multiplies the factors of ConvNeXt's blocks (layer_scale) into the dense layers in front of them, as `import` does."""
    import torch
    from torchvision.models.convnext import CNBlock
    for block in (each for each in net.modules() if isinstance(each, CNBlock)):
        last = [each for each in block.block if isinstance(each, torch.nn.Linear)][-1]
        factors = block.layer_scale.detach()
        del block.layer_scale
        block.register_buffer("layer_scale", torch.ones_like(factors))
        with torch.no_grad():
            last.weight.mul_(factors.reshape(-1, 1))
            last.bias.mul_(factors.reshape(-1))
    return net


def widen_slopes(net, images):
    """Gives each channel a slope of its own where a PReLU has one for all, as `import` does."""
    import torch

    def widen(module, inputs):
        if module.num_parameters == 1:
            module.num_parameters = inputs[0].shape[1]
            module.weight = torch.nn.Parameter(module.weight.detach().repeat(module.num_parameters))

    hooks = [each.register_forward_pre_hook(widen) for each in net.modules() if isinstance(each, torch.nn.PReLU)]
    with torch.no_grad():
        net(images[:1])
    for hook in hooks:
        hook.remove()
    return net


def fold_norms(net, model):
    """Folds batch norms as the exporter of the model did: into convolutions, and into dense layers unless the model has
    batch norms behind these."""
    import onnx
    import torch
    from torch.fx.experimental.optimization import fuse
    nodes = onnx.load(str(model), load_external_data=False).graph.node
    makers = {name: node.op_type for node in nodes for name in node.output}
    if any(node.op_type == "BatchNormalization" and makers.get(node.input[0]) in ("Gemm", "MatMul", "Add") for node in nodes):
        class Dense(torch.nn.Linear):
            """fuse() knows torch.nn.Linear alone."""
        for each in net.modules():
            if type(each) is torch.nn.Linear:
                each.__class__ = Dense
    return fuse(net)


def losses_of(net, images, classes, options, rate):
    """Trains the net on the batch, and returns the loss before each step and the rate, which is found where it is None."""
    import torch
    net.train()
    weights = list(net.parameters())
    criterion = torch.nn.CrossEntropyLoss()
    velocity = [torch.zeros_like(each) for each in weights]
    losses = []
    for _ in range(options.steps):
        net.zero_grad()
        loss = criterion(net(images), classes)
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in weights]
            if rate is None:
                square, of_weights = (sum(float((each.double() ** 2).sum()) for each in values) for values in (gradients, weights))
                rate = min(options.progress * losses[0] / square, options.move * (of_weights / square) ** 0.5)
            for weight, moved, gradient in zip(weights, velocity, gradients):
                moved.mul_(options.momentum).add_(gradient)
                weight.sub_(rate * moved)
    return losses, rate


def write_data(folder, files):
    """Writes the folders of a data set with one image of each class, the same for training and tests."""
    for part in ("train", "test"):
        for number, file in enumerate(files):
            place = folder / part / f"class-{number}"
            place.mkdir(parents=True)
            (place / "image.png").write_bytes(file.read_bytes())


def convoy_losses(options, folder, model, rate):
    """Imports the model and trains it. Returns the number of its parameters, and the losses of the steps."""
    def run(*words):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return done.stdout
    master = options.programs / "convoy-master"
    said = run(master, "import", model, "--out", folder / "imported", "--force")
    fields = [f"input.mean={import_models.MEAN}", f"input.deviation={import_models.DEVIATION}", "training.optimizer=sgd",
              f"training.momentum={options.momentum}", f"training.learning_rate={rate:.9g}", "training.weight_decay=0"]
    run(master, "train", folder / "imported.yaml", "--weights", folder / "imported.safetensors", "--data", folder / "data",
        "--batch", options.batch, "--epochs", options.steps, "--device", options.device, "--threads", options.threads,
        "--out", folder / "run", *(word for field in fields for word in ("--set", field)))
    with (folder / "run/results.csv").open(encoding="utf-8") as rows:
        losses = [float(row["train_loss"]) for row in csv.DictReader(rows)]
    return int(re.search(r"(\d+) parameters", said)[1]), losses


def compare(options, name, folder):
    """Returns the row of a net."""
    import torch
    net, extent = usual_nets.make_net(name, options.batch, without_aux=True)
    with torch.no_grad():
        for parameter in net.parameters():
            if not parameter.any():
                parameter.uniform_(-0.1, 0.1)  # the exporter leaves out a bias that is zero
    files, images = import_models.draw_images(folder, options.batch, extent)
    classes = torch.arange(options.batch)
    write_data(folder / "data", files)
    opset = import_models.export(net, extent, options.how, folder / "model.onnx")
    folded = without_chance(fold_norms(widen_slopes(fold_scales(net), images.float()), folder / "model.onnx"))
    for parameter in folded.parameters():
        parameter.requires_grad_(True)  # PyTorch freezes a bias that folding makes
    state = {key: value.clone() for key, value in folded.state_dict().items()}
    exact, rate = losses_of(folded.double(), images, classes, options, None)
    folded.float().load_state_dict(state)
    change = max(abs(each - exact[0]) for each in exact)
    single, _ = losses_of(folded, images.float(), classes, options, rate)
    parameters = sum(each.numel() for each in folded.parameters())
    row = {"net": name, "exporter": options.how.split("-")[0], "opset": opset, "parameters": parameters, "first": exact[0],
           "last": exact[-1], "own": max(abs(a - b) for a, b in zip(single, exact)) / change}
    try:
        imported, losses = convoy_losses(options, folder, folder / "model.onnx", rate)
    except RuntimeError as error:
        return row | {"verdict": f"refused: {error}"[:300]}
    if imported != parameters or len(losses) != options.steps:
        return row | {"verdict": f"differs: {imported} parameters, {len(losses)} losses"}
    row["difference"] = max(abs(a - b) for a, b in zip(losses, exact)) / change
    agrees = row["difference"] <= max(options.most, options.times * row["own"])
    return row | {"verdict": "agrees" if agrees else "differs"}


def main():
    options = parse_arguments()
    if lacking := import_models.missing():
        print(f"train_imports.py: skipped, because {', '.join(lacking)} cannot be imported; install with "
              f"`pip install {' '.join(import_models.NEEDS.values())}`")
        return 0
    import torch
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    names = usual_nets.names_of_nets(options.nets)
    rows = []
    print(f"{'net':20} {'exporter':8} {'opset':>5} {'first loss':>10} {'last loss':>10} {'difference':>10} {'own':>8}  verdict")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            try:
                row = compare(options, name, pathlib.Path(folder))
            except Exception as error:  # exporters and tracers raise errors of many types
                row = {"net": name, "exporter": options.how, "opset": "-", "verdict": f"PyTorch failed: {str(error).splitlines()[0][:150]}"}
        rows.append(row)
        shown = [f"{row[key]:{form}}" if key in row else "" for key, form in
                 (("first", ".4f"), ("last", ".4f"), ("difference", ".1e"), ("own", ".1e"))]
        print(f"{name:20} {row['exporter']:8} {row['opset']:>5} {shown[0]:>10} {shown[1]:>10} {shown[2]:>10} {shown[3]:>8}  "
              f"{row['verdict']}", flush=True)
    print(json.dumps({verdict: sum(row["verdict"].split(":")[0] == verdict for row in rows)
                      for verdict in ("agrees", "differs", "refused", "PyTorch failed")}))
    import_models.write_table(options, ["net", "exporter", "opset", "parameters", "first", "last", "difference", "own", "verdict"], rows)
    return 1 if any(row["verdict"].startswith("differs") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
