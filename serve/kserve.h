// The messages of KServe's v2 inference protocol over HTTP (open inference protocol), with Triton's extension for binary tensors:
// requests as values, and answers as bodies.
//
// A body is JSON, followed by the bytes of tensors that are not in it. The header Inference-Header-Content-Length has the size of
// the JSON; 0 means that the whole body is the only element of the model's only input, such as the bytes of a JPEG. Bytes come
// from strangers: sizes are checked before memory is allocated, and messages say which input is wrong. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"
#include "io/formats/json.h"

namespace dlpipe::serve {

/// The maximum number of elements of a BYTES input.
inline constexpr int64_t kMostElements = 4096;
/// The maximum number of elements of an output that is written as JSON, where each takes about a hundred bytes of memory.
inline constexpr int64_t kMostJsonElements = int64_t{1} << 22;

/// A tensor in a message. `bytes` are its elements in row-major order, little-endian. BYTES elements each begin with their
/// number of bytes as u32.
struct WireTensor {
  std::string name;
  std::string datatype;  // "FP32", "INT64", "UINT8", "BYTES"
  std::vector<int64_t> shape;
  std::string bytes;
};

struct RequestedOutput {
  std::string name;
  std::optional<bool> is_binary = {};
  /// Triton's classification extension: if above 0, the output becomes BYTES, the `classes` largest values of each row as
  /// "value:index:name".
  int64_t classes = 0;
};

struct InferRequest {
  std::string id;
  std::vector<WireTensor> inputs;
  std::vector<RequestedOutput> outputs;  // empty: all
  bool wants_binary = false;             // for outputs that do not say it themselves
  /// The client's limit for the whole request, from the parameter `timeout` (microseconds); 0: none.
  int64_t timeout_us = 0;
};

/// Reads a body. `json_bytes`: the value of Inference-Header-Content-Length; nullopt: the header is absent, and the body is JSON.
/// `only_input`: the name of the model's input, for a body without JSON. kMisuse: a request that breaks the protocol.
Result<InferRequest> parse_infer_request(std::string_view body, std::optional<size_t> json_bytes,
                                         std::string_view only_input);

/// The elements of a BYTES tensor, which refer to its memory. kMisuse if their number is not that of the shape.
Result<std::vector<std::string_view>> byte_elements(const WireTensor& tensor);
/// A BYTES tensor of these elements.
WireTensor bytes_tensor(std::string name, std::vector<int64_t> shape, std::span<const std::string> elements);
/// The bytes per element of a datatype; 0 for BYTES and for unknown ones.
size_t element_bytes(std::string_view datatype);

struct Answer {
  std::string model, version;
  std::vector<WireTensor> outputs;
  std::vector<std::string>
      classes;  // names of the last axis' elements, for the classification extension; may be empty
};

struct EncodedAnswer {
  std::string body;
  std::optional<size_t> json_bytes;  // if the body has binary tensors
};

/// The body for `request`: its outputs in its order. kMisuse if it asks for an output that the answer does not have, or for more
/// than JSON can hold.
Result<EncodedAnswer> encode(const InferRequest& request, const Answer& answer);

/// {"error": message}
std::string error_body(std::string_view message);

}  // namespace dlpipe::serve
