// The statistics of batch norms whose batch is cut along samples.

#include "exchange/node_parts.hpp"
#include "kernels/joint_statistics.hpp"

namespace convoy {

void Node::find_statistics(const Task& task) {
  Piece& piece = pieces_[static_cast<std::size_t>(task.stage)].front();
  if (task.cargo == Cargo::moments) {
    statistics_[task.stage] = piece.shard->moments();
    return;
  }
  const ShardSpec& spec = piece.shard->spec();
  if (task.norm + 1 == batch_norms(spec.stage)) write_gradient(piece, {0, spec.batch});
  statistics_[task.stage] = piece.shard->slopes(gradient_for(piece));
}

/// Copies the statistics of a send task. All parcels of the task are then cut from the copy.
void Node::take_statistics_to_send(const Task& sent) {
  const bool own = sent.cargo == Cargo::moments || sent.cargo == Cargo::slopes;
  const auto stage = static_cast<std::size_t>(sent.stage);
  const FilterRange channels = own ? pieces_[stage].front().filters : joint_statistics_.at(sent.stage).channels;
  const std::vector<float>& values = own ? statistics_.at(sent.stage) : joint_statistics_.at(sent.stage).values;
  const std::vector<float> some =
      statistics_of<float>(values, {sent.filters.first - channels.first, sent.filters.count});
  weights_to_send_.assign(some.begin(), some.end());
}

/// Joins the statistics in the order of the rows, never in the order of arrival. The tasks that it waits for follow that
/// order. Holders take the joint values in fp32, in which they travel in a star.
void Node::join_statistics(const Task& task) {
  const std::size_t size = 2 * static_cast<std::size_t>(task.filters.count);
  std::vector<RowStatistics> rows;
  SampleRange row;
  for (const int index : task.after) {
    const Task& part = this->task(index);
    if (rows.empty() || part.samples != row) rows.push_back({part.samples.count, std::vector<float>(size)});
    row = part.samples;
    const FilterRange both = common(part.filters, task.filters);
    std::vector<float> values;
    if (part.kind == TaskKind::send) {
      take_floats(flights_.at(index).held, values_of(part));
      values = statistics_of<float>(scratch_, {both.first - part.filters.first, both.count});
      flights_.erase(index);
    } else {
      values = statistics_of<float>(statistics_.at(task.stage), {both.first - part.filters.first, both.count});
    }
    put_statistics<float>(values, {both.first - task.filters.first, both.count}, rows.back().values);
  }
  const std::vector<double> joint = task.cargo == Cargo::moments ? join_moments(rows) : join_slopes(rows);
  joint_statistics_[task.stage] = {task.filters, {joint.begin(), joint.end()}};
}

void Node::take_statistics(const Task& task) {
  Piece& piece = pieces_[static_cast<std::size_t>(task.stage)].front();
  const Joint& all = joint_statistics_.at(task.stage);
  const std::vector<float> own =
      statistics_of<float>(all.values, {task.filters.first - all.channels.first, task.filters.count});
  const std::vector<double> joint(own.begin(), own.end());
  if (task.cargo == Cargo::slopes) return piece.shard->take_slopes(joint);
  const DeviceTensor& maps = piece.shard->normalise(joint);
  const ShardSpec& spec = piece.shard->spec();
  if (task.norm + 1 == batch_norms(spec.stage)) take_made(piece, maps, {0, spec.batch});
  device_->finish();
}

}  // namespace convoy
