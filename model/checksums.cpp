#include "model/checksums.hpp"

#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>

#include "core/error.hpp"

namespace convoy {
namespace {

const std::string kHeader = "xxh3_64";
const std::string kTensor = "xxh3_64:";

std::string hex(XXH64_hash_t hash) { return fmt::format("{:016x}", hash); }

std::string checksum_of(std::span<const std::byte> bytes) { return hex(XXH3_64bits(bytes.data(), bytes.size())); }

bool is_checksum(const std::string& key) { return key == kHeader || key.starts_with(kTensor); }

/// The header's contents, as model/checksums.hpp describes them.
std::string contents_of(const SafetensorsHeader& header) {
  std::string text;
  for (const auto& [key, value] : header.metadata) {
    if (key == kHeader) continue;
    text += fmt::format("{}:{}{}:{}", key.size(), key, value.size(), value);
  }
  std::vector<const TensorEntry*> tensors;
  for (const TensorEntry& each : header.tensors) tensors.push_back(&each);
  std::ranges::sort(tensors, {}, &TensorEntry::name);
  for (const TensorEntry* each : tensors) {
    text += fmt::format("{}:{}{} {} {} {}\n", each->name.size(), each->name, each->dtype, fmt::join(each->dims, ","),
                        each->begin, each->end);
  }
  return text;
}

std::string checksum_of(const SafetensorsHeader& header) {
  return checksum_of(std::as_bytes(std::span<const char>(contents_of(header))));
}

constexpr const char* kCause =
    "the file is damaged, or another program has changed it and kept the checksums of before in its metadata";

}  // namespace

void set_checksum(SafetensorsHeader& header, const std::string& tensor, std::span<const std::byte> bytes) {
  header.metadata[kTensor + tensor] = checksum_of(bytes);
}

void seal(SafetensorsHeader& header) { header.metadata[kHeader] = checksum_of(header); }

bool has_checksums(const SafetensorsHeader& header) {
  return std::ranges::any_of(header.metadata, [](const auto& entry) { return is_checksum(entry.first); });
}

void check_header(const SafetensorsHeader& header, const std::string& file) {
  const auto found = header.metadata.find(kHeader);
  if (found == header.metadata.end()) fail("{}: the checksum of its header is missing; {}", file, kCause);
  if (found->second != checksum_of(header)) fail("{}: its header does not have its checksum; {}", file, kCause);
  for (const TensorEntry& each : header.tensors) {
    if (header.metadata.contains(kTensor + each.name)) continue;
    fail("{}: its checksum is missing; {}", place_of_tensor(file, each.name), kCause);
  }
}

void check_tensor(const SafetensorsHeader& header, const TensorEntry& tensor, std::span<const std::byte> bytes,
                  const std::string& file) {
  if (header.metadata.at(kTensor + tensor.name) == checksum_of(bytes)) return;
  fail("{}: its values do not have their checksum; {}", place_of_tensor(file, tensor.name), kCause);
}

void remove_checksums(SafetensorsHeader& header) {
  std::erase_if(header.metadata, [](const auto& entry) { return is_checksum(entry.first); });
}

}  // namespace convoy
