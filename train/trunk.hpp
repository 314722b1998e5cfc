// The second seam: what the training loop knows of the trunk. One implementation runs in process on local devices, the
// other on slaves; the loop cannot tell them apart.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/shard_state.hpp"
#include "core/tensor.hpp"

namespace convoy {

/// What one member did since the last report: how it spent its time, in seconds, and the bytes of the values that it sent
/// and received in training steps.
struct MemberTime {
  std::string member;
  double compute = 0.0;
  double transfer = 0.0;
  double wait = 0.0;
  double sent = 0.0;
  double received = 0.0;
};

/// Adds times to those of the same members before; members may come and go.
void add_times(const std::vector<MemberTime>& times, std::vector<MemberTime>& sums);

class Trunk {
 public:
  virtual ~Trunk() = default;
  /// Images (batch, channels, height, width), normalised, to the maps of outputs_of(stages), of which it returns the last.
  /// They belong to the trunk and hold until its next forward.
  const Tensor& forward(const Tensor& images, const Pass& pass) {
    begin(images, pass);
    while (next_outputs()) continue;
    return output(output_count() - 1);
  }
  /// The same in parts, so that what follows the trunk begins when the first samples are through: begin(), then
  /// next_outputs() waits for further samples, in their order, and gives nothing when all have come.
  virtual void begin(const Tensor& images, const Pass& pass) = 0;
  virtual std::optional<SampleRange> next_outputs() = 0;
  virtual std::size_t output_count() const = 0;
  /// One of the outputs; in testing the last alone is there.
  virtual const Tensor& output(std::size_t number) const = 0;
  /// All of them, in their order.
  std::vector<const Tensor*> outputs() const {
    std::vector<const Tensor*> all;
    for (std::size_t i = 0; i < output_count(); ++i) all.push_back(&output(i));
    return all;
  }
  /// From the gradients of the loss by all outputs, for samples as next_outputs() gave them, or for all. Need not wait until
  /// the trunk is through.
  virtual void backward(const std::vector<const Tensor*>& gradients, SampleRange samples) = 0;
  void backward(const std::vector<const Tensor*>& gradients) { backward(gradients, {0, gradients[0]->shape().n}); }
  void backward(const Tensor& gradient) { backward(std::vector<const Tensor*>{&gradient}); }
  /// The sum of the squares of the gradients by all parameters, after backward; `squares` of its forward's pass is set.
  virtual double gradient_squares() = 0;
  /// Ends the step. Need not wait either: finish() does, and so does whatever comes next.
  virtual void update(const UpdateStep& step) = 0;
  virtual void finish() {}
  /// Every stage's whole state, in order of the stages. Drops what begin_snapshot() began.
  virtual std::vector<ShardState> snapshot() = 0;
  /// Begins to collect the same, as it is now, while further steps are done; drops what was begun before.
  virtual void begin_snapshot() = 0;
  /// What was begun, once it is whole; nothing before, and afterwards.
  virtual std::optional<std::vector<ShardState>> take_snapshot() = 0;
  virtual void load(const std::vector<ShardState>& states) = 0;
  /// Time spent since the last call, a row a member.
  virtual std::vector<MemberTime> take_times() = 0;
};

}  // namespace convoy
