// What every optimizer has to do, whatever its formula.
#pragma once

#include <string>

#include "dlpipe/optim.h"

namespace dlpipe::engine {

/// gtest failures unless: it is found by name; parameters without a gradient and gradients themselves stay as
/// they are; results are the same bits on 1, 2 and 3 threads and on every instruction set; a run that saves
/// and loads its state goes on with the same bits; states of other models and optimizers are refused by name;
/// lr_scales apply by name; and, where its record lists weight-decay, decay_scales do, vectors aren't decayed with
/// decay_vectors off, and a negative decay is refused.
void check_optimizer(const std::string& name, const OptimizerArguments& arguments);

/// Uniform in [-1, 1), f32; the same for the same `stream`.
Tensor random_tensor(const Shape& shape, uint64_t stream);

}  // namespace dlpipe::engine
