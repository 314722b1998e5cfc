#include "model/checkpoint.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>

#include "core/text.hpp"
#include "model/misfits.hpp"
#include "model/safetensors.hpp"
#include "model/valid_values.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "convoy checkpoint 2";

std::string last_in(const std::string& folder) { return folder + "/checkpoint.safetensors"; }
std::string previous_in(const std::string& folder) { return folder + "/checkpoint-previous.safetensors"; }

/// The extents in PyTorch's form: (filters, channels, rows, columns) for convolutions, (units, inputs) for dense
/// layers, and one extent for biases.
std::vector<std::int64_t> dims_of(const Shape& shape, bool convolution, bool dense) {
  if (dense) return {shape.n, static_cast<std::int64_t>(shape.sample_size())};
  if (convolution) return {shape.n, shape.c, shape.h, shape.w};
  if (shape.c == 1) return {shape.n};
  return {shape.n, shape.c};
}

constexpr std::array<const char*, 2> kMoments{".velocity", ".squares"};
constexpr const char* kOuter = ".outer";

/// Calls visit(name, dims, tensor) for every tensor of a model, in the order of the layers.
template <class Model, class Visit>
void for_each_tensor(const Cut& cut, Model& model, bool moments, Visit visit) {
  const auto visit_parameter = [&](const std::string& name, const std::vector<std::int64_t>& dims, auto& parameter) {
    visit(name, dims, parameter.value);
    for (std::size_t m = 0; moments && m < parameter.moments.size(); ++m) {
      visit(name + kMoments.at(m), dims, parameter.moments[m]);
    }
  };
  for (std::size_t s = 0; s < cut.trunk.size(); ++s) {
    const std::vector<ParameterSpec> specs = parameters_of(cut.trunk[s], cut.trunk[s].conv.filters);
    for (std::size_t p = 0; p < specs.size(); ++p) {
      const bool convolution = p == 0 && cut.trunk[s].kind == StageKind::convolution && !cut.has_list(s);
      visit_parameter(specs[p].name, dims_of(specs[p].shape, convolution, p == 0 && cut.is_dense(s)),
                      model.trunk[s].parameters[p]);
    }
  }
  for (auto& state : model.head) {
    const Shape weights = state.weights.value.shape();
    visit_parameter(state.name + ".weight", {weights.n, weights.c}, state.weights);
    visit_parameter(state.name + ".bias", {weights.n}, state.bias);
  }
}

/// Views of a model's tensors. The values are not copied, because a model may fill half of a machine's memory.
std::vector<TensorView> views(const Cut& cut, const ModelState& model, bool moments) {
  std::vector<TensorView> all;
  for_each_tensor(cut, model, moments,
                  [&](const std::string& name, std::vector<std::int64_t> dims, const Tensor& tensor) {
                    all.push_back({name, std::move(dims), tensor.span()});
                  });
  return all;
}

/// The same for a file that is written. Throws Diverged where a value is infinite or NaN: no file gets such a value.
std::vector<TensorView> finite_views(const Cut& cut, const ModelState& model, bool moments, const std::string& file) {
  std::vector<TensorView> all = views(cut, model, moments);
  if (moments && model.outer) {
    for (TensorView& view : views(cut, *model.outer, false)) {
      all.push_back({view.name + kOuter, std::move(view.dims), view.values});
    }
  }
  for (const TensorView& view : all) {
    if (all_finite(view.values)) continue;
    throw Diverged(
        fmt::format("{} is not written: the model's tensor {} has values that are infinite or NaN", file, view.name));
  }
  return all;
}

/// A model of the cut's shapes with all values zero.
ModelState zero_model(const Cut& cut) {
  ModelState model;
  for (const Stage& stage : cut.trunk) model.trunk.push_back(zero_state(stage, stage.conv.filters));
  model.head = Heads(cut, 1).states();
  return model;
}

/// Copies the tensors of a file into those of the model.
void fill(const std::string& name, const SafetensorsFile& file, const Cut& cut, bool moments,
          const std::vector<std::string>& except, ModelState& model) {
  const TensorsByName by_name(file, name);
  std::vector<std::string> used;
  const auto left_out = [&](const std::string& tensor) {
    return std::ranges::find(except, layer_of(tensor)) != except.end();
  };
  // A checkpoint fits whole or not at all.
  const auto mend = [&] { return moments ? "" : way_without_misfits({name, file}, views(cut, model, false), except); };
  const auto get = [&](const std::string& tensor, const std::vector<std::int64_t>& dims) -> const NamedTensor& {
    try {
      return by_name.get(tensor, dims);
    } catch (const Error& error) {
      fail("{}{}", error.what(), mend());
    }
  };
  for_each_tensor(cut, model, moments,
                  [&](const std::string& tensor_name, const std::vector<std::int64_t>& dims, Tensor& tensor) {
                    if (left_out(tensor_name)) return;
                    const NamedTensor& from = get(tensor_name, dims);
                    require_valid(name, tensor_name, from.values);
                    std::copy(from.values.begin(), from.values.end(), tensor.span().begin());
                    used.push_back(tensor_name);
                  });
  std::ranges::sort(used);
  for (const NamedTensor& tensor : file.tensors) {
    if (left_out(tensor.name) || std::ranges::binary_search(used, tensor.name)) continue;
    const std::string shown = printable(tensor.name, 120);
    fail("{}: the net has no place for its tensor {}; the file belongs to another net{}", name, shown, mend());
  }
}

ModelState from_file(const std::string& name, const SafetensorsFile& file, const Cut& cut, bool moments) {
  ModelState model = zero_model(cut);
  fill(name, file, cut, moments, {}, model);
  return model;
}

/// Takes the tensors of an outer step's velocity out of a checkpoint, with the names of the parameters that they belong
/// to.
std::vector<NamedTensor> take_outer(SafetensorsFile& contents) {
  const auto first = std::stable_partition(contents.tensors.begin(), contents.tensors.end(),
                                           [](const NamedTensor& t) { return !t.name.ends_with(kOuter); });
  std::vector<NamedTensor> outer(std::make_move_iterator(first), std::make_move_iterator(contents.tensors.end()));
  contents.tensors.erase(first, contents.tensors.end());
  for (NamedTensor& tensor : outer) tensor.name.resize(tensor.name.size() - std::string_view(kOuter).size());
  return outer;
}

/// The weights that a file holds. A checkpoint serves as well: moments and velocities are not asked for.
SafetensorsFile weights_in(const std::string& file) {
  SafetensorsFile contents = read_safetensors(file);
  take_outer(contents);
  std::erase_if(contents.tensors, [](const NamedTensor& t) {
    return std::ranges::any_of(kMoments, [&](const char* moment) { return t.name.ends_with(moment); });
  });
  return contents;
}

std::string metadata(const SafetensorsFile& contents, const std::string& key, const std::string& file) {
  const auto found = contents.metadata.find(key);
  if (found == contents.metadata.end()) fail("{}: the file has no '{}'; expected a checkpoint of Convoy", file, key);
  return found->second;
}

template <class T>
T number(const SafetensorsFile& contents, const std::string& key, const std::string& file) {
  const std::string text = metadata(contents, key, file);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || !(value >= T{0} && value <= std::numeric_limits<T>::max())) {
    fail("{}: its '{}' is '{}'; expected a number that is not negative", file, key, printable(text, 40));
  }
  return value;
}

/// The progress in a checkpoint. Throws Error unless it lies within the run.
Progress progress_in(const SafetensorsFile& contents, const RunLength& length, const std::string& file) {
  const Progress progress{.epoch = number<int>(contents, "epoch", file),
                          .batch = number<int>(contents, "batch", file),
                          .epoch_loss = number<double>(contents, "epoch_loss", file),
                          .epoch_correct = number<long>(contents, "epoch_correct", file)};
  const bool within = progress.epoch < length.epochs ? progress.batch <= length.batches
                                                     : progress.epoch == length.epochs && progress.batch == 0;
  if (!within) {
    fail("{}: its position is batch {} of epoch {} (counted from 0), but the run has {} epochs of {} batches", file,
         progress.batch, progress.epoch, length.epochs, length.batches);
  }
  const long seen = static_cast<long>(progress.batch) * length.images;
  if (progress.epoch_correct > seen || (seen == 0 && progress.epoch_loss != 0.0)) {
    fail("{}: {} images of the epoch are classified correctly, with a loss of {}, but only {} were seen", file,
         progress.epoch_correct, progress.epoch_loss, seen);
  }
  return progress;
}

/// A checkpoint is sound, but of another run.
class OfAnotherRun : public Error {
 public:
  using Error::Error;
};

/// The contents of a checkpoint's file.
struct Checkpoint {
  TrainingState state;
  RunIdentity run;
};

Checkpoint read_one(const std::string& file, const Cut& cut, const Accept& accept) {
  SafetensorsFile contents = read_safetensors(file);
  if (metadata(contents, "format", file) != kFormat) {
    fail("{}: its format is '{}'; expected '{}'", file, printable(metadata(contents, "format", file), 40), kFormat);
  }
  constexpr std::size_t kLongestFingerprint = std::size_t{1} << 20;
  const std::string fingerprint = metadata(contents, "fingerprint", file);
  if (fingerprint.size() > kLongestFingerprint) fail("{}: its fingerprint has {} bytes", file, fingerprint.size());
  if (!contents.checked) fail("{}: the file has no checksums; expected a checkpoint as Convoy wrote it", file);
  Checkpoint checkpoint{.state = {},
                        .run = {.fingerprint = fingerprint,
                                .length = {.epochs = number<int>(contents, "epochs", file),
                                           .batches = number<int>(contents, "batches", file),
                                           .images = number<int>(contents, "images", file)}}};
  checkpoint.state.progress = progress_in(contents, checkpoint.run.length, file);
  try {
    if (accept) accept(checkpoint.run);
  } catch (const Error& error) {
    throw OfAnotherRun(error.what());
  }
  const std::vector<NamedTensor> outer = take_outer(contents);
  ModelState model = from_file(file, contents, cut, true);
  if (!outer.empty()) {
    const SafetensorsFile velocity{.tensors = outer, .metadata = {}};
    model.outer = std::make_shared<const ModelState>(from_file(file, velocity, without_moments(cut), true));
  }
  checkpoint.state.model = std::make_shared<const ModelState>(std::move(model));
  return checkpoint;
}

/// Gives a checkpoint that cannot be used another name, so that the next one does not push the sound one before it out.
/// Returns the name; an empty one where there is no such file, or it cannot be renamed.
std::string set_aside(const std::string& folder, const std::string& file) {
  constexpr int kMost = 1000;
  for (int number = 1; number <= kMost; ++number) {
    const std::string aside = fmt::format("{}/checkpoint-damaged-{}.safetensors", folder, number);
    std::error_code error;
    if (fs::exists(fs::symlink_status(aside, error))) continue;
    fs::rename(file, aside, error);
    return error ? "" : aside;
  }
  return "";
}

}  // namespace

void write_weights(const std::string& file, const Cut& cut, const ModelState& model, const Net& net) {
  write_safetensors(file, finite_views(cut, model, false, file),
                    {{"format", "pt"}, {"net", net.name}});  // "pt" marks PyTorch's row-major layout
}

void write_snapshot(const std::string& file, const Cut& cut, const ModelState& model, const Net& net, int cycle,
                    int epoch) {
  write_safetensors(
      file, finite_views(cut, model, false, file),
      {{"format", "pt"}, {"net", net.name}, {"cycle", std::to_string(cycle)}, {"epoch", std::to_string(epoch)}});
}

void write_best(const std::string& file, const Cut& cut, const ModelState& model, const Net& net,
                const BestEpoch& best) {
  write_safetensors(file, finite_views(cut, model, false, file),
                    {{"format", "pt"},
                     {"net", net.name},
                     {"epoch", std::to_string(best.epoch)},
                     {"test_accuracy", fmt::format("{}", best.accuracy)}});
}

BestEpoch read_best(const std::string& file, std::string& notice) {
  if (!fs::exists(file)) return {};
  try {
    const SafetensorsFile contents = read_safetensors(file);
    return {number<int>(contents, "epoch", file), number<double>(contents, "test_accuracy", file)};
  } catch (const Error& error) {
    notice = fmt::format("{}; the best epoch is looked for anew", error.what());
    return {};
  }
}

ModelState read_weights(const std::string& file, const Cut& cut) {
  return from_file(file, weights_in(file), cut, false);
}

ModelState read_weights(const std::string& file, const Cut& cut, const std::vector<std::string>& except,
                        ModelState initial) {
  const SafetensorsFile contents = weights_in(file);
  const std::vector<std::string> mine = layers_of(views(cut, initial, false));
  const std::vector<std::string> theirs = layers_of(contents.tensors);
  const auto has = [](const std::vector<std::string>& layers, const std::string& layer) {
    return std::ranges::find(layers, layer) != layers.end();
  };
  for (const std::string& layer : except) {
    if (has(mine, layer) || has(theirs, layer)) continue;
    fail("--except {}: neither the net nor {} has a layer of this name with weights; the net has {}", layer, file,
         fmt::join(mine, ", "));
  }
  fill(file, contents, cut, false, except, initial);
  return initial;
}

std::vector<NamedTensor> zero_tensors(const Cut& cut) {
  const ModelState model = zero_model(cut);
  std::vector<NamedTensor> tensors;
  for (const TensorView& view : views(cut, model, false)) {
    tensors.push_back({view.name, view.dims, {view.values.begin(), view.values.end()}});
  }
  return tensors;
}

ModelState model_from(const Cut& cut, const std::vector<NamedTensor>& tensors, const std::string& name) {
  return from_file(name, {.tensors = tensors, .metadata = {}}, cut, false);
}

void write_checkpoint(const std::string& folder, const Cut& cut, const TrainingState& state, const RunIdentity& run) {
  const std::string file = last_in(folder);
  const std::string next = folder + "/checkpoint-next.safetensors";
  write_safetensors(next, finite_views(cut, *state.model, true, file),
                    {{"format", kFormat},
                     {"epoch", std::to_string(state.progress.epoch)},
                     {"batch", std::to_string(state.progress.batch)},
                     {"epochs", std::to_string(run.length.epochs)},
                     {"batches", std::to_string(run.length.batches)},
                     {"images", std::to_string(run.length.images)},
                     {"fingerprint", run.fingerprint},
                     {"epoch_loss", fmt::format("{}", state.progress.epoch_loss)},
                     {"epoch_correct", std::to_string(state.progress.epoch_correct)}});
  std::error_code error;
  if (fs::exists(file)) fs::rename(file, previous_in(folder), error);
  if (!error) fs::rename(next, file, error);
  if (error) fail("{}: the checkpoint cannot be renamed to its final name: {}", file, error.message());
}

long steps_of(const Progress& progress, const RunLength& length) {
  return static_cast<long>(progress.epoch) * length.batches + progress.batch;
}

bool has_checkpoint(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(last_in(folder), ignored) || fs::exists(previous_in(folder), ignored);
}

TrainingState read_checkpoint(const std::string& folder, const Cut& cut, std::string& notice, const Accept& accept) {
  const std::string file = last_in(folder);
  const std::string previous = previous_in(folder);
  std::string fault;
  bool of_another_run = false;
  try {
    return read_one(file, cut, accept).state;
  } catch (const Error& error) {
    fault = error.what();
    of_another_run = dynamic_cast<const OfAnotherRun*>(&error) != nullptr;
  }
  try {
    const Checkpoint before = read_one(previous, cut, accept);
    const std::string aside = set_aside(folder, file);
    if (of_another_run) fault = fmt::format("{}: the checkpoint is of a run with other values", file);
    notice = fmt::format("{}; the run goes on from the checkpoint before it, {}, after step {}{}", fault, previous,
                         steps_of(before.state.progress, before.run.length),
                         aside.empty() ? "" : "; the file that cannot be used is now " + aside);
    return before.state;
  } catch (const Error& error) {
    std::error_code ignored;
    if (of_another_run || !fs::exists(previous, ignored)) throw Error(fault);
    fail("{}; the checkpoint before it cannot be used either: {}", fault, error.what());
  }
}

}  // namespace convoy
