#include "dlpipe/run/ingest/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "dlpipe/base/text.h"

namespace dlpipe::ingest {

namespace {

struct Fd {
  int fd;
  ~Fd() {
    if (fd >= 0) ::close(fd);
  }
};

Status write_all(int fd, std::string_view text, const std::string& file) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return status_from_errno("ingest", concat("cannot write ", file), errno);
    text.remove_prefix(static_cast<size_t>(count));
  }
  return {};
}

}  // namespace

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

Status sync_directory(const std::string& directory) {
  const Fd handle{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (handle.fd < 0) return status_from_errno("ingest", concat("cannot open ", directory), errno);
  // Some network file systems refuse to sync directories; there is nothing to be done about it.
  if (fsync(handle.fd) != 0 && errno != EINVAL && errno != ENOTSUP)
    return status_from_errno("ingest", concat("cannot sync ", directory), errno);
  return {};
}

Status write_file_durably(const std::string& file, std::string_view text) {
  const std::string fresh = file + ".new";
  {
    const Fd handle{::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    if (handle.fd < 0) return status_from_errno("ingest", concat("cannot write ", fresh), errno);
    DLPIPE_RETURN_IF_ERROR(write_all(handle.fd, text, fresh));
    if (fsync(handle.fd) != 0) return status_from_errno("ingest", concat("cannot sync ", fresh), errno);
  }
  return rename_durably(fresh, file);
}

Status rename_durably(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0)
    return status_from_errno("ingest", concat("cannot rename ", from, " to ", to), errno);
  return sync_directory(parent_of(to));
}

Status drop_unbegun_environment(const std::string& directory) {
  const std::string file = directory + "/data.mdb";
  std::error_code absent;
  const uintmax_t size_bytes = std::filesystem::file_size(file, absent);
  if (absent || size_bytes >= 2 * static_cast<uintmax_t>(::sysconf(_SC_PAGESIZE))) return {};
  if (::unlink(file.c_str()) == 0) return {};
  return status_from_errno("ingest", concat("cannot remove ", file), errno);
}

}  // namespace dlpipe::ingest
