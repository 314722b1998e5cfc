// A net's weights and a run's state in safetensors files.
//
// Names: "<layer>.weight" and "<layer>.bias"; in checkpoints also "<layer>.weight.velocity" and
// "<layer>.bias.velocity". Convolution weights are (filters, channels, rows, columns), dense weights (units, inputs),
// biases (filters or units).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/named_tensor.hpp"
#include "model/heads.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

/// Everything that training changes, on the host.
struct ModelState {
  std::vector<ShardState> trunk;
  std::vector<DenseState<float>> head;
};

/// Where a run stands: the next step to do.
struct Position {
  int epoch = 0;  ///< from 0
  int batch = 0;  ///< within the epoch, from 0
  bool operator==(const Position&) const = default;
};

/// Where training stands beside its model.
struct Progress {
  Position position;
  double epoch_loss = 0.0;  ///< sum over the epoch's images so far
  long epoch_correct = 0;   ///< images of the epoch so far whose largest output was that of their label
  bool operator==(const Progress&) const = default;
};

/// What a checkpoint holds beside the model. Random numbers are functions of seed and position, so no generator is stored.
struct RunState {
  Progress progress;
  std::string fingerprint;  ///< what must be equal for the run to go on: net, seed, batch, data
};

/// As read from checkpoint.safetensors.
struct Checkpoint {
  ModelState model;
  RunState run;
};

/// Weights alone, for test, for other tools, and for training on from. Written whole or not at all.
void write_weights(const std::string& file, const Cut& cut, const ModelState& model, const Net& net);
/// Throws Error naming the file and the tensor that is missing, left over, or of another shape than the net's.
ModelState read_weights(const std::string& file, const Cut& cut);

/// The same of tensors at hand; `name` serves for messages.
ModelState model_from(const Cut& cut, const std::vector<NamedTensor>& tensors, const std::string& name);
/// What a file of weights holds, in its order, with zeros for values.
std::vector<NamedTensor> zero_tensors(const Cut& cut);

/// Written beside the checkpoint before it, which stays as checkpoint-previous.safetensors.
void write_checkpoint(const std::string& folder, const Cut& cut, const ModelState& model, const RunState& run);
/// Whether one was ever written there.
bool has_checkpoint(const std::string& folder);
/// The folder's checkpoint, or the one before where the last one is damaged (`notice` then says so).
Checkpoint read_checkpoint(const std::string& folder, const Cut& cut, std::string& notice);

}  // namespace convoy
