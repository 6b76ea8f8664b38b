// Paths that Python code gives.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace dlpipe::python {

/// A path as the system has it: the bytes that os.fsencode made of it.
inline std::string to_path(const nanobind::bytes& path) {
  return {path.c_str(), path.size()};
}

}  // namespace dlpipe::python
