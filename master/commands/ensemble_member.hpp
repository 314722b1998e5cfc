// A net with its weights, as users name the members of an ensemble and the teachers of a net.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/named_tensor.hpp"
#include "model/checkpoint.hpp"
#include "nets/graph/combination.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

struct EnsembleMember {
  std::string name;  ///< as the user gave it
  Net net;
  Cut cut;
  std::shared_ptr<const ModelState> weights;
  std::string file;                  ///< of the weights
  std::vector<NamedTensor> tensors;  ///< the weights of an ONNX model; empty for weights in a safetensors file
};

/// Reads what `name` names:
///   - the folder of a run: its config.yaml and weights.safetensors;
///   - weights (.safetensors), with the net config.yaml in the same folder, or NAME.yaml beside NAME.safetensors;
///   - WEIGHTS@NET, weights with the net file of any place;
///   - an ONNX model, whose input are normalised images: its net has no scales.
/// With `batch` above 0 the net gets this batch.
/// Throws Error naming the file that is missing or wrong, and the mend.
EnsembleMember read_member(const std::string& name, int batch);

/// The tensors of the member's weights, named as in safetensors files. Throws Error.
std::vector<NamedTensor> tensors_of(const EnsembleMember& member);

/// Throws Error naming two members that have other classes, or the same weights.
void expect_same_classes(const std::vector<EnsembleMember>& members);
/// Throws Error naming a member whose loss does not go together with the way in which outputs are combined.
void expect_combinable(const std::vector<EnsembleMember>& members, Combination how);

/// Throws Error where the names of two lists of classes differ. `one` and `other` name the nets. A list without names
/// fits any.
void expect_same_names(const std::vector<std::string>& names, const std::string& one,
                       const std::vector<std::string>& others, const std::string& other);

/// Whether the net ends with softmax_cross_entropy.
bool ends_with_softmax(const Net& net);

}  // namespace convoy
