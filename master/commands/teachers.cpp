#include "master/commands/teachers.hpp"

#include <fmt/ranges.h>

#include <cstring>
#include <deque>
#include <filesystem>
#include <span>
#include <utility>

#include "devices/paced_device.hpp"
#include "master/commands/passes_at_once.hpp"
#include "master/commands/teacher_file.hpp"
#include "master/report/run_folder.hpp"
#include "nets/graph/net.hpp"

namespace convoy {
namespace {

/// The largest memory for the probabilities of all images; more are computed anew for each batch.
constexpr double kMostSoftBytes = 1073741824.0;

std::string absolute_name(const std::string& name) {
  const auto absolute = [](const std::string& path) {
    return std::filesystem::absolute(path).lexically_normal().string();
  };
  std::error_code ignored;
  const std::size_t at = name.rfind('@');
  if (at == std::string::npos || at == 0 || at + 1 == name.size() || std::filesystem::exists(name, ignored)) {
    return absolute(name);
  }
  return absolute(name.substr(0, at)) + "@" + absolute(name.substr(at + 1));
}

/// FNV-1a: it tells weights that have changed.
void add_to_hash(std::uint64_t& sum, const void* bytes, std::size_t count) {
  const auto* each = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < count; ++i) sum = (sum ^ each[i]) * 1099511628211ULL;
}

std::string shape_text(const FeatureShape& shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

}  // namespace

Net with_absolute_teachers(Net net) {
  for (std::string& name : net.training.teaching.teachers) name = absolute_name(name);
  return net;
}

Teachers::Teachers(const Net& student, const NetOptions& options, int images) : student_(student), options_(options) {
  const Teaching& teaching = student.training.teaching;
  if (teaching.any() && is_paced(options.device)) {
    fail(
        "{}: training.teacher has no meaning with --device {}: a paced device computes no outputs; leave one of the "
        "two "
        "out",
        student.file, options.device);
  }
  for (const std::string& name : teaching.teachers) {
    try {
      members_.push_back(read_member(name, images));
    } catch (const Error& error) {
      fail("{}: training.teacher: {}", student.file, error.what());
    }
    expect_fits(members_.back());
  }
}

void Teachers::expect_fits(const EnsembleMember& teacher) const {
  const auto refuse = [&](const std::string& why) {
    fail("{}: training.teacher {}: {}", student_.file, teacher.name, why);
  };
  if (teacher.net.input != student_.input) {
    refuse(
        fmt::format("it reads images of {} (channels x rows x columns), but the net to train reads {}; take a teacher "
                    "with the same "
                    "input",
                    shape_text(teacher.net.input), shape_text(student_.input)));
  }
  if (teacher.net.classes != student_.classes) {
    refuse(
        fmt::format("it has {} classes, but the net to train has {}; take a teacher that was trained on the same data",
                    teacher.net.classes, student_.classes));
  }
  if (!ends_with_softmax(teacher.net)) {
    refuse("it ends with squared_error, so its outputs are not logits; take a teacher with softmax_cross_entropy");
  }
  try {
    expect_same_names(teacher.net.class_names, "the teacher", student_.class_names, "the net to train");
  } catch (const Error& error) {
    refuse(error.what());
  }
}

std::string Teachers::fingerprint() const {
  if (!any()) return "";
  std::uint64_t sum = 14695981039346656037ULL;
  for (const EnsembleMember& each : members_) {
    Net net = each.net;
    net.training = {};
    net.run.clear();
    const std::string text = to_yaml(net);
    add_to_hash(sum, text.data(), text.size());
    for (const NamedTensor& tensor : tensors_of(each)) {
      add_to_hash(sum, tensor.name.data(), tensor.name.size());
      add_to_hash(sum, tensor.values.data(), tensor.values.size() * sizeof(float));
    }
  }
  return fmt::format("teacher-weights: {:016x}\n", sum);
}

/// The scales with which a teacher was trained; those of the net to train if nothing says them.
const std::vector<ChannelScale>& Teachers::scales_for(const EnsembleMember& teacher) const {
  return teacher.net.scales.empty() ? student_.scales : teacher.net.scales;
}

bool Teachers::begin(const Place& place, const Observers& observers, const std::atomic<bool>& stop) {
  if (!any()) return true;
  for (const EnsembleMember& each : members_) {
    if (!each.net.scales.empty()) continue;
    notice(observers, fmt::format("the teacher {} does not say how pixels are normalised; it gets them as the net to "
                                  "train does",
                                  each.name));
  }
  const int images = place.data.training.count();
  const double bytes = static_cast<double>(images) * student_.classes * sizeof(float);
  if (student_.augment != Augmentation{} || bytes > kMostSoftBytes) return run_on_this_machine(observers, stop);
  const TeacherFile file(place.folder + "/" + kTeacherOutputs, identity(place.data), images, student_.classes);
  TeacherFile::Found found = file.read();
  if (found.probabilities) {
    notice(observers,
           fmt::format("the teacher's outputs for the {} training images are those in {}", images, file.name()));
  } else {
    if (!found.why.empty()) notice(observers, found.why + "; the teacher computes its outputs again");
    found.probabilities = probabilities_of(place, observers, stop);
    if (!found.probabilities) return false;
    try {
      file.write(*found.probabilities);
    } catch (const Error& error) {
      notice(observers, fmt::format("{}; the run goes on, but if it is resumed, the teacher computes its outputs again",
                                    error.what()));
    }
  }
  teacher_ = std::make_unique<Teacher>(std::vector<Teacher::Voice>(), student_.training.teaching, student_.classes);
  teacher_->remember(std::move(*found.probabilities));
  return true;
}

/// Makes the teachers ready to compute each batch on this machine.
bool Teachers::run_on_this_machine(const Observers& observers, const std::atomic<bool>& stop) {
  std::vector<Teacher::Voice> voices;
  for (const EnsembleMember& each : members_) {
    auto cluster = Cluster::assemble(alone_, options_, each.net, each.cut, observers, stop);
    if (!cluster) return false;
    auto learner = std::make_unique<NetLearner>(cluster->trunk(), each.cut, each.net.training.batch, cluster->heads());
    learner->load({each.weights});
    voices.push_back({each.name, learner.get(), scales_for(each)});
    clusters_.push_back(std::move(cluster));
    learners_.push_back(std::move(learner));
  }
  teacher_ = std::make_unique<Teacher>(voices, student_.training.teaching, student_.classes);
  return true;
}

/// What the teachers say of all training images, (image, class), in the order of the data set, so that a run that is
/// resumed gets the same bits, whatever was left of its epoch. Returns nothing if `stop` was set before the end.
std::optional<std::vector<float>> Teachers::probabilities_of(const Place& place, const Observers& observers,
                                                             const std::atomic<bool>& stop) const {
  const int images = place.data.training.count();
  const auto classes = static_cast<std::size_t>(student_.classes);
  notice(observers, fmt::format("the teacher computes its outputs for the {} training images, once", images));
  const DataSet in_order{
      .name = place.data.name, .classes = place.data.classes, .training = {}, .test = place.data.training};
  const auto images_for = [&](const EnsembleMember& member) -> PassImages {
    const auto open = [&]() -> FillBatch {
      const auto batches = std::make_shared<Batches>(in_order, Part::test, member.net.training.batch, 0, Augmentation{},
                                                     scales_for(member));
      return [batches](int index, PassBatch& batch) {
        if (batch.images.pixels.size() == 0) batch.images = batches->blank();
        std::vector<int> unused;
        batch.count = batches->fill(0, index, batch.images, unused);
      };
    };
    return {.count = images, .open = open, .what = "training image"};
  };
  std::vector<float> mean(static_cast<std::size_t>(images) * classes, 0.0F);
  const auto add = [&](const MemberPass& pass) {
    for (int image = 0; image < images; ++image) {
      add_to_mean(pass.outputs(image), student_.training.teaching.temperature, members_.size(),
                  std::span(mean).subspan(static_cast<std::size_t>(image) * classes, classes));
    }
  };
  if (place.slaves != nullptr) {
    std::deque<MemberPass> passes;
    for (const EnsembleMember& each : members_) passes.emplace_back(each, images_for(each));
    if (!PassesAtOnce(*place.slaves, options_, 1, observers).run(passes, add, stop)) return std::nullopt;
    return mean;
  }
  for (const EnsembleMember& each : members_) {
    MemberPass pass(each, images_for(each));
    if (!run_pass(pass, alone_, options_, observers, stop, "")) return std::nullopt;
    add(pass);
  }
  return mean;
}

/// All that the probabilities depend on.
std::string Teachers::identity(const DataSet& data) const {
  std::string text = fmt::format("{}temperature: {}\n", fingerprint(), student_.training.teaching.temperature);
  for (const EnsembleMember& each : members_) {
    for (const ChannelScale& scale : scales_for(each)) text += fmt::format("{} {}\n", scale.mean, scale.deviation);
  }
  return text + identity_of(data.training);
}

}  // namespace convoy
