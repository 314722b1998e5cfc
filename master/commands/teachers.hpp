// The teachers of a training run.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "master/cluster/cluster.hpp"
#include "master/commands/ensemble_member.hpp"
#include "master/commands/options.hpp"
#include "train/teacher.hpp"

namespace convoy {

/// The net with absolute names of its teachers, so that its config.yaml serves in any folder.
Net with_absolute_teachers(Net net);

class Teachers {
 public:
  /// Reads the teachers of `student`, which may have none. `images` is the number of images in a step. Throws Error
  /// naming the net file, the teacher and the mend where a teacher does not fit the student. The references must
  /// outlive the teachers.
  Teachers(const Net& student, const NetOptions& options, int images);

  bool any() const { return !members_.empty(); }
  /// A line for the fingerprint of the run, which other nets or weights of teachers change; empty without teachers.
  std::string fingerprint() const;

  struct Place {
    const DataSet& data;
    std::string folder;  ///< of the run
    const ClusterOptions* slaves =
        nullptr;  ///< options by which slaves are reached; null if only this machine computes
  };
  /// Makes the teachers ready. If training images do not change, what they say of all images is computed now, by the
  /// slaves if there are any, and kept in the run's folder; a run that is resumed reads it there. Otherwise the
  /// teachers run on this machine. Returns false if `stop` was set meanwhile.
  bool begin(const Place& place, const Observers& observers, const std::atomic<bool>& stop);
  /// See Teacher::teach().
  void teach(const Batches& training, int epoch, int index, const Images& images, Labels& labels) {
    teacher_->teach(training, epoch, index, images, labels);
  }

 private:
  void expect_fits(const EnsembleMember& teacher) const;
  const std::vector<ChannelScale>& scales_for(const EnsembleMember& teacher) const;
  bool run_on_this_machine(const Observers& observers, const std::atomic<bool>& stop);
  std::optional<std::vector<float>> probabilities_of(const Place& place, const Observers& observers,
                                                     const std::atomic<bool>& stop) const;
  std::string identity(const DataSet& data) const;

  const Net& student_;
  const NetOptions& options_;
  ClusterOptions alone_;  ///< no slaves
  std::vector<EnsembleMember> members_;
  std::vector<std::unique_ptr<Cluster>> clusters_;
  std::vector<std::unique_ptr<Learner>> learners_;
  std::unique_ptr<Teacher> teacher_;
};

}  // namespace convoy
