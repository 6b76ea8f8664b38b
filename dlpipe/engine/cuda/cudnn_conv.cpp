// What the descriptors mean and which attributes they need: cuDNN backend API,
// https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html; what engines
// promise: "Numerical notes" there and "Reproducibility",
// https://docs.nvidia.com/deeplearning/cudnn/latest/developer/misc.html.
#include "dlpipe/engine/cuda/cudnn_conv.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/cuda/cudnn.h"
#include "dlpipe/engine/cuda/plan_cache.h"
#include "dlpipe/engine/device_memory.h"
#include "dlpipe/engine/op.h"

namespace dlpipe::engine::cuda {
namespace {

using cudnn::Attribute;
using cudnn::DescriptorType;

thread_local ConvLibrary t_conv_library = ConvLibrary::kAuto;

constexpr int64_t kMostWorkspaceBytes = int64_t{1} << 30;
constexpr size_t kMostPlans = 512;  // a thread: a ResNet-50's step takes some sixty

/// Of tensors in a graph.
enum TensorId : int64_t { kImagesId = 1, kWeightsId, kOutputsId, kBiasId, kSumsId };

/// Batch (of weights: output channels), channels, rows, columns; memory has channels last.
using ConvDims = std::array<int64_t, 4>;
using ConvKey = std::array<int64_t, 20>;

/// What a pass's operation is called.
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

cudnn::DataType data_type(DType dtype) {
  if (dtype == DType::kF16) return cudnn::DataType::kF16;
  return dtype == DType::kBF16 ? cudnn::DataType::kBF16 : cudnn::DataType::kF32;
}

/// Bytes that all its pointers are multiples of: a pack's, or an element's.
int64_t common_alignment(const Convolution& c) {
  uintptr_t bits = 0;
  for (const void* pointer : {static_cast<const void*>(c.images), static_cast<const void*>(c.weights),
                              static_cast<const void*>(c.outputs), c.bias})
    bits |= reinterpret_cast<uintptr_t>(pointer);
  return bits % 16 == 0 ? 16 : static_cast<int64_t>(dtype_size(c.dtype));
}

/// Whether engines that round factors to TF32 are taken.
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

cudnn::Descriptor graph_tensor(TensorId id, cudnn::DataType type, const ConvDims& dims, int64_t alignment) {
  const auto [n, c, h, w] = dims;
  const ConvDims strides = {h * w * c, 1, w * c, c};
  cudnn::Descriptor out(DescriptorType::kTensor);
  out.set(Attribute::kTensorId, static_cast<int64_t>(id))
      .set(Attribute::kTensorDataType, type)
      .set<int64_t>(Attribute::kTensorDimensions, dims)
      .set<int64_t>(Attribute::kTensorStrides, strides)
      .set(Attribute::kTensorAlignment, alignment)
      .set(Attribute::kTensorIsVirtual, id == kSumsId);
  return std::move(out.finalize());
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

/// The descriptors of an operation graph, the graph last. They refer to one another.
class ConvGraph {
 public:
  ConvGraph(cudnn::Context* handle, const Convolution& c) : c_(c), alignment_(common_alignment(c)) {
    const Conv2dShape& s = c.shape;
    const cudnn::DataType type = data_type(c.dtype);
    const PassNames& names = kPassNames[static_cast<size_t>(c.pass)];
    const size_t images = add(graph_tensor(kImagesId, type, {s.n, s.c, s.h, s.w}, alignment_));
    const size_t weights = add(graph_tensor(kWeightsId, type, {s.o, s.c_group(), s.kh, s.kw}, alignment_));
    const size_t outputs = add(graph_tensor(kOutputsId, type, {s.n, s.o, s.oh, s.ow}, alignment_));
    const size_t sums = c.bias == nullptr
                            ? outputs
                            : add(graph_tensor(kSumsId, cudnn::DataType::kF32, {s.n, s.o, s.oh, s.ow}, 16));
    const size_t convolution = add(attributes_of(s));
    cudnn::Descriptor operation(names.operation);
    operation.set(names.convolution, at(convolution))
        .set(names.images, at(images))
        .set(names.weights, at(weights))
        .set(names.outputs, at(sums))
        .set(names.alpha, 1.0f)
        .set(names.beta, c.accumulate ? 1.0f : 0.0f);
    std::vector<cudnn::Backend*> operations = {at(add(std::move(operation.finalize()))).get()};
    if (c.bias != nullptr) operations.push_back(at(add_bias(sums, outputs)).get());
    cudnn::Descriptor graph(DescriptorType::kOperationGraph);
    graph.set(Attribute::kGraphHandle, handle).set<cudnn::Backend*>(Attribute::kGraphOperations, operations);
    add(std::move(graph.finalize()));
  }

  /// Of the first that failed.
  Status status() const {
    for (const cudnn::Descriptor& part : parts_) {
      if (!part.status().ok()) return part.status();
    }
    return {};
  }
  const cudnn::Descriptor& graph() const { return parts_.back(); }
  std::vector<cudnn::Descriptor> take_parts() && { return std::move(parts_); }

 private:
  size_t add(cudnn::Descriptor part) {
    parts_.push_back(std::move(part));
    return parts_.size() - 1;
  }
  const cudnn::Descriptor& at(size_t i) const { return parts_[i]; }

  size_t add_bias(size_t sums, size_t outputs) {
    const size_t bias = add(graph_tensor(kBiasId, data_type(c_.dtype), {1, c_.shape.o, 1, 1}, alignment_));
    cudnn::Descriptor mode(DescriptorType::kPointwise);
    mode.set(Attribute::kPointwiseMode, cudnn::PointwiseMode::kAdd)
        .set(Attribute::kPointwiseMathType, cudnn::DataType::kF32);
    const size_t plus = add(std::move(mode.finalize()));
    cudnn::Descriptor operation(DescriptorType::kPointwiseOperation);
    operation.set(Attribute::kPointwiseOperationMode, at(plus))
        .set(Attribute::kPointwiseOperationX, at(sums))
        .set(Attribute::kPointwiseOperationB, at(bias))
        .set(Attribute::kPointwiseOperationY, at(outputs));
    return add(std::move(operation.finalize()));
  }

  const Convolution& c_;
  int64_t alignment_;
  std::vector<cudnn::Descriptor> parts_;
};

/// Whether an engine's sums are the same on every run and of f32. Tensor cores round factors of f32 to TF32.
Result<bool> engine_fits(cudnn::Descriptor& config, const Convolution& c) {
  std::vector<cudnn::Descriptor> engines =
      config.get_descriptors(Attribute::kConfigEngine, DescriptorType::kEngine);
  if (engines.empty()) return Status(ErrorCode::kInternal, "[cuda] cuDNN: a configuration without an engine");
  cudnn::Descriptor& engine = engines.front();
  const auto notes = engine.get_all<cudnn::NumericalNote>(Attribute::kEngineNumericalNotes);
  if (!engine.status().ok()) return engine.status();
  return std::none_of(notes.begin(), notes.end(), [&](cudnn::NumericalNote note) {
    return note == cudnn::NumericalNote::kNondeterministic ||
           note == cudnn::NumericalNote::kReducedPrecisionReduction ||
           note == cudnn::NumericalNote::kDownConvertInputs ||
           (note == cudnn::NumericalNote::kTensorCore && c.dtype == DType::kF32 && !may_round(c));
  });
}

/// An execution plan and all it was made of.
struct ConvPlan {
  std::vector<cudnn::Descriptor> parts;
  cudnn::Descriptor plan;  // gone before its parts
  int64_t workspace_bytes = 0;
};

/// The first engine that fits, best first: by heuristics A, then of those that take nearly everything.
Result<ConvPlan> build_plan(cudnn::Context* handle, const Convolution& c) {
  ConvGraph graph(handle, c);
  if (!graph.status().ok()) return graph.status();
  Status refusal(ErrorCode::kUnsupported, "[cuda] cuDNN: no deterministic engine for this convolution");
  for (const cudnn::HeuristicsMode mode : {cudnn::HeuristicsMode::kA, cudnn::HeuristicsMode::kFallback}) {
    cudnn::Descriptor heuristics(DescriptorType::kEngineHeuristics);
    heuristics.set(Attribute::kHeuristicsGraph, graph.graph())
        .set(Attribute::kHeuristicsMode, mode)
        .finalize();
    for (cudnn::Descriptor& config :
         heuristics.get_descriptors(Attribute::kHeuristicsResults, DescriptorType::kEngineConfig)) {
      const Result<bool> fitting = engine_fits(config, c);
      if (!fitting.ok()) refusal = fitting.status();
      if (!fitting.ok() || !*fitting) continue;
      cudnn::Descriptor plan(DescriptorType::kExecutionPlan);
      plan.set(Attribute::kPlanHandle, handle).set(Attribute::kPlanConfig, config).finalize();
      const auto bytes = plan.get<int64_t>(Attribute::kPlanWorkspaceBytes);
      if (!plan.status().ok()) refusal = plan.status();
      if (!plan.status().ok() || bytes > kMostWorkspaceBytes) continue;
      ConvPlan out{std::move(graph).take_parts(), std::move(plan), bytes};
      out.parts.push_back(std::move(config));
      return out;
    }
    if (!heuristics.status().ok()) refusal = heuristics.status();
  }
  return refusal;
}

/// A thread's handle on the first device, where its stream is, and the plans built for it.
class ConvPlanner {
 public:
  explicit ConvPlanner(CUstream_st* stream) : handle_(cudnn::make_handle()) {
    if (!handle_.ok()) return;
    const Status status =
        cudnn::status_of(cudnn::library()->set_stream(handle_->get(), stream), "cudnnSetStream");
    if (!status.ok()) handle_ = status;
  }

  /// Built once a shape and kept; what was refused stays refused.
  const Result<ConvPlan>& plan(const Convolution& c) {
    const ConvKey key = key_of(c);
    if (const Result<ConvPlan>* known = plans_.find(key, is_capturing())) return *known;
    // Kernels that were compiled for the plan that goes may still run.
    if (plans_.is_full()) synchronize(*value_or_throw(cuda_device(0)));
    return plans_.insert(key,
                         handle_.ok() ? build_plan(handle_->get(), c) : Result<ConvPlan>(handle_.status()));
  }

  void run(const ConvPlan& plan, const Convolution& c) const {
    const Tensor workspace = plan.workspace_bytes == 0 ? Tensor()
                                                       : Tensor::empty({{plan.workspace_bytes}, DType::kU8},
                                                                       *value_or_throw(cuda_device(0)));
    std::vector<int64_t> ids = {kImagesId, kWeightsId, kOutputsId};
    std::vector<void*> pointers = {c.images, c.weights, c.outputs};
    if (c.bias != nullptr) {
      ids.push_back(kBiasId);
      pointers.push_back(const_cast<void*>(c.bias));
    }
    cudnn::Descriptor pack(DescriptorType::kVariantPack);
    pack.set<int64_t>(Attribute::kVariantPackIds, ids)
        .set<void*>(Attribute::kVariantPackPointers, pointers)
        .set(Attribute::kVariantPackWorkspace, workspace.defined() ? workspace.raw() : nullptr)
        .finalize();
    throw_if_error(pack.status());
    throw_if_error(
        cudnn::status_of(cudnn::library()->execute(handle_->get(), plan.plan.get(), pack.get()), "conv2d"));
  }

 private:
  Result<cudnn::Handle> handle_;
  PlanCache<ConvKey, Result<ConvPlan>> plans_{kMostPlans};  // gone before the handle
};

ConvPlanner& current_planner() {
  CUstream_st* const stream = current_stream();  // one a thread; asked for first, it outlives the handle
  static thread_local ConvPlanner t_planner(stream);
  return t_planner;
}

}  // namespace

UseConvLibrary::UseConvLibrary(ConvLibrary library) : former_(std::exchange(t_conv_library, library)) {}
UseConvLibrary::~UseConvLibrary() {
  t_conv_library = former_;
}

// This file is host code, which grid.h takes for the simulated grid's.
namespace on_device {

bool convolve(const Convolution& convolution) {
  if (t_conv_library == ConvLibrary::kIm2col) return false;
  const Result<ConvPlan>& plan = current_planner().plan(convolution);
  if (plan.ok()) {
    current_planner().run(*plan, convolution);
    return true;
  }
  if (t_conv_library == ConvLibrary::kCudnn && convolution.bias == nullptr) throw Error(plan.status());
  return false;
}

}  // namespace on_device
}  // namespace dlpipe::engine::cuda
