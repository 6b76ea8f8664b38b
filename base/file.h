// Files: open one to read it, write one that appears whole or not at all, find out which process has locked one.
//
//   RegularFile   a file that is read as data, or that grows in place
//   AsideFile     a new file that replaces the one at its path once it is complete
//   lock_holder   which process holds the flock() that this one can't get
//
// Errors begin with the caller's `[area]` and name the path. All functions may be called from any thread; an object
// belongs to one thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dlpipe/error.h"

struct stat;

namespace dlpipe {

/// Size and time of a file; equal stamps count as the same contents.
struct FileStamp {
  uint64_t size_bytes = 0;
  int64_t modified_ns = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

FileStamp stamp_of(const struct stat& stat);

// ---- files that are read, or grow in place

/// An open file. Closed with this object. Only regular files are opened (links are followed). A pipe, socket or device is
/// refused by its kind before it is opened, since opening a pipe waits for its other end.
class RegularFile {
 public:
  /// kUnsupported for anything but a regular file and for a path with a zero byte, else the system's error.
  static Result<RegularFile> open(std::string_view area, const std::string& path);
  /// Creates the file if there is none. `how`: O_RDWR, or O_WRONLY, with O_APPEND, O_TRUNC or O_EXCL. A link
  /// is refused (kUnsupported). To make a file appear whole or not at all, use an AsideFile instead.
  static Result<RegularFile> open_to_write(std::string_view area, const std::string& path, int how);
  ~RegularFile();
  RegularFile(RegularFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)), stamp_(other.stamp_) {}
  RegularFile& operator=(RegularFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    stamp_ = other.stamp_;
    return *this;
  }

  int fd() const { return fd_; }
  /// The file descriptor. The caller closes it from now on.
  int release() { return std::exchange(fd_, -1); }
  /// The stamp when the file was opened.
  const FileStamp& stamp() const { return stamp_; }
  /// False if the file was written to since then.
  bool is_unchanged() const;

 private:
  RegularFile(int fd, const FileStamp& stamp) : fd_(fd), stamp_(stamp) {}
  static Result<RegularFile> open_as(std::string_view area, const std::string& path, int how);
  int fd_;
  FileStamp stamp_;
};

/// The stamp alone, without opening the file; errors as RegularFile::open.
Result<FileStamp> stamp_regular_file(std::string_view area, const std::string& path);

// ---- files that appear whole or not at all

/// A new file that replaces PATH once it is complete. While it is written it has no name (O_TMPFILE), so that a kill
/// leaves nothing behind. Only while it replaces PATH it is called `.dlpipe-<16 random digits>.partial`. On file systems
/// without O_TMPFILE it has that name from the start and is created with O_EXCL. A kill then leaves it behind:
/// remove_aside_files() removes it from a folder that dlpipe owns, elsewhere the user may. No link is followed and no
/// other file in the folder is written. Whatever is at PATH is replaced, even a pipe or a link. The new file gets the
/// permissions of the old one, and its owner and group as far as the system allows; until then no other user can read it.
///
/// Owns its descriptor. Without publish() the new file disappears.
class AsideFile {
 public:
  /// kNotFound if the folder is missing.
  static Result<AsideFile> create(std::string_view area, const std::string& path);
  /// Creates a named file, as create() does if the file system has no O_TMPFILE.
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
  /// Syncs the file, renames it to PATH and syncs the folder, so that neither a crash nor a full disk leaves half a file or
  /// loses the old one. Call once.
  Status publish();

 private:
  AsideFile(std::string_view area, std::string path) : area_(area), path_(std::move(path)) {}
  Status keep_permissions();

  std::string area_;
  std::string path_;
  std::string name_;  // empty while the file has no name
  int fd_ = -1;
};

/// Makes PATH a link to `target`, in one step, replacing what was there.
Status replace_by_link(std::string_view area, const std::string& path, const std::string& target);
/// Writes all of `bytes` to an open file. Errors call the file `path`.
Status write_all(std::string_view area, int fd, std::span<const std::byte> bytes, const std::string& path);
/// fsync of a directory, so that renames and new names in it last.
Status sync_directory(std::string_view area, const std::string& directory);
/// Whether a killed process may have left a file of this name behind (AsideFile).
bool is_aside_name(std::string_view file_name);
/// Removes the files that killed processes left in `directory` (AsideFile), at any depth. Only for a
/// directory in which no other process writes now, such as one whose lock the caller holds.
Status remove_aside_files(std::string_view area, const std::string& directory);
/// kMisuse if `path` is a link whose target does not exist: nothing can be created under that name.
Status refuse_broken_link(std::string_view area, const std::string& path);
/// The directory that holds `path` ("." for a bare name).
std::string folder_of(const std::string& path);

// ---- locks of flock()

/// "process 4711 (dlpipe)" for the file that `fd` has open, from /proc; "another process" if the holder isn't listed there: it
/// is on another machine or in another container, or has just released the lock.
std::string lock_holder(int fd);

/// Closes `fd`, on which `process` took the lock. In that process, it also releases the lock: closing alone
/// does not release it while a forked child has the file open.
void close_locked(int fd, pid_t process);

}  // namespace dlpipe
