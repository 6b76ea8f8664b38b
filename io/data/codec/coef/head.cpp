#include "dlpipe/io/data/codec/coef/head.h"

// jpeglib.h needs stdio's FILE and size_t before it.
#include <cstdio>

#include <jpeglib.h>
#include <zstd.h>

#include <memory>
#include <new>

#include "dlpipe/io/data/codec/zstd.h"

namespace dlpipe::data::coef {
namespace {

constexpr int kLevel = 6;  // a few hundred bytes: higher ones cost milliseconds

void put_table(const JHUFF_TBL& table, int place, std::vector<std::byte>& out) {
  size_t values = 0;
  for (int length = 1; length <= 16; ++length) values += table.bits[length];
  const size_t size = 2 + 1 + 16 + values;
  for (const size_t byte : {size_t{0xff}, size_t{0xc4}, size >> 8, size & 255, static_cast<size_t>(place)})
    out.push_back(static_cast<std::byte>(byte));
  for (int length = 1; length <= 16; ++length) out.push_back(static_cast<std::byte>(table.bits[length]));
  for (size_t i = 0; i < values; ++i) out.push_back(static_cast<std::byte>(table.huffval[i]));
}

/// The four standard tables as libjpeg writes them, one segment each.
std::vector<std::byte> make_dictionary() {
  jpeg_compress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);  // nothing here can fail but for memory
  jpeg_create_compress(&jpeg);
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  std::vector<std::byte> out;
  for (int i = 0; i < 2; ++i) {
    put_table(*jpeg.dc_huff_tbl_ptrs[i], i, out);
    put_table(*jpeg.ac_huff_tbl_ptrs[i], 16 + i, out);
  }
  jpeg_destroy_compress(&jpeg);
  return out;
}

const std::vector<std::byte>& dictionary() {
  static const std::vector<std::byte> bytes = make_dictionary();
  return bytes;
}

}  // namespace

std::vector<std::byte> pack_head(std::span<const std::byte> bytes) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
  if (context == nullptr) throw std::bad_alloc();
  std::vector<std::byte> out(ZSTD_compressBound(bytes.size()));
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kLevel);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_contentSizeFlag, 0);
  ZSTD_CCtx_refPrefix(context.get(), dictionary().data(), dictionary().size());
  const size_t size = ZSTD_compress2(context.get(), out.data(), out.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(size) != 0) throw std::bad_alloc();  // the only way to fail with room for the bound
  out.resize(size);
  return out;
}

Result<std::vector<std::byte>> unpack_head(std::span<const std::byte> packed, size_t size) {
  const Status damaged(ErrorCode::kCorrupt,
                       "[codec] coefficient record: its JPEG head is damaged; ingest the file again");
  if (size > kMostHeadBytes || !zstd_can_hold(packed.size(), size)) return damaged;
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (context == nullptr) throw std::bad_alloc();
  std::vector<std::byte> out(size);
  ZSTD_DCtx_refPrefix(context.get(), dictionary().data(), dictionary().size());
  const size_t got = ZSTD_decompressDCtx(context.get(), out.data(), out.size(), packed.data(), packed.size());
  if (ZSTD_isError(got) != 0 || got != size) return damaged;
  return out;
}

}  // namespace dlpipe::data::coef
