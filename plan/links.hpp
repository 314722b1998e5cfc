// Sends that share the network cards of the nodes, for the simulation of a step.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "plan/profile.hpp"
#include "plan/task_graph.hpp"

namespace convoy {

/// Sends between the same pair of nodes in the same lane follow one another; other sends share the cards with max-min
/// fairness: no send can become faster unless a slower one becomes slower still. Times are in seconds.
class Links {
 public:
  /// `late` is the first of the tasks that moves_late() is about; by default there is none.
  explicit Links(const std::vector<NodeLink>& cards, int late = std::numeric_limits<int>::max());

  void send(int from, int to, Lane lane, double bytes, int task);
  /// Shares the cards anew if pairs have begun or ended to send since the last call. Returns whether it did.
  bool share(double now);
  /// When the next send ends at the present rates; infinity if there is none.
  double next() const;
  /// Appends the tasks of the sends that have ended, and begins the sends behind them.
  void take_ended(double now, std::vector<int>& tasks);
  /// Returns whether a node sends or receives bytes of a task from `late` on.
  bool moves_late(int node) const { return late_[node] > 0; }
  /// Bytes per second that a node sends, and receives.
  double out(int node) const { return rates_[node]; }
  double in(int node) const { return rates_[nodes_ + static_cast<std::size_t>(node)]; }

 private:
  struct Send {
    int task;
    double bytes;
  };
  struct Flow {
    std::vector<Send> sends;  ///< sends before `first` have ended
    std::size_t first = 0;
    double left = 0.0;  ///< bytes of the first send at `since`
    double since = 0.0;
    double rate = 0.0;
    bool empty() const { return first == sends.size(); }
  };
  /// A flow that sends. All of these are looked at for each event, so they lie close together.
  struct Open {
    double ends = 0.0;     ///< when the flow's first send ends at the present rate
    std::size_t flow = 0;  ///< index into `flows_`
    std::size_t from = 0;  ///< card of the sender
    std::size_t to = 0;    ///< card of the receiver
  };

  static constexpr std::size_t kLanes = 2;

  void set_rate(Open& open, double rate, double now);
  void count_late(const Open& open, int change);

  std::size_t nodes_;
  int first_late_;
  std::vector<int> late_;         ///< by node, its flows whose first send is of a late task
  std::vector<double> capacity_;  ///< of each card, out and then in, by node
  std::vector<double> rates_;     ///< bytes per second that each card carries
  std::vector<Flow> flows_;       ///< by sender, receiver and lane
  std::vector<Open> open_;
  bool changed_ = false;  ///< whether `open_` has changed since share()
};

/// Whether a moment has come, as far as rounding lets one see.
inline bool has_come(double moment, double now) {
  constexpr double kRounding = 1e-12;
  return moment <= now + kRounding * (1.0 + now);
}

}  // namespace convoy
