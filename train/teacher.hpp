// Nets that are trained already, from whose outputs another net learns (Hinton et al., Distilling the Knowledge in a
// Neural Network, 2015).
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/batches.hpp"
#include "train/learner.hpp"

namespace convoy {

/// Adds a net's softmax of outputs / temperature for an image to the mean over so many nets.
void add_to_mean(std::span<const float> outputs, double temperature, std::size_t nets, std::span<float> mean);

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

  /// Takes the probabilities of all training images, (image, class), for training without augmentation. The learners
  /// are not needed any more.
  void remember(std::vector<float> probabilities) { remembered_ = std::move(probabilities); }

  /// Adds the probabilities of the batch `index` of an epoch of `training` to its labels: those that are remembered, or
  /// else what the nets compute from `images`. Throws Error naming a net whose outputs are not finite.
  void teach(const Batches& training, int epoch, int index, const Images& images, Labels& labels);

 private:
  Tensor probabilities(const Images& images, int count);

  std::vector<Voice> voices_;
  Teaching teaching_;
  int classes_;
  std::vector<float> remembered_;  ///< (image, class); empty without remember()
};

}  // namespace convoy
