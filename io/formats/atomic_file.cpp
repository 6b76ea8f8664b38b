#include "io/formats/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/file.h"
#include "base/machine.h"
#include "base/text.h"
#include "dlpipe/error.h"

namespace dlpipe::formats {

static Status write_error(std::string_view what, int error_number) {
  return status_from_errno("file", what, error_number);
}

// /dev/stdout may be a link to a file. It is written in place: files can't be created next to it or renamed to it.
bool is_stream(const std::string& path) {
  struct stat stat {};
  if (::stat(path.c_str(), &stat) != 0) return false;
  const bool is_open_already = path == "/dev/stdout" || path == "/dev/stderr" ||
                               path.starts_with("/dev/fd/") || path.starts_with("/proc/");
  return is_open_already || !(S_ISREG(stat.st_mode) || S_ISDIR(stat.st_mode));
}

static Status check_is_no_folder(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return {};
  return misuse("file", "cannot create ", path, ": it is a folder; add the name of the file to write");
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  DLPIPE_RETURN_IF_ERROR(check_is_no_folder(path));
  AtomicFile file(path);
  if (formats::is_stream(path)) {
    // A file that the shell appends to (>> FILE) keeps its contents.
    file.stream_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_APPEND);
    if (file.stream_ < 0) return write_error(concat("cannot open ", path), errno);
    return file;
  }
  // Follows links, as a shell's > does: a link to a model elsewhere remains a link.
  std::filesystem::path end = path;
  std::error_code error;
  for (int links = 0; links < 40 && std::filesystem::is_symlink(end, error); ++links)
    end = end.parent_path() / std::filesystem::read_symlink(end, error);  // an absolute one replaces it
  file.path_ = end.string();
  DLPIPE_ASSIGN_OR_RETURN(AsideFile aside, AsideFile::create("file", file.path_));
  file.aside_.emplace(std::move(aside));
  return file;
}

AtomicFile::~AtomicFile() {
  if (stream_ >= 0) ::close(stream_);
}

Status AtomicFile::append(std::span<const std::byte> bytes) {
  return aside_ ? aside_->append(bytes) : write_all("file", stream_, bytes, path_);
}

Status AtomicFile::commit() {
  if (aside_) return aside_->publish();
  if (::close(std::exchange(stream_, -1)) != 0) return write_error(concat("cannot close ", path_), errno);
  return {};
}

Status write_file(const std::string& path, std::string_view text) {
  DLPIPE_RETURN_IF_ERROR(check_is_no_folder(path));
  DLPIPE_ASSIGN_OR_RETURN(AsideFile file, AsideFile::create("file", path));
  DLPIPE_RETURN_IF_ERROR(file.append(std::as_bytes(std::span(text.data(), text.size()))));
  return file.publish();
}

Status write_output(const std::string& path, std::string_view text) {
  DLPIPE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  DLPIPE_RETURN_IF_ERROR(file.append(text));
  return file.commit();
}

Result<std::string> read_file(const std::string& path, uint64_t max_bytes) {
  DLPIPE_ASSIGN_OR_RETURN(const RegularFile file, RegularFile::open("file", path));
  const uint64_t size = file.stamp().size_bytes;
  constexpr uint64_t kSmall = uint64_t{64} << 20;  // the machine's memory isn't checked for less
  if (size > kSmall) max_bytes = std::min(max_bytes, available_memory_bytes());
  const auto too_large = [&] {
    return Status(ErrorCode::kUnsupported, concat("[file] ", path, " is larger than ", human_bytes(max_bytes),
                                                  "; is it the right file?"));
  };
  if (size > max_bytes) return too_large();
  std::string text;
  while (true) {
    const size_t old_size = text.size();
    // Reading one byte more than the size detects the end of the file. The file may have grown meanwhile, and system
    // files (/proc) report size 0.
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

}  // namespace dlpipe::formats
