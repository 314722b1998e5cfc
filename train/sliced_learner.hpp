// A learner of a net whose first dense layer is cut along its inputs. To its owner it looks like a learner of the whole
// net, whose weights and checkpoints know no slices.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "nets/graph/dense_slices.hpp"
#include "train/learner.hpp"

namespace convoy {

class SlicedLearner : public Learner {
 public:
  /// `learner` is one of the net with slices, which must outlive this one.
  SlicedLearner(std::unique_ptr<Learner> learner, const DenseSlices& slices)
      : learner_(std::move(learner)), slices_(slices) {}

  BatchLoss accumulate(const Images& images, const Labels& labels, const Pass& pass) override {
    return learner_->accumulate(images, labels, pass);
  }
  double gradient_squares() override { return learner_->gradient_squares(); }
  void apply(const UpdateStep& step, const Progress& after) override { learner_->apply(step, after); }
  void settle() override { learner_->settle(); }
  std::optional<Broken> broken() const override;
  const Tensor& outputs(const Images& images) override { return learner_->outputs(images); }
  BatchLoss test_loss(const Labels& labels, int count) override { return learner_->test_loss(labels, count); }
  std::shared_ptr<const ModelState> state() override;
  void load(TrainingState from) override;
  const TrainingState* kept() const override;
  std::vector<MemberTime> take_times() override { return learner_->take_times(); }

 private:
  std::unique_ptr<Learner> learner_;
  const DenseSlices& slices_;
  mutable std::shared_ptr<const ModelState> seen_;  ///< the model of the learner's kept() that kept_ was made of
  mutable TrainingState kept_;
};

}  // namespace convoy
