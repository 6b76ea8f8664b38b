#include "dlpipe/run/use/class_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"

namespace dlpipe::run {

using formats::Json;

std::vector<size_t> top_classes(std::span<const float> values, size_t k) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto comes_first = [&](size_t a, size_t b) {
    if (std::isnan(values[a]) || std::isnan(values[b])) {
      if (std::isnan(values[a]) != std::isnan(values[b])) return std::isnan(values[b]);
      return a < b;
    }
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  };
  const size_t count = std::min(k, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(), comes_first);
  order.resize(count);
  return order;
}

std::vector<double> probabilities_of(std::span<const float> logits) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const float logit : logits) largest = std::max(largest, static_cast<double>(logit));
  std::vector<double> probabilities;
  double sum = 0;
  for (const float logit : logits) {
    probabilities.push_back(std::exp(static_cast<double>(logit) - largest));
    sum += probabilities.back();
  }
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

static double ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

double ClassScore::precision() const {
  return ratio(right, predicted);
}
double ClassScore::recall() const {
  return ratio(right, support);
}
double ClassScore::f1() const {
  return ratio(2 * right, support + predicted);
}

Result<ClassReport> ClassReport::make(int64_t classes) {
  constexpr int64_t kMost = 4096;  // 128 MiB of counts
  if (classes > kMost) {
    return misuse("eval", "--report is for up to ", human_count(kMost), " classes, and there are ",
                  human_count(classes), "; count from what --predictions writes");
  }
  return ClassReport(classes);
}

ClassReport::ClassReport(int64_t classes)
    : classes_(classes),
      counts_(static_cast<size_t>(classes * classes)),
      support_(static_cast<size_t>(classes)) {}

void ClassReport::add(int64_t label, std::span<const float> logits) {
  ++support_.at(static_cast<size_t>(label));
  const size_t first = top_classes(logits, 1).at(0);
  if (std::isnan(logits[first])) {
    ++undecided_;
    return;
  }
  ++counts_.at(static_cast<size_t>(label * classes_) + first);
}

std::vector<ClassScore> ClassReport::scores() const {
  std::vector<ClassScore> scores(static_cast<size_t>(classes_));
  for (int64_t label = 0; label < classes_; ++label) {
    ClassScore& own = scores[static_cast<size_t>(label)];
    own.support = support_[static_cast<size_t>(label)];
    own.right = count(label, label);
    for (int64_t c = 0; c < classes_; ++c) scores[static_cast<size_t>(c)].predicted += count(label, c);
  }
  return scores;
}

ClassReport::Means ClassReport::mean(bool weighted) const {
  Means sums;
  double total = 0;
  for (const ClassScore& score : scores()) {
    const double weight = score.support == 0 ? 0.0 : weighted ? static_cast<double>(score.support) : 1.0;
    sums.precision += weight * score.precision();
    sums.recall += weight * score.recall();
    sums.f1 += weight * score.f1();
    total += weight;
  }
  if (total == 0) return {};
  return {sums.precision / total, sums.recall / total, sums.f1 / total};
}

ClassReport::Means ClassReport::macro_mean() const {
  return mean(false);
}
ClassReport::Means ClassReport::weighted_mean() const {
  return mean(true);
}

Json ClassReport::to_json(std::span<const std::string> names) const {
  const auto means_json = [](const Means& means) {
    return Json::object({{"precision", means.precision}, {"recall", means.recall}, {"f1", means.f1}});
  };
  Json classes = Json::array();
  Json matrix = Json::array();
  const std::vector<ClassScore> all = scores();
  for (int64_t label = 0; label < classes_; ++label) {
    const ClassScore& score = all[static_cast<size_t>(label)];
    classes.push_back(Json::object({{"class", names[static_cast<size_t>(label)]},
                                    {"support", score.support},
                                    {"predicted", score.predicted},
                                    {"precision", score.precision()},
                                    {"recall", score.recall()},
                                    {"f1", score.f1()},
                                    {"top1", score.recall()}}));
    Json row = Json::array();
    for (int64_t c = 0; c < classes_; ++c) row.push_back(count(label, c));
    matrix.push_back(std::move(row));
  }
  return Json::object({{"classes", std::move(classes)},
                       {"macro", means_json(macro_mean())},
                       {"weighted", means_json(weighted_mean())},
                       {"undecided", undecided_},
                       {"confusion_matrix", std::move(matrix)}});
}

}  // namespace dlpipe::run
