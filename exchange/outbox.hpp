// The values that a node sends to other nodes.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <vector>

#include "exchange/parcel.hpp"
#include "exchange/task_schedule.hpp"

namespace convoy {

/// The initial credit: how many parcels with parts of gradients a slave may send to the master in a star before the
/// first grant. Each grant allows one more. The credit bounds the parts that the master stores before it can add them,
/// for any number of slaves. It is large enough that a slave, which handles grants between its tasks, does not run out
/// of it during a long task.
int initial_credit(const Plan& plan);

/// Cuts the values of send tasks into parcels. Sends of the same values to several nodes share their bytes.
class Outbox {
 public:
  /// Encodes values first .. first + count - 1 of a send to `to`.
  using Encode = std::function<void(const Task& sent, std::size_t first, std::size_t count, std::byte* to)>;

  /// A parcel has at most `most_values` values. `plan` and `schedule` must outlive the outbox.
  Outbox(const NodePlan& plan, const TaskSchedule& schedule, Carrier carrier, Encode encode, std::size_t most_values);

  void begin_step();
  /// Sends all values of a task.
  void send(int index);
  /// Sends the values of tasks of the next step, in the same graph.
  void send_ahead(const std::vector<int>& tasks);
  /// The values of a part of a gradient are known. Sends such parts in the order of the graph, as far as the credit
  /// allows. Returns the tasks that are sent completely.
  std::vector<int> offer_part(int index);
  /// One more parcel with a part of a gradient may be sent; returns as offer_part() does.
  std::vector<int> take_credit();

  /// Keeps bytes of a send to this node until it has passed them on.
  void keep(int received, const Bytes& bytes) { passing_[received].push_back(bytes); }
  /// Passes on the values of another send in the bytes and parcels in which they arrived, so that they are not rounded
  /// again.
  void pass_on(int index);
  /// Whether the node passes on the values of a send that it receives.
  bool is_passed_on(int received) const { return !passed_on_by(received).empty(); }

 private:
  std::vector<int> passed_on_by(int received) const;
  std::vector<int> send_parts();
  std::size_t send_some(int index, std::size_t first);
  Bytes encoded(int index, std::size_t first, std::size_t count);

  const NodePlan& plan_;
  const TaskSchedule& schedule_;
  Carrier carrier_;
  Encode encode_;
  std::size_t most_values_;
  std::map<int, std::vector<Bytes>> passing_;  ///< by send task
  std::deque<int> parts_;                      ///< sends that need credit, in the graph's order
  std::set<int> known_;                        ///< sends of `parts_` whose values are known
  std::size_t part_sent_ = 0;                  ///< values of the first of them that were sent
  int credit_;                                 ///< parcels that the node may send without another grant
  std::vector<Parcel> shared_;                 ///< parcels of the last send
};

}  // namespace convoy
