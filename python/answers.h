// What the program prints with --json, as Python's objects.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>
#include <vector>

namespace dlpipe::python {

/// What json.loads makes of `text`. By a thread that has the interpreter lock.
nanobind::any from_json(std::string_view text);

/// A list of what it makes of each.
nanobind::any from_json_lines(const std::vector<std::string>& lines);

}  // namespace dlpipe::python
