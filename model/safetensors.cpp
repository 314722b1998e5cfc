#include "model/safetensors.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/number_type.hpp"
#include "core/text.hpp"
#include "model/checksums.hpp"
#include "model/safetensors_header.hpp"

namespace convoy {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian, and values are copied from memory");

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLargestHeader = std::uint64_t{100} << 20;  // limit of the format

std::uint64_t count_of(const std::vector<std::int64_t>& dims) {
  std::uint64_t count = 1;
  for (const std::int64_t dim : dims) count *= static_cast<std::uint64_t>(dim);
  return count;
}

// ---- writing -------------------------------------------------------------------------------------------------------

SafetensorsHeader header_of(const std::vector<TensorView>& tensors, std::map<std::string, std::string> metadata) {
  SafetensorsHeader header{.tensors = {}, .metadata = std::move(metadata)};
  std::uint64_t offset = 0;
  for (const TensorView& tensor : tensors) {
    invariant(count_of(tensor.dims) == tensor.values.size(), "a tensor has as many values as its shape says");
    const std::uint64_t end = offset + tensor.values.size_bytes();
    header.tensors.push_back({.name = tensor.name, .dtype = "F32", .dims = tensor.dims, .begin = offset, .end = end});
    set_checksum(header, tensor.name, std::as_bytes(tensor.values));
    offset = end;
  }
  seal(header);
  return header;
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

NumberType type_of(const TensorEntry& entry, const std::string& file) {
  if (entry.dtype == "F32") return NumberType::fp32;
  if (entry.dtype == "F16") return NumberType::fp16;
  if (entry.dtype == "BF16") return NumberType::bf16;
  fail("{}: its type is \"{}\"; convert it to F32, F16 or BF16", place_of_tensor(file, entry.name),
       printable(entry.dtype, 40));
}

/// Whether a tensor is the count of batches that PyTorch's batch norms keep. Convoy does not use it.
bool is_counter(const std::string& name) { return name.ends_with(".num_batches_tracked"); }

/// The bytes of a tensor. Throws Error unless they are among `data`.
std::span<const std::byte> bytes_in(std::span<const std::byte> data, const TensorEntry& entry,
                                    const std::string& file) {
  if (entry.begin > entry.end || entry.end > data.size()) {
    fail("{}: its data_offsets [{}, {}] lie outside the {} bytes of values; the file is cut off or damaged",
         place_of_tensor(file, entry.name), entry.begin, entry.end, data.size());
  }
  return data.subspan(entry.begin, entry.end - entry.begin);
}

NamedTensor tensor_of(const TensorEntry& entry, std::span<const std::byte> bytes, const std::string& file) {
  const NumberType type = type_of(entry, file);
  const std::uint64_t count = count_of(entry.dims);
  if (bytes.size() != bytes_of(type, count)) {
    fail("{}: its shape has {} values, but its data_offsets have room for {}", place_of_tensor(file, entry.name), count,
         bytes.size() / bytes_of(type, 1));
  }
  NamedTensor tensor{.name = entry.name, .dims = entry.dims, .values = std::vector<float>(count)};
  if (count > 0) decode(type, bytes.data(), tensor.values);
  return tensor;
}

/// Throws Error unless the tensors cover the values exactly once, without gaps.
void check_cover(std::vector<TensorEntry> tensors, std::uint64_t data_bytes, const std::string& file) {
  std::ranges::sort(tensors, {}, &TensorEntry::begin);
  std::uint64_t next = 0;
  for (const TensorEntry& each : tensors) {
    if (each.begin != next)
      fail("{}: tensors overlap or leave a gap at byte {} of the values; the file is damaged", file, next);
    next = each.end;
  }
  if (next != data_bytes) fail("{}: {} bytes follow the last tensor; the file is damaged", file, data_bytes - next);
}

}  // namespace

TensorsByName::TensorsByName(const SafetensorsFile& contents, std::string file) : file_(std::move(file)) {
  for (const NamedTensor& tensor : contents.tensors) sorted_.push_back(&tensor);
  std::ranges::sort(sorted_, {}, &NamedTensor::name);
}

const NamedTensor* TensorsByName::find(const std::string& name) const {
  const auto found = std::ranges::lower_bound(sorted_, name, {}, &NamedTensor::name);
  return found != sorted_.end() && (*found)->name == name ? *found : nullptr;
}

const NamedTensor& TensorsByName::get(const std::string& name, const std::vector<std::int64_t>& dims) const {
  const NamedTensor* found = find(name);
  if (found == nullptr) fail("{}: the file has no tensor {}; the file belongs to another net", file_, name);
  if (found->dims != dims) {
    fail("{}: tensor {} has the shape [{}], but the net needs [{}]; the file belongs to another net", file_, name,
         fmt::join(found->dims, ","), fmt::join(dims, ","));
  }
  return *found;
}

void write_safetensors(const std::string& file, const std::vector<TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = header_text(header_of(tensors, metadata));
  const std::uint64_t length = header.size();
  NewFile out(file + ".part");
  out.write(&length, kLengthBytes);
  out.write(header.data(), header.size());
  for (const TensorView& tensor : tensors) out.write(tensor.values.data(), tensor.values.size_bytes());
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
  const auto all = std::as_bytes(std::span(bytes));
  const auto data = all.subspan(kLengthBytes + length);
  SafetensorsHeader header = parse_header({reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length}, file);
  SafetensorsFile contents{.checked = has_checksums(header)};
  if (contents.checked) check_header(header, file);
  for (const TensorEntry& entry : header.tensors) {
    const auto values = bytes_in(data, entry, file);
    if (contents.checked) check_tensor(header, entry, values, file);
    if (!is_counter(entry.name)) contents.tensors.push_back(tensor_of(entry, values, file));
  }
  check_cover(header.tensors, data.size(), file);
  remove_checksums(header);
  contents.metadata = std::move(header.metadata);
  return contents;
}

SafetensorsFile read_safetensors(const std::string& file) {
  return parse_safetensors(read_file(file, kLargestTensorFile), file);
}

}  // namespace convoy
