#!/usr/bin/env python3
"""Imports the node tests of the ONNX project, each inside a small classification net, and compares the outputs.

    bench/onnx_node_tests.py [NAME]... [--most 1e-5] [--csv FILE] [--summary FILE]

The ONNX project has tests of single nodes, with their attributes and inputs. This script takes those of operators that `import`
knows. Convoy imports classification nets, so each node is put into one:

- A node that computes with values of images gets them from a 1x1 convolution of random images, in the shape and the range of the
  test's own input. Its other inputs of the same shape come from further convolutions, and the rest are constants. A dense layer with
  random weights makes ten outputs of what the node computes. The outputs are compared with those of the ONNX project's reference
  evaluator for the same model and images.
- A node that may be computed before any image is seen (Shape, Gather, Range, ...) gets constants, and its output becomes the bias of
  a dense layer. The outputs are compared with the outputs of the test itself.

A node whose shapes, types or number of outputs no classification net has does not fit. The table lists such nodes and the nodes that
`import` refuses, with the reasons. --csv writes a row for each test; --summary writes one for each operator, result and reason. The script needs onnx, numpy and Pillow, and ends with a reason where one is missing. The exit code
is 1 where an output differs by more than --most, relative to the largest, or where a program ends in another way than with an
error, and 0 otherwise."""

import argparse
import collections
import csv
import importlib.util
import io
import contextlib
import pathlib
import sys
import tempfile
import warnings

import import_models

# Operators that `import` knows (docs/nets.md): on maps or lists that depend on images ...
ELEMENTWISE = ("Relu LeakyRelu Sigmoid Tanh Clip HardSigmoid HardSwish Elu Selu Celu Softplus Swish Mish Gelu PRelu Dropout Identity "
               "Cast Add Sub Mul Div Sum").split()
ON_MAPS = ("Conv ConvTranspose MaxPool AveragePool GlobalAveragePool GlobalMaxPool ReduceMean ReduceMax BatchNormalization LRN Concat "
           "Flatten Reshape Squeeze Unsqueeze Expand Transpose Pad Slice Split GroupNormalization InstanceNormalization "
           "LayerNormalization Resize Upsample").split()
ON_LISTS = "Gemm MatMul Softmax LogSoftmax Flatten".split()
# ... and on constants.
ON_CONSTANTS = ("Shape Size Gather Concat Unsqueeze Squeeze Cast ConstantOfShape Range Where Equal Less LessOrEqual Greater "
                "GreaterOrEqual Not And Or Neg Abs Sqrt Reciprocal Floor Ceil Pow Mod Min Max Mean Reshape Transpose Slice Expand "
                "ReduceSum ReduceProd ReduceMin ReduceMax ReduceMean Add Sub Mul Div Sum Identity Constant Flatten").split()


class DoesNotFit(Exception):
    """Says why no classification net has such a node."""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of tests, as test_relu (default: all)")
    parser.add_argument("--most", type=float, default=1e-5, help="largest difference of outputs, relative to the largest output")
    import_models.add_program_options(parser)
    parser.add_argument("--summary", type=pathlib.Path, help="file to which the numbers of tests by operator and reason are written")
    parser.add_argument("--list", action="store_true", help="prints each test that does not fit, too")
    return parser.parse_args()


def values_of(case):
    """Returns the arrays of a test's inputs, by name, and its outputs."""
    from onnx import TensorProto, numpy_helper
    inputs, outputs = ([numpy_helper.to_array(each) if isinstance(each, TensorProto) else each for each in values]
                       for values in case.data_sets[0])
    return dict(zip((each.name for each in case.model.graph.input), inputs)), outputs


class Wrapper:
    """A classification net around one node."""

    def __init__(self, random):
        self.random, self.nodes, self.constants = random, [], []

    def constant(self, name, value):
        from onnx import numpy_helper
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def add(self, operator, inputs, output, **attributes):
        from onnx import helper
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def maps(self, name, shape, low, high):
        """Adds a 1x1 convolution that makes `shape[1]` maps with values from low to high of the images."""
        import numpy
        weights = self.random.uniform(0.1, 1, (shape[1], 3, 1, 1))
        weights *= (high - low) / 4 / weights.sum(axis=1, keepdims=True)  # normalised pixels go from -2 to 2
        bias = numpy.full(shape[1], (low + high) / 2, numpy.float32)
        return self.add("Conv", ["images", self.constant(name + "_weights", weights.astype(numpy.float32)),
                                 self.constant(name + "_bias", bias)], name)

    def outputs_of(self, flat, count, last=None):
        """Adds a dense layer that makes ten outputs of a list of so many values, or as many as its bias has."""
        import numpy
        classes = 10 if last is None else last[1]
        inputs = [flat, self.constant("last_weights", self.random.standard_normal((count, classes)).astype(numpy.float32))]
        self.add("Gemm", inputs + ([] if last is None else [last[0]]), "classes")
        return classes

    def model(self, extent, classes, like):
        """Returns the model for images of these rows and columns, with the operator sets of another model."""
        from onnx import TensorProto, helper
        images = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, *extent])
        outputs = helper.make_tensor_value_info("classes", TensorProto.FLOAT, ["batch", classes])
        graph = helper.make_graph(self.nodes, "node", [images], [outputs], self.constants)
        return helper.make_model(graph, opset_imports=like.opset_import, ir_version=like.ir_version)


def single_node(case):
    """Returns the node of the test; raises DoesNotFit where its outputs are not one tensor."""
    node = case.model.graph.node[0]
    if len([name for name in node.output if name]) != 1:
        raise DoesNotFit("several outputs")
    return node


def on_images(case, random):
    """Returns the model around a node that computes with values of images, the shape of its images, and None."""
    import numpy
    node, (inputs, outputs) = single_node(case), values_of(case)
    named = [name for name in node.input if name]
    if not named or named[0] not in inputs:
        raise DoesNotFit("no input that could come from images")
    first = inputs[named[0]]
    if not isinstance(first, numpy.ndarray) or first.dtype != numpy.float32:
        raise DoesNotFit("an input of another type than float")
    if not first.size:
        raise DoesNotFit("an empty input")
    wrapper, operator = Wrapper(random), node.op_type
    shape = first.shape
    if operator in ELEMENTWISE and first.ndim != 4:
        shape = (1, 1, 1, first.size) if first.ndim < 2 else (1, first.shape[0], int(numpy.prod(first.shape[1:-1])), first.shape[-1])
    on_list = operator in ON_LISTS and first.ndim == 2
    if on_list:
        shape = (first.shape[0], 1, 1, first.shape[1])
    if operator == "Dropout" and len(named) > 2 and inputs.get(named[2], False):
        raise DoesNotFit("random outputs")
    if len(shape) != 4:
        raise DoesNotFit(f"an input of {first.ndim} dimensions")
    if not on_list and operator not in ELEMENTWISE + ON_MAPS:
        raise DoesNotFit("a node on lists with an input of 4 dimensions")
    known, low, high = {}, float(first.min()), float(first.max())
    if not (numpy.isfinite(low) and numpy.isfinite(high)):
        raise DoesNotFit("an input that is not finite")
    for name in named:
        if name not in inputs or name in known:
            continue
        value = inputs[name]
        if name == named[0] or (value.shape == first.shape and value.dtype == first.dtype and operator != "PRelu"
                                and (operator in ELEMENTWISE or operator == "Concat")):
            known[name] = wrapper.maps("maps_" + name, shape, low, high)
            if on_list:  # through a dense layer that changes nothing, because a softmax needs one in front
                flat = wrapper.add("Flatten", [known[name]], "flat_" + name)
                same = wrapper.constant("same_" + name, numpy.eye(shape[3], dtype=numpy.float32))
                known[name] = wrapper.add("Gemm", [flat, same], "list_" + name)
        else:
            if operator in ELEMENTWISE and first.ndim != 4 and value.size > 1:
                raise DoesNotFit(f"a constant of the shape {list(value.shape)} for maps")
            known[name] = wrapper.constant("constant_" + name, value)
    again = type(node)()
    again.CopyFrom(node)
    del again.input[:], again.output[:]
    again.input.extend(known.get(name, name) for name in node.input)
    again.output.append("made")
    wrapper.nodes.append(again)
    made = outputs[0].shape
    if operator in ("Softmax", "LogSoftmax") and on_list:
        again.output[0] = "classes"
        return wrapper.model(shape[2:], shape[-1], case.model), shape, operator
    if operator in ELEMENTWISE and first.ndim != 4:
        made = shape
    if outputs[0].dtype != numpy.float32:
        raise DoesNotFit("an output of another type than float")
    if len(made) not in (2, 4) or made[0] != shape[0]:
        raise DoesNotFit(f"an output of the shape {list(made)} for {shape[0]} images")
    flat = wrapper.add("Flatten", ["made"], "flat") if len(made) == 4 else "made"
    classes = wrapper.outputs_of(flat, int(numpy.prod(made[1:])))
    return wrapper.model(shape[2:], classes, case.model), shape, None


def on_constants(case, random):
    """Returns the model around a node of constants, the shape of its images, and the test's own outputs as a list."""
    import numpy
    from onnx import TensorProto
    node, (inputs, outputs) = single_node(case), values_of(case)
    output = outputs[0]
    if not all(isinstance(value, numpy.ndarray) for value in inputs.values()) or not isinstance(output, numpy.ndarray):
        raise DoesNotFit("an input or an output that is no tensor")
    try:
        wanted = output.astype(numpy.float32).reshape(-1)
    except (TypeError, ValueError) as error:
        raise DoesNotFit(f"an output of the type {output.dtype}") from error
    if not wanted.size or wanted.size > 900 or not numpy.isfinite(wanted).all():
        raise DoesNotFit("an output that is no bias: empty, not finite, or of more than 900 values")
    wrapper = Wrapper(random)
    for name, value in inputs.items():
        wrapper.constant("constant_" + name, value)
    again = type(node)()
    again.CopyFrom(node)
    del again.input[:], again.output[:]
    again.input.extend("constant_" + name if name else "" for name in node.input)
    again.output.append("made")
    wrapper.nodes.append(again)
    wrapper.add("Cast", ["made"], "cast", to=TensorProto.FLOAT)
    wrapper.add("Reshape", ["cast", wrapper.constant("shape", numpy.array([-1], numpy.int64))], "line")
    wrapper.add("Concat", ["line", wrapper.constant("more", numpy.array([1, 2], numpy.float32))], "bias", axis=0)
    wrapper.add("Flatten", ["images"], "flat")
    wrapper.outputs_of("flat", 12, ("bias", wanted.size + 2))
    return wrapper.model((2, 2), wanted.size + 2, case.model), (1, 3, 2, 2), None


def compare(options, model, shape, last, folder):
    """Imports the model. Returns what the table says of it."""
    import numpy
    import onnx
    from onnx.reference import ReferenceEvaluator
    from PIL import Image
    random = numpy.random.default_rng(3)
    pixels = random.integers(0, 256, (shape[0], *shape[2:], 3), dtype=numpy.uint8)
    files = []
    for number, each in enumerate(pixels):
        files.append(folder / f"{number}.png")
        Image.fromarray(each).save(files[-1])
    images = ((pixels.transpose(0, 3, 1, 2) / 255 - import_models.MEAN) / import_models.DEVIATION).astype(numpy.float32)
    wanted = numpy.asarray(ReferenceEvaluator(model).run(None, {"images": images})[0], dtype=float)
    if not numpy.isfinite(wanted).all():
        raise DoesNotFit("outputs that are not finite")
    onnx.save(model, folder / "model.onnx")
    found = import_models.try_import(options, folder, folder / "model.onnx", files, wanted, wanted, last)
    if found["imported"] == "no":
        crashed = "convoy-master: " not in found["message"]
        reason = found["message"].splitlines()[-1].removeprefix("convoy-master: ").replace(f"{folder}/", "")
        reason = reason.removeprefix("model.onnx: ")
        return {"result": "crashed" if crashed else "refused", "reason": reason[:300]}
    agrees = found["difference"] <= options.most
    return {"result": "passed" if agrees else "differs", "difference": f"{found['difference']:.1e}"}


def write_summary(file, rows):
    """Writes the number of tests with the same operator, result and reason, and the name of the first of them."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["operator"], row["of"], row["result"], row.get("reason", "").strip()].append(row["test"])
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(["operator", "of", "result", "tests", "first_test", "reason"])
        for (operator, of, result, reason), tests in sorted(groups.items()):
            writer.writerow([operator, of, result, len(tests), tests[0], reason])


def main():
    options = parse_arguments()
    if lacking := [module for module in ("onnx", "numpy", "PIL") if importlib.util.find_spec(module) is None]:
        print(f"onnx_node_tests.py: skipped, because {', '.join(lacking)} cannot be imported")
        return 0
    import numpy
    import onnx
    from onnx.backend.test.case.node import collect_testcases
    warnings.simplefilter("ignore")
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        cases = collect_testcases()
    rows = []
    for case in cases:
        nodes = case.model.graph.node
        if len(nodes) != 1 or nodes[0].domain not in ("", "ai.onnx") or (options.names and case.name not in options.names):
            continue
        for where, operators, wrap in (("images", ELEMENTWISE + ON_MAPS + ON_LISTS, on_images), ("constants", ON_CONSTANTS, on_constants)):
            if nodes[0].op_type not in operators:
                continue
            row = {"test": case.name, "operator": nodes[0].op_type, "of": where}
            with tempfile.TemporaryDirectory() as folder:
                try:
                    row |= compare(options, *wrap(case, numpy.random.default_rng(7)), pathlib.Path(folder))
                except DoesNotFit as reason:
                    row |= {"result": "does not fit", "reason": str(reason)}
                except Exception as error:  # the reference evaluator raises errors of many types
                    row |= {"result": "does not fit", "reason": f"the reference evaluator: {str(error).splitlines()[0][:150]}"}
            rows.append(row)
            if options.list or row["result"] not in ("passed", "does not fit"):
                print(f"{row['test']:55} {row['of']:9} {row['result']:12} {row.get('difference', '')}{row.get('reason', '')}", flush=True)
    print(f"\n{'operator':24} {'of':9} {'passed':>7} {'refused':>8} {'differs':>8} {'crashed':>8} {'does not fit':>13}")
    table = collections.defaultdict(collections.Counter)
    for row in rows:
        table[row["operator"], row["of"]][row["result"]] += 1
    results = ("passed", "refused", "differs", "crashed", "does not fit")
    for (operator, of), counts in sorted(table.items()):
        print(f"{operator:24} {of:9} " + " ".join(f"{counts[result]:>{width}}" for result, width in zip(results, (7, 8, 8, 8, 13))))
    total = collections.Counter(row["result"] for row in rows)
    print(f"onnx {onnx.__version__}: " + ", ".join(f"{total[result]} {result}" for result in results))
    if options.summary:
        write_summary(options.summary, rows)
    import_models.write_table(options, ["test", "operator", "of", "result", "difference", "reason"], rows)
    return 1 if total["differs"] + total["crashed"] else 0


if __name__ == "__main__":
    sys.exit(main())
