// Pictures whose folders don't say their classes: which file beside the folders does. Looks at names, and reads the lists that it finds.
#pragma once

#include <string>

#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::data {

/// What the files in `root` are to the pictures in its folders.
struct LabelsBeside {
  /// "; if 'train.csv' beside it says what its pictures are: dlpipe ingest ROOT/train.csv DST"; "": nothing is there.
  std::string hint;
  bool has_list = false;  // the hint names one, which was read: it lists pictures
};
LabelsBeside labels_beside(const std::string& root, const SourceOptions& options);

/// The first folder below `root`, not very deep, that is something else to ingest than a folder of pictures: MNIST's raw/,
/// say. "": none.
std::string other_source_below(const std::string& root, const SourceOptions& options);

}  // namespace dlpipe::data
