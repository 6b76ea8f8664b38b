// Any bytes as the body of an infer request. What is accepted must be what its shapes say, and must survive being sent back.
//
// The first byte says how the body is sent: 'j' as JSON, 'i' as an image, and otherwise as JSON up to the first line feed and
// binary tensors after it.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/kserve.h"

namespace dlpipe::serve {
namespace {

void check(std::string_view text) {
  if (text.empty()) return;
  const char kind = text[0];
  const std::string_view body = text.substr(1);
  std::optional<size_t> json_bytes;
  if (kind == 'i') json_bytes = 0;
  if (kind != 'i' && kind != 'j') {
    const size_t feed = body.find('\n');
    json_bytes = feed == std::string_view::npos ? body.size() : feed + 1;
  }
  auto request = parse_infer_request(body, json_bytes, "image");
  if (!request.ok()) return;
  Answer answer{.model = "m", .version = "1", .outputs = request->inputs, .classes = {"a", "b"}};
  for (const WireTensor& tensor : answer.outputs) {
    uint64_t elements = 1;
    for (const int64_t size : tensor.shape) elements *= static_cast<uint64_t>(size);
    if (tensor.datatype == "BYTES") {
      const auto parts = byte_elements(tensor);
      if (!parts.ok() || parts->size() != elements) std::abort();
    } else if (tensor.bytes.size() != elements * element_bytes(tensor.datatype)) {
      std::abort();
    }
  }
  const auto named = [](const WireTensor& a, const WireTensor& b) { return a.name < b.name; };
  std::vector<WireTensor> sorted = answer.outputs;
  std::ranges::sort(sorted, named);
  const auto same = [](const WireTensor& a, const WireTensor& b) { return a.name == b.name; };
  if (std::ranges::adjacent_find(sorted, same) != sorted.end())
    return;  // outputs of an answer have different names
  const auto encoded = encode(*request, answer);
  if (encoded.ok() &&
      !formats::Json::parse(encoded->body.substr(0, encoded->json_bytes.value_or(encoded->body.size()))).ok())
    std::abort();
  request->wants_binary = true;
  request->outputs.clear();
  const auto binary = encode(*request, answer);
  if (!binary.ok() || !binary->json_bytes) std::abort();
  const auto json = formats::Json::parse(std::string_view(binary->body).substr(0, *binary->json_bytes));
  if (!json.ok()) std::abort();
  const std::string inputs = "{\"inputs\":" + (*json)["outputs"].dump() + "}";
  const auto again =
      parse_infer_request(inputs + binary->body.substr(*binary->json_bytes), inputs.size(), "");
  // A name that is not UTF-8 is written with U+FFFD.
  if (!again.ok() || again->inputs.size() != answer.outputs.size()) std::abort();
  for (size_t i = 0; i < again->inputs.size(); ++i) {
    if (again->inputs[i].bytes != answer.outputs[i].bytes ||
        again->inputs[i].shape != answer.outputs[i].shape)
      std::abort();
  }
}

}  // namespace
}  // namespace dlpipe::serve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dlpipe::serve::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
