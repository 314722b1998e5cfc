#include "slave/loading_state.hpp"

#include <utility>

namespace convoy {
namespace {

/// The stage with the moments that travel.
Stage as_loaded(const wire::Load& task, Stage stage) {
  if (!task.moments) stage.moments = 0;
  return stage;
}

}  // namespace

LoadingState::LoadingState(const wire::Load& task, const Stage& of, StateCache& cache)
    : task_(task),
      blocks_(wire::state_blocks(task.filters)),
      state_{task.stage_index, task.filters, {}},
      wanted_{task.stage_index, {}},
      reader_(std::vector<wire::Typed<float>>()) {
  if (task.contents.size() != blocks_.size()) {
    fail("the Load has {} hashes, but its {} filters make {} blocks", task.contents.size(), task.filters.count,
         blocks_.size());
  }
  const Stage stage = as_loaded(task, of);
  state_.state = zero_state(stage, task.filters.count);
  std::vector<wire::Typed<float>> missing;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    parts_.push_back(zero_state(stage, blocks_[b].count));
    if (cache.find(task.contents[b], wire::values_of(parts_.back()))) continue;
    wanted_.blocks.push_back(static_cast<std::uint32_t>(b));
    const std::vector<wire::Typed<float>> values = wire::values_of(parts_.back(), stage, task.type);
    missing.insert(missing.end(), values.begin(), values.end());
  }
  reader_ = wire::ValueReader(std::move(missing));
}

FilterState LoadingState::finish(StateCache& cache, bool on_disk) {
  for (const std::uint32_t b : wanted_.blocks) {
    const auto values = wire::values_of(std::as_const(parts_[b]));
    if (wire::content_of(values) != task_.contents[b]) {
      fail("the values of filters {} to {} of stage {} do not have the hash that the master announced",
           blocks_[b].first, blocks_[b].first + blocks_[b].count - 1, task_.stage_index);
    }
    if (on_disk) {
      cache.store(task_.contents[b], values);
    } else {
      cache.keep(task_.contents[b], values);
    }
  }
  for (std::size_t b = 0; b < blocks_.size(); ++b) wire::set_block(parts_[b], blocks_[b], task_.filters, state_.state);
  return std::move(state_);
}

}  // namespace convoy
