// What a test of a net found, class by class.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/confusion.hpp"

namespace convoy {

/// The name of a class: from the net, or its number.
std::string class_name(const std::vector<std::string>& names, int number);

/// Text for people, at most 79 columns wide: a table of the classes, and the confusion matrix where it fits; of many classes
/// the worst, and the pairs that are most often confused.
std::vector<std::string> lines_of(const Confusion& confusion, const std::vector<std::string>& names);

/// "classes": for each class its number, name, images, correct answers, and answers for it in all. "mistakes": how many
/// images of which class were taken for which, the most frequent first, 1000 at most. "confusion", of up to 100 classes:
/// the matrix, a row for each class and a column for each answer.
nlohmann::ordered_json to_json(const Confusion& confusion, const std::vector<std::string>& names);

}  // namespace convoy
