// A small net that uses every way of joining layers.
#pragma once

namespace convoy {

inline constexpr const char* kGraphNet = R"(name: graph
input: {channels: 2, height: 9, width: 8}
layers:
  - {name: stem, type: conv, filters: 6, kernel: 3, pad: same}
  - {name: stem_relu, type: tanh}
  - {name: stem_norm, type: response_norm, size: 3, alpha: 0.5}
  # A residual block, whose shortcut is what comes in.
  - {name: a1, from: stem_norm, type: conv, filters: 6, kernel: 3, pad: same, bias: false}
  - {name: a1_norm, type: batch_norm}
  - {name: a1_relu, type: tanh}
  - {name: a2, type: conv, filters: 6, kernel: 3, pad: same, bias: false, groups: 6}
  - {name: a2_norm, type: batch_norm}
  - {name: a_sum, from: [a2_norm, stem_norm], type: add}
  - {name: a_relu, type: sigmoid}
  # One that halves maps: the shortcut takes every other element, and is padded with channels of zeros.
  - {name: b1, from: a_relu, type: conv, filters: 10, kernel: 3, stride: 2, pad: 1}
  - {name: b_half, from: a_relu, type: average_pool, kernel: 1, stride: 2}
  - {name: b_wide, type: pad_channels, before: 1, after: 3}
  - {name: b_sum, from: [b_wide, b1], type: add}
  # The same with a projection, and three to add.
  - {name: c1, from: b_sum, type: conv, filters: 7, kernel: 1}
  - {name: c2, from: b_sum, type: conv, filters: 7, kernel: 3, pad: same}
  - {name: c3, from: c2, type: conv, filters: 7, kernel: 1}
  - {name: c_sum, from: [c1, c3, c2], type: add}
  # A second head, on maps that others read as well.
  - {name: side_pool, from: c_sum, type: average_pool, kernel: 3, stride: 2}
  - {name: side_out, type: dense, units: 3}
  - {name: side_loss, type: softmax_cross_entropy, weight: 0.5}
  # Branches side by side, one of them pooling alone; then a layer on all of what was joined.
  - {name: d1, from: c_sum, type: conv, filters: 3, kernel: 1}
  - {name: d2, from: c_sum, type: conv, filters: 5, kernel: 3, pad: same}
  - {name: d2_tanh, type: tanh}
  - {name: d3, from: c_sum, type: average_pool, kernel: 3, stride: 1, pad: same}
  - {name: d, from: [d1, d2_tanh, d3], type: concat}
  - {name: d_act, type: tanh}
  - {name: d_pool, type: average_pool, kernel: 2}
  # Joined, and read twice.
  - {name: e1, from: d_pool, type: conv, filters: 6, kernel: 1, groups: 3}
  - {name: e2, from: d_pool, type: batch_norm}
  - {name: e, from: [e2, e1, e1], type: concat}
  - {name: e_drop, type: dropout, rate: 0.25}
  - {name: out, type: dense, units: 3}
  - {name: loss, type: softmax_cross_entropy}
)";

/// A small net that multiplies maps, by gates and by one another, and that slices and shuffles channels.
inline constexpr const char* kGatesNet = R"(name: gates
input: {channels: 2, height: 9, width: 8}
layers:
  - {name: stem, type: conv, filters: 6, kernel: 3, pad: same}
  - {name: stem_tanh, type: tanh}
  - {name: mixed, type: shuffle_channels, groups: 3}
  # One part of the channels passes by the other, which has a gate.
  - {name: left, from: mixed, type: slice_channels, count: 2}
  - {name: right, from: mixed, type: slice_channels, first: 2, count: 4}
  - {name: r1, type: conv, filters: 4, kernel: 3, pad: same, bias: false, groups: 2}
  - {name: r1_norm, type: batch_norm}
  - {name: r1_silu, type: silu}
  - {name: r_mean, type: global_average_pool}
  - {name: r_down, type: conv, filters: 3, kernel: 1}
  - {name: r_down_tanh, type: tanh}
  - {name: r_up, type: conv, filters: 4, kernel: 1}
  - {name: r_gate, type: sigmoid}
  - {name: r_gated, from: [r_gate, r1_silu], type: multiply}
  - {name: r2, type: conv, filters: 4, kernel: 1}
  - {name: joined, from: [left, r2], type: concat}
  - {name: mixed_again, type: shuffle_channels, groups: 2}
  # A product of two convolutions and a gate.
  - {name: p_mean, from: mixed_again, type: global_average_pool}
  - {name: p_gate, type: conv, filters: 5, kernel: 1}
  - {name: p1, from: mixed_again, type: conv, filters: 5, kernel: 1}
  - {name: p2, from: mixed_again, type: conv, filters: 5, kernel: 3, pad: same}
  - {name: p2_tanh, type: tanh}
  - {name: product, from: [p1, p2_tanh, p_gate], type: multiply}
  - {name: product_tanh, type: tanh}
  - {name: pool, type: average_pool, kernel: 3, stride: 2, pad: 1, count_padding: true}
  - {name: squares, from: [pool, pool], type: multiply}
  - {name: sum, from: [squares, pool], type: add}
  # Slices of what was joined, across its parts.
  - {name: both, from: [sum, pool], type: concat}
  - {name: both_front, from: both, type: slice_channels, count: 3}
  - {name: both_back, from: both, type: slice_channels, first: 3, count: 7}
  - {name: front, from: both_front, type: conv, filters: 4, kernel: 2}
  - {name: back, from: both_back, type: conv, filters: 4, kernel: 2}
  - {name: end, from: [front, back], type: add}
  - {name: end_drop, type: dropout, rate: 0.25}
  - {name: out, type: dense, units: 3}
  - {name: loss, type: softmax_cross_entropy}
)";

/// A small net with dilated convolutions, norms of each sample, slopes of channels, and maps that become larger. A
/// slope of 1 has no kink, across which differences would be no gradients.
inline constexpr const char* kNormsNet = R"(name: norms
input: {channels: 2, height: 9, width: 8}
layers:
  - {name: stem, type: conv, filters: 6, kernel: 3, pad: same, dilation: 2}
  - {name: stem_norm, type: group_norm, groups: 3}
  - {name: stem_tanh, type: tanh}
  - {name: a1, type: conv, filters: 6, kernel: 3, pad: same, groups: 2, dilation: [1, 2], bias: false}
  - {name: a1_norm, type: instance_norm, epsilon: 0.01}
  - {name: a1_act, type: prelu, slope: 1}
  - {name: a_sum, from: [a1_act, stem_tanh], type: add}
  # A block of ConvNeXt's form.
  - {name: b1, from: a_sum, type: conv, filters: 6, kernel: 3, pad: same, groups: 6}
  - {name: b_norm, type: layer_norm, epsilon: 0.01}
  - {name: b2, type: conv, filters: 9, kernel: 1}
  - {name: b_gelu, type: gelu}
  - {name: b3, type: conv, filters: 6, kernel: 1}
  - {name: b_sum, from: [b3, a_sum], type: add}
  # Smaller maps become larger, in two ways.
  - {name: half, type: average_pool, kernel: 2}
  - {name: c1, type: conv, filters: 5, kernel: 3, pad: same}
  - {name: c_norm, type: group_norm, groups: 1, affine: false}
  - {name: c_tanh, type: tanh}
  - {name: up, type: upsample, factor: 2}
  - {name: smooth, from: half, type: upsample, factor: [2, 2], mode: bilinear}
  - {name: both, from: [up, smooth], type: concat}
  - {name: both_act, type: prelu, slope: 1}
  - {name: e, type: conv, filters: 4, kernel: 3, dilation: [2, 1]}
  - {name: e_norm, type: layer_norm, epsilon: 0.01, affine: false}
  - {name: e_tanh, type: tanh}
  - {name: out, type: dense, units: 3}
  - {name: loss, type: softmax_cross_entropy}
)";

/// A small net with transposed convolutions, maps that are resized, and dense layers in front of norms and joins.
inline constexpr const char* kSizesNet = R"(name: sizes
input: {channels: 2, height: 7, width: 6}
layers:
  - {name: stem, type: conv, filters: 6, kernel: 3, pad: same, stride: 2}
  - {name: stem_act, type: celu, alpha: 0.5}
  - {name: up, type: conv_transpose, filters: 4, kernel: 3, stride: 2, pad: 1, output_pad: [0, 1], groups: 2}
  - {name: up_norm, type: batch_norm}
  - {name: up_act, type: mish}
  - {name: wide, from: stem_act, type: conv_transpose, filters: 3, kernel: [2, 3], dilation: [2, 1], bias: false}
  - {name: wide_act, type: gelu, approximate: tanh}
  - {name: small, from: up_act, type: resize, size: [6, 5], mode: bilinear}
  - {name: corners, from: up_act, type: resize, size: [6, 5], mode: bilinear, align_corners: true}
  - {name: near, from: stem_act, type: resize, size: [6, 5]}
  - {name: both, from: [wide_act, small, corners, near], type: concat}
  - {name: mix, type: conv, filters: 5, kernel: 3, stride: 2, pad: 1}
  - {name: mix_tanh, type: tanh}
  # Dense layers whose outputs are normalised and added are stages, too.
  - {name: flat, type: flatten}
  - {name: flat_drop, type: dropout, rate: 0.25}
  - {name: d1, type: dense, units: 8}
  - {name: d1_norm, type: batch_norm}
  - {name: d1_act, type: tanh}
  - {name: d2, type: dense, units: 8}
  - {name: d2_norm, type: layer_norm, epsilon: 0.01}
  - {name: d_sum, from: [d2_norm, d1_act], type: add}
  - {name: d_slopes, type: prelu, slope: 1}
  - {name: out, type: dense, units: 3}
  - {name: loss, type: softmax_cross_entropy}
)";

}  // namespace convoy
