#include "dlpipe/graph.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "engine/core/parallel.h"
#include "engine/graph/passes.h"
#include "engine/ops/shape_ops.h"
#include "tests/engine/check_op.h"
#include "tests/engine/graph/graph_testing.h"

namespace dlpipe::engine::graph {
namespace {

TEST(BySample, IsWhatLooksAtNoOtherSample) {
  const Tensor weight = drawn({3, 4}, 1);
  const auto by_sample = [&](const Function& function) {
    return is_by_sample(captured({{1, 6, 4}}, function, {{"weight", weight}}));
  };
  using In = std::vector<Tensor>;
  EXPECT_TRUE(by_sample([&](const In& in) { return In{softmax(linear(relu(in[0]), weight, Tensor()), 2)}; }));
  EXPECT_TRUE(by_sample([&](const In& in) { return In{slice(in[0], 1, 0, 3)}; }));
  EXPECT_TRUE(by_sample([&](const In& in) { return In{concat({in[0], transpose(in[0], {0, 1, 2})}, 2)}; }));
  EXPECT_FALSE(by_sample([&](const In& in) { return In{softmax(in[0], 0)}; }));
  EXPECT_FALSE(by_sample([&](const In& in) { return In{transpose(in[0], {1, 0, 2})}; }));
  EXPECT_FALSE(by_sample([&](const In& in) { return In{relu(in[0]) * mean(in[0], {0}, true)}; }));
  EXPECT_FALSE(by_sample([&](const In& in) { return In{mean(in[0], {0}, false)}; }));
}

/// A depthwise and a narrow one over images of 64 channels, the mean of each, and a product.
Graph convolutions(int64_t height, int64_t width) {
  const Tensor filter = drawn({64, 1, 3, 3}, 1), narrow = drawn({5, 64, 1, 1}, 2), weight = drawn({3, 5}, 3);
  return captured({{1, height, width, 64}},
                  [&](const std::vector<Tensor>& in) {
                    const Tensor y = conv2d(in[0], filter, Tensor(), {.padding = {1, 1}, .groups = 64});
                    const Tensor z = global_avg_pool(conv2d(clip(y, 0, 6), narrow, Tensor()));
                    return std::vector<Tensor>{linear(z, weight, Tensor()), z};
                  },
                  {{"filter", filter}, {"narrow", narrow}, {"weight", weight}});
}

TEST(BySample, PartsAnswerTheBitsOfTheBatch) {
  Graph graph = convolutions(200, 150);
  EXPECT_EQ(batch_parts(graph).samples, 0);
  fuse_conv_units.run(graph);
  remove_dead_nodes.run(graph);
  ASSERT_EQ(batch_parts(graph).samples, 1);  // 15 MB a sample
  const Runner runner(graph);
  const Tensor x = drawn({3, 200, 150, 64}, 5);
  const std::vector<Tensor> all = runner.run({&x, 1});
  for (int64_t i = 0; i < 3; ++i) {
    const Tensor one = slice(x, 0, i, i + 1);
    const std::vector<Tensor> answers = runner.run({&one, 1});
    for (size_t k = 0; k < 2; ++k)
      EXPECT_EQ(slice(all[k], 0, i, i + 1).to_doubles(), answers[k].to_doubles()) << i << ", output " << k;
  }
}

// Two take parts of their own, and the rest together; more share each part's nodes.
TEST(BySample, ThreadsThatTakePartsApartAnswerTheBitsOfOne) {
  Graph graph = convolutions(40, 30);
  fuse_conv_units.run(graph);
  remove_dead_nodes.run(graph);
  ASSERT_EQ(batch_parts(graph).samples, 20);
  ASSERT_EQ(batch_parts(graph).apart, 2);
  const Runner runner(graph);
  const int former = engine_threads();
  for (const int64_t batch : {21, 60, 107}) {
    const Tensor x = drawn({batch, 40, 30, 64}, static_cast<uint64_t>(batch));
    set_engine_threads(1);
    const std::vector<Tensor> alone = runner.run({&x, 1});
    for (const int threads : {2, 3}) {
      set_engine_threads(threads);
      for (int again = 0; again < 2; ++again) {
        const std::vector<Tensor> answers = runner.run({&x, 1});
        for (size_t k = 0; k < 2; ++k)
          EXPECT_EQ(answers[k].to_doubles(), alone[k].to_doubles())
              << batch << " by " << threads << ", output " << k;
      }
    }
    size_t seen = 0;  // who observes sees every node, whatever the threads
    set_engine_threads(2);
    runner.run({&x, 1}, [&](size_t, int64_t) { ++seen; });
    EXPECT_EQ(seen, graph.nodes.size() * static_cast<size_t>((batch + 19) / 20));
  }
  set_engine_threads(former);
}

// What OpRecord::batch_inputs promises, for every record.

constexpr int64_t kBatch = 3;

Tensor values_like(const OpSample& sample, const TensorSpec& spec, uint64_t seed) {
  Tensor tensor = Tensor::empty({spec.shape, DType::kF64});
  RandomStream random(20261125, seed);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    tensor.data<double>()[i] = is_floating(spec.dtype)
                                   ? sample.low + (sample.high - sample.low) * random.uniform_double()
                                   : random.below(static_cast<uint32_t>(sample.int_high));
  }
  return cast(tensor, spec.dtype);
}

// Divides axis 0 by `rows`; false where there is none or it doesn't divide.
bool divide(Shape& shape, int64_t rows) {
  if (shape.rank() == 0 || rows == 0 || shape[0] % rows != 0) return false;
  shape[0] /= rows;
  return true;
}

// The attributes of a reshape of a batch: its size of axis 0 divided by `rows`, times the batch. Others stay as they are.
bool divide_attributes(Node& node, int64_t rows) {
  if (!node.attrs.is<ReshapeAttrs>()) return true;
  auto attrs = node.attrs.as<ReshapeAttrs>();
  if (!divide(attrs.shape, rows)) return false;
  node.attrs = attrs;
  node.batch_sizes = bit(0);
  return true;
}

// The op alone, where the inputs in `batched` have a batch along axis 0, of 1/`rows` of the sample's size for each of the
// batch; the others are constants. Without nodes where there is no such batch by the shape rule.
Graph one_op(const OpRow& row, const OpSample& sample, uint32_t batched, int64_t rows) {
  Graph graph;
  Node node{&row, sample.attrs, {}, {}, 0};
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    TensorSpec spec = sample.inputs[i];
    if ((batched & bit(static_cast<int>(i))) == 0) {
      node.inputs.push_back(graph.add_constant(concat("constant", i), values_like(sample, spec, i)));
      continue;
    }
    if (!divide(spec.shape, rows)) return {};
    node.inputs.push_back(graph.add_value({concat("x", i), spec.shape, bit(0), spec.dtype}));
    graph.inputs.push_back(node.inputs.back());
  }
  if (!divide_attributes(node, rows)) return {};
  for (int i = 0; i < row.record->visible_outputs; ++i) {
    node.outputs.push_back(graph.add_value({concat("y", i), {}, bit(0), DType::kF32}));
    graph.outputs.push_back(node.outputs.back());
  }
  graph.nodes.push_back(std::move(node));
  try {
    infer_shapes(graph);
    check(graph);
  } catch (const Error&) {
    return {};
  }
  return graph;
}

Tensor part_of(const Tensor& batch, int64_t k) {
  const int64_t rows = batch.size(0) / kBatch;
  return slice(batch, 0, k * rows, (k + 1) * rows);
}

// A library chooses kernels by the whole shape, the batch in it: oneDNN's Winograd for one image, its direct convolution
// for three. Their answers are within the record's tolerance of each other, as are those of two instruction sets; all other
// kernels give a sample the same bits in any batch.
Tolerance batch_tolerance(const OpRow& row, Backend backend) {
  const Kernels* const kernels = row.kernels[static_cast<int>(backend)];
  if (backend == Backend::kReference || kernels == nullptr || kernels->same_bits_on_every_isa)
    return {0, 0, "the same bits"};
  return row.record->f32;
}

void expect_parts_alike(const Graph& graph, const OpSample& sample, const Tolerance& tolerance,
                        const std::string& what) {
  std::vector<Tensor> batch;
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    batch.push_back(values_like(sample, {value.shape_at(kBatch), value.dtype}, 100 + batch.size()));
  }
  const Runner runner(graph);
  const std::vector<Tensor> all = runner.run(batch);
  for (int64_t k = 0; k < kBatch; ++k) {
    std::vector<Tensor> part;
    for (const Tensor& x : batch) part.push_back(part_of(x, k));
    const std::vector<Tensor> answers = runner.run(part);
    for (size_t i = 0; i < all.size(); ++i)
      expect_near(part_of(all[i], k), answers[i], tolerance, concat(what, ", part ", k, ", output ", i));
  }
}

class BatchInputs : public testing::TestWithParam<OpRow> {};

// A batch gives the answers of its parts, whose axis 0 is as long as the record's samples say, or 1, in each way in which
// their inputs can be a batch; on the reference's kernels and on the cpu's.
TEST_P(BatchInputs, AreComputedSampleBySample) {
  const OpRow& row = GetParam();
  if (row.record->batch_inputs == 0) GTEST_SKIP() << "no promise";
  int graphs = 0;
  for (const OpSample& sample : row.record->samples()) {
    const Shape& first = sample.inputs[static_cast<size_t>(std::countr_zero(row.record->batch_inputs))].shape;
    for (const int64_t rows : {int64_t{1}, first.rank() == 0 ? 0 : first[0]}) {
      for (uint32_t batched = 1; batched < bit(static_cast<int>(sample.inputs.size())); ++batched) {
        const Graph graph = one_op(row, sample, batched, rows);
        if (graph.nodes.empty() || !is_by_sample(graph)) continue;
        ++graphs;
        for (const Backend backend : {Backend::kReference, Backend::kCpu}) {
          const UseBackend use(backend);
          expect_parts_alike(
              graph, sample, batch_tolerance(row, backend),
              concat("'", sample.name, "', ", to_text(graph), ", backend ", static_cast<int>(backend)));
        }
      }
    }
  }
  EXPECT_GT(graphs, 0) << row.record->name << " has batch_inputs, and no sample is a batch along axis 0";
}

INSTANTIATE_TEST_SUITE_P(Ops, BatchInputs, testing::ValuesIn(op_table().begin(), op_table().end()),
                         [](const auto& param) { return std::string(param.param.record->name); });

}  // namespace
}  // namespace dlpipe::engine::graph
