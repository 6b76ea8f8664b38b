// The images for `predict`, in portions if "-" among the paths is standard input, which has one image or the paths of many.
// (Files and folders: list_images in dlpipe/predictor.h.) One thread.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/predictor.h"

namespace dlpipe::run {

/// The images of a list of paths, in portions. "-" is standard input, which is read once, as it arrives. It has either one image,
/// or paths: one per line, or each ended by a zero byte (as `find -print0` writes them), depending on how the first path ends.
class ImageStream {
 public:
  /// kMisuse if "-" is given twice. `input`: the descriptor of standard input, which it does not close.
  static Result<ImageStream> open(std::vector<std::string> paths, int input);

  /// The next files: `most`, or fewer if standard input pauses. None: there are no more. kNotFound if there were none at all;
  /// kUnsupported for an image of more than 1 GiB, or a path of more than 1 MiB, on standard input.
  Result<std::vector<ImageFile>> next(size_t most);
  /// ImageList::left_aside since the last call.
  std::string take_left_aside() { return std::exchange(found_left_aside_, {}); }

 private:
  ImageStream(std::vector<std::string> paths, int input) : paths_(std::move(paths)), input_(input) {}
  /// Waits for the next path and adds it to found_; false if there is none.
  Result<bool> find_more();
  Result<bool> find_in_input();
  Status read_some();
  /// The next complete path.
  std::optional<std::string> take_path();
  /// Whether data is available now, or soon.
  bool is_coming() const;
  void add(const std::string& path);

  std::vector<std::string> paths_;
  int input_;
  size_t next_path_ = 0;
  std::deque<ImageFile> found_;
  std::string found_left_aside_;
  std::string all_left_aside_;
  bool has_any_ = false;
  // Of standard input:
  bool is_reading_ = false;
  bool is_at_end_ = false;
  bool has_begun_ = false;  // it is known that it has paths
  bool has_zeros_ = false;  // after each path, instead of newlines
  std::string bytes_;       // read and not yet taken, from begin_
  size_t begin_ = 0;
};

/// All of standard input; kUnsupported above 1 GiB.
Result<std::string> read_standard_input();

}  // namespace dlpipe::run
