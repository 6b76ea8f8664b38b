// How errors and log lines of the library reach Python.
//
// An Error leaves as the exception of its kind (dlpipe/errors.py). Log lines come from any thread, which may hold no
// interpreter lock: they wait in a queue until a call from Python takes them to `logging`.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "dlpipe/base/error.h"

namespace dlpipe::python {

void bind_errors(nanobind::module_& module);

/// Text of the library, which may hold names of files that are no UTF-8.
nanobind::object to_text(std::string_view text);

/// A list of such texts.
template <class Texts>
nanobind::list to_texts(const Texts& texts) {
  nanobind::list list;
  for (const auto& text : texts) list.append(to_text(text));
  return list;
}

/// Log lines since the last call, handed to `logging`. With the interpreter lock; cheap where there are none.
void pass_log_on();

}  // namespace dlpipe::python
