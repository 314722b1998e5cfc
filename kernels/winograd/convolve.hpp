// The forward pass, in rounds of some filters. In a round each thread takes a range of tiles at a time: it computes
// the values of their inputs, then multiplies them by those of a group of filters and turns the products into maps,
// until it has all filters of the round.
#pragma once

#include <omp.h>

#include "kernels/winograd/tiles.hpp"

namespace convoy {
namespace {

/// Blocks of filters that one multiplication takes at a time.
constexpr int kPanel = 2;

template <int P>
struct Convolving {
  // The sums of a range of tiles and a group of filters take some 0.5 MB, and stay in a core's cache.
  static constexpr int kGroup = P == 6 ? 4 : 2;  ///< blocks of filters
  // The values of the filters that the pass takes at a time stay in a cache that all cores share, as do those of the
  // inputs of each thread's range. These limits also bound the memory of the pass.
  static constexpr std::size_t kFilterValues = std::size_t{4} << 20U;
  static constexpr std::size_t kInputValues = std::size_t{2} << 20U;

  Convolving(const WinogradShape& of, int of_threads)
      : shape(of),
        tiles(of, P),
        threads(of_threads),
        channel_blocks(of.channels / kWidth),
        filter_blocks(of.filters / kWidth) {
    const std::size_t of_channels = std::size_t{P * P} * shape.channels;
    const int filters = smaller(filter_blocks, int(kFilterValues / (of_channels * kWidth)));
    round_blocks = larger(filters / kGroup, 1) * kGroup;
    int usual = smaller(4 * kTileRows, int(kInputValues / of_channels) / kTileRows * kTileRows);
    usual = larger(usual, 2 * kTileRows);
    int ranges = divided_up(tiles.count, usual);
    if (ranges < 8 * threads) ranges = divided_up(ranges, threads) * threads;
    range_tiles = divided_up(tiles.count, ranges);
  }

  std::size_t filter_values() const {
    return std::size_t{P * P} * shape.channels * smaller(round_blocks, filter_blocks) * kWidth;
  }
  std::size_t input_values() const { return P * P * of_pair(range_tiles, channel_blocks); }
  std::size_t sums() const { return P * P * of_pair(range_tiles, kGroup); }
  std::size_t scratch() const { return filter_values() + threads * (input_values() + sums()); }

  WinogradShape shape;
  Tiles tiles;
  int threads;
  int channel_blocks;
  int filter_blocks;
  int round_blocks;  ///< blocks of filters that the pass takes at a time: whole groups
  int range_tiles;   ///< tiles that a thread takes at a time
};

/// The blocks of filters of a round. Their values are (panel, pair of points, channel, filter of the panel).
struct Round {
  int first;
  int blocks;
  /// Returns the number of blocks in the panel that begins with `block` of the round.
  int panel_blocks(int block) const { return smaller(kPanel, blocks - block); }
};

template <int P, int K>
void evaluate_filters(const Convolving<P>& job, const Round& round, int block, const float* weights, bool turned,
                      float* values) {
  const int first = block / kPanel * kPanel;
  const int columns = round.panel_blocks(first) * kWidth;
  const std::size_t pair = std::size_t(job.shape.channels) * columns;
  float* panel = values + std::size_t{P * P} * job.shape.channels * first * kWidth + (block - first) * kWidth;
  constexpr int kTap = kWidth * kWidth;  // floats from one weight of a filter to the next
  for (int channel = 0; channel < job.shape.channels; ++channel) {
    const std::size_t of_block = std::size_t(round.first + block) * job.channel_blocks + channel / kWidth;
    const float* from = weights + of_block * K * K * kTap + channel % kWidth * kWidth;
    Vec taps[K * K];
    Vec found[P * P];
#pragma GCC unroll 25
    for (int i = 0; i < K * K; ++i) taps[i] = load(from + (turned ? K * K - 1 - i : i) * kTap);
    evaluate_square<P, K>(taps, found);
    store_values<P>(found, panel + std::size_t(channel) * columns, pair);
  }
}

/// Multiplies the values of a range's inputs by those of a group of filters of a round.
template <int P>
void multiply_group(const Convolving<P>& job, TileRange range, const float* inputs, const Round& round,
                    const float* filters, int group, int blocks, float* sums) {
  const std::size_t input_pair = of_pair(range.count, job.channel_blocks);
  const std::size_t sum_pair = of_pair(range.count, Convolving<P>::kGroup);
  const std::size_t block_size = std::size_t(range.count) * kWidth;
  const int parts = divided_up(range.count, kTileRows);
  for (int pair = 0; pair < P * P; ++pair) {
    for (int block = 0; block < blocks; block += kPanel) {
      const int in_panel = round.panel_blocks(group + block);
      const std::size_t before = std::size_t{P * P} * (group + block) + std::size_t(pair) * in_panel;
      const float* panel = filters + before * job.shape.channels * kWidth;
      for (int part = 0; part < parts; ++part) {
        const int begin = range.count * part / parts;
        const int rows = range.count * (part + 1) / parts - begin;
        const float* values = inputs + pair * input_pair + begin * kWidth;
        const Blocks into{sums + pair * sum_pair + block * block_size + begin * kWidth, block_size};
        if (in_panel == kPanel) {
          multiply_tiles<kTileRows, kPanel>(rows, values, block_size, job.channel_blocks, panel, into);
        } else {
          multiply_tiles<kTileRows, 1>(rows, values, block_size, job.channel_blocks, panel, into);
        }
      }
    }
  }
}

/// Turns the sums of a block of filters into maps.
template <int P, int M>
void gather_maps(const Convolving<P>& job, TileRange range, const float* sums, int block,
                 const WinogradEpilogue& epilogue, float* output) {
  const WinogradShape& shape = job.shape;
  const std::size_t pair = of_pair(range.count, Convolving<P>::kGroup);
  const std::size_t plane = std::size_t(shape.out_h) * shape.out_w * kWidth;
  const Vec added = epilogue.bias != nullptr ? load(epilogue.bias + block * kWidth) : zero();
  for (int i = 0; i < range.count; ++i) {
    const Tiles::Place place = job.tiles[range.first + i];
    Vec values[P * P];
    Vec maps[M * M];
    load_values<P>(sums + i * kWidth, pair, values);
    gather_square<P, M>(values, maps);
    float* to = output + place.sample * shape.out_sample + block * plane +
                (std::size_t(place.row) * shape.out_w + place.column) * kWidth;
    const int rows = smaller(M, shape.out_h - place.row);
    const int columns = smaller(M, shape.out_w - place.column);
#pragma GCC unroll 6
    for (int y = 0; y < M; ++y) {
#pragma GCC unroll 6
      for (int x = 0; x < M; ++x) {
        const Vec result = maps[y * M + x] + added;
        if (y < rows && x < columns) {
          store(to + (std::size_t(y) * shape.out_w + x) * kWidth,
                epilogue.relu ? relu(result, epilogue.slope) : result);
        }
      }
    }
  }
}

template <int P, int K>
void convolve_with(const WinogradShape& shape, const float* input, const float* weights, bool turned,
                   const WinogradEpilogue& epilogue, float* output, float* scratch, int threads) {
  using Job = Convolving<P>;
  const Job job(shape, threads);
  const int ranges = divided_up(job.tiles.count, job.range_tiles);
  float* filters = scratch;
  float* of_threads = filters + job.filter_values();
#pragma omp parallel num_threads(threads)
  for (int first = 0; first < job.filter_blocks; first += job.round_blocks) {
    const Round round{first, smaller(job.round_blocks, job.filter_blocks - first)};
#pragma omp for schedule(static)
    for (int block = 0; block < round.blocks; ++block) {
      evaluate_filters<P, K>(job, round, block, weights, turned, filters);
    }
    float* inputs = of_threads + omp_get_thread_num() * (job.input_values() + job.sums());
    float* sums = inputs + job.input_values();
#pragma omp for schedule(dynamic, 1)
    for (int i = 0; i < ranges; ++i) {
      const int begin = i * job.range_tiles;
      const TileRange range{begin, smaller(job.range_tiles, job.tiles.count - begin)};
      spread_inputs<P>(shape, job.tiles, input, range, 0, job.channel_blocks, inputs);
      for (int group = 0; group < round.blocks; group += Job::kGroup) {
        const int blocks = smaller(Job::kGroup, round.blocks - group);
        multiply_group<P>(job, range, inputs, round, filters, group, blocks, sums);
        for (int block = 0; block < blocks; ++block) {
          const float* of_block = sums + std::size_t(block) * range.count * kWidth;
          gather_maps<P, P + 1 - K>(job, range, of_block, round.first + group + block, epilogue, output);
        }
      }
    }
  }
}

}  // namespace
}  // namespace convoy
