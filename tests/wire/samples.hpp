// A stage and an Assign that have something in every field.
#pragma once

#include "wire/codec.hpp"

namespace convoy::wire {

inline Stage sample_stage() {
  return {.name = "conv1",
          .channels = 3,
          .height = 9,
          .width = 8,
          .conv = {.filters = 7,
                   .kernel_h = 3,
                   .kernel_w = 2,
                   .stride_h = 1,
                   .stride_w = 2,
                   .pad = {1, 0, 2, 1},
                   .dilation_h = 2,
                   .dilation_w = 3},
          .after = {Activation{Activation::Kind::leaky_relu, 0.125F},
                    Pooling{.kind = PoolKind::average, .pad = {0, 1, 1, 0}}, Dropout{0.25F, 3, true},
                    BatchNorm{.name = "norm1", .epsilon = 0.5F, .momentum = 0.25F, .rate = 0.75F},
                    Activation{Activation::Kind::clip, -0.5F, 6.0F}, Activation{Activation::Kind::celu, 0.5F},
                    Multiply{{{Source::kZeros, {0, 7}}}, true},
                    Pooling{.kind = PoolKind::average_with_padding, .kernel_h = 1, .kernel_w = 1},
                    Pooling{.kernel_h = 1, .kernel_w = 1, .pad = {}, .dilation_h = 5, .dilation_w = 6}},
          .moments = 2,
          .shuffle = 3,
          .group_norm = {.groups = 4, .epsilon = 0.125F, .by_position = true},
          .resizing = {Resizing::Mode::spread, {50, 6.0, 2.0}, {40, 5.0, 0.0}}};
}

/// The stage after sample_stage() in a trunk.
inline Stage next_stage() {
  const Shape maps = output_shape(sample_stage(), 1, 7);
  return {.name = "conv2",
          .channels = maps.c,
          .height = maps.h,
          .width = maps.w,
          .conv = {.filters = 14, .kernel_h = 1, .kernel_w = 1, .bias = false, .groups = 7, .rate = 0.5F},
          .after = {}};
}

inline Assign sample_assign() {
  const StagePlan in_rows{.rows = {{{0, 3}, {{0, {0, 14}}}}, {{3, 5}, {{1, {0, 14}}}}},
                          .owners = {{0, {0, 6}}, {1, {6, 8}}},
                          .replicated = false};
  Plan plan{.batch = 64,
            .members = {"garage", "attic"},
            .stages = {stage_plan({3, 4}, 8), in_rows},
            .exchange = Exchange::ring,
            .wire = NumberType::bf16,
            .micro_batches = 8,
            .relayed = true,
            .early_sums = 1,
            .unequal = {1}};
  plan.stages[0].replicated = true;
  return {{sample_stage(), next_stage()},
          plan,
          1,
          "token",
          {":5571", "10.0.0.2:5571"},
          true,
          {"", "key"},
          {{1, {2, 5}, 1, 0}},
          {"first", "second"}};
}

}  // namespace convoy::wire
