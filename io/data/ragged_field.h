// A field without a fixed size, of some samples: the paths or texts that belong to a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/dataset.h"

namespace dlpipe::data {

struct RaggedField {
  std::vector<std::byte> bytes;
  std::vector<int64_t> offsets;  // [samples + 1]: sample i has the bytes [offsets[i], offsets[i + 1])
};

/// Reads the samples' records; a negative sample has no bytes. kNotFound when the dataset has no such field.
Result<RaggedField> read_ragged_field(const Dataset& dataset, std::span<const int64_t> samples,
                                      std::string_view name);

}  // namespace dlpipe::data
