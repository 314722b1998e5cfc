// The values of polynomials at the points, and the polynomials of values, for vectors of channels or filters.
//
// With the points x_i and the Vandermonde matrix V of P rows, the last of which stands for infinity, a correlation of P
// inputs d with a filter g of K weights is V_M^T [(V_K g) (V^-T d)], where V_Q has the first Q columns of V (Lavin and
// Gray call these factors A^T, G and B^T). The rows of V^-T are the coefficients of Lagrange's polynomials. Their
// denominators are multiplied into V_K g instead, which is computed less often or needs no instruction more for it.
#pragma once

#include "kernels/winograd/vectors.hpp"

namespace convoy {
namespace {

/// Points 0, x and -x of each pair, and infinity. All tables are computed when the program is compiled.
template <int P>
struct Points {
  static constexpr int kPairs = P / 2 - 1;
  // Of the pairs from 0.4 to 3 that were tried, sums of random numbers had the smallest errors with these.
  static constexpr double kPair[3] = {kPairs == 2 ? 2.0 / 3.0 : 0.5, kPairs == 2 ? 1.5 : 1.0, 2.0};

  /// The coefficients of the product of z - x^2 over pairs.
  struct Product {
    double of[kPairs + 1] = {1.0};
  };
  static constexpr Product product_without(int pair) {
    Product product;
    int degree = 0;
    for (int i = 0; i < kPairs; ++i) {
      if (i == pair) continue;
      const double root = kPair[i] * kPair[i];
      ++degree;
      for (int k = degree; k > 0; --k) product.of[k] = product.of[k - 1] - root * product.of[k];
      product.of[0] *= -root;
    }
    return product;
  }

  struct Table {
    Product all = product_without(-1);
    Product without[kPairs] = {};
    double denominator[kPairs] = {};  ///< of Lagrange's polynomials of a pair
    double power[kPairs][P] = {};     ///< of a pair's first point

    constexpr Table() {
      for (int i = 0; i < kPairs; ++i) {
        const double square = kPair[i] * kPair[i];
        without[i] = product_without(i);
        for (int k = kPairs - 1; k >= 0; --k) denominator[i] = denominator[i] * square + without[i].of[k];
        denominator[i] *= 2.0 * square;
        power[i][0] = 1.0;
        for (int k = 1; k < P; ++k) power[i][k] = power[i][k - 1] * kPair[i];
      }
    }
  };
  static constexpr Table kTable{};
  /// Of Lagrange's polynomial of point 0.
  static constexpr double kZeroDenominator = kTable.all.of[0];
};

/// Multiplies P inputs by V^-T without its denominators. `step` and `to_step` are vectors from one value to the next.
template <int P>
CONVOY_INLINE void spread(const Vec* d, int step, Vec* t, int to_step) {
  using Of = Points<P>;
  constexpr auto& kOf = Of::kTable;
  Vec first = d[0] * all(float(kOf.all.of[0]));
  Vec last = d[step] * all(float(kOf.all.of[0]));
#pragma GCC unroll 3
  for (int k = 1; k <= Of::kPairs; ++k) {
    first = fma(all(float(kOf.all.of[k])), d[2 * k * step], first);
    last = fma(all(float(kOf.all.of[k])), d[(2 * k + 1) * step], last);
  }
  t[0] = first;
  t[(P - 1) * to_step] = last;
#pragma GCC unroll 3
  for (int i = 0; i < Of::kPairs; ++i) {
    Vec even = d[2 * step] * all(float(kOf.without[i].of[0]));
    Vec odd = d[step] * all(float(kOf.without[i].of[0]));
#pragma GCC unroll 3
    for (int k = 1; k < Of::kPairs; ++k) {
      even = fma(all(float(kOf.without[i].of[k])), d[(2 * k + 2) * step], even);
      odd = fma(all(float(kOf.without[i].of[k])), d[(2 * k + 1) * step], odd);
    }
    t[(2 * i + 1) * to_step] = fma(all(float(Of::kPair[i])), odd, even);
    t[(2 * i + 2) * to_step] = fma(all(float(-Of::kPair[i])), odd, even);
  }
}

/// Computes the values of the polynomial with Q coefficients, divided by the denominators.
template <int P, int Q>
CONVOY_INLINE void evaluate(const Vec* g, int step, Vec* t, int to_step) {
  using Of = Points<P>;
  constexpr auto& kOf = Of::kTable;
  t[0] = g[0] * all(float(1.0 / Of::kZeroDenominator));
  t[(P - 1) * to_step] = g[(Q - 1) * step];
#pragma GCC unroll 3
  for (int i = 0; i < Of::kPairs; ++i) {
    Vec even = g[0] * all(float(1.0 / kOf.denominator[i]));
    Vec odd = g[step] * all(float(kOf.power[i][1] / kOf.denominator[i]));
#pragma GCC unroll 6
    for (int k = 2; k < Q; ++k) {
      Vec& sum = k % 2 == 0 ? even : odd;
      sum = fma(all(float(kOf.power[i][k] / kOf.denominator[i])), g[k * step], sum);
    }
    t[(2 * i + 1) * to_step] = even + odd;
    t[(2 * i + 2) * to_step] = even - odd;
  }
}

/// Multiplies P values by the transposed V of Q columns.
template <int P, int Q>
CONVOY_INLINE void gather(const Vec* m, int step, Vec* y, int to_step) {
  using Of = Points<P>;
  constexpr auto& kOf = Of::kTable;
  Vec sums[Of::kPairs];
  Vec differences[Of::kPairs];
#pragma GCC unroll 3
  for (int i = 0; i < Of::kPairs; ++i) {
    sums[i] = m[(2 * i + 1) * step] + m[(2 * i + 2) * step];
    differences[i] = m[(2 * i + 1) * step] - m[(2 * i + 2) * step];
  }
#pragma GCC unroll 6
  for (int j = 0; j < Q; ++j) {
    const Vec* of = j % 2 == 0 ? sums : differences;
    Vec sum = of[0] * all(float(kOf.power[0][j]));
#pragma GCC unroll 3
    for (int i = 1; i < Of::kPairs; ++i) sum = fma(all(float(kOf.power[i][j])), of[i], sum);
    if (j == 0) sum = sum + m[0];
    if (j == Q - 1) sum = sum + m[(P - 1) * step];
    y[j * to_step] = sum;
  }
}

/// Each of the following applies a transform to the columns of a square matrix, and then to its rows.
template <int P>
CONVOY_INLINE void spread_square(Vec* d) {
  Vec t[P * P];
#pragma GCC unroll 8
  for (int x = 0; x < P; ++x) spread<P>(d + x, P, t + x, P);
#pragma GCC unroll 8
  for (int y = 0; y < P; ++y) spread<P>(t + y * P, 1, d + y * P, 1);
}

template <int P, int Q>
CONVOY_INLINE void evaluate_square(const Vec* g, Vec* values) {
  Vec t[P * Q];
#pragma GCC unroll 6
  for (int x = 0; x < Q; ++x) evaluate<P, Q>(g + x, Q, t + x, Q);
#pragma GCC unroll 8
  for (int y = 0; y < P; ++y) evaluate<P, Q>(t + y * Q, 1, values + y * P, 1);
}

template <int P, int Q>
CONVOY_INLINE void gather_square(const Vec* m, Vec* out) {
  Vec t[Q * P];
#pragma GCC unroll 8
  for (int x = 0; x < P; ++x) gather<P, Q>(m + x, P, t + x, P);
#pragma GCC unroll 6
  for (int y = 0; y < Q; ++y) gather<P, Q>(t + y * P, 1, out + y * Q, 1);
}

}  // namespace
}  // namespace convoy
