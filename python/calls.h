// Calls between Python and the library: errors and log lines, waiting without the interpreter lock, and long work.
//
// Errors. An Error becomes the exception of its kind (dlpipe/errors.py). Any thread may log, also without the interpreter
// lock, so log lines wait in a queue until a call from Python passes them to `logging`.
//
// The end of the interpreter. Python ends a thread that takes the lock after the interpreter has ended. If the thread has C++ frames
// of the package on its stack, that ends the process. A thread takes the lock when it returns from a wait, and whenever it runs
// Python code, which passes the lock to other threads now and then. So after `end()`, which runs when the interpreter begins to
// end, threads that return or call into Python block for the rest of the process, as Python itself does since 3.14.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/mutex.h"
#include "dlpipe/error.h"

namespace dlpipe::python {

// ---- errors and log lines

/// Passes the log lines since the last call to `logging`. Needs the interpreter lock; cheap if there are none.
void pass_log_on();

// ---- waiting

/// Releases the interpreter lock between construction and destruction. Constructed by a thread that has it.
class Unlocked {
 public:
  Unlocked();
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

/// Exists while C++ calls a function of Python. Constructed by a thread that has the lock.
class PythonCall {
 public:
  PythonCall();
  ~PythonCall();
  PythonCall(const PythonCall&) = delete;
  PythonCall& operator=(const PythonCall&) = delete;
};

/// Drops a reference to an object, on any thread, with or without the lock. After the end of the interpreter the object is leaked.
void let_go(PyObject* object) noexcept;

/// Runs `work`, which uses no Python object, without the lock. Its Status or Result becomes a value or an exception.
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

// ---- long work

/// Long work of the library, called from Python. It runs on its own thread, without the interpreter lock, while the
/// calling thread checks for Ctrl-C and makes the work's calls into Python.
///
/// The first Ctrl-C, or an exception in a call into Python, asks the work to stop, which it does as after a SIGINT of
/// the program. A second Ctrl-C ends the process at once.
class Task {
 public:
  /// Runs `work`, which may throw, until it returns. Throws what `work` threw. After a stop it throws the exception that requested
  /// the stop, unless that was Ctrl-C and the work itself threw kCancelled. Called with the interpreter lock.
  void run(const std::function<void()>& work);

  // For `work`.
  const std::atomic<bool>& stop_requested() const { return stop_; }
  /// Runs `call` on the calling thread, with the interpreter lock, and waits for it; does nothing after a stop.
  void call(const std::function<void()>& call);

 private:
  void attend();
  bool wait();
  void make_call();
  void guarded(const std::function<void()>& call);
  void look_for_signals();
  void keep(nanobind::python_error&& error);
  [[noreturn]] void raise_kept();

  std::atomic<bool> stop_{false};
  std::optional<nanobind::python_error> kept_;  // the exception that requested the stop
  std::exception_ptr thrown_;                   // by the work

  Mutex mutex_;
  std::condition_variable for_caller_;
  std::condition_variable for_work_;
  const std::function<void()>* call_ DLPIPE_GUARDED_BY(mutex_) = nullptr;
  bool done_ DLPIPE_GUARDED_BY(mutex_) = false;
};

/// Binds exceptions, log lines, and the function `end(close_all)` for atexit. When it returns, no other thread is about to take the
/// lock, or in a call into Python that takes less than some seconds. `close_all` ends what those threads wait for.
void bind_calls(nanobind::module_& module);

}  // namespace dlpipe::python
