#include "dlpipe/augment/policy_space.h"

#include <cmath>

#include "dlpipe/base/portable_math.h"
#include "dlpipe/base/text.h"

namespace dlpipe::augment {

namespace {

std::string number(double value) {
  const std::string range = range_text({value, value});
  return range.substr(0, range.find(".."));
}

/// atan in degrees of a slope of at most 1, by its series in u = x / (1 + sqrt(1 + x^2)), which halves the angle: an
/// angle that a program writes into an expression, so the same text everywhere.
double degrees_of_slope(double slope) {
  double u = slope / (1 + std::sqrt(1 + slope * slope));
  u = u / (1 + std::sqrt(1 + u * u));
  double power = u;
  double sum = 0;
  for (int k = 0; k < 20; ++k, power *= -u * u) sum += power / (2 * k + 1);
  return 4 * sum * (180 / 3.14159265358979323846);
}

}  // namespace

// The f32 numbers of torch.linspace (from the nearer end, with a step of f32): a factor's last bit decides where values are
// cut off.
double magnitude_of(const PolicyOpScale& op, int bin, int bins) {
  const auto first = static_cast<float>(op.first);
  const auto last = static_cast<float>(op.last);
  const double step = static_cast<double>(bins > 1 ? (last - first) / static_cast<float>(bins - 1) : 0);
  const double magnitude = bin < bins / 2 ? static_cast<double>(first) + step * bin
                                          : static_cast<double>(last) - step * (bins - 1 - bin);
  return op.name == "posterize" ? std::nearbyint(magnitude)
                                : static_cast<double>(static_cast<float>(magnitude));
}

std::string policy_expression(std::string_view name, double magnitude, std::string_view how) {
  const auto range = [](double value) { return range_text({value, value}); };
  if (name == "identity") return "";
  if (name == "shear_x") return concat("shear(", range(degrees_of_slope(magnitude)), ",0,corner,", how, ")");
  if (name == "shear_y") return concat("shear(0,", range(degrees_of_slope(magnitude)), ",corner,", how, ")");
  if (name == "translate_x") return concat("translate(", range(magnitude), ",0,share,", how, ")");
  if (name == "translate_y") return concat("translate(0,", range(magnitude), ",share,", how, ")");
  if (name == "translate_x_pixels") return concat("translate(", range(magnitude), ",0,pixels,", how, ")");
  if (name == "translate_y_pixels") return concat("translate(0,", range(magnitude), ",pixels,", how, ")");
  if (name == "rotate") return concat("rotate(", range(magnitude), ",", how, ")");
  if (name == "posterize") return concat("posterize(", number(magnitude), ")");
  if (name == "solarize") return concat("solarize(", number(255 * magnitude), ")");
  if (name == "brightness" || name == "contrast" || name == "saturation" || name == "sharpness")
    return concat(name, "(", range(1 + magnitude), ")");
  return std::string(name);  // autocontrast, equalize, invert
}

std::string signed_expression(const PolicyOpScale& op, double magnitude, std::string_view how,
                              std::string_view p) {
  std::string one = policy_expression(op.name, magnitude, how);
  const bool both = op.sign == PolicyOpScale::kBoth && magnitude != 0;
  if (!both && p == "1") return one;
  return concat("one_of(", one,
                both ? concat(" | ", policy_expression(op.name, -magnitude, how)) : std::string(), ", p=", p,
                ")");
}

std::string how_text(OpArguments& arguments) {
  return concat(arguments.text("interpolation"), ",", arguments.text("fill"));
}

}  // namespace dlpipe::augment
