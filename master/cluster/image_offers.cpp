#include "master/cluster/image_offers.hpp"

#include <algorithm>
#include <utility>

namespace convoy {
namespace {

/// Slaves are in the newest step or in one of the two before it.
constexpr std::size_t kBatchesRemembered = 3;

}  // namespace

void ImageOffers::give(std::uint64_t step, const Images& images) {
  if (images.originals.empty()) return;
  const auto count = static_cast<std::size_t>(images.shape().n);
  const std::size_t size = images.shape().sample_size();
  invariant(images.originals.size() == count, "each sample has an original");
  Batch batch{
      .step = step, .channels = images.shape().c, .pixels = {}, .contents = {}, .views = {}, .fill = images.fill};
  std::vector<std::uint8_t> pixels;
  pixels.reserve(count * size);
  bool views = false;
  for (std::size_t i = 0; i < count; ++i) {
    const Original& original = images.originals[i];
    const std::span<const std::uint8_t> from =
        original.pixels.empty() ? images.pixels.sample(static_cast<int>(i)) : original.pixels;
    invariant(from.size() == size, "an original has the shape of its sample");
    pixels.insert(pixels.end(), from.begin(), from.end());
    batch.contents.push_back(wire::content_of(from));
    batch.views.push_back(original.pixels.empty() ? ImageView() : original.view);
    views = views || batch.views.back() != ImageView();
  }
  if (!views) batch.views.clear();
  batch.pixels = std::make_shared<const std::vector<std::uint8_t>>(std::move(pixels));
  batches_.push_back(std::move(batch));
  if (batches_.size() > kBatchesRemembered) batches_.pop_front();
}

const ImageOffers::Batch* ImageOffers::of(std::uint64_t step) const {
  const auto found = std::ranges::find(batches_, step, &Batch::step);
  return found == batches_.end() ? nullptr : &*found;
}

std::optional<wire::Originals> ImageOffers::offer(std::size_t slave, std::uint64_t step, int index, const Task& sent,
                                                  int micro_batch) {
  const Batch* batch = of(step);
  const SampleRange samples{sent.micro_batch * micro_batch + sent.samples.first, sent.samples.count};
  const bool small = samples.count <= static_cast<int>(wire::kMostOriginals);
  if (batch == nullptr || !small || sent.filters != FilterRange{0, batch->channels}) return std::nullopt;
  const auto part = [&](const auto& all) {
    const auto first = all.begin() + samples.first;
    return std::decay_t<decltype(all)>(first, first + samples.count);
  };
  wire::Originals originals{.step = step,
                            .task = static_cast<std::uint32_t>(index),
                            .contents = part(batch->contents),
                            .views = {},
                            .fill = {}};
  if (!batch->views.empty()) {
    originals.views = part(batch->views);
    originals.fill = batch->fill;
  }
  offered_[{slave, step, originals.task}] = samples;
  return originals;
}

ImageBytes ImageOffers::answer(std::size_t slave, const wire::Missing& missing,
                               const std::function<void(wire::Envelope&&)>& send) {
  const auto offered = offered_.find({slave, missing.step, missing.task});
  const Batch* batch = of(missing.step);
  if (offered == offered_.end() || batch == nullptr) {
    fail("an unrequested Missing came, of task {} in step {}", missing.task, missing.step);
  }
  const SampleRange samples = offered->second;
  offered_.erase(offered);
  const auto count = static_cast<std::size_t>(samples.count);
  if (!missing.samples.empty() && missing.samples.back() >= count) {
    fail("a Missing names sample {}; the offer has samples 0 to {}", missing.samples.back(), count - 1);
  }
  const std::size_t size = batch->pixels->size() / batch->contents.size();
  const std::span<const std::byte> all = std::as_bytes(std::span(*batch->pixels));
  std::size_t sent = 0;
  for (const std::uint32_t sample : missing.samples) {
    const std::size_t at = (static_cast<std::size_t>(samples.first) + sample) * size;
    for (std::size_t done = 0; done < size;) {
      const std::size_t some = std::min(size - done, wire::kPieceBytes);
      send({wire::Piece{.step = missing.step, .task = missing.task, .first = sent},
            wire::Payload(batch->pixels, all.subspan(at + done, some))});
      done += some;
      sent += some;
    }
  }
  return {.sent = static_cast<double>(sent), .kept = static_cast<double>(count * size - sent)};
}

void ImageOffers::clear() {
  batches_.clear();
  offered_.clear();
}

}  // namespace convoy
