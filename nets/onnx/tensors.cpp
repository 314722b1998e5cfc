// Tensors of an ONNX file, with their values in the file or beside it.

#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/number_type.hpp"
#include "nets/onnx/proto.hpp"

namespace convoy::onnx_file {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostTensorValues = std::int64_t{1} << 30;

/// The values of a tensor, from its raw bytes or else from `field`, the field of its type.
template <class T, class Field>
std::vector<T> values_of(const std::string* raw, const Field& field) {
  if (raw == nullptr) return {field.begin(), field.end()};
  std::vector<T> values(raw->size() / sizeof(T));
  std::memcpy(values.data(), raw->data(), values.size() * sizeof(T));
  return values;
}

std::size_t bytes_of(int type) {
  switch (type) {
    case onnx::TensorProto::FLOAT:
    case onnx::TensorProto::INT32:
    case onnx::TensorProto::UINT32: return 4;
    case onnx::TensorProto::DOUBLE:
    case onnx::TensorProto::INT64:
    case onnx::TensorProto::UINT64: return 8;
    case onnx::TensorProto::INT16:
    case onnx::TensorProto::UINT16:
    case onnx::TensorProto::FLOAT16:
    case onnx::TensorProto::BFLOAT16: return 2;
    default: return 1;
  }
}

void set_halves(NumberType type, const std::vector<std::uint16_t>& halves, Constant& constant) {
  constant.floats.resize(halves.size());
  decode(type, reinterpret_cast<const std::byte*>(halves.data()), constant.floats);
}

/// Sets the values from `raw`, or from the tensor's own fields if it is null. Returns false for a type that is unknown.
bool set_values(const onnx::TensorProto& tensor, const std::string* raw, Constant& constant) {
  const auto whole = [&](const auto& values) {
    constant.integers.assign(values.begin(), values.end());
    constant.whole = true;
  };
  switch (tensor.data_type()) {
    case onnx::TensorProto::FLOAT: constant.floats = values_of<float>(raw, tensor.float_data()); return true;
    case onnx::TensorProto::DOUBLE:
      for (const double value : values_of<double>(raw, tensor.double_data())) {
        constant.floats.push_back(static_cast<float>(value));
      }
      return true;
    case onnx::TensorProto::FLOAT16:
      set_halves(NumberType::fp16, values_of<std::uint16_t>(raw, tensor.int32_data()), constant);
      return true;
    case onnx::TensorProto::BFLOAT16:
      set_halves(NumberType::bf16, values_of<std::uint16_t>(raw, tensor.int32_data()), constant);
      return true;
    case onnx::TensorProto::INT64: whole(values_of<std::int64_t>(raw, tensor.int64_data())); return true;
    case onnx::TensorProto::INT32: whole(values_of<std::int32_t>(raw, tensor.int32_data())); return true;
    case onnx::TensorProto::INT16: whole(values_of<std::int16_t>(raw, tensor.int32_data())); return true;
    case onnx::TensorProto::INT8: whole(values_of<std::int8_t>(raw, tensor.int32_data())); return true;
    case onnx::TensorProto::UINT64:
      // A value beyond 63 bits would turn negative. No shape and no index has one.
      for (const std::uint64_t value : values_of<std::uint64_t>(raw, tensor.uint64_data())) {
        if (value >> 63U != 0) return false;
      }
      whole(values_of<std::uint64_t>(raw, tensor.uint64_data()));
      return true;
    case onnx::TensorProto::UINT32: whole(values_of<std::uint32_t>(raw, tensor.uint64_data())); return true;
    case onnx::TensorProto::UINT16: whole(values_of<std::uint16_t>(raw, tensor.int32_data())); return true;
    case onnx::TensorProto::UINT8:
    case onnx::TensorProto::BOOL: whole(values_of<std::uint8_t>(raw, tensor.int32_data())); return true;
    default: return false;
  }
}

}  // namespace

Constant TensorReader::read(const onnx::TensorProto& tensor) {
  Constant constant;
  std::int64_t count = 1;
  for (const std::int64_t extent : tensor.dims()) {
    if (extent < 0 || extent > kMostTensorValues || (extent > 0 && count > kMostTensorValues / extent)) {
      fail("{}: tensor {} has an extent of {}, or more than {} values", file_, tensor.name(), extent,
           kMostTensorValues);
    }
    count *= extent;
    constant.dims.push_back(extent);
  }
  std::string bytes;
  const std::string* raw = tensor.has_raw_data() ? &tensor.raw_data() : nullptr;
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    bytes = outside(tensor, static_cast<std::size_t>(count) * bytes_of(tensor.data_type()));
    raw = &bytes;
  }
  if (!set_values(tensor, raw, constant)) {
    // A library that is older than the type has no name for it.
    const std::string name = onnx::TensorProto::DataType_Name(tensor.data_type());
    fail(
        "{}: tensor {} is of {}; expected float, double, float16, bfloat16, truth values, or integers of 8 to 64 bits "
        "that are less than 2 to the power of 63",
        file_, tensor.name(),
        name.empty() ? fmt::format("the type with the number {}", tensor.data_type()) : "type " + name);
  }
  if (static_cast<std::int64_t>(constant.size()) != count) {
    fail("{}: tensor {} holds {} values; its extents need {}", file_, tensor.name(), constant.size(), count);
  }
  return constant;
}

std::string TensorReader::place_of(const onnx::TensorProto& tensor, const std::string& location) {
  if (folder_.empty()) {
    fail("{}: tensor {} has its data in another file; save the model as one file with its weights", file_,
         tensor.name());
  }
  const fs::path path(location);
  bool leaves = location.empty() || path.is_absolute();
  for (const fs::path& part : path) leaves = leaves || part == "..";
  std::error_code missing;
  const fs::path folder = fs::canonical(folder_, missing);
  const fs::path whole = missing ? fs::path() : fs::canonical(folder / path, missing);
  if (!leaves && missing) {
    fail("{}: tensor {} has its data in the file {}, which is not in the folder {}; keep both files together", file_,
         tensor.name(), location, folder_);
  }
  // A link may lead out of the folder, too.
  leaves = leaves || !whole.string().starts_with((folder / "").string());
  if (leaves) {
    fail("{}: tensor {} has its data in the file {}, which is outside of the model's folder; put it beside the model",
         file_, tensor.name(), location);
  }
  if (!fs::is_regular_file(whole, missing)) {
    fail("{}: tensor {} has its data in {}, which is not a file", file_, tensor.name(), location);
  }
  return whole.string();
}

std::string TensorReader::outside(const onnx::TensorProto& tensor, std::size_t bytes) {
  std::string location;
  std::map<std::string, std::uint64_t> numbers{{"offset", 0}, {"length", bytes}};
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    const auto number = numbers.find(entry.key());
    if (number == numbers.end()) continue;
    const char* const end = entry.value().data() + entry.value().size();
    if (std::from_chars(entry.value().data(), end, number->second).ptr != end || entry.value().empty()) {
      fail("{}: tensor {} has its data at the {} {}, which is not a number", file_, tensor.name(), entry.key(),
           entry.value());
    }
  }
  const std::string place = place_of(tensor, location);
  std::error_code error;
  const auto [known, fresh] = sizes_.emplace(place, 0);
  if (fresh) known->second = fs::file_size(place, error);
  if (error) fail("{}: the size of {} cannot be read: {}", file_, location, error.message());
  if (fresh) known_ += known->second;
  const std::uint64_t offset = numbers["offset"];
  if (numbers["length"] != bytes) {
    fail("{}: tensor {} has {} bytes in the file {}; its extents need {}", file_, tensor.name(), numbers["length"],
         location, bytes);
  }
  if (offset > known->second || bytes > known->second - offset) {
    fail(
        "{}: tensor {} has its data at bytes {} to {} of {}, which has {}; the file is cut off, so save the model "
        "again",
        file_, tensor.name(), offset, offset + bytes, location, known->second);
  }
  // Tensors that share bytes must not fill the memory.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 33;
  taken_ += bytes;
  if (taken_ > kMost) fail("{}: its tensors have more than {} bytes", file_, kMost);
  if (taken_ > 2 * known_) fail("{}: its tensors share bytes of {} many times; save the model again", file_, location);
  std::string data(bytes, '\0');
  std::ifstream stream(place, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(offset));
  if (!stream.read(data.data(), static_cast<std::streamsize>(bytes))) {
    fail("{}: the data of tensor {} cannot be read from {}", file_, tensor.name(), location);
  }
  return data;
}

Constant read_tensor(const std::string& bytes, const std::string& file) {
  onnx::TensorProto tensor;
  if (!tensor.ParseFromString(bytes)) fail("{}: the file is not an ONNX tensor", file);
  return TensorReader(file, "").read(tensor);
}

}  // namespace convoy::onnx_file
