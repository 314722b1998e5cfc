// The images and the answers of commands that name classes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/images.hpp"
#include "data/dataset.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

/// Lists the image files. A folder is replaced by its JPEG, PNG and WebP files in the order of their names. Throws
/// Error.
std::vector<std::string> image_files(const std::vector<std::string>& places);

/// Reads as many images from `first` on as fit, and fills the rest with black. Returns a message for each file that
/// cannot be decoded and an empty text for the others. With Corrupt::refuse it throws the Error of the first such file.
std::vector<std::string> read_images(const std::vector<std::string>& files, std::size_t first, const Net& net,
                                     Corrupt corrupt, Pixels& pixels);

/// How answers are printed.
struct PredictionStyle {
  std::vector<std::string> class_names;  ///< if empty, classes are called by their numbers
  int top = 5;                           ///< number of classes to print for each image
  std::string format = "text";
  bool shares = true;  ///< whether scores are parts of 1, printed in percent
  /// What a score is called in JSON.
  std::string score = "probability";
};

/// Prints the classes with the largest scores of an image, the largest first.
void print_prediction(const std::string& file, std::span<const float> scores, const PredictionStyle& style);
void print_skipped(const std::string& file, const std::string& what, const std::string& format);
/// Prints how many files were skipped. Throws Error if all files were skipped.
void print_skipped_total(std::size_t skipped, std::size_t files, const std::string& format);

/// Throws Error naming the image unless all outputs of a net are finite. `whose` names the net, as in "the net's".
void expect_finite_outputs(const std::string& image, std::span<const float> outputs, const std::string& whose);

/// Throws Error unless the net says how pixels are normalised, which images without a data set need.
void expect_scales(const Net& net);

}  // namespace convoy
