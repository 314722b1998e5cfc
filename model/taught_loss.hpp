// The loss of a net that learns from a teacher (Hinton, Vinyals and Dean, Distilling the Knowledge in a Neural Network,
// 2015).
#pragma once

#include <span>

#include "model/labels.hpp"

namespace convoy {

/// Returns mix T^2 KL(teacher || student) + (1 - mix) hard for one sample. The student's distribution is the softmax of
/// logits / T, and `teacher` has the teacher's at the same T. `hard` is the loss by the label; `gradient` has its
/// gradient by the logits and receives that of the result. T^2 keeps the teacher's part of the gradient as large as the
/// label's at any T.
template <class T>
double taught_loss(std::span<const T> logits, std::span<const float> teacher, const Labels& labels, double hard,
                   std::span<T> gradient);

}  // namespace convoy
