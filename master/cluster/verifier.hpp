// Computes some of the slaves' work again, to find slaves that send wrong values. Every so many steps it draws a
// slave's filters of one stage, compares a step of them with what the slave sent, and names a slave whose values are
// wrong.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "master/cluster/comparison.hpp"
#include "master/cluster/tile_run.hpp"
#include "train/observer.hpp"

namespace convoy {

/// Describes the finding for people, in a sentence.
std::string describe(const WrongWork& wrong);

class Verifier {
 public:
  /// Verifies one tile in each step whose number is divisible by `interval`, and a tile with wrong values again in the
  /// step after it. The device must outlive the verifier.
  /// `tell` takes a text for people about a tile that cannot be verified.
  Verifier(int interval, Device& device, std::function<void(const std::string&)> tell)
      : interval_(interval), device_(device), tell_(std::move(tell)) {}

  /// Begins a plan. A verification in progress is dropped.
  void begin_plan(const Plan& plan, const Node& master);
  const std::vector<VerifiableTile>& tiles() const { return tiles_; }

  /// Begins a step. Returns the tile to verify in it, or null. The same seed draws the same tile.
  const VerifiableTile* begin_step(const Pass& pass);
  /// The tile that is verified in the current step, or null.
  const VerifiableTile* tile() const { return tile_ ? &*tile_ : nullptr; }
  /// Takes values of a send task from the master or to it; those of other tasks than the tile's are ignored.
  void see(int task, std::size_t first, std::span<const std::byte> values);
  void see_update(const UpdateStep& step) { update_ = step; }
  /// Ends the verification in a step that is over, with the slave's states of the tile before and after it. Returns
  /// what is wrong if a value is NaN or infinite, or if values of the tile were wrong in the step before, too. A tile
  /// that the device cannot hold is never drawn again under this plan.
  std::optional<WrongWork> judge(const ShardState& before, const ShardState& after);

  /// The number of tiles that were found right.
  long verified() const { return verified_; }
  /// The last finding.
  const std::optional<WrongWork>& found() const { return found_; }

 private:
  std::unique_ptr<TileRun> compile();
  const Task& task(int index) const { return master_->graph().tasks[index]; }
  SampleRange samples_of(const Task& task) const;
  Comparison compare_sent(int index, const Tensor& own, const Tensor& disturbed, int first, double terms) const;
  Tensor gradient() const;
  void report(const Comparison& result, const std::string& what, int stage);
  void compare(TileRun& run, const ShardState& before, const ShardState& after);
  void compare(const TileInputs& inputs, const TileResults& own, const TileResults& disturbed, const ShardState& after);
  void compare_weights(const TileInputs& inputs, const TileResults& own, const TileResults& disturbed,
                       const ShardState& after);

  int interval_;
  Device& device_;
  std::function<void(const std::string&)> tell_;
  Plan plan_;
  const Node* master_ = nullptr;
  std::vector<VerifiableTile> tiles_;
  std::optional<VerifiableTile> tile_;
  std::optional<VerifiableTile> suspect_;  ///< the tile of the step before, if its values were wrong
  Pass pass_;
  UpdateStep update_;
  std::map<int, std::vector<float>> seen_;  ///< values of the tile's send tasks in the current step
  std::map<std::string, long> right_;       ///< by slave, the last step in which it was found right
  std::optional<WrongWork> found_;
  long verified_ = 0;
};

}  // namespace convoy
