// Decompression: single zlib streams (Inflater), and whole gzip, zlib and zstd streams of any length, piece by piece. Sizes
// claimed by a stream are never used to allocate memory. An Inflater belongs to one thread; the functions are pure except for
// the two callbacks.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "dlpipe/error.h"

namespace dlpipe::data {

class Inflater {
 public:
  /// With gzip's or zlib's header and checksum; deflate alone, as in a zip file.
  enum class Form { kGzip, kZlib, kBare };
  /// kOutOfMemory if zlib can't allocate.
  static Result<Inflater> begin(Form form);

  struct Step {
    size_t made = 0;      // bytes, at the start of `out`
    bool is_end = false;  // of the stream; bytes after it are still in `in`
  };
  /// Unpacks from `in`, advancing it, until it or `out` is used up, at most 2 GB at a time. If nothing was made and nothing
  /// used, the stream needs more bytes. kCorrupt with zlib's message.
  Result<Step> step(std::span<const std::byte>& in, std::span<std::byte> out);
  /// Starts another stream of the same format.
  Status again();

 private:
  struct Stream;
  struct End {
    void operator()(Stream* stream) const;
  };
  explicit Inflater(std::unique_ptr<Stream, End> stream) : stream_(std::move(stream)) {}

  std::unique_ptr<Stream, End> stream_;  // zlib keeps its address
};

// Whole streams; uncompressed bytes pass through unchanged.

/// Fills the span with the next bytes of a stream and returns how many; 0 at its end.
using ReadPiece = std::function<Result<size_t>(std::span<std::byte>)>;
using TakePiece = std::function<Status(std::span<const std::byte>)>;

/// kCorrupt: what is wrong with the archive `name`, and what to do.
Status damaged_archive(const std::string& name, std::string_view what);
bool all_zero(std::span<const std::byte> bytes);

enum class Packing : uint8_t { kNone, kGzip, kZstd, kZlib };
/// Whether a stream with this beginning is zlib's. Two bytes are weak evidence, so the caller must rule out the format that it
/// expects.
using IsZlib = bool (*)(std::span<const std::byte> begin);
/// Whether the first two bytes match zlib's header.
bool begins_as_zlib(std::span<const std::byte> begin);
/// Detects the format from the first bytes (six are enough, sixteen for `is_zlib`). kUnsupported names xz, bzip2, lz4 and zip
/// and says what to do.
Result<Packing> packing_of(std::span<const std::byte> begin, const std::string& name,
                           IsZlib is_zlib = nullptr);

/// Passes the unpacked stream to `take`. kCorrupt if a compressed stream is corrupt or truncated: data passed until then must
/// not be trusted, because the checksum is at the end. `name` is for messages.
Status unpack(const ReadPiece& read, const TakePiece& take, const std::string& name,
              IsZlib is_zlib = nullptr);

}  // namespace dlpipe::data
