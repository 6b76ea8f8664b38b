// Adam and AdamW, which differ only in how weight decay is applied. One thread, like every
// optimizer.
#pragma once

#include <memory>
#include <vector>

#include "dlpipe/optim.h"

namespace dlpipe::engine {

/// A step of Adam (Kingma and Ba, "Adam", 2015, algorithm 1) for every element of a run. The bias corrections
/// are folded into step_size and root_scale:
///   w = keep * w
///   g = g + decay * w
///   mean += take1 * (g - mean)
///   square = keep2 * square + take2 * g * g
///   w -= step_size * mean / (sqrt(square) * root_scale + epsilon)
struct AdamStep {
  float take1 = 0.0f;       // 1 - beta1
  float keep2 = 0.0f;       // beta2
  float take2 = 0.0f;       // 1 - beta2
  float step_size = 0.0f;   // lr / (1 - beta1^t)
  float root_scale = 0.0f;  // 1 / sqrt(1 - beta2^t)
  float epsilon = 0.0f;
  float decay = 0.0f;
  float keep = 1.0f;  // below 1: decoupled decay
};
/// The coefficients of step `t`, from 1 on, with learning rate `lr`.
AdamStep adam_step(const OptimizerArguments& arguments, bool decoupled, double lr, int64_t t,
                   const ElementRun& run);

/// `decoupled`: weights are multiplied by 1 - lr * weight_decay; else decay * weight is added to the
/// gradient.
std::unique_ptr<Optimizer> build_adam(const char* name, std::vector<NamedTensor> parameters,
                                      const OptimizerArguments& arguments, bool decoupled);

/// Throws Error (kMisuse) that names `optimizer` if an argument is out of range.
void check_adam_arguments(const char* optimizer, const OptimizerArguments& arguments);

}  // namespace dlpipe::engine
