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

/// AutoAugment's ops and scales. RandAugment draws from all but the first.
inline constexpr PolicyOpScale kAutoAugmentSpace[] = {{"invert"},
                                                      {"identity"},
                                                      {"shear_x", 0, 0.3, PolicyOpScale::kBoth},
                                                      {"shear_y", 0, 0.3, PolicyOpScale::kBoth},
                                                      {"translate_x", 0, 150.0 / 331, PolicyOpScale::kBoth},
                                                      {"translate_y", 0, 150.0 / 331, PolicyOpScale::kBoth},
                                                      {"rotate", 0, 30, PolicyOpScale::kBoth},
                                                      {"brightness", 0, 0.9, PolicyOpScale::kBoth},
                                                      {"saturation", 0, 0.9, PolicyOpScale::kBoth},
                                                      {"contrast", 0, 0.9, PolicyOpScale::kBoth},
                                                      {"sharpness", 0, 0.9, PolicyOpScale::kBoth},
                                                      {"posterize", 8, 4},
                                                      {"solarize", 1, 0},
                                                      {"autocontrast"},
                                                      {"equalize"}};
inline constexpr std::span<const PolicyOpScale> kRandAugmentSpace = std::span(kAutoAugmentSpace).subspan(1);

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
