#include "io/data/sources/image_folder.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>

#include "base/file.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/source.h"
#include "io/data/file_name.h"
#include "io/data/record.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

namespace {

std::string joined(const std::string& relative, const std::string& name) {
  return relative.empty() ? name : relative + "/" + name;
}

/// Describes the problem of a link for which stat() returned `error`; "" for errors that are not about the link, such as a
/// failing disk.
std::string problem_of_link(const std::string& path, int error) {
  std::error_code ignored;
  const std::string target = printable(std::filesystem::read_symlink(path, ignored).string());
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return concat("is a link to ", target, ", which does not exist");
    case ELOOP:
      return concat("is a link to ", target, ", which leads back to itself");
    case EACCES:
      return concat("is a link to ", target, ", which can't be read: no permission");
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

ImageFolder::ImageFolder(std::string root) : root_(std::move(root)) {
  while (root_.size() > 1 && root_.back() == '/') root_.pop_back();
}

Status ImageFolder::take_unseen(const std::string& path, const std::string& name, int error, Names& names) {
  struct stat own {};
  const bool is_there = ::lstat(full(path).c_str(), &own) == 0;
  if (!is_there && error == ENOENT) return {};  // it was removed since the folder was read
  std::string problem = is_there && S_ISLNK(own.st_mode) ? problem_of_link(full(path), error) : "";
  if (!problem.empty() && has_image_name(name)) {
    names.images.push_back({path, {}, {}, std::move(problem)});
  } else if (!problem.empty() && error == ELOOP) {
    loops_.push_back(path);
  } else if (!problem.empty() && error != EACCES) {
    dead_links_.push_back(path);
  } else {
    return status_from_errno("files", concat("cannot stat ", full(path)), error);
  }
  return {};
}

Status ImageFolder::look_at(const std::string& relative, const std::string& name,
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
    names.images.push_back({path, stamp_of(stat), id_of(stat)});
  }
  return {};
}

Result<std::vector<FileId>> ImageFolder::folders_down_to(const std::string& relative) const {
  std::vector<FileId> all;
  const auto add = [&](const std::string& path) -> Status {
    struct stat stat {};
    if (::stat(path.c_str(), &stat) != 0)
      return status_from_errno("files", concat("cannot stat ", path), errno);
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

Result<ImageFolder::Names> ImageFolder::names_in(const std::string& relative) {
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
  std::sort(names.images.begin(), names.images.end(),
            [](const FoundImage& a, const FoundImage& b) { return a.path < b.path; });
  return names;
}

Status ImageFolder::walk(const std::string& relative, const std::function<void(FoundImage)>& found,
                         const std::function<void(const std::string&, const Status&)>& unlisted) {
  Result<Names> names = names_in(relative);
  if (!names.ok()) {
    if (!unlisted) return names.status();
    unlisted(relative, names.status());
    return {};
  }
  for (FoundImage& image : names->images) found(std::move(image));
  for (const std::string& name : names->folders)
    DLPIPE_RETURN_IF_ERROR(walk(joined(relative, name), found, unlisted));
  return {};
}

std::string kinds_text(const std::map<std::string, int64_t>& counts) {
  std::vector<std::pair<std::string, int64_t>> kinds(counts.begin(), counts.end());
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, kinds.size()); ++i)
    text += concat(text.empty() ? "" : ", ", kinds[i].second, " x ", short_name(kinds[i].first));
  if (kinds.size() > kShown) text += concat(" and ", kinds.size() - kShown, " more kinds");
  return text;
}

std::string ImageFolder::left_aside() const {
  return kinds_text(left_aside_);
}

std::vector<std::string> ImageFolder::lost_links() const {
  std::vector<std::string> texts;
  const auto add = [&](const char* what, std::vector<std::string> links) {
    std::sort(links.begin(), links.end());  // directories list names in any order
    if (!links.empty()) texts.push_back(concat(what, quoted_names(links)));
  };
  add("broken links, which may have been folders of images: ", dead_links_);
  add("links that lead back to themselves or to a folder above them: ", loops_);
  return texts;
}

namespace {

/// Continues reading until `bytes` holds `size` bytes of the image.
Status read_on(const RegularFile& file, const Link& link, size_t size, std::vector<std::byte>& bytes) {
  size_t done = bytes.size();
  bytes.resize(size);
  while (done < size) {
    const ssize_t count =
        ::pread(file.fd(), bytes.data() + done, size - done, static_cast<off_t>(link.offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return status_from_errno("ingest", concat("cannot read ", link.file), errno);
    if (count == 0) return changed_since_listed(link.file, "shrank");
    done += static_cast<size_t>(count);
  }
  return {};
}

}  // namespace

Result<ImageHead> read_head(const Link& link, int64_t modified_ns) {
  const auto file = RegularFile::open("ingest", link.file);
  if (file.status().code() == ErrorCode::kNotFound) return changed_since_listed(link.file, "was removed");
  if (!file.ok()) return file.status();
  const uint64_t end = link.offset + link.size_bytes;
  const FileStamp& stamp = file->stamp();
  if (stamp.modified_ns != modified_ns || (link.is_whole ? stamp.size_bytes != end : stamp.size_bytes < end))
    return changed_since_listed(link.file, "changed");
  if (link.size_bytes > kMostImageBytes)
    return Status(ErrorCode::kUnsupported,
                  concat("[ingest] ", printable(link.file), " has ", human_bytes(link.size_bytes),
                         "; the limit for one file is ", human_bytes(kMostImageBytes)));
  ImageHead head;
  constexpr uint64_t kLargeHead = 256 << 10;  // a JPEG's preview and colour profile precede its size
  for (const uint64_t size : {uint64_t{kLateBegin}, kLargeHead, link.size_bytes}) {
    DLPIPE_RETURN_IF_ERROR(read_on(*file, link, std::min(size, link.size_bytes), head.bytes));
    auto info = probe_begin(head.bytes, link.size_bytes);
    if (!info.ok() && head.bytes.size() < link.size_bytes) continue;
    if (!file->is_unchanged()) return changed_since_listed(link.file, "changed");
    DLPIPE_ASSIGN_OR_RETURN(head.info, std::move(info));
    break;
  }
  return head;
}

}  // namespace dlpipe::data
