// Observers report the progress of a run: as text, JSON, files and plots. They are called between training steps, never
// within one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "train/trunk.hpp"

namespace convoy {

/// The energy of a run so far, for each member, and what its user declares and assumes.
struct EnergyReport {
  std::vector<MemberEnergy> members;
  double switch_watts = 0.0;   ///< declared power of network gear, in W
  double assumed_watts = 0.0;  ///< power that the user assumes for each member that is not measured, in W; 0 for none
  double seconds = 0.0;        ///< since training began
};

struct RunStart {
  std::string net;
  std::string folder;
  std::string data;
  std::string device;  ///< device of the master
  std::string paced;   ///< name of the master's device where the run's devices compute nothing
  std::size_t parameters = 0;
  int batch = 0;
  int epochs = 0;
  int training_images = 0;
  int test_images = 0;
  long first_step = 0;  ///< number of steps done before a resume
  std::vector<Stage> stages;
  Plan plan;
  int replicas = 0;                       ///< copies of the net that train; 0 where all members share each batch
  std::vector<Plan> other_replicas = {};  ///< the plans of all replicas but the first
};

/// How many updates old the weights were from which gradients were computed.
struct Staleness {
  double mean = 0.0;
  long most = 0;
};

struct StepReport {
  int epoch = 1;          ///< counts from 1
  int step_in_epoch = 0;  ///< steps done in this epoch
  int steps_per_epoch = 0;
  long step = 0;           ///< steps done in all epochs
  double loss = 0.0;       ///< mean loss of this step's batch
  double mean_loss = 0.0;  ///< mean loss of this epoch so far
  double accuracy = 0.0;   ///< training accuracy of this epoch so far, as a fraction
  double images_per_second = 0.0;
  double seconds = 0.0;       ///< duration of this step
  double seconds_left = 0.0;  ///< estimated remaining time of the run
  double learning_rate = 0.0;
  std::optional<long> staleness;  ///< of the step's gradients; see Learner::staleness()
  std::vector<MemberTime> times;  ///< times of each member in this step
  EnergyReport energy;            ///< up to this step
};

struct EpochReport {
  int epoch = 1;
  long step = 0;
  double train_loss = 0.0;
  double train_accuracy = 0.0;
  double test_loss = 0.0;
  double test_accuracy = 0.0;
  double images_per_second = 0.0;  ///< training speed, without the test
  double seconds = 0.0;            ///< time since this process began the run
  double learning_rate = 0.0;
  EnergyReport energy;  ///< up to the end of the epoch's test
};

/// The progress of a test on all test images.
struct TestReport {
  int tested = 0;         ///< images tested so far
  int images = 0;         ///< images to test
  double accuracy = 0.0;  ///< accuracy so far, as a fraction
  double seconds_left = 0.0;
};

/// Values of a slave that the master found to be wrong when it computed them again.
struct WrongWork {
  std::string slave;
  std::string what;        ///< "maps", "gradients" (a part of them) or "weights"
  std::string stage;       ///< the stage whose maps, maps' gradient or weights these are
  long step = 0;           ///< counted from 1
  double error = 0.0;      ///< norm of the difference relative to the norm of the right values; infinite for NaN
  double tolerance = 0.0;  ///< largest relative error that passes
  long last_right = 0;     ///< the last step in which the slave's values were found right; 0 if there is none
};

struct RunEnd {
  std::string how;                     ///< "finished", "stopped" (early, by an option), "interrupted" or "failed"
  std::string text;                    ///< how the run ended, as a text for people; empty if it finished
  std::string go_on;                   ///< the command that resumes; empty if finished
  long step = 0;                       ///< steps done in all epochs
  long steps = 0;                      ///< steps of all epochs
  int best_epoch = 0;                  ///< the epoch with the best test accuracy, counted from 1; 0 if none is complete
  double best_accuracy = -1;           ///< test accuracy of the best epoch; negative if no epoch is complete
  double test_accuracy = -1;           ///< test accuracy of the last complete epoch; negative if no epoch is complete
  std::vector<MemberTime> times;       ///< times of each member in the whole run
  std::optional<Staleness> staleness;  ///< of all gradients in asynchronous training
  double seconds = 0.0;
  EnergyReport energy;  ///< of the whole run, tests included
  long verified = -1;   ///< number of verifications that found slaves' values right; negative without --verify
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_start(const RunStart&) {}
  /// A line of text about another event than a step, such as waiting for slaves.
  virtual void on_notice(const std::string&) {}
  /// The plan changed; the new plan is used from the next step on.
  virtual void on_plan(const Plan&) {}
  virtual void on_step(const StepReport&) {}
  virtual void on_test(const TestReport&) {}
  virtual void on_epoch(const EpochReport&) {}
  /// A slave sent wrong values and is dropped. A notice says so for people.
  virtual void on_wrong_work(const WrongWork&) {}
  virtual void on_checkpoint(const std::string& /*file*/, long /*step*/) {}
  virtual void on_end(const RunEnd&) {}
};

using Observers = std::vector<std::unique_ptr<Observer>>;

/// Tells all observers a line.
inline void notice(const Observers& observers, const std::string& text) {
  for (const auto& observer : observers) observer->on_notice(text);
}

}  // namespace convoy
