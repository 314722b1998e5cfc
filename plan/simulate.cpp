#include "plan/simulate.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <queue>
#include <set>

#include "core/shard_state.hpp"

namespace convoy {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Two steps, one after the other. A task of the second has the index of the same task of the first and as many more as
/// the graph has tasks. A node begins the second step when it has finished the first. The master sends images of the second
/// step when the heads of the first are done.
class Simulation {
 public:
  Simulation(const TaskGraph& graph, const Plan& plan, const std::vector<Stage>& trunk, const ClusterModel& cluster)
      : graph_(graph),
        plan_(plan),
        trunk_(trunk),
        cluster_(cluster),
        missing_(2 * graph.tasks.size()),
        left_(static_cast<std::size_t>(graph.nodes), 0),
        followers_(followers_of(graph)),
        computing_(static_cast<std::size_t>(graph.nodes)),
        ready_(static_cast<std::size_t>(graph.nodes)) {
    result_.nodes.resize(static_cast<std::size_t>(graph.nodes));
    for (std::size_t i = 0; i < tasks(); ++i) {
      const Task& each = graph.tasks[i];
      missing_[i] = each.after.size();
      missing_[tasks() + i] = each.after.size() + 1;
      ++left_[at(each.node)];
      if (each.kind == TaskKind::send) ++left_[at(each.to)];
      if (each.kind == TaskKind::head) ++heads_left_;
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
      share_links();
      share_processors();
      advance_to(next_event());
      finish_what_ended();
      if (result_.first == 0.0 && first_done_ == tasks()) result_.first = now_;
    }
    result_.seconds = now_ - result_.first;
    return result_;
  }

 private:
  struct Computing {
    int task = -1;      ///< -1: none
    double left = 0.0;  ///< seconds at full speed
    double speed = 1.0;
  };
  /// The sends between one pair of nodes, of which the first is in transit.
  struct Flow {
    std::deque<int> sends;
    double left = 0.0;  ///< bytes of the first send
    double rate = 0.0;
  };

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  std::size_t tasks() const { return graph_.tasks.size(); }
  bool is_second(int index) const { return at(index) >= tasks(); }
  const Task& task(int index) const { return graph_.tasks[at(index) % tasks()]; }
  /// Whether a send of the master goes ahead of the step.
  bool goes_ahead(const Task& sent) const {
    return sent.kind == TaskKind::send && sent.stage == Source::kImages && sent.node == graph_.master;
  }

  void release(int index) {
    if (--missing_[at(index)] == 0) start(index);
  }
  void begin_second(int node) {
    for (std::size_t i = 0; i < tasks(); ++i) {
      if (graph_.tasks[i].node == node && !goes_ahead(graph_.tasks[i])) release(static_cast<int>(tasks() + i));
    }
  }
  void send_ahead() {
    for (std::size_t i = 0; i < tasks(); ++i) {
      if (goes_ahead(graph_.tasks[i])) release(static_cast<int>(tasks() + i));
    }
  }
  void finish(int index) {
    const int first = is_second(index) ? static_cast<int>(tasks()) : 0;
    for (const int follower : followers_[at(index) % tasks()]) release(first + follower);
    ++(is_second(index) ? second_done_ : first_done_);
    if (is_second(index)) return;
    const Task& done = task(index);
    if (--left_[at(done.node)] == 0) begin_second(done.node);
    if (done.kind == TaskKind::send && --left_[at(done.to)] == 0) begin_second(done.to);
    if (done.kind == TaskKind::head && --heads_left_ == 0) send_ahead();
  }

  void start(int index) {
    const Task& started = task(index);
    if (started.kind != TaskKind::send) {
      ready_[at(started.node)].insert(index);
      return take_next(started.node);
    }
    const double bytes = bytes_of(started, plan_, trunk_);
    if (!is_second(index)) {
      result_.nodes[at(started.node)].bytes_out += bytes;
      result_.nodes[at(started.to)].bytes_in += bytes;
    }
    Flow& flow = flows_[{started.node, started.to}];
    flow.sends.push_back(index);
    if (flow.sends.size() == 1) flow.left = bytes;
  }

  void take_next(int node) {
    std::set<int>& ready = ready_[at(node)];
    if (computing_[at(node)].task >= 0 || ready.empty()) return;
    const int first = *ready.begin();
    ready.erase(ready.begin());
    const double seconds = cluster_.compute(task(first));
    computing_[at(node)] = {.task = first, .left = seconds};
    if (!is_second(first)) result_.nodes[at(node)].compute += seconds;
  }

  /// Computes max-min fair rates: repeatedly, the card with the least capacity per flow fixes the rates of its flows.
  void share_links() {
    std::vector<Flow*> open;
    std::vector<std::pair<int, int>> ends;
    for (auto& [pair, flow] : flows_) {
      if (flow.sends.empty()) continue;
      open.push_back(&flow);
      ends.push_back(pair);
    }
    const std::size_t nodes = cluster_.links.size();
    std::vector<double> room(2 * nodes);  // remaining capacity of each card, out and in
    std::vector<int> users(2 * nodes, 0);
    for (std::size_t n = 0; n < nodes; ++n) {
      room[n] = cluster_.links[n].out;
      room[nodes + n] = cluster_.links[n].in;
    }
    const auto out = [&](std::size_t flow) { return at(ends[flow].first); };
    const auto in = [&](std::size_t flow) { return nodes + at(ends[flow].second); };
    for (std::size_t f = 0; f < open.size(); ++f) {
      ++users[out(f)];
      ++users[in(f)];
    }
    std::vector<bool> settled(open.size(), false);
    for (std::size_t left = open.size(); left > 0;) {
      std::size_t tightest = 0;
      double least = kNever;
      for (std::size_t card = 0; card < room.size(); ++card) {
        if (users[card] > 0 && room[card] / users[card] < least) {
          least = room[card] / users[card];
          tightest = card;
        }
      }
      for (std::size_t f = 0; f < open.size(); ++f) {
        if (settled[f] || (out(f) != tightest && in(f) != tightest)) continue;
        settled[f] = true;
        --left;
        open[f]->rate = least;
        for (const std::size_t card : {out(f), in(f)}) {
          room[card] = std::max(0.0, room[card] - least);
          --users[card];
        }
      }
    }
  }

  /// Slows each node's processor by the bytes that it sends and receives.
  void share_processors() {
    constexpr double kLeast = 0.1;
    for (Computing& each : computing_) each.speed = 1.0;
    for (const auto& [pair, flow] : flows_) {
      if (flow.sends.empty()) continue;
      computing_[at(pair.first)].speed -= cluster_.byte_costs[at(pair.first)].out * flow.rate;
      computing_[at(pair.second)].speed -= cluster_.byte_costs[at(pair.second)].in * flow.rate;
    }
    for (Computing& each : computing_) each.speed = std::max(kLeast, each.speed);
  }

  double next_event() const {
    double next = arrivals_.empty() ? kNever : arrivals_.top().first;
    for (const Computing& each : computing_) {
      if (each.task >= 0) next = std::min(next, now_ + each.left / each.speed);
    }
    for (const auto& [pair, flow] : flows_) {
      if (!flow.sends.empty()) next = std::min(next, now_ + flow.left / flow.rate);
    }
    invariant(next < kNever, "the tasks do not wait for each other in a cycle");
    return next;
  }

  void advance_to(double time) {
    for (auto& [pair, flow] : flows_) {
      if (!flow.sends.empty()) flow.left -= flow.rate * (time - now_);
    }
    for (Computing& each : computing_) {
      if (each.task >= 0) each.left -= each.speed * (time - now_);
    }
    now_ = time;
  }

  /// Whether what is left takes so little time that it is rounding.
  bool is_over(double left, double speed) const {
    constexpr double kRounding = 1e-12;
    return left <= kRounding * (1.0 + now_) * speed;
  }

  void finish_what_ended() {
    std::vector<int> ended;
    for (std::size_t node = 0; node < computing_.size(); ++node) {
      if (computing_[node].task < 0 || !is_over(computing_[node].left, computing_[node].speed)) continue;
      ended.push_back(computing_[node].task);
      computing_[node].task = -1;
    }
    for (auto& [pair, flow] : flows_) {
      constexpr double kByte = 0.5;  // rounding may leave a fraction of a byte
      if (flow.sends.empty() || (flow.left > kByte && !is_over(flow.left, flow.rate))) continue;
      arrivals_.emplace(now_ + cluster_.latency, flow.sends.front());
      flow.sends.pop_front();
      if (!flow.sends.empty()) flow.left = bytes_of(task(flow.sends.front()), plan_, trunk_);
    }
    while (!arrivals_.empty() && arrivals_.top().first <= now_) {
      ended.push_back(arrivals_.top().second);
      arrivals_.pop();
    }
    for (const int index : ended) finish(index);
    for (int node = 0; node < graph_.nodes; ++node) take_next(node);
  }

  using Arrival = std::pair<double, int>;

  const TaskGraph& graph_;
  const Plan& plan_;
  const std::vector<Stage>& trunk_;
  const ClusterModel& cluster_;
  double now_ = 0.0;
  std::size_t first_done_ = 0;        ///< tasks of the first step that are done
  std::size_t second_done_ = 0;       ///< and of the second
  std::size_t heads_left_ = 0;        ///< heads of the first step that are not done
  std::vector<std::size_t> missing_;  ///< number of unfinished tasks that each task waits for, by index
  std::vector<std::size_t> left_;     ///< by node, tasks of the first step that it still computes, sends or receives
  std::vector<std::vector<int>> followers_;  ///< the tasks that wait for each task of the graph
  std::vector<Computing> computing_;         ///< by node
  std::vector<std::set<int>> ready_;
  std::map<std::pair<int, int>, Flow> flows_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
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

Simulated simulate(const TaskGraph& graph, const Plan& plan, const std::vector<Stage>& trunk,
                   const ClusterModel& cluster) {
  const auto nodes = static_cast<std::size_t>(graph.nodes);
  invariant(cluster.links.size() == nodes && cluster.byte_costs.size() == nodes, "each node has a link and byte costs");
  return Simulation(graph, plan, trunk, cluster).run();
}

}  // namespace convoy
