// A zlib stream that is being unpacked: begun, driven and ended in this one place.
//
// Belongs to one thread. Nothing is allocated on a stream's word: the caller gives the room.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

class Inflater {
 public:
  /// With gzip's or zlib's header and checksum; deflate alone, as in a zip file.
  enum class Form { kGzip, kZlib, kBare };
  /// kOutOfMemory where zlib has none.
  static Result<Inflater> begin(Form form);

  struct Step {
    size_t made = 0;      // bytes, at the begin of `out`
    bool is_end = false;  // of the stream; bytes behind it are still in `in`
  };
  /// Unpacks from `in`, which loses what was used, until it or `out` is used up, at most 2 GB at a time. Nothing made and
  /// nothing used: the stream wants more bytes. kCorrupt with zlib's word for what is wrong.
  Result<Step> step(std::span<const std::byte>& in, std::span<std::byte> out);
  /// Begins another stream of the same form.
  Status again();

 private:
  struct Stream;
  struct End {
    void operator()(Stream* stream) const;
  };
  explicit Inflater(std::unique_ptr<Stream, End> stream) : stream_(std::move(stream)) {}

  std::unique_ptr<Stream, End> stream_;  // zlib keeps its address
};

}  // namespace dlpipe::data
