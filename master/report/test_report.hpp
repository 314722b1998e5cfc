// Formats the results of a test for each class, as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/confusion.hpp"

namespace convoy {

/// The name of a class in `names`, or "class NUMBER" if it has none.
std::string class_name(const std::vector<std::string>& names, int number);

/// Formats the results as text for people, at most 79 columns wide: a table of the classes and the confusion matrix. If
/// there are too many classes, the table has only the worst of them; if the matrix does not fit, the pairs of classes
/// that are most often confused replace it.
std::vector<std::string> lines_of(const Confusion& confusion, const std::vector<std::string>& names);

/// Formats the results as JSON. "classes" has for each class its number, its name, the number of its images, of correct
/// answers and of all answers with this class. "mistakes" has the number of images for each pair of class and wrong
/// answer, the most frequent first, at most 1000. "confusion" is the matrix, with a row for each class and a column for
/// each answer; it is left out if there are more than 100 classes.
nlohmann::ordered_json to_json(const Confusion& confusion, const std::vector<std::string>& names);

}  // namespace convoy
