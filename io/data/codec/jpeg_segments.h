// The segments of a JPEG up to its first scan's data, as libjpeg finds them: over rubbish and fill bytes
// between them. `bytes` may hold anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dlpipe/base/bytes.h"

namespace dlpipe::data {

class JpegSegments {
 public:
  static constexpr uint32_t kStartOfScan = 0xda;

  struct Segment {
    uint32_t marker = 0;
    size_t begin = 0;  // of its marker, 0xff
    size_t end = 0;
    std::span<const std::byte> body;  // behind the length
    bool adjoins = false;             // nothing lies between it and the one before, or the file's begin
  };

  explicit JpegSegments(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// The next one; the first scan's header is the last. False at the end of the file or picture, and where a
  /// segment claims more bytes than there are.
  bool next(Segment* segment) {
    while (!done_) {
      size_t at = at_;
      while (at < bytes_.size() && load_u8(bytes_, at) != 0xff) ++at;
      while (at < bytes_.size() && load_u8(bytes_, at) == 0xff) ++at;
      if (at >= bytes_.size()) break;
      const uint32_t marker = load_u8(bytes_, at++);
      if (marker == 0 || marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8)) {  // no length follows
        at_ = at;
        continue;
      }
      if (marker == 0xd9) break;
      const size_t left = bytes_.size() - at;
      const size_t length = left < 2 ? 0 : load_be16(bytes_, at);
      if (length < 2 || length > left) {
        cut_short_ = true;
        break;
      }
      *segment = {marker, at - 2, at + length, bytes_.subspan(at + 2, length - 2), at - 2 == at_};
      at_ = segment->end;
      done_ = marker == kStartOfScan;
      return true;
    }
    done_ = true;
    return false;
  }
  bool cut_short() const { return cut_short_; }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 2;  // behind SOI
  bool done_ = false;
  bool cut_short_ = false;
};

}  // namespace dlpipe::data
