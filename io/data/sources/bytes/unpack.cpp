#include "io/data/sources/bytes/unpack.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "base/messages.h"
#include "base/text.h"

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
    return Status(ErrorCode::kOutOfMemory, "[ingest] out of memory for zlib");
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

Status damaged_archive(const std::string& name, std::string_view what) {
  return Status(ErrorCode::kCorrupt,
                concat("[ingest] ", printable(name), ": ", what, "; download or create it again"));
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte one) { return one == std::byte{0}; });
}

namespace {

constexpr size_t kPieceBytes = size_t{1} << 18;

/// The remaining part of a packed stream, piece by piece.
class Input {
 public:
  Input(const ReadPiece& read, std::span<const std::byte> begin) : read_(read), piece_(kPieceBytes) {
    std::copy(begin.begin(), begin.end(), piece_.begin());
    size_ = begin.size();
  }
  /// The bytes that were not used yet; empty at the end.
  Result<std::span<const std::byte>> left() {
    if (at_ == size_) {
      at_ = size_ = 0;
      DLPIPE_ASSIGN_OR_RETURN(size_, read_(piece_));
    }
    return std::span<const std::byte>(piece_).subspan(at_, size_ - at_);
  }
  void use(size_t bytes) { at_ += bytes; }

 private:
  const ReadPiece& read_;
  std::vector<std::byte> piece_;
  size_t at_ = 0;
  size_t size_ = 0;
};

// Zeros after a stream may fill a tape's block. With more zeros, it is a file of another kind, which is not read to its end.
constexpr uint64_t kMostPadding = uint64_t{64} << 20;

// Members that follow each other are one stream, as gzip, bgzip and pigz write them.
Status unpack_deflated(Input& input, const TakePiece& take, const std::string& name, Inflater::Form form) {
  const std::string_view kind = form == Inflater::Form::kGzip ? "gzip" : "zlib";
  DLPIPE_ASSIGN_OR_RETURN(Inflater inflater, Inflater::begin(form));
  std::vector<std::byte> out(kPieceBytes);
  bool between = false;  // members
  uint64_t padding = 0;
  while (true) {
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> in, input.left());
    if (in.empty())
      return between ? Status() : damaged_archive(name, concat("the ", kind, " stream is truncated"));
    if (between) {
      if (all_zero(in)) {
        padding += in.size();
        if (padding > kMostPadding)
          return damaged_archive(name, concat("more than 64 MB of zeros follow the ", kind, " stream"));
        input.use(in.size());
        continue;
      }
      if (!inflater.again().ok()) return damaged_archive(name, concat("corrupt ", kind, " stream"));
      between = false;
    }
    std::span<const std::byte> left = in;
    std::span<const std::byte> piece;
    do {
      const auto step = inflater.step(left, out);
      if (!step.ok())
        return damaged_archive(name, concat("corrupt ", kind, " stream: ", step.status().message()));
      between = step->is_end;
      piece = std::span<const std::byte>(out).first(step->made);
      DLPIPE_RETURN_IF_ERROR(take(piece));
    } while (!between && piece.size() == out.size());
    input.use(in.size() - left.size());
  }
}

Status unpack_zstd(Input& input, const TakePiece& take, const std::string& name) {
  const std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                        ZSTD_freeDStream);
  if (stream == nullptr) return Status(ErrorCode::kOutOfMemory, "[ingest] out of memory for zstd");
  std::vector<std::byte> out(kPieceBytes);
  size_t wanted = 0;  // 0: between frames
  while (true) {
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> in, input.left());
    if (in.empty()) return wanted == 0 ? Status() : damaged_archive(name, "the zstd stream is truncated");
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    do {
      to.pos = 0;
      wanted = ZSTD_decompressStream(stream.get(), &to, &from);
      if (ZSTD_isError(wanted))
        return damaged_archive(name, concat("corrupt zstd stream: ", ZSTD_getErrorName(wanted)));
      DLPIPE_RETURN_IF_ERROR(take(std::span<const std::byte>(out).first(to.pos)));
    } while (from.pos < from.size || (wanted != 0 && to.pos == to.size));
    input.use(in.size());
  }
}

struct Magic {
  std::string_view bytes;
  Packing packing;
  std::string_view unpacker;  // for a kind that is not supported
};

constexpr std::array<Magic, 6> kMagics = {{
    {"\x1f\x8b", Packing::kGzip, ""},
    {"\x28\xb5\x2f\xfd", Packing::kZstd, ""},
    {"\xfd\x37zXZ", Packing::kNone, "xz -dc"},
    {"BZh", Packing::kNone, "bzip2 -dc"},
    {"\x04\x22\x4d\x18", Packing::kNone, "lz4 -dc"},
    {"PK\x03\x04", Packing::kNone, "unzip"},
}};

}  // namespace

bool begins_as_zlib(std::span<const std::byte> begin) {
  if (begin.size() < 2) return false;
  const auto method = static_cast<unsigned>(begin[0]);
  return (method & 15) == 8 && method >> 4 <= 7 && (method * 256 + static_cast<unsigned>(begin[1])) % 31 == 0;
}

Result<Packing> packing_of(std::span<const std::byte> begin, const std::string& name, IsZlib is_zlib) {
  for (const Magic& magic : kMagics) {
    if (begin.size() < magic.bytes.size() ||
        std::memcmp(begin.data(), magic.bytes.data(), magic.bytes.size()) != 0)
      continue;
    if (magic.unpacker == "unzip")
      return Status(ErrorCode::kUnsupported,
                    concat("[ingest] ", printable(name), " is a zip file; `unzip` it and ingest the folder"));
    if (!magic.unpacker.empty())
      return Status(ErrorCode::kUnsupported,
                    concat("[ingest] ", printable(name), " is compressed in an unsupported format; `",
                           magic.unpacker, " ", shell_word(name), " | dlpipe ingest - DST` reads it"));
    return magic.packing;
  }
  if (is_zlib != nullptr && is_zlib(begin)) return Packing::kZlib;
  return Packing::kNone;
}

Status unpack(const ReadPiece& read, const TakePiece& take, const std::string& name, IsZlib is_zlib) {
  std::array<std::byte, 512> begin{};
  size_t size = 0;
  while (size < begin.size()) {  // a pipe may return less than requested
    DLPIPE_ASSIGN_OR_RETURN(const size_t count, read(std::span(begin).subspan(size)));
    if (count == 0) break;
    size += count;
  }
  const std::span<const std::byte> first = std::span<const std::byte>(begin).first(size);
  DLPIPE_ASSIGN_OR_RETURN(const Packing packing, packing_of(first, name, is_zlib));
  Input input(read, first);
  if (packing == Packing::kGzip) return unpack_deflated(input, take, name, Inflater::Form::kGzip);
  if (packing == Packing::kZlib) return unpack_deflated(input, take, name, Inflater::Form::kZlib);
  if (packing == Packing::kZstd) return unpack_zstd(input, take, name);
  while (true) {
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> piece, input.left());
    if (piece.empty()) return {};
    DLPIPE_RETURN_IF_ERROR(take(piece));
    input.use(piece.size());
  }
}

}  // namespace dlpipe::data
