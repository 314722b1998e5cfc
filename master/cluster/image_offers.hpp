// Images that the master offers to slaves by their contents, so that a slave that has kept an image is not sent it
// again.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "core/images.hpp"
#include "plan/task_graph.hpp"
#include "wire/link.hpp"

namespace convoy {

/// The bytes of images that slaves needed.
struct ImageBytes {
  double sent = 0.0;  ///< bytes of the images that were sent to slaves
  double kept = 0.0;  ///< bytes of the images that slaves had already
};

/// The offers of one plan. All steps are numbered as those of the plan.
class ImageOffers {
 public:
  /// Takes the images of a step, for the offers to come. Images of a few steps are remembered.
  void give(std::uint64_t step, const Images& images);
  /// Returns what is sent to a slave instead of the values of a send of images, which has `index` in the graph of the
  /// step. Nothing if the values are sent: samples of this step have no originals, or only some channels are sent.
  /// `micro_batch` is the number of samples in a micro-batch.
  std::optional<wire::Originals> offer(std::size_t slave, std::uint64_t step, int index, const Task& sent,
                                       int micro_batch);
  /// Calls `send` with the originals that the slave lacks. Returns the bytes of the offered originals, sent and not
  /// sent. Throws Error if this step and task had no offer for the slave.
  ImageBytes answer(std::size_t slave, const wire::Missing& missing, const std::function<void(wire::Envelope&&)>& send);
  /// Another plan begins.
  void clear();

 private:
  struct Batch {
    std::uint64_t step = 0;
    int channels = 0;
    std::shared_ptr<const std::vector<std::uint8_t>> pixels;  ///< originals of all samples, one after another
    std::vector<wire::Content> contents;
    std::vector<ImageView> views;  ///< empty if all samples are their originals
    std::vector<std::uint8_t> fill;
  };
  using Name = std::tuple<std::size_t, std::uint64_t, std::uint32_t>;  ///< slave, step, task

  const Batch* of(std::uint64_t step) const;

  std::deque<Batch> batches_;            ///< the newest last
  std::map<Name, SampleRange> offered_;  ///< samples of the batch in each offer that is not answered
};

}  // namespace convoy
