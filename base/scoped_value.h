// A variable of the calling thread that has another value while an object lives: what ops are autocast to,
// whether they record a graph. Costs two calls; nothing is allocated, nothing is shared between threads.
#pragma once

#include <type_traits>
#include <utility>

namespace dlpipe {

/// While one lives, the variable that kState() answers has the value given; then again what it had before, so
/// that scopes nest. kState is a function without arguments that answers a reference to a thread_local. To be
/// made and ended on one thread.
template <auto kState>
class ScopedValue {
 public:
  using Value = std::remove_reference_t<decltype(kState())>;

  explicit ScopedValue(Value value) : former_(std::exchange(kState(), std::move(value))) {}
  ~ScopedValue() { kState() = std::move(former_); }
  ScopedValue(const ScopedValue&) = delete;
  ScopedValue& operator=(const ScopedValue&) = delete;

 private:
  Value former_;
};

}  // namespace dlpipe
