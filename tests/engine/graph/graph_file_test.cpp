#include "engine/graph/graph_file.h"
#include "dlpipe/graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "dlpipe/ops.h"
#include "engine/graph/capture.h"
#include "engine/graph/passes.h"
#include "engine/ops/resize.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::engine::graph {
namespace {

std::string good_json() {
  const CaptureInput input = {"x", {{1, 4}}, bit(0)};
  const Graph graph = capture("test", {&input, 1}, {}, [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{softmax(scale(reshape(in[0], {in[0].size(0) * 2, 2}), 0.1), 1)};
  });
  return graph_json(graph);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  return text.replace(at, from.size(), to);
}

void expect_refused(const std::string& json, ErrorCode code, const std::string& words) {
  const auto graph = parse_graph(json, {}, "m.dlg");
  ASSERT_FALSE(graph.ok()) << to_text(*graph);
  EXPECT_EQ(graph.status().code(), code);
  EXPECT_NE(graph.status().message().find(words), std::string::npos) << graph.status().message();
  EXPECT_NE(graph.status().message().find("m.dlg"), std::string::npos) << graph.status().message();
}

TEST(GraphFile, ReadsWhatItWrote) {
  const Graph graph = value_or_throw(parse_graph(good_json(), {}, "m.dlg"));
  EXPECT_EQ(to_text(graph),
            "test(x: f32 [N,4])\n"
            "  reshape = reshape(x) shape=[2*N,2]  : f32 [2*N,2]\n"
            "  scale = scale(reshape) factor=0.1 offset=0  : f32 [2*N,2]\n"
            "  softmax = softmax(scale) axis=1  : f32 [2*N,2]\n"
            "-> softmax\n");
  EXPECT_EQ(graph_json(graph), good_json());
}

TEST(GraphFile, ADamagedWeightIsFoundByTheChecksum) {
  const CaptureInput input = {"x", {{1, 2}}, bit(0)};
  const Tensor weight = Tensor::full({2, 2}, 0.25);
  const std::pair<std::string, Tensor> named = {"w", weight};
  const test::ScratchFolder folder;
  const std::string path = folder / "m.dlg";
  throw_if_error(
      write_graph(path, capture("test", {&input, 1}, {&named, 1}, [&](const std::vector<Tensor>& in) {
                    return std::vector<Tensor>{matmul(in[0], weight)};
                  })));
  EXPECT_TRUE(read_graph(path).ok());
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end).put(0x40);
  const Status status = read_graph(path).status();
  EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
  EXPECT_NE(status.message().find("was changed or corrupted after it was written"), std::string::npos)
      << status.message();
}

TEST(GraphFile, MetadataOfOthersLeavesItsOwnKeysAlone) {
  Graph graph = value_or_throw(parse_graph(good_json(), {}, "m.dlg"));
  graph.metadata = {{"graph", "theirs"}, {"checksum", "theirs"}, {"author", "somebody"}};
  const test::ScratchFolder folder;
  const std::string path = folder / "m.dlg";
  throw_if_error(write_graph(path, graph));
  const Graph read = value_or_throw(read_graph(path));
  EXPECT_EQ(graph_json(read), good_json());
  EXPECT_EQ(read.metadata, (std::map<std::string, std::string>{{"author", "somebody"}}));
}

TEST(GraphFile, RefusesStepsThatAreNoChain) {
  const CaptureInput input = {"x", {{1, 4}}, bit(0)};
  Graph graph = capture("test", {&input, 1}, {}, [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{add(in[0], scale(in[0], HUGE_VAL, -0.0))};
  });
  fuse_elementwise_chains.run(graph);
  remove_dead_nodes.run(graph);
  const std::string good = graph_json(graph);
  const std::string steps = "scale(x0) factor=inf offset=-0; add(x0,y0)";
  EXPECT_NE(good.find("\"steps\":\"" + steps + "\""), std::string::npos) << good;
  EXPECT_EQ(graph_json(value_or_throw(parse_graph(good, {}, "m.dlg"))), good);
  const auto with = [&](const std::string& text) { return replaced(good, steps, text); };
  expect_refused(with(""), ErrorCode::kCorrupt, "got the step ''");
  expect_refused(with("scale(x0"), ErrorCode::kCorrupt, "got the step 'scale(x0'");
  expect_refused(with("elementwise_chain(x0)"), ErrorCode::kCorrupt, "got the op 'elementwise_chain'");
  expect_refused(with("softmax(x0) axis=1"), ErrorCode::kCorrupt, "got the op 'softmax'");
  expect_refused(with("exp(x99999999999)"), ErrorCode::kCorrupt, "got the operand 'x99999999999'");
  expect_refused(with("exp(x-1)"), ErrorCode::kCorrupt, "got the operand 'x-1'");
  expect_refused(with("exp()"), ErrorCode::kCorrupt, "got the operand ''");
  expect_refused(with("exp(x0) factor"), ErrorCode::kCorrupt, "got the attribute 'factor'");
  expect_refused(with("exp(x0) factor=1"), ErrorCode::kCorrupt, "[exp] has no attribute 'factor'");
  expect_refused(with("scale(x0) factor=1"), ErrorCode::kCorrupt, "[scale] attribute 'offset' is missing");
  expect_refused(with("clip(x0) low=a high=1"), ErrorCode::kCorrupt, "expected a number as attribute 'low'");
  expect_refused(with("exp(x1)"), ErrorCode::kMisuse, "step 0 reads x1, which doesn't exist");
  expect_refused(with("exp(y0)"), ErrorCode::kMisuse, "step 0 reads y0, which doesn't exist");
  expect_refused(with("exp(x0,x0)"), ErrorCode::kMisuse, "[exp]");
}

TEST(GraphFile, RefusesWhatIsNoGraph) {
  const std::string good = good_json();
  expect_refused("[]", ErrorCode::kCorrupt, "m.dlg");
  expect_refused(replaced(good, "\"version\":1", "\"version\":2"), ErrorCode::kUnsupported, "version 2");
  expect_refused(replaced(good, "\"softmax\",\"in\"", "\"hardmax\",\"in\""), ErrorCode::kUnsupported,
                 "the op 'hardmax'");
  expect_refused(replaced(good, "\"in\":[0]", "\"in\":[9]"), ErrorCode::kCorrupt, "expected -1 to 3");
  expect_refused(replaced(good, "\"in\":[0]", "\"in\":[2]"), ErrorCode::kCorrupt, "before it is computed");
  expect_refused(replaced(good, "\"in\":[0]", "\"in\":[]"), ErrorCode::kCorrupt, "0 inputs; it takes 1 to 1");
  expect_refused(replaced(good, "\"in\":[0]", "\"in\":[-1]"), ErrorCode::kCorrupt,
                 "1 inputs; it takes 1 to 1");
  expect_refused(replaced(good, "\"axis\":1", "\"axis\":7"), ErrorCode::kMisuse, "axis 7");
  expect_refused(replaced(good, "\"axis\":1", "\"axis\":-9"), ErrorCode::kMisuse, "axis -9");
  expect_refused(replaced(good, "\"shape\":[1,4]", "\"shape\":[1,9999999999999]"), ErrorCode::kCorrupt,
                 "a size");
  expect_refused(replaced(good, "\"shape\":[1,4]", "\"shape\":[1099511627776,4]"), ErrorCode::kCorrupt,
                 "elements");
  expect_refused(replaced(good, "\"shape\":[1,4]", "\"shape\":[1,6]"), ErrorCode::kMisuse, "[reshape]");
  expect_refused(replaced(good, "\"dtype\":\"f32\"", "\"dtype\":\"f31\""), ErrorCode::kCorrupt, "f31");
  expect_refused(replaced(good, "\"outputs\":[3]", "\"outputs\":[]"), ErrorCode::kCorrupt, "no output");
}

// A file of 2 KB that would have a run take some gigabytes.
TEST(GraphFile, RefusesToTakeFarMoreMemoryThanItsWeights) {
  const CaptureInput input = {"x", {{1, 8, 8, 3}}, bit(0)};
  const Graph graph = capture("test", {&input, 1}, {}, [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{resize(resize(in[0], {.size = {16000, 16000}}), {.size = {15000, 15000}})};
  });
  EXPECT_GT(peak_bytes(graph), uint64_t{5} << 30);
  expect_refused(graph_json(graph), ErrorCode::kUnsupported, "for one sample, more than the 4.0 GiB");
  const test::ScratchFolder folder;
  EXPECT_THROW((void)write_graph(folder / "m.dlg", graph), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// Of a chain two values are there at once, besides what goes in and out.
TEST(GraphFile, APeakIsOfWhatIsThereAtOnce) {
  const CaptureInput input = {"x", {{1, 256}}, bit(0)};
  const Graph graph = capture("test", {&input, 1}, {}, [](const std::vector<Tensor>& in) {
    Tensor x = in[0];
    for (int i = 0; i < 5; ++i) x = exp(x);
    return std::vector<Tensor>{x};
  });
  EXPECT_EQ(peak_bytes(graph), 3 * 256 * sizeof(float));
}

}  // namespace
}  // namespace dlpipe::engine::graph
