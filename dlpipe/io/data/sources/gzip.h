// Whole gzip streams into memory, with the size known beforehand: nothing is allocated on a stream's word.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

bool is_gzip(std::span<const std::byte> bytes);
/// The first `size` bytes of the stream; kCorrupt when it has fewer. With `whole`, also when it has more.
Result<std::vector<std::byte>> gunzip(std::span<const std::byte> bytes, size_t size, bool whole,
                                      const std::string& name);

}  // namespace dlpipe::data
