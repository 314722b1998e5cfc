#include "tests/simulation/world.hpp"

#include <malloc.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>

#include "devices/registry.hpp"
#include "slave/serve.hpp"
#include "tests/simulation/hostile.hpp"
#include "tests/simulation/master_program.hpp"

namespace convoy::simulation {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using wire::Channel;

constexpr const char* kMasterMachine = "10.0.0.1";
/// How long a fault may be the reason of a loss after it is over: what was late is noticed later.
constexpr Time kAftermath = 20s;
/// Within this time after the last fault, everybody must take part again.
constexpr Time kRecovery = 120s;
/// Within this time, a master that was told to must have stopped.
constexpr Time kStopping = 15min;
/// The same where only the limit of a step ends a wait: with shares that the user fixed it is long.
constexpr Time kLongWait = 5h;
/// A slave's losses after which the master may do without it for good.
constexpr int kMostLosses = 3;

/// All programs of a run together need a tenth of it.
constexpr std::size_t kMostMemory = std::size_t{16} << 20;
constexpr std::uint64_t kEventsPerLook = 500;  ///< at the memory

std::size_t allocated() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

/// A new folder in memory, where there is one, that goes with this object.
class Folder {
 public:
  Folder() {
    const fs::path memory = "/dev/shm";
    std::string name =
        ((fs::exists(memory) ? memory : fs::temp_directory_path()) / "convoy-simulation-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) fail("no folder can be made at {}", name);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A slave through all its lives.
struct Slave {
  const SlaveSetting* setting = nullptr;
  std::string machine;
  Program* program = nullptr;
  std::atomic<bool>* leaves = nullptr;  ///< of the program at hand
  Time excused{};                       ///< until then it may be lost
  int losses = 0;
};

class World {
 public:
  World(const Scenario& scenario, bool print)
      : scenario_(scenario),
        scheduler_(scenario.seed),
        log_(scheduler_, print),
        lan_(scheduler_, log_, scenario.seed, scenario.longest_delay),
        random_(scenario.seed, 5),
        run_(scenario_, folder_.path()) {
    run_.on_loss = [this](const std::string& name, const std::string& text) { judge_loss(name, text); };
  }

  Verdict play() {
    start_master();
    for (std::size_t i = 0; i < scenario_.slaves.size(); ++i) {
      slaves_.push_back({.setting = &scenario_.slaves[i], .machine = fmt::format("10.0.{}.1", i + 1)});
      repair_at(std::chrono::duration_cast<Time>(1s * static_cast<double>(random_.uniform())),
                [this, i] { start_slave(i); });
    }
    for (const Event& event : scenario_.events) scheduler_.at(event.at, [this, &event] { befall(event); });
    scheduler_.at(scenario_.over, [this] { look(); });
    std::string why = scheduler_.run([this] {
      if (scheduler_.events() % kEventsPerLook == 0) look_at_memory();
      return run_.ended || refused_ || !violation_.empty();
    });
    if (!violation_.empty()) why = violation_;
    if (why.empty() && !refused_) why = run_.judge();
    return {.violation = why,
            .log_hash = log_.hash(),
            .events = scheduler_.events(),
            .steps = run_.kept().steps.size(),
            .losses = losses_,
            .most_queued = lan_.most_queued(),
            .most_memory = most_memory_,
            .seconds = std::chrono::duration<double>(scheduler_.now()).count()};
  }

 private:
  // ---- programs

  Program& new_program(const std::string& machine) {
    programs_.push_back({.machine = machine});
    return programs_.back();
  }

  void start_master() {
    Program& program = new_program(kMasterMachine);
    master_ = &program;
    program.actor = &scheduler_.start(
        "master",
        [this, &program](Actor& actor) {
          SimulatedNetwork network(lan_, program);
          run_.train(network, actor, log_);
          program.alive = false;
        },
        [this](const std::string& error) {
          // Before a run begins, a slave that cannot hold its part is a mistake in the setup, of which the user is
          // told.
          const bool setup = !run_.begun && std::ranges::any_of(scenario_.slaves, &SlaveSetting::hostile);
          if (!setup) violate("an exception left the master: " + error);
          log_.line("the setup is refused: {}", error);
          refused_ = true;
        });
  }

  void start_slave(std::size_t number) {
    Slave& slave = slaves_[number];
    if (slave.program != nullptr && slave.program->alive) return;
    Program& program = new_program(slave.machine);
    slave.program = &program;
    std::atomic<bool>& leaves = flags_.emplace_back(false);
    slave.leaves = &leaves;
    const SlaveSetting& setting = *slave.setting;
    SlaveOptions options{.master = scenario_.options.listen, .name = setting.name};
    if (setting.cache) options.cache = folder_.path() + "/" + setting.name;
    options.say = [this, name = setting.name](const std::string& line) { log_.line("{} says: {}", name, line); };
    const Random drawn(scenario_.seed, 100 + programs_.size());
    program.actor = &scheduler_.start(
        setting.name,
        [this, &program, &setting, options, drawn, &leaves](Actor& actor) {
          Misdeeds misdeeds(drawn, log_, scenario_.net.find("clip:") != std::string::npos);
          SimulatedNetwork network(lan_, program, setting.hostile ? &misdeeds : nullptr);
          const auto device = timed_device(make_device("reference", {.threads = 1}), actor, setting.pace, drawn);
          serve(options, *device, leaves, network);
          program.alive = false;
          log_.line("{} has ended", setting.name);
        },
        [this, name = setting.name](const std::string& error) {
          violate(fmt::format("an exception left slave {}: {}", name, error));
        });
  }

  /// Does it then, and counts on it.
  void repair_at(Time time, std::function<void()> repair) {
    repaired_ = std::max(repaired_, time);
    scheduler_.at(time, std::move(repair));
  }

  // ---- faults

  void befall(const Event& event) {
    const auto number = static_cast<std::size_t>(event.slave);
    Slave& slave = slaves_[number];
    const Time over = scheduler_.now() + event.time;
    const auto excuse = [&](Slave& each) { each.excused = std::max(each.excused, over + kAftermath); };
    const bool of_master = event.fault >= Fault::kill_master;
    const bool alive = of_master ? master_->alive : slave.program != nullptr && slave.program->alive;
    if (!alive) return;
    repaired_ = std::max(repaired_, over);
    if (event.fault != Fault::part_slaves && event.fault != Fault::cut_peer && event.fault != Fault::disk) {
      for (Slave& each : slaves_) {
        if (of_master || &each == &slave) excuse(each);
      }
    }
    of_master ? befall_master(event) : befall_slave(event, number);
  }

  void befall_slave(const Event& event, std::size_t number) {
    Slave& slave = slaves_[number];
    Program& program = *slave.program;
    const std::string& other = slaves_[event.other].machine;
    const auto start_again = [this, number] { start_slave(number); };
    switch (event.fault) {
      case Fault::kill:
        if (event.sends == 0) {
          lan_.kill(program, false);
        } else {
          program.sends_left = event.sends;
          scheduler_.after(event.time / 2, [this, &program] { lan_.kill(program, false); });
        }
        repair_at(scheduler_.now() + event.time, start_again);
        break;
      case Fault::vanish:
        lan_.kill(program, true);
        slave.machine += "x";  // another one takes its place
        repair_at(scheduler_.now() + event.time, start_again);
        break;
      case Fault::leave:
        log_.line("{} is to leave", slave.setting->name);
        *slave.leaves = true;
        program.actor->wake();
        come_back(number, program, event.time);
        break;
      case Fault::part: lan_.part(slave.machine, kMasterMachine, event.time); break;
      case Fault::part_slaves: lan_.part(slave.machine, other, event.time); break;
      case Fault::cut_control: lan_.cut(slave.machine, kMasterMachine, Channel::control); break;
      case Fault::cut_data: lan_.cut(slave.machine, kMasterMachine, Channel::data); break;
      case Fault::cut_peer: lan_.cut(slave.machine, other, Channel::peer); break;
      case Fault::cache: fail_cache(*slave.setting); break;
      default: trouble(*program.actor, event);
    }
  }

  /// Starts a slave again some time after it has left.
  void come_back(std::size_t number, Program& left, Time time) {
    repair_at(scheduler_.now() + time, [this, number, &left] {
      if (left.alive) return come_back(number, left, 1s);
      start_slave(number);
    });
  }

  void befall_master(const Event& event) {
    if (event.fault == Fault::kill_master) {
      lan_.kill(*master_, false);
      repair_at(scheduler_.now() + event.time, [this, &event] {
        run_.damage(event.damage);
        start_master();
      });
    } else if (event.fault == Fault::disk) {
      run_.disk_full = true;
      scheduler_.after(event.time, [this] { run_.disk_full = false; });
    } else {
      trouble(*master_->actor, event);
    }
  }

  /// What befalls master and slaves alike.
  void trouble(Actor& actor, const Event& event) {
    if (event.fault == Fault::suspend || event.fault == Fault::suspend_master) {
      log_.line("{} stands still", actor.name());
      actor.suspend(event.time);
    } else if (event.fault == Fault::jump || event.fault == Fault::jump_master) {
      log_.line("the clock of {} jumps", actor.name());
      actor.jump(event.time);
    } else {
      log_.line("{} becomes slow", actor.name());
      actor.slowness = event.factor;
      scheduler_.after(event.time, [&actor] { actor.slowness = 1.0; });
    }
  }

  /// Of a slave's disk: its files are garbage or have a wrong bit, or there is a file where the folder was.
  void fail_cache(const SlaveSetting& setting) {
    const fs::path folder = folder_.path() + "/" + setting.name;
    std::error_code ignored;
    const auto kind = random_.below(3);
    if (kind == 0) {
      fs::remove_all(folder, ignored);
      std::ofstream(folder) << "no folder";
      return;
    }
    for (const auto& file : fs::directory_iterator(folder, ignored)) {
      if (kind == 1) {
        std::ofstream(file.path()) << "garbage";
      } else {
        change_bit(file.path());
      }
    }
  }

  // ---- judgement

  void violate(const std::string& what) {
    if (violation_.empty()) violation_ = what;
  }

  void look_at_memory() {
    const std::size_t now = allocated();
    most_memory_ = std::max(most_memory_, now - std::min(now, memory_before_));
    if (most_memory_ > kMostMemory) violate(fmt::format("the programs hold {} bytes of memory", most_memory_));
  }

  void judge_loss(const std::string& name, const std::string& text) {
    ++losses_;
    for (Slave& slave : slaves_) {
      if (slave.setting->name != name) continue;
      ++slave.losses;
      // Answers to a timing that a loss ended are taken for those to the next, and their slave for one at fault.
      const bool reasons_known = !scenario_.long_waits && !scenario_.measured;
      if (!slave.setting->hostile && reasons_known && slave.excused < scheduler_.now())
        violate("lost without a reason: " + text);
    }
  }

  std::string missing() const {
    for (const Slave& slave : slaves_) {
      const std::string& name = slave.setting->name;
      const bool here = std::ranges::find(run_.members, name) != run_.members.end();
      if (!here && !slave.setting->hostile && slave.losses < kMostLosses) return name;
    }
    return "";
  }

  void stop_master() {
    log_.line("the master is to stop");
    stop_at_ = scheduler_.now();
    run_.stop = true;
  }

  /// After the last fault: everybody comes back, then the master stops.
  void look() {
    scheduler_.after(500ms, [this] { look(); });
    if (stop_at_ == Time{}) {
      const Time since = scheduler_.now() - repaired_;
      const std::string absent = missing();
      // A hostile slave may keep a run waiting for it, and the lobby closed for hours: others cost the run too much
      // time.
      const bool hostile = std::ranges::any_of(scenario_.slaves, &SlaveSetting::hostile);
      const bool goes_on = std::exchange(steps_seen_, run_.kept().steps.size()) != run_.kept().steps.size();
      if (since > kRecovery && hostile && (run_.waits || goes_on)) return stop_master();
      if (since > (scenario_.long_waits ? kLongWait : kRecovery) && !absent.empty())
        return violate(fmt::format("slave {} does not take part again", absent));
      if (since > 2s && (absent.empty() || scenario_.measured)) stop_master();
    } else if (scheduler_.now() - stop_at_ > (scenario_.long_waits ? kLongWait : kStopping)) {
      violate("the master does not stop");
    }
  }

  const Scenario& scenario_;
  std::size_t memory_before_ = allocated();
  std::size_t most_memory_ = 0;
  Folder folder_;
  std::deque<Program> programs_;
  std::deque<std::atomic<bool>> flags_;  ///< of programs that may be told to leave
  Scheduler scheduler_;
  Log log_;
  Lan lan_;
  Random random_;
  Run run_;
  Program* master_ = nullptr;
  std::deque<Slave> slaves_;
  Time repaired_{};
  Time stop_at_{};
  std::size_t losses_ = 0;
  std::size_t steps_seen_ = 0;
  bool refused_ = false;  ///< the run could not begin
  std::string violation_;
};

}  // namespace

Verdict simulate(const Scenario& scenario, bool print) { return World(scenario, print).play(); }

}  // namespace convoy::simulation
