// The part of cuDNN 9's graph API (its C "backend" API) that dlpipe uses. It is declared here because machines that build
// dlpipe may not have cuDNN's headers. The comments have cuDNN's names. Source: cuDNN backend API, "cudnn_graph Library",
// https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html. If <cudnn.h> is available,
// tests/engine/cuda/cudnn_api_test.cpp compares every value and signature with it.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;  // what cudaStream_t points to

namespace dlpipe::engine::cuda::cudnn {

struct Context;  // what cudnnHandle_t points to
struct Backend;  // what cudnnBackendDescriptor_t points to

enum class Code : uint32_t {  // cudnnStatus_t
  kSuccess = 0,
  kSublibraryVersionMismatch = 1002,
  kSublibraryLoadingFailed = 1008,
  kNotSupported = 3000,  // up to the next value: more specific reasons
  kInternalError = 4000,
  kHostAllocationFailed = 4003,
  kDeviceAllocationFailed = 4004,
};

enum class DescriptorType : uint32_t {  // cudnnBackendDescriptorType_t: CUDNN_BACKEND_..._DESCRIPTOR
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kEngineHeuristics = 4,
  kExecutionPlan = 5,
  kForward = 10,         // OPERATION_CONVOLUTION_FORWARD
  kWeightGradient = 11,  // OPERATION_CONVOLUTION_BACKWARD_FILTER
  kImageGradient = 12,   // OPERATION_CONVOLUTION_BACKWARD_DATA
  kPointwiseOperation = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kMatmulOperation = 19,
  kReduction = 21,
  kReductionOperation = 22,
  kReshapeOperation = 31,
};

enum class AttributeType : uint32_t {  // cudnnBackendAttributeType_t: CUDNN_TYPE_...
  kHandle = 0,
  kDataType = 1,
  kBoolean = 2,
  kInt64 = 3,
  kFloat = 4,
  kPointer = 6,
  kConvolutionMode = 7,
  kHeuristicsMode = 8,
  kNanPropagation = 10,  // CUDNN_TYPE_NAN_PROPOGATION in cuDNN's header
  kNumericalNote = 11,
  kPointwiseMode = 14,
  kDescriptor = 15,
  kReductionMode = 18,  // REDUCTION_OPERATOR_TYPE
};

enum class Attribute : uint32_t {  // cudnnBackendAttributeName_t: CUDNN_ATTR_...
  kPointwiseMode = 0,
  kPointwiseMathType = 1,  // POINTWISE_MATH_PREC
  kPointwiseNanPropagation = 2,
  kPointwiseAxis = 9,
  kConvolutionMathType = 100,
  kConvolutionMode = 101,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kConvolutionPaddingAfter = 104,
  kConvolutionPaddingBefore = 105,
  kConvolutionSpatialAxes = 106,
  kHeuristicsMode = 200,
  kHeuristicsGraph = 201,
  kHeuristicsResults = 202,
  kConfigEngine = 300,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspaceBytes = 402,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConvolution = 702,
  kForwardWeights = 703,
  kForwardImages = 704,
  kForwardOutputs = 705,
  kImageGradientAlpha = 706,  // OPERATION_CONVOLUTION_BWD_DATA_...
  kImageGradientBeta = 707,
  kImageGradientConvolution = 708,
  kImageGradientWeights = 709,
  kImageGradientImages = 710,
  kImageGradientOutputs = 711,
  kWeightGradientAlpha = 712,  // OPERATION_CONVOLUTION_BWD_FILTER_...
  kWeightGradientBeta = 713,
  kWeightGradientConvolution = 714,
  kWeightGradientWeights = 715,
  kWeightGradientImages = 716,
  kWeightGradientOutputs = 717,
  kPointwiseOperationMode = 750,  // OPERATION_POINTWISE_PW_DESCRIPTOR
  kPointwiseOperationX = 751,
  kPointwiseOperationB = 752,
  kPointwiseOperationY = 753,
  kPointwiseOperationT = 758,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorDataType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,
  kTensorIsByValue = 908,
  kVariantPackIds = 1000,
  kVariantPackPointers = 1001,
  kVariantPackWorkspace = 1003,
  kEngineNumericalNotes = 1303,
  kMatmulMathType = 1500,
  kMatmulOperationA = 1520,
  kMatmulOperationB = 1521,
  kMatmulOperationC = 1522,
  kMatmulOperationMatmul = 1523,  // OPERATION_MATMUL_DESC
  kReductionMode = 1600,          // REDUCTION_OPERATOR
  kReductionMathType = 1601,
  kReductionOperationX = 1610,
  kReductionOperationY = 1611,
  kReductionOperationReduction = 1612,  // OPERATION_REDUCTION_DESC
  kReshapeOperationX = 2200,
  kReshapeOperationY = 2201,
};

enum class DataType : uint32_t { kF32 = 0, kF16 = 2, kI32 = 4, kBF16 = 9, kBoolean = 11 };  // cudnnDataType_t
enum class ConvolutionMode : uint32_t { kCorrelation = 1 };      // cudnnConvolutionMode_t
enum class ReductionMode : uint32_t { kSum = 0, kLargest = 3 };  // cudnnReduceTensorOp_t
enum class PointwiseMode : uint32_t {                            // cudnnPointwiseMode_t
  kAdd = 0,
  kMultiply = 1,
  kDivide = 6,
  kSubtract = 9,
  kExp = 13,
  kLog = 15,
  kRelu = 100,
  kGreaterOrEqual = 303,
  kIndex = 501,   // index of each element along an axis
  kSelect = 601,  // x where t is true, else b
};
enum class NanPropagation : uint32_t { kPropagate = 1 };         // cudnnNanPropagation_t
enum class HeuristicsMode : uint32_t { kFallback = 2, kA = 3 };  // cudnnBackendHeurMode_t
enum class NumericalNote : uint32_t {                            // cudnnBackendNumericalNote_t
  kTensorCore = 0,
  kDownConvertInputs = 1,
  kReducedPrecisionReduction = 2,
  kNondeterministic = 4,
};

/// The library's functions. cudnn.cpp has their names.
struct Functions {
  size_t (*version)();
  const char* (*error_string)(Code code);
  void (*last_error)(char* message, size_t size);
  Code (*create)(Context** handle);
  Code (*destroy)(Context* handle);
  Code (*set_stream)(Context* handle, CUstream_st* stream);
  Code (*create_descriptor)(DescriptorType type, Backend** descriptor);
  Code (*destroy_descriptor)(Backend* descriptor);
  Code (*finalize)(Backend* descriptor);
  Code (*set_attribute)(Backend* descriptor, Attribute name, AttributeType type, int64_t count,
                        const void* elements);
  Code (*get_attribute)(Backend* descriptor, Attribute name, AttributeType type, int64_t wanted,
                        int64_t* count, void* elements);
  Code (*execute)(Context* handle, Backend* plan, Backend* variant_pack);
};

}  // namespace dlpipe::engine::cuda::cudnn
