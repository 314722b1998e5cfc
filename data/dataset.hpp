// Labelled images, either in memory or in files that are decoded when needed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nets/graph/net.hpp"

namespace convoy {

/// Images with a class for each.
struct ImageSet {
  FeatureShape shape;
  std::vector<std::uint8_t> pixels;  ///< (image, channel, row, column); empty if there are files
  std::vector<std::uint16_t> labels;
  std::vector<std::string> files = {};  ///< paths of photographs of any size, one for each label
  int resize = 0;                       ///< of photographs: Net::resize
  int count() const { return static_cast<int>(labels.size()); }
};

struct DataSet {
  std::string name;  ///< name in texts for people
  int classes = 10;
  std::vector<std::string> class_names = {};  ///< if empty, classes are called by their numbers
  std::vector<std::string> notices = {};      ///< sentences for people about images that were left out, and why
  ImageSet training;
  ImageSet test;
  /// Images by which a run chooses its best epoch; if there are none, those of the test serve.
  ImageSet validation = {};
  bool labelled = true;  ///< whether the training images have classes; without, their labels are 0 and mean nothing
  /// Sets how photographs are scaled (Net::resize).
  void set_resize(int resize) { training.resize = test.resize = validation.resize = resize; }
};

/// The treatment of photographs that cannot be decoded: an Error, or leaving them out.
enum class Corrupt : std::uint8_t { refuse, skip };

/// Opens the data set in the folder `place`: CIFAR-10 in its binary version (any number of data_batch_*.bin, and
/// test_batch.bin), MNIST (the four IDX files, plain or gzipped), or a folder of JPEG, PNG and WebP files for each
/// class. For the place "glyphs", images are drawn from `seed` instead. Photographs are scaled to `input`. The data set
/// may also lie in a folder in `place`, if no other does. Throws Error naming the file and its fault, or the data sets
/// to choose from.
DataSet open_data(const std::string& place, std::uint64_t seed, const FeatureShape& input = {},
                  Corrupt corrupt = Corrupt::refuse);

/// Moves a fraction of the training images of each class, drawn from `seed`, to those for validation: at least one, and
/// never all of a class with two images or more. Throws Error where the data have images for validation already.
void split_validation(DataSet& data, double fraction, std::uint64_t seed);

/// Throws Error unless the images have the net's input shape and the net has an output for every class.
void require_fits(const DataSet& data, const Net& net);
/// Throws Error if the training images have no classes, unless the net learns from a teacher alone.
void require_labels(const DataSet& data, const Net& net);

// ---- the formats ---------------------------------------------------------------------------------------------------

/// Reads CIFAR-10 (A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009): records of a label
/// and 3 x 32 x 32 bytes. The file batches.meta.txt, if there is one, has the names of the classes, one on each line.
DataSet read_cifar10(const std::string& folder);
/// Reads MNIST (Y. LeCun, C. Cortes, C. Burges): IDX files with a big-endian header, then bytes.
DataSet read_mnist(const std::string& folder);
/// Reads a folder of JPEG, PNG and WebP files for each class, in the order of their names. The layout is
/// FOLDER/CLASS/IMAGE, as in Caltech-101 and Caltech-256, where every fifth image of a class is for testing; or
/// FOLDER/train/CLASS/IMAGE and FOLDER/test/CLASS/IMAGE. Images in FOLDER/val are for validation, or for testing if
/// there is no folder `test`. If FOLDER/train has images and no folders of images, these have no classes, and the
/// classes are those of the test. Files of other image formats are left out with a notice. Every photograph is decoded
/// once, on all cores, to find damaged ones; `corrupt` says whether these are an Error or are left out with a notice.
DataSet read_image_folder(const std::string& folder, const FeatureShape& input, Corrupt corrupt);
/// Whether a folder contains folders with images, or a folder `train` that does or that has images itself.
bool has_image_folders(const std::string& folder);
/// Whether a folder contains images itself.
bool has_images(const std::string& folder);
/// Draws ten classes of 28 x 28 grey glyphs with random position, slant, size, stroke, clutter and noise. The images
/// are the same on every machine.
DataSet draw_glyphs(std::uint64_t seed, int training_images = 6000, int test_images = 1000);

}  // namespace convoy
