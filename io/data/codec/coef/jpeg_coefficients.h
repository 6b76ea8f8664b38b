// Converts a JPEG to a coefficient record and back, through libjpeg's coefficient interface.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "io/data/codec/coef/record.h"

namespace dlpipe::data {

/// Whether a file that begins with `bytes`, its first four or all of them, may be a coefficient record.
bool begins_as_coefficients(std::span<const std::byte> bytes);

/// How a record's tiles are made. A crop skips half a tile per row of blocks on average; a tile costs about three bytes, four
/// if packed.
struct TileKind {
  coef::TileForm form;
  int blocks;  // 4, 8 or 16
};
inline constexpr TileKind kFastTiles = {coef::TileForm::kPacked, 16};
inline constexpr TileKind kDenseTiles = {coef::TileForm::kCoded, 16};

/// Records above this share of the JPEG's size are not worth it, unless coefficients were requested: for example tiny images,
/// whose tables are as large as their blocks.
inline constexpr double kMostBytesByDefault = 1.25;

/// A coefficient record of a baseline, extended or progressive JPEG with 8 bits per sample. kUnsupported says why the image
/// can't be converted; kCorrupt as in the JPEG decoder. The caller compares pixels if it needs certainty (run/ingest does).
/// Thread-safe.
Result<std::vector<std::byte>> encode_coefficients(std::span<const std::byte> jpeg,
                                                   const DecodeLimits& limits = {},
                                                   const TileKind& tiles = kFastTiles);

/// The same in two steps. The first can also decode the image, to JpegDecoder's pixels, at less cost than a separate decode.
/// Keeps its memory from one image to the next; for one thread.
class CoefficientEncoder {
 public:
  CoefficientEncoder();
  ~CoefficientEncoder();
  /// `pixels`: the whole image as stored, with one channel per component (1 or 3), or null. Errors as in encode_coefficients,
  /// and kUnsupported for other pixels, which may then be partly written.
  Status read(std::span<const std::byte> jpeg, const DecodeLimits& limits, const ImageView* pixels);
  /// Encodes the image that was read last; `jpeg` must be unchanged since.
  Result<std::vector<std::byte>> encode(std::span<const std::byte> jpeg, const TileKind& tiles);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A JPEG with the record's coefficients, tables and metadata: the source's own bytes if the source was one baseline scan whose
/// Huffman tables reproduce it, otherwise one baseline scan with fitted tables. Thread-safe.
Result<std::vector<std::byte>> coefficients_to_jpeg(std::span<const std::byte> record,
                                                    const DecodeLimits& limits = {});

/// True if coefficients_to_jpeg returns the source's own bytes.
Result<bool> keeps_source_bytes(std::span<const std::byte> record);

}  // namespace dlpipe::data
