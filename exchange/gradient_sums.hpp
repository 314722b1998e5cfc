// The sums of the nodes' addends of gradients with respect to maps.
#pragma once

#include <map>
#include <vector>

#include "exchange/host_maps.hpp"
#include "exchange/task_schedule.hpp"

namespace convoy {

/// Adds the addends of each sum task of a node, on the host, as they arrive.
class GradientSums {
 public:
  /// `flights` has the addends of other nodes. All arguments but `carrier` must outlive the sums.
  GradientSums(const NodePlan& plan, const TaskSchedule& schedule, HostMaps& maps, Flights& flights, Carrier carrier)
      : plan_(plan), schedule_(schedule), maps_(maps), flights_(flights), carrier_(std::move(carrier)) {}

  void begin_step() { added_.clear(); }
  /// Adds the addends that have arrived. Each value is summed in the order of the nodes, never in the order of arrival,
  /// so an addend waits for the one before it. If both have the whole box, it follows value by value; otherwise it
  /// waits until the one before is added completely. Returns the send tasks whose values are now all added.
  std::vector<int> add_up(int index);

 private:
  Box box_of_part(const Task& sum, int part) const;
  std::size_t values_in(const Box& box, const Task& sum) const;
  void add_own_part(const Task& sum, const Box& box, bool first, std::size_t begin, std::size_t count);
  void add(const Task& sum, const Box& box, bool first, std::size_t begin, NumberType type, const Bytes& bytes);

  const NodePlan& plan_;
  const TaskSchedule& schedule_;
  HostMaps& maps_;
  Flights& flights_;
  Carrier carrier_;
  std::map<int, std::vector<std::size_t>> added_;  ///< by sum task, how many values of each addend it contains
};

}  // namespace convoy
