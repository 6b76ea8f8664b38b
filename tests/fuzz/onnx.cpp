// Any bytes as an ONNX model: read, imported, and what is imported prints.
#include <cstdint>
#include <string_view>

#include "dlpipe/onnx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dlpipe::engine;
  const auto model = onnx::parse_model({reinterpret_cast<const char*>(data), size}, "");
  if (!model.ok()) return 0;
  try {
    graph::to_text(onnx::import_model(*model));
  } catch (const dlpipe::Error&) {
    return 0;
  }
  return 0;
}
