#include "engine/onnx/tensor_message.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/messages.h"
#include "base/text.h"
#include "io/formats/protobuf.h"

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

// Numbers in separate fields instead of raw bytes.
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

// A part of a file next to the model, as described by its entries.
struct Outside {
  std::map<std::string, std::string, std::less<>> entries;

  std::string_view of(std::string_view key) const {
    const auto found = entries.find(key);
    return found == entries.end() ? std::string_view() : std::string_view(found->second);
  }
};

// ONNX writes them in decimal. An invalid offset must not become 0, or other weights would be read.
Result<uint64_t> whole_number(const Outside& part, std::string_view key, uint64_t otherwise,
                              const std::string& name) {
  if (!part.entries.contains(key)) return otherwise;
  const std::string_view text = part.of(key);
  int64_t number = 0;
  if (parse_int(text, &number) && number >= 0) return static_cast<uint64_t>(number);
  return corrupt(concat("tensor ", in_quotes(name), " has the data ", key, " ", in_quotes(text),
                        ", which is not a whole number of at least 0"));
}

std::string lies_in_it(const std::string& name) {
  return concat("; tensor ", in_quotes(name), " is in it: move it next to the model");
}

bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

/// The file with all links followed, which must be in the model's folder. If the model is a link, its weights may be next to
/// the target, as in the cache of Hugging Face.
Result<std::string> file_beside(const Outside& part, const BesideModel& beside, const std::string& name) {
  namespace fs = std::filesystem;
  const std::string_view location = part.of("location");
  const auto refused = [&](std::string_view why) {
    return Status(ErrorCode::kUnsupported,
                  concat("[onnx] tensor ", in_quotes(name), " is in ", in_quotes(location), ", which ", why,
                         "; export it as one file"));
  };
  const fs::path relative = location;
  bool is_inside =
      !location.empty() && location.find('\0') == std::string_view::npos && relative.is_relative();
  for (const fs::path& piece : relative) is_inside = is_inside && piece != "..";
  if (beside.folder.empty() || !is_inside) return refused("is not a file next to the model");
  std::error_code error;
  const fs::path found = fs::canonical(fs::path(beside.folder) / relative, error);
  if (error) {
    const Status status = status_from_errno(
        "onnx", concat("cannot open ", (fs::path(beside.folder) / relative).string()), error.value());
    return Status(status.code(), concat(status.message(), lies_in_it(name)));
  }
  for (const std::string* const folder : {&beside.folder, &beside.linked_folder}) {
    if (!folder->empty() && is_below(found, fs::canonical(*folder, error)) && !error) return found.string();
  }
  return refused("is a link to a file outside of the model's folder");
}

Result<std::string> read_outside(const Outside& part, BesideModel& beside, uint64_t expected,
                                 const std::string& name) {
  DLPIPE_ASSIGN_OR_RETURN(const std::string path, file_beside(part, beside, name));
  DLPIPE_ASSIGN_OR_RETURN(const uint64_t offset, whole_number(part, "offset", 0, name));
  DLPIPE_ASSIGN_OR_RETURN(const uint64_t length, whole_number(part, "length", expected, name));
  const auto file = RegularFile::open("onnx", path);
  if (!file.ok()) {
    return Status(file.status().code(), concat(file.status().message(), lies_in_it(name)));
  }
  const uint64_t size = file->stamp().size_bytes;
  if (length != expected)
    return corrupt(concat("tensor ", in_quotes(name), " has ", length, " bytes in ", printable(path),
                          ", but its shape needs ", expected));
  if (offset > size || size - offset < expected)
    return corrupt(concat("tensor ", in_quotes(name), " extends past the end of ", printable(path)));
  if (beside.is_counting) {
    beside.bytes = beside.bytes > UINT64_MAX - expected ? UINT64_MAX : beside.bytes + expected;
    return std::string();
  }
  std::string bytes(expected, '\0');
  for (uint64_t done = 0; done < expected;) {
    const ssize_t got =
        ::pread(file->fd(), bytes.data() + done, expected - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return corrupt(concat(printable(path), " can't be read"));
    done += static_cast<uint64_t>(got);
  }
  return bytes;
}

// A tensor as in its message: with elements as raw bytes, as numbers, or in a file next to the model.
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
  DLPIPE_ASSIGN_OR_RETURN(auto entry, parse_entry(message));
  const std::string key = entry.first;
  if (outside.entries.insert(std::move(entry)).second) return {};
  return corrupt(concat("a tensor has two values for the ", in_quotes(key), " of its data"));
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
    return corrupt(concat("tensor ", in_quotes(name), " has ", tensor.dims.size(), " axes"));
  int64_t most = 1;  // the product of the sizes, with 1 for 0
  for (const int64_t size : tensor.dims) {
    const int64_t factor = std::max<int64_t>(size, 1);
    if (size < 0 || most > kMostElements / factor)
      return corrupt(concat("tensor ", in_quotes(name), " has impossible sizes"));
    most *= factor;
  }
  const size_t element = element_size(tensor.type);
  if (element == 0) {
    return Status(ErrorCode::kUnsupported, concat("[onnx] tensor ", in_quotes(name), " has elements of type ",
                                                  element_type_name(tensor.type),
                                                  ", which dlpipe doesn't support; export it as float"));
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
  return corrupt(concat("tensor ", in_quotes(name), " has ", tensor.bytes.size(),
                        " bytes, but its shape needs ", expected));
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
