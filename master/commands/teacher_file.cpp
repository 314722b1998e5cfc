#include "master/commands/teacher_file.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/files.hpp"
#include "data/image_file.hpp"
#include "model/content_hash.hpp"
#include "model/safetensors.hpp"

namespace convoy {
namespace {

constexpr const char* kTensor = "probabilities";
constexpr const char* kIdentity = "of";
constexpr std::size_t kLargestPhotograph = std::size_t{1} << 30;

std::string hash_text(std::span<const std::uint8_t> bytes) {
  const ContentHash hash = content_hash(bytes);
  return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

std::string hash_text(const std::string& text) {
  return hash_text(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}

}  // namespace

std::string identity_of(const ImageSet& images) {
  std::string text = fmt::format("{} images of {}x{}x{}, resize {}\n", images.count(), images.shape.channels,
                                 images.shape.height, images.shape.width, images.resize);
  if (images.files.empty()) return text + hash_text(images.pixels);
  std::vector<std::string> hashes(images.files.size());
  on_all_cores(images.count(), [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    hashes[at] = hash_text(read_file(images.files[at], kLargestPhotograph));
  });
  for (const std::string& each : hashes) text += each;
  return text;
}

TeacherFile::TeacherFile(std::string file, const std::string& identity, long images, int classes)
    : file_(std::move(file)), identity_(hash_text(identity)), dims_{images, classes} {}

TeacherFile::Found TeacherFile::read() const {
  std::error_code ignored;
  if (!std::filesystem::exists(file_, ignored)) return {};
  try {
    SafetensorsFile contents = read_safetensors(file_);
    const auto of = contents.metadata.find(kIdentity);
    if (!contents.checked || contents.tensors.size() != 1 || of == contents.metadata.end() || of->second != identity_) {
      return {.probabilities = {}, .why = file_ + ": the file belongs to other teachers or other images"};
    }
    TensorsByName(contents, file_).get(kTensor, dims_);
    return {.probabilities = std::move(contents.tensors.front().values), .why = ""};
  } catch (const Error& error) {
    return {.probabilities = {}, .why = error.what()};
  }
}

void TeacherFile::write(const std::vector<float>& probabilities) const {
  write_safetensors(file_, {{.name = kTensor, .dims = dims_, .values = probabilities}}, {{kIdentity, identity_}});
}

}  // namespace convoy
