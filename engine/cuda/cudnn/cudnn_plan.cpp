// The meaning of the descriptors and their attributes: cuDNN backend API,
// https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html. What engines promise:
// "Numerical notes" there, and "Reproducibility", https://docs.nvidia.com/deeplearning/cudnn/latest/developer/misc.html.
#include "engine/cuda/cudnn/cudnn_plan.h"

#include <algorithm>

#include "base/text.h"
#include "dlpipe/tensor.h"
#include "engine/cuda/grid/stream.h"

namespace dlpipe::engine::cuda::cudnn {
namespace {

constexpr int64_t kMostWorkspaceBytes = int64_t{1} << 30;

Result<Handle> make_thread_handle(CUstream_st* stream) {
  Result<Handle> handle = make_handle();
  if (!handle.ok()) return handle;
  const Status status = status_of(library()->set_stream(handle->get(), stream), "cudnnSetStream");
  if (!status.ok()) return status;
  return handle;
}

/// An engine's notes about its sums.
Result<std::vector<NumericalNote>> notes_of(Descriptor& config) {
  std::vector<Descriptor> engines = config.get_descriptors(Attribute::kConfigEngine, DescriptorType::kEngine);
  if (engines.empty()) return Status(ErrorCode::kInternal, "[cuda] cuDNN: a configuration without an engine");
  Descriptor& engine = engines.front();
  auto notes = engine.get_all<NumericalNote>(Attribute::kEngineNumericalNotes);
  if (!engine.status().ok()) return engine.status();
  return notes;
}

bool breaks_promises(NumericalNote note) {
  return note == NumericalNote::kNondeterministic || note == NumericalNote::kReducedPrecisionReduction ||
         note == NumericalNote::kDownConvertInputs;
}

Descriptor pointwise(const Operation& operation) {
  Descriptor out(DescriptorType::kPointwise);
  out.set(Attribute::kPointwiseMode, operation.pointwise).set(Attribute::kPointwiseMathType, operation.math);
  if (operation.axis) out.set(Attribute::kPointwiseAxis, *operation.axis);
  if (operation.pointwise == PointwiseMode::kRelu)
    out.set(Attribute::kPointwiseNanPropagation, NanPropagation::kPropagate);
  return std::move(out.finalize());
}

Descriptor matmul(const Operation& operation) {
  Descriptor out(DescriptorType::kMatmul);
  out.set(Attribute::kMatmulMathType, operation.math);
  return std::move(out.finalize());
}

Descriptor reduction(const Operation& operation) {
  Descriptor out(DescriptorType::kReduction);
  out.set(Attribute::kReductionMode, operation.reduction).set(Attribute::kReductionMathType, operation.math);
  return std::move(out.finalize());
}

/// Adds the operation on the graph's tensors, and the descriptors that it needs.
void add_operation(Graph& graph, const Operation& o, const std::vector<const Descriptor*>& tensors) {
  Descriptor out(o.type);
  switch (o.type) {
    case DescriptorType::kMatmulOperation:
      out.set(Attribute::kMatmulOperationMatmul, graph.keep(matmul(o)))
          .set(Attribute::kMatmulOperationA, *tensors[o.x])
          .set(Attribute::kMatmulOperationB, *tensors[*o.b])
          .set(Attribute::kMatmulOperationC, *tensors[o.y]);
      break;
    case DescriptorType::kReductionOperation:
      out.set(Attribute::kReductionOperationReduction, graph.keep(reduction(o)))
          .set(Attribute::kReductionOperationX, *tensors[o.x])
          .set(Attribute::kReductionOperationY, *tensors[o.y]);
      break;
    case DescriptorType::kReshapeOperation:
      out.set(Attribute::kReshapeOperationX, *tensors[o.x]).set(Attribute::kReshapeOperationY, *tensors[o.y]);
      break;
    default:
      out.set(Attribute::kPointwiseOperationMode, graph.keep(pointwise(o)))
          .set(Attribute::kPointwiseOperationX, *tensors[o.x])
          .set(Attribute::kPointwiseOperationY, *tensors[o.y]);
      if (o.b) out.set(Attribute::kPointwiseOperationB, *tensors[*o.b]);
      if (o.t) out.set(Attribute::kPointwiseOperationT, *tensors[*o.t]);
  }
  graph.operation(std::move(out.finalize()));
}

}  // namespace

DataType data_type(DType dtype) {
  if (dtype == DType::kF16) return DataType::kF16;
  return dtype == DType::kBF16 ? DataType::kBF16 : DataType::kF32;
}

Result<Context*> thread_handle() {
  CUstream_st* const stream =
      current_stream();  // one per thread; created first, so that it outlives the handle
  static thread_local Handle t_handle;
  if (t_handle == nullptr) {
    DLPIPE_ASSIGN_OR_RETURN(t_handle, make_thread_handle(stream));
  }
  return t_handle.get();
}

const Descriptor& Graph::keep(Descriptor part) {
  parts_.push_back(std::move(part));
  return parts_.back();
}

const Descriptor& Graph::tensor(const GraphTensor& tensor) {
  const Descriptor*& made = tensors_[tensor.id];
  if (made != nullptr) return *made;
  Descriptor out(DescriptorType::kTensor);
  out.set(Attribute::kTensorId, tensor.id)
      .set(Attribute::kTensorDataType, tensor.type)
      .set<int64_t>(Attribute::kTensorDimensions, tensor.dims)
      .set<int64_t>(Attribute::kTensorStrides, tensor.strides)
      .set(Attribute::kTensorAlignment, tensor.alignment)
      .set(Attribute::kTensorIsVirtual, tensor.is_virtual);
  if (tensor.value) {
    out.set(Attribute::kTensorIsByValue, true);
    constants_.emplace_back(tensor.id, *tensor.value);
  }
  made = &keep(std::move(out.finalize()));
  return *made;
}

void Graph::operation(Descriptor operation) {
  operations_.push_back(keep(std::move(operation)).get());
}

void Graph::add(const Operations& operations) {
  std::vector<const Descriptor*> tensors;
  for (const GraphTensor& one : operations.tensors) tensors.push_back(&tensor(one));
  for (const Operation& one : operations.list) add_operation(*this, one, tensors);
}

Status Graph::finish() {
  for (const Descriptor& part : parts_) {
    if (!part.status().ok()) return part.status();
  }
  Descriptor graph(DescriptorType::kOperationGraph);
  graph.set(Attribute::kGraphHandle, handle_).set<Backend*>(Attribute::kGraphOperations, operations_);
  return keep(std::move(graph.finalize())).status();
}

Result<Plan> build_plan(Graph graph, std::string_view what, const TakesNotes& takes) {
  DLPIPE_RETURN_IF_ERROR(graph.finish());
  Status refusal(ErrorCode::kUnsupported, concat("[cuda] cuDNN: no deterministic engine for this ", what));
  for (const HeuristicsMode mode : {HeuristicsMode::kA, HeuristicsMode::kFallback}) {
    Descriptor heuristics(DescriptorType::kEngineHeuristics);
    heuristics.set(Attribute::kHeuristicsGraph, graph.parts_.back())
        .set(Attribute::kHeuristicsMode, mode)
        .finalize();
    for (Descriptor& config :
         heuristics.get_descriptors(Attribute::kHeuristicsResults, DescriptorType::kEngineConfig)) {
      const Result<std::vector<NumericalNote>> notes = notes_of(config);
      if (!notes.ok()) refusal = Status(ErrorCode::kUnsupported, notes.status().message());
      if (!notes.ok() || std::any_of(notes->begin(), notes->end(), breaks_promises) || !takes(*notes))
        continue;
      Descriptor plan(DescriptorType::kExecutionPlan);
      plan.set(Attribute::kPlanHandle, graph.handle_).set(Attribute::kPlanConfig, config).finalize();
      const auto bytes = plan.get<int64_t>(Attribute::kPlanWorkspaceBytes);
      if (plan.status().code() == ErrorCode::kOutOfMemory) return plan.status();
      if (!plan.status().ok()) refusal = Status(ErrorCode::kUnsupported, plan.status().message());
      if (!plan.status().ok() || bytes > kMostWorkspaceBytes) continue;
      graph.keep(std::move(config));
      return Plan{std::move(graph.parts_), std::move(graph.constants_), std::move(plan), bytes};
    }
    if (!heuristics.status().ok()) refusal = heuristics.status();
  }
  return refusal;
}

void execute(const Plan& plan, std::span<const Binding> bindings, std::string_view what) {
  const Tensor workspace = plan.workspace_bytes == 0 ? Tensor()
                                                     : Tensor::empty({{plan.workspace_bytes}, DType::kU8},
                                                                     *value_or_throw(cuda_device(0)));
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  for (const Binding& binding : bindings) {
    ids.push_back(binding.id);
    pointers.push_back(binding.memory);
  }
  for (const auto& [id, value] : plan.constants) {
    ids.push_back(id);
    pointers.push_back(const_cast<float*>(&value));  // read before cudnnBackendExecute returns
  }
  Descriptor pack(DescriptorType::kVariantPack);
  pack.set<int64_t>(Attribute::kVariantPackIds, ids)
      .set<void*>(Attribute::kVariantPackPointers, pointers)
      .set(Attribute::kVariantPackWorkspace, workspace.defined() ? workspace.raw() : nullptr)
      .finalize();
  throw_if_error(pack.status());
  throw_if_error(
      status_of(library()->execute(value_or_throw(thread_handle()), plan.plan.get(), pack.get()), what));
}

}  // namespace dlpipe::engine::cuda::cudnn
