#include "dlpipe/io/data/sources/arrays/numpy_labels.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"

namespace dlpipe::data::numpy {

static bool holds_texts(const NpyArray& array) {
  return array.header().kind == 'S' || array.header().kind == 'U';
}

static Status check_target(const NpyArray& array, std::span<const double> target, uint64_t row) {
  const auto odd = std::find_if(target.begin(), target.end(),
                                [](double v) { return !std::isfinite(static_cast<float>(v)); });
  if (odd == target.end()) return {};
  return Status(ErrorCode::kCorrupt,
                concat("[ingest] the array ", printable(array.name()), " holds ", *odd, " in row ", row,
                       ", counted from 0; a target is a number that an f32 holds: leave such samples out"));
}

Result<Labels> labels_of(const NpyArray& array) {
  Labels labels;
  const uint64_t columns = array.sample_elements();
  if (holds_texts(array)) {
    if (columns == 1) {
      DLPIPE_ASSIGN_OR_RETURN(labels.classes, array.texts());
      if (std::find(labels.classes.begin(), labels.classes.end(), "") != labels.classes.end())
        return Status(ErrorCode::kCorrupt, concat("[ingest] the array ", printable(array.name()),
                                                  " holds an empty text, which is no class"));
      return labels;
    }
    return Status(ErrorCode::kUnsupported, concat("[ingest] the array ", printable(array.name()), " is ",
                                                  array.form(), "; texts name one class each, [N]"));
  }
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<double> values, array.numbers());
  const auto row = [&](uint64_t i) { return std::span(values).subspan(i * columns, columns); };
  const auto all = [&](const auto& check) { return std::all_of(values.begin(), values.end(), check); };
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const bool is_whole = all([](double v) { return v == std::floor(v) && std::abs(v) <= kExact; });
  const bool is_bits = columns > 1 && all([](double v) { return v == 0 || v == 1; });
  bool is_one_hot = is_bits;
  for (uint64_t i = 0; is_one_hot && i < array.samples(); ++i)
    is_one_hot = std::count(row(i).begin(), row(i).end(), 1.0) == 1;
  for (uint64_t i = 0; i < array.samples(); ++i) {
    if (columns == 1 && is_whole) {
      labels.classes.push_back(std::to_string(static_cast<int64_t>(row(i)[0])));
    } else if (is_one_hot) {
      labels.classes.push_back(std::to_string(std::find(row(i).begin(), row(i).end(), 1.0) - row(i).begin()));
    } else if (is_bits) {
      std::vector<int64_t>& of_sample = labels.several.emplace_back();
      for (uint64_t c = 0; c < columns; ++c) {
        if (row(i)[c] == 1) of_sample.push_back(static_cast<int64_t>(c));
      }
    } else {
      DLPIPE_RETURN_IF_ERROR(check_target(array, row(i), i));
      labels.targets.emplace_back(row(i).begin(), row(i).end());
    }
  }
  return labels;
}

Result<std::vector<std::string>> class_names_in(const NpyArray& array) {
  if (!holds_texts(array) || array.sample_elements() != 1) return std::vector<std::string>();
  DLPIPE_ASSIGN_OR_RETURN(std::vector<std::string> names, array.texts());
  const std::set<std::string_view> different(names.begin(), names.end());
  if (different.size() != names.size() || different.contains("")) names.clear();
  return names;
}

bool are_below(const Labels& labels, size_t count) {
  const auto is_below = [&](int64_t number) { return number >= 0 && number < static_cast<int64_t>(count); };
  const bool classes_are = std::all_of(labels.classes.begin(), labels.classes.end(), [&](const auto& text) {
    int64_t number = 0;
    return parse_int(text, &number) && is_below(number);
  });
  const bool several_are = std::all_of(labels.several.begin(), labels.several.end(), [&](const auto& row) {
    return std::all_of(row.begin(), row.end(), is_below);
  });
  return classes_are && several_are && (!labels.classes.empty() || !labels.several.empty());
}

}  // namespace dlpipe::data::numpy
