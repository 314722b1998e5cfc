#!/usr/bin/env python3
"""Writes net files for models of torchvision, with the names of the modules that hold their weights, and checks them.

    bench/torchvision_nets.py [NET]... --write           writes nets/torchvision/NET.yaml and nets/names/torchvision-NET.yaml
    bench/torchvision_nets.py [NET]... [--csv FILE]      compares the logits of both programs

A comparison gives the model of torchvision random weights, saves these as safetensors, takes them with `convoy-master import
--net --names`, and predicts random images with both programs. A net agrees where no logit differs by more than --most, relative
to the largest, or by no more than --times the difference between PyTorch's single and double precision. The script needs torch,
torchvision, numpy and Pillow, and ends with a reason where one is missing. The exit code is 1 where a net differs, and 0
otherwise."""

import argparse
import importlib.util
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import import_models
import usual_nets

NETS = ("alexnet vgg11 vgg16_bn resnet18 resnet50 resnext50_32x4d wide_resnet50_2 densenet121 squeezenet1_1 googlenet inception_v3 "
        "mobilenet_v2 mobilenet_v3_small mobilenet_v3_large shufflenet_v2_x1_0 mnasnet1_0 efficientnet_b0 efficientnet_v2_s "
        "regnet_x_400mf regnet_y_400mf convnext_tiny").split()
NEEDS = ("torch", "torchvision", "numpy", "PIL")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="NET", help="names of models of torchvision (default: all that are written)")
    parser.add_argument("--write", action="store_true", help="writes the files instead of comparing")
    parser.add_argument("--images", type=int, default=2, help="number of random images")
    parser.add_argument("--most", type=float, default=1e-5, help="largest difference of logits, relative to the largest logit")
    parser.add_argument("--times", type=float, default=3, help="or so many times PyTorch's own, of single from double precision")
    import_models.add_program_options(parser)
    return parser.parse_args()


# ---- from a model to a net file -------------------------------------------------------------------------------------

def pair(value):
    return list(value) if isinstance(value, (tuple, list)) else [value, value]


def short(values):
    """A list of equal numbers as one of them."""
    return values[0] if len(set(values)) == 1 else values


def window(shape, kernel, stride, padding, ceil):
    """Returns the fields of a pooling of maps of a shape. Rounding up is padding behind the last row and column."""
    kernel, stride, padding = pair(kernel), pair(kernel if stride is None or stride == [] else stride), pair(padding)
    behind = list(padding)
    for axis, extent in enumerate(shape[-2:]):
        rest = (extent + 2 * padding[axis] - kernel[axis]) % stride[axis]
        outputs = (extent + 2 * padding[axis] - kernel[axis]) // stride[axis] + 1
        # A last window begins inside of the maps or of the padding before them (PyTorch's rule).
        if ceil and rest and outputs * stride[axis] < extent + padding[axis]:
            behind[axis] += stride[axis] - rest
    fields = {"kernel": short(kernel), "stride": short(stride)}
    if any(padding + behind):
        fields["pad"] = short(padding + behind)
    return fields


def activation_of(module):
    """Returns the type and the fields of an activation without weights, or None."""
    from torch import nn
    simple = {nn.ReLU: "relu", nn.ReLU6: "relu6", nn.SiLU: "silu", nn.Hardswish: "hard_swish", nn.Hardsigmoid: "hard_sigmoid",
              nn.Sigmoid: "sigmoid", nn.Tanh: "tanh"}
    if type(module) is nn.GELU:
        return "gelu", {"approximate": "tanh"} if module.approximate == "tanh" else {}
    return next(((name, {}) for kind, name in simple.items() if type(module) is kind), None)


def module_layer(module, shape):
    """Returns the type and the fields of the layer that a module is, or None where it changes nothing at inference."""
    from torch import nn
    if isinstance(module, nn.Conv2d):
        if pair(module.dilation) != [1, 1]:
            raise NotImplementedError("a dilated convolution")
        fields = {"filters": module.out_channels, "kernel": short(pair(module.kernel_size))}
        if pair(module.stride) != [1, 1]:
            fields["stride"] = short(pair(module.stride))
        if pair(module.padding) != [0, 0]:
            fields["pad"] = short(pair(module.padding))
        if module.groups > 1:
            fields["groups"] = module.groups
        return "conv", fields | ({} if module.bias is not None else {"bias": False})
    if isinstance(module, nn.BatchNorm2d):
        fields = {} if module.eps == 1e-5 else {"epsilon": module.eps}
        return "batch_norm", fields | ({} if module.momentum == 0.1 else {"momentum": round(module.momentum, 6)})
    if isinstance(module, nn.Linear):
        if len(shape) == 4:  # a layer of each position, whose channels come last
            return "conv", {"filters": module.out_features, "kernel": 1} | ({} if module.bias is not None else {"bias": False})
        return "dense", {"units": module.out_features}
    if isinstance(module, nn.LayerNorm):
        if len(module.normalized_shape) != 1:
            raise NotImplementedError(f"a layer norm over {len(module.normalized_shape)} axes")
        return "layer_norm", {"epsilon": module.eps} | ({} if module.elementwise_affine else {"affine": False})
    if isinstance(module, nn.MaxPool2d):
        if pair(module.dilation) != [1, 1]:
            raise NotImplementedError("a dilated pooling")
        return "max_pool", window(shape, module.kernel_size, module.stride, module.padding, module.ceil_mode)
    if isinstance(module, nn.AvgPool2d):
        counts = {"count_padding": True} if module.count_include_pad and any(pair(module.padding)) else {}
        return "average_pool", window(shape, module.kernel_size, module.stride, module.padding, module.ceil_mode) | counts
    if isinstance(module, nn.AdaptiveAvgPool2d):
        extents = pair(module.output_size)
        if extents == [1, 1]:
            return "global_average_pool", {}
        if list(shape[-2:]) == extents:
            return None
        raise NotImplementedError(f"adaptive pooling of {list(shape[-2:])} to {extents}")
    if isinstance(module, nn.Dropout):
        return ("dropout", {"rate": module.p}) if module.p > 0 else None
    if type(module).__name__ in ("Identity", "StochasticDepth", "Flatten"):
        return None
    found = activation_of(module)
    if found is None:
        raise NotImplementedError(f"a module {type(module).__name__}")
    return found


class Writer:
    """Follows the graph of a model. Each value of it is a layer of the net, or a part of the channels of one."""

    def __init__(self, model, extent):
        import torch
        from torch import fx
        from torch.fx.passes.shape_prop import ShapeProp
        from torchvision.models import convnext, shufflenetv2

        class Tracer(fx.Tracer):
            def is_leaf_module(self, module, name):
                """Keeps a layer norm of maps whole, which moves channels to the end and back."""
                return isinstance(module, convnext.LayerNorm2d) or super().is_leaf_module(module, name)

        tracer = Tracer(autowrap_functions=(shufflenetv2.channel_shuffle,))
        self.graph = fx.GraphModule(model, tracer.trace(model))
        ShapeProp(self.graph).propagate(torch.zeros(1, 3, extent, extent))
        self.layers, self.modules, self.values, self.parts = [], {}, {}, {}
        for node in self.graph.graph.nodes:
            self.follow(node)

    def add(self, node, kind, sources, fields, name=None):
        name = name or node.name
        self.layers.append((name, kind, sources, fields))
        self.values[node] = name

    def scale(self, node):
        """Adds a depthwise convolution of 1x1 for a product of maps and a number for each channel; returns whether `node` is one."""
        numbers = [each for each in node.all_input_nodes if each.op == "get_attr"]
        if len(numbers) != 1:
            return False
        values = self.tensor(numbers[0].target)
        channels = values.shape[0]
        if list(values.shape) != [channels, 1, 1]:
            raise NotImplementedError(f"a product with {numbers[0].target} of {list(values.shape)}")
        maps = [self.values[each] for each in node.all_input_nodes if each is not numbers[0]]
        fields = {"filters": channels, "kernel": 1, "groups": channels, "bias": False}
        if (values == values[0]).all():
            fields["init"] = {"constant": values[0].item()}
        self.add(node, "conv", maps, fields, numbers[0].name)
        self.modules[numbers[0].name] = numbers[0].target
        return True

    def tensor(self, name):
        owner, _, attribute = name.rpartition(".")
        return getattr(self.graph.get_submodule(owner), attribute)

    def follow(self, node):
        import operator
        import torch
        from torch.nn import functional
        from torchvision.models.shufflenetv2 import channel_shuffle
        from torchvision.ops import stochastic_depth
        of = [self.values.get(each) for each in node.all_input_nodes]
        if node.op == "placeholder":
            self.values[node] = "input"
        elif node.op == "call_module":
            module = self.graph.get_submodule(node.target)
            made = module_layer(module, node.args[0].meta["tensor_meta"].shape)
            if made is None:
                self.values[node] = of[0]
                return
            self.add(node, made[0], of, made[1])
            if any(True for _ in module.parameters()):
                if node.target in self.modules.values():
                    raise NotImplementedError(f"{node.target} is used twice")
                self.modules[node.name] = node.target
        elif node.target in (operator.add, operator.iadd, torch.add):
            self.add(node, "add", of, {})
        elif node.op == "get_attr":
            return
        elif node.target in (operator.mul, torch.mul):
            if not self.scale(node):
                self.add(node, "multiply", of, {})
        elif node.target is torch.permute and list(node.args[1]) in ([0, 2, 3, 1], [0, 3, 1, 2]):
            self.values[node] = of[0]  # net files have channels first; between both orders are only layers of each position
        elif node.target is torch.cat:
            joined = [self.values[each] for each in node.args[0]]
            if len(joined) > 1:
                self.add(node, "concat", joined, {})
            self.values[node] = self.values.get(node, joined[0])
        elif node.target in (functional.relu, torch.relu):
            self.add(node, "relu", of, {})
        elif node.target is functional.avg_pool2d:
            given = dict(zip(("kernel_size", "stride", "padding"), node.args[1:])) | node.kwargs
            fields = window(node.args[0].meta["tensor_meta"].shape, given["kernel_size"], given.get("stride"), given.get("padding", 0), False)
            self.add(node, "average_pool", of, fields | ({"count_padding": True} if any(pair(given.get("padding", 0))) else {}))
        elif node.target is functional.max_pool2d:
            given = dict(zip(("kernel_size", "stride", "padding"), node.args[1:])) | node.kwargs
            self.add(node, "max_pool", of, window(node.args[0].meta["tensor_meta"].shape, given["kernel_size"], given.get("stride"),
                                                  given.get("padding", 0), given.get("ceil_mode", False)))
        elif node.target is functional.adaptive_avg_pool2d or (node.op == "call_method" and node.target == "mean"):
            self.add(node, "global_average_pool", of, {})
        elif node.op == "call_method" and node.target == "chunk":
            self.parts[node] = (of[0], node.args[0].meta["tensor_meta"].shape[1] // node.args[1])
        elif node.target is operator.getitem and node.args[0] in self.parts:
            source, count = self.parts[node.args[0]]
            first = node.args[1] * count
            self.add(node, "slice_channels", [source], ({"first": first} if first else {}) | {"count": count})
        elif node.target is channel_shuffle:
            self.add(node, "shuffle_channels", of[:1], {"groups": node.args[1]})
        elif node.target in (torch.flatten, functional.dropout, stochastic_depth) or node.op == "output" or (
                node.op == "call_method" and node.target in ("flatten", "view", "reshape")):
            self.values[node] = of[0]
        else:
            raise NotImplementedError(f"{node.op} {node.target}")


def yaml_of(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(yaml_of, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {yaml_of(each)}" for key, each in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def net_file(name, writer, extent, parameters):
    lines = [f"# {name} of torchvision, written by bench/torchvision_nets.py. It has {parameters} parameters.",
             f"# nets/names/torchvision-{name}.yaml has the modules that hold its weights. Its images have the mean",
             "# [0.485, 0.456, 0.406] and the deviation [0.229, 0.224, 0.225].",
             f"name: {name}", f"input: {{channels: 3, height: {extent}, width: {extent}}}", "layers:"]
    before = "input"
    for layer, kind, sources, fields in writer.layers:
        words = [f"name: {layer}"]
        if sources != [before]:
            words.append(f"from: {sources[0] if len(sources) == 1 else '[' + ', '.join(sources) + ']'}")
        words += [f"type: {kind}"] + [f"{key}: {yaml_of(value)}" for key, value in fields.items()]
        lines.append("  - {" + ", ".join(words) + "}")
        before = layer
    lines += ["  - {name: loss, type: softmax_cross_entropy}",
              "training: {batch: 32, epochs: 90, learning_rate: 0.01, momentum: 0.9, weight_decay: 0.0001, schedule: {kind: cosine}}",
              "augment: {flip: true, resized_crop: 0.25}"]
    return "\n".join(lines) + "\n"


def write(name):
    net, extent = usual_nets.untrained_net(name, without_aux=True)
    writer = Writer(net, extent)
    parameters = sum(each.numel() for each in net.parameters())
    nets = import_models.ROOT / "nets"
    (nets / "torchvision").mkdir(exist_ok=True)
    (nets / f"torchvision/{name}.yaml").write_text(net_file(name, writer, extent, parameters), encoding="utf-8")
    names = [f"# The modules of torchvision's {name} that hold the weights of the layers of torchvision/{name}.yaml.",
             *(f"{layer}: {module}" for layer, module in writer.modules.items())]
    (nets / f"names/torchvision-{name}.yaml").write_text("\n".join(names) + "\n", encoding="utf-8")
    print(f"{name}: {len(writer.layers)} layers, {parameters} parameters")


# ---- comparison -----------------------------------------------------------------------------------------------------

def save_safetensors(state, file):
    """Writes tensors of 32-bit floats in the format of safetensors."""
    import numpy
    header, data = {}, []
    at = 0
    for name, tensor in state.items():
        if not tensor.is_floating_point():
            continue
        values = tensor.detach().numpy().astype(numpy.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + len(values)]}
        at += len(values)
        data.append(values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


def compare(options, name, folder):
    """Returns the row of a net."""
    import numpy
    import torch
    net, extent = usual_nets.make_net(name, without_aux=True)
    files, images = import_models.draw_images(folder, options.images, extent)
    save_safetensors(net.state_dict(), folder / "model.safetensors")
    with torch.no_grad():
        wanted = net(images.float()).double().numpy()
        exact = net.double()(images).numpy()
    nets = import_models.ROOT / "nets"
    run = subprocess.run([str(word) for word in (
        options.programs / "convoy-master", "import", folder / "model.safetensors", "--net", nets / f"torchvision/{name}.yaml",
        "--names", nets / f"names/torchvision-{name}.yaml", "--out", folder / "imported")], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        return {"net": name, "verdict": f"refused: {run.stderr.strip()[:200]}"}
    (folder / "imported.yaml").write_text((nets / f"torchvision/{name}.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    got = numpy.array(import_models.outputs_of(options, folder, files))
    difference, own = (float(numpy.abs(each - wanted).max() / numpy.abs(wanted).max()) for each in (got, exact))
    return {"net": name, "parameters": sum(each.numel() for each in net.parameters()), "difference": f"{difference:.1e}",
            "own": f"{own:.1e}", "verdict": "agrees" if difference <= max(options.most, options.times * own) else "differs"}


def main():
    options = parse_arguments()
    if lacking := [module for module in NEEDS if importlib.util.find_spec(module) is None]:
        print(f"torchvision_nets.py: skipped, because {', '.join(lacking)} cannot be imported")
        return 0
    if unknown := [name for name in options.nets if name not in NETS]:
        sys.exit(f"unknown nets {', '.join(unknown)}; known: {', '.join(NETS)}")
    rows = []
    for name in options.nets or NETS:
        if options.write:
            write(name)
            continue
        with tempfile.TemporaryDirectory() as folder:
            rows.append(compare(options, name, pathlib.Path(folder)))
        row = rows[-1]
        print(f"{name:20} {row.get('parameters', ''):>12} {row.get('difference', ''):>8} {row.get('own', ''):>8}  {row['verdict']}", flush=True)
    import_models.write_table(options, ["net", "parameters", "difference", "own", "verdict"], rows)
    return 1 if any(row["verdict"] != "agrees" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
