#include "dlpipe/io/data/sources/bytes/inflater.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

namespace dlpipe::data {

struct Inflater::Stream {
  z_stream z{};
};

void Inflater::End::operator()(Stream* stream) const {
  inflateEnd(&stream->z);
  delete stream;
}

Result<Inflater> Inflater::begin(Form form) {
  constexpr int kWindow = 15;
  constexpr int kGzipWindow =
      kWindow + 16;  // zlib.h: 16 more asks for gzip's header, a negative one for none
  std::unique_ptr<Stream, End> stream(new Stream);
  const int window = form == Form::kGzip ? kGzipWindow : form == Form::kZlib ? kWindow : -kWindow;
  if (inflateInit2(&stream->z, window) != Z_OK)
    return Status(ErrorCode::kOutOfMemory, "[ingest] no memory for zlib");
  return Inflater(std::move(stream));
}

Result<Inflater::Step> Inflater::step(std::span<const std::byte>& in, std::span<std::byte> out) {
  constexpr size_t kMost = std::numeric_limits<uInt>::max() / 2;
  z_stream& z = stream_->z;
  const auto in_bytes = static_cast<uInt>(std::min(in.size(), kMost));
  const auto out_bytes = static_cast<uInt>(std::min(out.size(), kMost));
  z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(in.data()));
  z.avail_in = in_bytes;
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = out_bytes;
  const int code = inflate(&z, Z_NO_FLUSH);
  if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
    return Status(ErrorCode::kCorrupt, z.msg != nullptr ? z.msg : "bad data");
  in = in.subspan(in_bytes - z.avail_in);
  return Step{size_t{out_bytes} - z.avail_out, code == Z_STREAM_END};
}

Status Inflater::again() {
  return inflateReset(&stream_->z) == Z_OK ? Status() : Status(ErrorCode::kCorrupt, "bad data");
}

}  // namespace dlpipe::data
