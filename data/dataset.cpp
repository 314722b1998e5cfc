#include "data/dataset.hpp"

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

std::string text(const FeatureShape& shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

}  // namespace

DataSet open_data(const std::string& place, std::uint64_t seed, const FeatureShape& input, Corrupt corrupt) {
  if (place == "glyphs") return draw_glyphs(seed);
  std::error_code error;
  if (!fs::is_directory(place, error)) {
    fail("{}: there is no such folder; give --data a folder with CIFAR-10, MNIST or photographs, or 'glyphs'", place);
  }
  const std::string inside = place + "/cifar-10-batches-bin";
  if (holds(place, "data_batch_")) return read_cifar10(place);
  if (fs::is_directory(inside, error)) return read_cifar10(inside);
  if (holds(place, "train-images")) return read_mnist(place);
  if (has_image_folders(place)) return read_image_folder(place, input, corrupt);
  fail(
      "{}: the folder has no data set; expected CIFAR-10's data_batch_1.bin ... and test_batch.bin, MNIST's "
      "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte (or .gz), "
      "or a folder of JPEG or PNG files for each class",
      place);
}

void require_fits(const DataSet& data, const Net& net) {
  const FeatureShape& have = data.training.shape;
  if (have != net.input) {
    fail(
        "{}: net {} takes images of {} (channels x rows x columns), but data {} has {}; choose another net or other "
        "data, or "
        "set the net's input, as in --set input.height={}",
        net.file, net.name, text(net.input), data.name, text(have), have.height);
  }
  if (net.classes < data.classes) {
    fail("{}: net {} has {} outputs, but data {} has {} classes; set the units of the net's last dense layer to {}",
         net.file, net.name, net.classes, data.name, data.classes, data.classes);
  }
}

}  // namespace convoy
