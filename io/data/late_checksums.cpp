#include "dlpipe/io/data/late_checksums.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "dlpipe/base/bytes.h"
#include "dlpipe/base/regular_file.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_bytes.h"

namespace dlpipe::data {

namespace {

constexpr size_t kBytes = sizeof(uint64_t);

std::string path_in(const std::string& directory) {
  return directory + "/late.sums";
}

}  // namespace

// Zeros are written, not left out, so that there is room on the disk for what is noted later.
Status LateChecksums::create(const std::string& directory, int64_t samples) {
  const std::string path = path_in(directory);
  DLPIPE_ASSIGN_OR_RETURN(const RegularFile file,
                          RegularFile::open_to_write("dataset", path, O_WRONLY | O_TRUNC));
  const std::vector<std::byte> zeros(static_cast<size_t>(samples) * kBytes);
  Status status = write_bytes_at("dataset", file.fd(), zeros, 0, path);
  if (status.ok() && ::fdatasync(file.fd()) != 0)
    status = status_from_errno("dataset", concat("cannot sync ", path), errno);
  return status;
}

Result<std::unique_ptr<const LateChecksums>> LateChecksums::open(const std::string& directory,
                                                                 int64_t samples) {
  std::string path = path_in(directory);
  int fd =
      ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);  // through a link nothing is noted
  const bool writes = fd >= 0;
  if (!writes) fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno != ENOENT) return status_from_errno("dataset", concat("cannot open ", path), errno);
  std::unique_ptr<const LateChecksums> sums(new LateChecksums(std::move(path), fd, writes, samples));
  struct stat stat {};
  const bool fits = fd < 0 || (::fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) &&
                               stat.st_size % static_cast<off_t>(kBytes) == 0 &&
                               stat.st_size / static_cast<off_t>(kBytes) == samples);
  if (fits) return sums;
  return Status(ErrorCode::kCorrupt, concat("[dataset] ", sums->path_, " is not of the dataset's ", samples,
                                            " samples; remove it, and pictures count as never read"));
}

LateChecksums::~LateChecksums() {
  if (fd_ >= 0) ::close(fd_);
}

Result<uint64_t> LateChecksums::of(int64_t sample) const {
  if (fd_ < 0) return uint64_t{0};
  std::array<std::byte, kBytes> bytes{};
  DLPIPE_RETURN_IF_ERROR(read_bytes_at("dataset", fd_, bytes, kBytes * static_cast<uint64_t>(sample), path_));
  return load_le<uint64_t>(bytes, 0);
}

Result<uint64_t> LateChecksums::note(int64_t sample, uint64_t checksum) const {
  DLPIPE_ASSIGN_OR_RETURN(const uint64_t before, of(sample));
  if (before != 0) return before;
  if (!writes_) return checksum;
  std::array<std::byte, kBytes> bytes{};
  store_le(bytes.data(), checksum);
  DLPIPE_RETURN_IF_ERROR(
      write_bytes_at("dataset", fd_, bytes, kBytes * static_cast<uint64_t>(sample), path_));
  return checksum;
}

Result<int64_t> LateChecksums::known() const {
  if (fd_ < 0) return int64_t{0};
  std::vector<std::byte> bytes(static_cast<size_t>(samples_) * kBytes);
  DLPIPE_RETURN_IF_ERROR(read_bytes_at("dataset", fd_, bytes, 0, path_));
  int64_t known = 0;
  for (size_t at = 0; at < bytes.size(); at += kBytes) known += load_le<uint64_t>(bytes, at) != 0 ? 1 : 0;
  return known;
}

}  // namespace dlpipe::data
