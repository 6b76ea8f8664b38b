// Lists of pictures as Caffe has them, a path and a whole number on every line, as far as others must know them. They are told
// from texts by their first lines.
#pragma once

#include <memory>
#include <string>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::data {

enum class PictureListKind : uint8_t {
  kNone,           // a text, or no file
  kLabelled,       // whole numbers behind paths
  kPlain,          // paths alone
  kOther,          // something else behind each path
  kWithoutEnding,  // paths or ids without an ending, with whole numbers behind them or alone
};

/// What the first lines of a .txt, .lst or .list say. `images` as SourceOptions has it: a single line is only taken for a
/// picture's path where the picture is found.
PictureListKind kind_of_picture_list(const std::string& path, const std::string& images);
/// The source of one; what isn't kLabelled is refused by its list(), which says what to do.
Result<std::unique_ptr<Source>> open_caffe_list(const SourceOptions& options);

}  // namespace dlpipe::data
