#include "dlpipe/base/registry.h"

#include "dlpipe/base/refuse.h"

namespace dlpipe {

Status name_is_taken(const char* kind, std::string_view name) {
  return misuse(kind, "'", name, "' is registered already; choose another name");
}

Status name_is_unknown(const char* kind, std::string_view name, std::span<const std::string> known) {
  return misuse(kind, "no ", kind, " '", name, "'", suggestion(name, known));
}

}  // namespace dlpipe
