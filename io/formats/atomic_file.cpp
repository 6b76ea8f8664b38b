#include "dlpipe/io/formats/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "dlpipe/base/machine.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/regular_file.h"
#include "dlpipe/base/text.h"

namespace dlpipe::formats {

static Status write_error(std::string_view what, int error_number) {
  return status_from_errno("file", what, error_number);
}

// /dev/stdout is a link to what may well be a file. It stays where it is: nothing can be made beside it or renamed to it.
bool is_stream(const std::string& path) {
  struct stat stat {};
  if (::stat(path.c_str(), &stat) != 0) return false;
  const bool is_open_already = path == "/dev/stdout" || path == "/dev/stderr" ||
                               path.starts_with("/dev/fd/") || path.starts_with("/proc/");
  return is_open_already || !(S_ISREG(stat.st_mode) || S_ISDIR(stat.st_mode));
}

/// Why `written`, which is to become `path`, can't be made. People gave `path`; `written` is named where it is in the way.
static Status create_error(const std::string& path, const std::string& written, int error_number) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(path).parent_path();
  std::error_code ignored;
  if (!folder.empty() && !fs::exists(folder, ignored) && error_number == ENOENT)
    return {ErrorCode::kNotFound, concat("[file] cannot create ", path, ": there is no folder ",
                                         folder.string(), "; make it first")};
  const bool is_in_the_way = fs::exists(fs::symlink_status(written, ignored));
  return write_error(concat("cannot create ", is_in_the_way ? written : path), error_number);
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return misuse("file", "cannot create ", path, ": it is a folder; name the file to write in it");
  AtomicFile file(path, formats::is_stream(path));
  // What the shell appends to (>> FILE) keeps what it has.
  const int how = file.is_stream_ ? O_APPEND : O_CREAT | O_TRUNC;
  file.fd_ = ::open(file.written().c_str(), O_WRONLY | O_CLOEXEC | how, 0666);
  if (file.fd_ < 0 && file.is_stream_) return write_error(concat("cannot open ", path), errno);
  if (file.fd_ < 0) return create_error(path, file.written(), errno);
  return file;
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (!is_stream_) ::unlink(written().c_str());
}

Status AtomicFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      return write_error(concat("cannot write ", written()), errno);
    }
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return {};
}

Status AtomicFile::commit() {
  if (is_stream_) {
    if (::close(std::exchange(fd_, -1)) != 0) return write_error(concat("cannot close ", path_), errno);
    return {};
  }
  const std::string partial = written();
  if (::fsync(fd_) != 0) return write_error(concat("cannot sync ", partial), errno);
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) {
    const int error_number = errno;
    ::unlink(partial.c_str());
    return write_error(concat("cannot close ", partial), error_number);
  }
  if (::rename(partial.c_str(), path_.c_str()) != 0) {
    const int error_number = errno;
    ::unlink(partial.c_str());
    return write_error(concat("cannot rename ", partial, " to ", path_), error_number);
  }
  const std::string parent = std::filesystem::path(path_).parent_path().string();
  return sync_directory(parent.empty() ? "." : parent);
}

Status write_file(const std::string& path, std::string_view text) {
  DLPIPE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  DLPIPE_RETURN_IF_ERROR(file.append(text));
  return file.commit();
}

Result<std::string> read_file(const std::string& path, uint64_t max_bytes) {
  DLPIPE_ASSIGN_OR_RETURN(const RegularFile file, RegularFile::open("file", path));
  const uint64_t size = file.stamp().size_bytes;
  constexpr uint64_t kSmall = uint64_t{64} << 20;  // needs no look at the machine
  if (size > kSmall) max_bytes = std::min(max_bytes, available_memory_bytes());
  const auto too_large = [&] {
    return Status(ErrorCode::kUnsupported, concat("[file] ", path, " is larger than ", human_bytes(max_bytes),
                                                  "; is it the right file?"));
  };
  if (size > max_bytes) return too_large();
  std::string text;
  while (true) {
    const size_t old_size = text.size();
    // One byte more than there are says where the file ends. It may have grown meanwhile, and files of the
    // system say that they have none.
    const size_t chunk =
        std::max<size_t>(size_t{1} << 16, size + 1 > old_size ? size + 1 - old_size : old_size);
    text.resize(old_size + chunk);
    const ssize_t got = ::read(file.fd(), text.data() + old_size, chunk);
    const int error_number = errno;
    text.resize(old_size + static_cast<size_t>(got > 0 ? got : 0));
    if (got == 0) return text;
    if (got < 0 && error_number != EINTR) return write_error(concat("cannot read ", path), error_number);
    if (text.size() > max_bytes) return too_large();
  }
}

Status sync_directory(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return write_error(concat("cannot open the directory ", directory), errno);
  const int result = ::fsync(fd);
  const int error_number = errno;
  ::close(fd);
  // Some file systems can't sync a directory and say EINVAL; there the rename is all one can have.
  if (result != 0 && error_number != EINVAL)
    return write_error(concat("cannot sync ", directory), error_number);
  return {};
}

}  // namespace dlpipe::formats
