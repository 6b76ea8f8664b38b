// What cuDNN is told about attention, checked by doing as told over host memory; and what it isn't asked for.
#include "engine/cuda/cudnn/cudnn_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/ops.h"
#include "tests/engine/cuda/attention_case.h"
#include "tests/engine/cuda/simulated.h"
#include "tests/engine/distance.h"

namespace dlpipe::engine::cuda {
namespace {

using cudnn::DescriptorType;
using cudnn::Extents;
using cudnn::GraphTensor;
using cudnn::Operation;
using cudnn::PointwiseMode;

/// Operations as cuDNN's documentation has them, in f32. Each tensor is memory under its strides; virtual
/// ones get theirs here and hold NaN until an operation has written them.
class HostGraph {
 public:
  HostGraph(const cudnn::Operations& operations, const std::vector<cudnn::Binding>& bindings)
      : tensors_(operations.tensors), memory_(tensors_.size()), written_(tensors_.size()) {
    for (const auto& [id, memory] : bindings) bound_[id] = static_cast<float*>(memory);
    for (size_t i = 0; i < tensors_.size(); ++i) place(i);
    for (const Operation& operation : operations.list) run(operation);
  }
  /// Tensors that have memory and were written.
  std::vector<int64_t> written() const {
    std::vector<int64_t> ids;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (written_[i] && !tensors_[i].is_virtual) ids.push_back(tensors_[i].id);
    }
    return ids;
  }

 private:
  void place(size_t i) {
    const GraphTensor& tensor = tensors_[i];
    EXPECT_TRUE(ids_.emplace(tensor.id, i).second) << "two tensors of id " << tensor.id;
    if (!tensor.is_virtual && !tensor.value) {
      EXPECT_TRUE(bound_.contains(tensor.id)) << "no memory for " << tensor.id;
      memory_[i] = bound_[tensor.id];
      return;
    }
    int64_t last = 0;
    for (size_t axis = 0; axis < 4; ++axis) last += (tensor.dims[axis] - 1) * tensor.strides[axis];
    own_.emplace_back(static_cast<size_t>(last + 1),
                      tensor.value.value_or(std::numeric_limits<float>::quiet_NaN()));
    memory_[i] = own_.back().data();
  }

  /// Dimensions of size 1 are stretched.
  float& at(size_t i, const Extents& index) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < 4; ++axis)
      offset += (tensors_[i].dims[axis] == 1 ? 0 : index[axis]) * tensors_[i].strides[axis];
    return memory_[i][offset];
  }
  template <class Use>
  void each(size_t i, const Use& use) {
    const Extents dims = tensors_[i].dims;
    Extents at = {};
    for (at[0] = 0; at[0] < dims[0]; ++at[0]) {
      for (at[1] = 0; at[1] < dims[1]; ++at[1]) {
        for (at[2] = 0; at[2] < dims[2]; ++at[2]) {
          for (at[3] = 0; at[3] < dims[3]; ++at[3]) use(at);
        }
      }
    }
  }

  void run(const Operation& o) {
    EXPECT_FALSE(written_[o.y]) << tensors_[o.y].id << " is written twice";
    EXPECT_FALSE(tensors_[o.y].value.has_value()) << "a constant is written";
    written_[o.y] = true;
    if (o.type == DescriptorType::kMatmulOperation) return multiply(o);
    if (o.type == DescriptorType::kReductionOperation) return reduce(o);
    if (o.type == DescriptorType::kReshapeOperation) {  // the same memory under other strides
      memory_[o.y] = memory_[o.x];
      return;
    }
    each(o.y, [&](const Extents& i) { at(o.y, i) = pointwise(o, i); });
  }
  void multiply(const Operation& o) {
    const int64_t terms = tensors_[o.x].dims[3];
    EXPECT_EQ(tensors_[*o.b].dims[2], terms);
    EXPECT_EQ(tensors_[o.y].dims[2], tensors_[o.x].dims[2]);
    EXPECT_EQ(tensors_[o.y].dims[3], tensors_[*o.b].dims[3]);
    each(o.y, [&](const Extents& i) {
      double sum = 0;
      for (int64_t k = 0; k < terms; ++k)
        sum += static_cast<double>(at(o.x, {i[0], i[1], i[2], k})) * at(*o.b, {i[0], i[1], k, i[3]});
      at(o.y, i) = static_cast<float>(sum);
    });
  }
  /// Over the last dimension.
  void reduce(const Operation& o) {
    EXPECT_EQ(tensors_[o.y].dims[3], 1);
    each(o.y, [&](const Extents& i) {
      double result = o.reduction == cudnn::ReductionMode::kSum ? 0 : -INFINITY;
      for (int64_t k = 0; k < tensors_[o.x].dims[3]; ++k) {
        const double x = at(o.x, {i[0], i[1], i[2], k});
        result = o.reduction == cudnn::ReductionMode::kSum ? result + x : std::max(result, x);
      }
      at(o.y, i) = static_cast<float>(result);
    });
  }
  float pointwise(const Operation& o, const Extents& i) {
    const float x = at(o.x, i);
    const auto b = [&] { return at(*o.b, i); };
    switch (o.pointwise) {
      case PointwiseMode::kAdd:
        return x + b();
      case PointwiseMode::kMultiply:
        return x * b();
      case PointwiseMode::kDivide:
        return x / b();
      case PointwiseMode::kSubtract:
        return x - b();
      case PointwiseMode::kExp:
        return std::exp(x);
      case PointwiseMode::kLog:
        return std::log(x);
      case PointwiseMode::kRelu:
        return x < 0 ? 0.0f : x;
      case PointwiseMode::kGreaterOrEqual:
        return x >= b() ? 1.0f : 0.0f;
      case PointwiseMode::kIndex:
        return static_cast<float>(i[static_cast<size_t>(*o.axis)]);
      case PointwiseMode::kSelect:
        return at(*o.t, i) != 0 ? x : b();
    }
    return std::numeric_limits<float>::quiet_NaN();
  }

  std::vector<GraphTensor> tensors_;
  std::vector<float*> memory_;
  std::vector<bool> written_;
  std::map<int64_t, float*> bound_;
  std::map<int64_t, size_t> ids_;
  std::vector<std::vector<float>> own_;
};

std::vector<AttentionCase> attention_cases() {
  return {{"one head", 2, 5, 1, 4, false},         {"causal", 2, 7, 3, 8, true},
          {"odd length", 1, 33, 2, 16, false},     {"odd length, causal", 2, 35, 2, 16, true},
          {"64 wide, causal", 1, 40, 2, 64, true}, {"one position", 2, 1, 2, 8, true},
          {"128 wide", 1, 9, 2, 128, false}};
}

/// The op's tensors: qkv, outputs, log_sums, outputs' gradient, qkv's gradient.
struct AttentionTensors {
  Tensor qkv, outputs, log_sums, grad_outputs, grad_qkv;
};

AttentionTensors random_attention(const AttentionCase& c, DType dtype) {
  std::mt19937 generator(7);
  std::uniform_real_distribution<float> values(-2, 2);
  const auto random = [&](const Shape& shape) {
    std::vector<float> out(static_cast<size_t>(shape.elements()));
    for (float& value : out) value = values(generator);
    return cast(Tensor::from<float>(out, shape), dtype);
  };
  const auto unwritten = [&](const Shape& shape) {
    return Tensor::full(shape, std::numeric_limits<double>::quiet_NaN(), dtype);
  };
  return {random(c.qkv()), unwritten(c.outputs()), unwritten({c.batch, c.heads, c.length}),
          random(c.outputs()), unwritten(c.qkv())};
}

void run_forward(const Kernels& kernels, const AttentionCase& c, AttentionTensors& t) {
  const std::vector<Tensor> inputs = {t.qkv};
  std::vector<Tensor> outputs = {t.outputs, t.log_sums};
  const Attrs attrs(c.attrs());
  kernels.forward({inputs, outputs, attrs});
}
void run_backward(const Kernels& kernels, const AttentionCase& c, AttentionTensors& t) {
  const std::vector<Tensor> inputs = {t.qkv};
  const std::vector<Tensor> outputs = {t.outputs, t.log_sums};
  const std::vector<Tensor> grad_outputs = {t.grad_outputs};
  std::vector<Tensor> grad_inputs = {t.grad_qkv};
  const Attrs attrs(c.attrs());
  kernels.backward({inputs, outputs, grad_outputs, grad_inputs, attrs});
}

AttentionProblem problem_of(const AttentionCase& c, const AttentionTensors& t, AttentionPass pass) {
  return {.pass = pass,
          .shape = AttentionShape(c.qkv(), c.attrs()),
          .causal = c.causal,
          .dtype = t.qkv.dtype(),
          .qkv = t.qkv.raw(),
          .outputs = t.outputs.raw(),
          .log_sums = t.log_sums.raw(),
          .grad_outputs = t.grad_outputs.raw(),
          .grad_qkv = t.grad_qkv.raw()};
}
/// Does as cuDNN is told. Answers the ids that were written.
std::vector<int64_t> run_graph(const AttentionCase& c, const AttentionTensors& t, AttentionPass pass) {
  const Tensor deltas = Tensor::zeros(t.log_sums.shape());
  AttentionProblem problem = problem_of(c, t, pass);
  problem.deltas = deltas.raw();
  return HostGraph(AttentionGraph(problem, cudnn::DataType::kF32).operations(),
                   AttentionGraph::bindings(problem))
      .written();
}

/// Sums of f32 products of numbers up to 2: some 1e-6 of them; what wasn't written is NaN.
void expect_close(const Tensor& got, const Tensor& expected, const std::string& what) {
  EXPECT_LT(dlpipe::test::largest_difference(got, expected), 2e-5) << what;
}

const Kernels& reference_attention() {
  return *OpRegistry::builtin().get("self_attention")->kernels[0];
}
const Kernels& own_attention() {
  for (const SimulatedRow& row : simulated_table()) {
    if (std::string_view(row.name) == "self_attention") return *row.kernels;
  }
  throw std::logic_error("no self_attention over the simulated grid");
}

TEST(AttentionGraph, GivesTheReferencesValues) {
  for (const AttentionCase& c : attention_cases()) {
    AttentionTensors expected = random_attention(c, DType::kF64);
    run_forward(reference_attention(), c, expected);
    run_backward(reference_attention(), c, expected);
    AttentionTensors got = random_attention(c, DType::kF32);
    using Graph = AttentionGraph;
    EXPECT_EQ(run_graph(c, got, AttentionPass::kForward),
              (std::vector<int64_t>{Graph::kLogSums, Graph::kOutputs}));
    expect_close(got.outputs, expected.outputs, dlpipe::concat(c.name, ", outputs"));
    expect_close(got.log_sums, expected.log_sums, dlpipe::concat(c.name, ", log_sums"));
    EXPECT_EQ(
        run_graph(c, got, AttentionPass::kBackward),
        (std::vector<int64_t>{Graph::kDeltas, Graph::kGradValues, Graph::kGradKeys, Graph::kGradQueries}));
    expect_close(got.grad_qkv, expected.grad_qkv, dlpipe::concat(c.name, ", gradient"));
  }
}

TEST(AttentionGraph, SharesWhatForwardLeavesWithOurKernels) {
  for (const AttentionCase& c : attention_cases()) {
    AttentionTensors expected = random_attention(c, DType::kF64);
    run_forward(reference_attention(), c, expected);
    run_backward(reference_attention(), c, expected);
    AttentionTensors graph_first = random_attention(c, DType::kF32);
    run_graph(c, graph_first, AttentionPass::kForward);
    run_backward(own_attention(), c, graph_first);
    expect_close(graph_first.grad_qkv, expected.grad_qkv, dlpipe::concat(c.name, ", the graph first"));
    AttentionTensors own_first = random_attention(c, DType::kF32);
    run_forward(own_attention(), c, own_first);
    run_graph(c, own_first, AttentionPass::kBackward);
    expect_close(own_first.grad_qkv, expected.grad_qkv, dlpipe::concat(c.name, ", our kernel first"));
  }
}

TEST(AttentionGraph, RoundsNothingButSoftmaxAndItsGradient) {
  const AttentionCase c = {"", 2, 8, 2, 16, true};
  const AttentionTensors t = random_attention(c, DType::kF32);
  for (const AttentionPass pass : {AttentionPass::kForward, AttentionPass::kBackward}) {
    const cudnn::Operations operations =
        AttentionGraph(problem_of(c, t, pass), cudnn::DataType::kBF16).operations();
    int rounded = 0;
    for (const GraphTensor& tensor : operations.tensors)
      rounded += tensor.is_virtual && tensor.type == cudnn::DataType::kBF16;
    // P before P V; P^T, dS^T and the keys turned back.
    EXPECT_EQ(rounded, pass == AttentionPass::kForward ? 1 : 3);
    for (const Operation& operation : operations.list) {
      const bool of_positions = operation.pointwise == PointwiseMode::kIndex ||
                                operation.pointwise == PointwiseMode::kGreaterOrEqual;
      EXPECT_EQ(operation.math == cudnn::DataType::kF32, !of_positions);
    }
  }
}

AttentionProblem gpt2_problem(AttentionPass pass, int64_t width, DType dtype) {
  return {.pass = pass, .shape = AttentionShape({8, 1024, 3 * 12 * width}, {12, true}), .dtype = dtype};
}

TEST(AttentionRules, CudnnTakesWholePacksInHalfPrecision) {
  constexpr auto kForward = AttentionPass::kForward;
  for (const int64_t width : {8, 32, 64, 80, 128}) {
    EXPECT_TRUE(cudnn_takes(gpt2_problem(kForward, width, DType::kBF16)).ok()) << width;
    EXPECT_TRUE(cudnn_takes(gpt2_problem(kForward, width, DType::kF16)).ok()) << width;
  }
  for (const int64_t width : {17, 100, 136}) {
    const Status status = cudnn_takes(gpt2_problem(kForward, width, DType::kBF16));
    EXPECT_EQ(status.code(), ErrorCode::kUnsupported) << width;
    EXPECT_NE(status.message().find(dlpipe::concat("heads ", width, " wide")), std::string::npos);
  }
  EXPECT_EQ(cudnn_takes(gpt2_problem(kForward, 64, DType::kF32)).code(), ErrorCode::kUnsupported);
  AttentionProblem one_position = gpt2_problem(kForward, 64, DType::kBF16);
  one_position.shape.length = 1;
  EXPECT_EQ(cudnn_takes(one_position).code(), ErrorCode::kUnsupported);
  AttentionProblem shifted = gpt2_problem(kForward, 64, DType::kBF16);
  shifted.outputs = reinterpret_cast<void*>(8);
  EXPECT_EQ(cudnn_takes(shifted).code(), ErrorCode::kUnsupported);
}

TEST(AttentionRules, BackwardIsAskedOfHopperAlone) {
  const AttentionProblem forward = gpt2_problem(AttentionPass::kForward, 64, DType::kBF16);
  const AttentionProblem backward = gpt2_problem(AttentionPass::kBackward, 64, DType::kBF16);
  for (const int capability : {8, 9, 10, 12}) {
    EXPECT_TRUE(cudnn_takes_on(forward, 91900, capability).ok()) << capability;
    EXPECT_EQ(cudnn_takes_on(backward, 91900, capability).ok(), capability == 9) << capability;
  }
  EXPECT_FALSE(cudnn_takes_on(forward, 91500, 9).ok());
  EXPECT_FALSE(cudnn_takes_on(backward, 91002, 9).ok());
}

TEST(AttentionRules, PlansAreKeptByAllThatTheyDependOn) {
  const AttentionProblem problem = gpt2_problem(AttentionPass::kForward, 64, DType::kBF16);
  std::vector<AttentionProblem> others(7, problem);
  others[0].pass = AttentionPass::kBackward;
  others[1].dtype = DType::kF16;
  others[2].causal = true;
  others[3].shape.batch = 4;
  others[4].shape.length = 512;
  others[5].shape.heads = 6;
  others[6].shape.width = 32;
  for (const AttentionProblem& other : others) EXPECT_NE(key_of(other), key_of(problem));
  AttentionProblem elsewhere = problem;
  elsewhere.qkv = &elsewhere;
  EXPECT_EQ(key_of(elsewhere), key_of(problem));
}

}  // namespace
}  // namespace dlpipe::engine::cuda
