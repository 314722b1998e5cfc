#include "plan/replica_simulation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>

#include "core/error.hpp"
#include "core/random.hpp"
#include "plan/links.hpp"
#include "plan/replica_events.hpp"

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
        links_(cards_of(workers, run)),
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
    if (workers.director) in_stages_ = std::reduce(workers.director->stages.begin(), workers.director->stages.end());
    std::iota(order_.begin(), order_.end(), 0);
    Random(run.seed, 0).shuffle(order_);
    for (int k = 0; k < count_; ++k) {
      rank_[slot(order_[slot(k)])] = k;
      random_.emplace_back(run.seed, 1 + slot(k));
    }
  }

  ReplicaTimes run() {
    const int all = units();
    const int simulated = std::min(all, most_units(workers_, run_, servers_.size()));
    start();
    while (static_cast<int>(ends_.size()) < simulated) advance();
    const int skipped = run_.scheme == Scheme::join ? run_.skipped / batches_of_iteration(run_, count_) : run_.skipped;
    ReplicaTimes times{.seconds = end_of_unit(ends_, all) - end_of_unit(ends_, skipped)};
    if (run_.scheme == Scheme::async) times.staleness = staleness_ / simulated;
    return times;
  }

 private:
  using Kind = Event::Kind;

  bool synchronous() const { return run_.scheme != Scheme::async; }
  int units() const { return units_of(run_, count_); }
  /// Returns how many gradients end an iteration.
  int needed(int iteration) const { return gradients_of(run_, count_, iteration); }

  void start() {
    given_ = std::min(count_, run_.batches);
    for (std::size_t s = 0; s < servers_.size(); ++s) send_weights_to_all(static_cast<int>(s));
  }

  /// Each node begins with the worker behind it in the order, so that no two nodes send to the same one.
  int kth_after(int node, int k) const { return order_[slot((rank_[slot(node)] + k) % count_)]; }
  /// Sends weights to all workers, or in an iteration with fewer batches than workers to the first ones.
  void send_weights_to_all(int server) {
    const int iteration = servers_[slot(server)].iteration;
    std::vector<int>& waiting = servers_[slot(server)].waiting;
    const int workers = run_.backup > 0 ? count_ : needed(iteration);
    for (int k = 1; k <= count_; ++k) {
      const int worker = kth_after(servers_[slot(server)].node, k);
      const bool computes = iteration > 0 && std::ranges::find(waiting, worker) == waiting.end();
      if (worker < workers && !computes) send_weights(server, worker);
    }
    waiting.clear();
  }
  void send_weights(int server, int worker) {
    ServerState& state = servers_[slot(server)];
    state.sent[slot(worker)] = state.iteration;
    const Event arrival{Kind::weights_arrive, worker, server};
    if (!in_parts()) return transfer({state.node, worker, state.part * workers_.bytes, arrival});
    take_turn(weights_turns_, 0.0, {Kind::offered, worker, server});
  }
  void offer_weights(const Event& offer) {
    states_[slot(offer.worker)].part = 0;
    note_fetch({Kind::weights_arrive, offer.worker, offer.server});
    const double ready = work(thread_free_, workers_.director->give);
    after(ready + 2.0 * workers_.latency,
          {Kind::part_wanted, offer.worker, offer.server});  // the offer, and the answer
  }
  /// Sends the next part of the weights, as soon as the director's thread is free.
  void send_part(const Event& wanted) {
    if (!has_come(thread_free_, now_)) return after(thread_free_ - now_, wanted);
    const std::vector<double>& stages = workers_.director->stages;
    const double bytes = workers_.bytes * stages[states_[slot(wanted.worker)].part] / in_stages_;
    send_behind({count_, wanted.worker, bytes, {Kind::weights_arrive, wanted.worker, wanted.server}});
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

  /// Begins a transfer of the director behind what waits in the queue of its card.
  void send_behind(const Transfer& each) {
    const double queue = links_.out(count_) > 0.0 ? workers_.director->queue / workers_.server.out : 0.0;
    if (queue == 0.0) return transfer(each);
    queued_.push_back(each);
    after(queue, {Kind::out_of_queue, each.to});
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
      if (run_.semaphore && !has_turns()) {
        if (sends_[slot(each.from)] || receives_[slot(each.to)]) return false;
        sends_[slot(each.from)] = receives_[slot(each.to)] = true;
      }
      note_fetch(each.then);
      links_.send(each.from, each.to, Lane::prompt, each.bytes, index);
      return true;
    });
  }
  void note_fetch(const Event& event) {
    State& state = states_[slot(event.worker)];
    if (event.kind == Kind::weights_arrive && state.part == 0) state.fetched = updates_;
  }
  bool has_turns() const { return workers_.director && run_.server == Server::central; }
  /// Lets an event come after `seconds`, with the semaphore only when it is its turn.
  void take_turn(Turns& turns, double seconds, const Event& event) {
    if (!run_.semaphore || !has_turns()) return after(seconds, event);
    if (turns.taken) return turns.waiting.push_back(event);
    turns.taken = true;
    after(seconds, event);
  }
  void end_turn(Turns& turns, double seconds) {
    turns.taken = !turns.waiting.empty();
    if (!turns.taken) return;
    after(seconds, turns.waiting.front());
    turns.waiting.pop_front();
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
    links_.share(now_);
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
      case Kind::offered: return offer_weights(event);
      case Kind::part_wanted: return send_part(event);
      case Kind::out_of_queue: transfer(queued_.front()); return queued_.pop_front();
      case Kind::weights_arrive: return take_weights(event);
      case Kind::begins: end_turn(weights_turns_, 0.0); return send_images(event.worker);
      case Kind::images_arrive: return take_images(event.worker);
      case Kind::forwarded:
        return transfer({event.worker, count_, share() * workers_.director->maps, {Kind::maps_arrive, event.worker}});
      case Kind::maps_arrive:
        after(work(thread_free_, share() * workers_.director->head), {Kind::head_computed, event.worker});
        work(thread_free_, share() * workers_.director->head_weights);
        return;
      case Kind::head_computed:
        return transfer(
            {count_, event.worker, share() * workers_.director->maps, {Kind::map_gradients_arrive, event.worker}});
      case Kind::map_gradients_arrive: return end_gradient_pass(event.worker);
      case Kind::part_known: ++state.parts_known; return send_part_of_gradient(event.worker);
      case Kind::part_arrives: return take_part_of_gradient(event);
      case Kind::computed:
        state.another = given_ < run_.batches;
        if (state.another) ++given_;
        if (!workers_.director) return send_gradient(event.worker);
        if (leaves_in_parts()) return;
        return after(workers_.latency, {Kind::gradient_known, event.worker});
      case Kind::gradient_known:
        return take_turn(gradient_turns_, workers_.latency, {Kind::gradient_wanted, event.worker});
      case Kind::gradient_wanted: return send_gradient(event.worker);
      case Kind::gradient_arrives: return take_gradient(event);
      case Kind::applied: return synchronous() ? end_gradient_of_iteration(event) : end_gradient(event);
      case Kind::updated: return end_iteration(event.server);
    }
  }

  bool in_parts() const {
    return run_.server == Server::central && workers_.director && !workers_.director->stages.empty();
  }
  /// Returns the part of a batch, or the number of batches, that a worker computes between two exchanges.
  double share() const {
    if (run_.scheme == Scheme::split) return 1.0 / count_;
    return run_.scheme == Scheme::join ? run_.local_steps : 1.0;
  }
  double& free_of(ServerState& server) { return server.node == count_ ? thread_free_ : server.free; }
  /// Has a thread do work when it is free next, and returns the seconds until it has done it.
  double work(double& free, double seconds) const {
    free = std::max(free, now_) + seconds;
    return free - now_;
  }

  void take_weights(const Event& event) {
    State& state = states_[slot(event.worker)];
    if (in_parts() && ++state.part < workers_.director->stages.size()) {
      const double handled = workers_.director->between * workers_.director->stages[state.part - 1] / in_stages_;
      return after(handled + workers_.latency, {Kind::part_wanted, event.worker, event.server});
    }
    state.part = 0;
    if (--state.missing > 0) return;
    state.missing = servers_.size();
    state.computes_on = state.fetched;
    state.seconds = gradient_seconds(event.worker);
    if (!workers_.director) return after(state.seconds, {Kind::computed, event.worker});
    after(workers_.latency, {Kind::begins, event.worker});
  }
  void send_images(int worker) {
    const int parts = micro_batches_of(*workers_.director, run_);
    for (int part = 0; part < parts; ++part) {
      send_behind({count_, worker, share() * workers_.director->images / parts, {Kind::images_arrive, worker}});
    }
  }
  void take_images(int worker) {
    State& state = states_[slot(worker)];
    const int parts = micro_batches_of(*workers_.director, run_);
    work(state.free, workers_.director->forward * state.seconds / parts);
    if (++state.images < parts) return;
    state.images = 0;
    after(state.free - now_, {Kind::forwarded, worker});
  }

  // ---- gradients that leave in parts ----

  bool leaves_in_parts() const { return in_parts() && !run_.semaphore && !workers_.director->known.empty(); }
  /// The worker has the gradients of its maps, and computes those of its weights.
  void end_gradient_pass(int worker) {
    const double seconds = states_[slot(worker)].seconds;
    const double left = (1.0 - workers_.director->forward) * seconds;
    after(left, {Kind::computed, worker});
    if (!leaves_in_parts()) return;
    for (const double before : workers_.director->known) {
      after(std::max(0.0, left - before * seconds), {Kind::part_known, worker});
    }
  }
  /// Sends the next part that is known, the last stage first, unless another part of the worker travels.
  void send_part_of_gradient(int worker) {
    State& state = states_[slot(worker)];
    if (state.sends_part || state.parts_sent == state.parts_known) return;
    const std::vector<double>& stages = workers_.director->stages;
    const double part = stages[stages.size() - 1 - state.parts_sent++] / in_stages_;
    state.sends_part = true;
    transfer({worker, count_, part * workers_.bytes, {Kind::part_arrives, worker, 0}});
  }
  void take_part_of_gradient(const Event& event) {
    State& state = states_[slot(event.worker)];
    state.sends_part = false;
    if (state.parts_sent < workers_.director->stages.size()) return send_part_of_gradient(event.worker);
    state.parts_sent = state.parts_known = 0;
    take_gradient(event);
  }

  void take_gradient(const Event& event) {
    end_turn(gradient_turns_, workers_.latency);
    ServerState& server = servers_[slot(event.server)];
    if (is_late(server, event.worker)) return catch_up(event);
    const auto& director = workers_.director;
    double seconds = workers_.apply;
    if (director) seconds = director->take + (synchronous() ? 0.0 : director->update);
    after(work(free_of(server), server.part * seconds), {Kind::applied, event.worker, event.server});
  }

  /// Returns the seconds of the work between two transfers.
  double gradient_seconds(int worker) {
    const double share = run_.scheme == Scheme::split ? 1.0 / count_ : 1.0;
    const double mean = share * workers_.gradient[slot(worker)];
    const int steps = run_.scheme == Scheme::join ? run_.local_steps : 1;
    return seconds_with_jitter(mean, steps, run_.jitter, random_[slot(worker)]);
  }

  /// Whether a gradient is of an iteration that has ended without it.
  bool is_late(const ServerState& server, int worker) const {
    return synchronous() && server.sent[slot(worker)] < server.iteration;
  }

  /// Sends the newest weights to a worker whose gradient was dropped, once they are there.
  void catch_up(const Event& late) {
    ServerState& server = servers_[slot(late.server)];
    if (server.ended == server.iteration) return send_weights(late.server, late.worker);
    server.waiting.push_back(late.worker);
  }

  void end_gradient_of_iteration(const Event& event) {
    ServerState& server = servers_[slot(event.server)];
    if (is_late(server, event.worker)) return catch_up(event);
    server.waiting.push_back(event.worker);
    if (static_cast<int>(server.waiting.size()) < needed(server.iteration)) return;
    ++server.iteration;
    if (!workers_.director) return end_iteration(event.server);
    const double sum = workers_.director->add * static_cast<double>(server.waiting.size());
    after(work(free_of(server), server.part * (sum + workers_.director->update)), {Kind::updated, 0, event.server});
  }
  void end_iteration(int server) {
    const int ended = ++servers_[slot(server)].ended;
    const auto slowest = std::ranges::min(servers_, {}, &ServerState::ended).ended;
    if (slowest > static_cast<int>(ends_.size())) ends_.push_back(now_);
    if (ended < units()) send_weights_to_all(server);
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
  double in_stages_ = 0.0;      ///< the sum of the director's stages
  double now_ = 0.0;
  double thread_free_ = 0.0;  ///< when the director's thread has done what it was given
  int given_ = 0;             ///< batches that workers have been given, in the asynchronous scheme
  int updates_ = 0;           ///< gradients that all servers have applied, in the asynchronous scheme
  double staleness_ = 0.0;    ///< the sum over these gradients
  std::vector<double> ends_;  ///< when each unit ended
  std::vector<Transfer> transfers_;
  std::vector<int> waiting_;     ///< transfers that have not started, by index
  std::vector<bool> sends_;      ///< by node, with the semaphore
  std::vector<bool> receives_;   ///< by node, with the semaphore
  std::deque<Transfer> queued_;  ///< in the director's card; all of them wait equally long
  Turns weights_turns_;
  Turns gradient_turns_;
  std::vector<int> ended_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::uint64_t numbers_ = 0;
};

}  // namespace

ReplicaTimes simulate(const Workers& workers, const ReplicaRun& run) {
  invariant(!workers.gradient.empty() && workers.links.size() == workers.gradient.size(), "each worker has a link");
  const auto count = static_cast<int>(workers.gradient.size());
  invariant(run.batches >= count && run.backup < count, "workers have batches, and some are no backups");
  return ReplicaSimulation(workers, run).run();
}

}  // namespace convoy::estimate
