#include "dlpipe/io/data/sources/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include "dlpipe/base/text.h"

namespace dlpipe::data {

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

Result<std::vector<std::byte>> gunzip(std::span<const std::byte> bytes, size_t size, bool whole,
                                      const std::string& name) {
  struct Inflater {
    z_stream z{};
    ~Inflater() { inflateEnd(&z); }
  } inflater;
  z_stream& z = inflater.z;
  constexpr int kGzipWindow = 15 + 16;
  if (inflateInit2(&z, kGzipWindow) != Z_OK)
    return Status(ErrorCode::kOutOfMemory, "[ingest] no memory for zlib");
  std::vector<std::byte> out(size + (whole ? 1 : 0));  // room for one byte too many shows an overlong stream
  const auto* in = reinterpret_cast<const Bytef*>(bytes.data());
  size_t left_in = bytes.size();
  size_t done = 0;
  int code = Z_OK;
  constexpr size_t kStep = std::numeric_limits<uInt>::max() / 2;
  while (code == Z_OK && done < out.size()) {
    z.next_in = const_cast<Bytef*>(in);
    z.avail_in = static_cast<uInt>(std::min(left_in, kStep));
    z.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    z.avail_out = static_cast<uInt>(std::min(out.size() - done, kStep));
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
  if (done != size || !complete)
    return Status(ErrorCode::kCorrupt, concat("[ingest] ", name, " holds ",
                                              done > size   ? "more than "
                                              : done < size ? "less than "
                                                            : "not just ",
                                              size, " bytes that its header asks for; download it again"));
  out.resize(size);
  return out;
}

}  // namespace dlpipe::data
