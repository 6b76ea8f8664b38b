#include "dlpipe/base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"

namespace dlpipe {

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
  if (path.find('\0') != std::string::npos)  // the system would open what is called as the part before it
    return Status(ErrorCode::kUnsupported,
                  concat("[", area, "] ", printable(path), " holds a zero byte, and no file is called so"));
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
                         " is a link, and what it leads to may be another's; move it away"));
  return file;
}

Result<RegularFile> RegularFile::open_as(std::string_view area, const std::string& path, int how) {
  // O_NONBLOCK: something else may stand there by now. It changes nothing for regular files.
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

}  // namespace dlpipe
