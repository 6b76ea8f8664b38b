// Models of every kind go to ONNX and come back, and then answer what they answered. (The whole table is judged
// by ONNX Runtime, tests/interop/read_onnx.py.)
#include <gtest/gtest.h>

#include <cmath>

#include "dlpipe/base/rng.h"
#include "dlpipe/engine/graph/run.h"
#include "dlpipe/engine/models/capture_model.h"
#include "dlpipe/engine/onnx/export.h"
#include "dlpipe/engine/onnx/import.h"

namespace dlpipe::engine {
namespace {

Tensor drawn(const ModelArguments& arguments, int64_t batch) {
  Tensor x = blank_input(arguments, batch);
  RandomStream random(7, 1);
  for (int64_t i = 0; i < x.elements(); ++i) {
    if (x.dtype() == DType::kI64) {
      x.data<int64_t>()[i] = random.below(static_cast<uint32_t>(arguments.classes));
    } else {
      x.data<float>()[i] = static_cast<float>(random.normal());
    }
  }
  return x;
}

TEST(OnnxModels, GoThereAndBack) {
  for (const char* const name : {"airbench", "gpt_char_tiny", "lenet", "resnet18_cifar", "vit_small_cifar"}) {
    const ModelRecord* const record = value_or_throw(ModelRegistry::builtin().find(name));
    SCOPED_TRACE(record->name);
    ModelArguments arguments = {.classes = 7, .channels = 3, .height = 32, .width = 32, .seed = 3};
    if (record->input == ModelInput::kTokens) arguments.length = 9;
    const auto model = record->build(arguments);
    const graph::Graph captured = capture_model(*model, arguments, record->name);
    const std::string bytes = onnx::serialize(onnx::export_graph(captured));
    const graph::Graph back = onnx::import_model(value_or_throw(onnx::parse_model(bytes, "")));
    EXPECT_EQ(back.value(back.inputs[0]).name, "x");
    EXPECT_EQ(back.value(back.inputs[0]).type_text(), captured.value(captured.inputs[0]).type_text());
    const Tensor x = drawn(arguments, 2);
    const std::vector<double> wanted = graph::Runner(captured).run({&x, 1})[0].to_doubles();
    const std::vector<double> got = graph::Runner(back).run({&x, 1})[0].to_doubles();
    ASSERT_EQ(got.size(), wanted.size());
    double difference = 0, size = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      difference = std::max(difference, std::fabs(got[i] - wanted[i]));
      size = std::max(size, std::fabs(wanted[i]));
    }
    // Attention and gelu come back as the ops that they are made of.
    EXPECT_LT(difference / size, 1e-4);
  }
}

}  // namespace
}  // namespace dlpipe::engine
