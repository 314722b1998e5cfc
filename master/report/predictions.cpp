#include "master/report/predictions.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/error.hpp"
#include "core/output.hpp"
#include "core/text.hpp"
#include "data/image_file.hpp"

namespace convoy {

namespace fs = std::filesystem;

std::vector<std::string> image_files(const std::vector<std::string>& places) {
  std::vector<std::string> files;
  for (const std::string& place : places) {
    std::error_code error;
    if (!fs::is_directory(place, error)) {
      files.push_back(place);
      continue;
    }
    std::vector<std::string> inside;
    for (fs::recursive_directory_iterator at(place, error), end; !error && at != end; at.increment(error)) {
      // A link that leads nowhere is no regular file, and must not be left out in silence.
      if (!at->is_directory() && is_image_file(at->path().string())) inside.push_back(at->path().string());
    }
    if (error) fail("{}: the folder cannot be listed: {}", place, error.message());
    if (inside.empty()) fail("{}: the folder has no JPEG, PNG or WebP file; give another folder", place);
    std::ranges::sort(inside);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

std::vector<std::string> read_images(const std::vector<std::string>& files, std::size_t first, const Net& net,
                                     Corrupt corrupt, Pixels& pixels) {
  const auto count = static_cast<int>(std::min(files.size() - first, static_cast<std::size_t>(pixels.shape().n)));
  std::vector<std::string> wrong(static_cast<std::size_t>(count));
  std::ranges::fill(pixels.span(), std::uint8_t{0});
  on_all_cores(count, [&](int i) {
    try {
      const Picture picture = read_image(files[first + static_cast<std::size_t>(i)], least_for(net.input, net.resize));
      cut_view(picture, net.input, {.resize = net.resize}, pixels.sample(i));
    } catch (const Error& error) {
      wrong[i] = error.what();
    }
  });
  const auto bad = std::ranges::find_if(wrong, [](const std::string& what) { return !what.empty(); });
  if (corrupt == Corrupt::refuse && bad != wrong.end()) {
    fail("{}; repair or remove it, or leave such files out with --corrupt skip", *bad);
  }
  return wrong;
}

void print_skipped(const std::string& file, const std::string& what, const std::string& format) {
  if (format == "json") {
    const nlohmann::ordered_json line{{"event", "skipped"}, {"image", file}, {"why", what}};
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    put(stderr, fmt::format("convoy-master: {}; skipped\n", printable(what)));
  }
}

void print_skipped_total(std::size_t skipped, std::size_t files, const std::string& format) {
  if (skipped == 0) return;
  if (skipped == files) fail("none of the {} files could be decoded; give JPEG, PNG or WebP files", files);
  if (format == "text") put(stderr, fmt::format("convoy-master: {} of {} files were skipped\n", skipped, files));
}

void expect_finite_outputs(const std::string& image, std::span<const float> outputs, const std::string& whose) {
  if (std::ranges::all_of(outputs, [](float value) { return std::isfinite(value); })) return;
  fail(
      "{}: {} outputs for this image are not finite numbers; check that the weights belong to this net, and "
      "that input.mean and input.deviation are those of its training",
      image, whose);
}

void expect_scales(const Net& net) {
  if (!net.scales.empty()) return;
  fail(
      "{}: the file has no mean and deviation of the pixels; take the config.yaml of the run that made the weights, "
      "or give mean and deviation of pixel / 255, as in --set input.mean=[0.5,0.5,0.5] --set input.deviation=0.25",
      net.file);
}

void print_prediction(const std::string& file, std::span<const float> scores, const PredictionStyle& style) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t c) { return scores[c]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(style.top)));
  const auto name = [&](std::size_t c) {
    return c < style.class_names.size() ? style.class_names[c] : fmt::format("class {}", c);
  };
  if (style.format == "json") {
    auto classes = nlohmann::ordered_json::array();
    for (const std::size_t c : order) {
      classes.push_back({{"class", c}, {"name", name(c)}, {style.score, scores[c]}});
    }
    const nlohmann::ordered_json line{{"event", "prediction"}, {"image", file}, {"classes", classes}};
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  std::vector<std::string> words;
  for (const std::size_t c : order) {
    words.push_back(style.shares ? fmt::format("{:.1f} % {}", 100.0 * scores[c], name(c))
                                 : fmt::format("{:.3f} {}", scores[c], name(c)));
  }
  fmt::print("{}\n", printable(fmt::format("{}: {}", file, fmt::join(words, ", "))));
}

}  // namespace convoy
