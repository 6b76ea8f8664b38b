#include "python/calls.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <deque>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "dlpipe/loader.h"
#include "dlpipe/log.h"
#include "io/data/bus_error.h"
#include "python/values.h"

namespace nb = nanobind;

namespace dlpipe::python {

// ---- errors and log lines

namespace {

constexpr size_t kMostLines = 1000;  // beyond these the oldest are dropped

Mutex lines_mutex;
std::deque<std::pair<LogLevel, std::string>> lines DLPIPE_GUARDED_BY(lines_mutex);
std::atomic<bool> has_lines{false};

void keep_line(LogLevel level, std::string_view message) {
  const MutexLock lock(lines_mutex);
  if (lines.size() == kMostLines) lines.pop_front();
  lines.emplace_back(level, message);
  has_lines = true;
}

int level_of_logging(LogLevel level) {  // logging.DEBUG, INFO, WARNING, ERROR
  return 10 * (1 + static_cast<int>(level));
}

/// Replaces options by their Python names: --max-bad becomes max_bad. Text in backticks is a command line and unchanged.
std::string with_keywords(std::string_view message) {
  std::string text;
  bool is_command = false;
  for (size_t i = 0; i < message.size(); ++i) {
    const char c = message[i];
    if (c == '`') is_command = !is_command;
    const bool begins = i == 0 || std::string_view(" ('\"").find(message[i - 1]) != std::string_view::npos;
    const bool is_option = !is_command && begins && message.substr(i, 2) == "--" && i + 2 < message.size() &&
                           message[i + 2] >= 'a' && message[i + 2] <= 'z';
    if (!is_option) {
      text += c;
      continue;
    }
    for (i += 2; i < message.size() && ((message[i] >= 'a' && message[i] <= 'z') || message[i] == '-'); ++i)
      text += message[i] == '-' ? '_' : message[i];
    --i;
  }
  return text;
}

void raise(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const PythonCall call;
    const nb::object classes = nb::module_::import_("dlpipe.errors").attr("BY_CODE");
    const std::string_view code = error_code_name(error.code());
    const nb::object type = classes[nb::str(code.data(), code.size())];
    PyErr_SetObject(type.ptr(), to_text(with_keywords(error.status().message())).ptr());
  }
}

}  // namespace

void pass_log_on() {
  if (!has_lines.exchange(false)) return;
  std::deque<std::pair<LogLevel, std::string>> taken;
  {
    const MutexLock lock(lines_mutex);
    taken.swap(lines);
  }
  const PythonCall call;
  const nb::object logger = nb::module_::import_("logging").attr("getLogger")("dlpipe");
  for (const auto& [level, text] : taken) {
    logger.attr("log")(level_of_logging(level), "%s", to_text(text));
  }
}

// ---- waiting

namespace {

/// How long `end` waits for calls into Python, which may be waiting for the ending thread.
constexpr std::chrono::seconds kEndPatience(10);

// How many Unlocked and PythonCall there are, of all threads and of this one.
std::atomic<int> busy{0};
thread_local int own_busy = 0;
std::atomic<bool> has_ended{false};
std::atomic<bool> is_all_closed{false};
std::atomic<std::thread::id> ending_thread;

/// A call from an augmentation continues until its loader is closed; close() waits for it.
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

/// Blocks this thread until the process ends. The caller doesn't hold the interpreter lock.
[[noreturn]] void stay() {
  busy -= own_busy;
  while (true) ::pause();
}

/// A forked child has only the forking thread.
void forget_other_threads() {
  busy = own_busy;
}

void end(const nb::callable& close_all) {
  ending_thread = std::this_thread::get_id();
  has_ended = true;
  close_all();
  const nb::gil_scoped_release release;  // some threads may have been about to take the lock
  const auto latest = std::chrono::steady_clock::now() + kEndPatience;
  const auto wait_while = [&](const auto& condition) {
    while (condition() && std::chrono::steady_clock::now() < latest)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  // Loaders that the garbage collector has found in an augmentation, and is about to close: their own augmentations need the lock.
  wait_while([] { return pipeline::Feed::open_count() > 0; });
  is_all_closed = true;
  wait_while([] { return busy > own_busy; });
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

// ---- long work

namespace {

/// The maximum delay until Ctrl-C is noticed.
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
  data::explain_bus_errors();
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

/// Whether the work has returned.
bool Task::wait() {
  const Unlocked no_lock;
  const auto then = std::chrono::steady_clock::now() + kPatience;
  MutexLock lock(mutex_);
  while (!done_ && call_ == nullptr) {
    if (lock.wait_until(for_caller_, then) == std::cv_status::timeout) break;
  }
  return done_;
}

/// An error in Python requests the stop, so that the work's thread doesn't wait for a result that never comes.
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

void bind_calls(nb::module_& module) {
  set_log_function(keep_line);
  nb::register_exception_translator(raise);
  ::pthread_atfork(nullptr, nullptr, forget_other_threads);
  module.def("end", end);
}

}  // namespace dlpipe::python
