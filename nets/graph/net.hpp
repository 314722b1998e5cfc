// A net: a directed acyclic graph of layers, read from a YAML file, with every shape known and checked.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/shard_state.hpp"

namespace convoy {

/// Extents of one sample between two layers.
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
/// The mean of each map.
struct GlobalAveragePool {};
/// The channels of several layers, one behind the other.
struct Concat {};
/// The sum of several layers, element by element.
struct Sum {};
/// Zeros in front of the channels and behind them.
struct PadChannels {
  int before = 0;
  int after = 0;
};
struct Flatten {};
/// Softmax with cross-entropy; the layer before it gives the logits, one for each class. With label smoothing e the wanted
/// probabilities are (1 - e) one_hot(label) + e / classes (Szegedy et al., CVPR 2016).
struct SoftmaxCrossEntropy {
  float label_smoothing = 0.0F;
  float weight = 1.0F;  ///< of this loss in the sum of all that is trained for
};
/// 1/2 sum over classes of (output - one_hot(label))^2, mean over the batch.
struct SquaredError {
  float weight = 1.0F;
};

using LayerSpec = std::variant<Convolution, Activation, Pooling, GlobalAveragePool, BatchNorm, ResponseNorm, Concat,
                               Sum, PadChannels, Dense, Flatten, Dropout, SoftmaxCrossEntropy, SquaredError>;

/// How the weights of a convolution or dense layer are drawn; biases begin at 0.
struct Initialisation {
  enum class Kind {
    automatic,  ///< he in front of a ReLU, else the same with variance 1 / inputs (LeCun et al., 1998)
    he,         ///< normal, variance 2 / inputs of a neuron (He et al., ICCV 2015)
    xavier,     ///< normal, variance 2 / (inputs + outputs) (Glorot and Bengio, AISTATS 2010)
    constant
  } kind = Kind::automatic;
  double value = 0.0;  ///< constant
  bool operator==(const Initialisation&) const = default;
};

inline constexpr int kNetInput = -1;

struct Layer {
  std::string name;
  LayerSpec spec;
  std::vector<int> inputs;  ///< indices of earlier layers, or kNetInput
  FeatureShape output;      ///< of one sample; the losses give {1, 1, 1}
  int line = 0;             ///< in the net file, from 1
  Initialisation init = {};
};

/// When and how the learning rate falls.
struct Schedule {
  enum class Kind { constant, step, cosine } kind = Kind::constant;
  int every = 1;         ///< step: epochs between falls
  double factor = 0.1;   ///< step: multiplies the rate at each fall
  double warm_up = 0.0;  ///< epochs at the start in which the rate rises evenly, from a tenth (Goyal et al., 2017)
};

/// The `training:` block; each is a default that a command-line option may replace.
struct TrainingOptions {
  int batch = 64;
  int epochs = 10;
  Optimizer optimizer = Optimizer::sgd;
  double learning_rate = 0.01;
  double momentum = 0.9;  ///< Adam's beta1
  double beta2 = 0.999;   ///< of Adam, as epsilon
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  double clip = 0.0;  ///< norm to which larger gradients, all together, are scaled down (Pascanu et al., 2013); 0: none
  Schedule schedule;
};

/// The `augment:` block: drawn for each training image.
struct Augmentation {
  bool flip = false;  ///< left to right, with probability 1/2
  int crop = 0;       ///< pixels of zero padding around the image before a random crop to its own size
};

/// What a channel's pixels become: (pixel / 255 - mean) / deviation.
struct ChannelScale {
  double mean = 0.0;
  double deviation = 1.0;
  bool operator==(const ChannelScale&) const = default;
};

struct Net {
  std::string name;
  std::string file;
  FeatureShape input;
  std::vector<ChannelScale> scales;      ///< of each channel; empty: by the training images
  std::vector<std::string> class_names;  ///< empty: numbers
  int classes = 0;                       ///< outputs of the layer before each loss
  std::vector<Layer> layers;             ///< in an order where inputs come first; the last is the main loss
  TrainingOptions training;
  Augmentation augment;
};

/// The update of step `step` (from 1) of a run, at a learning rate, where `gradient_norm` is that of all gradients together.
UpdateStep update_step(const TrainingOptions& options, double learning_rate, long step, double gradient_norm);

/// Learning rate in epoch `epoch` (from 0, fractional inside an epoch) of `epochs`.
double learning_rate(const TrainingOptions& options, double epoch);

/// "conv1.filters=150" or "training.batch=128": sets a field of the YAML before it is read, so that every check
/// applies.
using Overrides = std::vector<std::string>;

/// Reads a net file. Throws Error naming file, line and layer for every mistake: bad YAML, unknown layer type or field,
/// wrong type or range of a value, unknown or repeated names, shapes that do not fit, cycles, missing loss.
Net read_net(const std::string& file, const Overrides& overrides = {});
/// The same from text; `file` serves for messages.
Net parse_net(const std::string& text, const std::string& file, const Overrides& overrides = {});
/// The net as YAML that parse_net reads to an equal net: the resolved configuration of a run.
std::string to_yaml(const Net& net);

/// What the master runs of a net on some maps of the trunk: up to one loss.
struct CutHead {
  FeatureShape maps;          ///< what it takes (the net's input where there is no trunk)
  std::vector<Layer> layers;  ///< a chain: dense, flatten, activation, dropout; the last is the loss
};

/// A net cut into what is distributed and what the master runs.
struct Cut {
  std::vector<Stage> trunk;
  std::vector<CutHead> heads;         ///< of each of outputs_of(trunk); the last is the main one
  std::vector<Initialisation> inits;  ///< of the trunk's stages; missing ones are automatic
  int moments = 1;                    ///< tensors that the optimizer keeps for each parameter, in trunk and head
};

/// Throws Error naming file, line and layer where the net is no graph of stages followed by chains of dense layers.
Cut cut(const Net& net);

/// Weights of all layers, in order of the layers, for counts and messages.
std::size_t parameter_count(const Net& net);

}  // namespace convoy
