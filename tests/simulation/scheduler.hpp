// Actors that take turns in one process, under a clock that nobody's computer drives. Each actor is a fiber, and hands
// the baton on only where it waits. Time passes only when all wait, up to the next event; events at the same time
// follow one another in an order drawn from the seed. So a seed names one course of events.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "core/random.hpp"
#include "tests/simulation/fiber.hpp"

namespace convoy::simulation {

using Time = Clock::duration;  ///< since the simulation began

/// Ends an actor that was killed. It is no std::exception, so that nothing handles it.
struct Killed {};

class Scheduler;

/// One member's program. Only it calls the functions of the first group, while it runs.
class Actor final : public TimeSource {
 public:
  /// Called by Scheduler::start() alone.
  Actor(Scheduler& scheduler, std::string name) : scheduler_(scheduler), name_(std::move(name)) {}
  /// The actor's own clock, which may have jumped. Looking at it takes a moment, so that every loop that waits for a
  /// time ends.
  TimePoint now() override;
  /// Waits until then, whatever wakes it.
  void sleep_until(TimePoint time) override;
  /// Waits for wake(), but not beyond the deadline.
  void wait(TimePoint deadline);
  /// Lets everything happen that happens before the actor's own time, which its work has moved on. Throws Killed where
  /// the actor is killed meanwhile.
  void catch_up();
  /// Lets its own time pass without handing on the baton.
  void take_moment(Time time) {
    looks_ = 0;
    time_ += std::chrono::duration_cast<Time>(time * slowness);
  }
  /// Lets the actor work for so long.
  void work(Time time);

  const std::string& name() const { return name_; }
  /// The time that the actor has reached, which its work may have moved ahead of that of the others.
  Time time() const { return time_; }
  bool killed() const { return killed_; }
  bool ended() const { return state_ == State::ended; }
  bool suspended() const;
  /// The factor by which its work takes longer.
  double slowness = 1.0;

  // Events call these.
  void wake();
  /// Has the actor throw Killed from where it waits. Sends do not wait, so that destructors may send.
  void kill();
  /// Lets it stand still for so long.
  void suspend(Time time);
  /// Sets its clock forward.
  void jump(Time time);

 private:
  friend class Scheduler;
  enum class State : std::uint8_t { running, waiting, ready, ended };

  Time on_schedule(TimePoint deadline) const;
  void resume_at(Time time, State state);
  void block();
  void stop_if_killed() const;

  Scheduler& scheduler_;
  std::string name_;
  State state_ = State::ready;
  Time time_{};
  Time ahead_{};  ///< by which its own clock has jumped
  Time suspended_until_{};
  TimePoint deadline_{};
  int looks_ = 0;           ///< at the clock, since it did anything else
  std::uint64_t turn_ = 0;  ///< counts the times at which it was to go on; older ones are void
  bool killed_ = false;
  std::optional<Fiber> fiber_;
};

class Scheduler {
 public:
  explicit Scheduler(std::uint64_t seed) : random_(seed, 1) {}
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Of the event at hand.
  Time now() const { return now_; }
  /// Lets something happen at that time, or now if it is over. No actor runs meanwhile.
  void at(Time time, std::function<void()> action);
  void after(Time time, std::function<void()> action) { at(now_ + time, std::move(action)); }
  /// Starts an actor. `failed` is told of an exception that leaves `body`.
  Actor& start(std::string name, std::function<void(Actor&)> body, std::function<void(const std::string&)> failed);
  /// Lets everything happen until `over` holds. Returns why it ended before, or an empty text. Then kills all actors.
  std::string run(const std::function<bool()>& over);
  /// The actor that runs; null in an event.
  Actor* running() const { return running_; }
  std::uint64_t events() const { return events_; }

  static Clock::time_point epoch() { return Clock::time_point(std::chrono::hours(1)); }

 private:
  friend class Actor;
  struct Event {
    Time time;
    std::uint32_t drawn;
    std::uint64_t number;
    Actor* actor;  ///< that goes on; null for an action
    std::uint64_t turn;
    std::shared_ptr<std::function<void()>> action;
    bool operator<(const Event& other) const {
      if (time != other.time) return time > other.time;
      return drawn != other.drawn ? drawn > other.drawn : number > other.number;
    }
  };

  void push(Time time, Actor* actor, std::uint64_t turn, std::shared_ptr<std::function<void()>> action);
  /// Lets events happen until an actor goes on, and hands it the baton; the caller is `from`.
  void hand_on(Fiber& from);
  Actor* next();
  bool exhausted();
  /// Whether nothing is to happen until then; it is then that time.
  bool nothing_before(Time time);

  Random random_;
  Time now_{};
  std::priority_queue<Event> events_to_come_;
  std::uint64_t events_ = 0;
  std::uint64_t pushed_ = 0;
  std::vector<std::unique_ptr<Actor>> actors_;
  Actor* running_ = nullptr;
  std::function<bool()> over_;
  std::string why_;
  bool stopping_ = false;
  Fiber main_;
};

}  // namespace convoy::simulation
