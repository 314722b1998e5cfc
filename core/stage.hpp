// A stage: one convolution and the per-channel layers after it, which is all that can be computed on some of the
// filters without knowing the others. Stages are what Convoy distributes; a shard is a contiguous filter range of one.
// The stages of a trunk are listed so that each reads earlier ones alone.
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

/// A convolution (in the deep-learning sense: cross-correlation); weights are (filter, channel, row, column). In groups,
/// each of so many equal runs of filters reads the run of channels of the same number, and weights have those channels
/// alone (Krizhevsky et al., NIPS 2012); as many groups as channels make it depthwise.
struct Convolution {
  int filters = 0;
  int kernel_h = 1;
  int kernel_w = 1;
  int stride_h = 1;
  int stride_w = 1;
  Padding pad;
  bool bias = true;  ///< adds a number to each map
  int groups = 1;
  bool operator==(const Convolution&) const = default;
};

/// A function of each element by itself.
struct Activation {
  enum class Kind : std::uint8_t {
    relu,
    sigmoid,
    tanh,
    leaky_relu  ///< x, or slope * x for negative x (Maas et al., ICML 2013)
  } kind = Kind::relu;
  float slope = 0.0F;
  bool operator==(const Activation&) const = default;

  static const Activation relu;
  static const Activation sigmoid;
  static const Activation tanh;
};
inline constexpr Activation Activation::relu{Kind::relu};
inline constexpr Activation Activation::sigmoid{Kind::sigmoid};
inline constexpr Activation Activation::tanh{Kind::tanh};

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

/// Normalises each channel: weight * (x - mean) / sqrt(variance + epsilon) + bias, in training with mean and variance over
/// all samples, rows and columns of the batch; in testing with their running averages, r = (1 - momentum) r + momentum *
/// batch's, of which the variance is the unbiased one (Ioffe and Szegedy, ICML 2015; averages as PyTorch's).
struct BatchNorm {
  std::string name;  ///< the layer's in its net, for its parameters
  float epsilon = 1e-5F;
  float momentum = 0.1F;
  bool operator==(const BatchNorm&) const = default;
};

/// Filters first .. first + count - 1 of a stage, or channels of its maps.
struct FilterRange {
  int first = 0;
  int count = 0;
  bool operator==(const FilterRange&) const = default;
};

/// Channels that a stage reads: of an earlier stage's maps, of the images, or zeros.
struct Source {
  static constexpr int kImages = -1;
  static constexpr int kZeros = -2;
  int stage = kImages;
  FilterRange channels;
  bool operator==(const Source&) const = default;
};
/// One behind the other.
using Sources = std::vector<Source>;

/// Adds other maps, element by element.
struct Add {
  Sources from;  ///< as many channels as the stage has filters, of the shape of the maps at this place
  bool operator==(const Add&) const = default;
};

/// A layer that treats each channel by itself.
using ChannelLayer = std::variant<Activation, Pooling, Dropout, BatchNorm, Add>;

/// y = x / (k + alpha / size * sum of x^2 over the `size` channels around it)^beta (Krizhevsky et al., NIPS 2012, as ONNX
/// writes it): of an even size, one channel more lies behind than before.
struct ResponseNorm {
  int size = 5;
  float alpha = 1e-4F;
  float beta = 0.75F;
  float k = 1.0F;
  bool operator==(const ResponseNorm&) const = default;
};

/// What makes a stage's maps, before the layers after it.
enum class StageKind : std::uint8_t {
  convolution,
  channels,       ///< nothing: the channels pass as they are
  response_norm,  ///< over neighbouring channels
};

struct Stage {
  std::string name;  ///< that of its convolution, or of its first layer
  int channels = 0;  ///< input channels
  int height = 0;    ///< input rows
  int width = 0;     ///< input columns
  /// Of other kinds than a convolution: 1 x 1, with as many filters as channels, and without weights.
  Convolution conv;
  std::vector<ChannelLayer> after;
  int moments = 1;  ///< tensors that the optimizer keeps for each of the stage's parameters (core/shard_state.hpp)
  StageKind kind = StageKind::convolution;
  ResponseNorm norm;  ///< of that kind
  Sources from;       ///< empty: all maps of the stage before, or the images
  bool operator==(const Stage&) const = default;
};

/// Filters in both; none where they do not meet.
FilterRange common(FilterRange a, FilterRange b);
/// The smallest range that has both.
FilterRange hull(FilterRange a, FilterRange b);

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
/// Of the maps that each Add layer of the stage adds to `filters` of its filters.
std::vector<Shape> added_shapes(const Stage& stage, int batch, int filters);
/// Shape of the weights of `filters` filters: (filters, channels / groups, kernel_h, kernel_w).
Shape weight_shape(const Stage& stage, int filters);
/// Throws Error naming the stage unless every extent is positive, every window fits and pads are smaller than their
/// windows. Called wherever a stage enters the program (net files, messages).
void validate(const Stage& stage);

/// Input channels that some of the stage's filters take.
FilterRange channels_for(const Stage& stage, FilterRange filters);

/// A stage of another kind than a convolution, of `channels` channels.
Stage stage_without_weights(const std::string& name, StageKind kind, int channels, int height, int width);

/// What each stage's input and, behind it, its Add layers read, with nothing left empty.
std::vector<Sources> reads_of(const std::vector<Stage>& trunk, std::size_t stage);
/// Some of the channels that one of reads_of() joins.
struct Read {
  std::size_t number = 0;  ///< which of them
  int stage = 0;           ///< whose maps, or one of Source's
  FilterRange channels;    ///< of those maps
  int at = 0;              ///< where they begin among what is joined
};
/// What of them some of the stage's filters take.
std::vector<Read> reads_for(const std::vector<Stage>& trunk, std::size_t stage, FilterRange filters);
/// Stages whose maps no stage reads: the heads do, and that of the last stage is the main one.
std::vector<int> outputs_of(const std::vector<Stage>& trunk);
/// Of so many channels of the maps of a stage, or of the images.
Shape maps_shape(const std::vector<Stage>& trunk, int stage, int batch, int channels);
/// Whether each stage reads the one before, whole, and nothing else.
bool is_chain(const std::vector<Stage>& trunk);
/// Throws Error naming the stage unless each is valid, and reads maps of earlier ones, of its input's shape; the first
/// reads the images.
void validate(const std::vector<Stage>& trunk);

/// Whether the stage normalises over the batch: its maps are there when all of the batch has passed the convolution, and
/// its gradients when all of the gradient by its maps is there.
bool has_batch_norm(const Stage& stage);

/// Floating-point operations of one pass of the convolution over a batch (a multiply-add is two; padding counted as
/// work, as is usual): the same number for forward, input gradient and filter gradient.
double conv_flops(const Stage& stage, int batch, int filters);

/// What a forward pass needs to know besides its input.
struct Pass {
  bool training = false;   ///< dropout is active and backward will follow
  std::uint64_t seed = 0;  ///< of this step; feeds dropout
  bool squares = false;    ///< the sum of the gradients' squares will be asked for before the update
};

}  // namespace convoy
