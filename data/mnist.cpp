#include <filesystem>

#include "data/dataset.hpp"
#include "data/read_bytes.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestIdxFile = std::size_t{1} << 30;
constexpr std::uint32_t kImageMagic = 0x00000803;  // unsigned bytes, three dimensions
constexpr std::uint32_t kLabelMagic = 0x00000801;  // unsigned bytes, one dimension
constexpr int kDigits = 10;

std::string find_file(const std::string& folder, const std::string& part, const std::string& kind) {
  for (const char* separator : {"-", "."}) {
    for (const char* ending : {"", ".gz"}) {
      const std::string file = folder + "/" + part + separator + kind + ending;
      if (fs::exists(file)) return file;
    }
  }
  fail("{}: the folder lacks MNIST's file {}-{} (or {}-{}.gz)", folder, part, kind, part, kind);
}

std::uint32_t word(const std::vector<std::uint8_t>& bytes, std::size_t at) {
  return static_cast<std::uint32_t>(bytes[at]) << 24 | static_cast<std::uint32_t>(bytes[at + 1]) << 16 |
         static_cast<std::uint32_t>(bytes[at + 2]) << 8 | static_cast<std::uint32_t>(bytes[at + 3]);
}

/// Reads an IDX file with as many extents as `extents` has, and fills them in. Returns the bytes after the header.
/// Throws Error unless the magic number and the size of the file fit.
std::vector<std::uint8_t> read_idx(const std::string& file, std::uint32_t magic, std::vector<std::uint32_t>& extents) {
  std::vector<std::uint8_t> bytes = read_bytes(file, kLargestIdxFile);
  const std::size_t header = 4 + 4 * extents.size();
  if (bytes.size() < 4 || word(bytes, 0) != magic) {
    fail("{}: the file begins with {:#010x}; expected the magic number {:#010x} of an IDX file of bytes", file,
         bytes.size() < 4 ? 0 : word(bytes, 0), magic);
  }
  if (bytes.size() < header) fail("{}: the file is cut off in its header; fetch it again", file);
  std::size_t values = 1;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    extents[i] = word(bytes, 4 + 4 * i);
    if (extents[i] == 0 || extents[i] > kLargestIdxFile)
      fail("{}: extent {} is {}; expected 1 to {}", file, i, extents[i], kLargestIdxFile);
    values = values > kLargestIdxFile ? values : values * extents[i];
  }
  if (bytes.size() - header != values) {
    fail("{}: its header announces {} bytes, but {} follow; the file is cut off or damaged, so fetch it again", file,
         values, bytes.size() - header);
  }
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
  return bytes;
}

ImageSet read_part(const std::string& folder, const std::string& part) {
  const std::string image_file = find_file(folder, part + "-images", "idx3-ubyte");
  const std::string label_file = find_file(folder, part + "-labels", "idx1-ubyte");
  std::vector<std::uint32_t> extents(3);
  ImageSet images;
  images.pixels = read_idx(image_file, kImageMagic, extents);
  if (extents[1] > 4096 || extents[2] > 4096)
    fail("{}: the images are {}x{}; the limit is 4096x4096", image_file, extents[1], extents[2]);
  images.shape = {1, static_cast<int>(extents[1]), static_cast<int>(extents[2])};
  std::vector<std::uint32_t> count(1);
  const std::vector<std::uint8_t> labels = read_idx(label_file, kLabelMagic, count);
  images.labels.assign(labels.begin(), labels.end());
  if (count[0] != extents[0]) {
    fail("{}: the file has {} labels, but {} has {} images; the files do not belong together", label_file, count[0],
         image_file, extents[0]);
  }
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    if (images.labels[i] >= kDigits) {
      fail("{}: label {} is {}; expected 0 to {}", label_file, i, images.labels[i], kDigits - 1);
    }
  }
  return images;
}

}  // namespace

DataSet read_mnist(const std::string& folder) {
  DataSet data{
      .name = "MNIST", .classes = kDigits, .training = read_part(folder, "train"), .test = read_part(folder, "t10k")};
  if (data.training.shape != data.test.shape) {
    fail("{}: training and test images differ in size; the files do not belong together", folder);
  }
  return data;
}

}  // namespace convoy
