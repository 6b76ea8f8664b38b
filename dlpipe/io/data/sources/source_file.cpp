#include "dlpipe/io/data/sources/source_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"

namespace dlpipe::data {

namespace {

struct OpenFile {
  int fd = -1;
  ~OpenFile() {
    if (fd >= 0) ::close(fd);
  }
};

Status changed(const std::string& path, std::string_view how) {
  return Status(ErrorCode::kChanged, concat("[ingest] ", printable(path), " ", how,
                                            " since it was listed; let the files rest, remove the .partial "
                                            "directory and ingest again"));
}

}  // namespace

FileStamp stamp_of(const struct stat& stat) {
  return {static_cast<uint64_t>(stat.st_size),
          int64_t{stat.st_mtim.tv_sec} * 1'000'000'000 + stat.st_mtim.tv_nsec};
}

FileId id_of(const struct stat& stat) {
  return {static_cast<uint64_t>(stat.st_dev), static_cast<uint64_t>(stat.st_ino)};
}

Result<FileStamp> stamp_file(const std::string& path) {
  struct stat stat {};
  if (::stat(path.c_str(), &stat) != 0)
    return status_from_errno("ingest", concat("cannot look at ", path), errno);
  if (!S_ISREG(stat.st_mode))
    return Status(ErrorCode::kUnsupported,
                  concat("[ingest] ", printable(path), " is not a regular file; remove it"));
  return stamp_of(stat);
}

Result<std::vector<std::byte>> read_stamped_file(const std::string& path, const FileStamp& stamp) {
  const OpenFile file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return changed(path, "was removed");
    return status_from_errno("ingest", concat("cannot read ", path), errno);
  }
  struct stat stat {};
  if (fstat(file.fd, &stat) != 0) return status_from_errno("ingest", concat("cannot read ", path), errno);
  if (stamp_of(stat) != stamp) return changed(path, "changed");
  std::vector<std::byte> bytes(stamp.size_bytes);
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(file.fd, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return status_from_errno("ingest", concat("cannot read ", path), errno);
    if (count == 0) return changed(path, "became shorter");
    done += static_cast<size_t>(count);
  }
  if (fstat(file.fd, &stat) != 0) return status_from_errno("ingest", concat("cannot read ", path), errno);
  if (stamp_of(stat) != stamp) return changed(path, "changed");
  return bytes;
}

std::string lower_ending(std::string_view path) {
  const size_t dot = path.rfind('.');
  if (dot == std::string_view::npos || path.find('/', dot) != std::string_view::npos) return {};
  std::string ending(path.substr(dot + 1));
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending;
}

bool has_image_name(const std::string& path) {
  static constexpr std::array<std::string_view, 15> kEndings = {"jpg", "jpeg", "jpe",  "jfif", "png",
                                                                "bmp", "gif",  "webp", "tif",  "tiff",
                                                                "ppm", "pgm",  "jp2",  "heic", "avif"};
  return std::find(kEndings.begin(), kEndings.end(), lower_ending(path)) != kEndings.end();
}

}  // namespace dlpipe::data
