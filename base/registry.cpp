#include "dlpipe/base/registry.h"

#include <string>

#include "dlpipe/base/text.h"

namespace dlpipe {

Status name_is_taken(const char* kind, std::string_view name) {
  return {ErrorCode::kMisuse, concat("[", kind, "] '", name, "' is registered already; choose another name")};
}

Status name_is_unknown(const char* kind, std::string_view name, std::span<const std::string_view> known) {
  const std::vector<std::string> names(known.begin(), known.end());
  return {ErrorCode::kMisuse, concat("[", kind, "] no ", kind, " '", name, "'", suggestion(name, names))};
}

}  // namespace dlpipe
