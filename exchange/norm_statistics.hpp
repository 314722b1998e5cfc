// The statistics of batch norms whose batch is cut along samples: each row's own, and those of all.
#pragma once

#include <map>
#include <vector>

#include "exchange/node_plan.hpp"
#include "exchange/parcel.hpp"

namespace convoy {

/// By stage, the moments or slopes (kernels/joint_statistics.hpp) of its current batch norm.
class NormStatistics {
 public:
  /// All arguments must outlive the statistics. `flights` has the values of sends that arrived.
  NormStatistics(const NodePlan& plan, Flights& flights) : plan_(plan), flights_(flights) {}

  /// Takes those of the node's samples, for the channels of its tile.
  void take_own(int stage, std::vector<float> values) { own_[stage] = std::move(values); }
  /// Joins the statistics in the order of the rows, never in the order of arrival. The tasks that it waits for follow
  /// that order. Holders take the joint values in fp32, in which they travel in a star.
  void join(const Task& task);
  /// Takes those of all samples, of which all values have arrived.
  void take_joint(int sent);
  /// Those of all samples, for the task's filters.
  std::vector<double> joint(const Task& task) const;
  /// The statistics that a send task carries.
  void put_to_send(const Task& sent, AlignedVector<float>& to) const;

 private:
  struct Joint {
    FilterRange channels;
    std::vector<float> values;
  };
  const Task& task(int index) const { return plan_.training.tasks[index]; }

  const NodePlan& plan_;
  Flights& flights_;
  std::map<int, std::vector<float>> own_;
  std::map<int, Joint> joint_;
  AlignedVector<float> scratch_;
};

}  // namespace convoy
