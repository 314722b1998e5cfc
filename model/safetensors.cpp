#include "model/safetensors.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/number_type.hpp"

namespace convoy {
namespace {

using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian, and values are copied from memory");

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLargestHeader = std::uint64_t{100} << 20;  // limit of the format
constexpr std::size_t kLargestFile = std::size_t{16} << 30;

std::uint64_t count_of(const std::vector<std::int64_t>& dims) {
  std::uint64_t count = 1;
  for (const std::int64_t dim : dims) count *= static_cast<std::uint64_t>(dim);
  return count;
}

// ---- writing -------------------------------------------------------------------------------------------------------

std::string header_of(const std::vector<TensorView>& tensors, const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const TensorView& tensor : tensors) {
    const std::uint64_t end = offset + tensor.values.size() * sizeof(float);
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.dims}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // aligns the values
  return text;
}

/// A file that is being written under a temporary name. The destructor removes it unless finish() has renamed it.
/// Throws Error if writing fails.
class NewFile {
 public:
  explicit NewFile(std::string name)
      : name_(std::move(name)), handle_(open(name_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
    if (handle_ < 0) failed();
  }
  ~NewFile() {
    if (handle_ < 0) return;
    close(handle_);
    unlink(name_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Writes in pieces and syncs each to disk before the next. One call with a gigabyte would keep the kernel busy for
  /// seconds; a process with a quota of less than one core would not run in this time, and its heartbeats would stop.
  void write(const void* data, std::size_t bytes) {
    constexpr std::size_t kPiece = std::size_t{32} << 20;
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t done = ::write(handle_, at, std::min(bytes, kPiece));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) failed();
      at += done;
      bytes -= static_cast<std::size_t>(done);
      unsynced_ += static_cast<std::size_t>(done);
      if (unsynced_ < kPiece) continue;
      if (fdatasync(handle_) != 0) failed();
      unsynced_ = 0;
    }
  }
  void finish(const std::string& final_name) {
    if (fsync(handle_) != 0) failed();
    if (rename(name_.c_str(), final_name.c_str()) != 0) failed();
    close(handle_);
    handle_ = -1;
    sync_folder(final_name);
  }

 private:
  /// Syncs the folder, because otherwise the new name may be lost in a power cut. Errors are ignored: some file systems
  /// cannot sync a folder and do not need it.
  static void sync_folder(const std::string& name) {
    const std::string folder = std::filesystem::absolute(name).parent_path();
    const int handle = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle < 0) return;
    fsync(handle);
    close(handle);
  }

  [[noreturn]] void failed() const {
    fail("{}: the file cannot be written: {}; check that the folder is writable and the disk is not full", name_,
         std::strerror(errno));
  }

  std::string name_;
  int handle_;
  std::size_t unsynced_ = 0;
};

// ---- reading -------------------------------------------------------------------------------------------------------

struct Extent {
  std::uint64_t begin;
  std::uint64_t end;
};

std::vector<std::int64_t> dims_of(const Json& shape, const std::string& place) {
  if (!shape.is_array() || shape.size() > 8) fail("{}: its shape is not a list of at most 8 extents", place);
  std::vector<std::int64_t> dims;
  std::uint64_t count = 1;
  for (const Json& extent : shape) {
    if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > kLargestFile) {
      fail("{}: its shape has the invalid extent {}", place, extent.dump());
    }
    dims.push_back(extent.get<std::int64_t>());
    // Both factors are at most 2^34, so the check comes before the product can overflow.
    const auto factor = extent.get<std::uint64_t>();
    if (factor > 0 && count > kLargestFile / factor) fail("{}: its shape has too many values", place);
    count *= factor;
  }
  return dims;
}

Extent extent_of(const Json& offsets, std::uint64_t data_bytes, const std::string& place) {
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    fail("{}: its data_offsets are not [begin, end]", place);
  }
  const Extent extent{offsets[0].get<std::uint64_t>(), offsets[1].get<std::uint64_t>()};
  if (extent.begin > extent.end || extent.end > data_bytes) {
    fail("{}: its data_offsets [{}, {}] lie outside the {} bytes of values; the file is cut off or damaged", place,
         extent.begin, extent.end, data_bytes);
  }
  return extent;
}

NumberType type_of(const Json& dtype, const std::string& place) {
  if (dtype == "F32") return NumberType::fp32;
  if (dtype == "F16") return NumberType::fp16;
  if (dtype == "BF16") return NumberType::bf16;
  fail("{}: its type is {}; convert it to F32, F16 or BF16", place, dtype.dump());
}

/// Whether a tensor is the count of batches that PyTorch's batch norms keep. Convoy does not use it.
bool is_counter(const std::string& name) { return name.ends_with(".num_batches_tracked"); }

NamedTensor tensor_of(const std::string& name, const Json& entry, const std::uint8_t* data, std::uint64_t data_bytes,
                      const std::string& file, std::vector<Extent>& extents) {
  const std::string place = fmt::format("{}: tensor {}", file, name);
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets")) {
    fail("{}: expected dtype, shape and data_offsets", place);
  }
  NamedTensor tensor{.name = name, .dims = dims_of(entry["shape"], place), .values = {}};
  const Extent extent = extent_of(entry["data_offsets"], data_bytes, place);
  extents.push_back(extent);
  if (is_counter(name)) return tensor;
  const NumberType type = type_of(entry["dtype"], place);
  const std::uint64_t count = count_of(tensor.dims);
  if (extent.end - extent.begin != bytes_of(type, count)) {
    fail("{}: its shape has {} values, but its data_offsets have room for {}", place, count,
         (extent.end - extent.begin) / bytes_of(type, 1));
  }
  tensor.values.resize(count);
  if (count > 0) decode(type, reinterpret_cast<const std::byte*>(data) + extent.begin, tensor.values);
  return tensor;
}

/// Throws Error unless the tensors cover the values exactly once, without gaps.
void check_cover(std::vector<Extent> extents, std::uint64_t data_bytes, const std::string& file) {
  std::sort(extents.begin(), extents.end(), [](Extent a, Extent b) { return a.begin < b.begin; });
  std::uint64_t next = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != next)
      fail("{}: tensors overlap or leave a gap at byte {} of the values; the file is damaged", file, next);
    next = extent.end;
  }
  if (next != data_bytes) fail("{}: {} bytes follow the last tensor; the file is damaged", file, data_bytes - next);
}

/// Parses the header. Throws Error for JSON that names a key twice, which the parser would accept silently.
Json parse_header(const std::string& text, const std::string& file) {
  std::vector<std::vector<std::string>> open;
  const auto unique = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key) {
      auto& keys = open.back();
      if (std::find(keys.begin(), keys.end(), value.get<std::string>()) != keys.end()) {
        fail("{}: its header names {} twice", file, value.dump());
      }
      keys.push_back(value.get<std::string>());
    }
    if (open.size() > 4) fail("{}: its header is nested too deep", file);
    return true;
  };
  try {
    return Json::parse(text, unique);
  } catch (const Json::parse_error& error) {
    fail("{}: its header is not JSON from byte {} on; expected a safetensors file", file, error.byte);
  } catch (const Json::exception&) {
    fail("{}: its header is not JSON; expected a safetensors file", file);
  }
}

}  // namespace

const NamedTensor& SafetensorsFile::get(const std::string& file, const std::string& name,
                                        const std::vector<std::int64_t>& dims) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const NamedTensor& t) { return t.name == name; });
  if (found == tensors.end()) fail("{}: the file has no tensor {}; the file belongs to another net", file, name);
  if (found->dims != dims) {
    fail("{}: tensor {} has the shape {}, but the net needs {}; the file belongs to another net", file, name,
         Json(found->dims).dump(), Json(dims).dump());
  }
  return *found;
}

void write_safetensors(const std::string& file, const std::vector<TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = header_of(tensors, metadata);
  const std::uint64_t length = header.size();
  NewFile out(file + ".part");
  out.write(&length, kLengthBytes);
  out.write(header.data(), header.size());
  for (const TensorView& tensor : tensors) {
    invariant(count_of(tensor.dims) == tensor.values.size(), "a tensor has as many values as its shape says");
    out.write(tensor.values.data(), tensor.values.size_bytes());
  }
  out.finish(file);
}

void write_safetensors(const std::string& file, const SafetensorsFile& contents) {
  std::vector<TensorView> views;
  for (const NamedTensor& tensor : contents.tensors) views.push_back({tensor.name, tensor.dims, tensor.values});
  write_safetensors(file, views, contents.metadata);
}

SafetensorsFile parse_safetensors(const std::vector<std::uint8_t>& bytes, const std::string& file) {
  if (bytes.size() < kLengthBytes) fail("{}: {} bytes are too few for a safetensors file", file, bytes.size());
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kLargestHeader || length > bytes.size() - kLengthBytes) {
    fail("{}: its header claims {} bytes of the file's {}; the file is cut off, or not a safetensors file", file,
         length, bytes.size());
  }
  const std::uint8_t* data = bytes.data() + kLengthBytes + length;
  const std::uint64_t data_bytes = bytes.size() - kLengthBytes - length;
  const Json header = parse_header(
      {bytes.begin() + kLengthBytes, bytes.begin() + static_cast<std::ptrdiff_t>(kLengthBytes + length)}, file);
  if (!header.is_object()) fail("{}: its header is not a JSON object; expected a safetensors file", file);
  SafetensorsFile contents;
  std::vector<Extent> extents;
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") {
      contents.tensors.push_back(tensor_of(name, entry, data, data_bytes, file, extents));
      if (is_counter(name)) contents.tensors.pop_back();
      continue;
    }
    if (!entry.is_object()) fail("{}: its __metadata__ is not a map of texts", file);
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) fail("{}: its __metadata__ is not a map of texts", file);
      contents.metadata[key] = value.get<std::string>();
    }
  }
  check_cover(std::move(extents), data_bytes, file);
  return contents;
}

SafetensorsFile read_safetensors(const std::string& file) {
  return parse_safetensors(read_file(file, kLargestFile), file);
}

}  // namespace convoy
