#include "dlpipe/python/waiting.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "dlpipe/pipeline/feed.h"

namespace nb = nanobind;

namespace dlpipe::python {

namespace {

/// How long `end` waits for calls into Python, which may themselves wait for what the ending thread never does.
constexpr std::chrono::seconds kEndPatience(10);

// How many Unlocked and PythonCall there are, of all threads and of this one.
std::atomic<int> busy{0};
thread_local int own_busy = 0;
std::atomic<bool> has_ended{false};
std::atomic<bool> is_all_closed{false};
std::atomic<std::thread::id> ending_thread;

/// What an augmentation calls goes on until its loader is closed, which waits for it.
bool is_to_stay() {
  return has_ended && ending_thread.load() != std::this_thread::get_id() &&
         (is_all_closed || !pipeline::is_augmenting());
}

void enter() {
  ++busy;
  ++own_busy;
}

void leave() {
  --own_busy;
  --busy;
}

/// Without the lock.
[[noreturn]] void stay() {
  busy -= own_busy;
  while (true) ::pause();
}

/// A forked child has the forking thread alone.
void forget_other_threads() {
  busy = own_busy;
}

void end(const nb::callable& close_all) {
  ending_thread = std::this_thread::get_id();
  has_ended = true;
  close_all();
  is_all_closed = true;
  const nb::gil_scoped_release release;  // some were about to take the lock before they could know
  const auto latest = std::chrono::steady_clock::now() + kEndPatience;
  while (busy > own_busy && std::chrono::steady_clock::now() < latest)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

Unlocked::Unlocked() {
  enter();
  state_ = PyEval_SaveThread();
  if (is_to_stay()) stay();
}

Unlocked::~Unlocked() {
  if (is_to_stay()) stay();
  PyEval_RestoreThread(state_);
  leave();
}

PythonCall::PythonCall() {
  if (is_to_stay()) {
    PyEval_SaveThread();
    stay();
  }
  enter();
}

PythonCall::~PythonCall() {
  leave();
}

void let_go(PyObject* object) noexcept {
  enter();
  if (!has_ended) {
    const PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(object);
    PyGILState_Release(state);
  }
  leave();
}

void bind_waiting(nb::module_& module) {
  ::pthread_atfork(nullptr, nullptr, forget_other_threads);
  module.def("end", end);
}

}  // namespace dlpipe::python
