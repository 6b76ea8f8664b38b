// The pictures that `predict` is given: files, folders of them (the same selection as ingest's), and "-" for standard
// input, which holds one picture or the paths of many. One thread.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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
/// there, and where there is no picture at all.
Result<PictureList> list_pictures(std::span<const std::string> paths);

/// Whether one of the paths means standard input.
bool names_standard_input(std::span<const std::string> paths);

/// The same pictures piece by piece, where a "-" among the paths is standard input. It is read once, as it comes, and holds paths,
/// one per line or each ended by a zero byte (as `find -print0` writes them), whichever ends the first one, or one picture.
class PictureStream {
 public:
  /// kMisuse where "-" is given twice. `input`: the descriptor of standard input, which it doesn't close.
  static Result<PictureStream> open(std::vector<std::string> paths, int input);

  /// The next files: `most`, or fewer where standard input pauses. None: there are no more. kNotFound where there was none at
  /// all; kUnsupported for a picture of more than 1 GiB, or a path of more than 1 MiB, on standard input.
  Result<std::vector<PictureFile>> next(size_t most);
  /// PictureList::left_aside of what was found since the last call.
  std::string take_left_aside() { return std::exchange(found_left_aside_, {}); }

 private:
  PictureStream(std::vector<std::string> paths, int input) : paths_(std::move(paths)), input_(input) {}
  /// Adds what is next to found_, waiting for it; false where there is no more.
  Result<bool> find_more();
  Result<bool> find_in_input();
  Status read_some();
  /// The next path that has come whole.
  std::optional<std::string> take_path();
  /// Whether something is there to be read now, or soon.
  bool is_coming() const;
  void add(const std::string& path);

  std::vector<std::string> paths_;
  int input_;
  size_t next_path_ = 0;
  std::deque<PictureFile> found_;
  std::string found_left_aside_;
  std::string all_left_aside_;
  bool has_any_ = false;
  // Of standard input:
  bool is_reading_ = false;
  bool is_at_end_ = false;
  bool has_begun_ = false;  // what it holds is known: paths
  bool has_zeros_ = false;  // between them
  std::string bytes_;       // read and not yet taken, from begin_
  size_t begin_ = 0;
};

/// All of standard input; kUnsupported above 1 GiB.
Result<std::string> read_standard_input();

}  // namespace dlpipe::run
