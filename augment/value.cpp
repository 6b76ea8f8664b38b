#include "dlpipe/augment/value.h"

#include <array>
#include <charconv>
#include <cmath>

#include "dlpipe/base/text.h"

namespace dlpipe::augment {

namespace {
/// The shortest decimal that reads back as the same double.
std::string shortest(double value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return std::string(buffer.data(), end);
}

std::string_view kind_in_words(std::string_view kind) {
  if (kind == "int") return "a whole number";
  if (kind == "float") return "a number such as 0.5 or 3/4";
  if (kind == "size") return "a size such as 224 or 192x256 (height x width)";
  if (kind == "range") return "a range such as 0.08..1, its lower end first";
  if (kind == "list") return "numbers such as 0.485:0.456:0.406";
  return "a word";
}
}  // namespace

bool parse_number(std::string_view text, double* value) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return parse_double(text, value) && std::isfinite(*value);
  double numerator = 0;
  double denominator = 0;
  if (!parse_double(text.substr(0, slash), &numerator)) return false;
  if (!parse_double(text.substr(slash + 1), &denominator) || denominator == 0) return false;
  *value = numerator / denominator;
  return std::isfinite(*value);
}

bool parse_size(std::string_view text, ImageSize* size, bool* is_single) {
  const size_t cross = text.find('x');
  *is_single = cross == std::string_view::npos;
  int64_t height = 0;
  if (!parse_int(text.substr(0, cross), &height)) return false;
  int64_t width = height;
  if (!*is_single && !parse_int(text.substr(cross + 1), &width)) return false;
  if (height < 1 || width < 1 || height > kMaxSize || width > kMaxSize) return false;
  size->height = static_cast<int>(height);
  size->width = static_cast<int>(width);
  return true;
}

bool parse_range(std::string_view text, std::vector<double>* bounds) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) return false;
  double low = 0;
  double high = 0;
  if (!parse_number(text.substr(0, dots), &low)) return false;
  if (!parse_number(text.substr(dots + 2), &high) || low > high) return false;
  *bounds = {low, high};
  return true;
}

bool parse_list(std::string_view text, std::vector<double>* values) {
  values->clear();
  for (const std::string& piece : split(text, ':')) {
    double value = 0;
    if (!parse_number(trim(piece), &value)) return false;
    values->push_back(value);
  }
  return true;
}

Result<std::string> canonical_value(const OpParam& param, std::string_view text) {
  const auto wrong = [&] {
    return Status(ErrorCode::kMisuse,
                  concat(param.name, " must be ", kind_in_words(param.kind), ", got '", text, "'"));
  };
  if (text == "none" && param.default_value == "none") return std::string("none");
  if (param.kind == "int") {
    int64_t value = 0;
    if (!parse_int(text, &value)) return wrong();
    return std::to_string(value);
  }
  if (param.kind == "float") {
    double value = 0;
    if (!parse_number(text, &value)) return wrong();
    return shortest(value);
  }
  if (param.kind == "size") {
    ImageSize size;
    bool single = false;
    if (!parse_size(text, &size, &single)) return wrong();
    return single ? std::to_string(size.height) : concat(size.height, "x", size.width);
  }
  if (param.kind == "range") {
    std::vector<double> bounds;
    if (!parse_range(text, &bounds)) return wrong();
    return shortest(bounds[0]) + ".." + shortest(bounds[1]);
  }
  if (param.kind == "list") {
    std::vector<double> values;
    if (!parse_list(text, &values)) return wrong();
    std::string canonical;
    for (double value : values) canonical += (canonical.empty() ? "" : ":") + shortest(value);
    return canonical;
  }
  if (text.empty()) return wrong();
  return std::string(text);
}

}  // namespace dlpipe::augment
