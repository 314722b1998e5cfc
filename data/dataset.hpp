// Labelled images: in memory, or in files that are decoded when they are wanted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nets/graph/net.hpp"

namespace convoy {

/// Images, and a class for each.
struct ImageSet {
  FeatureShape shape;
  std::vector<std::uint8_t> pixels;  ///< (image, channel, row, column); none where there are files
  std::vector<std::uint16_t> labels;
  std::vector<std::string> files = {};  ///< photographs, of any size
  int count() const { return static_cast<int>(labels.size()); }
};

struct DataSet {
  std::string name;  ///< for messages
  int classes = 10;
  std::vector<std::string> class_names = {};  ///< empty: numbers
  std::vector<std::string> notices = {};      ///< for people: what was left out, and why
  ImageSet training;
  ImageSet test;
};

/// What is done about photographs that cannot be decoded.
enum class Corrupt : std::uint8_t { refuse, skip };

/// Opens what a folder holds: CIFAR-10 in its binary version (data_batch_*.bin, any number, and test_batch.bin), MNIST
/// (the four IDX files, plain or gzipped), or folders of JPEG and PNG, one a class. "glyphs" is drawn instead, from
/// `seed`. `input`: what photographs are scaled to. Throws Error naming the file and what is wrong with it.
DataSet open_data(const std::string& place, std::uint64_t seed, const FeatureShape& input = {},
                  Corrupt corrupt = Corrupt::refuse);

/// Throws Error unless the images have the net's input shape and the net has a class for every label.
void require_fits(const DataSet& data, const Net& net);

// ---- the formats ---------------------------------------------------------------------------------------------------

/// A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009: records of a label and 3 x 32 x 32
/// bytes.
DataSet read_cifar10(const std::string& folder);
/// Y. LeCun, C. Cortes, C. Burges: IDX files, big-endian header, then bytes.
DataSet read_mnist(const std::string& folder);
/// Class folders of JPEG and PNG, in the order of their names, as Caltech-101 and Caltech-256 come: FOLDER/CLASS/IMAGE, of
/// which every fifth of a class is for testing; or FOLDER/train/CLASS/IMAGE and FOLDER/test/CLASS/IMAGE (or val). Every
/// photograph is decoded once, on all cores; those that cannot be are errors, or left out with a notice.
DataSet read_image_folder(const std::string& folder, const FeatureShape& input, Corrupt corrupt);
/// Whether a folder has folders with images.
bool has_image_folders(const std::string& folder);
/// Ten classes of 28 x 28 grey glyphs, drawn with random place, slant, size, stroke, clutter and noise; the same on
/// every machine.
DataSet draw_glyphs(std::uint64_t seed, int training_images = 6000, int test_images = 1000);

}  // namespace convoy
