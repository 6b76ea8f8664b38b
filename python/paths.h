// Paths that Python code gives.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"

namespace dlpipe::python {

/// A path as the system has it: the bytes that os.fsencode made of it. Throws Error kMisuse for one with a zero byte: the system
/// would use the path that ends before it.
inline std::string to_path(const nanobind::bytes& path) {
  std::string text(path.c_str(), path.size());
  if (text.find('\0') != std::string::npos)
    refuse("path", in_quotes(text), " has a zero byte, and no file is called so; give it without");
  return text;
}

}  // namespace dlpipe::python
