// Compares values that a slave sent with those that the master computed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace convoy {

/// How far the values of a slave are from the master's, as norms of vectors.
///
/// Two honest devices differ: they round in other places, and may multiply in bf16 (--compute bf16) or fp16, whatever
/// the number type on the wire. A slave also reads its own maps before they are rounded for the wire. A rounding error
/// may flip which element of a window is the largest or whether a ReLU passes, and a batch norm may enlarge it. So
/// single values say nothing, and no constant fits every tile. The master therefore computes the tile twice, the second
/// time from inputs that are disturbed by random errors as large as one rounding to bf16, the coarsest of these types.
/// The distance between the two results, the spread, tells what such errors do to this tile. The tolerance is
///   4 * spread + (4 * 2^-8 + terms * 2^-24 + coarse) * norm + floor:
/// errors that happen to align are at most a few times the spread; results are rounded themselves; fp32 sums of `terms`
/// terms in another order differ by at most terms * 2^-24 of the sum of magnitudes; `coarse` is what the wire's own
/// number type adds if it is coarser than bf16; and `floor` is the smallest magnitude that the type resolves.
class Comparison {
 public:
  /// The relative error of one rounding to bf16.
  static constexpr double kRounding = 1.0 / 256.0;
  /// The largest relative error of int8 values (core/number_type.hpp), for a block of 64: each is off by less than its
  /// step, the largest magnitude / 127, and the norm of the block is at least the largest magnitude.
  static constexpr double kInt8 = 8.0 / 127.0;

  /// `limit` is the largest magnitude of the number type in which the values travel, `floor` its resolution near 0.
  Comparison(double terms, double coarse, double limit, double floor)
      : relative_(4.0 * kRounding + terms * std::ldexp(1.0, -24) + coarse), limit_(limit), floor_(floor) {}

  /// Adds one value: the slave's, the master's, and the one that the master computed from disturbed inputs.
  void add(double sent, double own, double disturbed) {
    ++count_;
    sent_finite_ = sent_finite_ && std::isfinite(sent);
    own_finite_ = own_finite_ && std::isfinite(own);
    // Half of the limit leaves room for errors of values near it.
    own_in_range_ = own_in_range_ && std::isfinite(own) && std::abs(own) < 0.5 * limit_;
    error_ += (sent - own) * (sent - own);
    norm_ += own * own;
    spread_ += (disturbed - own) * (disturbed - own);
  }
  /// Allows an error of that norm in addition.
  void allow(double error) { allowed_ += error; }

  /// Whether the slave's values cannot be those of an honest slave.
  bool wrong() const {
    if (!sent_finite_) return own_in_range_;  // where the master's values overflow too, nothing can be said
    return !own_finite_ || !(error() <= tolerance());
  }
  bool any() const { return count_ > 0; }
  /// Relative to the norm of the master's values. The error is infinite if the slave's values are not finite.
  double relative_error() const { return sent_finite_ && own_finite_ ? error() / scale() : HUGE_VAL; }
  double relative_tolerance() const { return tolerance() / scale(); }

 private:
  double error() const { return std::sqrt(error_); }
  double tolerance() const {
    return 4.0 * std::sqrt(spread_) + relative_ * std::sqrt(norm_) + floor_ * std::sqrt(static_cast<double>(count_)) +
           allowed_;
  }
  double scale() const { return std::max(std::sqrt(norm_), 1e-30); }

  double relative_;
  double limit_;
  double floor_;
  double error_ = 0.0;
  double norm_ = 0.0;
  double spread_ = 0.0;
  double allowed_ = 0.0;
  std::size_t count_ = 0;
  bool sent_finite_ = true;
  bool own_finite_ = true;
  bool own_in_range_ = true;
};

}  // namespace convoy
