// Whole gzip streams into memory, with the size known beforehand: nothing is allocated on a stream's word.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

bool is_gzip(std::span<const std::byte> bytes);
/// Fills `out` with the stream's first bytes; kCorrupt when it has fewer. With `whole`, also when it has more.
/// Memory that nothing was written to yet stays untouched where the stream ends early.
Status gunzip(std::span<const std::byte> bytes, std::span<std::byte> out, bool whole,
              const std::string& name);

}  // namespace dlpipe::data
