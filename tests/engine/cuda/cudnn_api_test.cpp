// Our declarations of cuDNN's backend API (cudnn_api.h) against the real <cudnn.h>, where the compiler finds
// it: CPATH=.../nvidia/cudnn/include of a Python package will do.
#include <gtest/gtest.h>

#include <type_traits>

#include "engine/cuda/cudnn/cudnn_api.h"

#if __has_include(<cudnn.h>) && __has_include(<cuda_runtime_api.h>)
#define DLPIPE_TEST_CUDNN_HEADER 1
#include <cudnn.h>
#endif

namespace dlpipe::engine::cuda::cudnn {
namespace {

#ifdef DLPIPE_TEST_CUDNN_HEADER

/// Passed in the same way: the same type, enums of one size, or pointers.
template <class Ours, class Theirs>
constexpr bool same_argument() {
  if constexpr (std::is_enum_v<Ours> && std::is_enum_v<Theirs>) return sizeof(Ours) == sizeof(Theirs);
  return std::is_same_v<Ours, Theirs> || (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>);
}

template <class Ours, class Theirs>
struct SameCall : std::false_type {};
template <class OurAnswer, class... Ours, class TheirAnswer, class... Theirs>
requires(sizeof...(Ours) ==
         sizeof...(Theirs)) struct SameCall<OurAnswer (*)(Ours...), TheirAnswer (*)(Theirs...)>
    : std::bool_constant<same_argument<OurAnswer, TheirAnswer>() && (same_argument<Ours, Theirs>() && ...)> {
};

template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  return sizeof(Ours) == sizeof(Theirs) && static_cast<int64_t>(ours) == static_cast<int64_t>(theirs);
}

static_assert(SameCall<decltype(Functions::version), decltype(&cudnnGetVersion)>::value);
static_assert(SameCall<decltype(Functions::error_string), decltype(&cudnnGetErrorString)>::value);
static_assert(SameCall<decltype(Functions::last_error), decltype(&cudnnGetLastErrorString)>::value);
static_assert(SameCall<decltype(Functions::create), decltype(&cudnnCreate)>::value);
static_assert(SameCall<decltype(Functions::destroy), decltype(&cudnnDestroy)>::value);
static_assert(SameCall<decltype(Functions::set_stream), decltype(&cudnnSetStream)>::value);
static_assert(
    SameCall<decltype(Functions::create_descriptor), decltype(&cudnnBackendCreateDescriptor)>::value);
static_assert(
    SameCall<decltype(Functions::destroy_descriptor), decltype(&cudnnBackendDestroyDescriptor)>::value);
static_assert(SameCall<decltype(Functions::finalize), decltype(&cudnnBackendFinalize)>::value);
static_assert(SameCall<decltype(Functions::set_attribute), decltype(&cudnnBackendSetAttribute)>::value);
static_assert(SameCall<decltype(Functions::get_attribute), decltype(&cudnnBackendGetAttribute)>::value);
static_assert(SameCall<decltype(Functions::execute), decltype(&cudnnBackendExecute)>::value);

static_assert(same(Code::kSuccess, CUDNN_STATUS_SUCCESS));
static_assert(same(Code::kSublibraryVersionMismatch, CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH));
static_assert(same(Code::kSublibraryLoadingFailed, CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED));
static_assert(same(Code::kNotSupported, CUDNN_STATUS_NOT_SUPPORTED));
static_assert(same(Code::kInternalError, CUDNN_STATUS_INTERNAL_ERROR));
static_assert(same(Code::kHostAllocationFailed, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED));
static_assert(same(Code::kDeviceAllocationFailed, CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED));
static_assert(same(DescriptorType::kPointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
static_assert(same(DescriptorType::kConvolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
static_assert(same(DescriptorType::kEngine, CUDNN_BACKEND_ENGINE_DESCRIPTOR));
static_assert(same(DescriptorType::kEngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
static_assert(same(DescriptorType::kEngineHeuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
static_assert(same(DescriptorType::kExecutionPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
static_assert(same(DescriptorType::kForward, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR));
static_assert(same(DescriptorType::kWeightGradient,
                   CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR));
static_assert(same(DescriptorType::kImageGradient,
                   CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR));
static_assert(same(DescriptorType::kPointwiseOperation, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR));
static_assert(same(DescriptorType::kOperationGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
static_assert(same(DescriptorType::kVariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
static_assert(same(DescriptorType::kTensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR));
static_assert(same(DescriptorType::kMatmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR));
static_assert(same(DescriptorType::kMatmulOperation, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR));
static_assert(same(DescriptorType::kReduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR));
static_assert(same(DescriptorType::kReductionOperation, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR));
static_assert(same(DescriptorType::kReshapeOperation, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR));
static_assert(same(AttributeType::kHandle, CUDNN_TYPE_HANDLE));
static_assert(same(AttributeType::kDataType, CUDNN_TYPE_DATA_TYPE));
static_assert(same(AttributeType::kBoolean, CUDNN_TYPE_BOOLEAN));
static_assert(same(AttributeType::kInt64, CUDNN_TYPE_INT64));
static_assert(same(AttributeType::kFloat, CUDNN_TYPE_FLOAT));
static_assert(same(AttributeType::kPointer, CUDNN_TYPE_VOID_PTR));
static_assert(same(AttributeType::kConvolutionMode, CUDNN_TYPE_CONVOLUTION_MODE));
static_assert(same(AttributeType::kHeuristicsMode, CUDNN_TYPE_HEUR_MODE));
static_assert(same(AttributeType::kNanPropagation, CUDNN_TYPE_NAN_PROPOGATION));
static_assert(same(AttributeType::kNumericalNote, CUDNN_TYPE_NUMERICAL_NOTE));
static_assert(same(AttributeType::kPointwiseMode, CUDNN_TYPE_POINTWISE_MODE));
static_assert(same(AttributeType::kDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR));
static_assert(same(AttributeType::kReductionMode, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE));
static_assert(same(Attribute::kPointwiseMode, CUDNN_ATTR_POINTWISE_MODE));
static_assert(same(Attribute::kPointwiseMathType, CUDNN_ATTR_POINTWISE_MATH_PREC));
static_assert(same(Attribute::kPointwiseNanPropagation, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION));
static_assert(same(Attribute::kPointwiseAxis, CUDNN_ATTR_POINTWISE_AXIS));
static_assert(same(Attribute::kConvolutionMathType, CUDNN_ATTR_CONVOLUTION_COMP_TYPE));
static_assert(same(Attribute::kConvolutionMode, CUDNN_ATTR_CONVOLUTION_CONV_MODE));
static_assert(same(Attribute::kConvolutionDilations, CUDNN_ATTR_CONVOLUTION_DILATIONS));
static_assert(same(Attribute::kConvolutionStrides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES));
static_assert(same(Attribute::kConvolutionPaddingAfter, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS));
static_assert(same(Attribute::kConvolutionPaddingBefore, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS));
static_assert(same(Attribute::kConvolutionSpatialAxes, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
static_assert(same(Attribute::kHeuristicsMode, CUDNN_ATTR_ENGINEHEUR_MODE));
static_assert(same(Attribute::kHeuristicsGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
static_assert(same(Attribute::kHeuristicsResults, CUDNN_ATTR_ENGINEHEUR_RESULTS));
static_assert(same(Attribute::kConfigEngine, CUDNN_ATTR_ENGINECFG_ENGINE));
static_assert(same(Attribute::kPlanHandle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE));
static_assert(same(Attribute::kPlanConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
static_assert(same(Attribute::kPlanWorkspaceBytes, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
static_assert(same(Attribute::kForwardAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA));
static_assert(same(Attribute::kForwardBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA));
static_assert(same(Attribute::kForwardConvolution, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC));
static_assert(same(Attribute::kForwardWeights, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W));
static_assert(same(Attribute::kForwardImages, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X));
static_assert(same(Attribute::kForwardOutputs, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y));
static_assert(same(Attribute::kImageGradientAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA));
static_assert(same(Attribute::kImageGradientBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA));
static_assert(same(Attribute::kImageGradientConvolution,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC));
static_assert(same(Attribute::kImageGradientWeights, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W));
static_assert(same(Attribute::kImageGradientImages, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX));
static_assert(same(Attribute::kImageGradientOutputs, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY));
static_assert(same(Attribute::kWeightGradientAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA));
static_assert(same(Attribute::kWeightGradientBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA));
static_assert(same(Attribute::kWeightGradientConvolution,
                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC));
static_assert(same(Attribute::kWeightGradientWeights, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW));
static_assert(same(Attribute::kWeightGradientImages, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X));
static_assert(same(Attribute::kWeightGradientOutputs, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY));
static_assert(same(Attribute::kPointwiseOperationMode, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR));
static_assert(same(Attribute::kPointwiseOperationX, CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
static_assert(same(Attribute::kPointwiseOperationB, CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
static_assert(same(Attribute::kPointwiseOperationY, CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
static_assert(same(Attribute::kPointwiseOperationT, CUDNN_ATTR_OPERATION_POINTWISE_TDESC));
static_assert(same(Attribute::kGraphHandle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE));
static_assert(same(Attribute::kGraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS));
static_assert(same(Attribute::kTensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT));
static_assert(same(Attribute::kTensorDataType, CUDNN_ATTR_TENSOR_DATA_TYPE));
static_assert(same(Attribute::kTensorDimensions, CUDNN_ATTR_TENSOR_DIMENSIONS));
static_assert(same(Attribute::kTensorStrides, CUDNN_ATTR_TENSOR_STRIDES));
static_assert(same(Attribute::kTensorId, CUDNN_ATTR_TENSOR_UNIQUE_ID));
static_assert(same(Attribute::kTensorIsVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL));
static_assert(same(Attribute::kTensorIsByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE));
static_assert(same(Attribute::kVariantPackIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS));
static_assert(same(Attribute::kVariantPackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS));
static_assert(same(Attribute::kVariantPackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE));
static_assert(same(Attribute::kEngineNumericalNotes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE));
static_assert(same(Attribute::kMatmulMathType, CUDNN_ATTR_MATMUL_COMP_TYPE));
static_assert(same(Attribute::kMatmulOperationA, CUDNN_ATTR_OPERATION_MATMUL_ADESC));
static_assert(same(Attribute::kMatmulOperationB, CUDNN_ATTR_OPERATION_MATMUL_BDESC));
static_assert(same(Attribute::kMatmulOperationC, CUDNN_ATTR_OPERATION_MATMUL_CDESC));
static_assert(same(Attribute::kMatmulOperationMatmul, CUDNN_ATTR_OPERATION_MATMUL_DESC));
static_assert(same(Attribute::kReductionMode, CUDNN_ATTR_REDUCTION_OPERATOR));
static_assert(same(Attribute::kReductionMathType, CUDNN_ATTR_REDUCTION_COMP_TYPE));
static_assert(same(Attribute::kReductionOperationX, CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
static_assert(same(Attribute::kReductionOperationY, CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
static_assert(same(Attribute::kReductionOperationReduction, CUDNN_ATTR_OPERATION_REDUCTION_DESC));
static_assert(same(Attribute::kReshapeOperationX, CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
static_assert(same(Attribute::kReshapeOperationY, CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
static_assert(same(DataType::kF32, CUDNN_DATA_FLOAT));
static_assert(same(DataType::kF16, CUDNN_DATA_HALF));
static_assert(same(DataType::kI32, CUDNN_DATA_INT32));
static_assert(same(DataType::kBF16, CUDNN_DATA_BFLOAT16));
static_assert(same(DataType::kBoolean, CUDNN_DATA_BOOLEAN));
static_assert(same(ConvolutionMode::kCorrelation, CUDNN_CROSS_CORRELATION));
static_assert(same(ReductionMode::kSum, CUDNN_REDUCE_TENSOR_ADD));
static_assert(same(ReductionMode::kLargest, CUDNN_REDUCE_TENSOR_MAX));
static_assert(same(PointwiseMode::kAdd, CUDNN_POINTWISE_ADD));
static_assert(same(PointwiseMode::kMultiply, CUDNN_POINTWISE_MUL));
static_assert(same(PointwiseMode::kDivide, CUDNN_POINTWISE_DIV));
static_assert(same(PointwiseMode::kSubtract, CUDNN_POINTWISE_SUB));
static_assert(same(PointwiseMode::kExp, CUDNN_POINTWISE_EXP));
static_assert(same(PointwiseMode::kLog, CUDNN_POINTWISE_LOG));
static_assert(same(PointwiseMode::kGreaterOrEqual, CUDNN_POINTWISE_CMP_GE));
static_assert(same(PointwiseMode::kIndex, CUDNN_POINTWISE_GEN_INDEX));
static_assert(same(PointwiseMode::kSelect, CUDNN_POINTWISE_BINARY_SELECT));
static_assert(same(PointwiseMode::kRelu, CUDNN_POINTWISE_RELU_FWD));
static_assert(same(NanPropagation::kPropagate, CUDNN_PROPAGATE_NAN));
static_assert(same(HeuristicsMode::kFallback, CUDNN_HEUR_MODE_FALLBACK));
static_assert(same(HeuristicsMode::kA, CUDNN_HEUR_MODE_A));
static_assert(same(NumericalNote::kTensorCore, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
static_assert(same(NumericalNote::kDownConvertInputs, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
static_assert(same(NumericalNote::kReducedPrecisionReduction,
                   CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION));
static_assert(same(NumericalNote::kNondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));

TEST(CudnnApi, IsAsDeclared) {
  SUCCEED() << "compared with the header of cuDNN " << CUDNN_VERSION;
}

#else

TEST(CudnnApi, IsAsDeclared) {
  GTEST_SKIP() << "skipped: no cudnn.h";
}

#endif

}  // namespace
}  // namespace dlpipe::engine::cuda::cudnn
