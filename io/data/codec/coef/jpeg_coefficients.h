// From a JPEG to a coefficient record and back, through libjpeg's coefficient interface.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/codec/coef/block_code.h"
#include "dlpipe/io/data/codec/image_codec.h"

namespace dlpipe::data {

/// Whether a file that begins with `bytes`, its first four or all that it has, may be of coefficient records.
bool begins_as_coefficients(std::span<const std::byte> bytes);

/// How a record's tiles are made. A crop passes over half a tile per row of blocks on average; a tile
/// costs about three bytes, four if packed.
struct TileKind {
  coef::TileForm form;
  int blocks;  // 4, 8 or 16
};
inline constexpr TileKind kFastTiles = {coef::TileForm::kPacked, 16};
inline constexpr TileKind kDenseTiles = {coef::TileForm::kCoded, 16};

/// More than this share of the JPEG's bytes isn't worth it, where nobody asked for coefficients: a tiny
/// picture, whose tables weigh as much as its blocks.
inline constexpr double kMostBytesByDefault = 1.25;

/// A coefficient record of a baseline, extended or progressive JPEG with 8 bits per sample. kUnsupported says
/// why a picture has to stay as it is; kCorrupt as the JPEG decoder. The caller compares pixels where it
/// wants to be sure (run/ingest does). Thread-safe.
Result<std::vector<std::byte>> encode_coefficients(std::span<const std::byte> jpeg,
                                                   const DecodeLimits& limits = {},
                                                   const TileKind& tiles = kFastTiles);

/// The same in two steps, of which the first can decode the picture in passing: JpegDecoder's pixels, for
/// less than a decode of their own. Keeps its memory from one picture to the next; for one thread.
class CoefficientEncoder {
 public:
  CoefficientEncoder();
  ~CoefficientEncoder();
  /// `pixels`: the whole picture as stored, 1 or 3 channels as the JPEG has components; or null. Errors as
  /// encode_coefficients, and kUnsupported for other pixels; then they may be half written.
  Status read(std::span<const std::byte> jpeg, const DecodeLimits& limits, const ImageView* pixels);
  /// Of the picture read last; `jpeg` as it was then.
  Result<std::vector<std::byte>> encode(std::span<const std::byte> jpeg, const TileKind& tiles);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A JPEG with the record's coefficients, tables and metadata: the source's own bytes where the source was
/// one baseline scan whose Huffman tables reproduce it, otherwise one baseline scan with fitted tables.
/// Thread-safe.
Result<std::vector<std::byte>> coefficients_to_jpeg(std::span<const std::byte> record,
                                                    const DecodeLimits& limits = {});

/// True when coefficients_to_jpeg gives the source's own bytes.
Result<bool> keeps_source_bytes(std::span<const std::byte> record);

}  // namespace dlpipe::data
