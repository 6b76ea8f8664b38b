// The pictures that `predict` is given: files, folders of them (the same selection as ingest's), and "-" for standard
// input, which holds one picture or the paths of many. One thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::run {

struct PictureFile {
  std::string path;                       // "-": from standard input
  std::optional<std::string> bytes = {};  // of standard input; else they are read when their turn comes
  std::string problem = {};               // not empty: why it can't be read, known already
};

struct PictureList {
  std::vector<PictureFile> files;
  std::string left_aside;  // what folders hold besides: "2 x .txt"; "" if nothing
};

/// Files as given, whatever their names; of folders the pictures below them, sorted by bytes. A path that is neither, and a
/// folder that holds none or of which something can't be listed, is a file with a problem. kNotFound where no path is
/// there, and where there is no picture at all. `standard_input` is asked for at most once.
Result<PictureList> list_pictures(std::span<const std::string> paths,
                                  Result<std::string> (*standard_input)() = nullptr);
/// All of standard input; kUnsupported above 1 GiB.
Result<std::string> read_standard_input();

}  // namespace dlpipe::run
