// Any text as JSON, and as the header of a safetensors file. What parses as JSON must dump and parse to
// itself.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "io/formats/json.h"
#include "io/formats/safetensors.h"

namespace dlpipe::formats {
namespace {

void check(std::string_view text) {
  if (const auto value = Json::parse(text); value.ok()) {
    const auto again = Json::parse(value->dump());
    // Doubles that overflow become null, and bytes that are no UTF-8 change; a second round changes nothing.
    if (!again.ok() || again->dump() != value->dump()) std::abort();
  }
  const auto header = parse_safetensors_header(text, 24);
  if (!header.ok()) return;
  for (const SafetensorsEntry& entry : header->entries) {
    if (entry.begin > entry.end || entry.end > 24) std::abort();
  }
}

}  // namespace
}  // namespace dlpipe::formats

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dlpipe::formats::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
