// The gradient with respect to the weights. It is a correlation, too: of the inputs with the output gradients of a
// tile, summed over all tiles. A thread takes some channels, some filters and a share of the tiles at a time.
#pragma once

#include <omp.h>

#include "kernels/winograd/tiles.hpp"

namespace convoy {
namespace {

template <int P>
struct FindingGradient {
  // More tiles at a time read and write the sums less often; more channels and filters compute fewer values twice.
  static constexpr int kTiles = 96;
  static constexpr int kChannels = (P == 6 ? 128 : 64) / kWidth;  ///< blocks
  static constexpr int kFilters = 6;                              ///< blocks

  FindingGradient(const WinogradShape& of, int of_threads)
      : shape(of),
        tiles(of, P),
        threads(of_threads),
        channel_blocks(of.channels / kWidth),
        filter_blocks(of.filters / kWidth),
        channel_parts(divided_up(channel_blocks, kChannels)),
        filter_parts(divided_up(filter_blocks, kFilters)) {
    // As few as keep all threads busy, because each share but the first has weights of its own.
    const int parts = channel_parts * filter_parts;
    while (shares * parts % threads != 0 && shares * parts < 3 * threads) ++shares;
    shares = smaller(shares, tiles.count);
  }

  std::size_t weights() const { return std::size_t(shape.kernel) * shape.kernel * shape.channels * shape.filters; }
  std::size_t input_values() const { return P * P * of_pair(kTiles, kChannels); }
  std::size_t gradient_values() const { return P * P * of_pair(kTiles, kFilters); }
  std::size_t sums() const { return std::size_t{P * P} * kChannels * kFilters * kWidth * kWidth; }
  std::size_t of_thread() const { return input_values() + gradient_values() + sums(); }
  std::size_t scratch() const { return threads * of_thread() + (shares - 1) * weights(); }

  WinogradShape shape;
  Tiles tiles;
  int threads;
  int channel_blocks;
  int filter_blocks;
  int channel_parts;
  int filter_parts;
  int shares = 1;  ///< of the tiles; the gradients of the shares are added in the end
};

/// Computes the values of the output gradients of some tiles and blocks of filters.
template <int P, int M>
void evaluate_gradients(const FindingGradient<P>& job, const float* gradient, TileRange range, int first_block,
                        int blocks, float* values) {
  const WinogradShape& shape = job.shape;
  const std::size_t plane = std::size_t(shape.out_h) * shape.out_w * kWidth;
  const std::size_t pair = of_pair(range.count, blocks);
  for (int block = 0; block < blocks; ++block) {
    for (int i = 0; i < range.count; ++i) {
      const Tiles::Place place = job.tiles[range.first + i];
      const float* maps = gradient + place.sample * shape.out_sample + (first_block + block) * plane;
      Vec square[M * M];
      Vec found[P * P];
      load_square<M>({maps, shape.out_h, shape.out_w}, place.row, place.column, square);
      evaluate_square<P, M>(square, found);
      store_values<P>(found, values + (std::size_t(block) * range.count + i) * kWidth, pair);
    }
  }
}

/// Some blocks of channels and of filters.
struct Part {
  int first_channel;
  int channels;
  int first_filter;
  int filters;
};

/// Adds the products of some tiles to the sums: (pair of points, block of filters, block of channels, channel, filter).
template <int P>
void add_products(const Part& part, int tiles, const float* inputs, const float* gradients, float* sums, bool added) {
  const std::size_t input_pair = of_pair(tiles, part.channels);
  const std::size_t gradient_pair = of_pair(tiles, part.filters);
  const std::size_t block = std::size_t(tiles) * kWidth;
  const std::size_t square = kWidth * kWidth;
  for (int pair = 0; pair < P * P; ++pair) {
    for (int filter = 0; filter < part.filters; filter += 3) {
      const float* of_filters = gradients + pair * gradient_pair + filter * block;
      for (int channel = 0; channel < part.channels; ++channel) {
        const float* values = inputs + pair * input_pair + channel * block;
        const std::size_t at = (std::size_t(pair) * part.filters + filter) * part.channels + channel;
        const Blocks into{sums + at * square, part.channels * square};
        switch (smaller(3, part.filters - filter)) {
          case 3: multiply_channels<3>(values, of_filters, tiles, into, added); break;
          case 2: multiply_channels<2>(values, of_filters, tiles, into, added); break;
          default: multiply_channels<1>(values, of_filters, tiles, into, added); break;
        }
      }
    }
  }
}

/// Turns the sums into the gradients of the part's weights.
template <int P, int K>
void gather_weights(const FindingGradient<P>& job, const Part& part, const float* sums, float* weights) {
  const std::size_t square = kWidth * kWidth;
  const std::size_t pair = std::size_t(part.channels) * part.filters * square;
  for (int filter = 0; filter < part.filters; ++filter) {
    for (int channel = 0; channel < part.channels * kWidth; ++channel) {
      Vec values[P * P];
      Vec found[K * K];
      load_values<P>(sums + (std::size_t(filter) * part.channels * kWidth + channel) * kWidth, pair, values);
      gather_square<P, K>(values, found);
      const std::size_t block =
          std::size_t(part.first_filter + filter) * job.channel_blocks + part.first_channel + channel / kWidth;
      float* to = weights + block * K * K * square + channel % kWidth * kWidth;
#pragma GCC unroll 25
      for (int i = 0; i < K * K; ++i) store(to + i * square, found[i]);
    }
  }
}

/// Computes the gradients of a part's weights over a share of the tiles.
template <int P, int K>
void find_part(const FindingGradient<P>& job, const Part& part, TileRange share, const float* input,
               const float* gradient, float* weights, float* scratch) {
  using Job = FindingGradient<P>;
  float* inputs = scratch;
  float* gradients = inputs + job.input_values();
  float* sums = gradients + job.gradient_values();
  const int rounds = divided_up(share.count, Job::kTiles);
  for (int round = 0; round < rounds; ++round) {
    const int begin = int(std::size_t(share.count) * round / rounds);
    const int end = int(std::size_t(share.count) * (round + 1) / rounds);
    const TileRange range{share.first + begin, end - begin};
    for (int block = 0; block < part.channels; ++block) {
      const Values of_block{inputs + std::size_t(block) * range.count * kWidth, of_pair(range.count, part.channels)};
      spread_inputs<P>(job.shape, job.tiles, input, range, part.first_channel + block, of_block);
    }
    evaluate_gradients<P, P + 1 - K>(job, gradient, range, part.first_filter, part.filters, gradients);
    add_products<P>(part, range.count, inputs, gradients, sums, round > 0);
  }
  gather_weights<P, K>(job, part, sums, weights);
}

template <int P, int K>
void find_gradient_with(const WinogradShape& shape, const float* input, const float* gradient, float* weights,
                        float* scratch, int threads) {
  using Job = FindingGradient<P>;
  const Job job(shape, threads);
  const int work = job.channel_parts * job.filter_parts * job.shares;
  float* others = scratch + threads * job.of_thread();  // the gradients of all shares but the first
#pragma omp parallel num_threads(threads)
  {
    float* own = scratch + omp_get_thread_num() * job.of_thread();
#pragma omp for schedule(dynamic, 1)
    for (int i = 0; i < work; ++i) {
      const int share = i % job.shares;
      const int channel = i / job.shares % job.channel_parts * Job::kChannels;
      const int filter = i / job.shares / job.channel_parts * Job::kFilters;
      const Part part{channel, smaller(Job::kChannels, job.channel_blocks - channel), filter,
                      smaller(Job::kFilters, job.filter_blocks - filter)};
      const int begin = int(std::size_t(job.tiles.count) * share / job.shares);
      const int end = int(std::size_t(job.tiles.count) * (share + 1) / job.shares);
      float* into = share == 0 ? weights : others + (share - 1) * job.weights();
      find_part<P, K>(job, part, {begin, end - begin}, input, gradient, into, own);
    }
    if (job.shares > 1) {
#pragma omp for schedule(static)
      for (std::size_t i = 0; i < job.weights(); i += kWidth) {
        Vec sum = load(weights + i);
        for (int share = 1; share < job.shares; ++share) sum = sum + load(others + (share - 1) * job.weights() + i);
        store(weights + i, sum);
      }
    }
  }
}

}  // namespace
}  // namespace convoy
