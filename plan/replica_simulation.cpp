#include "plan/replica_simulation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>

#include "core/error.hpp"
#include "core/random.hpp"
#include "plan/links.hpp"

namespace convoy::estimate {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

std::size_t slot(int index) { return static_cast<std::size_t>(index); }

/// One iteration of a synchronous scheme, or one gradient of the asynchronous scheme, is a unit of progress.
class ReplicaSimulation {
 public:
  ReplicaSimulation(const Workers& workers, const ReplicaRun& run)
      : workers_(workers),
        run_(run),
        count_(static_cast<int>(workers.gradient.size())),
        links_(cards(workers, run)),
        order_(slot(count_)),
        rank_(slot(count_) + 1, 0),
        server_on_(slot(count_) + 1, -1),
        states_(slot(count_)),
        sends_(slot(count_) + 1, false),
        receives_(slot(count_) + 1, false) {
    const bool central = run.server == Server::central;
    const std::vector<double> parts = central ? std::vector<double>{1.0} : spread(workers.tensors, slot(count_));
    for (std::size_t s = 0; s < parts.size(); ++s) {
      // A server without tensors takes part in nothing.
      if (parts[s] == 0.0) continue;
      const int node = central ? count_ : static_cast<int>(s);
      server_on_[slot(node)] = static_cast<int>(servers_.size());
      servers_.push_back({.node = node, .part = parts[s], .sent = std::vector<int>(slot(count_), 0), .waiting = {}});
    }
    for (State& state : states_) state.missing = servers_.size();
    std::iota(order_.begin(), order_.end(), 0);
    Random(run.seed, 0).shuffle(order_);
    for (int k = 0; k < count_; ++k) {
      rank_[slot(order_[slot(k)])] = k;
      random_.emplace_back(run.seed, 1 + slot(k));
    }
  }

  ReplicaTimes run() {
    const int all = units();
    const int simulated = std::min(all, most_units());
    start();
    while (static_cast<int>(ends_.size()) < simulated) advance();
    ReplicaTimes times{.seconds = ends_[slot(simulated - 1)]};
    if (simulated < all) {
      const int half = simulated / 2;
      const double each = (times.seconds - ends_[slot(half - 1)]) / (simulated - half);
      times.seconds += each * (all - simulated);
    }
    if (run_.scheme == Scheme::async) times.staleness = staleness_ / simulated;
    return times;
  }

 private:
  enum class Kind { weights_arrive, computed, gradient_arrives, applied };
  struct Event {
    Kind kind;
    int worker;
    int server = -1;  ///< index into servers_
  };
  struct Timer {
    double time;
    std::uint64_t number;  ///< timers of the same moment go off in the order of their numbers
    Event event;
    bool operator>(const Timer& other) const { return time != other.time ? time > other.time : number > other.number; }
  };
  struct Transfer {
    int from;
    int to;
    double bytes;
    Event then;
  };
  struct ServerState {
    int node;
    double part;               ///< of all weights
    int iteration = 0;         ///< whose gradients the server waits for, in a synchronous scheme
    double free = 0.0;         ///< when it has applied all gradients that have arrived
    std::vector<int> sent;     ///< by worker, the iteration whose weights it was sent last
    std::vector<int> waiting;  ///< workers whose gradients of this iteration are applied
  };
  struct State {
    std::size_t missing = 0;  ///< parts of the weights that have not arrived
    std::size_t applied = 0;  ///< parts of the last gradient that servers have applied
    bool another = false;     ///< whether it has a next batch, in the asynchronous scheme
    int fetched = 0;          ///< updates before the weights that it was sent last
    int computes_on = 0;      ///< updates before the weights that it computes on
  };

  static bool contains(const std::vector<int>& workers, int worker) {
    return std::ranges::find(workers, worker) != workers.end();
  }
  static std::vector<NodeLink> cards(const Workers& workers, const ReplicaRun& run) {
    std::vector<NodeLink> cards = workers.links;
    // The last node is idle where the workers hold the weights.
    cards.push_back(run.server == Server::central ? workers.server : workers.links.front());
    return cards;
  }

  bool synchronous() const { return run_.scheme != Scheme::async; }
  /// Returns the number of batches in an iteration of join.
  int in_iteration() const { return (count_ - run_.backup) * run_.local_steps; }
  int units() const {
    if (run_.scheme == Scheme::join) return (run_.batches + in_iteration() - 1) / in_iteration();
    return run_.batches;
  }
  /// Bounds the time that a simulation takes. Of asynchronous gradients, half are as many of each worker, because what happens
  /// repeats from round to round.
  int most_units() const {
    constexpr double kTransfers = 20000.0;
    constexpr int kLeast = 8;
    const double in_an_iteration = 2.0 * static_cast<double>(servers_.size()) * count_;
    const int half = std::max(kLeast, static_cast<int>(0.5 * kTransfers / in_an_iteration));
    return 2 * half * (synchronous() ? 1 : count_);
  }
  /// Returns how many gradients end an iteration.
  int needed(int iteration) const {
    if (run_.scheme != Scheme::join) return count_;
    const int left = run_.batches - iteration * in_iteration();
    return std::min(count_ - run_.backup, (left + run_.local_steps - 1) / run_.local_steps);
  }

  void start() {
    given_ = std::min(count_, run_.batches);
    for (std::size_t s = 0; s < servers_.size(); ++s) send_weights_to_all(static_cast<int>(s));
  }

  /// Each node begins with the worker behind it in the order, so that no two nodes send to the same one.
  int kth_after(int node, int k) const { return order_[slot((rank_[slot(node)] + k) % count_)]; }
  /// Sends weights to all workers, or in an iteration with fewer batches than workers to the first ones.
  void send_weights_to_all(int server) {
    const int iteration = servers_[slot(server)].iteration;
    const int workers = run_.backup > 0 ? count_ : needed(iteration);
    for (int k = 1; k <= count_; ++k) {
      const int worker = kth_after(servers_[slot(server)].node, k);
      const bool computes = iteration > 0 && !contains(servers_[slot(server)].waiting, worker);
      if (worker < workers && !computes) send_weights(server, worker);
    }
    servers_[slot(server)].waiting.clear();
  }
  void send_weights(int server, int worker) {
    ServerState& state = servers_[slot(server)];
    state.sent[slot(worker)] = state.iteration;
    transfer({state.node, worker, state.part * workers_.bytes, {Kind::weights_arrive, worker, server}});
  }
  void send_gradient(int worker) {
    for (int k = 1; k <= count_; ++k) {
      const int node = run_.server == Server::central ? count_ : kth_after(worker, k);
      const int server = server_on_[slot(node)];
      if (server < 0) continue;
      const double bytes = servers_[slot(server)].part * workers_.bytes;
      transfer({worker, node, bytes, {Kind::gradient_arrives, worker, server}});
      if (run_.server == Server::central) return;
    }
  }

  void transfer(const Transfer& each) {
    if (each.from == each.to) {
      note_fetch(each.then);
      return after(0.0, each.then);
    }
    transfers_.push_back(each);
    waiting_.push_back(static_cast<int>(transfers_.size()) - 1);
  }
  /// Starts the transfers that need not wait for others.
  void start_transfers() {
    std::erase_if(waiting_, [this](int index) {
      const Transfer& each = transfers_[slot(index)];
      if (run_.semaphore) {
        if (sends_[slot(each.from)] || receives_[slot(each.to)]) return false;
        sends_[slot(each.from)] = receives_[slot(each.to)] = true;
      }
      note_fetch(each.then);
      links_.send(each.from, each.to, Lane::prompt, each.bytes, index);
      return true;
    });
  }
  void note_fetch(const Event& event) {
    if (event.kind == Kind::weights_arrive) states_[slot(event.worker)].fetched = updates_;
  }
  void after(double seconds, const Event& event) { timers_.push({now_ + seconds, ++numbers_, event}); }

  void advance() {
    start_transfers();
    links_.share(now_);
    const double next = std::min(links_.next(), timers_.empty() ? kForever : timers_.top().time);
    invariant(next < kForever, "a worker or a server has something to do");
    now_ = next;
    ended_.clear();
    links_.take_ended(now_, ended_);
    for (const int index : ended_) {
      const Transfer& each = transfers_[slot(index)];
      sends_[slot(each.from)] = receives_[slot(each.to)] = false;
      after(workers_.latency, each.then);
    }
    while (!timers_.empty() && has_come(timers_.top().time, now_)) {
      const Event event = timers_.top().event;
      timers_.pop();
      handle(event);
    }
  }

  void handle(const Event& event) {
    State& state = states_[slot(event.worker)];
    switch (event.kind) {
      case Kind::weights_arrive:
        if (--state.missing > 0) return;
        state.missing = servers_.size();
        state.computes_on = state.fetched;
        return after(gradient_seconds(event.worker), {Kind::computed, event.worker});
      case Kind::computed:
        state.another = given_ < run_.batches;
        if (state.another) ++given_;
        return send_gradient(event.worker);
      case Kind::gradient_arrives: {
        ServerState& server = servers_[slot(event.server)];
        if (is_late(server, event.worker)) return send_weights(event.server, event.worker);
        server.free = std::max(server.free, now_) + workers_.apply * server.part;
        return after(server.free - now_, {Kind::applied, event.worker, event.server});
      }
      case Kind::applied: return synchronous() ? end_gradient_of_iteration(event) : end_gradient(event);
    }
  }

  /// Returns the seconds of the work between two transfers.
  double gradient_seconds(int worker) {
    const double share = run_.scheme == Scheme::split ? 1.0 / count_ : 1.0;
    const double mean = share * workers_.gradient[slot(worker)];
    const int steps = run_.scheme == Scheme::join ? run_.local_steps : 1;
    if (run_.jitter == 0.0) return steps * mean;
    const double deviation = std::sqrt(std::log1p(run_.jitter * run_.jitter));
    double seconds = 0.0;
    for (int step = 0; step < steps; ++step) {
      seconds += mean * std::exp(deviation * random_[slot(worker)].normal() - 0.5 * deviation * deviation);
    }
    return seconds;
  }

  /// Whether a gradient is of an iteration that has ended without it.
  bool is_late(const ServerState& server, int worker) const {
    return synchronous() && server.sent[slot(worker)] < server.iteration;
  }

  void end_gradient_of_iteration(const Event& event) {
    ServerState& server = servers_[slot(event.server)];
    if (is_late(server, event.worker)) return send_weights(event.server, event.worker);
    server.waiting.push_back(event.worker);
    if (static_cast<int>(server.waiting.size()) < needed(server.iteration)) return;
    ++server.iteration;
    const auto slowest = std::ranges::min(servers_, {}, &ServerState::iteration).iteration;
    if (slowest > static_cast<int>(ends_.size())) ends_.push_back(now_);
    if (server.iteration < units()) send_weights_to_all(event.server);
  }

  void end_gradient(const Event& event) {
    State& state = states_[slot(event.worker)];
    if (++state.applied == servers_.size()) {
      state.applied = 0;
      staleness_ += updates_ - state.computes_on;
      ++updates_;
      ends_.push_back(now_);
    }
    if (state.another) send_weights(event.server, event.worker);
  }

  const Workers& workers_;
  const ReplicaRun& run_;
  int count_;  ///< workers
  Links links_;
  std::vector<int> order_;      ///< of the workers, in which they are served
  std::vector<int> rank_;       ///< by node, the place of a worker in the order
  std::vector<int> server_on_;  ///< by node, an index into servers_; -1: the node is no server
  std::vector<ServerState> servers_;
  std::vector<State> states_;   ///< by worker
  std::vector<Random> random_;  ///< by worker, so that all schemes see the same jitter
  double now_ = 0.0;
  int given_ = 0;             ///< batches that workers have been given, in the asynchronous scheme
  int updates_ = 0;           ///< gradients that all servers have applied, in the asynchronous scheme
  double staleness_ = 0.0;    ///< the sum over these gradients
  std::vector<double> ends_;  ///< when each unit ended
  std::vector<Transfer> transfers_;
  std::vector<int> waiting_;    ///< transfers that have not started, by index
  std::vector<bool> sends_;     ///< by node, with the semaphore
  std::vector<bool> receives_;  ///< by node, with the semaphore
  std::vector<int> ended_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::uint64_t numbers_ = 0;
};

}  // namespace

Setting setting_of(const Workers& workers, const ReplicaRun& run) {
  const auto count = static_cast<int>(workers.gradient.size());
  Setting setting{.scheme = run.scheme,
                  .server = run.server,
                  .workers = count,
                  .batches = run.batches,
                  .local_steps = run.scheme == Scheme::join ? run.local_steps : 1};
  double least = kForever;
  for (const NodeLink& link : workers.links) least = std::min({least, link.out, link.in});
  if (run.server == Server::central) least = std::min({least, workers.server.out, workers.server.in});
  setting.transfer = workers.bytes / least;
  setting.gradient = std::ranges::max(workers.gradient);
  if (run.scheme == Scheme::async) {
    double batches_a_second = 0.0;
    for (const double seconds : workers.gradient) batches_a_second += 1.0 / seconds;
    setting.gradient = count / batches_a_second;
  }
  return setting;
}

double seconds_alone(const Workers& workers, int batches) { return batches * std::ranges::min(workers.gradient); }

std::vector<double> spread(const std::vector<double>& tensors, std::size_t servers) {
  if (tensors.empty()) return std::vector<double>(servers, 1.0 / static_cast<double>(servers));
  std::vector<double> parts(servers, 0.0);
  for (const double tensor : tensors) *std::ranges::min_element(parts) += tensor;
  const double all = std::accumulate(parts.begin(), parts.end(), 0.0);
  for (double& part : parts) part /= all;
  return parts;
}

ReplicaTimes simulate(const Workers& workers, const ReplicaRun& run) {
  invariant(!workers.gradient.empty() && workers.links.size() == workers.gradient.size(), "each worker has a link");
  const auto count = static_cast<int>(workers.gradient.size());
  invariant(run.batches >= count && run.backup < count, "workers have batches, and some are no backups");
  return ReplicaSimulation(workers, run).run();
}

}  // namespace convoy::estimate
