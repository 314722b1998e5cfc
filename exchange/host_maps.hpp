// The maps, gradients and images that a node keeps on the host, because it sends, receives, joins or adds them up.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/images.hpp"
#include "exchange/node_plan.hpp"
#include "exchange/parcel.hpp"
#include "exchange/slab.hpp"
#include "exchange/thesis_node.hpp"

namespace convoy {

class HostMaps {
 public:
  /// Allocates the parts of maps and gradients that the node receives, computes or adds up. `thesis` is null in all
  /// exchanges but that of the thesis. `plan` and `thesis` must outlive this object.
  HostMaps(const NodePlan& plan, ThesisNode* thesis);

  /// The slab of a stage's maps; null where the node needs none.
  Slab* maps(int stage) { return maps_.contains(stage) ? &maps_.at(stage) : nullptr; }
  const Slab* maps(int stage) const { return maps_.contains(stage) ? &maps_.at(stage) : nullptr; }
  /// The slab of the whole gradient with respect to a stage's maps, and the slab of the node's own part of that sum.
  Slab& gradient(int stage) { return gradients_.at(stage); }
  Slab& part(int stage) { return parts_.at(stage); }
  /// The reading stage that overwrites part(stage); other readers add to it.
  int first_reader(int stage) const { return first_reader_.at(stage); }
  /// The slab that the shards of a stage write in the forward pass, and the slab of the gradient with respect to it.
  Slab& made(int stage) { return thesis_ != nullptr ? thesis_->convolved(stage) : maps_.at(stage); }
  Slab& gradient_by_made(int stage);
  /// The slab from which a send of maps or gradients takes its values.
  Slab& of(const Task& sent);

  /// Takes the pixels of a whole batch.
  void take_images(const Pixels& images);
  /// Takes the pixels of the next batch, which are sent from now on. The current ones stay until use_next_images().
  void take_next_images(const Pixels& images);
  void use_next_images();
  /// Sets the mean and deviation of each channel with which images are normalised.
  void use(const std::vector<ChannelScale>& scales) { normaliser_.use(scales); }
  const Normaliser& normaliser() const { return normaliser_; }
  /// The pixels of the node's images; null if the node needs none.
  const PixelSlab* pixels() const { return pixels_.box.channels.count > 0 ? &pixels_ : nullptr; }

  /// The box of a stage's maps, or of the images for Source::kImages; null where the node needs none.
  const Box* box(int stage) const;
  /// Copies channels of a sample of a stage's maps, or of the normalised images, to `to`; `sample` counts as in slabs.
  void copy(int stage, int sample, FilterRange channels, float* to) const;

  // The following functions work on values first .. first + count - 1 of a send, in NCHW order.
  /// Encodes values of maps or gradients. `seed` seeds the random rounding.
  void encode_values(const Task& sent, std::size_t first, std::size_t count, std::uint64_t seed, std::byte* to);
  void encode_pixels(const Task& sent, std::size_t first, std::size_t count, std::byte* to);
  /// Puts values that have arrived, encoded in kept_type(), in their place.
  void place(const Task& sent, std::size_t first, const Bytes& bytes);
  void place_pixels(const Task& sent, std::size_t first, const Bytes& bytes);

 private:
  const NodePlan& plan_;
  ThesisNode* thesis_;
  std::map<int, Slab> maps_;
  PixelSlab pixels_;       ///< the images as they travel
  PixelSlab next_pixels_;  ///< the images of the next step, once the node sends the images ahead
  bool sends_next_ = false;
  Normaliser normaliser_;
  std::map<int, Slab> gradients_;
  std::map<int, Slab> parts_;
  std::map<int, int> first_reader_;
};

}  // namespace convoy
