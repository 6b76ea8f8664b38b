#include "tests/parity/golden.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/base/test_file.h"

namespace dlpipe::engine::parity {

Golden::Golden(const std::string& name) : path_(test_file("parity/golden/") + name + ".txt") {
  std::ifstream file(path_);
  if (!file) throw std::runtime_error("can't read " + path_);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string key;
    words >> key;
    std::vector<double>& values = entries_[key];
    for (double value = 0; words >> value;) values.push_back(value);
    if (!words.eof() || values.empty()) throw std::runtime_error("bad line for " + key + " in " + path_);
  }
}

const std::vector<double>& Golden::at(const std::string& key) const {
  const auto found = entries_.find(key);
  if (found == entries_.end()) throw std::runtime_error("no " + key + " in " + path_);
  return found->second;
}

}  // namespace dlpipe::engine::parity
