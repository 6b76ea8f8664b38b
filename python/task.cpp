#include "dlpipe/python/task.h"

#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "dlpipe/python/errors.h"
#include "dlpipe/python/waiting.h"

namespace nb = nanobind;

namespace dlpipe::python {

namespace {

/// How long Ctrl-C waits to be seen, at most.
constexpr std::chrono::milliseconds kPatience(40);

bool is_interrupt(const nb::python_error& error) {
  return error.matches(PyExc_KeyboardInterrupt);
}

bool is_cancelled(const std::exception_ptr& thrown) {
  if (thrown == nullptr) return false;
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error.code() == ErrorCode::kCancelled;
  } catch (...) {
    return false;
  }
}

}  // namespace

void Task::run(const std::function<void()>& work) {
  std::thread thread;
  try {
    thread = std::thread([&] {
      try {
        work();
      } catch (...) {
        thrown_ = std::current_exception();
      }
      const MutexLock lock(mutex_);
      done_ = true;
      for_caller_.notify_one();
    });
  } catch (...) {
    throw Error(status_from_current_exception("python"));
  }
  attend();
  thread.join();
  pass_log_on();
  if (kept_ && !(is_interrupt(*kept_) && is_cancelled(thrown_))) raise_kept();
  if (thrown_ != nullptr) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void Task::raise_kept() {
  kept_->restore();
  kept_.reset();
  throw nb::python_error();
}

void Task::attend() {
  while (!wait()) {
    guarded(pass_log_on);
    make_call();
    look_for_signals();
  }
}

/// True when the work has returned.
bool Task::wait() {
  const Unlocked no_lock;
  const auto then = std::chrono::steady_clock::now() + kPatience;
  MutexLock lock(mutex_);
  while (!done_ && call_ == nullptr) {
    if (lock.wait_until(for_caller_, then) == std::cv_status::timeout) break;
  }
  return done_;
}

/// What goes wrong in Python asks for the stop: the work's thread waits for no answer that never comes.
void Task::guarded(const std::function<void()>& call) {
  const PythonCall into_python;
  try {
    call();
  } catch (nb::python_error& error) {
    keep(std::move(error));
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    keep(nb::python_error());
  }
}

void Task::make_call() {
  const std::function<void()>* call = nullptr;
  {
    const MutexLock lock(mutex_);
    call = call_;
  }
  if (call == nullptr) return;
  guarded(*call);
  const MutexLock lock(mutex_);
  call_ = nullptr;
  for_work_.notify_one();
}

void Task::look_for_signals() {
  if (PyErr_CheckSignals() == 0) return;
  nb::python_error error;
  if (kept_ && is_interrupt(*kept_) && is_interrupt(error)) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  keep(std::move(error));
}

void Task::keep(nb::python_error&& error) {
  if (!kept_) kept_.emplace(std::move(error));
  stop_ = true;
}

void Task::call(const std::function<void()>& call) {
  if (stop_) return;
  MutexLock lock(mutex_);
  call_ = &call;
  for_caller_.notify_one();
  while (call_ != nullptr) lock.wait(for_work_);
}

}  // namespace dlpipe::python
