// What a run tells of itself, to whoever watches: progress lines, files, JSON. Observers stand beside the training
// step, never inside it.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "train/trunk.hpp"

namespace convoy {

struct RunStart {
  std::string net;
  std::string folder;
  std::string data;
  std::string device;  ///< the master's
  std::size_t parameters = 0;
  int batch = 0;
  int epochs = 0;
  int training_images = 0;
  int test_images = 0;
  long first_step = 0;  ///< after a resume, the steps already done
  std::vector<Stage> stages;
  Plan plan;
};

struct StepReport {
  int epoch = 1;          ///< from 1
  int step_in_epoch = 0;  ///< done
  int steps_per_epoch = 0;
  long step = 0;           ///< done, over all epochs
  double loss = 0.0;       ///< of this step, mean over the batch
  double mean_loss = 0.0;  ///< over this epoch's steps so far
  double accuracy = 0.0;   ///< likewise, a fraction
  double images_per_second = 0.0;
  double seconds = 0.0;       ///< this step took
  double seconds_left = 0.0;  ///< of the run, at this pace
  double learning_rate = 0.0;
  std::vector<MemberTime> times;  ///< of this step
};

struct EpochReport {
  int epoch = 1;
  long step = 0;
  double train_loss = 0.0;
  double train_accuracy = 0.0;
  double test_loss = 0.0;
  double test_accuracy = 0.0;
  double images_per_second = 0.0;  ///< while training
  double seconds = 0.0;            ///< since the run began, this process
  double learning_rate = 0.0;
};

/// How far a test of all test images has come.
struct TestReport {
  int tested = 0;
  int images = 0;
  double accuracy = 0.0;  ///< so far, a fraction
  double seconds_left = 0.0;
};

struct RunEnd {
  std::string how;            ///< "finished", "stopped" (as asked for, before the last epoch), "interrupted", "failed"
  std::string text;           ///< a line that says so to people; empty when finished
  std::string go_on;          ///< the command that resumes; empty when finished
  long step = 0;              ///< done, over all epochs
  long steps = 0;             ///< of all epochs
  int best_epoch = 0;         ///< with the best test accuracy, from 1; 0 before the first
  double best_accuracy = -1;  ///< its test accuracy; negative before the first
  double test_accuracy = -1;  ///< of the last epoch; negative before the first
  std::vector<MemberTime> times;  ///< over the whole run
  double seconds = 0.0;
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_start(const RunStart&) {}
  /// A line about what is going on besides training: waiting for slaves, calibrating.
  virtual void on_notice(const std::string&) {}
  /// Filters moved between members: the plan from the next step on.
  virtual void on_plan(const Plan&) {}
  virtual void on_step(const StepReport&) {}
  virtual void on_test(const TestReport&) {}
  virtual void on_epoch(const EpochReport&) {}
  virtual void on_checkpoint(const std::string& /*file*/, long /*step*/) {}
  virtual void on_end(const RunEnd&) {}
};

using Observers = std::vector<std::unique_ptr<Observer>>;

/// Text for people: on a terminal a live line, in a pipe plain lines.
std::unique_ptr<Observer> make_text_observer();
/// One JSON object a line.
std::unique_ptr<Observer> make_json_observer(std::FILE* to = stdout);
/// `folder`/results.csv (a row an epoch) and `folder`/events.jsonl (everything); appends when they exist.
std::unique_ptr<Observer> make_file_observer(const std::string& folder);
/// `folder`/curves.gnuplot, and curves.png where gnuplot is installed: after the first epoch, at the end, and now and then.
std::unique_ptr<Observer> make_plot_observer(const std::string& folder);

/// Share of the convolution work (by FLOPs) that each member of a plan has, as fractions.
std::vector<double> work_shares(const std::vector<Stage>& stages, const Plan& plan);

}  // namespace convoy
