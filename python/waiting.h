// Waiting without the interpreter lock, also while the interpreter ends.
//
// A thread that takes the lock after the interpreter has ended is ended by Python. Where C++ frames of the package are on its
// stack, that ends the process. The lock is taken by who comes back from a wait, and in every function of Python, which gives it
// to other threads now and then. So from `end()` on, which runs when the interpreter begins to end, threads that come back or
// call into Python stay where they are for the rest of the process, as they do from Python 3.14 on.
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

/// Lives while C++ calls a function of Python. Made by a thread that has the lock.
class PythonCall {
 public:
  PythonCall();
  ~PythonCall();
  PythonCall(const PythonCall&) = delete;
  PythonCall& operator=(const PythonCall&) = delete;
};

/// Lets go of an object on any thread, with or without the lock. From the end of the interpreter on the object stays.
void let_go(PyObject* object) noexcept;

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

/// Adds the function `end(close_all)`, for atexit: after it no other thread is on its way back, or in a call into Python that
/// takes less than some seconds. `close_all` ends whatever they wait for.
void bind_waiting(nanobind::module_& module);

}  // namespace dlpipe::python
