#include "tests/simulation/fiber.hpp"

#include <cxxabi.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <utility>

#include "core/error.hpp"

namespace convoy::simulation {
namespace {

/// Only what is used of it takes memory.
constexpr std::size_t kStackBytes = std::size_t{4} << 20;
/// Below the stack; it is not accessible, so that a stack that is too small ends the program.
constexpr std::size_t kGuardBytes = std::size_t{64} << 10;

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  stack_ = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack_ == MAP_FAILED) fail("there is no memory for the stack of a simulated program");
  mprotect(stack_, kGuardBytes, PROT_NONE);
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_;
  context_.uc_stack.ss_size = kStackBytes;
  // Only integers reach the function.
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&context_, reinterpret_cast<void (*)()>(&Fiber::begin), 2, static_cast<unsigned>(self >> 32U),
              static_cast<unsigned>(self & 0xffffffffU));
}

Fiber::~Fiber() {
  if (stack_ != nullptr) munmap(stack_, kStackBytes);
}

void Fiber::begin(unsigned high, unsigned low) {
  const auto self = reinterpret_cast<Fiber*>((static_cast<std::uintptr_t>(high) << 32U) | low);
  self->body_();
  std::abort();
}

void Fiber::switch_to(Fiber& next) {
  auto* const current = reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
  exceptions_ = std::exchange(*current, next.exceptions_);
  swapcontext(&context_, &next.context_);
}

}  // namespace convoy::simulation
