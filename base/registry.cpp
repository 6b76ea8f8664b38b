#include "dlpipe/base/registry.h"

#include "dlpipe/base/text.h"

namespace dlpipe {

Status name_is_taken(const char* kind, std::string_view name) {
  return {ErrorCode::kMisuse, concat("[", kind, "] '", name, "' is registered already; choose another name")};
}

Status name_is_unknown(const char* kind, std::string_view name, std::span<const std::string> known) {
  return {ErrorCode::kMisuse, concat("[", kind, "] no ", kind, " '", name, "'", suggestion(name, known))};
}

}  // namespace dlpipe
