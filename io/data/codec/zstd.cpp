#include "io/data/codec/zstd.h"

#include <zstd.h>

#include "base/text.h"

namespace dlpipe::data {

// zstd's own default: JPEG bytes do not shrink at any level, and raw pixels hardly shrink more at higher levels.
static constexpr int kLevel = 3;

struct ZstdCompressor::Context {
  ZSTD_CCtx* zstd = ZSTD_createCCtx();
  ~Context() { ZSTD_freeCCtx(zstd); }
};
struct ZstdDecompressor::Context {
  ZSTD_DCtx* zstd = ZSTD_createDCtx();
  ~Context() { ZSTD_freeDCtx(zstd); }
};

bool zstd_can_hold(size_t frame_bytes, size_t size) {
  constexpr size_t kLeastBlock = 4;  // a header of three bytes, and the byte that is repeated
  constexpr size_t kMostBlock = size_t{128} << 10;
  return size / kMostBlock <= frame_bytes / kLeastBlock;
}

ZstdCompressor::ZstdCompressor() : context_(std::make_unique<Context>()) {}
ZstdCompressor::~ZstdCompressor() = default;
ZstdDecompressor::ZstdDecompressor() : context_(std::make_unique<Context>()) {}
ZstdDecompressor::~ZstdDecompressor() = default;

Status ZstdCompressor::compress(std::span<const std::byte> bytes, std::vector<std::byte>& out) {
  if (context_->zstd == nullptr) return Status(ErrorCode::kOutOfMemory, "[codec] no memory for zstd");
  out.resize(ZSTD_compressBound(bytes.size()));
  const size_t size =
      ZSTD_compressCCtx(context_->zstd, out.data(), out.size(), bytes.data(), bytes.size(), kLevel);
  if (ZSTD_isError(size) != 0)
    return Status(ErrorCode::kInternal, concat("[codec] zstd cannot compress: ", ZSTD_getErrorName(size)));
  out.resize(size);
  return {};
}

Status ZstdDecompressor::decompress(std::span<const std::byte> frame, std::span<std::byte> out) {
  if (context_->zstd == nullptr) return Status(ErrorCode::kOutOfMemory, "[codec] no memory for zstd");
  const size_t size = ZSTD_decompressDCtx(context_->zstd, out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(size) != 0)
    return Status(ErrorCode::kCorrupt, concat("[codec] corrupt zstd frame: ", ZSTD_getErrorName(size)));
  if (size != out.size())
    return Status(ErrorCode::kCorrupt,
                  concat("[codec] corrupt zstd frame: it holds ", size, " bytes instead of ", out.size()));
  return {};
}

}  // namespace dlpipe::data
