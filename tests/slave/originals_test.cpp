// Tests a slave that is offered images by their contents: it asks for those that it lacks, and computes as if it had
// been sent all.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/support/fake_master.hpp"
#include "wire/stream.hpp"

namespace convoy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Image = std::vector<std::uint8_t>;

constexpr Shape kShape{1, 1, 6, 6};
/// The task that sends the images in a step without training, which updates nothing.
constexpr std::uint32_t kImagesOfATest = 0;

Image image_of(std::uint8_t first) {
  Image image(kShape.sample_size());
  for (std::uint8_t& pixel : image) pixel = first = static_cast<std::uint8_t>(first + 7);
  return image;
}

wire::Content content_of(const Image& image) { return wire::content_of(std::span(image)); }

class Offers : public testing::Test {
 protected:
  void SetUp() override { begin_run(); }

  /// The slave has weights that differ, so that its maps show its images.
  void begin_run() {
    ASSERT_TRUE(master_.welcome());
    master_.assign();
    ShardState state = zero_state(stage(), 4);
    float value = 0.0F;
    for_each_tensor(state, [&](Tensor& tensor) {
      for (float& each : tensor.span()) each = value += 0.01F;
    });
    master_.send(wire::Load{0, {0, 4}, wire::contents_of(state, {0, 4})});
    const wire::Message answer = master_.next();
    if (!std::get<wire::Wanted>(answer).blocks.empty()) {
      wire::send_values({.step = 0, .task = 0, .first = 0}, wire::values_of(std::as_const(state)),
                        [&](const wire::Envelope& piece) { master_.send(piece); });
    }
    master_.next();
    step_ = 0;
  }
  void send_pixels(const Image& image, std::uint64_t first, std::uint32_t task = kImagesOfATest) {
    wire::Payload payload(image.size());
    std::ranges::copy(std::as_bytes(std::span(image)), payload.bytes().begin());
    master_.send(wire::Envelope{wire::Piece{.step = step_, .task = task, .first = first}, payload});
  }
  /// The maps of a forward pass.
  std::vector<float> maps() {
    const wire::Envelope piece = master_.next_envelope();
    if (!std::holds_alternative<wire::Piece>(piece.message)) {
      ADD_FAILURE() << wire::name_of(piece.message) << " came where maps were due";
      return {};
    }
    const auto floats = piece.payload.floats();
    std::vector<float> values(floats.begin(), floats.end());
    EXPECT_EQ(wire::name_of(master_.next()), "Done");
    return values;
  }
  /// A forward pass for which all pixels are sent.
  std::vector<float> maps_of(const Image& one, const Image& other) {
    master_.send(step_of(++step_, {}));
    Image both = one;
    both.insert(both.end(), other.begin(), other.end());
    send_pixels(both, 0);
    return maps();
  }
  /// Offers two images. Returns the samples whose images the slave lacks.
  std::vector<std::uint32_t> offer(const Image& one, const Image& other, const std::vector<ImageView>& views = {},
                                   const Image& fill = {}) {
    master_.send(step_of(++step_, {}));
    master_.send(wire::Originals{.step = step_,
                                 .task = kImagesOfATest,
                                 .contents = {content_of(one), content_of(other)},
                                 .views = views,
                                 .fill = fill});
    const wire::Message answer = master_.next();
    const auto* missing = std::get_if<wire::Missing>(&answer);
    EXPECT_NE(missing, nullptr) << wire::name_of(answer) << " came where Missing was due";
    return missing != nullptr ? missing->samples : std::vector<std::uint32_t>{};
  }

  FakeMaster master_;
  SlaveThread slave_{master_.endpoint()};
  std::uint64_t step_ = 0;
};

TEST_F(Offers, BringWhatTheSlaveLacks) {
  const Image a = image_of(1);
  const Image b = image_of(50);
  const Image c = image_of(90);
  const std::vector<float> of_a_b = maps_of(a, b);
  const std::vector<float> of_c_a = maps_of(c, a);
  ASSERT_NE(of_a_b, of_c_a);
  EXPECT_THAT(offer(a, b), ElementsAre(0U, 1U));
  send_pixels(a, 0);
  send_pixels(b, a.size());
  EXPECT_EQ(maps(), of_a_b);
  EXPECT_THAT(offer(a, b), IsEmpty());
  EXPECT_EQ(maps(), of_a_b);
  EXPECT_THAT(offer(c, a), ElementsAre(0U));
  send_pixels({c.begin(), c.begin() + 10}, 0);
  send_pixels({c.begin() + 10, c.end()}, 10);
  EXPECT_EQ(maps(), of_c_a);
}

TEST_F(Offers, AreCutToViews) {
  const Image a = image_of(1);
  const Image b = image_of(50);
  const ImageView mirrored{.flip = true};
  const ImageView moved{.down = -2, .right = 3};
  const Image outside{200};
  Image a_mirrored(a.size());
  Image b_moved(b.size());
  move_image(a, kShape, mirrored, outside, a_mirrored);
  move_image(b, kShape, moved, outside, b_moved);
  const std::vector<float> expected = maps_of(a_mirrored, b_moved);
  EXPECT_THAT(offer(a, b, {mirrored, moved}, outside), ElementsAre(0U, 1U));
  send_pixels(a, 0);
  send_pixels(b, a.size());
  EXPECT_EQ(maps(), expected);
  EXPECT_THAT(offer(b, a, {moved, mirrored}, outside), IsEmpty()) << "other views of the same images";
  EXPECT_EQ(maps(), maps_of(b_moved, a_mirrored));
}

TEST_F(Offers, OfTheSameImageTwiceBringItOnce) {
  const std::vector<float> expected = maps_of(image_of(1), image_of(1));
  EXPECT_THAT(offer(image_of(1), image_of(1)), ElementsAre(0U));
  send_pixels(image_of(1), 0);
  EXPECT_EQ(maps(), expected);
}

TEST_F(Offers, AreRememberedInTheNextRun) {
  EXPECT_THAT(offer(image_of(1), image_of(2)), ElementsAre(0U, 1U));
  send_pixels(image_of(1), 0);
  send_pixels(image_of(2), kShape.sample_size());
  const std::vector<float> expected = maps();
  master_.send(wire::Bye{"over"}, Channel::control);
  begin_run();
  EXPECT_THAT(offer(image_of(1), image_of(2)), IsEmpty());
  EXPECT_EQ(maps(), expected);
}

TEST_F(Offers, MayBeOfTheNextStepAndEndWithThePlan) {
  master_.send(training_step(++step_));
  master_.send(training_step(++step_));
  const wire::Originals next{.step = step_,
                             .task = images_task(),
                             .contents = {content_of(image_of(1)), content_of(image_of(2))},
                             .views = {},
                             .fill = {}};
  master_.send(next);
  EXPECT_EQ(wire::name_of(master_.next()), "Missing");
  send_pixels(image_of(1), 0, images_task());
  master_.send(assign_of());
  EXPECT_EQ(wire::name_of(master_.next()), "Done");
  step_ = 0;
  EXPECT_THAT(offer(image_of(1), image_of(2)), ElementsAre(1U)) << "the first image had come";
  send_pixels(image_of(2), 0);
  maps();
}

}  // namespace
}  // namespace convoy
