#include "serve/kserve.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/messages.h"

namespace dlpipe::serve {

using formats::Json;

namespace {

constexpr size_t kMostTensors = 64;
constexpr size_t kMostAxes = 8;
constexpr int64_t kMostWireElements = int64_t{1} << 32;

struct Datatype {
  std::string_view name;
  size_t bytes;
};
constexpr std::array kDatatypes = {Datatype{"BOOL", 1},  Datatype{"UINT8", 1}, Datatype{"INT8", 1},
                                   Datatype{"INT32", 4}, Datatype{"INT64", 8}, Datatype{"FP32", 4},
                                   Datatype{"FP64", 8}};

template <class... Parts>
Status wrong(const Parts&... parts) {
  return misuse("serve", parts...);
}

template <class T>
void append_raw(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

Result<int64_t> elements_of(const WireTensor& tensor) {
  int64_t count = 1;
  for (const int64_t size : tensor.shape) {
    if (size < 0) return wrong("input ", in_quotes(tensor.name), " has a shape with ", size);
    if (size > 0 && count > kMostWireElements / size)
      return wrong("input ", in_quotes(tensor.name), " has a shape of more than ", kMostWireElements,
                   " elements");
    count *= size;
  }
  return count;
}

/// Appends the numbers or texts of "data", which may be nested like the shape.
Status append_data(const Json& data, WireTensor& tensor, int depth = 0) {
  if (data.is_array()) {
    if (depth > static_cast<int>(kMostAxes))
      return wrong("data of input ", in_quotes(tensor.name), " is nested too deeply");
    for (const Json& item : data.items()) DLPIPE_RETURN_IF_ERROR(append_data(item, tensor, depth + 1));
    return {};
  }
  const auto refuse = [&] {
    return wrong("data of input ", in_quotes(tensor.name), " is ", tensor.datatype, ", but has ",
                 shortened(printable(data.dump()), 40));
  };
  if (tensor.datatype == "BYTES") {
    if (!data.is_string()) return refuse();
    append_raw(tensor.bytes, static_cast<uint32_t>(data.as_string().size()));
    tensor.bytes += data.as_string();
    return {};
  }
  if (tensor.datatype == "BOOL") {
    if (!data.is_bool()) return refuse();
    tensor.bytes += static_cast<char>(data.as_bool());
    return {};
  }
  if (!data.is_number()) return refuse();
  if (tensor.datatype == "FP32") {
    append_raw(tensor.bytes, static_cast<float>(data.as_double()));
  } else if (tensor.datatype == "FP64") {
    append_raw(tensor.bytes, data.as_double());
  } else {
    if (!data.is_integer()) return refuse();
    const int64_t value = data.as_int();
    const auto fits = [&](auto low, auto high) { return value >= low && value <= high; };
    if (tensor.datatype == "INT64") {
      append_raw(tensor.bytes, value);
    } else if (tensor.datatype == "INT32" && fits(INT32_MIN, INT32_MAX)) {
      append_raw(tensor.bytes, static_cast<int32_t>(value));
    } else if (tensor.datatype == "INT8" && fits(-128, 127)) {
      append_raw(tensor.bytes, static_cast<int8_t>(value));
    } else if (tensor.datatype == "UINT8" && fits(0, 255)) {
      append_raw(tensor.bytes, static_cast<uint8_t>(value));
    } else {
      return refuse();
    }
  }
  return {};
}

/// A member's integer, at least 0; nullopt if there is no such member.
Result<std::optional<int64_t>> whole_number(const Json& object, std::string_view key) {
  if (!object.contains(key)) return std::optional<int64_t>();
  const Json& value = object[key];
  if (!value.is_integer() || value.as_int() < 0)
    return wrong("parameter '", key, "' must be a whole number, but is ",
                 shortened(printable(value.dump()), 40));
  return std::optional<int64_t>(value.as_int());
}

/// Reads one input; `rest` are the bytes after the JSON that are not yet taken.
Result<WireTensor> parse_input(const Json& input, std::string_view& rest) {
  WireTensor tensor;
  if (!input.is_object() || !input["name"].is_string() || !input["datatype"].is_string() ||
      !input["shape"].is_array())
    return wrong("each of 'inputs' needs 'name', 'datatype' and 'shape'");
  tensor.name = input["name"].as_string();
  tensor.datatype = input["datatype"].as_string();
  if (tensor.datatype != "BYTES" && element_bytes(tensor.datatype) == 0)
    return wrong("input ", in_quotes(tensor.name), " has datatype ", in_quotes(tensor.datatype),
                 ", which is not supported; use BYTES, UINT8, INT8, INT32, INT64, FP32, FP64 or BOOL");
  if (input["shape"].items().size() > kMostAxes)
    return wrong("input ", in_quotes(tensor.name), " has more than ", kMostAxes, " axes");
  for (const Json& size : input["shape"].items()) {
    if (!size.is_integer())
      return wrong("input ", in_quotes(tensor.name), " has a shape that is not of whole numbers");
    tensor.shape.push_back(size.as_int());
  }
  DLPIPE_ASSIGN_OR_RETURN(const int64_t elements, elements_of(tensor));
  DLPIPE_ASSIGN_OR_RETURN(const auto size, whole_number(input["parameters"], "binary_data_size"));
  if (size) {
    if (static_cast<uint64_t>(*size) > rest.size())
      return wrong("input ", in_quotes(tensor.name), " says binary_data_size ", *size, ", but only ",
                   rest.size(), " bytes follow");
    tensor.bytes = rest.substr(0, static_cast<size_t>(*size));
    rest.remove_prefix(static_cast<size_t>(*size));
  } else if (input["data"].is_array()) {
    DLPIPE_RETURN_IF_ERROR(append_data(input["data"], tensor));
  } else {
    return wrong("input ", in_quotes(tensor.name),
                 " has neither 'data' nor the parameter 'binary_data_size'");
  }
  if (tensor.datatype == "BYTES") {
    if (elements > kMostElements)
      return wrong("input ", in_quotes(tensor.name), " has ", elements, " elements; at most ", kMostElements,
                   " are accepted in a request");
    DLPIPE_RETURN_IF_ERROR(byte_elements(tensor).status());
  } else if (tensor.bytes.size() != static_cast<uint64_t>(elements) * element_bytes(tensor.datatype)) {
    return wrong("input ", in_quotes(tensor.name), " has ",
                 tensor.bytes.size() / element_bytes(tensor.datatype), " elements, and its shape ", elements);
  }
  return tensor;
}

Result<RequestedOutput> parse_output(const Json& output) {
  if (!output.is_object() || !output["name"].is_string()) return wrong("each of 'outputs' needs a 'name'");
  RequestedOutput wanted{.name = output["name"].as_string()};
  const Json& parameters = output["parameters"];
  if (parameters.contains("binary_data")) wanted.is_binary = parameters["binary_data"].as_bool();
  DLPIPE_ASSIGN_OR_RETURN(const auto classes, whole_number(parameters, "classification"));
  wanted.classes = classes.value_or(0);
  return wanted;
}

}  // namespace

size_t element_bytes(std::string_view datatype) {
  for (const Datatype& known : kDatatypes)
    if (known.name == datatype) return known.bytes;
  return 0;
}

Result<std::vector<std::string_view>> byte_elements(const WireTensor& tensor) {
  DLPIPE_ASSIGN_OR_RETURN(const int64_t count, elements_of(tensor));
  std::vector<std::string_view> elements;
  std::string_view rest = tensor.bytes;
  while (!rest.empty()) {
    uint32_t size = 0;
    if (rest.size() < sizeof size || elements.size() == static_cast<size_t>(count))
      return wrong("input ", in_quotes(tensor.name), " has bytes after its last element");
    std::memcpy(&size, rest.data(), sizeof size);
    rest.remove_prefix(sizeof size);
    if (size > rest.size())
      return wrong("element ", elements.size(), " of input ", in_quotes(tensor.name), " says ", size,
                   " bytes, but only ", rest.size(), " follow");
    elements.push_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  if (elements.size() != static_cast<size_t>(count))
    return wrong("input ", in_quotes(tensor.name), " has ", elements.size(), " elements, and its shape ",
                 count);
  return elements;
}

WireTensor bytes_tensor(std::string name, std::vector<int64_t> shape, std::span<const std::string> elements) {
  WireTensor tensor{std::move(name), "BYTES", std::move(shape), {}};
  for (const std::string& element : elements) {
    append_raw(tensor.bytes, static_cast<uint32_t>(element.size()));
    tensor.bytes += element;
  }
  return tensor;
}

Result<InferRequest> parse_infer_request(std::string_view body, std::optional<size_t> json_bytes,
                                         std::string_view only_input) {
  InferRequest request;
  if (json_bytes == 0) {
    if (only_input.empty())
      return wrong("this model has several inputs, so that the body needs JSON that names them");
    if (body.empty()) return wrong("the request has no body");
    if (body.size() > std::numeric_limits<uint32_t>::max()) return wrong("the body has more than 4 GiB");
    const std::array element = {std::string(body)};
    request.inputs.push_back(bytes_tensor(std::string(only_input), {1}, element));
    return request;
  }
  if (json_bytes && *json_bytes > body.size())
    return wrong("Inference-Header-Content-Length is ", *json_bytes, ", but the body has only ", body.size(),
                 " bytes");
  std::string_view rest = body.substr(json_bytes.value_or(body.size()));
  const Result<Json> parsed = Json::parse(body.substr(0, json_bytes.value_or(body.size())));
  if (!parsed.ok()) return wrong("the request is not valid JSON: ", without_area(parsed.status().message()));
  const Json& json = *parsed;
  if (!json.is_object() || !json["inputs"].is_array() || json["inputs"].items().empty())
    return wrong("the request needs 'inputs', a list of tensors");
  if (json["inputs"].items().size() > kMostTensors || json["outputs"].items().size() > kMostTensors)
    return wrong("the request has more than ", kMostTensors, " inputs or outputs");
  request.id = json["id"].as_string();
  request.wants_binary = json["parameters"]["binary_data_output"].as_bool();
  DLPIPE_ASSIGN_OR_RETURN(const auto timeout, whole_number(json["parameters"], "timeout"));
  request.timeout_us = timeout.value_or(0);
  for (const Json& input : json["inputs"].items()) {
    DLPIPE_ASSIGN_OR_RETURN(WireTensor tensor, parse_input(input, rest));
    request.inputs.push_back(std::move(tensor));
  }
  if (!rest.empty()) return wrong(rest.size(), " bytes follow the last input");
  for (const Json& output : json["outputs"].items()) {
    DLPIPE_ASSIGN_OR_RETURN(RequestedOutput wanted, parse_output(output));
    if (std::ranges::find(request.outputs, wanted.name, &RequestedOutput::name) != request.outputs.end())
      return wrong("output ", in_quotes(wanted.name), " is requested twice");
    request.outputs.push_back(std::move(wanted));
  }
  return request;
}

// ---- answers

namespace {

template <class T>
T element(const WireTensor& tensor, size_t index) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + index * sizeof value, sizeof value);
  return value;
}

/// The shortest text that reads back as the same float.
std::string short_text(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

/// The double with the shortest text, so that 0.1f is written as 0.1.
double short_double(float value) {
  const std::string text = short_text(value);
  double read = value;
  std::from_chars(text.data(), text.data() + text.size(), read);
  return read;
}

Json data_of(const WireTensor& tensor) {
  Json data = Json::array();
  if (tensor.datatype == "BYTES") {
    const auto elements = byte_elements(tensor);
    for (const std::string_view one : elements.ok() ? *elements : std::vector<std::string_view>())
      data.push_back(one);
    return data;
  }
  const size_t count = tensor.bytes.size() / element_bytes(tensor.datatype);
  for (size_t i = 0; i < count; ++i) {
    if (tensor.datatype == "FP32") {
      data.push_back(short_double(element<float>(tensor, i)));
    } else if (tensor.datatype == "INT64") {
      data.push_back(element<int64_t>(tensor, i));
    } else {
      data.push_back(static_cast<int64_t>(element<uint8_t>(tensor, i)));
    }
  }
  return data;
}

/// The `count` largest of each row, as "value:index:name".
Result<WireTensor> classification(const WireTensor& tensor, int64_t count,
                                  const std::vector<std::string>& names) {
  if (tensor.datatype != "FP32" || tensor.shape.size() != 2)
    return wrong("output ", in_quotes(tensor.name), " has no classes; leave out 'classification'");
  const auto rows = static_cast<size_t>(tensor.shape[0]), columns = static_cast<size_t>(tensor.shape[1]);
  const size_t kept = std::min(static_cast<size_t>(count), columns);
  std::vector<std::string> texts;
  std::vector<size_t> order(columns);
  for (size_t row = 0; row < rows; ++row) {
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return element<float>(tensor, row * columns + a) > element<float>(tensor, row * columns + b);
    });
    for (size_t k = 0; k < kept; ++k) {
      const size_t c = order[k];
      texts.push_back(concat(short_text(element<float>(tensor, row * columns + c)), ":", c,
                             c < names.size() ? ":" + names[c] : ""));
    }
  }
  return bytes_tensor(tensor.name, {tensor.shape[0], static_cast<int64_t>(kept)}, texts);
}

}  // namespace

Result<EncodedAnswer> encode(const InferRequest& request, const Answer& answer) {
  std::vector<RequestedOutput> wanted = request.outputs;
  if (wanted.empty())
    for (const WireTensor& output : answer.outputs) wanted.push_back({.name = output.name});
  Json outputs = Json::array();
  std::string tail;
  bool has_binary = false;
  for (const RequestedOutput& one : wanted) {
    const auto found = std::ranges::find(answer.outputs, one.name, &WireTensor::name);
    if (found == answer.outputs.end()) {
      std::vector<std::string> names;
      for (const WireTensor& output : answer.outputs) names.push_back(output.name);
      return wrong("there is no output ", in_quotes(one.name), "; the model has ", quoted_names(names));
    }
    WireTensor classes;
    const WireTensor* tensor = &*found;
    if (one.classes > 0) {
      DLPIPE_ASSIGN_OR_RETURN(classes, classification(*found, one.classes, answer.classes));
      tensor = &classes;
    }
    Json shape = Json::array();
    for (const int64_t size : tensor->shape) shape.push_back(size);
    Json output = Json::object({{"name", tensor->name}, {"datatype", tensor->datatype}, {"shape", shape}});
    if (one.is_binary.value_or(request.wants_binary)) {
      has_binary = true;
      output.set("parameters",
                 Json::object({{"binary_data_size", static_cast<int64_t>(tensor->bytes.size())}}));
      tail += tensor->bytes;
    } else {
      if (tensor->datatype != "BYTES" &&
          tensor->bytes.size() / element_bytes(tensor->datatype) > kMostJsonElements)
        return wrong("output ", in_quotes(tensor->name), " has more than ", kMostJsonElements,
                     " elements; ask for it with the parameter 'binary_data'");
      output.set("data", data_of(*tensor));
    }
    outputs.push_back(std::move(output));
  }
  Json json = Json::object({{"model_name", answer.model}, {"model_version", answer.version}});
  if (!request.id.empty()) json.set("id", request.id);
  json.set("outputs", std::move(outputs));
  EncodedAnswer encoded{json.dump(), {}};
  if (has_binary) {
    encoded.json_bytes = encoded.body.size();
    encoded.body += tail;
  }
  return encoded;
}

std::string error_body(std::string_view message) {
  return Json::object({{"error", printable(message)}}).dump();
}

}  // namespace dlpipe::serve
