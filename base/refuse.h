// The one way to say that what was asked for can't be done as it was asked: kMisuse, "[area] what happened; what
// to do". As a value below the public face, as an Error at it.
#pragma once

#include <string_view>

#include "dlpipe/base/error.h"
#include "dlpipe/base/text.h"

namespace dlpipe {

/// "[area] " and the parts, one after another: misuse("train", "--batch ", batch, "; give 1 or more").
template <class... Parts>
Status misuse(std::string_view area, const Parts&... parts) {
  return {ErrorCode::kMisuse, concat("[", area, "] ", parts...)};
}

/// Throws it.
template <class... Parts>
[[noreturn]] void refuse(std::string_view area, const Parts&... parts) {
  throw Error(misuse(area, parts...));
}

}  // namespace dlpipe
