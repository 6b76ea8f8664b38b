// Any text as a TOML configuration; what is read must be written and read back as the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "dlpipe/config.h"
#include "run/config/config.h"

namespace dlpipe::run {
namespace {

void check(std::string_view text) {
  TrainConfig config;
  if (!parse_config(text, "fuzz.toml", config).ok()) return;
  TrainConfig again;
  if (!parse_config(write_config(config), "again.toml", again).ok() || !(again == config)) std::abort();
}

}  // namespace
}  // namespace dlpipe::run

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dlpipe::run::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
