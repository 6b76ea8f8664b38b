#include "dlpipe/io/data/codec/png_data.h"

#include <libdeflate.h>

#include <array>
#include <cstdlib>
#include <new>
#include <string_view>

#include "dlpipe/base/bytes.h"

namespace dlpipe::data {

namespace {

constexpr size_t kMostExpansion = 1032;  // of deflate
constexpr size_t kMostKept = 32u << 20;

// PNG, 5.3: length, type, data, and the CRC of type and data.
constexpr size_t kFrameBytes = 12;

struct Chunk {
  std::string_view type;
  std::span<const std::byte> data;
  uint32_t sum = 0;

  bool sum_matches() const { return libdeflate_crc32(0, type.data(), type.size() + data.size()) == sum; }
};

Result<Chunk> read_chunk(std::span<const std::byte> file, size_t& at) {
  if (file.size() - at < kFrameBytes || file.size() - at - kFrameBytes < load_be32(file, at))
    return Status(ErrorCode::kCorrupt, "the file ends too early");
  const size_t length = load_be32(file, at);
  Chunk chunk;
  chunk.type = {reinterpret_cast<const char*>(&file[at + 4]), 4};  // the data follows it
  chunk.data = file.subspan(at + 8, length);
  chunk.sum = load_be32(file, at + 8 + length);
  at += kFrameBytes + length;
  return chunk;
}

Status damaged_data(std::string_view what) {
  return Status(ErrorCode::kCorrupt, std::string(what));
}

// The byte before each byte, the one above and the one above that, as PNG's 9.4 has them.
uint8_t paeth(int left, int above, int corner) {
  const int from_left = std::abs(above - corner);
  const int from_above = std::abs(left - corner);
  const int from_corner = std::abs(left + above - 2 * corner);
  const int nearer = from_above <= from_corner ? above : corner;
  return static_cast<uint8_t>(from_left <= from_above && from_left <= from_corner ? left : nearer);
}

// A pixel's bytes stay in registers until the next pixel wants them.
template <size_t kPixel>
bool undo(int filter, std::span<uint8_t> row, const uint8_t* above) {
  std::array<uint8_t, kPixel> left{};
  std::array<uint8_t, kPixel> corner{};
  const size_t bytes = row.size();
  uint8_t* const to = row.data();
  switch (filter) {
    case 0:
      return true;
    case 1:
      for (size_t i = 0; i < bytes; i += kPixel)
        for (size_t c = 0; c < kPixel; ++c) to[i + c] = left[c] = static_cast<uint8_t>(to[i + c] + left[c]);
      return true;
    case 2:
      for (size_t i = 0; i < bytes; ++i) to[i] = static_cast<uint8_t>(to[i] + above[i]);
      return true;
    case 3:
      for (size_t i = 0; i < bytes; i += kPixel)
        for (size_t c = 0; c < kPixel; ++c)
          to[i + c] = left[c] = static_cast<uint8_t>(to[i + c] + (left[c] + above[i + c]) / 2);
      return true;
    case 4:
      for (size_t i = 0; i < bytes; i += kPixel) {
        for (size_t c = 0; c < kPixel; ++c) {
          const uint8_t up = above[i + c];
          to[i + c] = left[c] = static_cast<uint8_t>(to[i + c] + paeth(left[c], up, corner[c]));
          corner[c] = up;
        }
      }
      return true;
    default:
      return false;
  }
}

}  // namespace

void PngData::Free::operator()(libdeflate_decompressor* decompressor) const {
  libdeflate_free_decompressor(decompressor);
}

PngData::PngData() : decompressor_(libdeflate_alloc_decompressor()) {}

Status PngData::read(std::span<const std::byte> file, size_t at, size_t bytes) {
  if (decompressor_ == nullptr) return Status(ErrorCode::kOutOfMemory, "out of memory");
  std::span<const std::byte> compressed;
  joined_.clear();
  bool behind = false;
  for (bool ends = false; !ends;) {
    DLPIPE_ASSIGN_OR_RETURN(const Chunk chunk, read_chunk(file, at));
    ends = chunk.type == "IEND";
    if (chunk.type != "IDAT") {
      behind = true;
      continue;
    }
    if (behind) return damaged_data("IDAT chunks stand apart");
    if (!chunk.sum_matches()) return damaged_data("IDAT: CRC error");
    if (compressed.empty()) {
      compressed = chunk.data;
      continue;
    }
    if (joined_.empty()) {
      joined_.reserve(compressed.size() + chunk.data.size() + file.size() - at);
      joined_.assign(compressed.begin(), compressed.end());
    }
    joined_.insert(joined_.end(), chunk.data.begin(), chunk.data.end());
    compressed = joined_;
  }
  if (bytes / kMostExpansion > compressed.size()) return damaged_data("not enough image data");
  rows_.resize(bytes);
  size_t taken = 0;
  size_t given = 0;
  const libdeflate_result result = libdeflate_zlib_decompress_ex(
      decompressor_.get(), compressed.data(), compressed.size(), rows_.data(), rows_.size(), &taken, &given);
  if (result == LIBDEFLATE_INSUFFICIENT_SPACE) return damaged_data("too much image data");
  if (result != LIBDEFLATE_SUCCESS) return damaged_data("its compressed data can't be read");
  if (given < bytes) return damaged_data("not enough image data");
  if (taken < compressed.size()) return damaged_data("extra compressed data");
  return {};
}

void PngData::let_go() {
  if (scratch_bytes() <= kMostKept) return;
  joined_ = std::vector<std::byte>();
  rows_ = std::vector<uint8_t>();
}

bool undo_filter(int filter, std::span<uint8_t> row, const uint8_t* above, int pixel_bytes) {
  switch (pixel_bytes) {
    case 1:
      return undo<1>(filter, row, above);
    case 2:
      return undo<2>(filter, row, above);
    case 3:
      return undo<3>(filter, row, above);
    case 4:
      return undo<4>(filter, row, above);
    case 6:
      return undo<6>(filter, row, above);
    default:
      return undo<8>(filter, row, above);
  }
}

}  // namespace dlpipe::data
