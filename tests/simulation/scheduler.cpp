#include "tests/simulation/scheduler.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace convoy::simulation {
namespace {

/// What a look at the clock takes. Who only looks, again and again, waits for time to pass: it passes faster and
/// faster.
constexpr Time kLook = std::chrono::microseconds(1);
constexpr Time kLongestLook = std::chrono::milliseconds(10);
constexpr int kFewLooks = 8;
/// More than any run needs: a run that has more events waits for something that never comes.
constexpr std::uint64_t kMostEvents = 3'000'000;
constexpr Time kLongest = std::chrono::hours(12);

}  // namespace

// ---- an actor ------------------------------------------------------------------------------------------------------

Actor::TimePoint Actor::now() {
  time_ +=
      ++looks_ <= kFewLooks ? kLook : std::min(kLongestLook, kLook * (1 << std::min(2 * (looks_ - kFewLooks), 20)));
  return Scheduler::epoch() + time_ + ahead_;
}

Time Actor::on_schedule(TimePoint deadline) const {
  // Deadlines without end must not overflow.
  if (deadline - Scheduler::epoch() > kLongest) return kLongest * 2;
  return std::max(time_, deadline - Scheduler::epoch() - ahead_);
}

void Actor::resume_at(Time time, State state) {
  state_ = state;
  scheduler_.push(std::max(time, suspended_until_), this, ++turn_, nullptr);
}

void Actor::block() {
  looks_ = 0;
  scheduler_.hand_on(*fiber_);
  stop_if_killed();
}

void Actor::stop_if_killed() const {
  if (killed_) throw Killed();
}

void Actor::wait(TimePoint deadline) {
  stop_if_killed();
  deadline_ = deadline;
  resume_at(on_schedule(deadline), State::waiting);
  block();
}

void Actor::sleep_until(TimePoint time) {
  while (Scheduler::epoch() + time_ + ahead_ < time) wait(time);
}

void Actor::catch_up() {
  stop_if_killed();
  if (scheduler_.nothing_before(time_)) return;
  resume_at(time_, State::ready);
  block();
}

void Actor::work(Time time) {
  time_ += std::chrono::duration_cast<Time>(time * slowness);
  catch_up();
}

bool Actor::suspended() const { return suspended_until_ > scheduler_.now(); }

void Actor::wake() {
  if (state_ == State::waiting) resume_at(std::max(time_, scheduler_.now()), State::ready);
}

void Actor::kill() {
  if (state_ == State::ended) return;
  killed_ = true;
  if (state_ == State::running) return;  // it ends where it waits next
  suspended_until_ = {};
  resume_at(scheduler_.now(), State::ready);
}

void Actor::suspend(Time time) {
  if (state_ == State::ended) return;
  suspended_until_ = std::max(suspended_until_, scheduler_.now() + time);
  if (state_ == State::ready) resume_at(std::max(time_ + time, suspended_until_), State::ready);
}

void Actor::jump(Time time) {
  ahead_ += time;
  if (state_ == State::waiting) resume_at(std::max(scheduler_.now(), on_schedule(deadline_)), State::waiting);
}

// ---- the scheduler -------------------------------------------------------------------------------------------------

void Scheduler::push(Time time, Actor* actor, std::uint64_t turn, std::shared_ptr<std::function<void()>> action) {
  events_to_come_.push({std::max(time, now_), random_.next(), ++pushed_, actor, turn, std::move(action)});
}

void Scheduler::at(Time time, std::function<void()> action) {
  push(time, nullptr, 0, std::make_shared<std::function<void()>>(std::move(action)));
}

Actor& Scheduler::start(std::string name, std::function<void(Actor&)> body,
                        std::function<void(const std::string&)> failed) {
  actors_.push_back(std::make_unique<Actor>(*this, std::move(name)));
  Actor& actor = *actors_.back();
  actor.time_ = now_;
  actor.fiber_.emplace([this, &actor, body = std::move(body), failed = std::move(failed)] {
    try {
      if (!actor.killed_) body(actor);
    } catch (const Killed&) {
      // The member's program was ended from outside.
    } catch (const std::exception& error) {
      failed(error.what());
    }
    actor.state_ = Actor::State::ended;
    hand_on(*actor.fiber_);
  });
  actor.resume_at(now_, Actor::State::ready);
  return actor;
}

bool Scheduler::exhausted() {
  if (events_ >= kMostEvents) why_ = fmt::format("{} events happened and the run has not ended", events_);
  if (now_ >= kLongest) why_ = "the run has not ended after hours";
  if (events_to_come_.empty()) why_ = "everybody waits for ever";
  return !why_.empty();
}

bool Scheduler::nothing_before(Time time) {
  if (stopping_ || events_ >= kMostEvents || events_to_come_.empty() || events_to_come_.top().time <= time)
    return false;
  now_ = time;
  ++events_;
  return true;
}

/// The actor that goes on next; null where the run is over.
Actor* Scheduler::next() {
  running_ = nullptr;
  while (true) {
    if (!stopping_ && (over_() || exhausted())) return nullptr;
    if (events_to_come_.empty()) return nullptr;
    const Event event = events_to_come_.top();
    events_to_come_.pop();
    if (stopping_ && (event.actor == nullptr || !event.actor->killed_)) continue;
    if (event.actor == nullptr) {
      now_ = event.time;
      ++events_;
      (*event.action)();
    } else if (event.turn == event.actor->turn_ && event.actor->state_ != Actor::State::ended) {
      now_ = event.time;
      ++events_;
      event.actor->time_ = std::max(event.actor->time_, now_);
      event.actor->state_ = Actor::State::running;
      return event.actor;
    }
  }
}

void Scheduler::hand_on(Fiber& from) {
  running_ = next();
  Fiber& to = running_ != nullptr ? *running_->fiber_ : main_;
  if (&to == &from) return;
  Clock::use(running_);
  from.switch_to(to);
}

std::string Scheduler::run(const std::function<bool()>& over) {
  over_ = over;
  hand_on(main_);
  stopping_ = true;
  for (const auto& actor : actors_) {
    if (actor->ended()) continue;
    actor->kill();
    hand_on(main_);
  }
  return why_;
}

}  // namespace convoy::simulation
