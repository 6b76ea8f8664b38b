// Initial weights.
//
// Every element is a pure function of (seed, full parameter name, index): the same weights whatever the
// number of threads, the order of layers, or the other layers of the model. All functions write in place, in
// parallel, f32.
#pragma once

#include <cstdint>
#include <string>

#include "dlpipe/engine/layers/module.h"

namespace dlpipe::engine {

/// Names the stream that a parameter is drawn from.
struct InitKey {
  uint64_t seed = 0;
  std::string name;
};

/// Uniform in [low, high).
void fill_uniform(Tensor& tensor, const InitKey& key, double low, double high);
void fill_normal(Tensor& tensor, const InitKey& key, double mean, double standard_deviation);
void fill_constant(Tensor& tensor, double value);

/// Inputs and outputs of one unit of a weight [out, in, ...]: sizes times the receptive field.
struct Fans {
  int64_t in = 1;
  int64_t out = 1;
};
Fans fans(const Shape& weight);

/// He et al., "Delving deep into rectifiers", 2015, equation 10 for a leaky ReLU of slope `a`, uniform:
/// bound sqrt(6 / ((1 + a^2) fan_in)). PyTorch's Conv2d and Linear use a = sqrt(5), so 1 / sqrt(fan_in).
void fill_kaiming_uniform(Tensor& weight, const InitKey& key, double a);
/// The same paper's equation 14 (backward case) for ReLU, normal: standard deviation sqrt(2 / fan_out).
void fill_kaiming_normal_fan_out(Tensor& weight, const InitKey& key);

/// Output channel o of a convolution's weight [out, in, KH, KW] passes input channel o on, for o below
/// min(in, out): its filter becomes 1 in the middle of that channel and 0 elsewhere. The others stay.
void fill_dirac(Tensor& weight);

/// Weight (and bias, when defined) as PyTorch's Conv2d and Linear start: both uniform within
/// 1 / sqrt(fan_in).
void reset_affine(Tensor& weight, Tensor& bias, uint64_t seed, const std::string& prefix);

/// Draws all parameters of the tree: every module's own default.
void initialize(Module& model, uint64_t seed);
/// As initialize, but convolution weights as torchvision's resnets have them: kaiming normal, fan out.
void initialize_fan_out(Module& model, uint64_t seed);

}  // namespace dlpipe::engine
