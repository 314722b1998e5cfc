// Tests that what depends on a free number of images is refused, and that hostile models take neither memory nor the
// stack.

#include <limits>

#include "tests/nets/refusals.hpp"

namespace convoy {
namespace {

void reshape_images(SmallModel& m, const std::vector<std::int64_t>& shape) {
  m.integers("shape", shape);
  m.node("Reshape", {m.last, "shape"});
}

/// Reads the sum of a constant at the end of a chain of nodes, so that the chain is folded.
void use(SmallModel& m, const std::string& maps) { m.node("Add", {maps, m.last}); }

INSTANTIATE_TEST_SUITE_P(
    FreeBatch, OnnxRefusals,
    testing::Values(
        Refusal{"ImagesJoinedWithRows",
                [](SmallModel& m) {
                  m.free_batch(), reshape_images(m, {-1, 6});
                },
                "joins images with other extents"},
        Refusal{"ImagesTwice",
                [](SmallModel& m) {
                  m.free_batch();
                  const std::string maps = m.last;
                  const std::string batch = extent(m, maps, 0);
                  SmallModel::set(m.node("Concat", {batch, batch}), "axis", {0});
                  m.node("Reshape", {maps, m.last});
                },
                "(Reshape): its shape NxN"},
        Refusal{"ImagesComputedWith",
                [](SmallModel& m) {
                  m.free_batch();
                  const std::string maps = m.last;
                  const std::string batch = extent(m, maps, 0);
                  m.integers("two", {2});
                  m.node("Mul", {batch, "two"});
                  m.node("Reshape", {maps, m.last});
                },
                "(Mul): it computes with the number of images"},
        Refusal{
            "ImagesAsPads",
            [](SmallModel& m) {
              m.free_batch();
              const std::string maps = m.last;
              const std::string batch = extent(m, maps, 0);
              SmallModel::set(m.node("Concat", {batch, batch, batch, batch, batch, batch, batch, batch}), "axis", {0});
              m.node("Pad", {maps, m.last});
            },
            "(Pad): one of its numbers is the number of images"},
        Refusal{"ConstantsOfImages",
                [](SmallModel& m) {
                  m.free_batch();
                  const std::string maps = m.last;
                  m.node("Shape", {maps});
                  m.node("ConstantOfShape", {m.last});
                  use(m, maps);
                },
                "(ConstantOfShape): it makes a constant for each image"},
        Refusal{"ImagesSqueezed",
                [](SmallModel& m) { m.node("GlobalAveragePool", {m.last}), m.node("Squeeze", {m.last}); },
                "node3 (Squeeze): it changes the shape 1x4x1x1 to 4"},
        Refusal{"OtherNumberOfImages",
                [](SmallModel& m) {
                  m.free_batch(), reshape_images(m, {7, 144});
                },
                "does not fit"}),
    refusal_name);

INSTANTIATE_TEST_SUITE_P(
    Hostile, OnnxRefusals,
    testing::Values(Refusal{"HugeConstant",
                            [](SmallModel& m) {
                              m.integers("shape", {kLargestInteger, kLargestInteger});
                              const std::string maps = m.last;
                              m.node("ConstantOfShape", {"shape"});
                              use(m, maps);
                            },
                            "(ConstantOfShape): it makes a constant of the shape"},
                    Refusal{"HugeExpand",
                            [](SmallModel& m) {
                              m.integers("shape", {1 << 15, 1 << 15});
                              m.integers("one", {1});
                              const std::string maps = m.last;
                              m.node("Expand", {"one", "shape"});
                              use(m, maps);
                            },
                            "(Expand): it makes a constant of the shape"},
                    Refusal{"LongRange",
                            [](SmallModel& m) {
                              m.integer("from", 0), m.integer("to", kLargestInteger), m.integer("by", 1);
                              const std::string maps = m.last;
                              m.node("Range", {"from", "to", "by"});
                              use(m, maps);
                            },
                            "(Range): it counts from"},
                    Refusal{"RangeByZero",
                            [](SmallModel& m) {
                              m.number("from", 0.0F), m.number("to", 0.0F), m.number("by", 0.0F);
                              const std::string maps = m.last;
                              m.node("Range", {"from", "to", "by"});
                              use(m, maps);
                            },
                            "(Range): it counts from"},
                    Refusal{"GrowingConstants",
                            [](SmallModel& m) {
                              m.constant("c", {1 << 20});
                              const std::string maps = m.last;
                              SmallModel::set(m.node("Concat", std::vector<std::string>(300, "c")), "axis", {0});
                              use(m, maps);
                            },
                            "(Concat): it makes a constant of the shape 314572800"},
                    Refusal{"OverflowingIntegers",
                            [](SmallModel& m) {
                              m.integers("large", {kLargestInteger});
                              const std::string maps = m.last;
                              m.node("Mul", {"large", "large"});
                              use(m, maps);
                            },
                            "(Mul): its integers are too large"},
                    Refusal{"DivisionByZero",
                            [](SmallModel& m) {
                              m.integers("zero", {0});
                              const std::string maps = m.last;
                              m.node("Mod", {"zero", "zero"});
                              use(m, maps);
                            },
                            "(Mod): it divides an integer by 0"},
                    Refusal{"IndexOutside",
                            [](SmallModel& m) {
                              m.integer("index", -9);
                              const std::string maps = m.last;
                              m.node("Shape", {maps});
                              m.node("Gather", {m.last, "index"});
                              use(m, maps);
                            },
                            "(Gather): its index is outside"},
                    Refusal{"AxisOutside",
                            [](SmallModel& m) {
                              m.integers("axes", {std::numeric_limits<std::int64_t>::min()});
                              m.node("Unsqueeze", {m.last, "axes"});
                            },
                            "(Unsqueeze): axis -9223372036854775808 is outside"},
                    Refusal{"AxisOfAnotherType",
                            [](SmallModel& m) {
                              const std::string maps = m.last;
                              m.node("Shape", {maps});
                              SmallModel::set_text(m.node("Concat", {m.last}), "axis", "0");
                              use(m, maps);
                            },
                            "(Concat): axis 1 is outside of the 1 extents"},
                    Refusal{"MissingInputs",
                            [](SmallModel& m) {
                              m.node("Clip", {}), m.node("Mul", {m.last, m.last});
                            },
                            "node2 (Clip): its input  is not computed"},
                    Refusal{"FunctionThatCallsItself",
                            [](SmallModel& m) {
                              inside(function(m, "Self", {"x"}, "y"), "Self", {"x"}, "y").set_domain("test");
                              m.node("Self", {m.last}).set_domain("test");
                            },
                            "(Self): its functions call one another more than"},
                    Refusal{"FunctionsThatMultiply",
                            [](SmallModel& m) {
                              inside(function(m, "F0", {"x"}, "y"), "Relu", {"x"}, "y");
                              for (int i = 1; i < 16; ++i) {
                                const std::string before = "F" + std::to_string(i - 1);
                                auto& next = function(m, "F" + std::to_string(i), {"x"}, "y");
                                for (int k = 0; k < 8; ++k) {
                                  inside(next, before, {k == 0 ? "x" : "y" + std::to_string(k)},
                                         k == 7 ? "y" : "y" + std::to_string(k + 1))
                                      .set_domain("test");
                                }
                              }
                              m.node("F15", {m.last}).set_domain("test");
                            },
                            "its functions become more than"},
                    Refusal{"FunctionOfAnotherOpset",
                            [](SmallModel& m) {
                              auto& made = function(m, "Old", {"x"}, "y");
                              made.mutable_opset_import(0)->set_version(9);
                              inside(made, "Relu", {"x"}, "y");
                              m.node("Old", {m.last}).set_domain("test");
                            },
                            "node2 (Old): its function has opset 9"},
                    Refusal{"FunctionWithADefault",
                            [](SmallModel& m) {
                              auto& made = function(m, "Leaky", {"x"}, "y");
                              auto& attribute = *inside(made, "LeakyRelu", {"x"}, "y").add_attribute();
                              attribute.set_name("alpha");
                              attribute.set_type(onnx::AttributeProto::FLOAT);
                              attribute.set_ref_attr_name("slope");
                              m.node("Leaky", {m.last}).set_domain("test");
                            },
                            "its attribute alpha is the attribute slope of its function"},
                    Refusal{"MoreInputsThanTheFunction",
                            [](SmallModel& m) {
                              inside(function(m, "One", {"x"}, "y"), "Relu", {"x"}, "y");
                              m.node("One", {m.last, m.last}).set_domain("test");
                            },
                            "node2 (One): it gives 2 inputs"}),
    refusal_name);

}  // namespace
}  // namespace convoy
