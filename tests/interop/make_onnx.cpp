// interop_make_onnx FOLDER: of every model of the table FOLDER/NAME.onnx, NAME.optimized.onnx, an input NAME.x.npy and
// what the model answers, NAME.y.npy. For read_onnx.py.
#include <cstdio>

#include "dlpipe/base/rng.h"
#include "dlpipe/engine/graph/passes.h"
#include "dlpipe/engine/models/capture_model.h"
#include "dlpipe/engine/onnx/export.h"
#include "dlpipe/io/formats/npy.h"

using namespace dlpipe;
using namespace dlpipe::engine;

static void save(const std::string& path, const Tensor& tensor) {
  throw_if_error(formats::write_npy(path, tensor.dtype(), tensor.shape().dims(),
                                    {static_cast<const std::byte*>(tensor.raw()), tensor.size_bytes()}));
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
  captured.metadata["about"] = "a test of dlpipe's";
  const std::string base = folder + "/" + record.name;
  throw_if_error(onnx::write_model(base + ".onnx", onnx::export_graph(captured)));
  graph::optimize(captured);
  throw_if_error(onnx::write_model(base + ".optimized.onnx", onnx::export_graph(captured)));
  save(base + ".x.npy", x);
  model->eval();
  const NoGrad no_grad;
  save(base + ".y.npy", (*model)(x).contiguous_copy());
}

int main(int count, char** arguments) try {
  if (count != 2) return 2;
  for (const ModelRecord* record : model_table()) make(*record, arguments[1]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
