// The protocol's messages as bytes: what is read, what is refused, and what is written.
#include "serve/kserve.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

namespace dlpipe::serve {

using formats::Json;

namespace {

template <class T>
std::string raw(std::initializer_list<T> values) {
  std::string bytes;
  for (const T value : values) bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  return bytes;
}

/// A body of JSON alone.
Result<InferRequest> parse(const std::string& body) {
  return parse_infer_request(body, std::nullopt, "image");
}

/// The JSON of one input: its members after the name "x".
Result<InferRequest> parse_one(const std::string& members) {
  return parse("{\"inputs\":[{\"name\":\"x\"," + members + "}]}");
}

std::string bytes_of(const std::string& datatype, const std::string& shape, const std::string& data) {
  auto request = parse_one("\"datatype\":\"" + datatype + "\",\"shape\":" + shape + ",\"data\":" + data);
  EXPECT_TRUE(request.ok()) << request.status().message();
  return request.ok() ? request->inputs[0].bytes : "";
}

void expect_refused(const Result<InferRequest>& request, const std::string& part) {
  ASSERT_FALSE(request.ok()) << part;
  EXPECT_EQ(request.status().code(), ErrorCode::kMisuse) << request.status().message();
  EXPECT_NE(request.status().message().find(part), std::string::npos) << request.status().message();
}

/// An input with `data` for a datatype, in a shape of one element.
Result<InferRequest> parse_data(const std::string& datatype, const std::string& data) {
  return parse_one("\"datatype\":\"" + datatype + "\",\"shape\":[1],\"data\":[" + data + "]");
}

Answer small_answer() {
  Answer answer{.model = "m", .version = "3", .outputs = {}, .classes = {"cat", "dog", "owl"}};
  answer.outputs.push_back({"p", "FP32", {2, 3}, raw<float>({0.1F, 0.7F, 0.2F, 0.5F, 0.25F, 0.25F})});
  answer.outputs.push_back({"n", "INT64", {2}, raw<int64_t>({-5, INT64_MAX})});
  answer.outputs.push_back({"mask", "UINT8", {2, 2}, raw<uint8_t>({0, 1, 254, 255})});
  const std::array<std::string, 2> labels = {"dog", std::string("a\0b", 3)};
  answer.outputs.push_back(bytes_tensor("label", {2}, labels));
  return answer;
}

Json json_of(const Result<EncodedAnswer>& encoded) {
  EXPECT_TRUE(encoded.ok()) << encoded.status().message();
  if (!encoded.ok()) return {};
  const auto parsed =
      Json::parse(encoded->body.substr(0, encoded->json_bytes.value_or(encoded->body.size())));
  EXPECT_TRUE(parsed.ok()) << encoded->body;
  return parsed.ok() ? *parsed : Json();
}

}  // namespace

TEST(ParseInfer, ReadsEveryDatatypeFromJson) {
  EXPECT_EQ(bytes_of("BOOL", "[2]", "[true,false]"), std::string("\1\0", 2));
  EXPECT_EQ(bytes_of("UINT8", "[2]", "[0,255]"), std::string("\0\xff", 2));
  EXPECT_EQ(bytes_of("INT8", "[2]", "[-128,127]"), "\x80\x7f");
  EXPECT_EQ(bytes_of("INT32", "[2]", "[-2147483648,2147483647]"), raw<int32_t>({INT32_MIN, INT32_MAX}));
  EXPECT_EQ(bytes_of("INT64", "[2]", "[-9223372036854775808,9223372036854775807]"),
            raw<int64_t>({INT64_MIN, INT64_MAX}));
  EXPECT_EQ(bytes_of("FP32", "[3]", "[0.1,-2,1e3]"), raw<float>({0.1F, -2.0F, 1000.0F}));
  EXPECT_EQ(bytes_of("FP64", "[2]", "[0.1,7]"), raw<double>({0.1, 7.0}));
  EXPECT_EQ(bytes_of("BYTES", "[3]", "[\"a\",\"\",\"\\u0000\\u00e9\"]"),
            raw<uint32_t>({1}) + "a" + raw<uint32_t>({0, 3}) + std::string("\0\xc3\xa9", 3));
}

TEST(ParseInfer, ReadsNestedAndFlatDataAlike) {
  EXPECT_EQ(bytes_of("UINT8", "[2,2]", "[[1,2],[3,4]]"), "\1\2\3\4");
  EXPECT_EQ(bytes_of("UINT8", "[2,2]", "[1,2,3,4]"), "\1\2\3\4");
  EXPECT_EQ(bytes_of("UINT8", "[1,1,1,1,1,1,1,1]", "[[[[[[[[9]]]]]]]]"), "\x09");
  EXPECT_EQ(bytes_of("UINT8", "[]", "[9]"), "\x09");  // a scalar
  EXPECT_EQ(bytes_of("UINT8", "[0]", "[]"), "");
}

TEST(ParseInfer, ReadsEveryDatatypeFromBytesBehindTheJson) {
  const std::vector<std::pair<std::string, size_t>> sizes = {
      {"BOOL", 1}, {"UINT8", 1}, {"INT8", 1}, {"INT32", 4}, {"INT64", 8}, {"FP32", 4}, {"FP64", 8}};
  for (const auto& [datatype, size] : sizes) {
    EXPECT_EQ(element_bytes(datatype), size);
    const std::string tensor(3 * size, 'z');
    const std::string json =
        "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"" + datatype +
        "\",\"shape\":[3,1],\"parameters\":{\"binary_data_size\":" + std::to_string(tensor.size()) + "}}]}";
    const auto request = parse_infer_request(json + tensor, json.size(), "");
    ASSERT_TRUE(request.ok()) << request.status().message();
    EXPECT_EQ(request->inputs[0].bytes, tensor);
    EXPECT_EQ(request->inputs[0].shape, (std::vector<int64_t>{3, 1}));
    expect_refused(parse_infer_request(json + tensor.substr(1), json.size(), ""), "but only");
    expect_refused(parse_infer_request(json + tensor + "?", json.size(), ""),
                   "1 bytes follow the last input");
  }
  EXPECT_EQ(element_bytes("BYTES"), 0U);
  EXPECT_EQ(element_bytes("FP16"), 0U);
}

TEST(ParseInfer, GivesInputsTheirBytesInOrder) {
  const std::string json =
      "{\"inputs\":[{\"name\":\"a\",\"datatype\":\"UINT8\",\"shape\":[2],\"parameters\":{\"binary_data_"
      "size\":2}},"
      "{\"name\":\"b\",\"datatype\":\"UINT8\",\"shape\":[1],\"data\":[7]},"
      "{\"name\":\"c\",\"datatype\":\"BYTES\",\"shape\":[1,2],\"parameters\":{\"binary_data_size\":11}}]}";
  const std::string tail = "xy" + raw<uint32_t>({3}) + "abc" + raw<uint32_t>({0});
  const auto request = parse_infer_request(json + tail, json.size(), "");
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(request->inputs[0].bytes, "xy");
  EXPECT_EQ(request->inputs[1].bytes, "\7");
  const auto elements = byte_elements(request->inputs[2]);
  ASSERT_TRUE(elements.ok());
  EXPECT_EQ(*elements, (std::vector<std::string_view>{"abc", ""}));
}

TEST(ParseInfer, ABodyWithoutJsonIsTheOnlyInput) {
  const std::string body("\xff\xd8\0", 3);
  const auto request = parse_infer_request(body, 0, "image");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->inputs[0].name, "image");
  EXPECT_EQ(request->inputs[0].shape, (std::vector<int64_t>{1}));
  EXPECT_EQ(*byte_elements(request->inputs[0]), (std::vector<std::string_view>{body}));
  expect_refused(parse_infer_request(body, 0, ""), "several inputs");
  expect_refused(parse_infer_request("", 0, "image"), "no body");
}

TEST(ParseInfer, ReadsWhatIsAsked) {
  const auto request = parse(
      "{\"id\":\"r\\u00e9\",\"parameters\":{\"binary_data_output\":true,\"timeout\":5000,\"priority\":1},"
      "\"unknown\":{},"
      "\"inputs\":[{\"name\":\"x\",\"datatype\":\"UINT8\",\"shape\":[1],\"data\":[1]}],"
      "\"outputs\":[{\"name\":\"p\",\"parameters\":{\"binary_data\":false,\"classification\":3}},{\"name\":"
      "\"q\"}]}");
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(request->id, "r\xc3\xa9");
  EXPECT_TRUE(request->wants_binary);
  EXPECT_EQ(request->timeout_us, 5000);
  EXPECT_EQ(request->outputs[0].is_binary, std::optional(false));
  EXPECT_EQ(request->outputs[0].classes, 3);
  EXPECT_EQ(request->outputs[1].is_binary, std::nullopt);
}

TEST(ParseInfer, RefusesWhatIsNotARequest) {
  for (const std::string body : {"", "{", "nul", "{\"inputs\":1,}", "\xff\xfe"})
    expect_refused(parse(body), "not valid JSON");
  for (const std::string body :
       {"[]", "7", "null", "{}", "{\"inputs\":{}}", "{\"inputs\":[]}", "{\"inputs\":\"x\"}"})
    expect_refused(parse(body), "needs 'inputs'");
  expect_refused(parse("{\"inputs\":[],\"inputs\":[]}"), "appears twice");
  expect_refused(parse("{\"inputs\":" + std::string(100'000, '[')), "nested deeper");
  const std::string ones = "[1" + [] {
    std::string more;
    for (int i = 0; i < 1'100'000; ++i) more += ",1";
    return more;
  }() + "]";
  expect_refused(parse_one("\"datatype\":\"UINT8\",\"shape\":[1100001],\"data\":" + ones),
                 "more than 1000000 values");
  std::string many = "{\"name\":\"x\",\"datatype\":\"UINT8\",\"shape\":[1],\"data\":[1]}";
  const std::string one = many;
  for (int i = 0; i < 64; ++i) many += "," + one;
  expect_refused(parse("{\"inputs\":[" + many + "]}"), "more than 64 inputs");
  expect_refused(parse_infer_request("{}", 3, "x"), "the body has only 2 bytes");
  expect_refused(parse_infer_request("{}", std::numeric_limits<size_t>::max(), "x"),
                 "the body has only 2 bytes");
}

TEST(ParseInfer, RefusesInputsThatAreNotTensors) {
  for (const std::string input :
       {"1", "null", "[]", "{}", "{\"name\":1,\"datatype\":\"UINT8\",\"shape\":[1],\"data\":[1]}",
        "{\"name\":\"x\",\"shape\":[1],\"data\":[1]}", "{\"name\":\"x\",\"datatype\":\"UINT8\",\"data\":[1]}",
        "{\"name\":\"x\",\"datatype\":\"UINT8\",\"shape\":1,\"data\":[1]}"})
    expect_refused(parse("{\"inputs\":[" + input + "]}"), "needs 'name', 'datatype' and 'shape'");
  for (const std::string datatype : {"", "FP16", "bytes", "STRING", "UINT32"})
    expect_refused(parse_data(datatype, "1"), "not supported");
  expect_refused(parse_one("\"datatype\":\"UINT8\",\"shape\":[1]"), "neither 'data' nor");
  expect_refused(parse_one("\"datatype\":\"UINT8\",\"shape\":[1],\"data\":1"), "neither 'data' nor");
  expect_refused(parse_one("\"datatype\":\"UINT8\",\"shape\":[1],\"parameters\":[\"binary_data_size\"]"),
                 "neither 'data' nor");
  // A name can hold anything; a message shows it without control characters.
  const auto odd = parse("{\"inputs\":[{\"name\":\"a\\u0000\\r\\nb\",\"datatype\":\"?\",\"shape\":[1]}]}");
  expect_refused(odd, "not supported");
  EXPECT_EQ(odd.status().message().find('\n'), std::string::npos);
  EXPECT_EQ(odd.status().message().find('\0'), std::string::npos);
}

TEST(ParseInfer, RefusesNumbersThatDoNotFit) {
  for (const std::string number :
       {"-1", "256", "1.5", "1.0", "true", "\"1\"", "null", "{}", "99999999999999999999"})
    expect_refused(parse_data("UINT8", number), "is UINT8, but has");
  for (const std::string number : {"-129", "128"})
    expect_refused(parse_data("INT8", number), "is INT8, but has");
  for (const std::string number : {"-2147483649", "2147483648"})
    expect_refused(parse_data("INT32", number), "is INT32, but has");
  for (const std::string number : {"9223372036854775808", "0.5"})
    expect_refused(parse_data("INT64", number), "is INT64, but has");
  for (const std::string value : {"true", "\"1\"", "null", "{\"a\":1}"}) {
    expect_refused(parse_data("FP32", value), "is FP32, but has");
    expect_refused(parse_data("FP64", value), "is FP64, but has");
  }
  for (const std::string value : {"1", "0", "\"true\"", "null"})
    expect_refused(parse_data("BOOL", value), "is BOOL, but has");
  for (const std::string value : {"1", "true", "null", "{}"})
    expect_refused(parse_data("BYTES", value), "is BYTES, but has");
  const auto long_text = parse_data("UINT8", "\"" + std::string(100'000, 'x') + "\"");
  expect_refused(long_text, "is UINT8, but has");
  EXPECT_LT(long_text.status().message().size(), 200U);
}

TEST(ParseInfer, RefusesShapesThatLie) {
  const auto shaped = [](const std::string& shape, const std::string& data = "[1]",
                         const std::string& type = "UINT8") {
    return parse_one("\"datatype\":\"" + type + "\",\"shape\":" + shape + ",\"data\":" + data);
  };
  expect_refused(shaped("[2]"), "has 1 elements, and its shape 2");
  expect_refused(shaped("[0]"), "has 1 elements, and its shape 0");
  expect_refused(shaped("[-1]"), "a shape with -1");
  expect_refused(shaped("[1.0]"), "not of whole numbers");
  expect_refused(shaped("[\"1\"]"), "not of whole numbers");
  expect_refused(shaped("[[1]]"), "not of whole numbers");
  expect_refused(shaped("[1,1,1,1,1,1,1,1,1]"), "more than 8 axes");
  expect_refused(shaped("[4294967296,2]"), "more than 4294967296 elements");
  expect_refused(shaped("[9223372036854775807,9223372036854775807,9223372036854775807]"),
                 "more than 4294967296");
  expect_refused(shaped("[4294967296]"), "has 1 elements, and its shape 4294967296");
  expect_refused(shaped("[4294967296]", "[1]", "FP64"), "has 1 elements, and its shape 4294967296");
  expect_refused(shaped("[1]", "[[[[[[[[[[1]]]]]]]]]]"), "nested too deeply");
  expect_refused(shaped("[4097]", "[\"a\"]", "BYTES"), "at most 4096");
  expect_refused(shaped("[4294967296]", "[\"a\"]", "BYTES"), "at most 4096");
  expect_refused(shaped("[2]", "[\"a\"]", "BYTES"), "has 1 elements, and its shape 2");
  expect_refused(shaped("[1]", "[\"a\",\"b\"]", "BYTES"), "bytes after its last element");
}

TEST(ParseInfer, RefusesElementsThatLieAboutTheirSize) {
  const auto with_tail = [](const std::string& tail, int elements = 1) {
    const std::string json = "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"BYTES\",\"shape\":[" +
                             std::to_string(elements) +
                             "],\"parameters\":{\"binary_data_size\":" + std::to_string(tail.size()) + "}}]}";
    return parse_infer_request(json + tail, json.size(), "");
  };
  EXPECT_TRUE(with_tail(raw<uint32_t>({2}) + "ab").ok());
  expect_refused(with_tail(raw<uint32_t>({3}) + "ab"), "says 3 bytes, but only 2 follow");
  expect_refused(with_tail(raw<uint32_t>({UINT32_MAX}) + "ab"), "says 4294967295 bytes");
  expect_refused(with_tail(raw<uint32_t>({1}) + "ab"), "bytes after its last element");
  expect_refused(with_tail("abc"), "bytes after its last element");
  expect_refused(with_tail(""), "has 0 elements, and its shape 1");
  expect_refused(with_tail(raw<uint32_t>({0, 0})), "bytes after its last element");
  expect_refused(with_tail(raw<uint32_t>({0}), 2), "has 1 elements, and its shape 2");
}

TEST(ParseInfer, RefusesParametersThatAreNotWholeNumbers) {
  const std::string input = "\"inputs\":[{\"name\":\"x\",\"datatype\":\"UINT8\",\"shape\":[1],\"data\":[1]}]";
  for (const std::string value : {"-1", "1.5", "\"1\"", "null", "[]", "1e30"}) {
    expect_refused(
        parse_one("\"datatype\":\"UINT8\",\"shape\":[1],\"parameters\":{\"binary_data_size\":" + value + "}"),
        "'binary_data_size' must be a whole number");
    expect_refused(parse("{" + input + ",\"parameters\":{\"timeout\":" + value + "}}"),
                   "'timeout' must be a whole number");
    expect_refused(parse("{" + input + ",\"outputs\":[{\"name\":\"p\",\"parameters\":{\"classification\":" +
                         value + "}}]}"),
                   "'classification' must be a whole number");
  }
  for (const std::string output : {"1", "{}", "{\"name\":1}", "null"})
    expect_refused(parse("{" + input + ",\"outputs\":[" + output + "]}"), "needs a 'name'");
  // Each would be a copy of the whole output in the answer.
  expect_refused(parse("{" + input + ",\"outputs\":[{\"name\":\"p\"},{\"name\":\"q\"},{\"name\":\"p\"}]}"),
                 "output 'p' is requested twice");
}

TEST(EncodeAnswer, WritesEveryDatatypeAsJson) {
  InferRequest request;
  request.id = "7";
  const Json json = json_of(encode(request, small_answer()));
  EXPECT_EQ(json["model_name"].as_string(), "m");
  EXPECT_EQ(json["model_version"].as_string(), "3");
  EXPECT_EQ(json["id"].as_string(), "7");
  const auto& outputs = json["outputs"].items();
  ASSERT_EQ(outputs.size(), 4U);
  EXPECT_EQ(outputs[0].dump(),
            "{\"name\":\"p\",\"datatype\":\"FP32\",\"shape\":[2,3],\"data\":[0.1,0.7,0.2,0.5,0.25,0.25]}");
  EXPECT_EQ(outputs[1]["data"].dump(), "[-5,9223372036854775807]");
  EXPECT_EQ(outputs[2]["data"].dump(), "[0,1,254,255]");
  EXPECT_EQ(outputs[3]["data"].dump(), "[\"dog\",\"a\\u0000b\"]");
}

TEST(EncodeAnswer, FloatsReadBackAsTheSameBits) {
  const std::vector<float> values = {0.1F,  1.0F / 3,    1e-45F,          3.4028235e38F,
                                     -0.0F, 16777217.0F, 1.17549435e-38F, std::nextafter(1.0F, 2.0F)};
  Answer answer{.model = "m", .version = "1", .outputs = {}, .classes = {}};
  answer.outputs.push_back({"p", "FP32", {static_cast<int64_t>(values.size())}, {}});
  answer.outputs[0].bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  const auto data = json_of(encode({}, answer))["outputs"].items()[0]["data"].items();
  ASSERT_EQ(data.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto read = static_cast<float>(data[i].as_double());
    EXPECT_EQ(std::memcmp(&read, &values[i], sizeof read), 0) << values[i];
  }
}

TEST(EncodeAnswer, PutsBinaryTensorsBehindTheJson) {
  InferRequest request;
  request.wants_binary = true;
  request.outputs = {{.name = "n"}, {.name = "p", .is_binary = false}, {.name = "label"}};
  const Answer answer = small_answer();
  const auto encoded = encode(request, answer);
  ASSERT_TRUE(encoded.ok() && encoded->json_bytes);
  EXPECT_EQ(encoded->body.substr(*encoded->json_bytes), answer.outputs[1].bytes + answer.outputs[3].bytes);
  const Json json = json_of(encoded);
  EXPECT_EQ(json["outputs"].items()[0]["parameters"]["binary_data_size"].as_int(), 16);
  EXPECT_FALSE(json["outputs"].items()[0].contains("data"));
  EXPECT_EQ(json["outputs"].items()[1]["data"].items().size(), 6U);
  EXPECT_EQ(json["outputs"].items()[2]["parameters"]["binary_data_size"].as_int(), 14);
  EXPECT_FALSE(json.contains("id"));
}

TEST(EncodeAnswer, ClassifiesEachRow) {
  InferRequest request;
  request.outputs = {{.name = "p", .classes = 2}};
  const Json output = json_of(encode(request, small_answer()))["outputs"].items()[0];
  EXPECT_EQ(output.dump(),
            "{\"name\":\"p\",\"datatype\":\"BYTES\",\"shape\":[2,2],\"data\":[\"0.7:1:dog\",\"0.2:2:owl\","
            "\"0.5:0:cat\","
            "\"0.25:1:dog\"]}");
  request.outputs[0].classes = INT64_MAX;  // all there are
  EXPECT_EQ(json_of(encode(request, small_answer()))["outputs"].items()[0]["shape"].dump(), "[2,3]");
  Answer without_names = small_answer();
  without_names.classes = {"cat"};
  EXPECT_EQ(json_of(encode(request, without_names))["outputs"].items()[0]["data"].items()[0].as_string(),
            "0.7:1");
  for (const std::string name : {"n", "mask", "label"}) {
    request.outputs = {{.name = name, .classes = 1}};
    EXPECT_FALSE(encode(request, small_answer()).ok()) << name;
  }
}

// More elements than a request may have: an answer has several for each image.
TEST(EncodeAnswer, ClassifiesManyRows) {
  Answer answer{.model = "m", .version = "1", .outputs = {}, .classes = {}};
  answer.outputs.push_back({"p", "FP32", {3000, 2}, {}});
  for (int i = 0; i < 3000; ++i) answer.outputs[0].bytes += raw<float>({0.25F, 0.75F});
  InferRequest request;
  request.outputs = {{.name = "p", .classes = 2}};
  EXPECT_EQ(json_of(encode(request, answer))["outputs"].items()[0]["data"].items().size(), 6000U);
}

TEST(EncodeAnswer, RefusesWhatIsNotThereOrTooLargeForJson) {
  InferRequest request;
  request.outputs = {{.name = "logits"}};
  const auto missing = encode(request, small_answer());
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.status().message().find("there is no output 'logits'; the model has"), std::string::npos)
      << missing.status().message();
  Answer large{.model = "m", .version = "1", .outputs = {}, .classes = {}};
  large.outputs.push_back(
      {"mask", "UINT8", {1, kMostJsonElements + 1}, std::string(kMostJsonElements + 1, 'x')});
  request.outputs.clear();
  EXPECT_FALSE(encode(request, large).ok());
  request.wants_binary = true;
  EXPECT_TRUE(encode(request, large).ok());
}

TEST(ErrorBody, IsJsonWhateverTheMessageHolds) {
  const std::string body = error_body(std::string("a \"quoted\"\r\n\0\xff name", 20));
  const auto parsed = Json::parse(body);
  ASSERT_TRUE(parsed.ok()) << body;
  EXPECT_NE((*parsed)["error"].as_string().find("a \"quoted\""), std::string::npos);
  EXPECT_EQ(body.find('\n'), std::string::npos);
}

}  // namespace dlpipe::serve
