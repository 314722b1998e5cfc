// The images of a send that the master has offered by their contents: those that are in the store, and those that still
// come.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/tensor.hpp"
#include "slave/image_store.hpp"
#include "wire/link.hpp"

namespace convoy {

class ComingImages {
 public:
  /// Takes what the store has. `shape` is that of the samples of the send. Throws Error if there is not one image for
  /// each sample, or one pixel for the outside of images for each channel. The store must outlive the object.
  ComingImages(wire::Originals originals, const Shape& shape, ImageStore& store);

  /// The answer to the offer.
  const wire::Missing& missing() const { return missing_; }
  /// Takes the next pixels. Throws Error unless they are due, and for an image that has another hash than the one that
  /// was offered.
  void add(const wire::Piece& piece, const wire::Payload& payload);
  bool complete() const { return done_ == missing_.samples.size(); }
  /// The pixels of the samples, once all images are there.
  std::shared_ptr<const std::vector<std::uint8_t>> samples() const;

 private:
  std::span<std::uint8_t> original(std::size_t sample) {
    return std::span(pixels_).subspan(sample * shape_.sample_size(), shape_.sample_size());
  }

  wire::Originals originals_;
  Shape shape_;
  ImageStore& store_;
  std::vector<std::uint8_t> pixels_;  ///< originals of all samples
  wire::Missing missing_;
  std::map<std::size_t, std::size_t> same_;  ///< samples whose image comes as that of an earlier sample
  std::size_t done_ = 0;                     ///< how many of the missing images are there
  std::size_t next_ = 0;                     ///< pixels that have come
  std::size_t in_next_ = 0;                  ///< pixels of the next image that have come
};

}  // namespace convoy
