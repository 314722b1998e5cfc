#include "model/safetensors_header.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.hpp"
#include "core/text.hpp"

namespace convoy {
namespace {

using Json = nlohmann::json;

constexpr const char* kMetadata = "__metadata__";
constexpr std::size_t kMostExtents = 8;
constexpr std::size_t kShown = 120;  ///< bytes of a foreign text that an error shows

/// Takes the parser's events one by one, so that no tree is built of a foreign file: a tree may be as deep as the file
/// is long, and the tree of a list of numbers takes many times the bytes of its text.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderReader(const std::string& file) : file_(file) {}

  SafetensorsHeader take() {
    expect_names_once();
    return std::move(header_);
  }

  bool null() override { return scalar({.shown = "null"}); }
  bool boolean(bool value) override { return scalar({.shown = value ? "true" : "false"}); }
  bool number_integer(number_integer_t value) override { return scalar({.shown = std::to_string(value)}); }
  bool number_unsigned(number_unsigned_t value) override {
    return scalar({.shown = std::to_string(value), .count = value});
  }
  bool number_float(number_float_t, const string_t& text) override {
    return scalar({.shown = printable(text, kShown)});
  }
  bool string(string_t& text) override { return scalar({.shown = quoted(text), .text = &text}); }
  bool binary(binary_t&) override { return scalar({.shown = "binary"}); }

  bool start_object(std::size_t) override {
    if (place_ == Place::outside) {
      place_ = Place::root;
    } else if (place_ == Place::root) {
      place_ = name_ == kMetadata ? Place::metadata : Place::entry;
      entry_ = {.name = name_};
      given_ = {};
    } else {
      too_deep();
    }
    return true;
  }
  bool end_object() override {
    if (place_ == Place::entry) {
      if (!given_.dtype || !given_.shape || !given_.offsets) no_entry();
      header_.tensors.push_back(std::move(entry_));
    }
    place_ = place_ == Place::root ? Place::outside : Place::root;
    return true;
  }
  bool start_array(std::size_t) override {
    if (place_ == Place::outside) no_object();
    if (place_ == Place::root) no_map();
    if (place_ == Place::metadata) no_texts();
    if (place_ != Place::entry) too_deep();
    if (field_ != "shape" && field_ != "data_offsets") too_deep();
    place_ = field_ == "shape" ? Place::shape : Place::offsets;
    list_.clear();
    return true;
  }
  bool end_array() override {
    place_ == Place::shape ? end_shape() : end_offsets();
    place_ = Place::entry;
    return true;
  }
  bool key(string_t& text) override {
    if (place_ == Place::root) {
      name_ = text;
      if (name_ == kMetadata && std::exchange(has_metadata_, true)) twice(name_);
      return true;
    }
    field_ = text;
    if (place_ == Place::metadata && header_.metadata.contains(field_)) twice(field_);
    if (place_ == Place::entry) note_field();
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception&) override {
    fail("{}: its header is not JSON from byte {} on; expected a safetensors file", file_, byte);
  }

 private:
  enum class Place { outside, root, metadata, entry, shape, offsets };
  /// A value that is neither a list nor a map.
  struct Scalar {
    std::string shown;  ///< for errors
    const std::string* text = nullptr;
    std::optional<std::uint64_t> count = {};
  };
  /// The fields that an entry had so far.
  struct Given {
    bool dtype = false;
    bool shape = false;
    bool offsets = false;
  };

  static std::string quoted(const std::string& text) { return fmt::format("\"{}\"", printable(text, kShown)); }
  std::string tensor() const { return place_of_tensor(file_, name_); }

  void note_field() {
    bool* given = field_ == "dtype"          ? &given_.dtype
                  : field_ == "shape"        ? &given_.shape
                  : field_ == "data_offsets" ? &given_.offsets
                                             : nullptr;
    if (given != nullptr && std::exchange(*given, true)) twice(field_);
  }

  bool scalar(const Scalar& value) {
    switch (place_) {
      case Place::outside: no_object();
      case Place::root: no_map();
      case Place::metadata:
        if (value.text == nullptr) no_texts();
        header_.metadata.emplace(field_, *value.text);
        break;
      case Place::entry: take_field(value); break;
      case Place::shape: take_extent(value); break;
      case Place::offsets:
        if (!value.count || list_.size() == 2) no_offsets();
        list_.push_back(*value.count);
        break;
    }
    return true;
  }

  void take_field(const Scalar& value) {
    if (field_ == "dtype") {
      if (value.text == nullptr) fail("{}: its type is {}; expected a text such as F32", tensor(), value.shown);
      entry_.dtype = *value.text;
    }
    if (field_ == "shape") no_shape();
    if (field_ == "data_offsets") no_offsets();
  }

  void take_extent(const Scalar& value) {
    if (list_.size() == kMostExtents) no_shape();
    if (!value.count || *value.count > kLargestTensorFile) {
      fail("{}: its shape has the invalid extent {}", tensor(), value.shown);
    }
    list_.push_back(*value.count);
  }

  void end_shape() {
    std::uint64_t count = 1;
    for (const std::uint64_t extent : list_) {
      // Both factors are at most 2^34, so the check comes before the product can overflow.
      if (extent > 0 && count > kLargestTensorFile / extent) fail("{}: its shape has too many values", tensor());
      count *= extent;
      entry_.dims.push_back(static_cast<std::int64_t>(extent));
    }
  }

  void end_offsets() {
    if (list_.size() != 2) no_offsets();
    entry_.begin = list_[0];
    entry_.end = list_[1];
  }

  void expect_names_once() const {
    std::vector<std::string_view> names;
    for (const TensorEntry& each : header_.tensors) names.push_back(each.name);
    std::ranges::sort(names);
    const auto same = std::ranges::adjacent_find(names);
    if (same != names.end()) twice(std::string(*same));
  }

  [[noreturn]] void no_object() const {
    fail("{}: its header is not a JSON object; expected a safetensors file", file_);
  }
  [[noreturn]] void no_map() const {
    if (name_ == kMetadata) no_texts();
    no_entry();
  }
  [[noreturn]] void no_texts() const { fail("{}: its __metadata__ is not a map of texts", file_); }
  [[noreturn]] void no_entry() const { fail("{}: expected dtype, shape and data_offsets", tensor()); }
  [[noreturn]] void no_shape() const {
    fail("{}: its shape is not a list of at most {} extents", tensor(), kMostExtents);
  }
  [[noreturn]] void no_offsets() const { fail("{}: its data_offsets are not [begin, end]", tensor()); }
  [[noreturn]] void too_deep() const { fail("{}: its header is nested too deep; the file is damaged", file_); }
  [[noreturn]] void twice(const std::string& name) const { fail("{}: its header names {} twice", file_, quoted(name)); }

  const std::string& file_;
  SafetensorsHeader header_;
  bool has_metadata_ = false;

  // Where the parser stands.
  Place place_ = Place::outside;
  std::string name_;   ///< of the tensor, or kMetadata
  std::string field_;  ///< within the tensor's entry or the metadata
  TensorEntry entry_;
  Given given_;
  std::vector<std::uint64_t> list_;
};

}  // namespace

SafetensorsHeader parse_header(std::string_view text, const std::string& file) {
  // The parser takes a zero byte for the end of the text.
  const std::size_t zero = text.find('\0');
  if (zero != std::string_view::npos)
    fail("{}: its header is not JSON from byte {} on; the file is damaged", file, zero);
  HeaderReader reader(file);
  Json::sax_parse(text.begin(), text.end(), &reader);
  return reader.take();
}

std::string header_text(const SafetensorsHeader& header) {
  std::vector<std::string> entries;
  if (!header.metadata.empty()) entries.push_back(fmt::format("\"{}\":{}", kMetadata, Json(header.metadata).dump()));
  for (const TensorEntry& tensor : header.tensors) {
    entries.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                  Json(tensor.name).dump(), tensor.dtype, fmt::join(tensor.dims, ","), tensor.begin,
                                  tensor.end));
  }
  std::string text = fmt::format("{{{}}}", fmt::join(entries, ","));
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

std::string place_of_tensor(const std::string& file, const std::string& name) {
  return fmt::format("{}: tensor {}", file, printable(name, kShown));
}

}  // namespace convoy
