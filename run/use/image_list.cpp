#include "run/use/image_list.h"
#include "dlpipe/predictor.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <utility>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "io/data/file_name.h"
#include "io/data/sources/image_folder.h"
#include "io/data/sources/source_file.h"
#include "run/input/path_kind.h"

namespace dlpipe::run {

namespace {

namespace fs = std::filesystem;

/// The kind of a file that is not an image by its name or its first bytes: "[predict] it is a compiled model ..."; "" if unknown.
std::string other_kind(const std::string& path) {
  if (data::has_image_name(path)) return "";
  const std::optional<PathKind> kind = kind_of(path);
  if (!kind || kind->is(Wanted::kImage)) return "";
  return concat("[predict] it is ", kind->name, ", not an image; ", kind->advice);
}

/// The given paths that can't be used.
struct Unusable {
  std::vector<std::string> missing;
  size_t empty_folders = 0;  // those without images
};

/// Adds a file, or the images of a folder. If there is neither, or a folder can't be listed or has no image, the path becomes a
/// file with a problem, so that the other paths are still processed.
void add_path(const std::string& path, ImageList& list, Unusable& unusable) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    const bool is_there = fs::exists(path, error);
    list.files.push_back(
        {path, {}, is_there ? other_kind(path) : "[predict] there is no such file or folder"});
    if (!is_there) unusable.missing.push_back(path);
    return;
  }
  data::ImageFolder folder(path);
  std::vector<ImageFile> found;
  const auto full = [&](const std::string& below) {
    return below.empty() ? path : concat(folder.root() == "/" ? "" : folder.root(), "/", below);
  };
  throw_if_error(folder.walk(
      "",
      [&](const data::FoundImage& image) {
        found.push_back(
            {full(image.path), {}, image.problem.empty() ? "" : concat("[predict] it ", image.problem)});
      },
      [&](const std::string& below, const Status& error) {
        found.push_back({full(below),
                         {},
                         concat("[predict] this folder can't be read: ", without_area(error.message()))});
      }));
  std::sort(found.begin(), found.end(),
            [](const ImageFile& a, const ImageFile& b) { return a.path < b.path; });
  if (found.empty()) {
    const std::string other = other_kind(path);
    found.push_back({path, {}, other.empty() ? "[predict] there is no image in this folder" : other});
    ++unusable.empty_folders;
  }
  std::move(found.begin(), found.end(), std::back_inserter(list.files));
  if (const std::string rest = folder.left_aside(); !rest.empty())
    list.left_aside += concat(list.left_aside.empty() ? "" : ", ", rest);
  for (const std::string& links : folder.lost_links())
    list.left_aside += concat(list.left_aside.empty() ? "" : ", ", links);
}

Status no_image(std::span<const std::string> paths, const ImageList& list) {
  std::string text =
      concat("[predict] there is no image in the given paths; looked for .jpg, .jpeg, .png, ... in folders",
             list.left_aside.empty() ? "" : ", and ignored ", list.left_aside);
  for (const std::string& path : paths) {
    if (const Status other = refuse_other_kind("predict", path, Wanted::kImage); !other.ok())
      text += concat("; ", printable(without_area(other.message())));
  }
  return {ErrorCode::kNotFound, text};
}

}  // namespace

Result<ImageList> list_images(std::span<const std::string> paths) {
  ImageList list;
  Unusable unusable;
  for (const std::string& path : paths) add_path(path, list, unusable);
  if (!unusable.missing.empty() && unusable.missing.size() == list.files.size())
    return Status(ErrorCode::kNotFound,
                  concat("[predict] there is no file or folder ", quoted_names(unusable.missing)));
  if (unusable.empty_folders == list.files.size()) return no_image(paths, list);
  return list;
}

bool names_standard_input(std::span<const std::string> paths) {
  return std::find(paths.begin(), paths.end(), "-") != paths.end();
}

namespace {

constexpr size_t kMostInput = size_t{1} << 30;

/// Appends more bytes to `text`, at least one if there are any, waiting for them; false at the end.
Result<bool> read_more(int fd, std::string& text) {
  std::array<char, 1 << 16> buffer;
  ssize_t count = -1;
  do {
    count = ::read(fd, buffer.data(), buffer.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) return status_from_errno("predict", "cannot read standard input", errno);
  if (text.size() + static_cast<size_t>(count) > kMostInput)
    return Status(ErrorCode::kUnsupported,
                  "[predict] standard input is larger than 1 GiB; give paths of files");
  text.append(buffer.data(), static_cast<size_t>(count));
  return count > 0;
}

}  // namespace

Result<ImageStream> ImageStream::open(std::vector<std::string> paths, int input) {
  if (std::count(paths.begin(), paths.end(), "-") > 1)
    return misuse("predict", "'-' is given twice; standard input can be read only once");
  return ImageStream(std::move(paths), input);
}

Result<std::vector<ImageFile>> ImageStream::next(size_t most) {
  std::vector<ImageFile> files;
  while (files.size() < most) {
    if (!found_.empty()) {
      files.push_back(std::move(found_.front()));
      found_.pop_front();
      continue;
    }
    if (!files.empty() && is_reading_ && !is_coming()) break;
    DLPIPE_ASSIGN_OR_RETURN(const bool is_more, find_more());
    if (!is_more) break;
  }
  if (files.empty() && !has_any_) return no_image(paths_, {{}, all_left_aside_});
  has_any_ = true;
  return files;
}

void ImageStream::add(const std::string& path) {
  ImageList list;
  Unusable unusable;
  add_path(path, list, unusable);
  std::move(list.files.begin(), list.files.end(), std::back_inserter(found_));
  for (std::string* const all : {&found_left_aside_, &all_left_aside_})
    *all += concat(all->empty() || list.left_aside.empty() ? "" : ", ", list.left_aside);
}

Result<bool> ImageStream::find_more() {
  if (is_reading_) {
    DLPIPE_ASSIGN_OR_RETURN(const bool is_more, find_in_input());
    if (is_more) return true;
    is_reading_ = false;
  }
  if (next_path_ == paths_.size()) return false;
  const std::string& path = paths_[next_path_++];
  is_reading_ = path == "-";
  if (!is_reading_) add(path);
  return true;
}

Result<bool> ImageStream::find_in_input() {
  const size_t before = begin_;
  if (const std::optional<std::string> path = take_path()) {
    add(*path);
    return true;
  }
  if (begin_ != before) return true;  // there were only empty lines: the caller checks again for more data
  if (is_at_end_) return false;
  constexpr size_t kMostPath = 1 << 20;
  if (bytes_.size() - begin_ > kMostPath)
    return Status(ErrorCode::kUnsupported,
                  "[predict] standard input has more than 1 MiB without the end of a line; give one image, "
                  "or a path per line");
  DLPIPE_RETURN_IF_ERROR(read_some());
  if (!has_begun_ && begins_as_image(bytes_)) {
    while (!is_at_end_) DLPIPE_RETURN_IF_ERROR(read_some());
    found_.push_back({"-", std::exchange(bytes_, {})});
  }
  return true;
}

Status ImageStream::read_some() {
  bytes_.erase(0, std::exchange(begin_, 0));
  DLPIPE_ASSIGN_OR_RETURN(const bool is_more, read_more(input_, bytes_));
  is_at_end_ = !is_more;
  return {};
}

std::optional<std::string> ImageStream::take_path() {
  if (!has_begun_) {
    const size_t end = bytes_.find_first_of(std::string_view("\n\0", 2));
    if ((end == std::string::npos || may_begin_as_image(bytes_)) && !is_at_end_) return {};
    has_begun_ = true;
    has_zeros_ = end != std::string::npos && bytes_[end] == '\0';
    bytes_ = std::string(data::without_mark(bytes_));
  }
  while (begin_ < bytes_.size()) {
    const size_t end = bytes_.find(has_zeros_ ? '\0' : '\n', begin_);
    if (end == std::string::npos && !is_at_end_) return {};
    std::string path = bytes_.substr(begin_, end - begin_);
    begin_ = end == std::string::npos ? bytes_.size() : end + 1;
    if (!has_zeros_ && path.ends_with('\r')) path.pop_back();
    if (!path.empty()) return path;
  }
  return {};
}

bool ImageStream::is_coming() const {
  const bool has_whole_path = bytes_.find(has_zeros_ ? '\0' : '\n', begin_) != std::string::npos;
  if (has_whole_path || is_at_end_) return true;  // the end does not need waiting, either
  constexpr int kPauseMs = 10;                    // how long to wait for a fuller batch
  pollfd one{input_, POLLIN, 0};
  return ::poll(&one, 1, kPauseMs) != 0;
}

Result<std::string> read_standard_input() {
  std::string text;
  while (true) {
    DLPIPE_ASSIGN_OR_RETURN(const bool is_more, read_more(STDIN_FILENO, text));
    if (!is_more) return text;
  }
}

}  // namespace dlpipe::run
