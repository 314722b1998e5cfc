// A step of stages on a device.
#include "study/work.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "devices/registry.hpp"
#include "study/stage_text.hpp"

namespace convoy::study {
namespace {

TEST(StudyWork, CountsItsOperationsAndRuns) {
  const auto device = make_device("eigen", {.threads = 1});
  const Work work = work_of(*device, stages_from("3x8x8:4x3x3,4x6x6:8x3x3:p1:g2"), 5, std::size_t{1} << 30);
  EXPECT_EQ(work.images, 5);
  // Multiplications and additions of an image: 6 x 6 x 4 filters x 27 twice, and 6 x 6 x 8 filters x 18 three times.
  EXPECT_DOUBLE_EQ(work.flops, 5 * 2.0 * (2 * 36 * 4 * 27 + 3 * 36 * 8 * 18));
  work.step();
  work.step();
}

TEST(StudyWork, RefusesWhatDoesNotFit) {
  const auto device = make_device("eigen", {.threads = 1});
  try {
    work_of(*device, stages_from("3x8x8:4x3x3"), 5, 1000);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("use a smaller --batch"));
  }
  EXPECT_THROW(work_of(*device, {stage_without_weights("norm", StageKind::response_norm, 5, 4, 4)}, 1, 1 << 30), Error);
}

}  // namespace
}  // namespace convoy::study
