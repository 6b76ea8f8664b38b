// What a picture's file begins with: enough to say what the picture is, for links to many pictures that nobody waits for to
// be read. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/codec/image_codec.h"
#include "dlpipe/io/data/link.h"

namespace dlpipe::data {

struct PictureHead {
  std::vector<std::byte> bytes;  // the first ones, at least kLateBegin of those that there are
  ImageInfo info;
};

/// Of a JPEG or PNG mostly 4 KB are read, of what says late what it is more, of other kinds all. kChanged where the file was
/// written since `modified_ns`, is gone, or of a whole file isn't of its size any more; else as probe_image says.
Result<PictureHead> read_head(const Link& link, int64_t modified_ns);

}  // namespace dlpipe::data
