// Any bytes as a dataset's description, and what follows it as a record of that schema.
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "io/data/record.h"
#include "io/data/schema.h"

namespace dlpipe::data {
namespace {

void check(std::string_view bytes) {
  const size_t end = bytes.find('\0');
  const auto info = parse_dataset_info(bytes.substr(0, end));
  if (!info.ok()) return;
  const std::string_view rest = end == std::string_view::npos ? std::string_view() : bytes.substr(end + 1);
  const RecordLayout layout(info->schema.fields);
  for (size_t i = 0; i < layout.field_count(); ++i) {
    (void)layout.field(std::as_bytes(std::span(rest.data(), rest.size())), i);
  }
  (void)to_json(*info);
}

}  // namespace
}  // namespace dlpipe::data

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dlpipe::data::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
