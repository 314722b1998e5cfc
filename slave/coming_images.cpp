#include "slave/coming_images.hpp"

#include <algorithm>
#include <utility>

namespace convoy {

ComingImages::ComingImages(wire::Originals originals, const Shape& shape, ImageStore& store)
    : originals_(std::move(originals)), shape_(shape), store_(store) {
  const std::size_t count = originals_.contents.size();
  if (count != static_cast<std::size_t>(shape.n)) {
    fail("an Originals names {} images, but task {} sends {}", count, originals_.task, shape.n);
  }
  if (!originals_.views.empty() && originals_.fill.size() != static_cast<std::size_t>(shape.c)) {
    fail("an Originals has {} pixels for the outside of images of {} channels", originals_.fill.size(), shape.c);
  }
  missing_ = {.step = originals_.step, .task = originals_.task, .samples = {}};
  pixels_.resize(shape.size());
  std::map<wire::Content, std::size_t> coming;
  for (std::size_t i = 0; i < count; ++i) {
    const wire::Content& content = originals_.contents[i];
    if (const auto earlier = coming.find(content); earlier != coming.end()) {
      same_[i] = earlier->second;
    } else if (!store_.find(content, original(i))) {
      coming[content] = i;
      missing_.samples.push_back(static_cast<std::uint32_t>(i));
    }
  }
}

void ComingImages::add(const wire::Piece& piece, const wire::Payload& payload) {
  const std::size_t size = shape_.sample_size();
  const std::size_t due = complete() ? 0 : size - in_next_;
  if (piece.first != next_ || payload.empty() || payload.size() > due) {
    fail("a Piece has {} pixels of images from pixel {} on; at most {} are due, from pixel {} on", payload.size(),
         piece.first, due, next_);
  }
  const std::size_t sample = missing_.samples[done_];
  std::ranges::copy(payload.bytes(),
                    std::as_writable_bytes(original(sample)).begin() + static_cast<std::ptrdiff_t>(in_next_));
  next_ += payload.size();
  in_next_ += payload.size();
  if (in_next_ < size) return;
  in_next_ = 0;
  ++done_;
  const wire::Content& content = originals_.contents[sample];
  if (wire::content_of(std::span<const std::uint8_t>(original(sample))) != content) {
    fail("the image of sample {} of task {} is not the one that was offered", sample, originals_.task);
  }
  store_.keep(content, original(sample));
  if (!complete()) return;
  for (const auto& [copy, of] : same_) std::ranges::copy(original(of), original(copy).begin());
}

std::shared_ptr<const std::vector<std::uint8_t>> ComingImages::samples() const {
  if (originals_.views.empty()) return std::make_shared<const std::vector<std::uint8_t>>(pixels_);
  const std::size_t size = shape_.sample_size();
  auto samples = std::make_shared<std::vector<std::uint8_t>>(pixels_.size());
  for (std::size_t i = 0; i < originals_.views.size(); ++i) {
    move_image(std::span(pixels_).subspan(i * size, size), shape_, originals_.views[i], originals_.fill,
               std::span(*samples).subspan(i * size, size));
  }
  return samples;
}

}  // namespace convoy
