#include "dlpipe/onnx.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "dlpipe/graph.h"
#include "io/formats/protobuf.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::engine::onnx {
namespace {

// y = op(x), x f32 [N,4].
Model one_node(const std::string& op, std::vector<Attribute> attributes = {}) {
  Model model;
  model.opsets[""] = 17;
  model.graph_name = "g";
  model.inputs = {{"x", ElementType::kFloat, {{-1, "N"}, {4}}}};
  model.outputs = {{"y", ElementType::kFloat, {{-1, "N"}, {4}}}};
  model.nodes = {{op, "", "only", {"x"}, {"y"}, std::move(attributes)}};
  return model;
}

void expect_refused(const Model& model, ErrorCode code, const std::string& words) {
  try {
    import_model(model);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(OnnxFile, ReadsWhatItWrites) {
  Model model = one_node("Relu");
  model.metadata["key"] = "value";
  const float values[] = {1, 2};
  model.initializers = {
      {"w", ElementType::kFloat, {2}, std::string(reinterpret_cast<const char*>(values), 8)}};
  const Model read = value_or_throw(parse_model(serialize(model), ""));
  EXPECT_EQ(serialize(read), serialize(model));
  EXPECT_EQ(read.inputs[0].dims[0].symbol, "N");
  EXPECT_EQ(graph::to_text(import_model(read)), "g(x: f32 [N,4])\n  y = relu(x)  : f32 [N,4]\n-> y\n");
}

TEST(OnnxFile, KeepsAttributesOfEveryKind) {
  std::vector<Attribute> all;
  for (const Attribute::Type type : {Attribute::kFloat, Attribute::kInt, Attribute::kString,
                                     Attribute::kTensor, Attribute::kFloats, Attribute::kInts})
    all.push_back({.name = "a" + std::to_string(type), .type = type});
  all[0].f = 0.5;
  all[1].i = -3;
  all[2].s = "text";
  all[3].t = {"t", ElementType::kInt8, {2}, "ab"};
  all[4].floats = {1, -2.5};
  all[5].ints = {4, -1};
  const Model read = value_or_throw(parse_model(serialize(one_node("Relu", all)), ""));
  const std::vector<Attribute>& got = read.nodes.at(0).attributes;
  ASSERT_EQ(got.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(got[i].name, all[i].name);
    EXPECT_EQ(got[i].type, all[i].type);
  }
  EXPECT_EQ(got[0].f, 0.5f);
  EXPECT_EQ(got[1].i, -3);
  EXPECT_EQ(got[2].s, "text");
  EXPECT_EQ(got[3].t.name, "t");
  EXPECT_EQ(got[3].t.bytes, "ab");
  EXPECT_EQ(got[4].floats, all[4].floats);
  EXPECT_EQ(got[5].ints, all[5].ints);
}

TEST(OnnxFile, RefusesDamagedFiles) {
  const std::string good = serialize(one_node("Relu"));
  for (size_t size = 0; size < good.size(); ++size) {
    const auto model = parse_model(std::string_view(good).substr(0, size), "");
    if (model.ok()) continue;  // cut between two fields
    EXPECT_EQ(model.status().code(), ErrorCode::kCorrupt) << model.status().message();
  }
  Model model = one_node("Relu");
  model.initializers = {{"w", ElementType::kFloat, {1000000, 1000000, 1000000}, ""}};
  EXPECT_NE(parse_model(serialize(model), "").status().message().find("impossible sizes"), std::string::npos);
  model.initializers = {{"w", ElementType::kFloat, {0, int64_t{1} << 40, int64_t{1} << 40}, ""}};
  EXPECT_NE(parse_model(serialize(model), "").status().message().find("impossible sizes"), std::string::npos);
  model.initializers = {{"w", ElementType::kFloat, {0, 1 << 20}, ""}};
  EXPECT_TRUE(parse_model(serialize(model), "").ok());
  model.initializers = {{"w", ElementType::kFloat, {3}, "abc"}};
  EXPECT_NE(parse_model(serialize(model), "").status().message().find("3 bytes, but its shape needs 12"),
            std::string::npos);
  model.initializers = {{"w", static_cast<ElementType>(8), {1}, "a"}};
  EXPECT_EQ(parse_model(serialize(model), "").status().code(), ErrorCode::kUnsupported);
}

// A graph {field number: `bytes`, `count` times}.
std::string with_graph_of(uint32_t number, std::string_view bytes, size_t count) {
  formats::ProtobufWriter graph;
  for (size_t i = 0; i < count; ++i) graph.add_bytes(number, bytes);
  formats::ProtobufWriter model;
  model.add_int(1, 8);
  model.add_message(7, graph);
  return model.bytes();
}

// An empty node has two bytes in the file.
TEST(OnnxFile, PartsThatTakeManyTimesTheirBytesAreBounded) {
  constexpr size_t kMost = size_t{1} << 28;
  const auto expect_refused_parts = [](const std::string& bytes) {
    const Status status = parse_model(bytes, "").status();
    EXPECT_EQ(status.code(), ErrorCode::kCorrupt) << status.message();
    EXPECT_NE(status.message().find("without weights, need more than 256.0 MiB"), std::string::npos)
        << status.message();
  };
  constexpr size_t kNodes = kMost / sizeof(NodeEntry);
  EXPECT_EQ(value_or_throw(parse_model(with_graph_of(1, "", kNodes), "")).nodes.size(), kNodes);
  expect_refused_parts(with_graph_of(1, "", kNodes + 1));
  formats::ProtobufWriter names;
  for (size_t i = 0; i <= kMost / sizeof(std::string); ++i) names.add_bytes(1, "");
  expect_refused_parts(with_graph_of(1, names.bytes(), 1));
  expect_refused_parts(with_graph_of(11, "", kMost / sizeof(ValueInfo) + 1));
  // What it doesn't look at takes nothing.
  EXPECT_TRUE(parse_model(with_graph_of(13, "", 20'000'000), "").ok());
}

// As writers of proto2 leave repeated numbers: each in a field of its own.
TEST(OnnxFile, ReadsMillionsOfNumbersThatAreNotPacked) {
  constexpr int64_t kCount = 3'000'000;
  formats::ProtobufWriter floats, ints, attribute, node, graph, model;
  for (formats::ProtobufWriter* const tensor : {&floats, &ints}) {
    tensor->add_int(1, kCount);
    tensor->add_int(2, static_cast<int64_t>(tensor == &floats ? ElementType::kFloat : ElementType::kInt64));
  }
  for (int64_t i = 0; i < kCount; ++i) {
    floats.add_float(4, static_cast<float>(i));
    ints.add_int(7, i);
    attribute.add_int(8, -i);
  }
  node.add_message(5, attribute);
  graph.add_message(1, node);
  graph.add_message(5, floats);
  graph.add_message(5, ints);
  model.add_int(1, 8);
  model.add_message(7, graph);
  const Model read = value_or_throw(parse_model(model.bytes(), ""));
  EXPECT_EQ(read.initializers.at(0).bytes.size(), kCount * sizeof(float));
  EXPECT_EQ(read.initializers.at(1).bytes.size(), kCount * sizeof(int64_t));
  EXPECT_EQ(read.nodes.at(0).attributes.at(0).ints.size(), static_cast<size_t>(kCount));
  EXPECT_EQ(read.nodes.at(0).attributes.at(0).ints.back(), 1 - kCount);
}

// Tensors {dims size, type float, name w, external_data {location}, data_location EXTERNAL}.
std::string with_outside_tensor(const std::string& location, int64_t size = 2, int tensors = 1,
                                const std::vector<std::pair<std::string, std::string>>& more = {}) {
  std::vector<std::pair<std::string, std::string>> entries = {{"location", location}};
  entries.insert(entries.end(), more.begin(), more.end());
  formats::ProtobufWriter tensor;
  tensor.add_int(1, size);
  tensor.add_int(2, 1);
  tensor.add_bytes(8, "w");
  for (const auto& [key, value] : entries) {
    formats::ProtobufWriter entry;
    entry.add_bytes(1, key);
    entry.add_bytes(2, value);
    tensor.add_message(13, entry);
  }
  tensor.add_int(14, 1);
  formats::ProtobufWriter graph;
  for (int i = 0; i < tensors; ++i) graph.add_message(5, tensor);
  formats::ProtobufWriter model;
  model.add_int(1, 8);
  model.add_message(7, graph);
  return model.bytes();
}

TEST(OnnxFile, ReadsTensorsFromFilesBesideTheModelAlone) {
  const test::ScratchFolder scratch;
  const std::filesystem::path folder = scratch.path();
  std::ofstream(folder / "w.bin", std::ios::binary) << "01234567";
  const Model model = value_or_throw(parse_model(with_outside_tensor("w.bin"), folder));
  EXPECT_EQ(model.initializers[0].bytes, "01234567");
  for (const char* const location : {"../w.bin", "/etc/passwd", "", "a/../../w.bin"})
    EXPECT_EQ(parse_model(with_outside_tensor(location), folder).status().code(), ErrorCode::kUnsupported)
        << location;
  EXPECT_EQ(parse_model(with_outside_tensor("w.bin"), "").status().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(parse_model(with_outside_tensor("none.bin"), folder).status().code(), ErrorCode::kNotFound);
  std::ofstream(folder / "short.bin", std::ios::binary) << "0123";
  EXPECT_EQ(parse_model(with_outside_tensor("short.bin"), folder).status().code(), ErrorCode::kCorrupt);
  // Opening a pipe would wait for its writer.
  ASSERT_EQ(::mkfifo((folder / "pipe.bin").c_str(), 0600), 0);
  std::filesystem::create_directories(folder / "folder.bin");
  for (const char* const location : {"pipe.bin", "folder.bin"})
    EXPECT_EQ(parse_model(with_outside_tensor(location), folder).status().code(), ErrorCode::kUnsupported)
        << location;
}

// A number that isn't read as it stands must not count as 0: other weights would be read.
TEST(OnnxFile, WhereATensorLiesInItsFileIsSaidInWholeNumbersOrRefused) {
  const test::ScratchFolder scratch;
  const std::filesystem::path folder = scratch.path();
  std::ofstream(folder / "w.bin", std::ios::binary) << "0123456789abcdef";
  using Entries = std::vector<std::pair<std::string, std::string>>;
  const auto read = [&](const Entries& entries) {
    return parse_model(with_outside_tensor("w.bin", 2, 1, entries), folder);
  };
  EXPECT_EQ(value_or_throw(read({})).initializers[0].bytes, "01234567");
  EXPECT_EQ(value_or_throw(read({{"offset", "8"}, {"length", "8"}})).initializers[0].bytes, "89abcdef");
  EXPECT_EQ(value_or_throw(read({{"offset", "4"}, {"checksum", "?"}})).initializers[0].bytes, "456789ab");
  for (const char* const number :
       {"0x10", " 8", "8 ", "8.0", "+8", "-8", "", "18446744073709551615", "1e1", "a"}) {
    for (const char* const key : {"offset", "length"}) {
      const Status status = read({{key, number}}).status();
      EXPECT_EQ(status.code(), ErrorCode::kCorrupt) << key << " '" << number << "'";
      EXPECT_NE(status.message().find(dlpipe::concat("'w' has the data ", key)), std::string::npos)
          << status.message();
    }
  }
  for (const Entries& wrong : {Entries{{"length", "4"}}, Entries{{"length", "16"}}, Entries{{"offset", "9"}},
                               Entries{{"offset", "9223372036854775807"}},
                               Entries{{"offset", "0"}, {"offset", "8"}}, Entries{{"location", "w.bin"}}})
    EXPECT_EQ(read(wrong).status().code(), ErrorCode::kCorrupt) << wrong[0].second;
}

TEST(OnnxFile, ATensorsFileIsWhereTheModelIsWhateverItsNameSays) {
  const test::ScratchFolder scratch;
  const std::filesystem::path folder = std::filesystem::path(scratch.path()) / "model";
  std::filesystem::create_directories(folder / "inner");
  std::filesystem::create_directories(folder / "../blobs");
  for (const char* const file : {"w.bin", "../outside.bin", "../blobs/w"})
    std::ofstream(folder / file, std::ios::binary) << "01234567";
  std::filesystem::create_symlink("../w.bin", folder / "inner/link.bin");
  std::filesystem::create_symlink("../outside.bin", folder / "out.bin");
  std::filesystem::create_directory_symlink("..", folder / "up");
  std::filesystem::create_symlink("../blobs/w", folder / "blob.bin");
  EXPECT_TRUE(parse_model(with_outside_tensor("inner/link.bin"), folder).ok());
  for (const std::string& location : {std::string("out.bin"), std::string("up/outside.bin"),
                                      std::string("blob.bin"), std::string("w.bin\0.bin", 10)}) {
    const Status status = parse_model(with_outside_tensor(location), folder).status();
    EXPECT_EQ(status.code(), ErrorCode::kUnsupported) << location;
    EXPECT_NE(status.message().find("tensor 'w' is in '"), std::string::npos) << status.message();
  }
  // The cache of Hugging Face: the model and its weights are links to files of one other folder.
  std::ofstream(folder / "../blobs/m", std::ios::binary) << with_outside_tensor("blob.bin");
  std::filesystem::create_symlink("../blobs/m", folder / "m.onnx");
  const auto linked = read_model(folder / "m.onnx");
  EXPECT_EQ(value_or_throw(linked).initializers[0].bytes, "01234567");
}

// Larger than memory by holes alone, or by tensors that all name the same bytes.
TEST(OnnxFile, TensorsBesideTheModelMustFitIntoMemory) {
  const test::ScratchFolder scratch;
  const std::filesystem::path folder = scratch.path();
  std::ofstream(folder / "w.bin", std::ios::binary) << "01234567";
  EXPECT_TRUE(parse_model(with_outside_tensor("w.bin", 2, 3), folder, 24).ok());
  const Status shared = parse_model(with_outside_tensor("w.bin", 2, 3), folder, 23).status();
  EXPECT_EQ(shared.code(), ErrorCode::kUnsupported) << shared.message();
  EXPECT_NE(shared.message().find("external weights need 24 B, more than the 23 B"), std::string::npos)
      << shared.message();
  constexpr int64_t kElements = int64_t{1} << 33;
  std::filesystem::resize_file(folder / "w.bin", kElements * sizeof(float));
  EXPECT_EQ(parse_model(with_outside_tensor("w.bin", kElements), folder, 1 << 30).status().code(),
            ErrorCode::kUnsupported);
}

TEST(OnnxFile, SaysItsAreaOnce) {
  const test::ScratchFolder folder;
  const std::string path = folder / "none.onnx";
  std::ofstream(path, std::ios::binary) << "\x08\x08";
  EXPECT_EQ(read_model(path).status().message(),
            "[onnx] " + path + ": it contains no ONNX model; export the model again");
}

TEST(OnnxImport, NamesWhatItDoesNotKnow) {
  expect_refused(one_node("Sine"), ErrorCode::kUnsupported,
                 "[onnx] dlpipe has no such op: Sine ('only'); dlpipe compile --list-onnx-ops");
  Model model = one_node("Relu");
  model.nodes[0].domain = "com.example";
  expect_refused(model, ErrorCode::kUnsupported, "no such op: com.example.Relu ('only')");
  model = one_node("Relu");
  model.nodes.push_back({"Sine", "", "one", {"y"}, {"z"}});
  model.nodes.push_back({"Cosine", "", "other", {"z"}, {"a"}});
  model.nodes.push_back({"Sine", "", "two", {"a"}, {"b"}});
  expect_refused(model, ErrorCode::kUnsupported,
                 "no such ops: Cosine ('other'), Sine (2 nodes, the first is 'one')");
  model = one_node("Relu");
  model.nodes[0].inputs = {"z"};
  expect_refused(model, ErrorCode::kCorrupt, "reads 'z', which no node before it computes");
  model.nodes[0].inputs = {"x", "z"};  // one that the op doesn't look at
  expect_refused(model, ErrorCode::kCorrupt, "reads 'z', which no node before it computes");
  model.nodes[0].inputs = {"y"};
  expect_refused(model, ErrorCode::kCorrupt, "reads 'y', which no node before it computes");
  model.nodes[0].inputs = {};
  expect_refused(model, ErrorCode::kCorrupt, "has 0 inputs");
  model = one_node("Relu");
  model.outputs[0].name = "q";
  expect_refused(model, ErrorCode::kCorrupt, "no node computes the output 'q'");
  model = one_node("Relu");
  model.inputs[0].dims[1] = {-1, "W"};
  expect_refused(model, ErrorCode::kUnsupported, "axis 1 of input 'x' has no size ('W')");
  Attribute axis{.name = "axis", .type = Attribute::kInt};
  axis.i = 9;
  expect_refused(one_node("Softmax", {axis}), ErrorCode::kUnsupported, "axis 9");
}

// dlpipe calls what nodes make add, add_2 and add_3.
TEST(OnnxImport, KeepsTheNamesOfOutputs) {
  Model model = one_node("Add");
  model.nodes = {{"Add", "", "", {"x", "x"}, {"one"}, {}},
                 {"Add", "", "", {"one", "one"}, {"add_3"}, {}},
                 {"Add", "", "", {"add_3", "one"}, {"add"}, {}}};
  model.outputs = {{"add", ElementType::kFloat, {}}, {"add_3", ElementType::kFloat, {}}};
  EXPECT_EQ(graph::to_text(import_model(model)),
            "g(x: f32 [N,4])\n"
            "  add_2 = add(x, x)  : f32 [N,4]\n"
            "  add_3 = add(add_2, add_2)  : f32 [N,4]\n"
            "  add = add(add_3, add_2)  : f32 [N,4]\n"
            "-> add add_3\n");
}

TEST(OnnxImport, NamesWhoMakesAValueTwice) {
  Model model = one_node("Relu");
  model.nodes.push_back(model.nodes[0]);
  model.nodes[1].name = "again";
  expect_refused(model, ErrorCode::kCorrupt,
                 "[onnx] 'y' is computed twice, by node 'only' (Relu) and by node 'again' (Relu)");
  model = one_node("Relu");
  model.nodes[0].outputs = {"x"};
  expect_refused(model, ErrorCode::kCorrupt,
                 "'x' is computed twice, by the model's input and by node 'only'");
  model = one_node("Relu");
  const TensorValue weight = {"w", ElementType::kFloat, {1}, std::string(4, '\0')};
  model.initializers = {weight, weight};
  expect_refused(model, ErrorCode::kCorrupt,
                 "'w' is computed twice, by an initializer and by an initializer");
}

TEST(OnnxImport, RefusesImpossibleIntegersAndNodes) {
  Model model = one_node("Split");
  model.nodes[0].outputs = {};
  expect_refused(model, ErrorCode::kUnsupported, "it has no outputs");
  model = one_node("Shape");
  model.initializers = {{"w", ElementType::kInt8, {1, 1, 1, 1, 1, 1, 1, 1}, "a"}};
  expect_refused(model, ErrorCode::kUnsupported, "tensor 'w' has 8 axes");
  model = one_node("Range");
  model.initializers = {{"none", ElementType::kInt64, {0}, ""}};
  model.nodes[0].inputs = {"none", "none", "none"};
  expect_refused(model, ErrorCode::kUnsupported, "input 0 is not one integer");
  // 2^32 x 2^32 elements are none in 64 bits.
  const int64_t sizes[] = {int64_t{1} << 32, int64_t{1} << 32};
  model = one_node("Expand");
  model.initializers = {{"one", ElementType::kInt8, {1}, "a"},
                        {"sizes", ElementType::kInt64, {2}, {reinterpret_cast<const char*>(sizes), 16}}};
  model.nodes[0].inputs = {"one", "sizes"};
  expect_refused(model, ErrorCode::kUnsupported, "impossible sizes");
}

// Files of such tensors aren't read; attributes without one, and models that programs put together, get as far as here.
TEST(OnnxImport, RefusesTensorsWithoutTheirElements) {
  const auto constant = [](const char* op, TensorValue tensor) {
    Attribute value{.name = "value", .type = Attribute::kTensor};
    value.t = std::move(tensor);
    Model model = one_node(op, {value});
    model.initializers = {{"sizes", ElementType::kInt64, {1}, std::string("\x02\0\0\0\0\0\0\0", 8)}};
    model.nodes[0].inputs = {"sizes"};
    return model;
  };
  for (const char* const op : {"Constant", "ConstantOfShape"}) {
    SCOPED_TRACE(op);
    expect_refused(constant(op, {}), ErrorCode::kUnsupported, "tensor 'y' has elements of type undefined");
    expect_refused(constant(op, {"", ElementType::kFloat, {}, ""}), ErrorCode::kCorrupt,
                   "tensor 'y' has 0 bytes, but its shape needs 4");
    expect_refused(constant(op, {"", ElementType::kInt64, {1}, "abc"}), ErrorCode::kCorrupt,
                   "tensor 'y' has 3 bytes, but its shape needs 8");
  }
  Model model = one_node("Relu");
  model.initializers = {{"w", ElementType::kFloat, {int64_t{1} << 33, int64_t{1} << 33}, "abcd"}};
  expect_refused(model, ErrorCode::kCorrupt, "tensor 'w' has impossible sizes");
  model.initializers[0] = {"w", ElementType::kFloat, {0, int64_t{1} << 40, int64_t{1} << 40}, ""};
  expect_refused(model, ErrorCode::kCorrupt, "tensor 'w' has impossible sizes");
}

TEST(OnnxImport, RefusesImpossiblePads) {
  const auto padded = [](int64_t before, int64_t behind) {
    Attribute pads{.name = "pads", .type = Attribute::kInts};
    pads.ints = {0, before, 0, behind};
    return one_node("Pad", {pads});
  };
  EXPECT_NO_THROW(import_model(padded(-1, 1)));
  for (const auto& [before, behind] :
       {std::pair<int64_t, int64_t>{-5, 5}, {5, -5}, {-3, -2}, {(1 << 24) + 1, 0}, {0, (1 << 24) + 1}})
    expect_refused(padded(before, behind), ErrorCode::kUnsupported, "impossible pads of axis 1");
}

}  // namespace
}  // namespace dlpipe::engine::onnx
