// Long work of the library, called from Python: it runs on a thread of its own, without the interpreter lock, while the
// calling thread looks for Ctrl-C and makes the calls into Python that the work asks for.
//
// The first Ctrl-C, or an exception of a call into Python, asks the work to stop; what it leaves is as after a SIGINT of
// the program. A second Ctrl-C ends the process at once.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <optional>

#include "dlpipe/base/error.h"
#include "dlpipe/base/mutex.h"

namespace dlpipe::python {

class Task {
 public:
  /// Runs `work`, which may throw, until it has returned. Throws what it threw; after a stop the exception that asked for
  /// it, unless that was Ctrl-C and the work says kCancelled in words of its own. Called with the interpreter lock.
  void run(const std::function<void()>& work);

  // For `work`.
  const std::atomic<bool>& stop_requested() const { return stop_; }
  /// Runs `call` on the calling thread, with the interpreter lock, and waits for it; nothing where a stop is asked for.
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
  std::optional<nanobind::python_error> kept_;  // what asked for the stop
  std::exception_ptr thrown_;                   // by the work

  Mutex mutex_;
  std::condition_variable for_caller_;
  std::condition_variable for_work_;
  const std::function<void()>* call_ DLPIPE_GUARDED_BY(mutex_) = nullptr;
  bool done_ DLPIPE_GUARDED_BY(mutex_) = false;
};

}  // namespace dlpipe::python
