#include "dlpipe/run/input/preprocess.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <string_view>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/shortest_decimal.h"
#include "dlpipe/base/text.h"

namespace dlpipe::run {

namespace {

/// "3): cat, dog, owl"; of a long table the part from just before the first difference.
std::string describe_table(std::span<const std::string> names, size_t first_difference) {
  constexpr size_t kShown = 20;
  const size_t begin = names.size() <= kShown ? 0 : first_difference - std::min<size_t>(first_difference, 2);
  const size_t end = std::min(names.size(), begin + kShown);
  std::string text;
  for (size_t i = begin; i < end; ++i) text += (i > begin ? ", " : "") + printable(names[i]);
  return concat(names.size(), "): ", begin > 0 ? concat("... ", begin, ": ") : std::string(), text,
                end < names.size() ? concat(", and ", names.size() - end, " more") : std::string());
}

/// The decimal of the fewest digits that `is_it`, near `value`; `value` itself where there is no shorter one.
double shortest_where(double value, const std::function<bool(double)>& is_it) {
  constexpr int kMostDigits = 16;
  for (int digits = 1; digits <= kMostDigits; ++digits) {
    std::array<char, 32> text;
    const auto end = std::to_chars(text.begin(), text.end(), value, std::chars_format::general, digits).ptr;
    double rounded = 0;
    if (parse_double(std::string_view(text.data(), static_cast<size_t>(end - text.data())), &rounded) &&
        is_it(rounded))
      return rounded;
  }
  return value;
}

// The op that does what `prep` says, for `channels` channels: scale = 1 / (255 std), bias = -mean / std.
// Solved in f64 from f32 numbers, it gives the same f32 numbers again; of those that do, it has the shortest.
std::string normalize_op(const BatchPrep& prep, int64_t channels) {
  std::string mean;
  std::string deviation;
  for (int64_t c = 0; c < std::min<int64_t>(channels, BatchPrep::kMaxChannels); ++c) {
    const float scale = prep.scale[static_cast<size_t>(c)], bias = prep.bias[static_cast<size_t>(c)];
    const double std_c = shortest_where(1.0 / (255.0 * static_cast<double>(scale)), [&](double candidate) {
      return candidate > 0 && static_cast<float>(1.0 / (255.0 * candidate)) == scale;
    });
    const double mean_c = shortest_where(-static_cast<double>(bias) * std_c, [&](double candidate) {
      return static_cast<float>(-candidate / std_c) == bias;
    });
    mean += (c > 0 ? ":" : "") + shortest_decimal(mean_c == 0 ? 0 : mean_c);
    deviation += (c > 0 ? ":" : "") + shortest_decimal(std_c);
  }
  return concat("normalize(mean=", mean, ",std=", deviation, ")");
}

}  // namespace

Result<std::string> training_chain(const std::string& augment, const augment::OpRegistry& registry) {
  DLPIPE_ASSIGN_OR_RETURN(const augment::Chain chain, augment::Chain::parse(augment, registry));
  if (chain.contains("normalize")) return augment;
  return augment.empty() ? std::string("normalize") : augment + " normalize";
}

Result<std::string> validation_chain(const std::string& val_augment, const std::string& train_chain,
                                     const Shape& image, const data::PixelStats& stats,
                                     const augment::OpRegistry& registry) {
  std::string expression = val_augment;
  if (expression.empty()) {
    expression = image[0] == image[1] ? concat("resize(", image[0], ") center_crop(", image[0], ")")
                                      : concat("resize(", image[0], "x", image[1], ")");
  }
  DLPIPE_ASSIGN_OR_RETURN(const augment::Chain own, augment::Chain::parse(expression, registry));
  if (own.contains("normalize")) return expression;
  DLPIPE_ASSIGN_OR_RETURN(const augment::Chain trained, augment::Chain::parse(train_chain, registry));
  BatchPrep prep;
  DLPIPE_RETURN_IF_ERROR(trained.fill_prep(prep, {stats.channels, stats.mean, stats.std}));
  return concat(expression, " ", normalize_op(prep, image[2]));
}

Result<std::string> normalization_in(const std::string& chain, int64_t channels,
                                     const augment::OpRegistry& registry,
                                     const augment::ChannelStats& dataset) {
  DLPIPE_ASSIGN_OR_RETURN(const augment::Chain parsed, augment::Chain::parse(chain, registry));
  BatchPrep prep;
  DLPIPE_RETURN_IF_ERROR(parsed.fill_prep(prep, dataset));
  return normalize_op(prep, channels);
}

Status check_classes(std::string_view first_name, std::span<const std::string> first,
                     std::string_view second_name, std::span<const std::string> second,
                     std::string_view dataset) {
  if (std::ranges::equal(first, second)) return {};
  const auto same =
      std::mismatch(first.begin(), first.end(), second.begin(), second.end()).first - first.begin();
  const auto difference = static_cast<size_t>(same);
  return misuse("classes", first_name, " and ", second_name, " have different classes, from number ",
                difference, " on; ingest with --classes-from ",
                dataset.empty() ? std::string("DATASET, or a file with the first one's names, one per line")
                                : shell_word(std::string(dataset)),
                ": the classes are\n  ", first_name, " (", describe_table(first, difference), "\n  ",
                second_name, " (", describe_table(second, difference));
}

}  // namespace dlpipe::run
