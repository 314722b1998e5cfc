#include "plan/simulate.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "core/shard_state.hpp"
#include "plan/links.hpp"

namespace convoy {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Two steps, one after the other. A task of the second has the index of the same task of the first and as many more as
/// the graph has tasks. A node begins the second step when it has finished the first. When the heads of a step are
/// done, the master sends images of the next; those of a third step share the cards with the second, as those of the
/// second share them with the first.
class Simulation {
 public:
  Simulation(const TaskGraph& graph, const Plan& plan, const std::vector<Stage>& trunk, const ClusterModel& cluster)
      : graph_(graph),
        cluster_(cluster),
        work_(graph.tasks.size()),
        missing_(2 * graph.tasks.size()),
        heads_left_(2, 0),
        left_(static_cast<std::size_t>(graph.nodes), 0),
        tasks_of_(static_cast<std::size_t>(graph.nodes)),
        followers_(followers_of(graph)),
        links_(cluster.links, static_cast<int>(graph.tasks.size())),
        computing_(static_cast<std::size_t>(graph.nodes)),
        ready_(static_cast<std::size_t>(graph.nodes)) {
    result_.nodes.resize(static_cast<std::size_t>(graph.nodes));
    for (std::size_t i = 0; i < tasks(); ++i) {
      const Task& each = graph.tasks[i];
      const bool sends = each.kind == TaskKind::send;
      work_[i] = sends ? bytes_of(each, plan, trunk) : cluster.seconds(each);
      missing_[i] = each.after.size();
      missing_[tasks() + i] = each.after.size() + 1;
      ++left_[at(each.node)];
      (goes_ahead(each) ? ahead_ : tasks_of_[at(each.node)]).push_back(i);
      if (sends) {
        ++left_[at(each.to)];
        result_.nodes[at(each.node)].bytes_out += work_[i];
        result_.nodes[at(each.to)].bytes_in += work_[i];
      } else {
        result_.nodes[at(each.node)].compute += work_[i];
      }
      if (each.kind == TaskKind::head) {
        for (std::size_t& left : heads_left_) ++left;
      }
    }
  }

  Simulated run() {
    for (std::size_t i = 0; i < tasks(); ++i) {
      if (missing_[i] == 0) start(static_cast<int>(i));
    }
    for (int node = 0; node < graph_.nodes; ++node) {
      if (left_[at(node)] == 0) begin_second(node);
    }
    while (first_done_ + second_done_ < 2 * tasks()) {
      if (links_.share(now_)) share_processors();
      const double next = next_event();
      if (begun_second_) count_power(next - now_);
      now_ = next;
      finish_what_ended();
      if (result_.first == 0.0 && first_done_ == tasks()) result_.first = now_;
    }
    result_.seconds = now_ - result_.first;
    for (NodeUse& use : result_.nodes) {
      // The second step may begin early and so take longer than the time between the ends.
      use.moving = std::min(use.moving, std::max(0.0, result_.seconds - use.busy));
    }
    return std::move(result_);
  }

 private:
  struct Computing {
    int task = -1;      ///< -1 while idle
    double left = 0.0;  ///< seconds at full speed, at `since`
    double since = 0.0;
    double speed = 1.0;  ///< below 1 while the node also sends or receives
    double ends = 0.0;   ///< when the task ends at this speed
  };
  using Ready = std::priority_queue<int, std::vector<int>, std::greater<>>;
  using Arrival = std::pair<double, int>;

  static constexpr int kOfThird = -1;  ///< stands for a send of images of the third step

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  std::size_t tasks() const { return graph_.tasks.size(); }
  bool is_second(int index) const { return at(index) >= tasks(); }
  std::size_t task_of(int index) const { return is_second(index) ? at(index) - tasks() : at(index); }
  const Task& task(int index) const { return graph_.tasks[task_of(index)]; }
  /// Whether a send of the master goes ahead of the step.
  bool goes_ahead(const Task& sent) const {
    return sent.kind == TaskKind::send && sent.stage == Source::kImages && sent.node == graph_.master;
  }

  void release(int index) {
    if (--missing_[at(index)] == 0) start(index);
  }
  void begin_second(int node) {
    for (const std::size_t i : tasks_of_[at(node)]) release(static_cast<int>(tasks() + i));
  }
  /// Sends the images of the step after one of the two.
  void send_ahead(bool after_second) {
    for (const std::size_t i : ahead_) {
      const Task& each = graph_.tasks[i];
      if (after_second) {
        links_.send(each.node, each.to, lane_of(each, graph_), work_[i], kOfThird);
      } else {
        release(static_cast<int>(tasks() + i));
      }
    }
  }
  void finish(int index) {
    if (index == kOfThird) return;
    const bool second = is_second(index);
    const int first = second ? static_cast<int>(tasks()) : 0;
    for (const int follower : followers_[task_of(index)]) release(first + follower);
    ++(second ? second_done_ : first_done_);
    const Task& done = task(index);
    if (done.kind == TaskKind::head && --heads_left_[second ? 1 : 0] == 0) send_ahead(second);
    if (second) return;
    if (--left_[at(done.node)] == 0) begin_second(done.node);
    if (done.kind == TaskKind::send && --left_[at(done.to)] == 0) begin_second(done.to);
  }

  void start(int index) {
    const Task& started = task(index);
    begun_second_ = begun_second_ || is_second(index);
    if (started.kind == TaskKind::send)
      return links_.send(started.node, started.to, lane_of(started, graph_), work_[task_of(index)], index);
    ready_[at(started.node)].push(index);
    take_next(started.node);
  }

  void take_next(int node) {
    Ready& ready = ready_[at(node)];
    Computing& computing = computing_[at(node)];
    if (computing.task >= 0 || ready.empty()) return;
    computing.task = ready.top();
    ready.pop();
    computing.left = work_[task_of(computing.task)];
    computing.since = now_;
    computing.ends = now_ + computing.left / computing.speed;
  }

  /// Slows each node's processor by the bytes that it sends and receives.
  void share_processors() {
    constexpr double kLeast = 0.1;
    for (int node = 0; node < graph_.nodes; ++node) {
      Computing& each = computing_[at(node)];
      const ByteCost& cost = cluster_.byte_costs[at(node)];
      each.left -= each.speed * (now_ - each.since);
      each.since = now_;
      each.speed = std::max(kLeast, 1.0 - cost.out * links_.out(node) - cost.in * links_.in(node));
      each.ends = now_ + std::max(0.0, each.left) / each.speed;
    }
  }

  /// Counts the time of each node by what it does for the second step.
  void count_power(double seconds) {
    const auto second = static_cast<int>(tasks());
    for (int node = 0; node < graph_.nodes; ++node) {
      NodeUse& use = result_.nodes[at(node)];
      if (computing_[at(node)].task >= second) use.busy += seconds;
      if (computing_[at(node)].task < 0 && links_.moves_late(node)) use.moving += seconds;
    }
  }

  double next_event() const {
    double next = std::min(links_.next(), arrivals_.empty() ? kNever : arrivals_.top().first);
    for (const Computing& each : computing_) {
      if (each.task >= 0) next = std::min(next, each.ends);
    }
    invariant(next < kNever, "the tasks do not wait for each other in a cycle");
    return next;
  }

  void finish_what_ended() {
    ended_.clear();
    links_.take_ended(now_, ended_);
    if (cluster_.latency > 0.0) {
      for (const int sent : ended_) arrivals_.emplace(now_ + cluster_.latency, sent);
      ended_.clear();
    }
    while (!arrivals_.empty() && has_come(arrivals_.top().first, now_)) {
      ended_.push_back(arrivals_.top().second);
      arrivals_.pop();
    }
    for (Computing& each : computing_) {
      if (each.task >= 0 && has_come(each.ends, now_)) ended_.push_back(std::exchange(each.task, -1));
    }
    for (const int index : ended_) finish(index);
    for (int node = 0; node < graph_.nodes; ++node) take_next(node);
  }

  const TaskGraph& graph_;
  const ClusterModel& cluster_;
  std::vector<double> work_;  ///< by task of the graph, seconds of computing, or bytes of a send
  double now_ = 0.0;
  std::size_t first_done_ = 0;           ///< tasks of the first step that are done
  std::size_t second_done_ = 0;          ///< and of the second
  std::vector<std::size_t> missing_;     ///< number of unfinished tasks that each task waits for, by index
  std::vector<std::size_t> heads_left_;  ///< by step, heads that are not done
  std::vector<std::size_t> left_;        ///< by node, tasks of the first step that it still computes, sends or receives
  std::vector<std::vector<std::size_t>> tasks_of_;  ///< by node, the tasks that it computes or sends, without `ahead_`
  std::vector<std::size_t> ahead_;                  ///< the master's sends that go ahead of the step
  std::vector<std::vector<int>> followers_;         ///< the tasks that wait for each task of the graph
  bool begun_second_ = false;                       ///< whether a node has begun to compute or send for the second step
  Links links_;
  std::vector<Computing> computing_;  ///< by node
  std::vector<Ready> ready_;          ///< by node; the first in the order of the graph is on top
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  std::vector<int> ended_;
  Simulated result_;
};

}  // namespace

double memory_seconds(const Task& task, const std::vector<Stage>& trunk, double bandwidth) {
  const Stage& stage = trunk[task.stage];
  double values = 0.0;
  if (task.kind == TaskKind::sum) {
    const Shape maps = output_shape(stage, task.samples.count, task.filters.count);
    values = 3.0 * static_cast<double>(task.after.size() * maps.size());
  } else if (task.kind == TaskKind::filter_sum) {
    for (const ParameterSpec& each : parameters_of(stage, task.filters.count)) {
      values += 3.0 * static_cast<double>(task.after.size() * each.shape.size());
    }
  } else {
    // Every layer reads and writes maps, most of them as large as the convolution's output.
    const auto layers = static_cast<double>(stage.after.size());
    values =
        (1.0 + 2.0 * layers) * static_cast<double>(conv_shape(stage, task.samples.count, task.filters.count).size());
  }
  return values * sizeof(float) / bandwidth;
}

Simulated least_step(const TaskGraph& graph, const Plan& plan, const std::vector<Stage>& trunk,
                     const ClusterModel& cluster) {
  const auto nodes = static_cast<std::size_t>(graph.nodes);
  Simulated least{.nodes = std::vector<NodeUse>(nodes)};
  for (const Task& task : graph.tasks) {
    const auto node = static_cast<std::size_t>(task.node);
    if (task.kind != TaskKind::send) {
      least.nodes[node].compute += cluster.seconds(task);
      continue;
    }
    const double bytes = bytes_of(task, plan, trunk);
    least.nodes[node].bytes_out += bytes;
    least.nodes[task.to].bytes_in += bytes;
  }
  for (std::size_t n = 0; n < nodes; ++n) {
    NodeUse& use = least.nodes[n];
    use.busy = use.compute;
    const NodeLink& link = cluster.links[n];
    least.seconds = std::max({least.seconds, use.compute, use.bytes_out / link.out, use.bytes_in / link.in});
  }
  return least;
}

Simulated simulate(const TaskGraph& graph, const Plan& plan, const std::vector<Stage>& trunk,
                   const ClusterModel& cluster) {
  const auto nodes = static_cast<std::size_t>(graph.nodes);
  invariant(cluster.links.size() == nodes && cluster.byte_costs.size() == nodes, "each node has a link and byte costs");
  return Simulation(graph, plan, trunk, cluster).run();
}

}  // namespace convoy
