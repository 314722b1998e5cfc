// The forward pass. The values of tiles' inputs and of filters are multiplied panel by panel: a panel has two blocks of
// filters, which one multiplication takes at a time. Whichever there is less of, the values of the filters or of the
// inputs, is computed once for all threads; each thread computes some of the others and uses them at once, so that
// these stay in its own cache.
#pragma once

#include <omp.h>

#include "kernels/winograd/tiles.hpp"

namespace convoy {
namespace {

/// Blocks of filters in a panel; the last panel may have fewer.
constexpr int kPanel = 2;

/// Returns the floats from one pair of points to the next in the values of a panel of filters: (channel, filter). As
/// with maps, a vector more keeps pairs out of the same lines of a cache.
constexpr std::size_t of_panel(int channel_blocks, int blocks) {
  return std::size_t(channel_blocks) * kWidth * blocks * kWidth + kWidth;
}

/// Some blocks of channels of some filters.
struct Filters {
  int first;
  int blocks;  ///< at most kPanel
  int first_channel;
  int channel_blocks;
};

/// What the pass reads and writes.
struct Operands {
  const WinogradShape& shape;
  const float* input;
  const float* weights;
  bool turned;
  const WinogradEpilogue& epilogue;
  float* output;
};

/// Computes the values of filters: (pair of points, channel, filter).
template <int P, int K>
void evaluate_filters(const Operands& of, const Filters& filters, const Values& values) {
  constexpr int kTap = kWidth * kWidth;  // floats from one weight of a filter to the next
  const int columns = filters.blocks * kWidth;
  const int all_channels = of.shape.channels / kWidth;
  for (int channel = 0; channel < filters.channel_blocks * kWidth; ++channel) {
    for (int block = 0; block < filters.blocks; ++block) {
      const std::size_t of_block =
          std::size_t(filters.first + block) * all_channels + filters.first_channel + channel / kWidth;
      const float* from = of.weights + of_block * K * K * kTap + channel % kWidth * kWidth;
      Vec taps[K * K];
      Vec found[P * P];
#pragma GCC unroll 25
      for (int i = 0; i < K * K; ++i) taps[i] = load(from + (of.turned ? K * K - 1 - i : i) * kTap);
      evaluate_square<P, K>(taps, found);
      store_values<P>(found, values.data + std::size_t(channel) * columns + block * kWidth, values.pair);
    }
  }
}

/// Multiplies the values of tiles' inputs by those of filters. `added` says whether the products are added to the sums.
template <int P>
void multiply_panel(const Values& inputs, int tiles, const Values& filters, int channel_blocks, int blocks,
                    const Values& sums, bool added) {
  const std::size_t block_size = std::size_t(tiles) * kWidth;
  const int parts = divided_up(tiles, kTileRows);
  for (int pair = 0; pair < P * P; ++pair) {
    const float* panel = filters.data + pair * filters.pair;
    for (int part = 0; part < parts; ++part) {
      const int begin = tiles * part / parts;
      const int rows = tiles * (part + 1) / parts - begin;
      const float* values = inputs.data + pair * inputs.pair + begin * kWidth;
      const Blocks into{sums.data + pair * sums.pair + begin * kWidth, block_size};
      if (blocks == kPanel) {
        multiply_tiles<kTileRows, kPanel>(rows, values, block_size, channel_blocks, panel, into, added);
      } else {
        multiply_tiles<kTileRows, 1>(rows, values, block_size, channel_blocks, panel, into, added);
      }
    }
  }
}

/// Turns the sums of a block of filters into maps.
template <int P, int M>
void gather_maps(const Operands& of, const Tiles& tiles, TileRange range, const Values& sums, int block) {
  const WinogradShape& shape = of.shape;
  const WinogradEpilogue& epilogue = of.epilogue;
  const std::size_t plane = std::size_t(shape.out_h) * shape.out_w * kWidth;
  const Vec added = epilogue.bias != nullptr ? load(epilogue.bias + block * kWidth) : zero();
  for (int i = 0; i < range.count; ++i) {
    const Tiles::Place place = tiles[range.first + i];
    Vec values[P * P];
    Vec maps[M * M];
    load_values<P>(sums.data + i * kWidth, sums.pair, values);
    gather_square<P, M>(values, maps);
    float* to = of.output + place.sample * shape.out_sample + block * plane +
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

template <int P, int M>
void gather_panel(const Operands& of, const Tiles& tiles, TileRange range, const Values& sums, const Filters& filters) {
  for (int block = 0; block < filters.blocks; ++block) {
    const std::size_t before = std::size_t(block) * range.count * kWidth;
    gather_maps<P, M>(of, tiles, range, {sums.data + before, sums.pair}, filters.first + block);
  }
}

/// What both ways of computing the pass have in common.
struct ConvolvingTiles {
  ConvolvingTiles(const WinogradShape& of, int of_points, int of_threads)
      : shape(of),
        tiles(of, of_points),
        pairs(of_points * of_points),
        threads(of_threads),
        channel_blocks(of.channels / kWidth),
        filter_blocks(of.filters / kWidth),
        panels(divided_up(filter_blocks, kPanel)) {}

  Filters panel(int index) const {
    const int first = index * kPanel;
    return {first, smaller(kPanel, filter_blocks - first), 0, channel_blocks};
  }
  /// Returns the number of tiles whose inputs have at most `floats` values: those of whole multiplications, and of two
  /// at least.
  int tiles_within(std::size_t floats) const {
    const auto within = int(floats / (std::size_t(pairs) * shape.channels));
    return larger(within / kTileRows, 2) * kTileRows;
  }
  std::size_t input_values(int of_tiles) const { return pairs * of_pair(of_tiles, channel_blocks); }
  std::size_t filter_values(int channels) const { return pairs * of_panel(channels, kPanel); }
  std::size_t sums(int of_tiles) const { return pairs * of_pair(of_tiles, kPanel); }

  WinogradShape shape;
  Tiles tiles;
  int pairs;  ///< of points
  int threads;
  int channel_blocks;
  int filter_blocks;
  int panels;
};

/// The values that threads share, in floats. They stay in a cache that all cores share, and bound the memory of a pass
/// on fewer than some 2000 channels.
constexpr std::size_t kSharedValues = std::size_t{4} << 20U;

/// The pass over many tiles, whose filters have fewer values, which are shared, and over too few filters to keep all
/// threads busy. A thread takes a range of tiles at a time.
struct SharingFilters : ConvolvingTiles {
  SharingFilters(const WinogradShape& of, int of_points, int of_threads) : ConvolvingTiles(of, of_points, of_threads) {
    // The sums of so many tiles stay in a core's cache. The other limit, 8 MB of inputs' values, bounds the memory on
    // fewer than some 1000 channels.
    const int usual = smaller(4 * kTileRows, tiles_within(std::size_t{2} << 20U));
    int ranges = divided_up(tiles.count, usual);
    if (ranges < 8 * threads) ranges = divided_up(ranges, threads) * threads;
    range_tiles = divided_up(tiles.count, ranges);
  }
  bool pays() const { return (tiles.count > shape.filters || panels < threads) && shared() <= kSharedValues; }
  std::size_t shared() const { return panels * filter_values(channel_blocks); }
  std::size_t of_thread() const { return input_values(range_tiles) + sums(range_tiles); }
  std::size_t scratch() const { return shared() + threads * of_thread(); }

  int range_tiles;
};

template <int P, int K>
void share_filters(const SharingFilters& job, const Operands& of, float* scratch) {
  const auto values_of = [&](const Filters& panel) {
    return Values{scratch + panel.first / kPanel * job.filter_values(job.channel_blocks),
                  of_panel(job.channel_blocks, panel.blocks)};
  };
  const int ranges = divided_up(job.tiles.count, job.range_tiles);
#pragma omp parallel num_threads(job.threads)
  {
#pragma omp for schedule(static)
    for (int i = 0; i < job.panels; ++i) evaluate_filters<P, K>(of, job.panel(i), values_of(job.panel(i)));
    float* own = scratch + job.shared() + omp_get_thread_num() * job.of_thread();
#pragma omp for schedule(dynamic, 1)
    for (int i = 0; i < ranges; ++i) {
      const int first = i * job.range_tiles;
      const TileRange range{first, smaller(job.range_tiles, job.tiles.count - first)};
      const Values inputs{own, of_pair(range.count, job.channel_blocks)};
      const Values sums{own + job.input_values(job.range_tiles), of_pair(range.count, kPanel)};
      for (int block = 0; block < job.channel_blocks; ++block) {
        const Values of_block{inputs.data + std::size_t(block) * range.count * kWidth, inputs.pair};
        spread_inputs<P>(job.shape, job.tiles, of.input, range, block, of_block);
      }
      for (int p = 0; p < job.panels; ++p) {
        const Filters panel = job.panel(p);
        multiply_panel<P>(inputs, range.count, values_of(panel), job.channel_blocks, panel.blocks, sums, false);
        gather_panel<P, P + 1 - K>(of, job.tiles, range, sums, panel);
      }
    }
  }
}

/// The pass over few tiles, or over more filters than can be shared: threads share the values of the inputs of a round
/// of tiles. A thread takes a panel of filters at a time, and some of its channels.
struct SharingInputs : ConvolvingTiles {
  static constexpr int kTiles = 128;             ///< of a round, whose sums stay in a core's cache
  static constexpr int kChannels = 64 / kWidth;  ///< blocks, whose filters' values do

  SharingInputs(const WinogradShape& of, int of_points, int of_threads)
      : ConvolvingTiles(of, of_points, of_threads),
        round_tiles(divided_up(tiles.count, divided_up(tiles.count, smaller(kTiles, tiles_within(kSharedValues))))) {}
  std::size_t shared() const { return input_values(round_tiles); }
  std::size_t of_thread() const { return filter_values(kChannels) + sums(round_tiles); }
  std::size_t scratch() const { return shared() + threads * of_thread(); }

  int round_tiles;
};

template <int P, int K>
void share_inputs(const SharingInputs& job, const Operands& of, float* scratch) {
#pragma omp parallel num_threads(job.threads)
  for (int first = 0; first < job.tiles.count; first += job.round_tiles) {
    const TileRange range{first, smaller(job.round_tiles, job.tiles.count - first)};
    const std::size_t pair = of_pair(range.count, job.channel_blocks);
    const auto values_of = [&](int block) { return Values{scratch + std::size_t(block) * range.count * kWidth, pair}; };
#pragma omp for schedule(static)
    for (int block = 0; block < job.channel_blocks; ++block) {
      spread_inputs<P>(job.shape, job.tiles, of.input, range, block, values_of(block));
    }
    float* own = scratch + job.shared() + omp_get_thread_num() * job.of_thread();
    const Values sums{own + job.filter_values(SharingInputs::kChannels), of_pair(range.count, kPanel)};
#pragma omp for schedule(dynamic, 1)
    for (int i = 0; i < job.panels; ++i) {
      Filters panel = job.panel(i);
      for (int channel = 0; channel < job.channel_blocks; channel += SharingInputs::kChannels) {
        panel.first_channel = channel;
        panel.channel_blocks = smaller(SharingInputs::kChannels, job.channel_blocks - channel);
        const Values filters{own, of_panel(panel.channel_blocks, panel.blocks)};
        evaluate_filters<P, K>(of, panel, filters);
        multiply_panel<P>(values_of(channel), range.count, filters, panel.channel_blocks, panel.blocks, sums,
                          channel > 0);
      }
      gather_panel<P, P + 1 - K>(of, job.tiles, range, sums, panel);
    }
  }
}

std::size_t convolve_scratch_of(const WinogradShape& shape, int points, int threads) {
  const SharingFilters sharing(shape, points, threads);
  return sharing.pays() ? sharing.scratch() : SharingInputs(shape, points, threads).scratch();
}

template <int P, int K>
void convolve_with(const WinogradShape& shape, const float* input, const float* weights, bool turned,
                   const WinogradEpilogue& epilogue, float* output, float* scratch, int threads) {
  const Operands of{shape, input, weights, turned, epilogue, output};
  const SharingFilters sharing(shape, P, threads);
  if (sharing.pays()) return share_filters<P, K>(sharing, of, scratch);
  share_inputs<P, K>(SharingInputs(shape, P, threads), of, scratch);
}

}  // namespace
}  // namespace convoy
