#include "master/commands/ensemble_member.hpp"

#include <algorithm>
#include <filesystem>
#include <map>

#include "core/text.hpp"
#include "model/safetensors.hpp"
#include "nets/onnx/onnx.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMemberExpected =
    "expected the folder of a run, weights (.safetensors) beside their net, WEIGHTS@NET, or an ONNX model";

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// The files of a member.
struct MemberPlace {
  std::string net;  ///< empty for an ONNX model, which is in `weights`
  std::string weights;
};

MemberPlace place_in_folder(const std::string& name, const fs::path& folder) {
  for (const char* file : {"config.yaml", "weights.safetensors"}) {
    if (is_file(folder / file)) continue;
    fail("{}: the folder has no {}, so it is not the folder of a run that has trained; {}", name, file,
         kMemberExpected);
  }
  return {(folder / "config.yaml").string(), (folder / "weights.safetensors").string()};
}

MemberPlace place_beside(const std::string& name, const fs::path& weights) {
  for (const fs::path& net : {weights.parent_path() / "config.yaml", fs::path(weights).replace_extension(".yaml")}) {
    if (is_file(net)) return {net.string(), weights.string()};
  }
  fail("{}: neither config.yaml nor {} is beside these weights; name their net, as in {}@NET.yaml", name,
       fs::path(weights).replace_extension(".yaml").filename().string(), name);
}

MemberPlace place_of_member(const std::string& name) {
  std::error_code ignored;
  const fs::path path = name;
  if (fs::is_directory(path, ignored)) return place_in_folder(name, path);
  if (is_file(path) && path.extension() == ".onnx") return {"", path.string()};
  if (is_file(path) && path.extension() == ".safetensors") return place_beside(name, path);
  if (is_file(path)) fail("{}: the file is neither weights nor an ONNX model; {}", name, kMemberExpected);
  const std::size_t at = name.rfind('@');
  if (at != std::string::npos && at > 0 && at + 1 < name.size()) {
    return {name.substr(at + 1), name.substr(0, at)};
  }
  fail("{}: there is no such file or folder; {}", name, kMemberExpected);
}

EnsembleMember read_onnx_member(const std::string& name, const std::string& file, const Overrides& overrides) {
  ImportedNet model = import_onnx(file, "model");
  EnsembleMember member{.name = name, .net = parse_net(model.yaml, file, overrides), .file = file};
  member.cut = without_moments(cut(member.net));
  member.weights = std::make_shared<const ModelState>(model_from(member.cut, model.tensors, file));
  member.tensors = std::move(model.tensors);
  return member;
}

/// Whether two members are the same weights with the same net.
bool are_same(const EnsembleMember& one, const EnsembleMember& other) {
  std::error_code ignored;
  return fs::equivalent(one.file, other.file, ignored) && one.net.layers.size() == other.net.layers.size();
}

}  // namespace

bool ends_with_softmax(const Net& net) { return std::holds_alternative<SoftmaxCrossEntropy>(net.layers.back().spec); }

EnsembleMember read_member(const std::string& name, int batch) {
  const MemberPlace place = place_of_member(name);
  Overrides overrides;
  if (batch > 0) overrides.push_back(fmt::format("training.batch={}", batch));
  if (place.net.empty()) return read_onnx_member(name, place.weights, overrides);
  EnsembleMember member{.name = name, .net = read_net(place.net, overrides), .file = place.weights};
  member.cut = without_moments(cut(member.net));
  member.weights = std::make_shared<const ModelState>(read_weights(place.weights, member.cut));
  return member;
}

std::vector<NamedTensor> tensors_of(const EnsembleMember& member) {
  return member.tensors.empty() ? read_safetensors(member.file).tensors : member.tensors;
}

void expect_same_names(const std::vector<std::string>& names, const std::string& one,
                       const std::vector<std::string>& others, const std::string& other) {
  if (names.empty() || others.empty()) return;
  for (std::size_t c = 0; c < std::min(names.size(), others.size()); ++c) {
    if (names[c] == others[c]) continue;
    fail(
        "class {} is '{}' for {}, but '{}' for {}; their classes must be the same in the same order, so train both on "
        "the same data",
        c, printable(names[c], 60), one, printable(others[c], 60), other);
  }
}

void expect_same_classes(const std::vector<EnsembleMember>& members) {
  for (std::size_t i = 1; i < members.size(); ++i) {
    const Net& net = members[i].net;
    for (std::size_t k = 0; k < i; ++k) {
      const EnsembleMember& before = members[k];
      if (net.classes != before.net.classes) {
        fail(
            "{} has {} classes, but {} has {}; an ensemble needs members with the same classes, so leave one of the "
            "two out",
            members[i].name, net.classes, before.name, before.net.classes);
      }
      expect_same_names(before.net.class_names, before.name, net.class_names, members[i].name);
      if (are_same(members[i], before)) {
        fail("{} and {} are the same weights, which would count twice; leave one of the two out", before.name,
             members[i].name);
      }
    }
  }
}

void expect_combinable(const std::vector<EnsembleMember>& members, Combination how) {
  if (how == Combination::votes) return;
  for (const EnsembleMember& each : members) {
    const bool softmax = ends_with_softmax(each.net);
    if (how == Combination::probabilities && !softmax) {
      fail(
          "{}: its net ends with squared_error, so its outputs are not probabilities; give --vote, or --mean "
          "logits "
          "where all members end with squared_error",
          each.name);
    }
    if (softmax == ends_with_softmax(members.front().net)) continue;
    fail(
        "{} ends with {} and {} with {}, so the mean of their outputs has no meaning; give --vote, or leave one "
        "of "
        "the two out",
        members.front().name, softmax ? "squared_error" : "softmax_cross_entropy", each.name,
        softmax ? "softmax_cross_entropy" : "squared_error");
  }
}

}  // namespace convoy
