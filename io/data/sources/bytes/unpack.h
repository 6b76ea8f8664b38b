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

enum class Packing : uint8_t { kNone, kGzip, kZstd, kZlib };
/// Whether a stream that begins so is one of zlib: two bytes say little, so whoever knows what is in it must say that it is none of
/// that.
using IsZlib = bool (*)(std::span<const std::byte> begin);
/// Whether the first two bytes are as zlib's.
bool begins_as_zlib(std::span<const std::byte> begin);
/// What the first bytes (six are enough, for `is_zlib` sixteen) say. kUnsupported names xz, bzip2, lz4 and zip with what to do.
Result<Packing> packing_of(std::span<const std::byte> begin, const std::string& name,
                           IsZlib is_zlib = nullptr);

/// Hands the unpacked stream to `take`. kCorrupt where a packed one is damaged or cut short: what was taken until then
/// is not to be believed, since its checksum stands at its end. `name` is for messages.
Status unpack(const ReadPiece& read, const TakePiece& take, const std::string& name,
              IsZlib is_zlib = nullptr);

}  // namespace dlpipe::data
