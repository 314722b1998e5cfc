// Labelled images in memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nets/net.hpp"

namespace convoy {

/// Images as bytes, (image, channel, row, column), and a class for each.
struct ImageSet {
  FeatureShape shape;
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;
  int count() const { return static_cast<int>(labels.size()); }
};

struct DataSet {
  std::string name;  ///< for messages
  int classes = 10;
  ImageSet training;
  ImageSet test;
};

/// Opens what a folder holds: CIFAR-10 in its binary version (data_batch_*.bin, any number, and test_batch.bin) or
/// MNIST (the four IDX files, plain or gzipped). "glyphs" is drawn instead, from `seed`. Throws Error naming the file
/// and what is wrong with it.
DataSet open_data(const std::string& place, std::uint64_t seed);

/// Throws Error unless the images have the net's input shape and the net has a class for every label.
void require_fits(const DataSet& data, const Net& net);

// ---- the formats ---------------------------------------------------------------------------------------------------

/// A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009: records of a label and 3 x 32 x 32
/// bytes.
DataSet read_cifar10(const std::string& folder);
/// Y. LeCun, C. Cortes, C. Burges: IDX files, big-endian header, then bytes.
DataSet read_mnist(const std::string& folder);
/// Ten classes of 28 x 28 grey glyphs, drawn with random place, slant, size, stroke, clutter and noise; the same on
/// every machine.
DataSet draw_glyphs(std::uint64_t seed, int training_images = 6000, int test_images = 1000);

}  // namespace convoy
