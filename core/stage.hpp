// A stage: one convolution and the per-channel layers after it, which is all that can be computed on some of the
// filters without knowing the others. Stages are what Convoy distributes; a shard is a contiguous filter range of one.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/tensor.hpp"

namespace convoy {

/// Zeros added around each map, in rows and columns.
struct Padding {
  int top = 0;
  int left = 0;
  int bottom = 0;
  int right = 0;
  bool operator==(const Padding&) const = default;
};

/// A convolution (in the deep-learning sense: cross-correlation) with bias; weights are (filter, channel, row, column).
struct Convolution {
  int filters = 0;
  int kernel_h = 1;
  int kernel_w = 1;
  int stride_h = 1;
  int stride_w = 1;
  Padding pad;
  bool operator==(const Convolution&) const = default;
};

enum class Activation : std::uint8_t { relu, sigmoid, tanh };

enum class PoolKind : std::uint8_t {
  max,      ///< padding never wins
  average,  ///< divides by the number of elements inside the map, padding excluded
};

struct Pooling {
  PoolKind kind = PoolKind::max;
  int kernel_h = 2;
  int kernel_w = 2;
  int stride_h = 2;
  int stride_w = 2;
  Padding pad;
  bool operator==(const Pooling&) const = default;
};

/// In training sets each element to zero with probability `rate` and scales the rest by 1 / (1 - rate); in testing it
/// does nothing. The mask is a pure function of the step's seed, `stream`, and the element's place in the whole
/// (unsplit) map (core/random.hpp, dropout_scale), so every split draws the same mask.
struct Dropout {
  float rate = 0.5F;
  std::uint32_t stream = 0;  ///< distinguishes the dropout layers of one net
  bool operator==(const Dropout&) const = default;
};

/// A layer that treats each channel by itself.
using ChannelLayer = std::variant<Activation, Pooling, Dropout>;

struct Stage {
  std::string name;  ///< that of its convolution
  int channels = 0;  ///< input channels
  int height = 0;    ///< input rows
  int width = 0;     ///< input columns
  Convolution conv;
  std::vector<ChannelLayer> after;
  bool operator==(const Stage&) const = default;
};

/// Filters first .. first + count - 1 of a stage.
struct FilterRange {
  int first = 0;
  int count = 0;
  bool operator==(const FilterRange&) const = default;
};

/// Filters in both; none where they do not meet.
FilterRange common(FilterRange a, FilterRange b);

/// Samples first .. first + count - 1 of a batch.
struct SampleRange {
  int first = 0;
  int count = 0;
  bool operator==(const SampleRange&) const = default;
};

/// Output extent of a window sliding over `extent` elements; 0 or less when it does not fit.
int window_output(int extent, int kernel, int stride, int pad_before, int pad_after);

Shape input_shape(const Stage& stage, int batch);
/// Shape after the convolution alone, for `filters` of its filters.
Shape conv_shape(const Stage& stage, int batch, int filters);
/// Shape after pooling maps of shape `in`.
Shape pooled_shape(const Pooling& pool, const Shape& in);
/// Shape of the stage's output for `filters` of its filters.
Shape output_shape(const Stage& stage, int batch, int filters);
/// Shape of the weights of `filters` filters: (filters, channels, kernel_h, kernel_w).
Shape weight_shape(const Stage& stage, int filters);
/// Throws Error naming the stage unless every extent is positive, every window fits and pads are smaller than their
/// windows. Called wherever a stage enters the program (net files, messages).
void validate(const Stage& stage);

/// Floating-point operations of one pass of the convolution over a batch (a multiply-add is two; padding counted as
/// work, as is usual): the same number for forward, input gradient and filter gradient.
double conv_flops(const Stage& stage, int batch, int filters);

/// What belongs to one shard between steps: its weights and the optimizer's state, on the host.
struct ShardState {
  Tensor weights;          ///< (filters, channels, kernel_h, kernel_w)
  Tensor bias;             ///< (filters, 1)
  Tensor weight_velocity;  ///< as weights: momentum buffer of SGD
  Tensor bias_velocity;    ///< as bias
};

/// All-zero state of `filters` filters of a stage.
ShardState zero_state(const Stage& stage, int filters);
/// Copies filters [range] out of / into a state.
ShardState slice(const ShardState& whole, FilterRange range);
void paste(const ShardState& part, FilterRange range, ShardState& whole);

/// One update by SGD with momentum and weight decay (as in Sutskever et al. 2013, in the form used by Caffe and
/// PyTorch): v = momentum * v + (gradient + weight_decay * w);  w = w - learning_rate * v. Weights and biases alike.
struct SgdStep {
  float learning_rate = 0.01F;
  float momentum = 0.0F;
  float weight_decay = 0.0F;
};

/// What a forward pass needs to know besides its input.
struct Pass {
  bool training = false;   ///< dropout is active and backward will follow
  std::uint64_t seed = 0;  ///< of this step; feeds dropout
};

}  // namespace convoy
