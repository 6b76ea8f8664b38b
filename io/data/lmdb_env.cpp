#include "dlpipe/io/data/lmdb_env.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>

#include "dlpipe/base/text.h"

namespace dlpipe::data {

// LMDB reports a short write as EIO; full disks and limits on file sizes are what cause short writes.
static bool disk_is_full(const std::string& directory) {
  struct statvfs disk {};
  if (statvfs(directory.c_str(), &disk) != 0) return false;
  constexpr uint64_t kNothingLeft = 1 << 20;
  return uint64_t{disk.f_bavail} * disk.f_frsize < kNothingLeft;
}

static bool file_is_at_limit(const std::string& directory) {
  struct rlimit limit {};
  struct stat file {};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return false;
  constexpr uint64_t kOneWrite = 64 << 20;  // more than LMDB hands to one call
  return stat((directory + "/data.mdb").c_str(), &file) == 0 &&
         static_cast<uint64_t>(file.st_size) + kOneWrite > limit.rlim_cur;
}

Status lmdb_status(int code, std::string_view what, const std::string& directory) {
  if (code == MDB_SUCCESS) return {};
  const std::string step = concat(what, " in ", directory);
  if (code == MDB_MAP_FULL) {
    return Status(ErrorCode::kNoSpace,
                  concat("[dataset] map full: ", step,
                         " needs more than the map set aside for it; run again with a larger --map-size"));
  }
  if (code == EFBIG || (code == EIO && file_is_at_limit(directory))) {
    return Status(ErrorCode::kNoSpace,
                  concat("[dataset] file too large: ", step,
                         " passed the limit on file sizes (ulimit -f); raise it and run again"));
  }
  if (code == ENOSPC || code == EDQUOT || (code == EIO && disk_is_full(directory))) {
    return Status(ErrorCode::kNoSpace,
                  concat("[dataset] no space left on the disk: ", step, "; free space and run again"));
  }
  if (code == ENOMEM) {
    return Status(
        ErrorCode::kOutOfMemory,
        concat("[dataset] no address space: ", step,
               " maps the whole file; raise ulimit -v (an ingest also takes a smaller --map-size)"));
  }
  if (code > 0) return status_from_errno("dataset", step, code);
  const bool damaged = code == MDB_INVALID || code == MDB_CORRUPTED || code == MDB_PAGE_NOTFOUND ||
                       code == MDB_VERSION_MISMATCH || code == MDB_PANIC;
  return Status(damaged ? ErrorCode::kCorrupt : ErrorCode::kInternal,
                concat("[dataset] ", step, ": ", mdb_strerror(code),
                       damaged ? "; the file is damaged or not a dataset: ingest or copy it again" : ""));
}

}  // namespace dlpipe::data
