// The parts of Session for images that the master offers by their contents.

#include <algorithm>
#include <utility>

#include "slave/session.hpp"

namespace convoy {

void Session::on(const wire::Originals& originals) {
  if (images_ == nullptr || !images_->keeps_any()) fail("an Originals came to a slave that keeps no images");
  const bool next = originals.step == step_ + 1 && next_;
  if (!next && !(in_step_ && originals.step == step_)) {
    fail("an Originals of step {} came in step {}", originals.step, step_);
  }
  const Task* sent = node().images_due(node().graph().master, static_cast<int>(originals.task), next);
  const std::pair name(originals.step, originals.task);
  if (sent == nullptr || coming_.contains(name)) {
    fail("an Originals came for task {}, which sends no images to this slave or has already begun to send them",
         originals.task);
  }
  const Stage& first = node().trunk().front();
  const Shape shape{sent->samples.count, first.channels, first.height, first.width};
  const auto coming = coming_.emplace(name, ComingImages(originals, shape, *images_)).first;
  send(coming->second.missing());
  if (coming->second.complete()) give_images(originals.step, originals.task);
}

/// Takes a Piece of images that this slave has asked for. Returns false for any other Piece.
bool Session::take_original(const wire::Piece& piece, const wire::Payload& payload) {
  const auto coming = coming_.find({piece.step, piece.task});
  if (coming == coming_.end()) return false;
  coming->second.add(piece, payload);
  if (coming->second.complete()) give_images(piece.step, piece.task);
  return true;
}

/// Goes on as if the master had sent the samples.
void Session::give_images(std::uint64_t step, std::uint32_t task) {
  const auto coming = coming_.find({step, task});
  const auto samples = coming->second.samples();
  coming_.erase(coming);
  const std::span<const std::byte> all = std::as_bytes(std::span(*samples));
  for (std::size_t first = 0; first < all.size(); first += wire::kPieceBytes) {
    const std::span<const std::byte> some = all.subspan(first, std::min(wire::kPieceBytes, all.size() - first));
    receive(node().graph().master, {.step = step, .task = task, .first = first}, wire::Payload(samples, some));
  }
}

}  // namespace convoy
