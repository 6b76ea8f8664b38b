#include "dlpipe/io/data/sources/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include "dlpipe/base/text.h"

namespace dlpipe::data {

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

Status gunzip(std::span<const std::byte> bytes, std::span<std::byte> out, bool whole,
              const std::string& name) {
  struct Inflater {
    z_stream z{};
    ~Inflater() { inflateEnd(&z); }
  } inflater;
  z_stream& z = inflater.z;
  constexpr int kGzipWindow = 15 + 16;
  if (inflateInit2(&z, kGzipWindow) != Z_OK)
    return Status(ErrorCode::kOutOfMemory, "[ingest] no memory for zlib");
  std::byte one_too_many{};  // room for it shows an overlong stream, and lets a right one come to its end
  const size_t room = out.size() + (whole ? 1 : 0);
  const auto* in = reinterpret_cast<const Bytef*>(bytes.data());
  size_t left_in = bytes.size();
  size_t done = 0;
  int code = Z_OK;
  constexpr size_t kStep = std::numeric_limits<uInt>::max() / 2;
  while (code == Z_OK && done < room) {
    const std::span<std::byte> to = done < out.size() ? out.subspan(done) : std::span(&one_too_many, 1);
    z.next_in = const_cast<Bytef*>(in);
    z.avail_in = static_cast<uInt>(std::min(left_in, kStep));
    z.next_out = reinterpret_cast<Bytef*>(to.data());
    z.avail_out = static_cast<uInt>(std::min(to.size(), kStep));
    const uInt in_before = z.avail_in;
    const uInt out_before = z.avail_out;
    code = inflate(&z, Z_NO_FLUSH);
    in += in_before - z.avail_in;
    left_in -= in_before - z.avail_in;
    done += out_before - z.avail_out;
    if (in_before == z.avail_in && out_before == z.avail_out) break;
  }
  if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
    return Status(
        ErrorCode::kCorrupt,
        concat("[ingest] ", name, ": damaged gzip stream: ", z.msg != nullptr ? z.msg : "bad data"));
  const bool complete = !whole || (code == Z_STREAM_END && left_in == 0);
  if (done == out.size() && complete) return {};
  return Status(ErrorCode::kCorrupt,
                concat("[ingest] ", name, " holds ",
                       done > out.size()   ? "more than "
                       : done < out.size() ? "less than "
                                           : "not just ",
                       out.size(), " bytes that its header asks for; download it again"));
}

}  // namespace dlpipe::data
