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

}  // namespace convoy
