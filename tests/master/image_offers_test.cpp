// Tests what the master offers of a batch, and what it sends to a slave that lacks some of it.

#include "master/cluster/image_offers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

/// Images of one channel and four pixels, whose value is that of their sample.
Images numbered_images(int count, int first = 0) {
  Images images{Pixels({count, 1, 2, 2}), {{}}};
  for (int i = 0; i < count; ++i) {
    for (std::uint8_t& pixel : images.pixels.sample(i)) pixel = static_cast<std::uint8_t>(first + i);
  }
  images.originals.resize(static_cast<std::size_t>(count));
  images.fill = {9};
  return images;
}

/// Sends the second half of each micro-batch of four samples.
Task second_half(int micro_batch) {
  return {.kind = TaskKind::send,
          .stage = Source::kImages,
          .micro_batch = micro_batch,
          .filters = {0, 1},
          .samples = {2, 2},
          .to = 0,
          .after = {}};
}

class ImagesOffered : public testing::Test {
 protected:
  /// The values and the Piece::first of each image that is sent for an answer.
  std::vector<std::pair<int, std::uint64_t>> sent_for(const wire::Missing& missing, std::size_t slave = 0) {
    std::vector<std::pair<int, std::uint64_t>> sent;
    bytes_ = offers_.answer(slave, missing, [&](wire::Envelope&& envelope) {
      const auto& piece = std::get<wire::Piece>(envelope.message);
      EXPECT_EQ(piece.step, missing.step);
      EXPECT_EQ(piece.task, missing.task);
      EXPECT_EQ(envelope.payload.size(), 4U);
      sent.emplace_back(static_cast<int>(std::as_const(envelope.payload).bytes()[0]), piece.first);
    });
    return sent;
  }
  std::string error_of(const wire::Missing& missing, std::size_t slave = 0) {
    try {
      sent_for(missing, slave);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  ImageOffers offers_;
  ImageBytes bytes_;
};

TEST_F(ImagesOffered, AreThoseOfTheSend) {
  const Images images = numbered_images(8);
  offers_.give(1, images);
  const auto offer = offers_.offer(0, 1, 5, second_half(1), 4);
  ASSERT_TRUE(offer);
  EXPECT_EQ(offer->step, 1U);
  EXPECT_EQ(offer->task, 5U);
  EXPECT_EQ(offer->contents,
            (std::vector{wire::content_of(images.pixels.sample(6)), wire::content_of(images.pixels.sample(7))}));
  EXPECT_TRUE(offer->views.empty());
  EXPECT_EQ(sent_for({1, 5, {1}}), (std::vector<std::pair<int, std::uint64_t>>{{7, 0}}));
  EXPECT_EQ(bytes_.sent, 4.0);
  EXPECT_EQ(bytes_.kept, 4.0);
}

TEST_F(ImagesOffered, HaveTheOriginalsOfViews) {
  Images images = numbered_images(4);
  const std::vector<std::uint8_t> original{50, 51, 52, 53};
  images.originals[2] = {.pixels = original, .view = {.down = 1, .right = -1, .flip = true}};
  offers_.give(1, images);
  const auto offer = offers_.offer(0, 1, 5, second_half(0), 4);
  ASSERT_TRUE(offer);
  EXPECT_EQ(offer->contents[0], wire::content_of(std::span(original)));
  EXPECT_EQ(offer->views, (std::vector<ImageView>{{.down = 1, .right = -1, .flip = true}, {}}));
  EXPECT_EQ(offer->fill, std::vector<std::uint8_t>{9});
  EXPECT_EQ(sent_for({1, 5, {0, 1}}), (std::vector<std::pair<int, std::uint64_t>>{{50, 0}, {3, 4}}));
}

TEST_F(ImagesOffered, AreNotThoseThatAreNewInEachEpoch) {
  Images images = numbered_images(4);
  images.originals.clear();
  offers_.give(1, images);
  EXPECT_FALSE(offers_.offer(0, 1, 5, second_half(0), 4));
  offers_.give(2, numbered_images(4));
  Task part = second_half(0);
  part.filters = {0, 2};
  EXPECT_FALSE(offers_.offer(0, 2, 5, part, 4)) << "other channels than those of the images";
  EXPECT_FALSE(offers_.offer(0, 3, 5, second_half(0), 4)) << "a step without images";
}

TEST_F(ImagesOffered, AreAnsweredOnceByTheSlaveThatHadTheOffer) {
  offers_.give(1, numbered_images(4));
  offers_.offer(0, 1, 5, second_half(0), 4);
  EXPECT_THAT(error_of({1, 5, {}}, 1), HasSubstr("an unrequested Missing came, of task 5 in step 1"));
  EXPECT_THAT(error_of({1, 4, {}}), HasSubstr("an unrequested Missing came, of task 4"));
  EXPECT_THAT(error_of({2, 5, {}}), HasSubstr("an unrequested Missing came"));
  EXPECT_EQ(error_of({1, 5, {}}), "");
  EXPECT_THAT(error_of({1, 5, {}}), HasSubstr("an unrequested Missing came"));
  offers_.offer(0, 1, 5, second_half(0), 4);
  EXPECT_THAT(error_of({1, 5, {2}}), HasSubstr("a Missing names sample 2; the offer has samples 0 to 1"));
  offers_.offer(0, 1, 5, second_half(0), 4);
  offers_.clear();
  EXPECT_THAT(error_of({1, 5, {}}), HasSubstr("an unrequested Missing came")) << "another plan has begun";
}

TEST_F(ImagesOffered, AreRememberedForThreeSteps) {
  for (int step = 1; step <= 4; ++step) {
    offers_.give(static_cast<std::uint64_t>(step), numbered_images(4, 10 * step));
    offers_.offer(0, static_cast<std::uint64_t>(step), 5, second_half(0), 4);
  }
  EXPECT_THAT(error_of({1, 5, {0}}), HasSubstr("an unrequested Missing came"));
  for (int step = 2; step <= 4; ++step) {
    EXPECT_EQ(sent_for({static_cast<std::uint64_t>(step), 5, {0}}),
              (std::vector<std::pair<int, std::uint64_t>>{{10 * step + 2, 0}}));
  }
}

TEST_F(ImagesOffered, OfManyBytesTravelInSeveralPieces) {
  Images images{Pixels({1, 1, 1500, 1000}, 3), {{}}};
  images.originals.resize(1);
  images.fill = {0};
  offers_.give(1, images);
  Task whole = second_half(0);
  whole.samples = {0, 1};
  ASSERT_TRUE(offers_.offer(0, 1, 5, whole, 1));
  std::vector<std::pair<std::uint64_t, std::size_t>> pieces;
  offers_.answer(0, {1, 5, {0}}, [&](wire::Envelope&& envelope) {
    pieces.emplace_back(std::get<wire::Piece>(envelope.message).first, envelope.payload.size());
  });
  EXPECT_EQ(pieces,
            (std::vector<std::pair<std::uint64_t, std::size_t>>{{0, 1U << 20}, {1U << 20, 1500000 - (1U << 20)}}));
}

}  // namespace
}  // namespace convoy
