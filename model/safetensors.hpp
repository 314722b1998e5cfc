// Reads and writes tensors in safetensors files (huggingface.co/docs/safetensors). A file is a little-endian 64-bit
// length of the header, a JSON header, and raw little-endian values.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/named_tensor.hpp"

namespace convoy {

struct SafetensorsFile {
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> metadata;  ///< without the checksums
  bool checked = false;                         ///< the file has checksums, and its contents have them too
};

/// Finds the tensors of a file by their names. The file must outlive it.
class TensorsByName {
 public:
  TensorsByName(const SafetensorsFile& contents, std::string file);

  /// The tensor, or nothing.
  const NamedTensor* find(const std::string& name) const;
  /// The tensor. Throws Error naming the file if the tensor is missing or its extents are not `dims`.
  const NamedTensor& get(const std::string& name, const std::vector<std::int64_t>& dims) const;

 private:
  std::string file_;
  std::vector<const NamedTensor*> sorted_;
};

/// A tensor to be written. The values belong to the caller.
struct TensorView {
  std::string name;
  std::vector<std::int64_t> dims;
  std::span<const float> values;
};

/// Writes a file of fp32 tensors with checksums (model/checksums.hpp) under a temporary name, syncs and renames it, so
/// that the file is there whole or not at all. Throws Error naming the file.
void write_safetensors(const std::string& file, const std::vector<TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata);
void write_safetensors(const std::string& file, const SafetensorsFile& contents);

/// Reads tensors of F32, F16 and BF16 and converts them to float. The counters of PyTorch's batch norms are left out.
/// Throws Error naming the file and the tensor if the file is not well formed, or has checksums that are not those of
/// its contents.
SafetensorsFile read_safetensors(const std::string& file);
/// Parses a file in memory. `file` is the name that errors give.
SafetensorsFile parse_safetensors(const std::vector<std::uint8_t>& bytes, const std::string& file);

}  // namespace convoy
