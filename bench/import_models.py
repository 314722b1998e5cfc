#!/usr/bin/env python3
"""Exports usual nets from PyTorch as ONNX models, imports each with convoy-master, and compares Convoy's logits with
PyTorch's.

    bench/import_models.py [NET]... [--models FOLDER] [--exports old-13,new-18,new-newest] [--images 3] [--back]
                           [--csv FILE]

The nets are torchvision's, with random weights, and small ones of this file that use shape arithmetic, padding and
adaptive pooling as people write them. Each is exported with PyTorch's old exporter at opset 13 and with its default
exporter at opset 18 and at the newest opset that it can write. Batch norms have the statistics of random images, so that
a mistake in them shows.

The logits are those of `convoy-master predict` for random PNG files. The script sets the loss of the imported net file to
squared_error for it, because predict prints scores of such a net as they are, and probabilities otherwise. A difference is
the largest over all images and classes, divided by the largest logit; beside it stands the same difference between
PyTorch in single and in double precision.

With --back, each imported net is exported again by `convoy-master export`. The checker of ONNX must take this model, and
onnxruntime computes its logits, whose difference from PyTorch's has a column of its own.

--models keeps the exported models, which take minutes to make and gigabytes, for another call. The script needs torch,
torchvision, onnx, onnxscript, onnxruntime and Pillow, and ends with a reason where one is missing. The exit code is 1
where logits differ by more than --most and by more than --times PyTorch's own difference, or where no model can be
exported, and 0 otherwise."""

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

import usual_nets

ROOT = pathlib.Path(__file__).resolve().parent.parent
NEEDS = {"torch": "torch", "torchvision": "torchvision", "onnx": "onnx", "onnxscript": "onnxscript",
         "onnxruntime": "onnxruntime", "PIL": "pillow"}
MEAN, DEVIATION = 0.5, 0.25


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="NET", help="names of nets (default: all)")
    parser.add_argument("--models", type=pathlib.Path, help="folder in which exported models are kept")
    parser.add_argument("--exports", default="old-13,new-18,new-newest", help="exporter and opset, separated by commas")
    parser.add_argument("--images", type=int, default=3, help="number of random images")
    parser.add_argument("--most", type=float, default=1e-5, help="largest difference of logits, relative to the largest logit")
    parser.add_argument("--times", type=float, default=3, help="or so many times PyTorch's own, of single from double precision")
    parser.add_argument("--back", action="store_true", help="export each imported net again, for onnxruntime")
    add_program_options(parser)
    return parser.parse_args()


def add_program_options(parser):
    """Adds the options that this script shares with the other comparisons of imported nets."""
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bin", help="folder of the programs")
    parser.add_argument("--device", default="cpu", help="device of convoy-master")
    parser.add_argument("--csv", type=pathlib.Path, help="file to which the table is written")


def write_table(options, fields, rows):
    """Writes the rows to the file of --csv, if there is one. Other keys of a row are left out."""
    if options.csv:
        with options.csv.open("w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, fields, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)


def missing():
    return [package for module, package in NEEDS.items() if importlib.util.find_spec(module) is None]


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


def back_in_onnx(options, folder, files, logits):
    """Exports the net imported as folder/imported.yaml, and returns what the table says of it."""
    import numpy
    import onnx
    import onnxruntime
    from PIL import Image
    file = folder / "back.onnx"
    run = subprocess.run([str(options.programs / "convoy-master"), "export", str(folder / "imported.yaml"), "--weights",
                          str(folder / "imported.safetensors"), "--out", str(file), "--force"], capture_output=True, text=True,
                         check=False)
    if run.returncode != 0:
        return {"back": "refused", "message": run.stderr.strip()}
    try:
        onnx.checker.check_model(str(file), full_check=True)
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    except Exception as error:  # both raise errors of many types
        return {"back": "invalid", "message": str(error)}
    pixels = numpy.stack([numpy.asarray(Image.open(each)) for each in files]).transpose(0, 3, 1, 2)
    images = ((pixels / 255 - MEAN) / DEVIATION).astype(numpy.float32)
    got = session.run(None, {session.get_inputs()[0].name: images})[0]
    return {"back": float(numpy.abs(got - logits).max() / numpy.abs(logits).max())}


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
        net, extent = usual_nets.make_net(name)
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
    names = usual_nets.names_of_nets(options.nets)
    rows, wrong = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.models or pathlib.Path(scratch) / "models"
        print(f"{'net':20} {'exporter':8} {'opset':>5} {'imported':8} {'difference':>10} {'own':>8} {'back':>8}  refused")
        for name in names:
            exports, files, logits, exact = prepare(options, name, folder)
            for how in options.exports.split(","):
                row = {"net": name, "exporter": how.split("-")[0], "opset": exports[how].get("opset", "-")}
                if "reason" in exports[how]:
                    row |= {"imported": "-", "refused": f"the exporter failed: {exports[how]['reason']}"}
                else:
                    row |= try_import(options, pathlib.Path(scratch), folder / name / f"{how}.onnx", files, logits, exact)
                if options.back and row["imported"] == "yes":
                    row |= back_in_onnx(options, pathlib.Path(scratch), files, logits)
                most = max(options.most, options.times * row.get("own", 0.0))
                back = row.get("back", 0.0)
                wrong += row.get("difference", 0.0) > most or not isinstance(back, float) or back > most
                rows.append(row)
                numbers = [f"{row[key]:.1e}" if isinstance(row.get(key), float) else row.get(key, "")
                           for key in ("difference", "own", "back")]
                print(f"{name:20} {row['exporter']:8} {row['opset']:>5} {row['imported']:8} {numbers[0]:>10} "
                      f"{numbers[1]:>8} {numbers[2]:>8}  {row.get('refused', '')}", flush=True)
    for how in options.exports.split(","):
        of = [row for row, each in zip(rows, options.exports.split(",") * len(rows)) if each == how]
        print(f"{how}: {sum(row['imported'] == 'yes' for row in of)} of {len(of)} nets imported")
    write_table(options, ["net", "exporter", "opset", "imported", "difference", "own", "back", "refused"], rows)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
