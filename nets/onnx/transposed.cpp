// Transposed convolution.

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "nets/onnx/importer.hpp"

namespace convoy::onnx_file {

/// An output_shape, or an auto_pad that asks for a whole multiple of the input, decides what is cut off.
std::vector<int> Importer::cut_off(const Node& node, const Value& from, const TransposedConvolution& what) {
  const std::string how = text(node, "auto_pad", "NOTSET");
  std::vector<int> pads = ints(node, "pads", {0, 0, 0, 0});
  if (pads.size() != 4) refuse("pads has {} numbers; expected 4", pads.size());
  if (how == "VALID") pads = {0, 0, 0, 0};
  const bool same = how == "SAME_UPPER" || how == "SAME_LOWER";
  if (!same && how != "VALID" && how != "NOTSET") {
    refuse("auto_pad is {}; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER", how);
  }
  std::vector<int> wanted = ints(node, "output_shape", {});
  if (wanted.size() == 4) wanted.erase(wanted.begin(), wanted.begin() + 2);  // images and channels
  if (!wanted.empty() && wanted.size() != 2) refuse("output_shape has {} numbers; expected 2", wanted.size());
  const Convolution& conv = what.conv;
  const std::array<int, 2> strides{conv.stride_h, conv.stride_w};
  const std::array<int, 2> whole{(from.maps.height - 1) * conv.stride_h + conv.reach_h() + what.more_rows,
                                 (from.maps.width - 1) * conv.stride_w + conv.reach_w() + what.more_columns};
  for (std::size_t i = 0; i < 2; ++i) {
    if (wanted.empty() && !same) continue;
    const int extent = i == 0 ? from.maps.height : from.maps.width;
    const int total = whole.at(i) - (wanted.empty() ? extent * strides.at(i) : wanted[i]);
    if (total < 0) {
      refuse("its output would be smaller than it asks for by {} rows or columns; expected an output_padding", -total);
    }
    pads[i] = how == "SAME_UPPER" ? total / 2 : total - total / 2;
    pads[i + 2] = total - pads[i];
  }
  if (std::ranges::any_of(pads, [](int each) { return each < 0; })) {
    refuse("pads is {}; expected no number below 0", fmt::join(pads, " "));
  }
  return pads;
}

void Importer::transposed_conv(const Node& node) {
  constexpr int kLargest = 1024;  // of a net file
  const Value from = maps(node);
  const Constant& weights = constant(node, 1, "weights");
  if (weights.dims.size() != 4) refuse("its weights have {} extents; expected 4", weights.dims.size());
  const std::vector<int> extents = narrow(weights.dims);  // channels, filters of a group, rows, columns
  const std::int64_t groups = integer(node, "group", 1);
  const int channels = from.maps.channels;
  if (groups < 1 || groups > channels || channels % groups != 0 || extents[0] != channels) {
    refuse("its weights are for {} channels in {} groups, but its input has {}", extents[0], groups, channels);
  }
  const std::vector<int> kernel = two(node, "kernel_shape", {extents[2], extents[3]});
  if (kernel != std::vector<int>{extents[2], extents[3]})
    refuse("its kernel_shape differs from the extents of its weights");
  const std::vector<int> strides = two(node, "strides", {1, 1});
  const std::vector<int> dilations = two(node, "dilations", {1, 1});
  const std::vector<int> more = ints(node, "output_padding", {0, 0});
  if (more.size() != 2) refuse("output_padding has {} numbers; expected 2", more.size());
  for (std::size_t i = 0; i < 2; ++i) {
    if (std::max({kernel[i], strides[i], dilations[i]}) > kLargest) {
      refuse("its kernel is {}, its stride {} and its dilation {}; the limit is {}", kernel[i], strides[i],
             dilations[i], kLargest);
    }
    if (more[i] < 0 || more[i] >= std::max(strides[i], dilations[i])) {
      refuse("output_padding is {}; expected 0 to less than the stride or the dilation", fmt::join(more, " "));
    }
  }
  TransposedConvolution what{.conv = {.filters = extents[1] * static_cast<int>(groups),
                                      .kernel_h = kernel[0],
                                      .kernel_w = kernel[1],
                                      .stride_h = strides[0],
                                      .stride_w = strides[1],
                                      .groups = static_cast<int>(groups),
                                      .dilation_h = dilations[0],
                                      .dilation_w = dilations[1]},
                             .more_rows = more[0],
                             .more_columns = more[1]};
  const std::vector<int> pads = cut_off(node, from, what);
  what.conv.pad = {pads[0], pads[1], pads[2], pads[3]};
  if (std::max(pads[0], pads[2]) >= what.conv.reach_h() || std::max(pads[1], pads[3]) >= what.conv.reach_w()) {
    refuse("its pads {} cut off more than the kernel {} adds; expected less than the kernel", fmt::join(pads, " "),
           fmt::join(kernel, "x"));
  }
  std::vector<float> bias;
  if (has(node, 2)) bias = floats(node, 2, "bias");
  if (has(node, 2) && std::cmp_not_equal(bias.size(), what.conv.filters))
    refuse("its bias has {} values; expected {}", bias.size(), what.conv.filters);
  const WeightOrder order{what.conv.groups, channels / what.conv.groups, extents[1], kernel[0], kernel[1]};
  give_bare(node,
            builder_.transposed(node.name, from, what, reordered(floats(node, 1, "weights"), order), std::move(bias)));
}

}  // namespace convoy::onnx_file
