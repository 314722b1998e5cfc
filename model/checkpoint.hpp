// Stores a net's weights and a run's state in safetensors files.
//
// The tensors are named "<layer>.weight" and "<layer>.bias". A checkpoint also has the optimizer's moments, named
// "<layer>.weight.velocity" and so on, and the velocity of an outer step as "<layer>.weight.outer". Convolution weights
// are (filters, channels, rows, columns), dense weights (units, inputs), biases (filters) or (units).
//
// Files that Convoy writes have checksums (model/checksums.hpp). A checkpoint must have them; weights of other programs
// need not. No tensor with a value that is NaN or infinite is taken from any file.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/named_tensor.hpp"
#include "model/heads.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

/// Training diverged: values are infinite or NaN. The text names the step, and the layer where it is known.
class Diverged : public Error {
 public:
  using Error::Error;
};

/// All values that training changes, in host memory.
struct ModelState {
  std::vector<ShardState> trunk;
  std::vector<DenseState<float>> head;
  /// The velocity of an outer step (train/outer_step.hpp), in the form of a model without moments; null without one.
  std::shared_ptr<const ModelState> outer = nullptr;
};

/// The next step of a run, and the sums over its epoch so far.
struct Progress {
  int epoch = 0;            ///< counted from 0
  int batch = 0;            ///< batch within the epoch, counted from 0
  double epoch_loss = 0.0;  ///< sum of the losses of the epoch's images so far
  long epoch_correct = 0;   ///< number of the epoch's images so far that were classified correctly
  bool operator==(const Progress&) const = default;
};

/// How much a run has to do.
struct RunLength {
  int epochs = 0;
  int batches = 0;  ///< in an epoch
  int images = 0;   ///< in a batch
  bool operator==(const RunLength&) const = default;
};

/// The run to which a checkpoint belongs.
struct RunIdentity {
  std::string fingerprint;  ///< identifies net, seed, batch and data, which must be equal for the run to resume
  RunLength length;         ///< when the checkpoint was written
};

/// A model and the progress that training has made with it: all that a run needs to go on. Random numbers are functions
/// of the seed and the step, so no generator is stored.
struct TrainingState {
  std::shared_ptr<const ModelState> model;
  Progress progress = {};
};

/// Writes the weights without the optimizer's moments, for tests, other programs and further training. The file is
/// written whole or not at all.
void write_weights(const std::string& file, const Cut& cut, const ModelState& model, const Net& net);
/// The same for the weights at the end of a cycle of the schedule `snapshots`, with the numbers of the cycle and of the
/// epoch, both from 1.
void write_snapshot(const std::string& file, const Cut& cut, const ModelState& model, const Net& net, int cycle,
                    int epoch);
/// Reads weights from a file of weights or a checkpoint. Throws Error naming the file and the tensor that is missing,
/// superfluous, or of a shape other than the net's.
ModelState read_weights(const std::string& file, const Cut& cut);
/// The same but for the layers `except`, which keep the values of `initial`; layers that only the file has may be among
/// them. Throws Error for a layer that neither has.
ModelState read_weights(const std::string& file, const Cut& cut, const std::vector<std::string>& except,
                        ModelState initial);

/// The epoch of a run with the best test accuracy, the first of equal ones.
struct BestEpoch {
  int epoch = 0;           ///< from 1; 0: none was tested yet
  double accuracy = -1.0;  ///< a fraction
};
/// Weights with the epoch that they are of.
void write_best(const std::string& file, const Cut& cut, const ModelState& model, const Net& net,
                const BestEpoch& best);
/// What write_best() wrote; nothing where there is no such file, or none that can be read (`notice` then says so).
BestEpoch read_best(const std::string& file, std::string& notice);

/// Makes a model of tensors in memory. `name` is the source that errors name.
ModelState model_from(const Cut& cut, const std::vector<NamedTensor>& tensors, const std::string& name);
/// The tensors of a file of weights, in the file's order, with all values zero.
std::vector<NamedTensor> zero_tensors(const Cut& cut);

/// The number of steps that a run has done.
long steps_of(const Progress& progress, const RunLength& length);
/// Writes checkpoint.safetensors and keeps the checkpoint before it as checkpoint-previous.safetensors.
void write_checkpoint(const std::string& folder, const Cut& cut, const TrainingState& state, const RunIdentity& run);
/// Throws Error if a run may not go on from a checkpoint of this run.
using Accept = std::function<void(const RunIdentity&)>;
/// Whether the folder has a checkpoint.
bool has_checkpoint(const std::string& folder);
/// Reads the folder's last checkpoint. If the file is missing or damaged, has values that are not valid or a position
/// outside the run, or if `accept` throws for it, reads the checkpoint before, sets `notice` to a sentence about it,
/// and renames the file that cannot be used to checkpoint-damaged-NUMBER.safetensors. Throws Error if neither can be
/// used.
TrainingState read_checkpoint(const std::string& folder, const Cut& cut, std::string& notice,
                              const Accept& accept = {});

}  // namespace convoy
