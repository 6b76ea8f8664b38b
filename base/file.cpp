#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

#include "base/messages.h"
#include "base/text.h"

namespace dlpipe {

// ---- files that are read, or grow in place

namespace {

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

Result<FileStamp> regular_stamp(std::string_view area, const std::string& path, const struct stat& stat) {
  if (S_ISREG(stat.st_mode)) return stamp_of(stat);
  return Status(ErrorCode::kUnsupported,
                concat("[", area, "] ", printable(path), " is ", kind_of(stat.st_mode),
                       ", not a regular file; give the path of a file"));
}

}  // namespace

FileStamp stamp_of(const struct stat& stat) {
  return {static_cast<uint64_t>(stat.st_size),
          int64_t{stat.st_mtim.tv_sec} * 1'000'000'000 + stat.st_mtim.tv_nsec};
}

Result<FileStamp> stamp_regular_file(std::string_view area, const std::string& path) {
  if (path.find('\0') != std::string::npos)  // the system would open the file named by the part before it
    return Status(ErrorCode::kUnsupported,
                  concat("[", area, "] ", printable(path), " contains a zero byte, which a file name can't"));
  struct stat stat {};
  if (::stat(path.c_str(), &stat) != 0) return status_from_errno(area, concat("cannot open ", path), errno);
  return regular_stamp(area, path, stat);
}

Result<RegularFile> RegularFile::open(std::string_view area, const std::string& path) {
  DLPIPE_RETURN_IF_ERROR(stamp_regular_file(area, path).status());
  return open_as(area, path, O_RDONLY);
}

Result<RegularFile> RegularFile::open_to_write(std::string_view area, const std::string& path, int how) {
  const Status found = stamp_regular_file(area, path).status();
  if (!found.ok() && found.code() != ErrorCode::kNotFound) return found;
  auto file = open_as(area, path, how | O_CREAT | O_NOFOLLOW);
  struct stat named {};
  if (!file.ok() && ::lstat(path.c_str(), &named) == 0 && S_ISLNK(named.st_mode))
    return Status(ErrorCode::kUnsupported,
                  concat("[", area, "] ", printable(path),
                         " is a link, and its target may belong to someone else; move it away"));
  return file;
}

Result<RegularFile> RegularFile::open_as(std::string_view area, const std::string& path, int how) {
  // O_NONBLOCK: the path may have become a pipe since the check. The flag has no effect on regular files.
  const int fd = ::open(path.c_str(), how | O_CLOEXEC | O_NONBLOCK, 0666);
  if (fd < 0) return status_from_errno(area, concat("cannot open ", path), errno);
  RegularFile file(fd, {});
  struct stat stat {};
  if (::fstat(fd, &stat) != 0) return status_from_errno(area, concat("cannot open ", path), errno);
  DLPIPE_ASSIGN_OR_RETURN(file.stamp_, regular_stamp(area, path, stat));
  return file;
}

bool RegularFile::is_unchanged() const {
  struct stat stat {};
  return ::fstat(fd_, &stat) == 0 && stamp_of(stat) == stamp_;
}

RegularFile::~RegularFile() {
  if (fd_ >= 0) ::close(fd_);
}

// ---- files that appear whole or not at all

namespace {

constexpr std::string_view kAsideBegin = ".dlpipe-";
constexpr std::string_view kAsideEnd = ".partial";

std::string descriptor_path(int fd) {
  return concat("/proc/self/fd/", fd);
}

/// Calls `make` with unpredictable names in `folder` until one is free. Returns "" with errno set if it fails for another reason.
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

/// Permissions of a new file. If it replaces another file, it gets that file's permissions at the end.
mode_t first_mode(const std::string& path) {
  return file_at(path) ? S_IRUSR | S_IWUSR : 0666;
}

/// Why no file can be created next to `path`.
Status create_error(std::string_view area, const std::string& path, int error_number) {
  const std::string folder = folder_of(path);
  std::error_code ignored;
  if (error_number == ENOENT && !std::filesystem::exists(folder, ignored))
    return {ErrorCode::kNotFound, concat("[", area, "] cannot create ", path, ": there is no folder ", folder,
                                         "; create it first")};
  return status_from_errno(area, concat("cannot create ", path), error_number);
}

}  // namespace

Result<AsideFile> AsideFile::create(std::string_view area, const std::string& path) {
  AsideFile file(area, path);
  file.fd_ = ::open(folder_of(path).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, first_mode(path));
  // Without /proc it could not be given a name later.
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
  if (::fstat(fd_, &made) != 0) return status_from_errno(area_, concat("cannot access ", path_), errno);
  mode_t mode = old->st_mode & kPermissions;
  const bool is_same_group = made.st_gid == old->st_gid;
  const bool has_both =
      (is_same_group && made.st_uid == old->st_uid) || ::fchown(fd_, old->st_uid, old->st_gid) == 0;
  // If the group could not be kept, the permissions of the old group must not apply to the new one.
  if (!has_both && !is_same_group && ::fchown(fd_, static_cast<uid_t>(-1), old->st_gid) != 0)
    mode &= ~static_cast<mode_t>(S_IRWXG);
  // On a file system without permissions, both files have the same ones.
  if ((made.st_mode & kPermissions) == mode || ::fchmod(fd_, mode) == 0) return {};
  return status_from_errno(area_, concat("cannot copy the permissions of the old ", path_, " to the new one"),
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
  // Some network file systems can't sync a directory; there the rename must suffice.
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

Status refuse_broken_link(std::string_view area, const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_symlink(path, ignored) || fs::exists(path, ignored)) return {};
  return misuse(area, printable(path), " is a link to ", printable(fs::read_symlink(path, ignored).string()),
                ", which does not exist; give that path instead, or remove the link");
}

std::string folder_of(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// ---- locks of flock()

// "1: FLOCK  ADVISORY  WRITE 4711 fe:00:408224 0 EOF" (proc_locks(5)); the device in hexadecimal.
std::string lock_holder(int fd) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) return "another process";
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    long pid = 0;
    unsigned major = 0, minor = 0;
    unsigned long inode = 0;
    constexpr int kFields = 4;
    if (std::sscanf(line.c_str(), "%*d: FLOCK %*s WRITE %ld %x:%x:%lu", &pid, &major, &minor, &inode) !=
        kFields)
      continue;
    if (pid <= 0 || inode != file.st_ino || major != gnu_dev_major(file.st_dev) ||
        minor != gnu_dev_minor(file.st_dev))
      continue;
    std::ifstream name_file(concat("/proc/", pid, "/comm"));
    std::string name;
    std::getline(name_file, name);
    return name.empty() ? concat("process ", pid) : concat("process ", pid, " (", name, ")");
  }
  return "another process";
}

void close_locked(int fd, pid_t process) {
  if (::getpid() == process) (void)::flock(fd, LOCK_UN);
  ::close(fd);
}

}  // namespace dlpipe
