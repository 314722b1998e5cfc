// Several nets trained and tested at the same time, one thread or one process each, beside one after another: the task
// parallelism of Costa and Banevicius (Sao Carlos).

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <exception>
#include <iostream>
#include <map>
#include <thread>

#include "bench/commands.hpp"
#include "bench/program.hpp"
#include "bench/statistics.hpp"
#include "bench/training_steps.hpp"
#include "core/error.hpp"
#include "core/stopwatch.hpp"

namespace convoy {
namespace {

struct TasksOptions {
  std::vector<std::string> nets{"nets/small-mlp.yaml", "nets/medium-mlp.yaml", "nets/big-mlp.yaml"};
  std::string device = "cpu";
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  int batch = 128;
  int steps = 469;
  int tests = 79;
  int rounds = 3;
  std::string format = "text";
  bool worker = false;
};

/// The two parts of every task. They are timed one by one, and all tasks finish the first before any begins the second.
enum class Phase : std::uint8_t { training, testing };

/// Returns the loss of the last batch of a phase.
double run_phase(TrainingSteps& net, Phase phase, const TasksOptions& options) {
  double loss = 0.0;
  const bool training = phase == Phase::training;
  for (int i = 0; i < (training ? options.steps : options.tests); ++i) loss = training ? net.step() : net.test();
  return loss;
}

std::unique_ptr<TrainingSteps> make_net(const std::string& net, const TasksOptions& options, int threads) {
  auto made = std::make_unique<TrainingSteps>(net, std::vector<std::string>{}, options.batch, options.device,
                                              DeviceOptions{.threads = threads});
  made->test();  // the first pass takes memory
  return made;
}

/// An arrangement of all tasks.
class Arrangement {
 public:
  virtual ~Arrangement() = default;
  /// Runs a phase of all tasks, and returns the losses of their last batches.
  virtual std::vector<double> run(Phase phase) = 0;
  /// Whether each task has several threads.
  virtual bool on_several_threads() const { return false; }
};

class OneAfterAnother : public Arrangement {
 public:
  OneAfterAnother(const TasksOptions& options, int threads) : options_(options), threads_(threads) {
    for (const std::string& net : options.nets) nets_.push_back(make_net(net, options, threads));
  }
  std::vector<double> run(Phase phase) override {
    std::vector<double> losses;
    for (const auto& net : nets_) losses.push_back(run_phase(*net, phase, options_));
    return losses;
  }
  bool on_several_threads() const override { return threads_ > 1; }

 private:
  const TasksOptions& options_;
  int threads_;
  std::vector<std::unique_ptr<TrainingSteps>> nets_;
};

/// Every task has a thread of this process.
class InThreads : public Arrangement {
 public:
  explicit InThreads(const TasksOptions& options) : options_(options) {
    for (const std::string& net : options.nets) nets_.push_back(make_net(net, options, 1));
  }
  std::vector<double> run(Phase phase) override {
    std::vector<double> losses(nets_.size());
    std::vector<std::exception_ptr> errors(nets_.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < nets_.size(); ++i) {
        threads.emplace_back([&, i] {
          try {
            losses[i] = run_phase(*nets_[i], phase, options_);
          } catch (...) {
            errors[i] = std::current_exception();
          }
        });
      }
    }
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    return losses;
  }

 private:
  const TasksOptions& options_;
  std::vector<std::unique_ptr<TrainingSteps>> nets_;
};

/// A process of this program that runs a task. It does a phase for each byte that it reads, and answers with a line.
class Worker {
 public:
  Worker(const std::string& net, const TasksOptions& options) : net_(net) {
    std::array<int, 2> orders{};
    std::array<int, 2> answers{};
    if (pipe2(orders.data(), O_CLOEXEC) != 0 || pipe2(answers.data(), O_CLOEXEC) != 0) {
      fail("cannot make a pipe: {}", std::strerror(errno));
    }
    program_ = std::make_unique<Program>(
        "convoy-bench",
        std::vector<std::string>{"tasks", "--worker", "--nets", net, "--device", options.device, "--batch",
                                 std::to_string(options.batch), "--steps", std::to_string(options.steps), "--tests",
                                 std::to_string(options.tests)},
        Streams{.input = orders[0], .output = answers[1], .errors = STDERR_FILENO});
    close(orders[0]);
    close(answers[1]);
    orders_ = orders[1];
    answers_ = answers[0];
    answer();  // it is ready
  }
  ~Worker() {
    close(orders_);
    close(answers_);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void order(Phase phase) const {
    const char word = phase == Phase::training ? '1' : '2';
    if (write(orders_, &word, 1) != 1) fail("the process of {} has ended: {}", net_, std::strerror(errno));
  }
  double answer() const {
    std::string line;
    char next = 0;
    while (read(answers_, &next, 1) == 1 && next != '\n') line.push_back(next);
    double loss = 0.0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), loss);
    if (error != std::errc() || next != '\n') fail("the process of {} ended early; its errors are above", net_);
    return loss;
  }

 private:
  std::string net_;
  std::unique_ptr<Program> program_;
  int orders_ = -1;
  int answers_ = -1;
};

class InProcesses : public Arrangement {
 public:
  explicit InProcesses(const TasksOptions& options) {
    for (const std::string& net : options.nets) workers_.push_back(std::make_unique<Worker>(net, options));
  }
  std::vector<double> run(Phase phase) override {
    for (const auto& worker : workers_) worker->order(phase);
    std::vector<double> losses;
    for (const auto& worker : workers_) losses.push_back(worker->answer());
    return losses;
  }

 private:
  std::vector<std::unique_ptr<Worker>> workers_;
};

/// The process of a Worker: stands until its input ends.
void work(const TasksOptions& options) {
  const auto net = make_net(options.nets.front(), options, 1);
  std::cout << 0.0 << std::endl;
  for (char word = 0; std::cin.get(word);) {
    std::cout << fmt::format("{}", run_phase(*net, word == '1' ? Phase::training : Phase::testing, options))
              << std::endl;
  }
}

/// The seconds of a way in each round.
struct Times {
  std::string name;
  std::vector<double> training;
  std::vector<double> testing;
};

std::vector<double> ratios(const std::vector<double>& of, const std::vector<double>& to) {
  std::vector<double> each;
  for (std::size_t i = 0; i < of.size(); ++i) each.push_back(of[i] / to[i]);
  return each;
}

void print_times(const TasksOptions& options, const std::vector<Times>& ways) {
  if (options.format == "csv") {
    fmt::print("way,training_s,training_gain,low,high,testing_s,testing_gain,low,high\n");
  } else {
    fmt::print(
        "{} nets, batch {}, {} steps and {} batches of tests each, {} rounds; medians, and the gain over one after "
        "another on one thread with its quartiles\n",
        options.nets.size(), options.batch, options.steps, options.tests, options.rounds);
    fmt::print("{:<36} {:>12} {:>22} {:>12} {:>22}\n", "", "training", "gain", "testing", "gain");
  }
  for (const Times& way : ways) {
    const Quartiles training = quartiles(ratios(ways.front().training, way.training));
    const Quartiles testing = quartiles(ratios(ways.front().testing, way.testing));
    const double trained = quartiles(way.training).median;
    const double tested = quartiles(way.testing).median;
    if (options.format == "csv") {
      fmt::print("{},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f}\n", way.name, trained, training.median,
                 training.low, training.high, tested, testing.median, testing.low, testing.high);
      continue;
    }
    const auto gain = [](const Quartiles& of) {
      return fmt::format("{:.2f} ({:.2f} to {:.2f})", of.median, of.low, of.high);
    };
    fmt::print("{:<36} {:>10.2f} s {:>22} {:>10.2f} s {:>22}\n", way.name, trained, gain(training), tested,
               gain(testing));
  }
  if (options.format == "csv") return;
  fmt::print(
      "In the paper, threads of one process trained the three nets on MNIST 1.21 times as fast as one after another, "
      "and "
      "tested them 1.09 times as fast.\n");
}

void run_tasks(const TasksOptions& options) {
  if (options.worker) return work(options);
  std::vector<std::pair<std::string, std::unique_ptr<Arrangement>>> ways;
  ways.emplace_back("one after another, 1 thread", std::make_unique<OneAfterAnother>(options, 1));
  if (options.threads > 1) {
    ways.emplace_back(fmt::format("one after another, {} threads", options.threads),
                      std::make_unique<OneAfterAnother>(options, options.threads));
  }
  ways.emplace_back("at once, a thread each", std::make_unique<InThreads>(options));
  ways.emplace_back("at once, a process each", std::make_unique<InProcesses>(options));
  std::vector<Times> times;
  for (const auto& [name, way] : ways) times.push_back({name, {}, {}});
  for (int round = 0; round < options.rounds; ++round) {
    std::vector<double> alone;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const Stopwatch training;
      std::vector<double> losses = ways[i].second->run(Phase::training);
      times[i].training.push_back(training.seconds());
      const Stopwatch testing;
      std::ranges::copy(ways[i].second->run(Phase::testing), std::back_inserter(losses));
      times[i].testing.push_back(testing.seconds());
      if (alone.empty()) alone = losses;
      // A device may add in another order on several threads.
      if (losses != alone && !ways[i].second->on_several_threads()) {
        fail("{}: the losses {} are not those of one after another, {}", ways[i].first, fmt::join(losses, ", "),
             fmt::join(alone, ", "));
      }
    }
  }
  print_times(options, times);
}

}  // namespace

void add_tasks(CLI::App& app) {
  auto options = std::make_shared<TasksOptions>();
  CLI::App& command = *app.add_subcommand("tasks",
                                          "time of training and testing several nets at the same time, in threads and "
                                          "in processes, compared with one net after another (random images)");
  command.add_option("--nets", options->nets, "net files; by default three multilayer perceptrons for MNIST")
      ->delimiter(',');
  command.add_option("--device", options->device, "device")->capture_default_str();
  command.add_option("--threads", options->threads, "number of threads with which the nets also run one after another")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  command.add_option("--batch", options->batch, "images")->check(whole_number(1, 65536))->capture_default_str();
  command.add_option("--steps", options->steps, "training steps of each net; by default an epoch of MNIST")
      ->check(whole_number(1, 1000000))
      ->capture_default_str();
  command.add_option("--tests", options->tests, "batches on which each net is tested; by default those of MNIST")
      ->check(whole_number(1, 1000000))
      ->capture_default_str();
  command.add_option("--rounds", options->rounds, "rounds of all ways in turns")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command.add_option("--format", options->format, "text or csv")->check(one_of({"text", "csv"}))->capture_default_str();
  command.add_flag("--worker", options->worker, "")->group("");
  command.callback([options] { run_tasks(*options); });
}

}  // namespace convoy
