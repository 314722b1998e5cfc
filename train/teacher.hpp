// Nets that are trained already, from whose outputs another net learns (Hinton et al., Distilling the Knowledge in a Neural
// Network, 2015).
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "data/batches.hpp"
#include "train/learner.hpp"

namespace convoy {

/// A teacher gives each image the mean of its nets' softmax of outputs / temperature.
class Teacher {
 public:
  struct Voice {
    std::string name;                  ///< for errors
    Learner* learner = nullptr;        ///< with the net's weights; must outlive the teacher
    std::vector<ChannelScale> scales;  ///< with which the net was trained
  };
  /// All voices have `classes` outputs, and compute as many images at once as a training batch has.
  Teacher(std::vector<Voice> voices, const Teaching& teaching, int classes)
      : voices_(std::move(voices)), teaching_(teaching), classes_(classes) {}

  /// Computes the probabilities of all images of a set once, for training without augmentation. The images come in the order of
  /// the set, so that a run that is resumed gets the same bits, whatever was left of its epoch. Returns false if `stop` was set
  /// meanwhile. The learners are not needed any more. Throws Error naming a net whose outputs are not finite.
  bool remember(const Batches& in_order, long images, const std::atomic<bool>& stop);

  /// Adds the probabilities of the batch `index` of an epoch of `training` to its labels: those that are remembered, or else what
  /// the nets compute from `images`. Throws Error naming a net whose outputs are not finite.
  void teach(const Batches& training, int epoch, int index, const Images& images, Labels& labels);

 private:
  Tensor probabilities(const Images& images, int count);

  std::vector<Voice> voices_;
  Teaching teaching_;
  int classes_;
  std::vector<float> remembered_;  ///< (image, class); empty without remember()
};

}  // namespace convoy
