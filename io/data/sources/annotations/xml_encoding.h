// The text of an XML file as UTF-8, whatever encoding its first line declares. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

/// Whether the bytes are of UTF-16 or UTF-32, by their first ones.
bool is_wide(std::span<const std::byte> xml);
/// `xml` as UTF-8, from the encoding that its first line declares, one of those that browsers know; what is_wide() stays as it is.
/// Where none is declared the bytes are taken for UTF-8, and not looked at. kUnsupported names an encoding that isn't known,
/// kCorrupt a byte that isn't of it.
Result<std::string> xml_as_utf8(std::span<const std::byte> xml);

}  // namespace dlpipe::data
