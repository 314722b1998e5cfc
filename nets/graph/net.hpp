// A net is a directed acyclic graph of layers. It is read from a YAML file, and all its shapes are known and checked.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/images.hpp"
#include "core/shard_state.hpp"

namespace convoy {

/// The extents of one sample's values between two layers.
struct FeatureShape {
  int channels = 0;
  int height = 1;
  int width = 1;
  int size() const { return channels * height * width; }
  bool operator==(const FeatureShape&) const = default;
};

struct Dense {
  int units = 0;
};
/// Replaces each map by its mean.
struct GlobalAveragePool {};
/// Concatenates the channels of several layers.
struct Concat {};
/// Adds the outputs of several layers, element by element.
struct Sum {};
/// Multiplies the outputs of several layers, element by element. Where one of them is larger than 1x1, each of 1x1
/// multiplies whole maps.
struct Product {};
/// Takes channels first .. first + count - 1 of the input.
struct SliceChannels {
  int first = 0;
  int count = 1;
};
/// Puts channels in another order: of `groups` groups of consecutive channels the first of each, then the second of
/// each, and so on.
struct ShuffleChannels {
  int groups = 1;
};
/// Makes maps larger by whole factors. Nearest: each element becomes rows x columns equal elements. Bilinear: between
/// the elements' centres values rise and fall linearly, and outside of the outermost centres they stay the same
/// (PyTorch's interpolate with align_corners=False).
struct Upsampling {
  int rows = 1;     ///< factor of the height
  int columns = 1;  ///< factor of the width
  bool bilinear = false;
};
/// A transposed convolution (Zeiler et al., Deconvolutional Networks, CVPR 2010): what a convolution does to the
/// gradient of its maps. It is computed as a convolution of maps whose elements stand `stride` apart, with zeros
/// between them. So weights are (filter, channel, row, column) as of that convolution: those of PyTorch's
/// ConvTranspose2d with filters and channels of a group exchanged, and with rows and columns in reverse order.
struct TransposedConvolution {
  /// Its stride is the distance of the elements; its padding is what is cut off the result.
  Convolution conv;
  int more_rows = 0;  ///< added at the end of the result, to what the other numbers give (PyTorch's output_padding)
  int more_columns = 0;
};
/// How a transposed convolution of maps of height x width spreads their elements.
Resizing spread_for(const TransposedConvolution& what, int height, int width);
/// Weights in another order: from (groups * first, second, rows, columns) to (groups * second, first, rows, columns),
/// with rows and columns reversed. Between a transposed convolution's weights here and in PyTorch, this is the way in
/// both directions.
struct WeightOrder {
  int groups = 1;
  int first = 1;   ///< filters or channels of a group
  int second = 1;  ///< the other of the two
  int rows = 1;
  int columns = 1;
};
std::vector<float> reordered(const std::vector<float>& weights, const WeightOrder& from);
/// The convolution of the maps of spread_for().
Convolution convolution_of(const TransposedConvolution& what);
/// The Resizing that makes maps of height x width larger.
Resizing resizing_of(const Upsampling& by, int height, int width);

/// x, or for negative x a learned slope of its channel times x (He et al., ICCV 2015).
struct PRelu {
  float slope = 0.25F;  ///< of all channels before training
};
/// A group norm. Where it is affine, a learned factor and a learned term for each channel follow it.
struct Normalisation {
  GroupNorm norm;
  bool affine = true;
};
/// Inserts `before` channels of zeros in front of the input's channels and `after` behind them.
struct PadChannels {
  int before = 0;
  int after = 0;
};
struct Flatten {};
/// Softmax with cross-entropy, averaged over the batch. The layer before it gives one logit for each class. With label
/// smoothing e, the target distribution is (1 - e) one_hot(label) + e / classes (Szegedy et al., CVPR 2016). With
/// weights of classes, class c of that distribution counts class_weights[c] times, and the sum over the batch is
/// divided by the sum of the weights of its labels, as in PyTorch.
struct SoftmaxCrossEntropy {
  float label_smoothing = 0.0F;
  float weight = 1.0F;                    ///< factor of this loss in the sum of all losses
  std::vector<float> class_weights = {};  ///< one for each class; if empty, all are 1
};
/// The loss 1/2 sum over classes of (output - one_hot(label))^2, averaged over the batch.
struct SquaredError {
  float weight = 1.0F;
};

using LayerSpec =
    std::variant<Convolution, TransposedConvolution, Activation, Pooling, GlobalAveragePool, BatchNorm, ResponseNorm,
                 Concat, Sum, Product, PRelu, Normalisation, Upsampling, Resizing, PadChannels, SliceChannels,
                 ShuffleChannels, Dense, Flatten, Dropout, SoftmaxCrossEntropy, SquaredError>;

/// How the weights of a convolution or dense layer are initialised. Biases begin at 0.
struct Initialisation {
  enum class Kind {
    automatic,  ///< `he` in front of a ReLU, else normal with variance 1 / inputs (LeCun et al., 1998)
    he,         ///< normal with variance 2 / inputs of a neuron (He et al., ICCV 2015)
    xavier,     ///< normal with variance 2 / (inputs + outputs) (Glorot and Bengio, AISTATS 2010)
    constant    ///< all weights equal to `value`
  } kind = Kind::automatic;
  double value = 0.0;
  bool operator==(const Initialisation&) const = default;
};

inline constexpr int kNetInput = -1;

struct Layer {
  std::string name;
  LayerSpec spec;
  std::vector<int> inputs;  ///< indices of earlier layers, or kNetInput
  FeatureShape output;      ///< extents of one sample's output; {1, 1, 1} for a loss
  int line = 0;             ///< line in the net file, counted from 1
  Initialisation init = {};
  /// Factor of the learning rate, for layers with weights. 0: the layer is frozen. Nothing changes its weights, and a
  /// frozen batch norm uses its running averages in training, too.
  float rate = 1.0F;
};

/// Returns whether a layer has weights: a convolution, transposed or not, a dense layer, a batch norm, another norm
/// that is affine, or a PReLU.
bool has_weights(const Layer& layer);
/// Returns the convolution of a layer, transposed or not; null for other layers.
const Convolution* convolution_in(const Layer& layer);

/// The schedule by which the learning rate changes.
struct Schedule {
  /// `snapshots`: in each of training.cycles equal parts of the epochs the rate falls from its full value to 0 along a
  /// cosine, and then begins anew (Loshchilov and Hutter, SGDR, ICLR 2017; Huang et al., Snapshot Ensembles, ICLR
  /// 2017).
  enum class Kind { constant, step, cosine, snapshots } kind = Kind::constant;
  int every = 1;        ///< for `step`: epochs between two falls
  double factor = 0.1;  ///< for `step`: factor by which the rate is multiplied at each fall
  /// Epochs at the start in which the rate rises linearly from a tenth of its value (Goyal et al., 2017).
  double warm_up = 0.0;
};

/// Nets from whose outputs a net learns beside the labels (Hinton et al., Distilling the Knowledge in a Neural Network,
/// 2015). The loss of an image is mix T^2 KL(teacher, student) + (1 - mix) CE, with both distributions at the
/// temperature T.
struct Teaching {
  std::vector<std::string> teachers;  ///< as the members of an ensemble are named; if empty, there is no teacher
  double temperature = 4.0;           ///< T: outputs are divided by it before the softmax
  double mix = 0.9;
  bool any() const { return !teachers.empty(); }
};

/// The `training:` block. Each field is a default that a command-line option may replace.
struct TrainingOptions {
  int batch = 64;
  int epochs = 10;
  int patience = 0;  ///< epochs without a better test accuracy after which training ends; 0: it never ends early
  Optimizer optimizer = Optimizer::sgd;
  double learning_rate = 0.01;
  double momentum = 0.9;  ///< beta1 for Adam
  double beta2 = 0.999;   ///< for Adam only
  double epsilon = 1e-8;  ///< for Adam only
  double weight_decay = 0.0;
  /// Largest norm of all gradients together; gradients with a larger norm are scaled down to it (Pascanu et al., 2013).
  /// 0 turns clipping off.
  double clip = 0.0;
  Schedule schedule;
  int cycles = 0;  ///< of the schedule `snapshots`; they divide the epochs. 0 for other schedules
  Teaching teaching;
};

/// The `augment:` block: random changes, drawn anew for each training image.
struct Augmentation {
  bool flip = false;  ///< mirror left to right with probability 1/2
  int crop = 0;       ///< pixels of the mean colour around the image, before a random crop to the image's size
  /// Least share of the image's area in a part that is cut out at random and scaled to the image's size; its sides are
  /// as 3/4 to 4/3 (Szegedy et al., CVPR 2015). 0 cuts no such part.
  double resized_crop = 0.0;
  /// Brightness, contrast and saturation are multiplied by random factors from 1 - x to 1 + x, in a random order.
  double brightness = 0.0;
  double contrast = 0.0;
  double saturation = 0.0;
  /// Each image of a batch is mixed with another one; their share is drawn from the distribution Beta(mixup, mixup)
  /// once for each batch (Zhang et al., mixup, ICLR 2018). 0 mixes none.
  double mixup = 0.0;
  int cutout = 0;  ///< side of a square of the mean colour at a random place (DeVries and Taylor, 2017); 0 for none
  bool jitters() const { return brightness > 0.0 || contrast > 0.0 || saturation > 0.0; }
  bool operator==(const Augmentation&) const = default;
};

struct Net {
  std::string name;
  std::string file;
  FeatureShape input;
  /// Photographs are scaled so that their shorter side has so many pixels, before the input's size is cut out; 0 for
  /// 8/7 of the input's size.
  int resize = 0;
  std::vector<ChannelScale> scales;      ///< one for each channel; if empty, they are measured on the training images
  std::vector<std::string> class_names;  ///< if empty, classes are called by their numbers
  int classes = 0;                       ///< number of outputs of the layer before each loss
  std::vector<Layer> layers;             ///< in topological order; the last layer is the main loss
  TrainingOptions training;
  Augmentation augment;
  /// The options of the run whose config.yaml this is, by name without the dashes, as in "slaves": "2".
  std::map<std::string, std::string> run;
};

/// The optimizer's update in step `step` of a run, counted from 1. `gradient_norm` is the Euclidean norm of all
/// gradients together; it is used for clipping.
UpdateStep update_step(const TrainingOptions& options, double learning_rate, long step, double gradient_norm);

/// The learning rate at `epoch`, counted from 0 and fractional inside an epoch.
double learning_rate(const TrainingOptions& options, double epoch);

/// The number of the cycle of the schedule `snapshots` that ends after so many epochs, counted from 1; 0 where none
/// ends.
int cycle_ending_at(const TrainingOptions& options, int epochs);

/// Texts such as "conv1.filters=150" or "training.batch=128". Each sets a field of the YAML before the net is read, so
/// that the checks of the net file apply to it.
using Overrides = std::vector<std::string>;

/// Reads a net file. Throws Error naming file, line and layer for every mistake: bad YAML, unknown layer type or field,
/// wrong type or range of a value, unknown or repeated names, shapes that do not fit, cycles, missing loss.
Net read_net(const std::string& file, const Overrides& overrides = {});
/// Reads a net from text. `file` is the name that errors give.
Net parse_net(const std::string& text, const std::string& file, const Overrides& overrides = {});
/// Writes a net as YAML with all settings; parse_net reads the text back to an equal net.
std::string to_yaml(const Net& net);

/// The layers that the master runs on the output of one stage of the trunk, up to one loss. Dense layers in front of a
/// layer that only stages have, such as a batch norm, and of several heads are stages themselves: convolutions whose
/// kernel covers the maps.
struct CutHead {
  FeatureShape maps;          ///< extents of one sample of its input (the net's input if there is no trunk)
  std::vector<Layer> layers;  ///< a chain: dense, flatten, activation, dropout; the last is the loss
};

/// A net cut into the trunk, which is distributed, and the heads, which the master runs.
struct Cut {
  std::vector<Stage> trunk;
  std::vector<CutHead> heads;         ///< one for each of outputs_of(trunk); the last is the main head
  std::vector<Initialisation> inits;  ///< one for each stage of the trunk; stages beyond its end use `automatic`
  int moments = 1;                    ///< tensors that the optimizer keeps for each parameter tensor
  /// For each stage, whether it is a depthwise convolution of 1x1 that stands for a layer with one weight for each
  /// channel, which files list without rows and columns; stages beyond its end do not.
  std::vector<bool> lists;
  /// For each stage, whether it is a dense layer, whose weights files list as (units, inputs); stages beyond its end
  /// are not.
  std::vector<bool> dense;
  bool is_dense(std::size_t stage) const { return stage < dense.size() && dense[stage]; }
  bool has_list(std::size_t stage) const { return stage < lists.size() && lists[stage]; }
};

/// Cuts a net. Throws Error naming file, line and layer unless the net is a graph of stages followed by chains of dense
/// layers.
Cut cut(const Net& net);

/// The same net for who computes gradients but does not update: without the optimizer's moments.
Cut without_moments(Cut cut);

/// The number of values of each tensor of trained parameters, in the order of the layers: weights, then biases.
std::vector<std::size_t> tensor_sizes(const Net& net);
/// The number of trained parameters of all layers: weights and biases.
std::size_t parameter_count(const Net& net);

/// Throws Error naming file, line and layer where no layer has weights, or a loss reads a map instead of one number for
/// each class.
void expect_outputs(const Net& net);
/// The layers that make the outputs in front of the losses. Throws Error naming a loss for which no dense layer or
/// convolution does.
std::vector<std::string> layers_of_outputs(const Net& net);
/// The overrides that give the net `classes` outputs: "fc.units=10" for each of these layers.
Overrides overrides_for_outputs(const Net& net, int classes);
/// How a user gives the net `classes` outputs, for messages: "set them with --set fc.units=10".
std::string change_of_outputs(const Net& net, int classes);
/// Where the number of outputs is written, for messages: "net.yaml:12: layer fc".
std::string place_of_outputs(const Net& net);

}  // namespace convoy
