#include "dlpipe/io/data/sources/annotations/yolo_files.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"

namespace dlpipe::data::yolo {

namespace {

constexpr int64_t kMostClasses = 1'000'000;

Status wrong(std::string_view what) {
  return Status(ErrorCode::kCorrupt, std::string(what));
}

/// Texts of a file whose aliases (*) may stand for one of them again and again: no more than the file has itself.
class Texts {
 public:
  explicit Texts(size_t bytes) : left_(bytes) {}
  /// Throws YAML::Exception, as YAML::Node does.
  std::string of(const YAML::Node& node) {
    std::string text = node.as<std::string>();
    if (text.size() > left_)
      throw YAML::Exception(node.Mark(), "its aliases stand for more text than the file has");
    left_ -= text.size();
    return text;
  }
  std::vector<std::string> one_or_many(const YAML::Node& node) {
    if (!node.IsSequence()) return {of(node)};
    std::vector<std::string> all;
    for (const YAML::Node& one : node) all.push_back(of(one));
    return all;
  }

 private:
  size_t left_;
};

/// A list, or a map of numbers.
Result<std::vector<std::string>> names_of(const YAML::Node& node, Texts& texts) {
  if (!node || node.IsNull()) return wrong("no 'names' of classes in it");
  if (!node.IsMap()) return texts.one_or_many(node);
  std::map<int64_t, std::string> by_number;
  for (const auto& pair : node) by_number[pair.first.as<int64_t>()] = texts.of(pair.second);
  std::vector<std::string> names;
  for (auto& [number, name] : by_number) {
    if (number != static_cast<int64_t>(names.size()))
      return wrong(concat("'names' has class ", number, ", but not ", names.size()));
    names.push_back(std::move(name));
  }
  return names;
}

Result<Config> parse_node(const YAML::Node& root, Texts texts) {
  if (!root.IsMap()) return wrong("no list of keys and values");
  Config config;
  if (const YAML::Node path = root["path"]; path && !path.IsNull()) config.path = path.as<std::string>();
  for (const char* split : {"train", "val", "test"}) {
    const YAML::Node node = root[split];
    if (node && !node.IsNull()) config.splits[split] = texts.one_or_many(node);
  }
  if (const YAML::Node valid = root["valid"]; valid && !valid.IsNull() && !config.splits.contains("val"))
    config.splits["val"] = texts.one_or_many(valid);
  DLPIPE_ASSIGN_OR_RETURN(config.names, names_of(root["names"], texts));
  if (const YAML::Node count = root["nc"]; count && !count.IsNull()) {
    const auto wanted = count.as<int64_t>();
    if (wanted != static_cast<int64_t>(config.names.size()))
      return wrong(concat("'nc' is ", wanted, ", 'names' has ", config.names.size()));
  }
  std::vector<std::string> sorted = config.names;
  std::sort(sorted.begin(), sorted.end());
  const auto again = std::adjacent_find(sorted.begin(), sorted.end());
  if (again != sorted.end()) return wrong(concat("'names' has '", printable(*again), "' twice"));
  if (const YAML::Node shape = root["kpt_shape"]; shape && !shape.IsNull()) {
    const auto sizes = shape.as<std::vector<int64_t>>();
    constexpr int64_t kMostPoints = 4096;
    if (sizes.size() != 2 || sizes[0] < 1 || sizes[0] > kMostPoints || sizes[1] < 2 || sizes[1] > 3)
      return wrong("'kpt_shape' is no [number of key points, 2 or 3]");
    config.points = sizes[0];
    config.numbers_per_point = sizes[1];
  }
  return config;
}

/// The numbers of a line, its class first.
Result<std::vector<double>> numbers_of(std::string_view line) {
  std::vector<double> numbers;
  size_t at = 0;
  while ((at = line.find_first_not_of(" \t", at)) != std::string_view::npos) {
    const size_t end = std::min(line.find_first_of(" \t", at), line.size());
    double value = 0;
    const std::string_view text = line.substr(at, end - at);
    if (!parse_double(text, &value) || !std::isfinite(value))
      return wrong(concat("'", printable(text), "' is no number"));
    numbers.push_back(value);
    at = end;
  }
  return numbers;
}

Status check_shares(const std::vector<double>& numbers, size_t begin, size_t end) {
  constexpr double kSlack = 0.01;  // programs round
  for (size_t i = begin; i < end; ++i) {
    if (numbers[i] < -kSlack || numbers[i] > 1 + kSlack)
      return wrong(concat(numbers[i], " is no share of the picture's width or height, from 0 to 1"));
  }
  return {};
}

void add_box(double left, double top, double right, double bottom, Labels& labels) {
  for (const double side : {left, top, right, bottom}) labels.boxes.push_back(static_cast<float>(side));
}

/// Whether a line of so many numbers ends with a confidence, as `save_conf` of a prediction writes it.
bool ends_with_confidence(const std::vector<double>& numbers, const Config& config) {
  const size_t pose = 5 + static_cast<size_t>(config.points * config.numbers_per_point);
  constexpr size_t kShortestPolygon = 7;
  const bool is_longer = numbers.size() == pose + 1 ||
                         (config.points == 0 && numbers.size() > kShortestPolygon && numbers.size() % 2 == 0);
  return is_longer && numbers.back() >= 0 && numbers.back() <= 1;
}

Status add_line(const std::vector<double>& numbers, const Config& config, Labels& labels) {
  const double number = numbers[0];
  const auto most = static_cast<double>(config.names.empty() ? kMostClasses : config.names.size());
  if (number != std::floor(number) || number < 0 || number >= most)
    return wrong(concat("class ", number, ", and classes are 0 to ", most - 1));
  const size_t pose = 5 + static_cast<size_t>(config.points * config.numbers_per_point);
  if (numbers.size() == pose) {
    DLPIPE_RETURN_IF_ERROR(check_shares(numbers, 1, 5));
    if (numbers[3] < 0 || numbers[4] < 0) return wrong("a width or height below 0");
    add_box(numbers[1] - numbers[3] / 2, numbers[2] - numbers[4] / 2, numbers[1] + numbers[3] / 2,
            numbers[2] + numbers[4] / 2, labels);
    for (size_t at = 5; at < pose; at += static_cast<size_t>(config.numbers_per_point)) {
      const bool is_known = numbers[at] != 0 || numbers[at + 1] != 0;
      labels.points.push_back(static_cast<float>(numbers[at]));
      labels.points.push_back(static_cast<float>(numbers[at + 1]));
      labels.points.push_back(config.numbers_per_point == 3 ? static_cast<float>(numbers[at + 2])
                              : is_known                    ? 2.f
                                                            : 0.f);
    }
  } else if (config.points == 0 && numbers.size() >= 7 && numbers.size() % 2 == 1) {
    DLPIPE_RETURN_IF_ERROR(check_shares(numbers, 1, numbers.size()));
    double low[2] = {1, 1};
    double high[2] = {0, 0};
    for (size_t i = 1; i < numbers.size(); ++i) {
      low[(i + 1) % 2] = std::min(low[(i + 1) % 2], numbers[i]);
      high[(i + 1) % 2] = std::max(high[(i + 1) % 2], numbers[i]);
    }
    add_box(low[0], low[1], high[0], high[1], labels);
    Outline outline;
    outline.object = labels.classes.size();
    outline.polygons.emplace_back(numbers.begin() + 1, numbers.end());
    labels.outlines.push_back(std::move(outline));
  } else {
    return wrong(concat(numbers.size(), " numbers; a class and a box are ", pose,
                        config.points == 0 ? ", a class and a polygon 7, 9, ..." : " with key points"));
  }
  labels.classes.push_back(static_cast<int64_t>(number));
  return {};
}

}  // namespace

Result<Config> parse_config(std::string_view text) {
  try {
    return parse_node(YAML::Load(std::string(text)), Texts(text.size()));
  } catch (const YAML::Exception& error) {
    return wrong(concat("line ", error.mark.line + 1, ": ", printable(error.msg)));
  }
}

Result<Labels> parse_labels(std::string_view text, const Config& config) {
  Labels labels;
  int64_t line_number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = trim(text.substr(at, end - at));
    at = end + 1;
    ++line_number;
    if (line.empty()) continue;
    auto numbers = numbers_of(line);
    if (numbers.ok() && ends_with_confidence(*numbers, config)) {
      numbers->pop_back();
      ++labels.confidences;
    }
    const Status added = numbers.ok() ? add_line(*numbers, config, labels) : numbers.status();
    if (!added.ok()) return added.with_context(concat("line ", line_number, ": "));
  }
  return labels;
}

}  // namespace dlpipe::data::yolo
