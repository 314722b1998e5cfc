// The second seam: the trunk as a learner sees it. One implementation runs in this process on a local device, the other
// on slaves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/images.hpp"
#include "core/machine_energy.hpp"
#include "core/number_type.hpp"
#include "core/shard_state.hpp"

namespace convoy {

/// What one member did since the last report: how it spent its time, in seconds, and the bytes that it sent and
/// received.
struct MemberTime {
  std::string member;
  double compute = 0.0;
  double transfer = 0.0;
  double wait = 0.0;
  double sent = 0.0;      ///< in training steps
  double received = 0.0;  ///< in training steps
  /// Between steps, to the master: weights, gradients and moments. The replicas of a net cost these.
  double states_sent = 0.0;
  double states_received = 0.0;  ///< between steps, from the master
};

/// Adds each time to the sum for the same member, and appends members that have no sum yet.
void add_times(const std::vector<MemberTime>& times, std::vector<MemberTime>& sums);

/// The energy of one member's machine in the run so far.
struct MemberEnergy {
  std::string member;
  MachineEnergy energy;
};

/// A stage or dense layer whose weights or moments are not finite after the update of a step.
struct Broken {
  std::string layer;
  long step = 0;  ///< counted from 1
};

class Trunk {
 public:
  virtual ~Trunk() = default;
  /// Computes the maps of outputs_of(stages) from normalised images, and returns the maps of the last one. They belong
  /// to the trunk and are valid until its next forward pass.
  const Tensor& forward(const Images& images, const Pass& pass) {
    begin(images, pass);
    while (next_outputs()) continue;
    return output(output_count() - 1);
  }
  /// Begins a forward pass that returns its outputs in parts, so that the layers after the trunk can begin with the
  /// first samples.
  virtual void begin(const Images& images, const Pass& pass) = 0;
  /// Waits for the next samples, in ascending order. Returns nothing after the last sample of the batch.
  virtual std::optional<SampleRange> next_outputs() = 0;
  /// Whether next_outputs() would not wait.
  virtual bool outputs_ready() const { return true; }
  virtual std::size_t output_count() const = 0;
  /// The maps of one output. In testing only the last output is valid.
  virtual const Tensor& output(std::size_t number) const = 0;
  /// The maps of all outputs, in their order.
  std::vector<const Tensor*> outputs() const {
    std::vector<const Tensor*> all;
    for (std::size_t i = 0; i < output_count(); ++i) all.push_back(&output(i));
    return all;
  }
  /// Runs the backward pass from the gradients of the loss with respect to all outputs, for a range of samples that
  /// next_outputs() returned, or for the whole batch. May return before the trunk has finished.
  virtual void backward(const std::vector<const Tensor*>& gradients, SampleRange samples) = 0;
  void backward(const std::vector<const Tensor*>& gradients) { backward(gradients, {0, gradients[0]->shape().n}); }
  void backward(const Tensor& gradient) { backward(std::vector<const Tensor*>{&gradient}); }
  /// The sum of the squares of all parameters' gradients, after backward(). The Pass of begin() must have `squares`
  /// set.
  virtual double gradient_squares() = 0;
  /// Updates all parameters, which ends the step. May return before the trunk has finished: slaves update when the next
  /// call needs it.
  virtual void update(const UpdateStep& step) = 0;
  /// Waits until all passes have finished, and with them the updates before the last pass.
  virtual void settle() {}
  /// Whether settle() would not wait.
  virtual bool settled() const { return true; }

  // Several trunks can work at the same time if their owner polls each of them, and waits when none of them had work.
  /// Handles the next message, or does the next task, without waiting. Returns false if there is none.
  virtual bool poll() { return false; }
  /// Waits for a short time, or until poll() of this trunk or of another one may have work.
  virtual void wait() {}

  /// The first stage that an update left with values that are not finite, and the step of the update (Pass::step);
  /// nothing if none is known. An update is known at once on a processor of this machine, after the next forward on its
  /// GPU, and on slaves after the next settle(), snapshot() or forward pass in testing.
  virtual std::optional<Broken> broken() const = 0;
  /// The whole state of every stage, in the order of the stages. Drops a snapshot that begin_snapshot() began.
  virtual std::vector<ShardState> snapshot() = 0;
  /// Begins a snapshot of the current state, with or without moments, which is collected while further steps run. Drops
  /// a snapshot in progress.
  virtual void begin_snapshot(bool moments) = 0;
  /// Like begin_snapshot(), but the values of trained parameters are what they have changed since `from`, the states
  /// with which the trunk was loaded last and which must live until take_snapshot(). They and the moments travel in the
  /// type of carry_states_in(), rounded to nearest, where they travel.
  virtual void begin_changes(const std::vector<ShardState>& from, bool moments) = 0;
  /// Takes what begin_snapshot(), begin_changes() or begin_gradients() began to collect. Returns nothing if it is
  /// incomplete or was taken already.
  virtual std::optional<std::vector<ShardState>> take_snapshot() = 0;
  /// Begins to collect the gradients of the backward pass, which was given all samples: take_snapshot() returns them in
  /// the form of a state without moments, in which the running averages are those after the pass. Members send the
  /// gradients of a stage once they know them, while they are still in the pass.
  virtual void begin_gradients() = 0;
  /// Sets the state of every stage.
  void load(const std::vector<ShardState>& states) {
    begin_load(states);
    settle();
  }
  /// Begins to set the state of every stage. It is set once the trunk is settled(). States without moments leave the
  /// moments as they are.
  virtual void begin_load(const std::vector<ShardState>& states) = 0;
  /// From now on, the weights and moments that are loaded, and the gradients or changes that are collected, travel in
  /// this type where they travel; not int8. What is loaded must have been rounded to it.
  virtual void carry_states_in(NumberType) {}
  /// The times of each member since the last call.
  virtual std::vector<MemberTime> take_times() = 0;
};

}  // namespace convoy
