// Optimizer steps on CUDA over flat groups: the parameters of a group are contiguous in one allocation, and so are
// their gradients and their state. A step of sgd is one kernel over all of them, a step of lamb three. Before the
// kernels of adam and lamb, a single thread computes the values that all elements share.
//
// Formulas and the order of operations are those of engine/optim (sgd.cpp, adam.cpp, gradients.cpp,
// ema.cpp), in f32; nvcc may contract a product and a sum into one operation. What changes from step to step
// is read from device memory, so that a step can be captured in a graph once and replayed:
//
// 1. set: the learning rate.
// 2. sum_squares: once for each group, into its own partial sums.
// 3. finish_norm: from all partial sums, the norm, the factor for gradients, and whether all is finite.
// 4. step_sgd, step_adam or step_lamb: once for each group.
// 5. update_ema: averages of the weights.
// 6. end_step: last; counts the step unless found_inf is set.
//
// If found_inf is set, weights, state, averages and the number of steps keep their bits. Tensors with a different
// learning rate or weight decay are in a separate flat group. Gaps between tensors are processed like other
// elements: zeros in weights and gradients stay zeros and don't change a norm. All work is queued in the calling
// thread's stream. The order of sums depends only on counts and offsets.
#pragma once

#include <cstdint>

namespace dlpipe::engine::cuda {

/// Device memory. Read sixteen bytes at a time if all pointers are aligned to sixteen.
struct FlatGroup {
  float* weights = nullptr;
  const float* gradients = nullptr;
  /// sgd: momentum (none if it is 0); adam and lamb: mean, square. Zeros before step 1.
  float* states[2] = {};
  int64_t count = 0;  // of elements in each
};

/// The values that all elements of an adam or lamb step share; see AdamStep in engine/optim/adam.h.
struct AdamCoefficients {
  float take1;
  float keep2;
  float take2;
  float step_size;
  float root_scale;
  float epsilon;
  float decay;
  float keep;
};

/// In device memory, read by the kernels.
struct StepScalars {
  const int64_t* steps = nullptr;  // taken before this one
  const float* lr = nullptr;
  const float* grad_scale = nullptr;  // factor for gradients; null: 1
  const int* found_inf = nullptr;     // nonzero: the step changes nothing; null: it always counts
  AdamCoefficients* adam = nullptr;   // scratch of adam and lamb, which any number of flat groups may share
};

/// See OptimizerArguments.
struct SgdOptions {
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0.0;
  bool decoupled = false;
  float lr_scale = 1.0f;
  float decay_scale = 1.0f;
};

/// Adam, or AdamW if `decoupled`.
struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  bool decoupled = false;
  float lr_scale = 1.0f;
  float decay_scale = 1.0f;
};

/// LAMB (You et al., "Large batch optimization for deep learning", 2020): adam's step plus weight_decay *
/// weights, times |weights| / |that| for each tensor (1 if either norm is 0).
struct LambOptions {
  AdamOptions adam = {.epsilon = 1e-6};  // `decoupled` is ignored
  bool always_adapt = false;  // false: tensors without weight decay use adam's step, as in apex and timm
};
/// The tensors of a flat group, and scratch: all in device memory.
struct Segments {
  const int64_t* offsets =
      nullptr;  // [count + 1]: the beginning of each, from 0; the last is the group's count
  int64_t count = 0;
  double* parts = nullptr;  // lamb_parts()
  float* ratios = nullptr;  // count
};

struct NormInputs {
  double max_norm = 0;                   // to clip to; may be infinity
  const float* inverse_scale = nullptr;  // of the gradients: 1 / the loss scale; null: 1
  const float* loss = nullptr;           // also checked; null: not checked
};
/// The result of finish_norm. A step changes nothing unless everything is finite.
enum FoundInf : int {
  kAllFinite = 0,
  kOverflow = 1,   // a gradient isn't finite, perhaps because of a loss scale above 1: a smaller one may help
  kNonfinite = 2,  // the loss isn't finite, or a gradient at a scale of 1 or less; or `halted` is set
};
/// In device memory; null: not needed.
struct NormScalars {
  float* norm = nullptr;
  float* grad_scale = nullptr;  // for the steps: inverse loss scale times clipping factor
  int* found_inf = nullptr;     // a FoundInf
  int* halted = nullptr;        // set to 1 by kNonfinite, otherwise unchanged
};

/// The state of PyTorch's GradScaler. Pointers are to device memory.
struct LossScale {
  float* scale = nullptr;     // null: the loss isn't scaled
  float* inverse = nullptr;   // 1 / scale, valid before the first step, too
  int* good_steps = nullptr;  // since the scale last changed
  float growth = 2.0f;        // factor after `interval` good steps, if the result is finite
  float backoff = 0.5f;       // after a step with found_inf
  int interval = 2000;
};

/// The functions, for callers that nvcc doesn't compile. There are two versions, compiled by nvcc and by g++.
struct FlatSteps {
  void (*sgd)(const FlatGroup&, const StepScalars&, const SgdOptions&);
  void (*adam)(const FlatGroup&, const StepScalars&, const AdamOptions&);
  void (*lamb)(const FlatGroup&, const StepScalars&, const LambOptions&, const Segments&);
  void (*ema)(float* averages, const float* weights, int64_t count, double decay, const int* found_inf);
  void (*sum_squares)(const float* gradients, int64_t count, double* parts);
  void (*finish_norm)(const double* parts, int64_t count, const NormInputs& inputs, const NormScalars& to);
  void (*end_step)(int64_t* steps, const int* found_inf, const LossScale& loss_scale);
  /// to = value; the value is an argument of the kernel.
  void (*set)(float* to, float value);
  /// to = from if found_inf is set: undoes the changes of a step that doesn't count.
  void (*restore)(float* to, const float* from, int64_t count, const int* found_inf);
  /// engine/core/device_code.h: to = left + right; null operands are zeros. `rounds`: values and sums are rounded to bf16.
  void (*add)(float* to, const float* left, const float* right, int64_t count, bool rounds);
};
extern const FlatSteps flat_steps_cuda;
extern const FlatSteps flat_steps_cuda_simulated;

inline constexpr int64_t kFlatChunk = 4096;  // elements per block; part of the definition of sums

/// How many partial sums sum_squares writes.
constexpr int64_t norm_parts(int64_t count) {
  return (count + kFlatChunk - 1) / kFlatChunk;
}
/// The number of pieces of a lamb step (Piece in engine/cuda/flat/flat_kernels.h), each with two partial sums.
constexpr int64_t lamb_slots(int64_t count, int64_t segments) {
  return norm_parts(count) + segments;
}
constexpr int64_t lamb_parts(int64_t count, int64_t segments) {
  return 2 * lamb_slots(count, segments);
}

}  // namespace dlpipe::engine::cuda
