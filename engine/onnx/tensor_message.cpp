#include "dlpipe/engine/onnx/tensor_message.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "dlpipe/base/regular_file.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/formats/protobuf.h"

namespace dlpipe::engine::onnx {

namespace {

using formats::ProtobufField;
using formats::ProtobufReader;

constexpr int64_t kMostElements = int64_t{1} << 34;

template <class To, class From>
std::string packed(const std::vector<From>& values) {
  std::string bytes(values.size() * sizeof(To), '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    const To value = static_cast<To>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(To), &value, sizeof(To));
  }
  return bytes;
}

// Numbers that stand in fields of their own instead of raw bytes.
std::string bytes_of_numbers(ElementType type, const std::vector<float>& floats,
                             const std::vector<int64_t>& ints, const std::vector<double>& doubles) {
  switch (type) {
    case ElementType::kFloat:
      return packed<float>(floats);
    case ElementType::kDouble:
      return packed<double>(doubles);
    case ElementType::kInt64:
      return packed<int64_t>(ints);
    case ElementType::kInt32:
      return packed<int32_t>(ints);
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
      return packed<uint16_t>(ints);
    case ElementType::kUint8:
    case ElementType::kBool:
      return packed<uint8_t>(ints);
    case ElementType::kInt8:
      return packed<int8_t>(ints);
    default:
      return {};
  }
}

// A part of a file beside the model.
struct Outside {
  std::string location;
  int64_t offset = 0;
  int64_t length = -1;
};

Result<std::string> read_outside(const Outside& part, BesideModel& beside, uint64_t expected,
                                 const std::string& name) {
  namespace fs = std::filesystem;
  const fs::path location = part.location;
  bool is_inside = !part.location.empty() && location.is_relative();
  for (const fs::path& piece : location) is_inside = is_inside && piece != "..";
  if (beside.folder.empty() || !is_inside)
    return Status(ErrorCode::kUnsupported,
                  concat("[onnx] tensor '", name, "' lies in '", part.location,
                         "', which is no file beside the model; export it as one file"));
  const std::string path = (fs::path(beside.folder) / location).string();
  const auto file = RegularFile::open("onnx", path);
  if (!file.ok()) {
    return Status(file.status().code(), concat(file.status().message(), "; tensor '", name,
                                               "' lies in it: move it beside the model"));
  }
  const uint64_t size = file->stamp().size_bytes;
  if (part.offset < 0 || static_cast<uint64_t>(part.offset) > size ||
      size - static_cast<uint64_t>(part.offset) < expected ||
      (part.length >= 0 && static_cast<uint64_t>(part.length) != expected))
    return corrupt(concat("tensor '", name, "' goes past the end of ", path));
  if (beside.is_counting) {
    beside.bytes = beside.bytes > UINT64_MAX - expected ? UINT64_MAX : beside.bytes + expected;
    return std::string();
  }
  std::string bytes(expected, '\0');
  for (uint64_t done = 0; done < expected;) {
    const ssize_t got = ::pread(file->fd(), bytes.data() + done, expected - done,
                                static_cast<off_t>(part.offset + static_cast<int64_t>(done)));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return corrupt(concat(path, " can't be read"));
    done += static_cast<uint64_t>(got);
  }
  return bytes;
}

// A tensor as its message has it: the elements as raw bytes, as numbers, or in a file beside the model.
struct TensorMessage {
  TensorValue tensor;
  bool is_raw = false;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<double> doubles;
  bool is_outside = false;
  Outside outside;
};

Status parse_outside(std::string_view message, Outside& outside) {
  DLPIPE_ASSIGN_OR_RETURN(const auto entry, parse_entry(message));
  int64_t number = 0;
  const bool is_number = parse_int(entry.second, &number);
  if (entry.first == "location") outside.location = entry.second;
  if (entry.first == "offset" && is_number) outside.offset = number;
  if (entry.first == "length" && is_number) outside.length = number;
  return {};
}

Status parse_tensor_field(const ProtobufField& field, TensorMessage& message) {
  TensorValue& tensor = message.tensor;
  switch (field.number) {
    case 1:
      return formats::append_varints(field, tensor.dims);
    case 2:
      tensor.type = static_cast<ElementType>(static_cast<int32_t>(field.value));
      return {};
    case 4:
      return formats::append_floats(field, message.floats);
    case 5:
    case 7:
      return formats::append_varints(field, message.ints);
    case 8:
      tensor.name = field.bytes;
      return {};
    case 9:
      tensor.bytes = field.bytes;
      message.is_raw = true;
      return {};
    case 10:
      return formats::append_doubles(field, message.doubles);
    case 13:
      return parse_outside(field.bytes, message.outside);
    case 14:
      message.is_outside = field.value == 1;
      return {};
    default:
      return {};
  }
}

Result<uint64_t> bytes_by_sizes(std::string_view name, const TensorValue& tensor) {
  if (tensor.dims.size() > kMostAxes)
    return corrupt(concat("tensor '", name, "' has ", tensor.dims.size(), " axes"));
  int64_t most = 1;  // as if none of the sizes were 0
  for (const int64_t size : tensor.dims) {
    const int64_t factor = std::max<int64_t>(size, 1);
    if (size < 0 || most > kMostElements / factor)
      return corrupt(concat("tensor '", name, "' has impossible sizes"));
    most *= factor;
  }
  const size_t element = element_size(tensor.type);
  if (element == 0) {
    return Status(ErrorCode::kUnsupported,
                  concat("[onnx] tensor '", name, "' has elements of type ", element_type_name(tensor.type),
                         ", which dlpipe lacks; export it as float"));
  }
  return static_cast<uint64_t>(tensor.elements()) * element;
}

}  // namespace

Status corrupt(std::string_view what) {
  return {ErrorCode::kCorrupt, concat("[onnx] ", what, "; export the model again")};
}

Result<std::pair<std::string, std::string>> parse_entry(std::string_view message) {
  std::pair<std::string, std::string> entry;
  for (ProtobufReader reader(message); !reader.at_end();) {
    DLPIPE_ASSIGN_OR_RETURN(const ProtobufField field, reader.next());
    if (field.number == 1) entry.first = field.bytes;
    if (field.number == 2) entry.second = field.bytes;
  }
  return entry;
}

Status check_bytes(std::string_view name, const TensorValue& tensor) {
  DLPIPE_ASSIGN_OR_RETURN(const uint64_t expected, bytes_by_sizes(name, tensor));
  if (tensor.bytes.size() == expected) return {};
  return corrupt(concat("tensor '", name, "' has ", tensor.bytes.size(), " bytes, its sizes say ", expected));
}

Result<TensorValue> parse_tensor(std::string_view bytes, BesideModel& beside) {
  TensorMessage message;
  for (ProtobufReader reader(bytes); !reader.at_end();) {
    DLPIPE_ASSIGN_OR_RETURN(const ProtobufField field, reader.next());
    DLPIPE_RETURN_IF_ERROR(parse_tensor_field(field, message));
  }
  TensorValue& tensor = message.tensor;
  if (message.is_outside) {
    DLPIPE_ASSIGN_OR_RETURN(const uint64_t expected, bytes_by_sizes(tensor.name, tensor));
    DLPIPE_ASSIGN_OR_RETURN(tensor.bytes, read_outside(message.outside, beside, expected, tensor.name));
    if (beside.is_counting) return std::move(tensor);
  } else if (!message.is_raw) {
    tensor.bytes = bytes_of_numbers(tensor.type, message.floats, message.ints, message.doubles);
  }
  DLPIPE_RETURN_IF_ERROR(check_bytes(tensor.name, tensor));
  return std::move(tensor);
}

size_t element_size(ElementType type) {
  switch (type) {
    case ElementType::kUint8:
    case ElementType::kInt8:
    case ElementType::kBool:
      return 1;
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
      return 2;
    case ElementType::kFloat:
    case ElementType::kInt32:
      return 4;
    case ElementType::kDouble:
    case ElementType::kInt64:
      return 8;
    default:
      return 0;
  }
}

std::string element_type_name(ElementType type) {
  static constexpr std::array<std::string_view, 24> kNames = {
      "undefined",      "float32",    "uint8",          "int8",       "uint16",   "int16",
      "int32",          "int64",      "string",         "bool",       "float16",  "float64",
      "uint32",         "uint64",     "complex64",      "complex128", "bfloat16", "float8e4m3fn",
      "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4",      "int4",     "float4e2m1"};
  const auto index = static_cast<size_t>(type);
  return index < kNames.size() ? std::string(kNames[index]) : concat("type ", static_cast<int>(type));
}

int64_t TensorValue::elements() const {
  int64_t product = 1;
  for (const int64_t size : dims) product *= size;
  return product;
}

}  // namespace dlpipe::engine::onnx
