// Golden files: one entry per line, `key value value ...`; `#` begins a comment.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace dlpipe::engine::parity {

class Golden {
 public:
  /// Reads tests/parity/golden/NAME.txt; a missing or broken file fails the test by exception.
  explicit Golden(const std::string& name);
  /// Values of a key; a missing key fails the test by exception.
  const std::vector<double>& at(const std::string& key) const;
  const std::map<std::string, std::vector<double>>& entries() const { return entries_; }

 private:
  std::string path_;
  std::map<std::string, std::vector<double>> entries_;
};

}  // namespace dlpipe::engine::parity
