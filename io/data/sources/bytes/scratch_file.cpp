#include "io/data/sources/bytes/scratch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/messages.h"
#include "base/text.h"
#include "io/data/sources/bytes/remote.h"

namespace dlpipe::data {

Result<std::shared_ptr<ScratchFile>> ScratchFile::make(const std::string& folder) {
  std::string name = folder + "/.dlpipe-unpacked-XXXXXX";
  const int fd = mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0)
    return status_from_errno("ingest", concat("cannot create a scratch file in ", printable(folder)), errno);
  ::unlink(name.c_str());
  return std::shared_ptr<ScratchFile>(new ScratchFile(fd, folder));
}

ScratchFile::~ScratchFile() {
  ::close(fd_);
}

Status ScratchFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
      return Status(ErrorCode::kNoSpace,
                    concat("[ingest] no space left in ", printable(folder_), " after ", human_bytes(size_),
                           " of an unpacked archive; choose a DST on a larger disk, or unpack the archive "
                           "yourself and ingest the folder"));
    }
    if (count < 0)
      return status_from_errno("ingest", concat("cannot write a scratch file in ", printable(folder_)),
                               errno);
    size_ += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return {};
}

Status ScratchFile::read(uint64_t at, std::span<std::byte> to) const {
  DLPIPE_ASSIGN_OR_RETURN(const size_t count, read_at(fd_, at, to, "a scratch file"));
  if (count == to.size()) return {};
  return Status(ErrorCode::kIo, concat("[ingest] the scratch file in ", printable(folder_), " shrank"));
}

ScratchSpace::ScratchSpace(std::string folder)
    : folder_(std::move(folder)), windows_(std::make_shared<RemoteWindows>()) {}

Result<std::shared_ptr<ScratchFile>> ScratchSpace::file() {
  if (file_ == nullptr) {
    DLPIPE_ASSIGN_OR_RETURN(file_, ScratchFile::make(folder_));
  }
  return file_;
}

Result<size_t> read_at(int fd, uint64_t at, std::span<std::byte> to, const std::string& name) {
  size_t done = 0;
  while (done < to.size()) {
    const ssize_t count = ::pread(fd, to.data() + done, to.size() - done, static_cast<off_t>(at + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return status_from_errno("ingest", concat("cannot read ", printable(name)), errno);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

}  // namespace dlpipe::data
