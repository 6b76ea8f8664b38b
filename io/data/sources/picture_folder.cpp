#include "dlpipe/io/data/sources/picture_folder.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"

namespace dlpipe::data {

namespace {

std::string joined(const std::string& relative, const std::string& name) {
  return relative.empty() ? name : relative + "/" + name;
}

/// What is wrong with a link that stat() answered `error` for; "" for what says nothing of the link: a failing disk, say.
std::string problem_of_link(const std::string& path, int error) {
  std::error_code ignored;
  const std::string target = printable(std::filesystem::read_symlink(path, ignored).string());
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return concat("is a link to ", target, ", which isn't there");
    case ELOOP:
      return concat("is a link to ", target, ", which leads back to itself");
    case EACCES:
      return concat("is a link to ", target, ", which can't be looked at: no permission");
    default:
      return {};
  }
}

}  // namespace

bool is_system_folder(const std::string& name) {
  static constexpr std::array kNames = {
      "__MACOSX", "__pycache__",  "@eaDir",   "@Recycle",   "@tmp",
      "#recycle", "$RECYCLE.BIN", "RECYCLER", "lost+found", "System Volume Information"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

PictureFolder::PictureFolder(std::string root) : root_(std::move(root)) {
  while (root_.size() > 1 && root_.back() == '/') root_.pop_back();
}

Status PictureFolder::take_unseen(const std::string& path, const std::string& name, int error, Names& names) {
  struct stat own {};
  const bool is_there = ::lstat(full(path).c_str(), &own) == 0;
  if (!is_there && error == ENOENT) return {};  // it was removed since the folder was read
  std::string problem = is_there && S_ISLNK(own.st_mode) ? problem_of_link(full(path), error) : "";
  if (!problem.empty() && has_image_name(name)) {
    names.pictures.push_back({path, {}, {}, std::move(problem)});
  } else if (!problem.empty() && error == ELOOP) {
    loops_.push_back(path);
  } else if (!problem.empty() && error != EACCES) {
    dead_links_.push_back(path);
  } else {
    return status_from_errno("files", concat("cannot look at ", full(path)), error);
  }
  return {};
}

Status PictureFolder::look_at(const std::string& relative, const std::string& name,
                              const std::vector<FileId>& above, Names& names) {
  if (name[0] == '.') {
    ++left_aside_["hidden"];
    return {};
  }
  const std::string path = joined(relative, name);
  struct stat stat {};
  if (::stat(full(path).c_str(), &stat) != 0) return take_unseen(path, name, errno, names);
  if (S_ISDIR(stat.st_mode)) {
    if (is_system_folder(name)) {
      ++left_aside_[name];
    } else if (std::find(above.begin(), above.end(), id_of(stat)) != above.end()) {
      loops_.push_back(path);
    } else {
      names.folders.push_back(name);
    }
  } else if (!S_ISREG(stat.st_mode)) {
    ++left_aside_["pipe, socket or device"];
  } else if (std::find(noted_names_.begin(), noted_names_.end(), name) != noted_names_.end()) {
    noted_.push_back(path);
  } else if (!has_image_name(name)) {
    const std::string ending = std::filesystem::path(name).extension().string();
    ++left_aside_[ending.empty() ? "no ending" : ending];
  } else {
    names.pictures.push_back({path, stamp_of(stat), id_of(stat)});
  }
  return {};
}

Result<std::vector<FileId>> PictureFolder::folders_down_to(const std::string& relative) const {
  std::vector<FileId> all;
  const auto add = [&](const std::string& path) -> Status {
    struct stat stat {};
    if (::stat(path.c_str(), &stat) != 0)
      return status_from_errno("files", concat("cannot look at ", path), errno);
    all.push_back(id_of(stat));
    return {};
  };
  DLPIPE_RETURN_IF_ERROR(add(root_));
  for (size_t end = relative.find('/'); !relative.empty(); end = relative.find('/', end + 1)) {
    DLPIPE_RETURN_IF_ERROR(add(full(relative.substr(0, end))));
    if (end == std::string::npos) break;
  }
  return all;
}

Result<PictureFolder::Names> PictureFolder::names_in(const std::string& relative) {
  const std::string path = full(relative);
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
  if (directory == nullptr) return status_from_errno("files", concat("cannot list ", path), errno);
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<FileId> above, folders_down_to(relative));
  Names names;
  while (true) {
    errno = 0;
    const dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    DLPIPE_RETURN_IF_ERROR(look_at(relative, name, above, names));
  }
  if (errno != 0) return status_from_errno("files", concat("cannot list ", path), errno);
  std::sort(names.folders.begin(), names.folders.end());
  std::sort(names.pictures.begin(), names.pictures.end(),
            [](const FoundPicture& a, const FoundPicture& b) { return a.path < b.path; });
  return names;
}

Status PictureFolder::walk(const std::string& relative, const std::function<void(FoundPicture)>& found) {
  DLPIPE_ASSIGN_OR_RETURN(Names names, names_in(relative));
  for (FoundPicture& picture : names.pictures) found(std::move(picture));
  for (const std::string& name : names.folders) DLPIPE_RETURN_IF_ERROR(walk(joined(relative, name), found));
  return {};
}

std::string kinds_text(const std::map<std::string, int64_t>& counts) {
  std::vector<std::pair<std::string, int64_t>> kinds(counts.begin(), counts.end());
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, kinds.size()); ++i)
    text += concat(text.empty() ? "" : ", ", kinds[i].second, " x ", printable(kinds[i].first));
  if (kinds.size() > kShown) text += concat(" and ", kinds.size() - kShown, " more kinds");
  return text;
}

std::string PictureFolder::left_aside() const {
  return kinds_text(left_aside_);
}

std::vector<std::string> PictureFolder::lost_links() const {
  std::vector<std::string> texts;
  const auto add = [&](const char* what, std::vector<std::string> links) {
    std::sort(links.begin(), links.end());  // a folder's names come in any order
    if (!links.empty()) texts.push_back(concat(what, quoted_names(links)));
  };
  add("links to nothing, which may have been folders of pictures: ", dead_links_);
  add("links that lead back to themselves or to a folder above them: ", loops_);
  return texts;
}

}  // namespace dlpipe::data
