#include "engine/cuda/cudnn/cudnn_conv.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/current_cuda.h"
#include "dlpipe/op.h"
#include "engine/cuda/cudnn/cudnn_plan.h"

namespace dlpipe::engine::cuda {
namespace {

using cudnn::Attribute;
using cudnn::DescriptorType;

constexpr size_t kMostPlans = 512;  // per thread: a ResNet-50's step uses about sixty

/// Ids of the tensors in a graph.
enum TensorId : int64_t { kImagesId = 1, kWeightsId, kOutputsId, kBiasId, kSumsId, kBiasedId };

using ConvKey = std::array<int64_t, 21>;

/// cuDNN's names for a pass's operation and attributes.
struct PassNames {
  DescriptorType operation;
  Attribute convolution, images, weights, outputs, alpha, beta;
};
constexpr PassNames kPassNames[] = {
    {DescriptorType::kForward, Attribute::kForwardConvolution, Attribute::kForwardImages,
     Attribute::kForwardWeights, Attribute::kForwardOutputs, Attribute::kForwardAlpha,
     Attribute::kForwardBeta},
    {DescriptorType::kImageGradient, Attribute::kImageGradientConvolution, Attribute::kImageGradientImages,
     Attribute::kImageGradientWeights, Attribute::kImageGradientOutputs, Attribute::kImageGradientAlpha,
     Attribute::kImageGradientBeta},
    {DescriptorType::kWeightGradient, Attribute::kWeightGradientConvolution, Attribute::kWeightGradientImages,
     Attribute::kWeightGradientWeights, Attribute::kWeightGradientOutputs, Attribute::kWeightGradientAlpha,
     Attribute::kWeightGradientBeta},
};

/// The alignment in bytes that all pointers have: that of a pack, or of an element.
int64_t common_alignment(const Convolution& c) {
  uintptr_t bits = 0;
  for (const void* pointer : {static_cast<const void*>(c.images), static_cast<const void*>(c.weights),
                              static_cast<const void*>(c.outputs), c.bias})
    bits |= reinterpret_cast<uintptr_t>(pointer);
  return bits % 16 == 0 ? 16 : static_cast<int64_t>(dtype_size(c.dtype));
}

/// Whether to accept engines that round factors to TF32.
bool may_round(const Convolution& c) {
  return c.dtype == DType::kF32 && tf32_allowed();
}

ConvKey key_of(const Convolution& c) {
  const Conv2dShape& s = c.shape;
  return {static_cast<int64_t>(c.pass),
          static_cast<int64_t>(c.dtype),
          may_round(c),
          c.bias != nullptr,
          c.accumulate,
          c.relu,
          common_alignment(c),
          s.n,
          s.h,
          s.w,
          s.c,
          s.o,
          s.kh,
          s.kw,
          s.groups,
          s.stride[0],
          s.stride[1],
          s.padding[0],
          s.padding[1],
          s.dilation[0],
          s.dilation[1]};
}

/// `dims`: batch (weights: output channels), channels, rows, columns. Memory has channels last.
cudnn::GraphTensor graph_tensor(TensorId id, cudnn::DataType type, const cudnn::Extents& dims,
                                int64_t alignment) {
  const auto [n, c, h, w] = dims;
  return {id, type, dims, {h * w * c, 1, w * c, c}, alignment, id == kSumsId || id == kBiasedId};
}

cudnn::Descriptor attributes_of(const Conv2dShape& s) {
  const auto pair = [](const std::array<int, 2>& values) {
    return std::array<int64_t, 2>{values[0], values[1]};
  };
  cudnn::Descriptor out(DescriptorType::kConvolution);
  out.set(Attribute::kConvolutionMathType, cudnn::DataType::kF32)
      .set(Attribute::kConvolutionMode, cudnn::ConvolutionMode::kCorrelation)
      .set(Attribute::kConvolutionSpatialAxes, int64_t{2})
      .set<int64_t>(Attribute::kConvolutionDilations, pair(s.dilation))
      .set<int64_t>(Attribute::kConvolutionStrides, pair(s.stride))
      .set<int64_t>(Attribute::kConvolutionPaddingBefore, pair(s.padding))
      .set<int64_t>(Attribute::kConvolutionPaddingAfter, pair(s.padding));
  return std::move(out.finalize());
}

cudnn::Graph graph_of(cudnn::Context* handle, const Convolution& c) {
  const Conv2dShape& s = c.shape;
  const cudnn::DataType type = cudnn::data_type(c.dtype);
  const int64_t alignment = common_alignment(c);
  const PassNames& names = kPassNames[static_cast<size_t>(c.pass)];
  cudnn::Graph graph(handle);
  const cudnn::GraphTensor outputs = graph_tensor(kOutputsId, type, {s.n, s.o, s.oh, s.ow}, alignment);
  cudnn::Descriptor operation(names.operation);
  operation.set(names.convolution, graph.keep(attributes_of(s)))
      .set(names.images, graph.tensor(graph_tensor(kImagesId, type, {s.n, s.c, s.h, s.w}, alignment)))
      .set(names.weights,
           graph.tensor(graph_tensor(kWeightsId, type, {s.o, s.c_group(), s.kh, s.kw}, alignment)))
      .set(names.alpha, 1.0f)
      .set(names.beta, c.accumulate ? 1.0f : 0.0f);
  if (c.bias == nullptr && !c.relu) {
    operation.set(names.outputs, graph.tensor(outputs));
    graph.operation(std::move(operation.finalize()));
    return graph;
  }
  const auto between = [&](TensorId id) { return graph_tensor(id, cudnn::DataType::kF32, outputs.dims, 16); };
  const cudnn::GraphTensor sums = between(kSumsId);
  operation.set(names.outputs, graph.tensor(sums));
  graph.operation(std::move(operation.finalize()));
  cudnn::Operations behind;
  size_t from = behind.add(sums);
  const size_t last = behind.add(outputs);
  if (c.bias != nullptr) {
    const size_t bias = behind.add(graph_tensor(kBiasId, type, {1, s.o, 1, 1}, alignment));
    from = behind.add({.x = from, .y = c.relu ? behind.add(between(kBiasedId)) : last, .b = bias});
  }
  if (c.relu) behind.add({.x = from, .y = last, .pointwise = cudnn::PointwiseMode::kRelu});
  graph.add(behind);
  return graph;
}

/// Tensor cores round f32 factors to TF32, so f32 needs permission for them.
bool takes_notes(const Convolution& c, std::span<const cudnn::NumericalNote> notes) {
  return c.dtype != DType::kF32 || may_round(c) ||
         std::find(notes.begin(), notes.end(), cudnn::NumericalNote::kTensorCore) == notes.end();
}

Result<cudnn::Plan> build_plan(cudnn::Context* handle, const Convolution& c) {
  return cudnn::build_plan(
      graph_of(handle, c), "convolution",
      [&](std::span<const cudnn::NumericalNote> notes) { return takes_notes(c, notes); });
}

void run(const cudnn::Plan& plan, const Convolution& c) {
  std::vector<cudnn::Binding> bindings = {
      {kImagesId, c.images}, {kWeightsId, c.weights}, {kOutputsId, c.outputs}};
  if (c.bias != nullptr) bindings.push_back({kBiasId, const_cast<void*>(c.bias)});
  cudnn::execute(plan, bindings, "conv2d");
}

using ConvPlanner = cudnn::Planner<ConvKey>;
ConvPlanner& current_planner() {
  static thread_local ConvPlanner t_planner(kMostPlans);
  return t_planner;
}

}  // namespace

// This is host code, where grid.h would select `simulated`, so the namespace is named here.
namespace on_device {

bool has_convolutions() {
  return cudnn_use() != Cudnn::kNever && cudnn::library().ok();
}

bool convolve(const Convolution& convolution) {
  if (cudnn_use() == Cudnn::kNever) return false;
  const CurrentCuda first(0);
  const Result<cudnn::Plan>& plan = current_planner().plan(
      key_of(convolution), [&](cudnn::Context* handle) { return build_plan(handle, convolution); });
  if (plan.ok()) {
    run(*plan, convolution);
    return true;
  }
  if (cudnn_use() == Cudnn::kOnly && convolution.bias == nullptr && !convolution.relu)
    throw Error(plan.status());
  return false;
}

}  // namespace on_device
}  // namespace dlpipe::engine::cuda
