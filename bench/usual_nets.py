"""Nets that PyTorch's users have: models of torchvision with random weights, and small nets with the idioms of tutorials.
bench/import_models.py, bench/train_imports.py and bench/torchvision_nets.py make their models here."""

import sys
import zlib

TORCHVISION = ("alexnet vgg11 vgg16_bn resnet18 resnet34 resnet50 resnext50_32x4d wide_resnet50_2 densenet121 squeezenet1_0 "
               "squeezenet1_1 googlenet inception_v3 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large shufflenet_v2_x0_5 "
               "shufflenet_v2_x1_0 mnasnet0_5 mnasnet1_0 efficientnet_b0 efficientnet_v2_s regnet_x_400mf regnet_y_400mf "
               "convnext_tiny vit_b_16").split()


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

    class UNet(nn.Module):
        """A U-Net of two levels: maps become smaller, and larger again by a transposed convolution and by interpolation."""

        def __init__(self):
            super().__init__()
            self.down1, self.down2 = nn.Conv2d(3, 12, 3, padding=1), nn.Conv2d(12, 24, 3, 2, 1)
            self.down3, self.bn = nn.Conv2d(24, 32, 3, 2, 1), nn.BatchNorm2d(32)
            self.up2 = nn.ConvTranspose2d(32, 24, 3, stride=2, padding=1, output_padding=1)
            self.mix2, self.mix1 = nn.Conv2d(48, 16, 3, padding=1), nn.Conv2d(28, 16, 3, padding=1)
            self.last = nn.Linear(16, 10)

        def forward(self, x):
            one = functional.mish(self.down1(x))
            two = functional.celu(self.down2(one))
            three = functional.mish(self.bn(self.down3(two)))
            two = functional.gelu(self.mix2(cat((self.up2(three), two), 1)), approximate="tanh")
            larger = functional.interpolate(two, size=one.shape[2:], mode="bilinear", align_corners=True)
            smaller = functional.interpolate(functional.relu(self.mix1(cat((larger, one), 1))), scale_factor=0.6)
            return self.last(smaller.mean((2, 3)))

    class NormedPerceptron(nn.Module):
        """Dense layers with norms behind their activations, and a residual sum."""

        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 5, 4)
            self.fc1, self.fc2, self.fc3 = nn.Linear(392, 64), nn.Linear(64, 64), nn.Linear(64, 10)
            self.bn, self.ln, self.slopes = nn.BatchNorm1d(64), nn.LayerNorm(64), nn.PReLU(64)

        def forward(self, x):
            x = self.bn(functional.relu(self.fc1(flatten(functional.relu(self.conv(x)), 1))))
            return self.fc3(self.slopes(x + self.ln(self.fc2(x))))

    return {"unet": (UNet, 32), "normed-mlp": (NormedPerceptron, 32), "nin": (in_network, 32), "preact-resnet": (preactivation, 32), "lenet-view": (LeNet, 32),
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


def untrained_net(name, classes=None, without_aux=False):
    """Returns a net as its code begins it, with a new last layer for so many classes where they are given, and without side losses
    where asked, and the extent of its images. The same name gives the same weights."""
    import torch
    import torchvision
    torch.manual_seed(zlib.crc32(name.encode()))
    small = small_nets()
    if name in small:
        net, extent = small[name][0](), small[name][1]
        if classes:
            last_layer_for(net, classes)
        return net, extent
    more = {"init_weights": False, "aux_logits": not without_aux} if name in ("googlenet", "inception_v3") else {}
    more |= {"num_classes": classes} if classes else {}
    return getattr(torchvision.models, name)(weights=None, **more), 299 if name == "inception_v3" else 224


def make_net(name, classes=None, without_aux=False):
    """Returns the same net in inference mode. Its norms, slopes and factors of channels have random numbers, so that mistakes in
    them show."""
    import torch
    net, extent = untrained_net(name, classes, without_aux)
    with torch.no_grad():
        for parameter, values in net.named_parameters():
            if parameter.endswith("layer_scale"):
                values.uniform_(0.3, 1.3)
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


def names_of_nets(asked):
    """Returns the nets that are asked for, or all; ends the program where one is unknown."""
    names = [*TORCHVISION, *small_nets()]
    unknown = [name for name in asked if name not in names]
    if unknown:
        sys.exit(f"unknown nets {', '.join(unknown)}; known: {', '.join(names)}")
    return asked or names
