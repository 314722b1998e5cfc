#include "master/commands/job_machines.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/text.hpp"
#include "master/cluster/gather.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using wire::Clock;

/// A slave that was released comes back within a second.
constexpr auto kComesBack = 5s;
constexpr double kLongestTiming = 120.0;  // seconds
constexpr int kMostAttempts = 2;
constexpr int kMostLossesInARow = 3;
constexpr auto kPause = 5min;
constexpr std::size_t kMostRefusalsTold = 64;
constexpr std::size_t kMostMachinesKnown = 1024;

/// Passes notices on.
class NoticeObserver : public Observer {
 public:
  explicit NoticeObserver(JobWatch& watch) : watch_(watch) {}
  void on_notice(const std::string& text) override { watch_.notice(text); }

 private:
  JobWatch& watch_;
};

}  // namespace

std::string JobMachine::label() const {
  std::set<std::string> names{name};
  for (const JobMachine* each : others) names.insert(each->name);
  return fmt::format("{}", fmt::join(names, "+"));
}

JobMachines::JobMachines(const ClusterOptions& cluster, int master_jobs, const NetOptions& net, Measure measure,
                         JobWatch& watch, std::function<void()> changed)
    : cluster_(cluster),
      net_(net),
      measure_(std::move(measure)),
      watch_(watch),
      changed_(std::move(changed)),
      settled_(cluster.slaves == 0) {
  for (int i = 1; i <= master_jobs; ++i) {
    machines_.push_back({.name = master_jobs == 1 ? kMasterName : fmt::format("{}-{}", kMasterName, i),
                         .slave = false,
                         .speed = settled_ ? 1.0 : 0.0});
  }
  if (!settled_) listen();
}

JobMachines::~JobMachines() {
  for (JobMachine& each : machines_) each.run.reset();
  stop();
}

void JobMachines::listen() {
  Observers observers;
  observers.push_back(std::make_unique<NoticeObserver>(watch_));
  keys_ = open_keys(cluster_, observers);
  board_.emplace(cluster_.listen, link_options_of(keys_),
                 [keys = keys_](const wire::ServerLink::From& from, const wire::Hello& hello) {
                   return objection_to(from, hello, false, keys.get()).value_or("");
                 });
  if (keys_) beacon_.emplace(board_->endpoint(), keys_->keys().master.public_key);
  const int slaves = cluster_.slaves;
  watch_.notice(fmt::format("waiting for {}; start each of them with:",
                            slaves == 1 ? "1 slave" : fmt::format("{} slaves", slaves)));
  watch_.notice(fmt::format("  {}", how_to_join()));
}

std::string JobMachines::how_to_join() const { return board_ ? convoy::how_to_join(cluster_, board_->endpoint()) : ""; }

void JobMachines::stop() {
  if (!timing_) return;
  timing_->stop = true;
  timing_->thread.join();
  timing_.reset();
}

bool JobMachines::usable(const JobMachine& machine) const {
  if (machine.speed <= 0.0 || Clock::now() < machine.closed) return false;
  return !machine.slave || machine.busy() || Clock::now() - machine.seen < kComesBack;
}

void JobMachines::lose(JobMachine& machine) const {
  machine.seen = {};
  if (++machine.losses < kMostLossesInARow) return;
  machine.losses = 0;
  machine.closed = Clock::now() + kPause;
  watch_.notice(fmt::format("{} was lost {} times in a row, and gets no job for {} minutes", machine.name,
                            kMostLossesInARow, std::chrono::minutes(kPause).count()));
}

std::unique_ptr<wire::Switchboard::Line> JobMachines::line_to(const JobMachine& machine) {
  if (!machine.slave) return nullptr;
  std::set<std::string> names{machine.name};
  for (const JobMachine* each : machine.others) names.insert(each->name);
  return board_->line(names);
}

void JobMachines::look() {
  if (!board_) return;
  greet();
  if (timing_ && timing_->over) take_times();
  if (timing_ && timing_->since.seconds() > kLongestTiming) timing_->stop = true;
  if (!timing_) begin_timing();
}

/// Takes note of the slaves that ask to join.
void JobMachines::greet() {
  for (const wire::Refusal& each : board_->take_refusals()) {
    const std::string text = fmt::format("turned away {}: {}", each.address, printable(each.why, kMostWords));
    if (told_.size() < kMostRefusalsTold && told_.insert(text).second) watch_.notice(text);
  }
  std::set<std::string> present;
  std::vector<std::string> newcomers;
  for (const wire::Switchboard::Caller& each : board_->waiting()) {
    present.insert(each.key);
    auto machine = std::ranges::find(machines_, each.name, &JobMachine::name);
    if (machine == machines_.end()) {
      if (machines_.size() >= kMostMachinesKnown) continue;
      machines_.push_back({.name = each.name});
      machine = std::prev(machines_.end());
      newcomers.push_back(fmt::format("{} ({})", each.name, each.device));
    }
    machine->seen = Clock::now();
  }
  if (!newcomers.empty()) watch_.notice(fmt::format("slaves: {}", fmt::join(newcomers, ", ")));
  if (!keys_) return;
  keys_->set_present(present);
  for (const std::string& text : keys_->take_notices()) watch_.notice(text);
}

void JobMachines::begin_timing() {
  std::vector<std::string> names;
  std::size_t there = 0;
  for (const JobMachine& each : machines_) {
    if (!each.slave || Clock::now() - each.seen >= kComesBack) continue;
    ++there;
    if (each.speed == 0.0) names.push_back(each.name);
  }
  if (names.empty() || (!settled_ && there < static_cast<std::size_t>(cluster_.slaves))) return;
  timing_ = std::make_unique<Timing>();
  timing_->line = board_->line({names.begin(), names.end()});
  timing_->names = std::move(names);
  timing_->thread = std::thread([this, timing = timing_.get()] { time(*timing); });
}

void JobMachines::time(Timing& timing) const {
  try {
    // There is nothing to time where slaves have no part in any net.
    if (measure_.cut.trunk.empty()) fail("the net has no convolutions");
    const TimedNet what{cluster_,        net_,         measure_.cut, measure_.net.training.batch,
                        measure_.groups, *timing.line, keys_};
    timing.times = time_machines(what, static_cast<int>(timing.names.size()), {}, timing.stop);
  } catch (const std::exception&) {
    timing.times = {};  // a slave was lost, or has no room for the net: see take_times()
  }
  timing.over = true;
  changed_();
}

/// The speed of the slowest machine that was timed.
double JobMachines::slowest() const {
  constexpr double kGuess = 1e9;
  double speed = 0.0;
  for (const JobMachine& each : machines_) {
    if (each.speed > 0.0 && (speed == 0.0 || each.speed < speed)) speed = each.speed;
  }
  return speed > 0.0 ? speed : kGuess;
}

void JobMachines::take_times() {
  timing_->thread.join();
  const std::unique_ptr<Timing> timing = std::move(timing_);
  timing->line.reset();
  const double operations = step_operations(measure_.cut, measure_.net.training.batch);
  std::vector<TimedMachine> told;
  const auto set_speed = [&](JobMachine& machine, double seconds) {
    machine.speed = operations / seconds;
    told.push_back({.name = machine.name, .gflops = machine.speed / 1e9});
  };
  for (const std::string& name : timing->names) {
    JobMachine& machine = *std::ranges::find(machines_, name, &JobMachine::name);
    const auto found = timing->times.slaves.find(name);
    if (found != timing->times.slaves.end() && std::isfinite(found->second) && found->second > 0.0) {
      machine.seen = Clock::now();
      set_speed(machine, found->second);
    } else if (++machine.attempts >= kMostAttempts) {
      machine.speed = slowest();  // it may train a smaller net all the same
      told.push_back({.name = name});
    }
  }
  if (told.empty()) return;  // they are timed again when they are back
  settled_ = true;
  for (JobMachine& each : machines_) {
    if (each.slave || each.speed > 0.0) continue;
    if (timing->times.alone > 0.0) {
      set_speed(each, timing->times.alone);
    } else {
      each.speed = slowest();
    }
  }
  watch_.timed(told);
  for (const auto& [count, slowdown] : timing->times.slowdowns) {
    slowdowns_[count] = slowdown;
    watch_.notice(fmt::format(
        "a step of {} slaves together is predicted to take {:.2f} times as long as if their speeds added up", count,
        slowdown));
  }
}

}  // namespace convoy
