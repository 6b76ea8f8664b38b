#include "base/names.h"

#include <utility>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/registry.h"

namespace dlpipe {

Status name_is_taken(const char* kind, std::string_view name) {
  return misuse(kind, "'", name, "' is already registered; choose another name");
}

Status name_is_unknown(const char* kind, std::string_view name, std::span<const std::string> known) {
  return misuse(kind, "no ", kind, " '", name, "'", suggestion(name, known));
}

std::vector<std::string> assignments_in(std::string_view text) {
  std::vector<std::string> parts;
  std::string begun;  // an assignment whose name has commas, so far
  for (const std::string& piece : split(text, ',')) {
    begun += (begun.empty() ? "" : ",") + piece;
    if (piece.find('=') != std::string::npos) parts.push_back(std::exchange(begun, ""));
  }
  if (!begun.empty() || text.empty() || text.back() == ',') parts.push_back(begun);
  return parts;
}

Result<std::vector<double>> class_weights_in(std::string_view area, std::string_view option,
                                             std::string_view text, std::string_view words,
                                             std::span<const std::string> classes, std::string_view owner) {
  constexpr double kMost = 1e9;
  std::vector<double> weights(classes.size(), 1.0);
  std::vector<bool> is_given(classes.size());
  for (const std::string& part : assignments_in(text)) {
    const size_t equals = part.rfind('=');
    double weight = 0;
    if (equals == std::string::npos || !parse_double(part.substr(equals + 1), &weight) || !(weight >= 0) ||
        weight > kMost)
      return misuse(area, option, " ", printable(text), "; give ", words, " or CLASS=WEIGHT,CLASS=WEIGHT");
    const std::string_view name = trim(std::string_view(part).substr(0, equals));
    const auto found = std::ranges::find(classes, name);
    if (found == classes.end())
      return misuse(area, option, " names ", in_quotes(name), ", which is not a class of ", owner,
                    "; it has ", quoted_names(classes));
    const auto number = static_cast<size_t>(found - classes.begin());
    if (is_given[number]) return misuse(area, option, " names ", in_quotes(name), " twice; give one weight");
    is_given[number] = true;
    weights[number] = weight;
  }
  return weights;
}

}  // namespace dlpipe
