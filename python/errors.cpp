#include "dlpipe/python/errors.h"

#include <atomic>
#include <deque>
#include <exception>
#include <string>
#include <utility>

#include "dlpipe/base/log.h"
#include "dlpipe/base/mutex.h"
#include "dlpipe/python/waiting.h"

namespace nb = nanobind;

namespace dlpipe::python {

namespace {

constexpr size_t kMostLines = 1000;  // the oldest go first, where nobody takes them

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

/// Options under their names in Python: --max-bad is max_bad. What stands in backticks is for a command line.
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

nb::object to_text(std::string_view text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

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

void bind_errors(nb::module_&) {
  set_log_function(keep_line);
  nb::register_exception_translator(raise);
}

}  // namespace dlpipe::python
