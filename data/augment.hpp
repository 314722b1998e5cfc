// Random changes of an image's colours and parts. All functions are pure functions of the random numbers that they
// draw.
#pragma once

#include <cstdint>
#include <span>

#include "core/random.hpp"
#include "data/image_file.hpp"

namespace convoy {

/// Draws a part of a picture that has from `least` to all of its area, and sides as 3/4 to 4/3, as torchvision's
/// RandomResizedCrop does: after ten parts that do not fit, the middle with the sides nearest to these.
Region random_part(const FeatureShape& picture, double least, Random& random);

/// Changes brightness, contrast and saturation of an image (channel, row, column) by factors that `augment` bounds, in
/// a random order, as torchvision's ColorJitter does. An image that is not in colour keeps its saturation.
void jitter_colours(std::span<std::uint8_t> pixels, const FeatureShape& shape, const Augmentation& augment,
                    Random& random);

/// Paints a square with the colour of `means`, a byte for each channel. Its middle is anywhere in the image, so that a
/// part of it may lie outside.
void cut_square_out(std::span<std::uint8_t> pixels, const FeatureShape& shape, int side,
                    std::span<const std::uint8_t> means, Random& random);

/// The share of an image that is not mixed with another image.
inline constexpr int kWholeShare = 65536;

/// Draws a number from 0 to 1 of the distribution Beta(alpha, alpha), from two numbers of the gamma distribution
/// (Marsaglia and Tsang, A Simple Method for Generating Gamma Variables, 2000).
double draw_share(double alpha, Random& random);

/// Mixes each pixel with the pixel of another image at the same place, in whole numbers: the parts are `share` and
/// kWholeShare - `share`.
void mix_pixels(std::span<std::uint8_t> pixels, std::span<const std::uint8_t> other, int share);

}  // namespace convoy
