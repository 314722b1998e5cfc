// The one copy of a model that replicas share: it takes their gradients, updates the weights, and gives these out.
// (Li et al., Scaling Distributed Machine Learning with the Parameter Server, OSDI 2014.)
//
// Gradients have the form of a ModelState without moments: the value of a trained parameter is its gradient, and that
// of a running average is the average after the replica's forward pass.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/checkpoint.hpp"
#include "nets/graph/net.hpp"
#include "train/model_arithmetic.hpp"
#include "train/trunk.hpp"

namespace convoy {

class ParameterServer {
 public:
  explicit ParameterServer(const Cut& cut) : cut_(cut) {}

  /// From now on, weights that are given out and gradients are rounded() to this type. The server's own weights and
  /// sums are not.
  void carry_in(NumberType type) {
    type_ = type;
    weights_.reset();
  }

  void load(const ModelState& model);
  /// The weights and running averages, without moments; shared by all callers until the next update() or load().
  std::shared_ptr<const ModelState> weights();
  /// All parameters with the optimizer's moments.
  std::shared_ptr<const ModelState> state() const { return std::make_shared<const ModelState>(model_); }

  /// The gradients as the server takes them; see carry_in().
  ModelState arrived(ModelState gradients) const { return rounded(std::move(gradients), cut_, type_); }
  /// The sum of the squares of all gradients, in the order in which a machine by itself adds them.
  double squares(const ModelState& gradients) const;
  /// Updates the trained parameters by the gradients, to the bits of UpdateStep, and takes the running averages.
  /// `number` is the step's, counted from 1.
  void update(const UpdateStep& step, const ModelState& gradients, long number);
  /// The first stage or dense layer that an update left with values that are not finite, and its step.
  const std::optional<Broken>& broken() const { return broken_; }

 private:
  const Cut& cut_;
  ModelState model_;
  NumberType type_ = NumberType::fp32;
  std::shared_ptr<const ModelState> weights_;  ///< null where model_ has changed since
  std::optional<Broken> broken_;
};

}  // namespace convoy
