// How errors and log lines of the library reach Python.
//
// An Error leaves as the exception of its kind (dlpipe/errors.py). Log lines come from any thread, which may hold no
// interpreter lock: they wait in a queue until a call from Python takes them to `logging`.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>
#include <type_traits>
#include <utility>

#include "dlpipe/base/error.h"

namespace dlpipe::python {

void bind_errors(nanobind::module_& module);

/// Text of the library, which may hold names of files that are no UTF-8.
nanobind::object to_text(std::string_view text);

/// Log lines since the last call, handed to `logging`. With the interpreter lock; cheap where there are none.
void pass_log_on();

/// Runs `work` without the interpreter lock, and turns what it answers into a value or an exception. `work` touches no
/// Python object.
template <class Work>
auto unlocked(Work work) {
  auto result = [&] {
    const nanobind::gil_scoped_release release;
    return work();
  }();
  pass_log_on();
  if constexpr (std::is_same_v<decltype(result), Status>) {
    throw_if_error(result);
  } else {
    return value_or_throw(std::move(result));
  }
}

}  // namespace dlpipe::python
