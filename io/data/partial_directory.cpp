#include "io/data/partial_directory.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "dlpipe/error.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNote = ".dlpipe-partial";

struct Fd {
  int fd;
  ~Fd() {
    if (fd >= 0) ::close(fd);
  }
};

std::string in(const std::string& directory, std::string_view name) {
  return concat(directory, "/", name);
}

/// The first bytes of a file; "" when it can't be read. A note is short.
std::string read_note(const std::string& file) {
  const Fd handle{::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  std::array<char, 8192> text;
  const ssize_t got = handle.fd < 0 ? 0 : ::read(handle.fd, text.data(), text.size());
  return std::string(text.data(), got > 0 ? static_cast<size_t>(got) : 0);
}

bool is_same_file(int fd, const std::string& path) {
  struct stat open_one {};
  struct stat named {};
  return ::fstat(fd, &open_one) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

/// The note's contents. They include only the name of DST, because the folder may be moved together with DST.
std::string note_for(const std::string& kind, const std::string& destination) {
  return concat("dlpipe ", kind, "\n", fs::path(destination).filename().string(), "\n");
}

}  // namespace

PartialDirectory::PartialDirectory(std::string_view kind, std::string destination)
    : kind_(kind), destination_(std::move(destination)) {
  while (destination_.size() > 1 && destination_.back() == '/') destination_.pop_back();
  path_ = destination_ + ".partial";
}

PartialDirectory::PartialDirectory(PartialDirectory&& other) noexcept
    : kind_(std::move(other.kind_)),
      destination_(std::move(other.destination_)),
      path_(std::move(other.path_)),
      was_there_(other.was_there_),
      process_(other.process_),
      fd_(std::exchange(other.fd_, -1)) {}

PartialDirectory::~PartialDirectory() {
  if (fd_ >= 0) close_locked(fd_, process_);
}

Status PartialDirectory::error(std::string_view what, int error_number) const {
  return status_from_errno(kind_, what, error_number);
}

Result<PartialDirectory> PartialDirectory::claim(std::string_view kind, std::string destination) {
  PartialDirectory claimed(kind, std::move(destination));
  DLPIPE_RETURN_IF_ERROR(refuse_broken_link(kind, claimed.destination_));
  const std::string parent = fs::path(claimed.path_).parent_path().string();
  std::error_code code;
  if (!parent.empty()) fs::create_directories(parent, code);
  if (code) return claimed.error(concat("cannot create ", parent), code.value());
  if (::mkdir(claimed.path_.c_str(), 0777) != 0) {
    if (errno != EEXIST) return claimed.error(concat("cannot create ", claimed.path_), errno);
    claimed.was_there_ = true;
  }
  DLPIPE_RETURN_IF_ERROR(claimed.lock());
  if (const Status owned = claimed.check_owner(); !owned.ok()) {
    if (!claimed.was_there_) ::rmdir(claimed.path_.c_str());  // no note could be written, so nothing is in it
    return owned;
  }
  if (claimed.was_there_) DLPIPE_RETURN_IF_ERROR(remove_aside_files(kind, claimed.path_));
  return claimed;
}

Status PartialDirectory::lock() {
  fd_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd_ < 0 && (errno == ENOTDIR || errno == ELOOP)) {
    return misuse(kind_, path_,
                  " exists and is not a folder; move it away "
                  "or choose another name");
  }
  if (fd_ < 0) return error(concat("cannot open ", path_), errno);
  const bool is_locked = ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
  if (!is_locked && errno != EWOULDBLOCK) return error(concat("cannot lock ", path_), errno);
  // Otherwise another process that has just finished renamed or removed it between opening and locking.
  if (is_locked && is_same_file(fd_, path_)) return {};
  const std::string writer = is_locked ? "another process" : lock_holder(fd_);
  return misuse(kind_, writer, " is writing ", path_, "; wait for it, or choose another destination");
}

Status PartialDirectory::check_owner() const {
  const std::string note = read_note(in(path_, kNote));
  if (note == note_for(kind_, destination_)) return {};
  std::error_code code;
  bool is_empty = note.empty();
  for (fs::directory_iterator entry(path_, code), end; is_empty && !code && entry != end;
       entry.increment(code))
    is_empty = is_aside_name(entry->path().filename().string());  // of a note, left by a killed process
  if (code) return error(concat("cannot list ", path_), code.value());
  if (is_empty) return write_note();
  const size_t line = note.find('\n');
  const std::string whose = note.rfind("dlpipe ", 0) == 0 && line != std::string::npos
                                ? concat("belongs to an interrupted `", note.substr(0, line), "`")
                                : std::string("was not made by dlpipe");
  return misuse(kind_, path_, " exists and ", whose, "; move it away, or choose another destination");
}

Status PartialDirectory::write_note() const {
  const std::string text = note_for(kind_, destination_);
  DLPIPE_ASSIGN_OR_RETURN(AsideFile file, AsideFile::create(kind_, in(path_, kNote)));
  DLPIPE_RETURN_IF_ERROR(file.append(std::as_bytes(std::span(text.data(), text.size()))));
  return file.publish();
}

Status PartialDirectory::write(const std::string& name, std::span<const std::byte> bytes) const {
  const std::string file = in(path_, name);
  const auto cannot_create = [&](int error_number) {
    const Status status = error(concat("cannot create ", file), error_number);
    constexpr std::array kOfTheName = {ENAMETOOLONG, ENOTDIR, EISDIR, EEXIST, EINVAL, EILSEQ};
    const bool is_name = std::find(kOfTheName.begin(), kOfTheName.end(), error_number) != kOfTheName.end();
    return is_name ? Status(ErrorCode::kUnsupported, status.message()) : status;
  };
  std::error_code code;
  fs::create_directories(fs::path(file).parent_path(), code);
  if (code) return cannot_create(code.value());
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return cannot_create(errno);
  Status status = write_all(kind_, fd, bytes, file);
  if (::close(fd) != 0 && status.ok()) status = error(concat("cannot write ", file), errno);
  return status;
}

Status PartialDirectory::clear() {
  std::error_code code;
  std::vector<fs::path> all;
  for (fs::directory_iterator entry(path_, code), end; !code && entry != end; entry.increment(code)) {
    if (entry->path().filename() != kNote) all.push_back(entry->path());
  }
  if (code) return error(concat("cannot list ", path_), code.value());
  for (const fs::path& path : all) {
    fs::remove_all(path, code);
    if (code) return error(concat("cannot remove ", path.string()), code.value());
  }
  return {};
}

Status PartialDirectory::remove() {
  DLPIPE_RETURN_IF_ERROR(clear());
  const std::string note = in(path_, kNote);
  if (::unlink(note.c_str()) != 0 && errno != ENOENT) return error(concat("cannot remove ", note), errno);
  if (::rmdir(path_.c_str()) != 0) return error(concat("cannot remove ", path_), errno);
  return {};
}

Status PartialDirectory::publish() {
  int result = ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, destination_.c_str(), RENAME_NOREPLACE);
  // If the file system does not support the flag: rename() does not replace a non-empty folder either.
  if (result != 0 && (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP))
    result = ::rename(path_.c_str(), destination_.c_str());
  if (result != 0 && (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR)) {
    return misuse(kind_, destination_, " was created in the meantime; the result is in ", path_);
  }
  if (result != 0) return error(concat("cannot rename ", path_, " to ", destination_), errno);
  forget(destination_);
  return sync_directory(kind_, folder_of(destination_));
}

void PartialDirectory::forget(const std::string& destination) {
  ::unlink(in(destination, kNote).c_str());  // a remaining hidden file does no harm
}

}  // namespace dlpipe::data
