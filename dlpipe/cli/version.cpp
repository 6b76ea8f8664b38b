#include "dlpipe/cli/version.h"

#include "dlpipe/base/text.h"

namespace dlpipe::cli {

std::string version_line() {
  return concat("dlpipe ", DLPIPE_VERSION, " (", DLPIPE_BUILD_TYPE, ", ", DLPIPE_COMPILER, ")");
}

}  // namespace dlpipe::cli
