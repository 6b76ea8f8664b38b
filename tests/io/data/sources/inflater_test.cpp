#include "io/data/sources/bytes/unpack.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <string>

#include "base/text.h"

namespace dlpipe::data {
namespace {

/// `text` packed by zlib itself.
std::string packed(const std::string& text, int window) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&z, text.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - z.avail_out);
  deflateEnd(&z);
  return out;
}

/// Unpacks `bytes`, given `in_bytes` at a time, into pieces of `out_bytes`; what is wrong in the place of the text.
std::string unpacked(Inflater& inflater, const std::string& bytes, size_t in_bytes, size_t out_bytes) {
  std::string text;
  std::string piece(out_bytes, '\0');
  for (size_t at = 0; at < bytes.size(); at += in_bytes) {
    std::span<const std::byte> in =
        std::as_bytes(std::span(bytes).subspan(at, std::min(in_bytes, bytes.size() - at)));
    size_t made = out_bytes;
    while (made == out_bytes) {
      const auto step = inflater.step(in, std::as_writable_bytes(std::span(piece)));
      if (!step.ok()) return step.status().message();
      made = step->made;
      text += piece.substr(0, made);
      if (step->is_end) return text + concat("|", in.size());
    }
  }
  return text + "|open";
}

std::string numbers() {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += std::to_string(i * i);
  return text;
}

TEST(Inflater, UnpacksBothFormsInPiecesOfAnySizeAndStopsAtTheEnd) {
  const std::string text = numbers();
  for (const auto& [form, window] :
       {std::pair(Inflater::Form::kGzip, 15 + 16), std::pair(Inflater::Form::kBare, -15)}) {
    Inflater inflater = value_or_throw(Inflater::begin(form));
    const std::string bytes = packed(text, window);
    for (const size_t size : {size_t{1}, size_t{7}, bytes.size(), 2 * text.size()}) {
      EXPECT_EQ(unpacked(inflater, bytes, size, size), text + "|0") << size;
      throw_if_error(inflater.again());
    }
    EXPECT_EQ(unpacked(inflater, bytes + "more", bytes.size() + 4, 100), text + "|4");
    throw_if_error(inflater.again());
    EXPECT_TRUE(unpacked(inflater, bytes.substr(0, bytes.size() - 1), 10, 100).ends_with("|open"));
  }
}

TEST(Inflater, WhatIsDamagedIsZlibsWord) {
  std::string bytes = packed(numbers(), 15 + 16);
  bytes[bytes.size() - 6] ^= 1;  // of the checksum
  Inflater inflater = value_or_throw(Inflater::begin(Inflater::Form::kGzip));
  EXPECT_EQ(unpacked(inflater, bytes, 1000, 1000), "incorrect data check");
  throw_if_error(inflater.again());
  EXPECT_EQ(unpacked(inflater, "no gzip at all", 14, 1000), "incorrect header check");
}

}  // namespace
}  // namespace dlpipe::data
