// A directory that is filled aside, as DST.partial, and becomes DST by one rename, so that DST is whole or not
// there. It holds a note of what fills it and for which DST. A folder of that name without this note is somebody
// else's: it is refused by name, and nothing in it is touched.
//
// A PartialDirectory holds the lock of the directory until its end (the system drops it when the process ends)
// and belongs to one thread, but for write(). What it was filled with stays when it is destroyed: remove() takes it away.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

class PartialDirectory {
 public:
  /// Makes DST.partial for `kind` ("ingest", "export", ...: also the tag of errors), or takes over what an
  /// interrupted one of the same kind and DST left. kMisuse: another process fills it, or it isn't ours.
  static Result<PartialDirectory> claim(std::string_view kind, std::string destination);
  PartialDirectory(PartialDirectory&& other) noexcept;
  PartialDirectory& operator=(PartialDirectory&&) = delete;
  ~PartialDirectory();

  const std::string& path() const { return path_; }
  /// Whether it was there before: something interrupted may be in it.
  bool was_there() const { return was_there_; }
  /// Writes the file `name` below it, in folders that it makes. Nothing is written over. kUnsupported where there can be no
  /// such file: its name, or a part of it, is too long, taken by a file or a folder, or not a name of this file system. Any thread.
  Status write(const std::string& name, std::span<const std::byte> bytes) const;
  /// Removes everything but the note, and stays claimed.
  Status clear();
  /// Removes everything, the note last.
  Status remove();
  /// DST.partial becomes DST, durably; kMisuse when there is a DST by now.
  Status publish();
  /// Removes the note from a published DST whose publish() was killed before it did so.
  static void forget(const std::string& destination);

 private:
  PartialDirectory(std::string_view kind, std::string destination);
  Status lock();
  Status check_owner() const;
  Status write_note() const;
  Status error(std::string_view what, int error_number) const;

  std::string kind_;
  std::string destination_;
  std::string path_;
  bool was_there_ = false;
  pid_t process_ = ::getpid();
  int fd_ = -1;
};

}  // namespace dlpipe::data
