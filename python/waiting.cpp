#include "dlpipe/python/waiting.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace nb = nanobind;

namespace dlpipe::python {

namespace {

std::atomic<int> away{0};  // threads between giving the lock up and having it again
std::atomic<bool> has_ended{false};
std::atomic<std::thread::id> ending_thread;

bool is_to_stay() {
  return has_ended && ending_thread.load() != std::this_thread::get_id();
}

[[noreturn]] void stay() {
  while (true) ::pause();
}

void end(const nb::callable& close_all) {
  ending_thread = std::this_thread::get_id();
  has_ended = true;
  close_all();
  const nb::gil_scoped_release release;  // some were about to take the lock before they could know
  while (away > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

Unlocked::Unlocked() {
  ++away;
  state_ = PyEval_SaveThread();
  if (!is_to_stay()) return;
  --away;
  stay();
}

Unlocked::~Unlocked() {
  if (is_to_stay()) {
    --away;
    stay();
  }
  PyEval_RestoreThread(state_);
  --away;
}

void bind_waiting(nb::module_& module) {
  module.def("end", end);
}

}  // namespace dlpipe::python
