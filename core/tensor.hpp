// Host tensors: dense row-major arrays in NCHW order (sample, channel, row, column), 64-byte aligned.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "core/large_pages.hpp"

namespace convoy {

/// Extents of a tensor in NCHW order. A matrix (rows, columns) is {rows, columns, 1, 1}.
struct Shape {
  int n = 0;
  int c = 0;
  int h = 1;
  int w = 1;

  /// Returns the number of elements of one sample.
  std::size_t sample_size() const {
    return static_cast<std::size_t>(c) * static_cast<std::size_t>(h) * static_cast<std::size_t>(w);
  }
  /// Returns the number of elements of all samples.
  std::size_t size() const { return static_cast<std::size_t>(n) * sample_size(); }
  bool operator==(const Shape&) const = default;
};

/// Aligns to a cache line and leaves new elements uninitialised, because buffers are written whole before they are
/// read.
template <class T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}

  T* allocate(std::size_t count) {
    void* data = ::operator new(count * sizeof(T), kAlignment);
    prefer_large_pages(data, count * sizeof(T));
    return static_cast<T*>(data);
  }
  void deallocate(T* data, std::size_t) { ::operator delete(data, kAlignment); }
  template <class U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;
  }
  template <class U, class... Args>
  void construct(U* place, Args&&... args) {
    ::new (static_cast<void*>(place)) U(std::forward<Args>(args)...);
  }
  bool operator==(const AlignedAllocator&) const { return true; }
};

template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

/// An owning NCHW array. Elements are uninitialised unless a fill value is given.
template <class T>
class BasicTensor {
 public:
  BasicTensor() = default;
  explicit BasicTensor(Shape shape) : shape_(shape), values_(shape.size()) {}
  BasicTensor(Shape shape, T fill) : shape_(shape), values_(shape.size(), fill) {}

  const Shape& shape() const { return shape_; }
  std::size_t size() const { return values_.size(); }
  std::size_t bytes() const { return values_.size() * sizeof(T); }
  T* data() { return values_.data(); }
  const T* data() const { return values_.data(); }
  std::span<T> span() { return values_; }
  std::span<const T> span() const { return values_; }

  /// Returns element (n, c, h, w) without a bounds check.
  T& at(int n, int c, int h = 0, int w = 0) { return values_[index(n, c, h, w)]; }
  const T& at(int n, int c, int h = 0, int w = 0) const { return values_[index(n, c, h, w)]; }

  /// Returns all elements of sample n.
  std::span<T> sample(int n) {
    return span().subspan(static_cast<std::size_t>(n) * shape_.sample_size(), shape_.sample_size());
  }
  std::span<const T> sample(int n) const {
    return span().subspan(static_cast<std::size_t>(n) * shape_.sample_size(), shape_.sample_size());
  }

  /// Returns all elements of samples first .. first + count - 1.
  std::span<T> samples(int first, int count) {
    return span().subspan(static_cast<std::size_t>(first) * shape_.sample_size(),
                          static_cast<std::size_t>(count) * shape_.sample_size());
  }
  std::span<const T> samples(int first, int count) const {
    return span().subspan(static_cast<std::size_t>(first) * shape_.sample_size(),
                          static_cast<std::size_t>(count) * shape_.sample_size());
  }

  /// Changes the shape to another one with the same number of elements; the elements stay.
  void reshape(Shape shape) {
    invariant(shape.size() == size(), "reshape keeps the number of elements");
    shape_ = shape;
  }

 private:
  std::size_t index(int n, int c, int h, int w) const {
    const auto row = (static_cast<std::size_t>(n) * static_cast<std::size_t>(shape_.c) + static_cast<std::size_t>(c)) *
                         static_cast<std::size_t>(shape_.h) +
                     static_cast<std::size_t>(h);
    return row * static_cast<std::size_t>(shape_.w) + static_cast<std::size_t>(w);
  }

  Shape shape_{0, 0, 0, 0};
  AlignedVector<T> values_;
};

using Tensor = BasicTensor<float>;

}  // namespace convoy
