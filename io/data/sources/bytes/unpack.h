// Whole gzip and zstd streams of any length, piece by piece; anything else passes as it is. Pure but for the two
// functions that it is given: any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

/// Fills the span with the next bytes of a stream: how many; 0 at its end.
using ReadPiece = std::function<Result<size_t>(std::span<std::byte>)>;
using TakePiece = std::function<Status(std::span<const std::byte>)>;

/// kCorrupt: what is wrong with the archive `name`, and what to do.
Status damaged_archive(const std::string& name, std::string_view what);
bool all_zero(std::span<const std::byte> bytes);

enum class Packing : uint8_t { kNone, kGzip, kZstd };
/// What the first bytes (six are enough) say. kUnsupported names xz, bzip2, lz4 and zip with what to do.
Result<Packing> packing_of(std::span<const std::byte> begin, const std::string& name);

/// Hands the unpacked stream to `take`. kCorrupt where a packed one is damaged or cut short: what was taken until then
/// is not to be believed, since its checksum stands at its end. `name` is for messages.
Status unpack(const ReadPiece& read, const TakePiece& take, const std::string& name);

}  // namespace dlpipe::data
