// What an entry's extra bytes hold, and what a listing warns of, for the tests of sources.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "dlpipe/source.h"

namespace dlpipe::data {

inline std::vector<float> floats(const std::string& bytes) {
  std::vector<float> numbers(bytes.size() / sizeof(float));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

inline std::string warnings_of(const SourceListing& listing) {
  std::string all;
  for (const std::string& warning : listing.warnings) all += warning + "\n";
  return all;
}

}  // namespace dlpipe::data
