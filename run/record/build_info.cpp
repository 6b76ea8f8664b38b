#include "dlpipe/run/record/build_info.h"

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/kernel_table.h"

namespace dlpipe::run {

std::string build_line() {
  return concat("dlpipe ", DLPIPE_VERSION, " (", DLPIPE_BUILD_TYPE, ", ", DLPIPE_COMPILER, ", ",
                engine::kernel_library(), ")");
}

// DLPIPE_LIBRARIES is "name=version,name=version", written by CMake from what it found.
std::vector<std::pair<std::string, std::string>> library_versions() {
  std::vector<std::pair<std::string, std::string>> versions;
  for (const std::string& entry : split(DLPIPE_LIBRARIES, ',')) {
    const std::vector<std::string> parts = split(entry, '=');
    if (parts.size() == 2) versions.emplace_back(parts[0], parts[1]);
  }
  return versions;
}

}  // namespace dlpipe::run
