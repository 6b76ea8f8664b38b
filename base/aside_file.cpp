#include "dlpipe/base/aside_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>

#include "dlpipe/base/text.h"

namespace dlpipe {

namespace {

constexpr std::string_view kAsideBegin = ".dlpipe-";
constexpr std::string_view kAsideEnd = ".partial";

std::string descriptor_path(int fd) {
  return concat("/proc/self/fd/", fd);
}

/// Calls `make` with names in `folder` that nobody can foresee, until one is free; "" and errno where it fails otherwise.
std::string make_unforeseen(const std::string& folder, const std::function<bool(const char* name)>& make) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    uint64_t number = 0;
    if (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) return "";
    std::string name = concat(folder, "/", kAsideBegin, hex64(number), kAsideEnd);
    if (make(name.c_str())) return name;
    if (errno != EEXIST) return "";
  }
  return "";
}

std::optional<struct stat> file_at(const std::string& path) {
  struct stat stat {};
  if (::lstat(path.c_str(), &stat) != 0 || !S_ISREG(stat.st_mode)) return std::nullopt;
  return stat;
}

/// Of a new file; one that takes the place of another gets that one's at the end.
mode_t first_mode(const std::string& path) {
  return file_at(path) ? S_IRUSR | S_IWUSR : 0666;
}

/// Why nothing can be made beside `path`.
Status create_error(std::string_view area, const std::string& path, int error_number) {
  const std::string folder = folder_of(path);
  std::error_code ignored;
  if (error_number == ENOENT && !std::filesystem::exists(folder, ignored))
    return {ErrorCode::kNotFound,
            concat("[", area, "] cannot create ", path, ": there is no folder ", folder, "; make it first")};
  return status_from_errno(area, concat("cannot create ", path), error_number);
}

}  // namespace

Result<AsideFile> AsideFile::create(std::string_view area, const std::string& path) {
  AsideFile file(area, path);
  file.fd_ = ::open(folder_of(path).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, first_mode(path));
  // Without /proc it could never be given a name.
  if (file.fd_ >= 0 && ::access(descriptor_path(file.fd_).c_str(), F_OK) == 0) return file;
  return create_named(area, path);
}

Result<AsideFile> AsideFile::create_named(std::string_view area, const std::string& path) {
  AsideFile file(area, path);
  file.name_ = make_unforeseen(folder_of(path), [&](const char* name) {
    file.fd_ = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, first_mode(path));
    return file.fd_ >= 0;
  });
  if (file.fd_ < 0) return create_error(area, path, errno);
  return file;
}

AsideFile::~AsideFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!name_.empty()) ::unlink(name_.c_str());
}

Status AsideFile::append(std::span<const std::byte> bytes) {
  return write_all(area_, fd_, bytes, path_);
}

Status AsideFile::keep_permissions() {
  const std::optional<struct stat> old = file_at(path_);
  if (!old) return {};
  constexpr mode_t kPermissions = S_IRWXU | S_IRWXG | S_IRWXO;
  struct stat made {};
  if (::fstat(fd_, &made) != 0) return status_from_errno(area_, concat("cannot look at ", path_), errno);
  mode_t mode = old->st_mode & kPermissions;
  const bool is_same_group = made.st_gid == old->st_gid;
  const bool has_both =
      (is_same_group && made.st_uid == old->st_uid) || ::fchown(fd_, old->st_uid, old->st_gid) == 0;
  // What the old one's group may do, another group may not.
  if (!has_both && !is_same_group && ::fchown(fd_, static_cast<uid_t>(-1), old->st_gid) != 0)
    mode &= ~static_cast<mode_t>(S_IRWXG);
  // Where a file system keeps no permissions, both have the same.
  if ((made.st_mode & kPermissions) == mode || ::fchmod(fd_, mode) == 0) return {};
  return status_from_errno(area_, concat("cannot give the new ", path_, " the permissions of the old one"),
                           errno);
}

Status AsideFile::publish() {
  DLPIPE_RETURN_IF_ERROR(keep_permissions());
  if (::fsync(fd_) != 0) return status_from_errno(area_, concat("cannot sync ", path_), errno);
  if (name_.empty()) {
    name_ = make_unforeseen(folder_of(path_), [&](const char* name) {
      return ::linkat(AT_FDCWD, descriptor_path(fd_).c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
    });
    if (name_.empty()) return status_from_errno(area_, concat("cannot create ", path_), errno);
  }
  if (::close(std::exchange(fd_, -1)) != 0)
    return status_from_errno(area_, concat("cannot close ", path_), errno);
  if (::rename(name_.c_str(), path_.c_str()) != 0)
    return status_from_errno(area_, concat("cannot rename ", name_, " to ", path_), errno);
  name_.clear();
  return sync_directory(area_, folder_of(path_));
}

Status replace_by_link(std::string_view area, const std::string& path, const std::string& target) {
  const std::string name = make_unforeseen(
      folder_of(path), [&](const char* fresh) { return ::symlink(target.c_str(), fresh) == 0; });
  if (name.empty()) return status_from_errno(area, concat("cannot create the link ", path), errno);
  if (::rename(name.c_str(), path.c_str()) == 0) return {};
  const int error_number = errno;
  ::unlink(name.c_str());
  return status_from_errno(area, concat("cannot create the link ", path), error_number);
}

Status write_all(std::string_view area, int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return status_from_errno(area, concat("cannot write ", path), errno);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return {};
}

Status sync_directory(std::string_view area, const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return status_from_errno(area, concat("cannot open the directory ", directory), errno);
  const int result = ::fsync(fd);
  const int error_number = errno;
  ::close(fd);
  // Some network file systems can't sync a directory; there the rename is all one can have.
  if (result != 0 && error_number != EINVAL && error_number != ENOTSUP)
    return status_from_errno(area, concat("cannot sync ", directory), error_number);
  return {};
}

bool is_aside_name(std::string_view file_name) {
  return file_name.size() == kAsideBegin.size() + hex64(0).size() + kAsideEnd.size() &&
         file_name.starts_with(kAsideBegin) && file_name.ends_with(kAsideEnd);
}

Status remove_aside_files(std::string_view area, const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code code;
  for (fs::recursive_directory_iterator entry(directory, code), end; !code && entry != end;
       entry.increment(code)) {
    const std::string name = entry->path().string();
    if (!is_aside_name(entry->path().filename().string()) || entry->is_directory(code)) continue;
    if (::unlink(name.c_str()) != 0 && errno != ENOENT)
      return status_from_errno(area, concat("cannot remove ", name), errno);
  }
  return code ? status_from_errno(area, concat("cannot list ", directory), code.value()) : Status();
}

std::string folder_of(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace dlpipe
