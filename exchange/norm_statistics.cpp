#include "exchange/norm_statistics.hpp"

#include "kernels/joint_statistics.hpp"

namespace convoy {

void NormStatistics::join(const Task& task) {
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
      take_floats(flights_.at(index), part, plan_.plan, scratch_);
      values = statistics_of<float>(scratch_, {both.first - part.filters.first, both.count});
      flights_.erase(index);
    } else {
      values = statistics_of<float>(own_.at(task.stage), {both.first - part.filters.first, both.count});
    }
    put_statistics<float>(values, {both.first - task.filters.first, both.count}, rows.back().values);
  }
  const std::vector<double> joint = task.cargo == Cargo::moments ? join_moments(rows) : join_slopes(rows);
  joint_[task.stage] = {task.filters, {joint.begin(), joint.end()}};
}

void NormStatistics::take_joint(int sent) {
  take_floats(flights_.at(sent), task(sent), plan_.plan, scratch_);
  joint_[task(sent).stage] = {task(sent).filters, {scratch_.begin(), scratch_.end()}};
}

std::vector<double> NormStatistics::joint(const Task& task) const {
  const Joint& all = joint_.at(task.stage);
  const std::vector<float> some =
      statistics_of<float>(all.values, {task.filters.first - all.channels.first, task.filters.count});
  return {some.begin(), some.end()};
}

void NormStatistics::put_to_send(const Task& sent, AlignedVector<float>& to) const {
  const bool own = sent.cargo == Cargo::moments || sent.cargo == Cargo::slopes;
  const FilterRange channels = own ? plan_.tile(sent.stage).filters : joint_.at(sent.stage).channels;
  const std::vector<float>& values = own ? own_.at(sent.stage) : joint_.at(sent.stage).values;
  const std::vector<float> some =
      statistics_of<float>(values, {sent.filters.first - channels.first, sent.filters.count});
  to.assign(some.begin(), some.end());
}

}  // namespace convoy
