// The ops that published policies (AutoAugment, RandAugment, TrivialAugment, AugMix) choose from, under their published
// names and scales, as expressions. Cubuk et al., "AutoAugment" (2018), table 6; torchvision's scales.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/augment/fill.h"
#include "dlpipe/augment/policy.h"
#include "dlpipe/augment/warp.h"

namespace dlpipe::augment {

/// One op of a space: its magnitude goes from `first` to `last` in equal steps.
struct PolicyOpScale {
  enum Sign { kOne, kBoth };  // both: the magnitude is negated half of the time
  std::string_view name;
  double first = 0;
  double last = 0;
  Sign sign = kOne;
  bool has_magnitude() const { return first != last; }
};

/// The magnitude of `bin` of `bins`; those of posterize are whole.
double magnitude_of(const PolicyOpScale& op, int bin, int bins);

/// `name` with a magnitude, as an expression: "rotate(-10..-10,nearest,0)". `how` is what geometric ops end with,
/// interpolation and fill. Moves are shares of the picture's sides; translate_x_pixels is the one in pixels.
std::string policy_expression(std::string_view name, double magnitude, std::string_view how);

/// One op at one magnitude: where it has a sign, either one.
std::string signed_expression(const PolicyOpScale& op, double magnitude, std::string_view how,
                              std::string_view p = "1");

/// "nearest,0": the parameters interpolation and fill as policy_expression takes them.
std::string how_text(OpArguments& arguments);

}  // namespace dlpipe::augment
