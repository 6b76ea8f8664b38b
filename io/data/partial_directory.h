// A directory that is filled under the name DST.partial and becomes DST by one rename, so that DST is complete or absent. It
// contains a note with the program that fills it and its DST. A folder of that name without the note was not made by dlpipe: it
// is refused, and nothing in it is touched.
//
// A PartialDirectory holds the directory's lock until it is destroyed (the system drops it when the process ends) and belongs
// to one thread, except for write(). Its contents remain when it is destroyed; remove() deletes them.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dlpipe/error.h"

namespace dlpipe::data {

class PartialDirectory {
 public:
  /// Creates DST.partial for `kind` ("ingest", "export", ...; also the area of errors), or takes over what an interrupted one
  /// of the same kind and DST left. kMisuse if another process fills it, or dlpipe did not create it.
  static Result<PartialDirectory> claim(std::string_view kind, std::string destination);
  PartialDirectory(PartialDirectory&& other) noexcept;
  PartialDirectory& operator=(PartialDirectory&&) = delete;
  ~PartialDirectory();

  const std::string& path() const { return path_; }
  /// Whether it existed before, so that it may contain interrupted work.
  bool was_there() const { return was_there_; }
  /// Writes the file `name` below it, creating folders as needed. Nothing is overwritten. kUnsupported if the file is
  /// impossible: its name, or a part of it, is too long, in use by a file or a folder, or not allowed by the file system. Any
  /// thread.
  Status write(const std::string& name, std::span<const std::byte> bytes) const;
  /// Removes everything except the note, and stays claimed.
  Status clear();
  /// Removes everything, the note last.
  Status remove();
  /// Renames DST.partial to DST, durably; kMisuse if DST exists by now.
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
