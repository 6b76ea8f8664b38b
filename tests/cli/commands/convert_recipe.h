// What `dlpipe convert-augment` makes of a text.
#pragma once

#include <gtest/gtest.h>

#include <fstream>

#include "tests/cli/program.h"

namespace dlpipe::test {

inline Outcome convert(const std::string& text, const std::vector<std::string>& more = {}) {
  const ScratchDirectory dir;
  std::ofstream(dir / "recipe") << text;
  std::vector<std::string> arguments = {"convert-augment", dir / "recipe"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_dlpipe(arguments);
}

inline std::string expression(const std::string& text) {
  const Outcome outcome = convert(text);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.out;
}

}  // namespace dlpipe::test
