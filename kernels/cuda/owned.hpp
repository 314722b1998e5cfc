// A handle of a C library as a C++ object.
#pragma once

namespace convoy::cuda {

/// Owns a handle that `create` makes and `destroy` ends. `check` raises an error where `create` fails.
template <class Handle, auto create, auto destroy, auto check>
class Owned {
 public:
  Owned() { check(create(&handle_), "making a descriptor"); }
  ~Owned() { destroy(handle_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  operator Handle() const { return handle_; }  // NOLINT(google-explicit-constructor): it stands for the handle

 private:
  Handle handle_{};
};

}  // namespace convoy::cuda
