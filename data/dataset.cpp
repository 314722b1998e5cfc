#include "data/dataset.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace convoy {
namespace {

namespace fs = std::filesystem;

bool holds(const std::string& folder, const std::string& prefix) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().rfind(prefix, 0) == 0) return true;
  }
  return false;
}

bool holds_cifar10(const std::string& folder) { return holds(folder, "data_batch_"); }
bool holds_mnist(const std::string& folder) { return holds(folder, "train-images"); }

/// The folders in `place` that hold a data set each, by name. Where `place` itself has a folder of photographs for each
/// class, folders in these are not data sets.
std::vector<std::string> sets_beneath(const std::string& place, bool photographs) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(place, error)) {
    const std::string folder = entry.path().string();
    if (!entry.is_directory(error)) continue;
    if (holds_cifar10(folder) || holds_mnist(folder) || (!photographs && has_image_folders(folder))) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::ranges::sort(names);
  return names;
}

std::string text(const FeatureShape& shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

}  // namespace

DataSet open_data(const std::string& place, std::uint64_t seed, const FeatureShape& input, Corrupt corrupt) {
  if (place == "glyphs") return draw_glyphs(seed);
  std::error_code error;
  if (fs::exists(place, error) && !fs::is_directory(place, error)) {
    fail("{}: it is a file; give --data the folder that holds it", place);
  }
  if (!fs::is_directory(place, error)) {
    fail("{}: there is no such folder; give --data a folder with CIFAR-10, MNIST or photographs, or 'glyphs'", place);
  }
  if (holds_cifar10(place)) return read_cifar10(place);
  if (holds_mnist(place)) return read_mnist(place);
  const bool photographs = has_image_folders(place);
  const std::vector<std::string> beneath = sets_beneath(place, photographs);
  if (beneath.size() + (photographs ? 1 : 0) > 1) {
    fail("{}: it holds {} data sets: {}{}; give one of them, as in --data {}/{}", place,
         beneath.size() + (photographs ? 1 : 0), fmt::join(beneath, ", "),
         photographs ? " and folders of photographs" : "", place, beneath.front());
  }
  if (photographs) return read_image_folder(place, input, corrupt);
  if (beneath.size() == 1) return open_data(place + "/" + beneath.front(), seed, input, corrupt);
  if (has_images(place)) {
    fail(
        "{}: its images are in no folders of classes; sort them into a folder for each class or, to train on them by a "
        "teacher alone (training.teacher, and training.mix: 1), put them into {}/train, and images for the test into a "
        "folder for each class in {}/test",
        place, place, place);
  }
  fail(
      "{}: the folder has no data set; expected CIFAR-10's data_batch_1.bin ... and test_batch.bin, MNIST's "
      "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte (or .gz), "
      "or a folder of JPEG, PNG or WebP files for each class",
      place);
}

void require_fits(const DataSet& data, const Net& net) {
  const FeatureShape& have = data.training.shape;
  if (have != net.input) {
    fail(
        "{}: net {} takes images of {} (channels x rows x columns), but data {} has {}; choose another net or other "
        "data, or set the net's input, as in --set input.height={}",
        net.file, net.name, text(net.input), data.name, text(have), have.height);
  }
  if (data.classes == 1 && data.class_names.size() == 1) {
    fail("{}: only its folder {} has JPEG, PNG or WebP files; give the data images of two classes or more", data.name,
         data.class_names.front());
  }
  if (net.classes != data.classes) {
    fail("{}: net {} has {} outputs, but data {} has {} classes; {}", place_of_outputs(net), net.name, net.classes,
         data.name, data.classes, change_of_outputs(net, data.classes));
  }
}

void require_labels(const DataSet& data, const Net& net) {
  const Teaching& teaching = net.training.teaching;
  if (data.labelled || (teaching.any() && teaching.mix == 1.0)) return;
  fail(
      "{}: the images of {}/train have no classes, so that only a teacher can say what they are, but {}; give {}--set "
      "training.mix=1, or sort the images into a folder for each class",
      net.file, data.name,
      teaching.any() ? fmt::format("training.mix is {:g}, which leaves a part of the loss to labels", teaching.mix)
                     : "the net has no training.teacher",
      teaching.any() ? "" : "--set training.teacher=RUN and ");
}

}  // namespace convoy
