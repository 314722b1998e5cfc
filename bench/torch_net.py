"""Net files as PyTorch modules, for comparisons with Convoy. The module needs torch and PyYAML."""

import math
import pathlib

import torch
import yaml
from torch.nn import functional


def read_net(file, overrides=()):
    """Returns a net file with fields set as by --set: "conv1.filters=8", "training.batch=2"."""
    net = yaml.safe_load(pathlib.Path(file).read_text(encoding="utf-8"))
    layers = {layer["name"]: layer for layer in net["layers"]}
    for override in overrides:
        place, value = override.split("=", 1)
        owner, field = place.rsplit(".", 1)
        if owner not in layers and owner not in ("input", "training", "augment"):
            raise ValueError(f"{override}: {file} has no layer {owner}")
        target = layers[owner] if owner in layers else net.setdefault(owner, {})
        target[field] = yaml.safe_load(value)
    return net


def pair(value):
    return list(value) if isinstance(value, list) else [value, value]


def reach_of(layer):
    """Returns the rows and columns under the kernel, between whose elements a dilation leaves gaps."""
    return [(kernel - 1) * dilation + 1 for kernel, dilation in zip(pair(layer["kernel"]), pair(layer.get("dilation", 1)))]


def sides_of(layer, height, width):
    """Returns the padding (top, left, bottom, right). `same` gives ceil(extent / stride) outputs, with an odd row or
    column after the map."""
    pad = layer.get("pad", 0)
    if pad == "valid":
        pad = 0
    if pad == "same":
        both = []
        strides = pair(layer.get("stride", 1 if layer["type"] == "conv" else layer["kernel"]))
        for extent, kernel, stride in zip((height, width), reach_of(layer), strides):
            total = max((-(-extent // stride) - 1) * stride + kernel - extent, 0)
            both.append((total // 2, total - total // 2))
        return both[0][0], both[1][0], both[0][1], both[1][1]
    if isinstance(pad, list) and len(pad) == 4:
        return tuple(pad)
    rows, columns = pair(pad)
    return rows, columns, rows, columns


class Window(torch.nn.Module):
    """A sliding window with padding, which may be asymmetric. PyTorch's own padding is used where it suffices, for
    speed."""

    def __init__(self, layer, sides, height, width):
        super().__init__()
        self.kernel = pair(layer["kernel"])
        self.stride = pair(layer.get("stride", 1 if layer["type"] == "conv" else layer["kernel"]))
        self.dilation = pair(layer.get("dilation", 1))
        self.reach = reach_of(layer)
        top, left, bottom, right = sides
        self.even = (top, left) == (bottom, right)
        self.before = (top, left)
        self.around = (left, right, top, bottom)  # in the order of functional.pad
        # PyTorch's ceil_mode adds padding after the map, where `same` adds it.
        up = [-(-(extent + 2 * before - kernel) // stride) == (extent + before + after - kernel) // stride
              for extent, before, after, kernel, stride in zip((height, width), (top, left), (bottom, right),
                                                               self.reach, self.stride)]
        self.ceil = not self.even and all(up)

    def outputs(self, height, width):
        left, right, top, bottom = self.around
        return ((height + top + bottom - self.reach[0]) // self.stride[0] + 1,
                (width + left + right - self.reach[1]) // self.stride[1] + 1)


class Conv(Window):
    def __init__(self, layer, channels, height, width):
        super().__init__(layer, sides_of(layer, height, width), height, width)
        self.conv = torch.nn.Conv2d(channels, layer["filters"], self.kernel, self.stride,
                                    padding=self.before if self.even else 0, dilation=self.dilation,
                                    bias=layer.get("bias", True), groups=layer.get("groups", 1))

    def forward(self, maps):
        return self.conv(maps if self.even else functional.pad(maps, self.around))


class MaxPool(Window):
    def __init__(self, layer, height, width):
        super().__init__(layer, sides_of(layer, height, width), height, width)

    def forward(self, maps):
        if self.even or self.ceil:
            return functional.max_pool2d(maps, self.kernel, self.stride, self.before, self.dilation, self.ceil)
        return functional.max_pool2d(functional.pad(maps, self.around, value=float("-inf")), self.kernel, self.stride,
                                     dilation=self.dilation)


class AveragePool(Window):
    """Average pooling, which counts padding with `count_padding` only."""

    def __init__(self, layer, height, width):
        super().__init__(layer, sides_of(layer, height, width), height, width)
        self.counts = layer.get("count_padding", False)

    def forward(self, maps):
        if self.counts:
            return functional.avg_pool2d(functional.pad(maps, self.around), self.kernel, self.stride)
        if self.even or self.ceil:
            return functional.avg_pool2d(maps, self.kernel, self.stride, self.before, ceil_mode=self.ceil,
                                         count_include_pad=False)
        inside = functional.pad(torch.ones_like(maps[:1, :1]), self.around)
        return (functional.avg_pool2d(functional.pad(maps, self.around), self.kernel, self.stride) /
                functional.avg_pool2d(inside, self.kernel, self.stride))


class LayerNorm(torch.nn.LayerNorm):
    """Normalises the channels at each position."""

    def forward(self, maps):
        return super().forward(maps.movedim(1, -1)).movedim(-1, 1)


class EvenResponseNorm(torch.nn.Module):
    """A response norm over an even number of channels, whose window reaches one channel further forward than back, as in ONNX.
    PyTorch's reaches further back."""

    def __init__(self, size, alpha, beta, k):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, maps):
        squares = functional.pad(maps ** 2, (0, 0, 0, 0, (self.size - 1) // 2, self.size // 2))
        sums = sum(squares[:, first:first + maps.shape[1]] for first in range(self.size))
        return maps / (self.k + self.alpha / self.size * sums) ** self.beta


class BatchNorm(torch.nn.BatchNorm2d):
    """Normalises the channels of maps, or the outputs of a dense layer."""

    def _check_input_dim(self, input):
        pass


class TransposedConv(torch.nn.Module):
    """A transposed convolution whose weights have the order of Convoy's files: those of the convolution of spread maps."""

    def __init__(self, layer, channels):
        super().__init__()
        self.groups = layer.get("groups", 1)
        self.stride, self.dilation = pair(layer.get("stride", 1)), pair(layer.get("dilation", 1))
        self.pad, self.more = pair(layer.get("pad", 0)), pair(layer.get("output_pad", 0))
        rows, columns = pair(layer["kernel"])
        self.weight = torch.nn.Parameter(torch.zeros(layer["filters"], channels // self.groups, rows, columns))
        self.bias = torch.nn.Parameter(torch.zeros(layer["filters"])) if layer.get("bias", True) else None

    def outputs(self, height, width):
        return tuple((extent - 1) * stride - 2 * pad + dilation * (kernel - 1) + more + 1
                     for extent, stride, pad, dilation, kernel, more in
                     zip((height, width), self.stride, self.pad, self.dilation, self.weight.shape[2:], self.more))

    def forward(self, maps):
        weight = self.weight.unflatten(0, (self.groups, -1)).transpose(1, 2).flatten(0, 1).flip(2, 3)
        return functional.conv_transpose2d(maps, weight, self.bias, self.stride, self.pad, self.more, self.groups,
                                           self.dilation)


class Net(torch.nn.Module):
    """A net whose forward() returns the input of each loss in the order of the file; the main loss is the last. `shapes`
    has the (channels, rows, columns) of each layer's output by the layer's name."""

    def __init__(self, net):
        super().__init__()
        self.layers = net["layers"]
        self.steps = torch.nn.ModuleDict()
        self.classes = 0
        self.shapes = {"input": (net["input"]["channels"], net["input"]["height"], net["input"]["width"])}
        before = "input"
        self.reads = []
        for layer in self.layers:
            reads = layer.get("from", before)
            self.reads.append(reads if isinstance(reads, list) else [reads])
            before = layer["name"]
            self.shapes[before] = self.add(layer, [self.shapes[name] for name in self.reads[-1]])

    def add(self, layer, shapes):
        """Makes the layer's module, if it needs one, and returns the (channels, rows, columns) of its output."""
        name, kind = layer["name"], layer["type"]
        channels, height, width = shapes[0]
        if kind in ("conv", "max_pool", "average_pool"):
            if kind == "conv":
                step = Conv(layer, channels, height, width)
            else:
                step = (MaxPool if kind == "max_pool" else AveragePool)(layer, height, width)
            self.steps[name] = step
            return (layer["filters"] if kind == "conv" else channels, *step.outputs(height, width))
        if kind == "dense":
            self.steps[name] = torch.nn.Linear(channels * height * width, layer["units"])
            return (layer["units"], 1, 1)
        if kind == "batch_norm":
            self.steps[name] = BatchNorm(channels, layer.get("epsilon", 1e-5), layer.get("momentum", 0.1))
        elif kind == "response_norm":
            size = layer.get("size", 5)
            kind_of_norm = torch.nn.LocalResponseNorm if size % 2 else EvenResponseNorm
            self.steps[name] = kind_of_norm(size, layer.get("alpha", 1e-4), layer.get("beta", 0.75), layer.get("k", 1.0))
        elif kind in ("group_norm", "instance_norm"):
            self.steps[name] = torch.nn.GroupNorm(layer["groups"] if kind == "group_norm" else channels, channels,
                                                  layer.get("epsilon", 1e-5), layer.get("affine", True))
        elif kind == "layer_norm":
            self.steps[name] = LayerNorm(channels, layer.get("epsilon", 1e-5), layer.get("affine", True))
        elif kind == "prelu":
            self.steps[name] = torch.nn.PReLU(channels, layer.get("slope", 0.25))
        elif kind == "conv_transpose":
            step = self.steps[name] = TransposedConv(layer, channels)
            return (layer["filters"], *step.outputs(height, width))
        elif kind == "resize":
            if "size" in layer:
                return (channels, *pair(layer["size"]))
            return (channels, *(math.floor(extent * factor + 1e-6)
                                for extent, factor in zip((height, width), pair(layer["factor"]))))
        elif kind == "upsample":
            rows, columns = pair(layer["factor"])
            return (channels, height * rows, width * columns)
        elif kind == "dropout":
            module = torch.nn.Dropout2d if layer.get("spatial", False) and height * width > 1 else torch.nn.Dropout
            self.steps[name] = module(layer["rate"])
        elif kind == "flatten":
            return (channels * height * width, 1, 1)
        elif kind == "global_average_pool":
            return (channels, 1, 1)
        elif kind == "concat":
            return (sum(shape[0] for shape in shapes), height, width)
        elif kind == "pad_channels":
            return (channels + layer.get("before", 0) + layer.get("after", 0), height, width)
        elif kind == "slice_channels":
            return (layer["count"], height, width)
        elif kind == "multiply":
            return max(shapes, key=lambda shape: shape[1] * shape[2])
        elif kind in ("softmax_cross_entropy", "squared_error"):
            self.classes = channels * height * width
        return shapes[0]

    def compute(self, layer, inputs):
        kind = layer["type"]
        maps = inputs[0]
        if kind == "dense":
            return self.steps[layer["name"]](maps.flatten(1))
        if layer["name"] in self.steps:
            return self.steps[layer["name"]](maps)
        if kind == "relu":
            return functional.relu(maps)
        if kind == "leaky_relu":
            return functional.leaky_relu(maps, layer.get("slope", 0.01))
        if kind in ("relu6", "clip"):
            low, high = (0.0, 6.0) if kind == "relu6" else (layer.get("low", -math.inf), layer.get("high", math.inf))
            return functional.hardtanh(maps, low, high)
        if kind == "hard_sigmoid":
            return functional.hardtanh(layer.get("alpha", 1 / 6) * maps + layer.get("beta", 0.5), 0.0, 1.0)
        if kind == "elu":
            return functional.elu(maps, layer.get("alpha", 1.0))
        if kind == "gelu":
            return functional.gelu(maps, approximate=layer.get("approximate", "none"))
        if kind == "celu":
            return functional.celu(maps, layer.get("alpha", 1.0))
        if kind in ("selu", "softplus", "silu", "mish"):
            return getattr(functional, kind)(maps)
        if kind == "hard_swish":
            return functional.hardswish(maps)
        if kind in ("tanh", "sigmoid"):
            return getattr(torch, kind)(maps)
        if kind == "concat":
            return torch.cat(inputs, 1)
        if kind == "add":
            return sum(inputs[1:], maps)
        if kind == "multiply":
            return math.prod(inputs[1:], start=maps)
        if kind == "slice_channels":
            first = layer.get("first", 0)
            return maps[:, first:first + layer["count"]]
        if kind == "shuffle_channels":
            return maps.unflatten(1, (layer["groups"], -1)).transpose(1, 2).flatten(1, 2)
        if kind == "upsample":
            bilinear = layer.get("mode", "nearest") == "bilinear"
            return functional.interpolate(maps, scale_factor=[float(factor) for factor in pair(layer["factor"])],
                                          mode="bilinear" if bilinear else "nearest",
                                          align_corners=False if bilinear else None)
        if kind == "resize":
            bilinear = layer.get("mode", "nearest") == "bilinear"
            if not bilinear and layer.get("align_corners", False):  # which PyTorch does not have
                rows, columns = ([i * (extent - 1) // max(size - 1, 1) for i in range(size)]
                                 for extent, size in zip(maps.shape[2:], pair(layer["size"])))
                return maps[:, :, rows][:, :, :, columns]
            factors = [float(factor) for factor in pair(layer["factor"])] if "factor" in layer else None
            return functional.interpolate(maps, size=pair(layer["size"]) if factors is None else None,
                                          scale_factor=factors, mode="bilinear" if bilinear else "nearest",
                                          align_corners=layer.get("align_corners", False) if bilinear else None)
        if kind == "pad_channels":
            return functional.pad(maps, (0, 0, 0, 0, layer.get("before", 0), layer.get("after", 0)))
        if kind == "global_average_pool":
            return functional.adaptive_avg_pool2d(maps, 1)
        if kind == "flatten":
            return maps.flatten(1)
        raise ValueError(f"layer {layer['name']}: torch_net.py does not support the type {kind}")

    def forward(self, images):
        values = {"input": images}
        outputs = []
        for layer, reads in zip(self.layers, self.reads):
            inputs = [values[name] for name in reads]
            if layer["type"] in ("softmax_cross_entropy", "squared_error"):
                outputs.append(inputs[0].flatten(1))
            else:
                values[layer["name"]] = self.compute(layer, inputs)
        return outputs

    def loss(self, outputs, labels):
        """Returns the weighted sum of all losses, which is trained, and the main loss alone."""
        losses = [layer for layer in self.layers if layer["type"] in ("softmax_cross_entropy", "squared_error")]
        total = 0.0
        for layer, output in zip(losses, outputs):
            if layer["type"] == "squared_error":
                wanted = functional.one_hot(labels, output.shape[1])
                loss = 0.5 * ((output - wanted) ** 2).sum(1).mean()
            else:
                loss = functional.cross_entropy(output, labels, label_smoothing=layer.get("label_smoothing", 0.0))
            total = total + layer.get("weight", 1.0) * loss
        return total, loss

    def named_tensors(self):
        """Yields the parameters under the names that Convoy's files give them."""
        for name, tensor in self.named_parameters():
            yield name.replace("steps.", "").replace(".conv.", "."), tensor
