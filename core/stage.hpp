// A stage is one convolution and the per-channel layers after it: the largest part of a net that can be computed for
// some of the filters without the others. Convoy distributes stages over machines; a shard is a contiguous range of the
// filters of one stage. A trunk lists its stages so that each stage reads only earlier ones.
#pragma once

#include <cstdint>
#include <optional>
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

/// A convolution in the deep-learning sense, which is a cross-correlation. Weights are (filter, channel, row,
/// column). With `groups` > 1, filters and channels are divided into equal consecutive groups; the filters of a group
/// read only the channels of the same group, and their weights have only those channels (Krizhevsky et al., NIPS
/// 2012). With as many groups as channels the convolution is depthwise. With a dilation d, neighbouring weights read
/// elements that are d rows or columns apart (Yu and Koltun, ICLR 2016).
struct Convolution {
  int filters = 0;
  int kernel_h = 1;
  int kernel_w = 1;
  int stride_h = 1;
  int stride_w = 1;
  Padding pad;
  bool bias = true;  ///< adds one trained number to each map
  int groups = 1;
  float rate = 1.0F;  ///< factor of the learning rate; 0: weights and biases are frozen
  int dilation_h = 1;
  int dilation_w = 1;
  /// Return the rows and columns from the first to the last element under the kernel.
  int reach_h() const { return (kernel_h - 1) * dilation_h + 1; }
  int reach_w() const { return (kernel_w - 1) * dilation_w + 1; }
  bool dilated() const { return reach_h() > kernel_h || reach_w() > kernel_w; }
  bool operator==(const Convolution&) const = default;
};

/// The largest factor of the learning rate that a layer may have.
inline constexpr float kLargestRate = 1000.0F;

/// A function applied to each element independently.
struct Activation {
  enum class Kind : std::uint8_t {
    relu,
    sigmoid,
    tanh,
    leaky_relu,    ///< x, or alpha x for negative x (Maas et al., ICML 2013)
    clip,          ///< x, but at least alpha and at most beta; either may be infinite. ReLU6 is 0 to 6
    hard_sigmoid,  ///< alpha x + beta, but at least 0 and at most 1 (in the form of ONNX)
    elu,           ///< x, or alpha (e^x - 1) for negative x (Clevert et al., ICLR 2016)
    selu,          ///< an ELU times a constant (Klambauer et al., NIPS 2017)
    softplus,      ///< log(1 + e^x)
    silu,          ///< x times sigmoid(x) (Elfwing et al., Neural Networks 107, 2018)
    hard_swish,    ///< x times x / 6 + 1/2, which is held between 0 and 1 (Howard et al., ICCV 2019)
    gelu,          ///< x times the probability that a standard normal number is below x (Hendrycks and Gimpel, 2016)
    gelu_tanh,     ///< a GELU whose probability is approximated by tanh (in the same paper)
    mish,          ///< x tanh(softplus(x)) (Misra, BMVC 2020)
    celu           ///< x, or alpha (e^(x / alpha) - 1) for negative x (Barron, 2017)
  } kind = Kind::relu;
  float alpha = 0.0F;
  float beta = 0.0F;
  bool operator==(const Activation&) const = default;

  static const Activation relu;
  static const Activation sigmoid;
  static const Activation tanh;
};
inline constexpr Activation Activation::relu{Kind::relu};
inline constexpr Activation Activation::sigmoid{Kind::sigmoid};
inline constexpr Activation Activation::tanh{Kind::tanh};

/// Returns whether the derivative of an activation follows from its output. Other activations rise and fall, so their
/// derivative needs their input. A device keeps this input, does not merge such an activation into the layer before,
/// and does not compute it in place.
constexpr bool derivative_from_output(Activation::Kind kind) {
  using Kind = Activation::Kind;
  return kind != Kind::silu && kind != Kind::hard_swish && kind != Kind::gelu && kind != Kind::gelu_tanh &&
         kind != Kind::mish;
}

/// The operation that pooling applies to each window.
enum class PoolKind : std::uint8_t {
  max,                   ///< padding never wins
  average,               ///< divides by the number of elements inside the map, padding excluded
  average_with_padding,  ///< divides by the size of the window; elements in the padding count as zeros
};

/// Reduces each window of a map to one element. With a dilation d, which only a maximum may have, neighbouring elements
/// of the window are d rows or columns apart, as in a Convolution.
struct Pooling {
  PoolKind kind = PoolKind::max;
  int kernel_h = 2;
  int kernel_w = 2;
  int stride_h = 2;
  int stride_w = 2;
  Padding pad;
  int dilation_h = 1;
  int dilation_w = 1;
  /// Return the rows and columns from the first to the last element of the window.
  int reach_h() const { return (kernel_h - 1) * dilation_h + 1; }
  int reach_w() const { return (kernel_w - 1) * dilation_w + 1; }
  bool dilated() const { return reach_h() > kernel_h || reach_w() > kernel_w; }
  bool operator==(const Pooling&) const = default;
};

/// In training, sets each element to zero with probability `rate` and scales the others by 1 / (1 - rate); outside
/// training it does nothing. The mask is a pure function of the step's seed, `stream`, and the element's place in the
/// whole, unsplit map (dropout_scale in core/random.hpp), so every split draws the same mask. A spatial dropout sets
/// whole maps to zero (Tompson et al., CVPR 2015): all elements of a map have the factor of its first.
struct Dropout {
  float rate = 0.5F;
  std::uint32_t stream = 0;  ///< distinguishes the dropout layers of one net
  bool spatial = false;
  bool operator==(const Dropout&) const = default;
};

/// Normalises each channel: weight * (x - mean) / sqrt(variance + epsilon) + bias (Ioffe and Szegedy, ICML 2015). In
/// training, mean and variance are those of all samples, rows and columns of the batch. Outside training, running
/// averages replace them: r = (1 - momentum) r + momentum * batch value. The running variance averages the unbiased
/// variance, as in PyTorch. A frozen batch norm uses its running averages in training as well, and does not change
/// them.
struct BatchNorm {
  std::string name;  ///< the layer's name in its net, which prefixes its parameters' names
  float epsilon = 1e-5F;
  float momentum = 0.1F;
  float rate = 1.0F;  ///< factor of the learning rate; 0: the batch norm is frozen
  bool frozen() const { return rate == 0.0F; }
  bool operator==(const BatchNorm&) const = default;
};

/// Filters first .. first + count - 1 of a stage, or channels of its maps.
struct FilterRange {
  int first = 0;
  int count = 0;
  bool operator==(const FilterRange&) const = default;
};

/// Channels that a stage reads: channels of an earlier stage's maps, channels of the images, or zeros.
struct Source {
  static constexpr int kImages = -1;
  static constexpr int kZeros = -2;
  int stage = kImages;
  FilterRange channels;
  bool operator==(const Source&) const = default;
};
/// Sources in the order in which their channels are concatenated.
using Sources = std::vector<Source>;

/// Adds other maps element by element.
struct Add {
  /// As many channels as the stage has filters. The maps have the shape of the stage's own maps at this layer.
  Sources from;
  bool operator==(const Add&) const = default;
};

/// Multiplies by other maps element by element, or each map by one number, as gates do (Hu et al., CVPR 2018).
struct Multiply {
  /// As many channels as the stage has filters. The maps have the shape of the stage's own maps at this layer, or 1x1.
  Sources from;
  bool by_points = false;  ///< the maps in `from` are 1x1, and each multiplies a whole map
  bool operator==(const Multiply&) const = default;
};

/// A layer that treats each channel independently.
using ChannelLayer = std::variant<Activation, Pooling, Dropout, BatchNorm, Add, Multiply>;

/// Returns the sources of the other maps that a layer takes in (Add, Multiply); null for other layers.
const Sources* sources_of(const ChannelLayer& layer);

/// y = x / (k + alpha / size * sum of x^2 over the `size` channels around it)^beta (Krizhevsky et al., NIPS 2012, in
/// the form of ONNX). If `size` is even, the window reaches one channel further forward than back.
struct ResponseNorm {
  int size = 5;
  float alpha = 1e-4F;
  float beta = 0.75F;
  float k = 1.0F;
  bool operator==(const ResponseNorm&) const = default;
};

/// Normalises the channels of each of `groups` groups of consecutive channels together: (x - mean) / sqrt(variance +
/// epsilon), with the mean and the variance of one sample (Wu and He, Group Normalization, ECCV 2018). With as many
/// groups as channels it is an instance norm. With `by_position` each pixel has a mean and a variance of its own,
/// over its channels only (the layer norm of Liu et al., CVPR 2022).
struct GroupNorm {
  int groups = 1;
  float epsilon = 1e-5F;
  bool by_position = false;
  bool operator==(const GroupNorm&) const = default;
};

/// The computation of maps with other numbers of rows and columns. Rows and columns can be computed in either order.
struct Resizing {
  enum class Mode : std::uint8_t {
    nearest,  ///< each element is a copy of the map's element at its place, rounded down
    linear,   ///< each element is interpolated between two elements of the map; beyond the edges values are constant
    spread    ///< the map's elements stand apart, with zeros between and behind these elements
  } mode = Mode::nearest;
  /// The rows or columns of the result. With nearest and linear, element i of the result has the place start + i * step
  /// in the map. With spread, element i of the map becomes element start + i * step of the result; step and start are
  /// whole.
  struct Axis {
    int extent = 1;
    double step = 1.0;
    double start = 0.0;
    bool operator==(const Axis&) const = default;
  };
  Axis rows;
  Axis columns;
  bool operator==(const Resizing&) const = default;
};

/// The two elements of the map's row or column from which an element of the resized row or column is computed.
struct Between {
  int first;  ///< -1 if the resized element is a zero
  int second;
  double weight;  ///< weight of the second element; the first has 1 - weight
};
/// Returns a Between for each row or column of the result, for maps with `extent` rows or columns.
std::vector<Between> elements_of(Resizing::Mode mode, const Resizing::Axis& axis, int extent);

/// The operation that makes a stage's maps, before the layers in `after`.
enum class StageKind : std::uint8_t {
  convolution,
  channels,       ///< the identity: the input channels pass unchanged
  response_norm,  ///< normalises over neighbouring channels
  shuffle,        ///< the identity with channels in another order (Stage::shuffle)
  group_norm,     ///< normalises over groups of channels of a sample (Stage::group_norm)
  resize,         ///< maps with other numbers of rows and columns (Stage::resizing)
};

/// A convolution, or another operation of StageKind, and the channel layers after it.
struct Stage {
  std::string name;  ///< the name of its convolution, or of its first layer
  int channels = 0;  ///< input channels
  int height = 0;    ///< input rows
  int width = 0;     ///< input columns
  /// For kinds other than a convolution: 1 x 1, as many filters as channels, and no bias.
  Convolution conv;
  std::vector<ChannelLayer> after;
  /// Tensors that the optimizer keeps for each of the stage's parameters (core/shard_state.hpp); 0 where a parameter
  /// server updates them, and not the devices that hold the stage.
  int moments = 1;
  StageKind kind = StageKind::convolution;
  ResponseNorm norm;  ///< used where `kind` is response_norm
  Sources from;       ///< empty: all maps of the previous stage, or of the images for the first stage
  /// Used where `kind` is shuffle: the number of groups, each of consecutive channels. The maps are the first channel
  /// of each group, then the second of each, and so on (Zhang et al., CVPR 2018).
  int shuffle = 1;
  GroupNorm group_norm;  ///< used where `kind` is group_norm
  Resizing resizing;     ///< used where `kind` is resize
  bool operator==(const Stage&) const = default;
};

/// Samples first .. first + count - 1 of a batch.
struct SampleRange {
  int first = 0;
  int count = 0;
  bool operator==(const SampleRange&) const = default;
};

/// Some channels of some samples of maps.
struct Box {
  FilterRange channels;
  SampleRange samples;
  bool empty() const { return channels.count == 0 || samples.count == 0; }
  bool operator==(const Box&) const = default;
};

/// Returns the intersection of two ranges or boxes; where they are disjoint, its count is 0, or it is empty.
FilterRange common(FilterRange a, FilterRange b);
SampleRange common(SampleRange a, SampleRange b);
Box common(const Box& a, const Box& b);
/// Returns the smallest range or box that contains both.
FilterRange hull(FilterRange a, FilterRange b);
SampleRange hull(SampleRange a, SampleRange b);
Box hull(const Box& a, const Box& b);

/// Returns the output extent of a window that slides over `extent` elements, or 0 if the window does not fit.
int window_output(int extent, int kernel, int stride, int pad_before, int pad_after);

/// Returns the shape of the stage's input: (batch, channels, height, width).
Shape input_shape(const Stage& stage, int batch);
/// Returns the shape of the output of the convolution, or of the operation in its place, for `filters` of its filters.
Shape conv_shape(const Stage& stage, int batch, int filters);
/// Returns whether some window has all its elements in the padding of maps of height x width. Only dilated windows can.
bool has_empty_window(const Pooling& pool, int height, int width);
/// Returns the shape of maps of shape `in` after pooling.
Shape pooled_shape(const Pooling& pool, const Shape& in);
/// Returns the shape of the stage's output for `filters` of its filters.
Shape output_shape(const Stage& stage, int batch, int filters);
/// Returns, for each Add and Multiply layer of the stage, the shape of the other maps that the layer takes in for
/// `filters` of the stage's filters.
std::vector<Shape> added_shapes(const Stage& stage, int batch, int filters);
/// Returns the shape of the weights of `filters` filters: (filters, channels / groups, kernel_h, kernel_w).
Shape weight_shape(const Stage& stage, int filters);
/// Throws Error naming the stage unless every extent is positive, every window fits and paddings are smaller than their
/// windows. Call it wherever a stage enters the program (net files, messages).
void validate(const Stage& stage);

/// Returns the smallest range that contains all input channels that filters `filters` of the stage read.
FilterRange channels_for(const Stage& stage, FilterRange filters);

/// Returns the input channels that filters `filters` of the stage read, as ranges in ascending order. Between two
/// ranges lie channels that are not read.
std::vector<FilterRange> channel_runs_for(const Stage& stage, FilterRange filters);
/// Returns the input channel that passes as filter `filter` of a stage whose kind is shuffle.
int shuffled_from(const Stage& stage, int filter);

/// Returns a stage of `channels` channels whose kind is not a convolution.
Stage stage_without_weights(const std::string& name, StageKind kind, int channels, int height, int width);

/// Returns the sources of the stage's input, followed by those of each of its Add and Multiply layers; an empty
/// Stage::from is filled in.
std::vector<Sources> reads_of(const std::vector<Stage>& trunk, std::size_t stage);
/// A run of channels that a stage reads from one source of one input.
struct Read {
  std::size_t number = 0;  ///< index of the input in reads_of()
  int stage = 0;           ///< the stage whose maps are read, or Source::kImages or Source::kZeros
  FilterRange channels;    ///< channels of that stage's maps
  int at = 0;              ///< the first channel's place in the concatenated input
};
/// Returns the channels that filters `filters` of the stage read, by input and source.
std::vector<Read> reads_for(const std::vector<Stage>& trunk, std::size_t stage, FilterRange filters);
/// Returns the stages whose maps no other stage reads. The heads read them; the last stage feeds the main head.
std::vector<int> outputs_of(const std::vector<Stage>& trunk);
/// Returns the shape of `channels` channels of the maps of `stage`, or of the images for Source::kImages.
Shape maps_shape(const std::vector<Stage>& trunk, int stage, int batch, int channels);
/// Returns whether each stage reads all maps of the previous stage and nothing else.
bool is_chain(const std::vector<Stage>& trunk);
/// Returns the first channel that nothing reads in a stage of which other channels are read. It would have no gradient.
std::optional<Source> left_out(const std::vector<Stage>& trunk);
/// Throws Error naming the stage unless the first stage reads the images, every stage is valid and reads only maps of
/// earlier stages that have the shape of its input, and left_out() finds no channel.
void validate(const std::vector<Stage>& trunk);

/// Returns whether the stage has a batch norm, frozen or not. The maps of such a stage are known only after the whole
/// batch has passed the convolution, and its gradients only after the whole gradient with respect to its maps is known.
bool has_batch_norm(const Stage& stage);
/// Returns the number of the stage's batch norms that normalise over the batch in training: those that are not frozen.
int batch_norms(const Stage& stage);

/// Returns the floating-point operations of one pass of the convolution over a batch. As usual, a multiply-add counts
/// as two, and padding counts as work. The forward pass, the input gradient and the filter gradient take this number
/// each.
double conv_flops(const Stage& stage, int batch, int filters);

/// Parameters of a forward pass besides its input.
struct Pass {
  bool training = false;   ///< dropout is active and a backward pass follows
  std::uint64_t seed = 0;  ///< seed of this step, for dropout
  bool squares = false;    ///< somebody reads the sum of the gradients' squares before the update
  long step = 0;  ///< number of the step in the run, counted from 1; 0 outside training. It is not sent to slaves
};

}  // namespace convoy
