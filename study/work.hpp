// A training step of some stages on a device, as work for a study.
#pragma once

#include <memory>
#include <vector>

#include "core/stage.hpp"
#include "kernels/device.hpp"
#include "study/measure.hpp"

namespace convoy::study {

/// Returns a step of the stages' convolutions, without the layers after them, over `batch` random images: forward,
/// input gradient (but of the first stage), filter gradient and update. Each stage reads maps of its own. Stages of
/// other kinds are left out. The device must outlive the work. Throws Error where the shards need more than `memory`
/// bytes, where no stage is a convolution, and where the device cannot compute a stage.
Work work_of(Device& device, const std::vector<Stage>& stages, int batch, std::size_t memory);

}  // namespace convoy::study
