#include "dlpipe/run/ingest/files.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "dlpipe/base/text.h"

namespace dlpipe::ingest {

Status drop_unbegun_environment(const std::string& directory) {
  const std::string file = directory + "/data.mdb";
  std::error_code absent;
  const uintmax_t size_bytes = std::filesystem::file_size(file, absent);
  if (absent || size_bytes >= 2 * static_cast<uintmax_t>(::sysconf(_SC_PAGESIZE))) return {};
  if (::unlink(file.c_str()) == 0) return {};
  return status_from_errno("ingest", concat("cannot remove ", file), errno);
}

}  // namespace dlpipe::ingest
