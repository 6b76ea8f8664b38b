#include "tests/serve/small_model.h"

#include <filesystem>
#include <vector>

#include "dlpipe/codec.h"
#include "dlpipe/graph.h"
#include "dlpipe/models.h"
#include "dlpipe/onnx.h"
#include "dlpipe/ops.h"
#include "engine/graph/capture.h"
#include "run/use/graph_model.h"

namespace dlpipe::test {

void write_small_model(const std::string& path, uint64_t seed) {
  const auto lenet =
      value_or_throw(engine::ModelRegistry::builtin().find("lenet"))->build({.classes = 7, .seed = seed});
  lenet->eval();
  const engine::graph::CaptureInput input = {"x", engine::Tensor::zeros({1, 3, 32, 32}).spec(),
                                             engine::bit(0)};
  const engine::graph::Graph graph =
      engine::graph::capture("lenet", {&input, 1}, {}, [&](const std::vector<engine::Tensor>& inputs) {
        return std::vector{(*lenet)(engine::transpose(inputs[0], {0, 2, 3, 1}))};
      });
  const std::string onnx = path + ".onnx";
  throw_if_error(engine::onnx::write_model(onnx, engine::onnx::export_graph(graph)));
  const run::CompiledModel compiled = run::compile_model(
      {.weights = onnx, .val_augment = "resize(32x32) normalize(mean=0.5:0.5:0.5,std=0.2:0.2:0.2)"},
      run::PassChoice::kAll);
  throw_if_error(engine::graph::write_graph(path, compiled.graph));
  std::filesystem::remove(onnx);
}

run::ImageFile small_image(uint8_t colour) {
  const std::vector<uint8_t> pixels(size_t{32} * 32 * 3, colour);
  const auto png = value_or_throw(data::encode_png({pixels.data(), 32, 32, 3, 96}));
  return {.path = "image", .bytes = std::string(reinterpret_cast<const char*>(png.data()), png.size())};
}

}  // namespace dlpipe::test
