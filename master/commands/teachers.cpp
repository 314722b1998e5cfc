#include "master/commands/teachers.hpp"

#include <fmt/ranges.h>

#include <cstring>
#include <filesystem>
#include <utility>

#include "devices/paced_device.hpp"
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
    refuse("it ends with squared_error, so that its outputs are no logits; take a teacher with softmax_cross_entropy");
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

bool Teachers::begin(const DataSet& data, const Observers& observers, const std::atomic<bool>& stop) {
  if (!any()) return true;
  std::vector<Teacher::Voice> voices;
  for (const EnsembleMember& each : members_) {
    auto cluster = Cluster::assemble(alone_, options_, each.net, each.cut, observers, stop);
    if (!cluster) return false;
    auto learner = std::make_unique<NetLearner>(cluster->trunk(), each.cut, each.net.training.batch, cluster->heads());
    learner->load({each.weights});
    if (each.net.scales.empty()) {
      notice(observers, fmt::format("the teacher {} does not say how pixels are normalised; it gets them as the net to "
                                    "train does",
                                    each.name));
    }
    voices.push_back({each.name, learner.get(), each.net.scales.empty() ? student_.scales : each.net.scales});
    clusters_.push_back(std::move(cluster));
    learners_.push_back(std::move(learner));
  }
  teacher_ = std::make_unique<Teacher>(voices, student_.training.teaching, student_.classes);
  const double bytes = static_cast<double>(data.training.count()) * student_.classes * sizeof(float);
  if (student_.augment != Augmentation{} || bytes > kMostSoftBytes) return true;
  notice(observers,
         fmt::format("the teacher computes its outputs for the {} training images, once", data.training.count()));
  const DataSet all{.name = data.name, .classes = data.classes, .training = {}, .test = data.training};
  const Batches in_order(all, Part::test, members_.front().net.training.batch, 0, Augmentation{}, student_.scales);
  if (!teacher_->remember(in_order, data.training.count(), stop)) return false;
  learners_.clear();
  clusters_.clear();
  return true;
}

}  // namespace convoy
