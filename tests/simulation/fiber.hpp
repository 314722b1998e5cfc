// A course of execution with a stack of its own. Fibers take turns in one thread, which costs far less than threads
// that wake one another, above all on a machine that is busy.
#pragma once

#include <ucontext.h>

#include <functional>

namespace convoy::simulation {

class Fiber {
 public:
  /// The course of the thread that calls.
  Fiber() = default;
  /// `body` begins when another fiber first switches to this one. It must not return, and no exception may leave it:
  /// its end is a switch to another fiber.
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Leaves this fiber, which is the one that runs, until another one switches to it.
  void switch_to(Fiber& next);

 private:
  static void begin(unsigned high, unsigned low);

  /// What the C++ runtime keeps for each thread: the exceptions that are being handled or are on their way. Its layout
  /// is part of the C++ ABI.
  struct Exceptions {
    void* handled = nullptr;
    unsigned on_their_way = 0;
  };

  std::function<void()> body_;
  ucontext_t context_{};
  void* stack_ = nullptr;
  Exceptions exceptions_;
};

}  // namespace convoy::simulation
