// A new file that takes the place of PATH once it is whole: the only way in which files are written aside. While it is written it
// has no name (O_TMPFILE), and a kill leaves nothing. For the moment of taking PATH's place it is called
// `.dlpipe-<16 random digits>.partial`; on file systems without files that have no name, it is called that from the start and made
// by O_EXCL. A kill then leaves it behind: remove_aside_files() removes it from a folder that dlpipe owns, elsewhere the user may.
// No link is followed and no other file is written, whatever else there is in the folder. What is at PATH is replaced, even a pipe
// or a link. The permissions of a file there stay, with its owner and group as far as the system lets them; until then nobody else
// reads the new one.
//
// An AsideFile owns its descriptor and belongs to one thread; without publish() nothing is left of it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dlpipe/base/error.h"

namespace dlpipe {

class AsideFile {
 public:
  /// Errors begin with `[area]` and name `path`; kNotFound where its folder is missing.
  static Result<AsideFile> create(std::string_view area, const std::string& path);
  /// As create() does where the file system has no files without a name.
  static Result<AsideFile> create_named(std::string_view area, const std::string& path);
  AsideFile(AsideFile&& other) noexcept
      : area_(std::move(other.area_)),
        path_(std::move(other.path_)),
        name_(std::move(other.name_)),
        fd_(std::exchange(other.fd_, -1)) {
    other.name_.clear();
  }
  AsideFile& operator=(AsideFile&&) = delete;
  ~AsideFile();

  Status append(std::span<const std::byte> bytes);
  /// Syncs it, puts it in the place of PATH and syncs the folder, so that neither a crash nor a full disk leaves half a file or
  /// loses the old one. Call once.
  Status publish();

 private:
  AsideFile(std::string_view area, std::string path) : area_(area), path_(std::move(path)) {}
  Status keep_permissions();

  std::string area_;
  std::string path_;
  std::string name_;  // where it has one
  int fd_ = -1;
};

/// PATH becomes a link to `target`, in one step; what stood there is replaced.
Status replace_by_link(std::string_view area, const std::string& path, const std::string& target);
/// All of `bytes` to an open file; errors begin with `[area]` and name `path`.
Status write_all(std::string_view area, int fd, std::span<const std::byte> bytes, const std::string& path);
/// fsync of a directory, so that renames and new names in it last.
Status sync_directory(std::string_view area, const std::string& directory);
/// Whether a file may be what a kill has left of an AsideFile, by its name.
bool is_aside_name(std::string_view file_name);
/// Removes what killed processes have left of AsideFiles in `directory`, at any depth. Only for a directory in which nobody else
/// writes now, such as one whose lock the caller holds.
Status remove_aside_files(std::string_view area, const std::string& directory);
/// The directory that holds `path` ("." for a bare name).
std::string folder_of(const std::string& path);

}  // namespace dlpipe
