#include "dlpipe/run/use/picture_list.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <utility>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/picture_folder.h"
#include "dlpipe/run/input/path_kind.h"

namespace dlpipe::run {

namespace {

namespace fs = std::filesystem;

/// What a file is that neither its name nor its first bytes call a picture: "[predict] it is a compiled model ..."; "" where
/// nobody knows.
std::string other_kind(const std::string& path) {
  if (data::has_image_name(path)) return "";
  const std::optional<PathKind> kind = kind_of(path);
  if (!kind || kind->is(Wanted::kPicture)) return "";
  return concat("[predict] it is ", kind->name, " and no picture; ", kind->advice);
}

/// Of what was given.
struct Unusable {
  std::vector<std::string> missing;
  size_t empty_folders = 0;  // those without pictures
};

/// Adds a file, or the pictures of a folder. Where there is neither, or a folder can't be listed or holds no picture, that path
/// is itself a file with a problem: the others that were given don't wait for it.
void add_path(const std::string& path, PictureList& list, Unusable& unusable) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    const bool is_there = fs::exists(path, error);
    list.files.push_back(
        {path, {}, is_there ? other_kind(path) : "[predict] there is no such file or folder"});
    if (!is_there) unusable.missing.push_back(path);
    return;
  }
  data::PictureFolder folder(path);
  std::vector<PictureFile> found;
  const Status walked = folder.walk("", [&](const data::FoundPicture& picture) {
    found.push_back({concat(folder.root() == "/" ? "" : folder.root(), "/", picture.path),
                     {},
                     picture.problem.empty() ? "" : concat("[predict] it ", picture.problem)});
  });
  std::sort(found.begin(), found.end(),
            [](const PictureFile& a, const PictureFile& b) { return a.path < b.path; });
  if (!walked.ok()) {
    found.push_back(
        {path, {}, concat("[predict] not all of this folder can be read: ", without_area(walked.message()))});
  }
  if (found.empty()) {
    const std::string other = other_kind(path);
    found.push_back({path, {}, other.empty() ? "[predict] there is no picture in this folder" : other});
    ++unusable.empty_folders;
  }
  std::move(found.begin(), found.end(), std::back_inserter(list.files));
  if (const std::string rest = folder.left_aside(); !rest.empty())
    list.left_aside += concat(list.left_aside.empty() ? "" : ", ", rest);
  for (const std::string& links : folder.lost_links())
    list.left_aside += concat(list.left_aside.empty() ? "" : ", ", links);
}

/// Paths, one per line, or each ended by a zero byte (as `find -print0` writes them).
void add_lines(std::string_view text, PictureList& list, Unusable& unusable) {
  const char separator = text.find('\0') != std::string_view::npos ? '\0' : '\n';
  for (std::string& path : split(text, separator)) {
    if (separator == '\n' && path.ends_with('\r')) path.pop_back();
    if (path.empty()) continue;
    add_path(path, list, unusable);
  }
}

Status no_picture(std::span<const std::string> paths, const PictureList& list) {
  std::string text =
      concat("[predict] no picture in what was given; looked for .jpg, .jpeg, .png, ... in folders",
             list.left_aside.empty() ? "" : ", and left aside ", list.left_aside);
  for (const std::string& path : paths) {
    if (const Status other = refuse_other_kind("predict", path, Wanted::kPicture); !other.ok())
      text += concat("; ", printable(without_area(other.message())));
  }
  return {ErrorCode::kNotFound, text};
}

}  // namespace

Result<PictureList> list_pictures(std::span<const std::string> paths,
                                  Result<std::string> (*standard_input)()) {
  PictureList list;
  Unusable unusable;
  bool has_read = false;
  for (const std::string& path : paths) {
    if (path == "-" && standard_input != nullptr) {
      if (std::exchange(has_read, true))
        return misuse("predict", "'-' twice; standard input can be read once");
      DLPIPE_ASSIGN_OR_RETURN(std::string text, standard_input());
      if (begins_as_picture(text)) {
        list.files.push_back({path, std::move(text)});
      } else {
        add_lines(text, list, unusable);
      }
      continue;
    }
    add_path(path, list, unusable);
  }
  if (!unusable.missing.empty() && unusable.missing.size() == list.files.size())
    return Status(ErrorCode::kNotFound,
                  concat("[predict] there is no file or folder ", quoted_names(unusable.missing)));
  if (unusable.empty_folders == list.files.size()) return no_picture(paths, list);
  return list;
}

Result<std::string> read_standard_input() {
  constexpr size_t kMost = size_t{1} << 30;
  std::string text;
  std::array<char, 1 << 16> buffer;
  while (true) {
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return status_from_errno("predict", "cannot read standard input", errno);
    if (count == 0) return text;
    if (text.size() + static_cast<size_t>(count) > kMost)
      return Status(ErrorCode::kUnsupported,
                    "[predict] standard input holds more than 1 GiB; give paths of files");
    text.append(buffer.data(), static_cast<size_t>(count));
  }
}

}  // namespace dlpipe::run
