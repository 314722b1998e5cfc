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

class Simulation {
 public:
  Simulation(const TaskGraph& graph, const Plan& plan, const std::vector<Stage>& trunk, const ClusterModel& cluster)
      : graph_(graph),
        plan_(plan),
        trunk_(trunk),
        cluster_(cluster),
        missing_(graph.tasks.size()),
        followers_(followers_of(graph)),
        computing_(static_cast<std::size_t>(graph.nodes)),
        ready_(static_cast<std::size_t>(graph.nodes)) {
    result_.nodes.resize(static_cast<std::size_t>(graph.nodes));
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) missing_[i] = graph.tasks[i].after.size();
  }

  Simulated run() {
    for (std::size_t i = 0; i < missing_.size(); ++i) {
      if (missing_[i] == 0) start(static_cast<int>(i));
    }
    std::size_t done = 0;
    while (done < graph_.tasks.size()) {
      share_links();
      share_processors();
      advance_to(next_event());
      done += finish_what_ended();
    }
    result_.seconds = now_;
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
  const Task& task(int index) const { return graph_.tasks[at(index)]; }

  void start(int index) {
    const Task& started = task(index);
    if (started.kind != TaskKind::send) {
      ready_[at(started.node)].insert(index);
      return take_next(started.node);
    }
    const double bytes = bytes_of(started, plan_, trunk_);
    result_.nodes[at(started.node)].bytes_out += bytes;
    result_.nodes[at(started.to)].bytes_in += bytes;
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
    result_.nodes[at(node)].compute += seconds;
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

  std::size_t finish_what_ended() {
    std::vector<int> ended;
    for (std::size_t node = 0; node < computing_.size(); ++node) {
      constexpr double kRounding = 1e-12;
      if (computing_[node].task < 0 || computing_[node].left > kRounding) continue;
      ended.push_back(computing_[node].task);
      computing_[node].task = -1;
    }
    for (auto& [pair, flow] : flows_) {
      // Rounding may leave a fraction of a byte.
      if (flow.sends.empty() || flow.left > 0.5) continue;
      arrivals_.emplace(now_ + cluster_.latency, flow.sends.front());
      flow.sends.pop_front();
      if (!flow.sends.empty()) flow.left = bytes_of(task(flow.sends.front()), plan_, trunk_);
    }
    while (!arrivals_.empty() && arrivals_.top().first <= now_) {
      ended.push_back(arrivals_.top().second);
      arrivals_.pop();
    }
    for (const int index : ended) {
      for (const int follower : followers_[at(index)]) {
        if (--missing_[at(follower)] == 0) start(follower);
      }
    }
    for (int node = 0; node < graph_.nodes; ++node) take_next(node);
    return ended.size();
  }

  using Arrival = std::pair<double, int>;

  const TaskGraph& graph_;
  const Plan& plan_;
  const std::vector<Stage>& trunk_;
  const ClusterModel& cluster_;
  double now_ = 0.0;
  std::vector<std::size_t> missing_;         ///< number of unfinished tasks that each task waits for
  std::vector<std::vector<int>> followers_;  ///< the tasks that wait for each task
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
