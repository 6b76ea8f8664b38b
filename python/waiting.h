// Waiting without the interpreter lock, also while the interpreter ends.
//
// A thread that comes back for the lock after the interpreter has ended is ended by Python in the middle of C++ frames,
// which ends the process. So from `end()` on, which runs when the interpreter begins to end, threads that come back
// stay where they are for the rest of the process, as they do from Python 3.14 on.
#pragma once

#include <nanobind/nanobind.h>

#include <type_traits>
#include <utility>

#include "dlpipe/base/error.h"
#include "dlpipe/python/errors.h"

namespace dlpipe::python {

/// Holds no interpreter lock between construction and destruction. Made by a thread that has it.
class Unlocked {
 public:
  Unlocked();
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

/// What `work` answers, as a value or an exception. `work` touches no Python object.
template <class Work>
auto unlocked(Work work) {
  auto result = [&] {
    const Unlocked no_lock;
    return work();
  }();
  pass_log_on();
  if constexpr (std::is_same_v<decltype(result), Status>) {
    throw_if_error(result);
  } else {
    return value_or_throw(std::move(result));
  }
}

/// Adds the function `end(close_all)`, for atexit: after it no other thread is on its way back. `close_all` ends whatever
/// they wait for.
void bind_waiting(nanobind::module_& module);

}  // namespace dlpipe::python
