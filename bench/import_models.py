#!/usr/bin/env python3
"""Exports usual nets from PyTorch as ONNX models, imports each with convoy-master, and compares Convoy's logits with
PyTorch's.

    bench/import_models.py [NET]... [--models FOLDER] [--exports old-13,new-18,new-newest] [--images 3] [--csv FILE]

The nets are torchvision's, with random weights, and small ones of this file that use shape arithmetic, padding and
adaptive pooling as people write them. Each is exported with PyTorch's old exporter at opset 13 and with its default
exporter at opset 18 and at the newest opset that it can write. Batch norms have the statistics of random images, so that
a mistake in them shows.

The logits are those of `convoy-master predict` for random PNG files. The script sets the loss of the imported net file to
squared_error for it, because predict prints scores of such a net as they are, and probabilities otherwise. A difference is
the largest over all images and classes, divided by the largest logit; beside it stands the same difference between
PyTorch in single and in double precision.

--models keeps the exported models, which take minutes to make and gigabytes, for another call. The script needs torch,
torchvision, onnx, onnxscript, onnxruntime and Pillow, and ends with a reason where one is missing. The exit code is 1
where an imported net's logits differ by more than --most and by more than --times PyTorch's own difference, and 0
otherwise."""

import argparse
import csv
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import warnings
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
NEEDS = {"torch": "torch", "torchvision": "torchvision", "onnx": "onnx", "onnxscript": "onnxscript",
         "onnxruntime": "onnxruntime", "PIL": "pillow"}
TORCHVISION = ("alexnet vgg11 vgg16_bn resnet18 resnet34 resnet50 resnext50_32x4d wide_resnet50_2 densenet121 squeezenet1_0 "
               "squeezenet1_1 googlenet inception_v3 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large shufflenet_v2_x0_5 "
               "shufflenet_v2_x1_0 mnasnet0_5 mnasnet1_0 efficientnet_b0 efficientnet_v2_s regnet_x_400mf regnet_y_400mf "
               "convnext_tiny vit_b_16").split()
MEAN, DEVIATION = 0.5, 0.25


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="NET", help="names of nets (default: all)")
    parser.add_argument("--models", type=pathlib.Path, help="folder in which exported models are kept")
    parser.add_argument("--exports", default="old-13,new-18,new-newest", help="exporter and opset, separated by commas")
    parser.add_argument("--images", type=int, default=3, help="number of random images")
    parser.add_argument("--most", type=float, default=1e-5, help="largest difference of logits, relative to the largest logit")
    parser.add_argument("--times", type=float, default=3, help="or so many times PyTorch's own, of single from double precision")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bin", help="folder of the programs")
    parser.add_argument("--csv", type=pathlib.Path, help="file to which the table is written")
    parser.add_argument("--device", default="cpu", help="device of convoy-master predict")
    return parser.parse_args()


def missing():
    return [package for module, package in NEEDS.items() if importlib.util.find_spec(module) is None]


# ---- the nets -------------------------------------------------------------------------------------------------------

def small_nets():
    """Returns {name: (maker, extent of the images)} of nets with the idioms of tutorials."""
    from torch import cat, flatten, nn
    from torch.nn import functional

    class LeNet(nn.Module):
        """Flattens with view(x.size(0), -1)."""

        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5)
            self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

        def forward(self, x):
            x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
            x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
            x = x.view(x.size(0), -1)
            return self.fc3(functional.relu(self.fc2(functional.relu(self.fc1(x)))))

    class Block(nn.Module):
        """A block of a CIFAR ResNet, whose shortcut takes every second pixel and pads channels (He et al., option A)."""

        def __init__(self, inputs, outputs):
            super().__init__()
            self.stride = 1 if inputs == outputs else 2
            self.conv1 = nn.Conv2d(inputs, outputs, 3, self.stride, 1, bias=False)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn1, self.bn2, self.more = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs), outputs - inputs

        def forward(self, x):
            made = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
            if self.more:
                x = functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.more // 2, self.more // 2), "constant", 0)
            return functional.relu(made + x)

    class CifarResNet(nn.Module):
        def __init__(self):
            super().__init__()
            widths = [16] * 4 + [32] * 3 + [64] * 3
            self.first = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
            self.blocks = nn.Sequential(*[Block(a, b) for a, b in zip(widths, widths[1:])])
            self.fc = nn.Linear(64, 10)

        def forward(self, x):
            x = self.blocks(self.first(x))
            x = functional.avg_pool2d(x, x.size()[3])
            return self.fc(x.view(x.size(0), -1))

    class Padded(nn.Module):
        """Pads by F.pad in front of a convolution and of a pooling of what a ReLU made."""

        def __init__(self):
            super().__init__()
            self.conv1, self.conv2, self.fc = nn.Conv2d(3, 8, 3, 2), nn.Conv2d(8, 16, 3), nn.Linear(16, 10)

        def forward(self, x):
            x = functional.relu(self.conv1(functional.pad(x, (0, 1, 0, 1))))
            x = functional.max_pool2d(functional.pad(x, (0, 1, 0, 1)), 3, 2)
            x = functional.relu(self.conv2(functional.pad(x, [1, 1, 1, 1])))
            return self.fc(functional.adaptive_avg_pool2d(x, (1, 1)).squeeze(-1).squeeze(-1))

    class Means(nn.Module):
        """Pools globally by mean() and amax()."""

        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
            self.conv3, self.fc = nn.Conv2d(16, 10, 1), nn.Linear(10, 10)

        def forward(self, x):
            x = functional.relu(self.conv1(x))
            x = functional.adaptive_max_pool2d(functional.relu(self.conv2(x)), (8, 8))
            return self.fc(functional.relu(self.conv3(x)).mean((2, 3)))

    class Maxima(nn.Module):
        """All-convolutional, with the largest value of each map as its output."""

        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(3, 16, 3, padding=1, stride=2), nn.Conv2d(16, 10, 3, padding=1)

        def forward(self, x):
            return self.conv2(functional.relu(self.conv1(x))).amax(dim=(-2, -1))

    class Branches(nn.Module):
        """Two branches with poolings in ceil mode, concatenated."""

        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(3, 8, 5, padding=2)
            self.fc = nn.Linear(16 * 4 * 4, 10)

        def forward(self, x):
            left = functional.max_pool2d(functional.relu(self.conv1(x)), 3, 2, ceil_mode=True)
            right = functional.avg_pool2d(functional.relu(self.conv2(x)), 3, 2, ceil_mode=True)
            return self.fc(flatten(functional.adaptive_avg_pool2d(cat([left, right], 1), 4), 1))

    class Norms(nn.Module):
        """Norms of each sample, slopes of channels, dilated convolutions, and maps that become larger."""

        def __init__(self):
            super().__init__()
            self.conv1, self.norm1, self.act1 = nn.Conv2d(3, 16, 3, padding=2, dilation=2), nn.GroupNorm(4, 16), nn.PReLU(16)
            self.conv2 = nn.Conv2d(16, 16, 3, stride=2, padding=2, dilation=2, groups=16)
            self.norm2, self.act2 = nn.InstanceNorm2d(16, affine=True), nn.PReLU()
            self.norm3, self.wide, self.narrow = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)
            self.conv4, self.norm4 = nn.Conv2d(16, 12, 3, padding=1), nn.GroupNorm(1, 12, affine=False)
            self.conv5, self.norm5, self.fc = nn.Conv2d(28, 20, 3), nn.InstanceNorm2d(20), nn.Linear(20, 10)

        def forward(self, x):
            x = self.act1(self.norm1(self.conv1(x)))
            x = self.act2(self.norm2(self.conv2(x)))
            x = x + self.narrow(functional.gelu(self.wide(self.norm3(x.permute(0, 2, 3, 1))))).permute(0, 3, 1, 2)
            half = functional.max_pool2d(x, 2)
            near = functional.interpolate(self.norm4(self.conv4(half)), scale_factor=2)
            smooth = functional.interpolate(half, size=(16, 16), mode="bilinear", align_corners=False)
            x = functional.relu(self.norm5(self.conv5(cat([near, smooth], 1))))
            return self.fc(functional.adaptive_avg_pool2d(x, 1).flatten(1))

    def perceptron():
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.5),
                             nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))

    def small_vgg():
        """A VGG in small with dropout and leaky activations."""
        return nn.Sequential(nn.Conv2d(3, 16, 3, padding="same"), nn.LeakyReLU(0.1), nn.Conv2d(16, 16, 3, padding="same"),
                             nn.ELU(), nn.MaxPool2d(2), nn.Dropout2d(0.25), nn.Conv2d(16, 32, 3, padding="same"),
                             nn.ReLU6(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(32 * 8 * 8, 64), nn.Tanh(),
                             nn.Linear(64, 10))

    def in_network():
        """Network in network (Lin et al., 2014), which ends with as many maps as classes."""
        return nn.Sequential(nn.Conv2d(3, 24, 5, padding=2), nn.ReLU(), nn.Conv2d(24, 16, 1), nn.ReLU(),
                             nn.MaxPool2d(3, 2, ceil_mode=True), nn.Dropout(0.5), nn.Conv2d(16, 24, 5, padding=2), nn.ReLU(),
                             nn.Conv2d(24, 24, 1), nn.ReLU(), nn.AvgPool2d(3, 2, 1, count_include_pad=False),
                             nn.Conv2d(24, 10, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    class PreActivation(nn.Module):
        """A block whose batch norms and ReLUs come before the convolutions (He et al., 2016)."""

        def __init__(self, width):
            super().__init__()
            self.bn1, self.bn2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
            self.conv1, self.conv2 = nn.Conv2d(width, width, 3, 1, 1), nn.Conv2d(width, width, 3, 1, 1)

        def forward(self, x):
            return x + self.conv2(functional.relu(self.bn2(self.conv1(functional.relu(self.bn1(x))))))

    def preactivation():
        return nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), *[PreActivation(16) for _ in range(3)], nn.BatchNorm2d(16), nn.ReLU(),
                             nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(16, 10))

    return {"nin": (in_network, 32), "preact-resnet": (preactivation, 32), "lenet-view": (LeNet, 32),
            "cifar-resnet": (CifarResNet, 32), "padded": (Padded, 32), "means": (Means, 32),
            "maxima": (Maxima, 32), "branches": (Branches, 32), "mlp-bn": (perceptron, 32), "vgg-mini": (small_vgg, 32),
            "norms": (Norms, 32)}


def last_layer_for(net, classes):
    """Gives a net a last layer for so many classes: its last dense layer, or else its last convolution."""
    from torch import nn
    for kinds in ((nn.Linear,), (nn.Conv2d,)):
        found = [(owner, name, layer) for owner in net.modules() for name, layer in owner.named_children()
                 if isinstance(layer, kinds)]
        if found:
            owner, name, last = found[-1]
            bias = last.bias is not None
            setattr(owner, name, nn.Linear(last.in_features, classes, bias) if kinds == (nn.Linear,) else
                    nn.Conv2d(last.in_channels, classes, last.kernel_size, last.stride, last.padding, bias=bias))
            return


def make_net(name, classes=None, without_aux=False):
    """Returns a net in inference mode, with a new last layer for so many classes where they are given, and without side losses
    where asked, and the extent of its images. The same name gives the same weights."""
    import torch
    import torchvision
    torch.manual_seed(zlib.crc32(name.encode()))
    small = small_nets()
    if name in small:
        net, extent = small[name][0](), small[name][1]
        if classes:
            last_layer_for(net, classes)
    else:
        more = {"init_weights": False, "aux_logits": not without_aux} if name in ("googlenet", "inception_v3") else {}
        more |= {"num_classes": classes} if classes else {}
        net, extent = getattr(torchvision.models, name)(weights=None, **more), 299 if name == "inception_v3" else 224
    with torch.no_grad():
        for each in net.modules():
            numbers = isinstance(each, (torch.nn.GroupNorm, torch.nn.InstanceNorm2d, torch.nn.LayerNorm, torch.nn.PReLU))
            if numbers and each.weight is not None:
                each.weight.uniform_(-0.3, 1.3)
            if numbers and getattr(each, "bias", None) is not None:
                each.bias.uniform_(-0.2, 0.2)
    norms = [each for each in net.modules() if isinstance(each, (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d))]
    for norm in norms:
        norm.momentum = None  # a plain mean over all batches
        with torch.no_grad():
            norm.weight.uniform_(0.7, 1.3)
            norm.bias.uniform_(-0.2, 0.2)
    if norms:
        with torch.no_grad():
            net.train()(torch.rand(4, 3, extent, extent) * 4 - 2)
    for norm in norms:
        norm.momentum = 0.1
    return net.eval(), extent


def draw_images(folder, count, extent):
    """Writes random PNG files, and returns their names and the values that the net sees."""
    import numpy
    import torch
    from PIL import Image
    random = numpy.random.default_rng(5)
    files, values = [], []
    for number in range(count):
        coarse = random.integers(0, 256, (8, 8, 3), dtype=numpy.uint8)
        smooth = numpy.asarray(Image.fromarray(coarse).resize((extent, extent), Image.BICUBIC), dtype=numpy.int16)
        pixels = numpy.clip(smooth + random.integers(-20, 21, smooth.shape), 0, 255).astype(numpy.uint8)
        files.append(folder / f"{number}.png")
        Image.fromarray(pixels).save(files[-1])
        values.append(torch.from_numpy(pixels.copy()).permute(2, 0, 1).double())
    return files, (torch.stack(values) / 255 - MEAN) / DEVIATION


def names_of_nets(asked):
    """Returns the nets that are asked for, or all; ends the program where one is unknown."""
    names = [*TORCHVISION, *small_nets()]
    unknown = [name for name in asked if name not in names]
    if unknown:
        sys.exit(f"unknown nets {', '.join(unknown)}; known: {', '.join(names)}")
    return asked or names


# ---- export, import, comparison -------------------------------------------------------------------------------------

def export(net, extent, how, file):
    """Exports the net, and returns the opset; raises what the exporter raises."""
    import onnx
    import torch
    exporter, opset = how.split("-")
    example = torch.rand(1, 3, extent, extent)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter == "old":
            axes = {"images": {0: "batch"}, "classes": {0: "batch"}}
            torch.onnx.export(net, (example,), str(file), dynamo=False, opset_version=int(opset), input_names=["images"],
                              output_names=["classes"], dynamic_axes=axes)
        else:
            number = onnx.defs.onnx_opset_version() if opset == "newest" else int(opset)
            torch.onnx.export(net, (example,), str(file), dynamo=True, opset_version=number, verbose=False)
    model = onnx.load(str(file), load_external_data=False)
    return next(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))


def outputs_of(options, folder, files):
    """Returns the logits of the net imported as folder/imported.yaml, one row for each image."""
    net = (folder / "imported.yaml").read_text(encoding="utf-8")
    changed = net.replace("type: softmax_cross_entropy", "type: squared_error")
    if changed == net:
        raise RuntimeError("the imported net has no loss softmax_cross_entropy")
    (folder / "scores.yaml").write_text(changed, encoding="utf-8")
    command = [options.programs / "convoy-master", "predict", folder / "scores.yaml", *files, "--weights",
               folder / "imported.safetensors", "--format", "json", "--top", "1000", "--device", options.device, "--set",
               f"input.mean={MEAN}", "--set", f"input.deviation={DEVIATION}", "--set", f"training.batch={len(files)}"]
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(run.stderr.strip())
    rows = []
    for line in map(json.loads, run.stdout.splitlines()):
        if line["event"] == "prediction":
            scores = {each["class"]: each["score"] for each in line["classes"]}
            rows.append([scores[number] for number in range(len(scores))])
    return rows


def refusals(text):
    """Returns the refused operators of an error of `import`: those of a list of nodes, or else the message."""
    counts = {}
    for names, operator in re.findall(r"nodes? (.+?) \(([^()]+)\): ", text):
        more = re.search(r" and (\d+) more$", names)
        counts[operator] = counts.get(operator, 0) + names.count(", ") + 1 + (int(more[1]) if more else 0)
    listed = ", ".join(f"{operator} x {count}" if count > 1 else operator for operator, count in counts.items())
    return listed or text.strip().splitlines()[0][-150:]


def try_import(options, folder, model, files, logits, exact, last=None):
    """Imports a model. Returns what the table says: imported or not, the difference, PyTorch's own, refused operators. Where the
    model ends with Softmax or LogSoftmax, `last` is this operator, which the imported net has in its loss."""
    import numpy
    for old in folder.glob("imported.*"):
        old.unlink()
    run = subprocess.run([str(options.programs / "convoy-master"), "import", str(model), "--out", str(folder / "imported"),
                          "--force"], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        return {"imported": "no", "refused": refusals(run.stderr), "message": run.stderr.strip()}
    try:
        got = numpy.array(outputs_of(options, folder, files))
    except RuntimeError as error:
        return {"imported": "no", "refused": f"its outputs: {error}"[:200], "message": str(error)}
    if last:
        got = got - numpy.log(numpy.exp(got - got.max(1, keepdims=True)).sum(1, keepdims=True)) - got.max(1, keepdims=True)
        got = numpy.exp(got) if last == "Softmax" else got
    largest = numpy.abs(logits).max()
    return {"imported": "yes", "difference": float(numpy.abs(got - logits).max() / largest),
            "own": float(numpy.abs(exact - logits).max() / largest)}


def prepare(options, name, folder):
    """Exports the net in all forms that are not there yet. Returns {how: (file or None, opset or reason)}, the images'
    files, and PyTorch's logits in single and double precision."""
    import numpy
    import torch
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    facts_file = place / "facts.json"
    facts = json.loads(facts_file.read_text(encoding="utf-8")) if facts_file.exists() else {"exports": {}}
    hows = options.exports.split(",")
    if any(how not in facts["exports"] for how in hows) or len(facts.get("logits", [])) != options.images:
        net, extent = make_net(name)
        _, images = draw_images(place, options.images, extent)
        with torch.no_grad():
            facts["logits"] = net(images.float()).double().numpy().tolist()
        facts["exports"] = {}
        for how in hows:
            file, start = place / f"{how}.onnx", time.monotonic()
            try:
                facts["exports"][how] = {"opset": export(net, extent, how, file)}
            except Exception as error:  # the exporter raises errors of many types
                facts["exports"][how] = {"reason": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:150]}"}
            print(f"{name} {how}: exported in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        with torch.no_grad():
            facts["exact"] = net.double()(images).numpy().tolist()
        facts_file.write_text(json.dumps(facts), encoding="utf-8")
    files = [place / f"{number}.png" for number in range(options.images)]
    return facts["exports"], files, numpy.array(facts["logits"]), numpy.array(facts["exact"])


def main():
    options = parse_arguments()
    if lacking := missing():
        print(f"import_models.py: skipped, because {', '.join(lacking)} cannot be imported; install with "
              f"`pip install {' '.join(NEEDS.values())}`")
        return 0
    names = names_of_nets(options.nets)
    rows, wrong = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.models or pathlib.Path(scratch) / "models"
        print(f"{'net':20} {'exporter':8} {'opset':>5} {'imported':8} {'difference':>10} {'own':>8}  refused")
        for name in names:
            exports, files, logits, exact = prepare(options, name, folder)
            for how in options.exports.split(","):
                row = {"net": name, "exporter": how.split("-")[0], "opset": exports[how].get("opset", "-")}
                if "reason" in exports[how]:
                    row |= {"imported": "-", "refused": f"the exporter failed: {exports[how]['reason']}"}
                else:
                    row |= try_import(options, pathlib.Path(scratch), folder / name / f"{how}.onnx", files, logits, exact)
                wrong += row.get("difference", 0.0) > max(options.most, options.times * row.get("own", 0.0))
                rows.append(row)
                numbers = [f"{row[key]:.1e}" if key in row else "" for key in ("difference", "own")]
                print(f"{name:20} {row['exporter']:8} {row['opset']:>5} {row['imported']:8} {numbers[0]:>10} "
                      f"{numbers[1]:>8}  {row.get('refused', '')}", flush=True)
    for how in options.exports.split(","):
        of = [row for row, each in zip(rows, options.exports.split(",") * len(rows)) if each == how]
        print(f"{how}: {sum(row['imported'] == 'yes' for row in of)} of {len(of)} nets imported")
    if options.csv:
        with options.csv.open("w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, ["net", "exporter", "opset", "imported", "difference", "own", "refused"],
                                    extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
