// Tensors in safetensors files (the format of huggingface.co/docs/safetensors): a little-endian 64-bit header length, a
// JSON header, raw little-endian values.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/named_tensor.hpp"

namespace convoy {

struct SafetensorsFile {
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> metadata;

  /// Throws Error naming `file` when there is no such tensor or its extents differ.
  const NamedTensor& get(const std::string& file, const std::string& name, const std::vector<std::int64_t>& dims) const;
};

/// A tensor to be written, whose values lie elsewhere.
struct TensorView {
  std::string name;
  std::vector<std::int64_t> dims;
  std::span<const float> values;
};

/// Written to a temporary name, synced and renamed: the file is there whole or not at all. Throws Error naming the
/// file.
void write_safetensors(const std::string& file, const std::vector<TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata);
void write_safetensors(const std::string& file, const SafetensorsFile& contents);

/// Throws Error naming the file and the tensor for everything that is not well formed; of F32, F16 and BF16, which become
/// floats. What PyTorch's batch norms count is left out.
SafetensorsFile read_safetensors(const std::string& file);
/// The same from memory; `file` serves for messages.
SafetensorsFile parse_safetensors(const std::vector<std::uint8_t>& bytes, const std::string& file);

}  // namespace convoy
