#!/usr/bin/env python3
"""Writes tests/data/resized.inc: what torchvision's Resize and CenterCrop make of painted images.

    tests/torch/make_resized.py

The images are not stored, because tests/data/pictures_test.cpp paints them by the same formula (painted). Of the large
view, every seventh row and column is kept. The program needs torchvision and pillow."""

import pathlib

import numpy
from PIL import Image
from torchvision import transforms

FILE = pathlib.Path(__file__).resolve().parent.parent / "data" / "resized.inc"


def painted(height: int, width: int) -> Image.Image:
    """Slopes, stripes and a block pattern, in whole numbers."""
    y, x = numpy.mgrid[0:height, 0:width]
    red = (3 * x + 2 * y) % 256
    green = numpy.where((x // 5 + y // 3) % 2 == 0, 230, 20)
    blue = (x * y // 7 + 5 * y) % 256
    return Image.fromarray(numpy.stack([red, green, blue], axis=2).astype(numpy.uint8), "RGB")


def view(height: int, width: int, resize: int, side: int, step: int) -> list:
    """The kept values, channel by channel."""
    cut = transforms.Compose([transforms.Resize(resize, antialias=True), transforms.CenterCrop(side)])
    return numpy.array(cut(painted(height, width)))[::step, ::step, :].transpose(2, 0, 1).flatten().tolist()


CASES = {"kSmallPortrait": (131, 97, 40, 32, 1), "kLargeLandscape": (301, 421, 256, 224, 7), "kEnlarged": (20, 33, 28, 24, 1)}

if __name__ == "__main__":
    lines = []
    for name, (height, width, resize, side, step) in CASES.items():
        values = view(height, width, resize, side, step)
        lines.append(f"// {height} x {width}, Resize({resize}), CenterCrop({side}), every value number {step}")
        lines.append(f"constexpr std::uint8_t {name}[] = {{")
        for first in range(0, len(values), 30):
            lines.append("    " + " ".join(f"{value}," for value in values[first:first + 30]))
        lines.append("};")
    FILE.write_text("\n".join(lines) + "\n")
