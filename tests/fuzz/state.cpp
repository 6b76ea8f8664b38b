// Any text as the state.json of a checkpoint. What is read must be written and read as the same again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "run/record/checkpoint.h"

namespace dlpipe::run {
namespace {

void check(std::string_view text) {
  const auto json = formats::Json::parse(text);
  if (!json.ok()) return;
  (void)check_checksum(*json, "state.json", "take another checkpoint");
  const auto state = checkpoint_state_from_json(*json, "state.json");
  if (!state.ok()) return;
  const formats::Json written = with_checksum(to_json(*state));
  if (!check_checksum(written, "state.json", "").ok()) std::abort();
  const auto again = checkpoint_state_from_json(written, "state.json");
  if (!again.ok() || with_checksum(to_json(*again)) != written) std::abort();
}

}  // namespace
}  // namespace dlpipe::run

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dlpipe::run::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
