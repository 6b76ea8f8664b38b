// A folder by class: SRC/CLASS/.../PICTURE. Links are followed; hidden names, links to nothing and files that
// are no pictures are left aside and counted.
#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>

#include "dlpipe/base/text.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/source_file.h"

namespace dlpipe::data {

namespace {

struct DirectoryId {
  dev_t device;
  ino_t inode;
  std::string path;
};

class FolderSource final : public Source {
 public:
  explicit FolderSource(std::string root) : root_(std::move(root)) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override {
    return read_stamped_file(root_ + "/" + entry.path, {entry.size_bytes, entry.modified_ns});
  }

 private:
  struct Names {
    std::vector<std::string> files;
    std::vector<std::string> folders;
  };
  Result<Names> names_in(const std::string& relative);
  Status walk(const std::string& relative, size_t class_index, SourceListing& listing);
  Status enter(const std::string& relative);
  Status check_classes(const Names& top, const SourceListing& listing) const;
  std::string ignored_text() const;
  void warn_about_the_rest(const Names& top, SourceListing& listing) const;
  std::string full(const std::string& relative) const {
    return relative.empty() ? root_ : root_ + "/" + relative;
  }

  std::string root_;
  std::vector<DirectoryId> open_;  // from the root to the folder being read: a link back to one is a loop
  std::map<std::string, int64_t> ignored_;  // ending, "hidden" or "link to nothing" -> how many
};

Result<FolderSource::Names> FolderSource::names_in(const std::string& relative) {
  const std::string path = full(relative);
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
  if (directory == nullptr) return status_from_errno("ingest", concat("cannot list ", path), errno);
  Names names;
  while (true) {
    errno = 0;
    const dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (name[0] == '.') {
      ++ignored_["hidden"];
      continue;
    }
    struct stat stat {};
    if (::stat(concat(path, "/", name).c_str(), &stat) != 0) {
      if (errno == ELOOP)
        return Status(ErrorCode::kUnsupported,
                      concat("[ingest] symbolic link loop: ", path, "/", name, "; remove the link"));
      if (errno == ENOENT && ::lstat(concat(path, "/", name).c_str(), &stat) == 0) {
        ++ignored_["link to nothing"];
        continue;
      }
      return status_from_errno("ingest", concat("cannot look at ", path, "/", name), errno);
    }
    if (S_ISDIR(stat.st_mode)) {
      names.folders.push_back(name);
    } else {
      names.files.push_back(name);
    }
  }
  if (errno != 0) return status_from_errno("ingest", concat("cannot list ", path), errno);
  std::sort(names.folders.begin(), names.folders.end());
  std::sort(names.files.begin(), names.files.end());
  return names;
}

Status FolderSource::enter(const std::string& relative) {
  struct stat stat {};
  const std::string path = full(relative);
  if (::stat(path.c_str(), &stat) != 0)
    return status_from_errno("ingest", concat("cannot look at ", path), errno);
  for (const DirectoryId& above : open_) {
    if (above.device == stat.st_dev && above.inode == stat.st_ino)
      return Status(ErrorCode::kUnsupported, concat("[ingest] symbolic link loop: ", path, " leads back to ",
                                                    above.path, "; remove the link"));
  }
  open_.push_back({stat.st_dev, stat.st_ino, path});
  return {};
}

Status FolderSource::walk(const std::string& relative, size_t class_index, SourceListing& listing) {
  DLPIPE_RETURN_IF_ERROR(enter(relative));
  DLPIPE_ASSIGN_OR_RETURN(const Names names, names_in(relative));
  for (const std::string& name : names.files) {
    if (!has_image_name(name)) {
      const std::string ending = std::filesystem::path(name).extension().string();
      ++ignored_[ending.empty() ? "no ending" : ending];
      continue;
    }
    SourceEntry entry;
    entry.path = concat(relative, "/", name);
    DLPIPE_ASSIGN_OR_RETURN(const FileStamp stamp, stamp_file(full(entry.path)));
    entry.size_bytes = stamp.size_bytes;
    entry.modified_ns = stamp.modified_ns;
    entry.label = static_cast<int64_t>(class_index);
    listing.entries.push_back(std::move(entry));
  }
  for (const std::string& name : names.folders)
    DLPIPE_RETURN_IF_ERROR(walk(concat(relative, "/", name), class_index, listing));
  open_.pop_back();
  return {};
}

Status FolderSource::check_classes(const Names& top, const SourceListing& listing) const {
  if (top.folders.empty()) {
    const bool pictures = std::any_of(top.files.begin(), top.files.end(), has_image_name);
    return Status(ErrorCode::kNotFound,
                  concat("[ingest] ", root_, pictures ? " holds pictures but no folders" : " is empty",
                         "; make one folder a class, or name a manifest with --manifest"));
  }
  if (listing.entries.empty())
    return Status(ErrorCode::kNotFound, concat("[ingest] no picture in the ", top.folders.size(),
                                               " folders of ", root_, "; looked for .jpg, .jpeg, .png, ...",
                                               ignored_.empty() ? "" : ", there is ", ignored_text()));
  return {};
}

void FolderSource::warn_about_the_rest(const Names& top, SourceListing& listing) const {
  std::vector<int64_t> counts(listing.classes.size());
  for (const SourceEntry& entry : listing.entries) ++counts[static_cast<size_t>(entry.label)];
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0)
      listing.warnings.push_back(
          concat("[ingest] class '", listing.classes[i], "' has no picture; it keeps its label ", i));
  }
  if (listing.classes.size() == 1) {
    const auto below = std::filesystem::path(listing.entries.front().path);
    const bool nested = std::distance(below.begin(), below.end()) > 2;
    listing.warnings.push_back(concat("[ingest] only one class, '", listing.classes[0],
                                      "': a classifier has nothing to learn from it",
                                      nested ? concat("; did you mean ", root_, "/", listing.classes[0], "?")
                                             : std::string("; give the folder above its classes")));
  }
  const auto beside = std::count_if(top.files.begin(), top.files.end(), has_image_name);
  if (beside > 0)
    listing.warnings.push_back(concat(
        "[ingest] ", beside, " pictures beside the class folders were left aside: they have no class"));
  if (const std::string rest = ignored_text(); !rest.empty())
    listing.warnings.push_back(concat("[ingest] left aside, no pictures: ", rest));
}

std::string FolderSource::ignored_text() const {
  std::string text;
  for (const auto& [ending, count] : ignored_) text += concat(text.empty() ? "" : ", ", count, " x ", ending);
  return text;
}

Result<SourceListing> FolderSource::list() {
  open_.clear();
  ignored_.clear();
  DLPIPE_RETURN_IF_ERROR(enter(""));
  DLPIPE_ASSIGN_OR_RETURN(const Names top, names_in(""));
  SourceListing listing;
  listing.classes = top.folders;
  for (size_t i = 0; i < top.folders.size(); ++i) DLPIPE_RETURN_IF_ERROR(walk(top.folders[i], i, listing));
  DLPIPE_RETURN_IF_ERROR(check_classes(top, listing));
  warn_about_the_rest(top, listing);
  return listing;
}

int recognizes_folder(const SourceOptions& options) {
  return options.manifest.empty() && std::filesystem::is_directory(options.path) ? 1 : 0;
}

Result<std::unique_ptr<Source>> open_folder(const SourceOptions& options) {
  std::string root = options.path;
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  return std::unique_ptr<Source>(std::make_unique<FolderSource>(std::move(root)));
}

}  // namespace

extern const SourceRecord folder_source;
const SourceRecord folder_source = {"folder", "a folder with one folder of JPEG or PNG files a class",
                                    recognizes_folder, open_folder};

}  // namespace dlpipe::data
