// interop_make_onnx FOLDER: of every model of the table FOLDER/NAME.onnx, NAME.optimized.onnx, an input NAME.x.npy and
// what the model answers, NAME.y.npy. For read_onnx.py.
#include <cstdio>

#include "dlpipe/onnx.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "engine/graph/capture.h"
#include "engine/graph/passes.h"
#include "engine/models/graph_module.h"
#include "engine/ops/resize.h"
#include "io/formats/npy.h"

using namespace dlpipe;
using namespace dlpipe::engine;

static void save(const std::string& path, const Tensor& tensor) {
  throw_if_error(formats::write_npy(path, tensor.dtype(), tensor.shape().dims(),
                                    {static_cast<const std::byte*>(tensor.raw()), tensor.size_bytes()}));
}

// Of `base`.x.npy the graph answers `base`.y.npy.
static void write(const std::string& base, graph::Graph graph, const Tensor& x, const Tensor& y) {
  graph.metadata["about"] = "a test of dlpipe's";
  throw_if_error(onnx::write_model(base + ".onnx", onnx::export_graph(graph)));
  graph::optimize(graph);
  throw_if_error(onnx::write_model(base + ".optimized.onnx", onnx::export_graph(graph)));
  save(base + ".x.npy", x);
  save(base + ".y.npy", y.contiguous_copy());
}

static Tensor drawn(const Shape& shape, uint64_t seed) {
  Tensor x = Tensor::empty(shape);
  RandomStream random(seed, 1);
  for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = static_cast<float>(random.normal());
  return x;
}

static void make(const ModelRecord& record, const std::string& folder) {
  ModelArguments arguments = {.classes = 7, .channels = 3, .height = 32, .width = 32, .seed = 3};
  if (record.input == ModelInput::kTokens) arguments.length = 9;
  const auto model = record.build(arguments);
  constexpr int64_t kBatch = 2;
  Tensor x = blank_input(arguments, kBatch);
  RandomStream random(5, 1);
  for (int64_t i = 0; i < x.elements(); ++i) {
    if (x.dtype() == DType::kI64) {
      x.data<int64_t>()[i] = random.below(static_cast<uint32_t>(arguments.classes));
    } else {
      x.data<float>()[i] = static_cast<float>(random.normal());
    }
  }
  graph::Graph captured = capture_model(*model, arguments, record.name);
  model->eval();
  const NoGrad no_grad;
  write(folder + "/" + record.name, std::move(captured), x, (*model)(x));
}

// What no model of the table has: images of other sizes, by each rule that ONNX knows.
static void make_resizes(const std::string& folder) {
  using Where = ResizeCoordinates;
  constexpr ResizeMode kLinear = ResizeMode::kLinear;
  const std::vector<ResizeAttrs> all = {
      {.size = {12, 14}},
      {.size = {9, 4}, .coordinates = Where::kHalfPixel, .rounding = ResizeRounding::kPreferCeil},
      {.size = {4, 10}, .coordinates = Where::kAlignCorners, .rounding = ResizeRounding::kPreferFloor},
      {.size = {11, 5}, .mode = kLinear, .coordinates = Where::kHalfPixel},
      {.size = {12, 14}, .mode = kLinear, .coordinates = Where::kHalfPixelSymmetric},
      {.size = {4, 9}, .mode = kLinear, .coordinates = Where::kAlignCorners},
      {.size = {1, 3}, .mode = kLinear, .coordinates = Where::kPytorchHalfPixel},
      {.size = {9, 4}, .mode = kLinear, .scale_height = 1.5, .scale_width = 0.6},
      {.size = {10, 7}, .mode = kLinear, .coordinates = Where::kHalfPixel, .scale_height = 1.7},
  };
  const graph::Function resizes = [&](const std::vector<Tensor>& inputs) {
    std::vector<Tensor> rows;
    for (const ResizeAttrs& attrs : all) rows.push_back(flatten(resize(relu(inputs[0]), attrs)));
    return std::vector<Tensor>{concat(rows, 1)};
  };
  const graph::CaptureInput input = {"x", {{1, 6, 7, 5}}, bit(0)};
  const Tensor x = drawn({3, 6, 7, 5}, 6);
  write(folder + "/resizes", graph::capture("resizes", {&input, 1}, {}, resizes), x, resizes({x})[0]);
}

// And windows that go past the image and past its padding, which count or don't.
static void make_pools(const std::string& folder) {
  const std::vector<Pool2dAttrs> all = {
      {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}},
      {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .count_include_pad = false},
      {.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true},
      {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true},
      {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .count_include_pad = false, .ceil_mode = true},
      {.kernel = {4, 3}, .stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true},
  };
  const graph::Function pools = [&](const std::vector<Tensor>& inputs) {
    std::vector<Tensor> rows;
    for (const Pool2dAttrs& attrs : all) {
      rows.push_back(flatten(avg_pool2d(relu(inputs[0]), attrs)));
      rows.push_back(flatten(max_pool2d(relu(inputs[0]), attrs)));
    }
    return std::vector<Tensor>{concat(rows, 1)};
  };
  const graph::CaptureInput input = {"x", {{1, 6, 7, 5}}, bit(0)};
  const Tensor x = drawn({3, 6, 7, 5}, 7);
  write(folder + "/pools", graph::capture("pools", {&input, 1}, {}, pools), x, pools({x})[0]);
}

int main(int count, char** arguments) try {
  if (count != 2) return 2;
  for (const ModelRecord* record : model_table()) make(*record, arguments[1]);
  make_resizes(arguments[1]);
  make_pools(arguments[1]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
