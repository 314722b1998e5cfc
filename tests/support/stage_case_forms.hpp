// Short forms for stages of the list of cases. Only the sources of stage_cases.hpp include the header.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/support/stage_cases.hpp"

namespace convoy {

struct Sizes {
  int batch, channels, height, width, filters;
};

inline Stage make(const Sizes& sizes, const Convolution& conv, std::vector<ChannelLayer> after) {
  Stage stage{.name = "stage",
              .channels = sizes.channels,
              .height = sizes.height,
              .width = sizes.width,
              .conv = conv,
              .after = std::move(after)};
  stage.conv.filters = sizes.filters;
  return stage;
}

inline StageCase whole(std::string name, const Sizes& sizes, const Convolution& conv,
                       std::vector<ChannelLayer> after = {}, bool input_gradient = true) {
  return {std::move(name), {make(sizes, conv, std::move(after)), {0, sizes.filters}, sizes.batch, input_gradient}};
}

inline StageCase part(std::string name, const Sizes& sizes, const Convolution& conv, std::vector<ChannelLayer> after,
                      FilterRange filters) {
  return {std::move(name), {make(sizes, conv, std::move(after)), filters, sizes.batch, true}};
}

inline Convolution square(int kernel, int stride = 1, int pad = 0) {
  return {.kernel_h = kernel, .kernel_w = kernel, .stride_h = stride, .stride_w = stride, .pad = {pad, pad, pad, pad}};
}

inline constexpr Pooling kMax2{};
inline constexpr Pooling kAverage2{.kind = PoolKind::average};
inline constexpr Pooling kMax3Overlapping{
    .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .pad = {1, 1, 1, 1}};
inline constexpr Pooling kAverage3Overlapping{
    .kind = PoolKind::average, .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .pad = {1, 1, 1, 1}};
inline constexpr Pooling kAverage3Padded{.kind = PoolKind::average_with_padding,
                                         .kernel_h = 3,
                                         .kernel_w = 3,
                                         .stride_h = 2,
                                         .stride_w = 2,
                                         .pad = {1, 1, 1, 1}};
inline constexpr Pooling kAveragePaddedRectangular{.kind = PoolKind::average_with_padding,
                                                   .kernel_h = 2,
                                                   .kernel_w = 3,
                                                   .stride_h = 1,
                                                   .stride_w = 2,
                                                   .pad = {0, 1, 1, 2}};
inline constexpr Pooling kMaxRectangular{
    .kernel_h = 2, .kernel_w = 3, .stride_h = 1, .stride_w = 2, .pad = {0, 1, 1, 2}};

inline Convolution without_bias(Convolution conv) {
  conv.bias = false;
  return conv;
}

inline Convolution in_groups(Convolution conv, int groups) {
  conv.groups = groups;
  return conv;
}

inline StageCase with_adam(StageCase of) {
  of.spec.stage.moments = moments_of(Optimizer::adam);
  return of;
}

/// A stage without a convolution.
inline StageCase weightless(std::string name, StageKind kind, const Sizes& sizes, std::vector<ChannelLayer> after,
                            FilterRange filters) {
  Stage stage = stage_without_weights("stage", kind, sizes.channels, sizes.height, sizes.width);
  stage.after = std::move(after);
  stage.norm = {.size = 5, .alpha = 0.5F, .beta = 0.75F, .k = 1.5F};
  return {std::move(name), {stage, filters, sizes.batch, true}};
}

inline StageCase of_norm_size(int size, StageCase of) {
  of.spec.stage.norm.size = size;
  return of;
}

inline StageCase shuffled(std::string name, const Sizes& sizes, int groups, std::vector<ChannelLayer> after,
                          FilterRange filters) {
  StageCase made = weightless(std::move(name), StageKind::shuffle, sizes, std::move(after), filters);
  made.spec.stage.shuffle = groups;
  return made;
}

/// The parts of the list that have sources of their own.
std::vector<StageCase> dilated_cases();
std::vector<StageCase> cases_of_norms_and_sizes();

}  // namespace convoy
