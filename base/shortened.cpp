#include "dlpipe/base/shortened.h"

#include <algorithm>

#include "dlpipe/base/text.h"

namespace dlpipe {

/// Whether a byte goes on with a character of UTF-8 that another one began.
static bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

std::string shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  constexpr size_t kMostContinuing = 3;  // bytes of one character; more are no UTF-8
  size_t begin = most - most / 3, end = text.size() - most / 3;
  for (size_t i = 0; i < kMostContinuing && begin > 0 && continues_character(text[begin]); ++i) --begin;
  for (size_t i = 0; i < kMostContinuing && end < text.size() && continues_character(text[end]); ++i) ++end;
  return concat(text.substr(0, begin), "... (", human_count(static_cast<int64_t>(end - begin)),
                " bytes left out) ...", text.substr(end));
}

}  // namespace dlpipe
