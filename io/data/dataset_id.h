// The dataset id: a hash of all that a dataset says about its records (FORMAT.md, "Id").
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "dlpipe/io/data/schema.h"

namespace dlpipe::data {

/// Takes all header rows in order, in pieces of any size, then gives the id. Throws std::bad_alloc.
class DatasetIdHash {
 public:
  DatasetIdHash();
  ~DatasetIdHash();
  void add_rows(std::span<const std::byte> rows);
  /// As the format version of `info` has it; info.id isn't looked at.
  std::string id(const DatasetInfo& info);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dlpipe::data
