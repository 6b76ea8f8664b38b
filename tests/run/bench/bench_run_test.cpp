#include "run/bench/bench.h"

#include <gtest/gtest.h>

#include "dlpipe/graph.h"
#include "dlpipe/ops.h"
#include "engine/graph/capture.h"
#include "engine/models/graph_module.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::run {
namespace {

using engine::Tensor;

/// relu of images [4,3,8,8], which torch.onnx.export makes by default: no axis grows with the batch.
engine::graph::Graph of_four_images() {
  const engine::graph::CaptureInput x = {"x", Tensor::zeros({4, 3, 8, 8}).spec(), 0};
  return engine::graph::capture("four", {&x, 1}, {}, [](const std::vector<Tensor>& inputs) {
    return std::vector<Tensor>{engine::relu(inputs[0])};
  });
}

/// What an error says; "" where there is none.
template <class Function>
std::string error_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(BenchRun, AModelOfAFixedBatchIsMeasuredAtThatBatchAlone) {
  const data::TempDir folder;
  BenchRunOptions options;
  options.model = folder / "four.dlg";
  options.seconds = 0;
  options.threads = 1;
  throw_if_error(engine::graph::write_graph(options.model, of_four_images()));
  const BenchRunReport report = bench_run(options);
  EXPECT_EQ(report.options.batch, 4);
  EXPECT_DOUBLE_EQ(report.samples_per_s, 4 / (report.median_ms * 1e-3));
  for (const int64_t other : {1, 32}) {
    options.batch = other;
    const auto says = [&](const std::string& error) {
      EXPECT_NE(error.find("only accepts batches of 4; give --batch 4"), std::string::npos) << error;
    };
    says(error_of([&] { bench_run(options); }));
    says(error_of([&] { profile_run(options); }));
  }
}

TEST(ImageGraph, ABatchThatCannotVaryIsNamedWithTheWayOut) {
  const std::string error = error_of([] { engine::image_graph(of_four_images()); });
  EXPECT_NE(error.find("images in batches of exactly 4; export it with a variable batch size"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("dynamic_axes={'x': {0: 'N'}}"), std::string::npos) << error;
}

}  // namespace
}  // namespace dlpipe::run
