#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/exit_code.hpp"
#include "core/output.hpp"
#include "core/stop_signal.hpp"
#include "core/text.hpp"
#include "data/batches.hpp"
#include "data/image_file.hpp"
#include "devices/paced_device.hpp"
#include "master/cluster/cluster_learner.hpp"
#include "master/commands/load_net.hpp"
#include "master/commands/pass_energy.hpp"
#include "master/report/energy_json.hpp"
#include "master/report/text_observer.hpp"
#include "train/train.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;

/// Lists the image files. A folder is replaced by its JPEG and PNG files in the order of their names.
std::vector<std::string> files_of(const std::vector<std::string>& places) {
  std::vector<std::string> files;
  for (const std::string& place : places) {
    std::error_code error;
    if (!fs::is_directory(place, error)) {
      files.push_back(place);
      continue;
    }
    std::vector<std::string> inside;
    for (fs::recursive_directory_iterator at(place, error), end; !error && at != end; at.increment(error)) {
      if (at->is_regular_file() && is_image_file(at->path().string())) inside.push_back(at->path().string());
    }
    if (error) fail("{}: the folder cannot be listed: {}", place, error.message());
    if (inside.empty()) fail("{}: the folder has no JPEG or PNG file; give another folder", place);
    std::ranges::sort(inside);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

/// Reads as many images from `first` on as fit, and fills the rest with black. Returns a message for each file that
/// cannot be decoded and an empty text for the others. With Corrupt::refuse it throws the Error of the first such file.
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
      wrong[static_cast<std::size_t>(i)] = error.what();
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
    put(stderr, fmt::format("convoy-master: {}; skipped\n", what));
  }
}

/// Prints how many files were skipped. Throws Error if all files were skipped.
void print_summary(std::size_t skipped, std::size_t files, const std::string& format) {
  if (skipped == 0) return;
  if (skipped == files) fail("none of the {} files could be decoded; give JPEG or PNG files", files);
  if (format == "text") put(stderr, fmt::format("convoy-master: {} of {} files were skipped\n", skipped, files));
}

/// The scores of an image: probabilities if the net ends with softmax, otherwise its outputs unchanged.
std::vector<float> probabilities(const std::string& file, std::span<const float> outputs, bool softmax) {
  std::vector<float> values(outputs.begin(), outputs.end());
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) {
    fail(
        "{}: the net's outputs for this image are not finite numbers; check that the weights belong to this net, and "
        "that input.mean and input.deviation are those of its training",
        file);
  }
  if (!softmax) return values;
  const float top = *std::ranges::max_element(values);
  double sum = 0.0;
  for (float& value : values) {
    value = std::exp(value - top);
    sum += value;
  }
  for (float& value : values) value = static_cast<float>(value / sum);
  return values;
}

void print(const std::string& file, const std::vector<float>& scores, const Net& net, const PredictOptions& options,
           bool softmax) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t c) { return scores[c]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(options.top)));
  const auto name = [&](std::size_t c) {
    return c < net.class_names.size() ? net.class_names[c] : fmt::format("class {}", c);
  };
  if (options.net.format == "json") {
    auto classes = nlohmann::ordered_json::array();
    for (const std::size_t c : order) {
      classes.push_back({{"class", c}, {"name", name(c)}, {softmax ? "probability" : "score", scores[c]}});
    }
    const nlohmann::ordered_json line{{"event", "prediction"}, {"image", file}, {"classes", classes}};
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  std::vector<std::string> words;
  for (const std::size_t c : order) {
    words.push_back(softmax ? fmt::format("{:.1f} % {}", 100.0 * scores[c], name(c))
                            : fmt::format("{:.3f} {}", scores[c], name(c)));
  }
  fmt::print("{}: {}\n", file, fmt::join(words, ", "));
}

/// Prints what the answers took. In text it is no answer, so that it goes where the skipped files are told.
void print_energy(const EnergyReport& energy, const EnergyUse& use, const std::string& format) {
  if (format == "json") {
    nlohmann::ordered_json line{{"event", "energy"}, {"images", std::lround(use.images)}, {"seconds", use.seconds}};
    line.update(energy_json(energy, use));
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  for (const std::string& line : energy_lines(energy, use)) put(stderr, printable(line) + "\n");
}

}  // namespace

int predict_command(const PredictOptions& options) {
  expect_computing(options.net.device, "predict");
  const Net net = load_net(options.net);
  if (net.scales.empty()) {
    fail(
        "{}: the file has no mean and deviation of the pixels; take the config.yaml of the run that made the weights, "
        "or give mean and deviation of pixel / 255, as in --set input.mean=[0.5,0.5,0.5] --set input.deviation=0.25",
        net.file);
  }
  const Cut cut = convoy::cut(net);
  const auto weights = std::make_shared<const ModelState>(read_weights(options.weights, cut));
  const std::vector<std::string> files = files_of(options.images);
  PassEnergy energy(options.energy);
  Observers observers;
  if (options.net.format == "text" && options.cluster.slaves > 0) observers.push_back(make_text_observer());
  const std::atomic<bool>& stop = catch_stop_signals();
  const auto cluster = Cluster::assemble(options.cluster, options.net, net, cut, observers, stop);
  if (!cluster) return kInterrupted;
  const int batch = net.training.batch;
  const bool softmax = std::holds_alternative<SoftmaxCrossEntropy>(net.layers.back().spec);
  ClusterLearner learner(*cluster, cut, batch, options.net.device_options.threads);
  learner.load({weights});
  Images images{Pixels({batch, net.input.channels, net.input.height, net.input.width}), net.scales};
  std::size_t skipped = 0;
  std::size_t first = 0;
  energy.begin(*cluster);
  while (first < files.size() && !stop) {
    const std::vector<std::string> wrong = read_images(files, first, net, options.net.corrupt, images.pixels);
    const Tensor& outputs = learner.outputs(images);
    for (int n = 0; n < batch && first < files.size(); ++n, ++first) {
      if (const std::string& what = wrong[static_cast<std::size_t>(n)]; !what.empty()) {
        print_skipped(files[first], what, options.net.format);
        ++skipped;
        continue;
      }
      print(files[first], probabilities(files[first], outputs.sample(n), softmax), net, options, softmax);
    }
    energy.count(*cluster, learner);
  }
  const EnergyReport spent = energy.end(*cluster);
  cluster->dismiss("all images are classified");
  print_energy(spent, energy.use(cut, static_cast<long>(first - skipped)), options.net.format);
  if (!stop) print_summary(skipped, files.size(), options.net.format);
  return stop ? kInterrupted : kSuccess;
}

}  // namespace convoy
