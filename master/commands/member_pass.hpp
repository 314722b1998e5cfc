// A pass of a trained net over many images, whose outputs are kept: for ensembles, and for teachers.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "master/cluster/cluster.hpp"
#include "master/commands/ensemble_member.hpp"
#include "train/train.hpp"

namespace convoy {

struct PassBatch {
  Images images;
  std::vector<int> labels;         ///< a class for each sample; empty if the images have none
  std::vector<std::string> wrong;  ///< for each image, why it could not be decoded; no entries if all could be decoded
  int count = 0;                   ///< samples that are images; the rest of the batch is padding
};

/// Writes batch `index`, counted from 0. Batches of one function have the same shape.
using FillBatch = std::function<void(int index, PassBatch& batch)>;

struct PassImages {
  long count = 0;
  std::function<FillBatch()> open;  ///< makes a function for each thread
  std::string what;                 ///< the images in errors, as in "test image"; empty for their files
  std::vector<std::string> files = {};
};

class MemberPass {
 public:
  /// Batches of a pass that one machine computes, one after another.
  struct Part {
    int next = 0;
    int end = 0;
  };

  /// The member must outlive the pass.
  MemberPass(const EnsembleMember& member, PassImages images);

  const EnsembleMember& member() const { return member_; }
  int batches() const;
  /// Computes what is left of a part until it ends or `stop` is set. `learner` has the member's net and weights.
  /// `after` is called after each batch. Several threads may compute different parts. Throws Error naming an image
  /// whose outputs are not finite.
  void compute(Part& part, Learner& learner, const std::atomic<bool>& stop, const std::function<void()>& after = {});

  // After all batches were computed:
  long images() const { return images_.count; }
  std::span<const float> outputs(long image) const { return outputs_.sample(static_cast<int>(image)); }
  /// Why an image could not be decoded; empty if it has outputs.
  const std::string& wrong(long image) const { return wrong_[image]; }
  /// The mean loss and the accuracy. The images must have labels. Throws Error if the loss is not finite.
  Evaluation evaluation() const;

 private:
  std::string name_of(long image) const;

  const EnsembleMember& member_;
  PassImages images_;
  Tensor outputs_;                 ///< (image, class)
  std::vector<BatchLoss> losses_;  ///< of each batch
  std::vector<std::string> wrong_;
};

/// Computes all of a pass on this machine or, with options.slaves, on all slaves together. Returns false if `stop` was
/// set before the end. `end` is what slaves are told at the end.
bool run_pass(MemberPass& pass, const ClusterOptions& options, const NetOptions& net_options,
              const Observers& observers, const std::atomic<bool>& stop, const std::string& end);

}  // namespace convoy
