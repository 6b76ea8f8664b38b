// The program that links dlpipe::runtime alone: what is in it, and what it answers.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "dlpipe/graph.h"
#include "dlpipe/tensor.h"
#include "engine/models/graph_module.h"
#include "io/formats/npy.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::engine {
namespace {

std::string output_of(const std::string& command) {
  std::string text;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 65536> buffer{};
  while (const size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), count);
  pclose(pipe);
  return text;
}

TEST(Runtime, HasNoLayersModelsOptimizersWalkBackOrPipeline) {
  const std::string symbols = output_of("nm -C " DLPIPE_RUNTIME_PROGRAM);
  ASSERT_NE(symbols.find("dlpipe::engine::graph::Runner::run"), std::string::npos);
  for (const char* const foreign :
       {"dlpipe::engine::Module", "dlpipe::engine::ModelRecord", "dlpipe::engine::model_table",
        "dlpipe::engine::Optimizer", "BackwardWalk", "dlpipe::engine::Tensor::backward", "dlpipe::pipeline",
        "dlpipe::data", "dlpipe::augment", "dlpipe::run::"}) {
    EXPECT_EQ(symbols.find(foreign), std::string::npos) << foreign;
  }
}

TEST(Runtime, AnswersTheModelsBits) {
  const test::ScratchFolder folder;
  const ModelArguments arguments = {.classes = 5, .channels = 1, .height = 28, .width = 28, .seed = 4};
  const auto model = value_or_throw(ModelRegistry::builtin().find("lenet"))->build(arguments);
  const std::string file = folder / "m.dlg", in = folder / "x.npy", out = folder / "y.npy";
  throw_if_error(graph::write_graph(file, capture_model(*model, arguments, "lenet")));
  const Tensor x = Tensor::full({3, 28, 28, 1}, 0.25);
  throw_if_error(formats::write_npy(in, x.dtype(), x.shape().dims(),
                                    {static_cast<const std::byte*>(x.raw()), x.size_bytes()}));
  ASSERT_EQ(std::system(concat(DLPIPE_RUNTIME_PROGRAM " ", file, " ", in, " ", out).c_str()), 0);
  const formats::NpyArray answer = value_or_throw(formats::read_npy(out));
  model->eval();
  const InferenceMode mode;
  const Tensor y = (*model)(x);
  ASSERT_EQ(answer.bytes.size(), y.size_bytes());
  EXPECT_EQ(std::memcmp(answer.bytes.data(), y.raw(), y.size_bytes()), 0);
}

}  // namespace
}  // namespace dlpipe::engine
