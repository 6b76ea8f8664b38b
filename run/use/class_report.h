// Which classes a model takes for which: the confusion matrix of an evaluation, and precision, recall and F1 of
// each class, as scikit-learn's classification_report defines them. One thread. Memory: 8 bytes x classes^2.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/formats/json.h"

namespace dlpipe::run {

/// The `k` classes of the largest values, the largest first; of equal ones the smaller number first. NaN comes
/// after all numbers.
std::vector<size_t> top_classes(std::span<const float> values, size_t k);
/// exp(logits) over their sum, in f64; all NaN where a logit is NaN or +inf.
std::vector<double> probabilities_of(std::span<const float> logits);

/// What is asked of one class.
struct ClassScore {
  int64_t support = 0;       // samples of this class
  int64_t predicted = 0;     // samples taken for it
  int64_t right = 0;         // samples of this class taken for it
  double precision() const;  // right / predicted; 0 where nothing was taken for it
  double recall() const;     // right / support, which is the class's own top1; 0 where it has no samples
  double f1() const;         // 2 right / (support + predicted); 0 where both are 0
};

class ClassReport {
 public:
  /// kMisuse for more classes than a matrix is of use for.
  static Result<ClassReport> make(int64_t classes);

  /// A sample of class `label` with its logits. Its class is the one with the largest logit, the first of equal
  /// ones; none where all logits are NaN.
  void add(int64_t label, std::span<const float> logits);

  int64_t classes() const { return classes_; }
  /// Samples of class `label` taken for class `predicted`.
  int64_t count(int64_t label, int64_t predicted) const {
    return counts_[static_cast<size_t>(label * classes_ + predicted)];
  }
  /// Samples that were taken for no class.
  int64_t undecided() const { return undecided_; }
  std::vector<ClassScore> scores() const;

  /// Means over the classes that have samples, as scikit-learn's of labels=unique_labels(y_true): each counts the same, or as
  /// often as it has samples. (Without labels= it counts classes without samples that were predicted, too, with a recall of 0.)
  struct Means {
    double precision = 0;
    double recall = 0;
    double f1 = 0;
  };
  Means macro_mean() const;
  Means weighted_mean() const;

  /// {"classes": [{"class", "support", "predicted", "precision", "recall", "f1", "top1"}], "macro", "weighted",
  /// "undecided", "confusion_matrix": rows are labels, columns predictions}.
  formats::Json to_json(std::span<const std::string> names) const;

 private:
  explicit ClassReport(int64_t classes);
  Means mean(bool weighted) const;

  int64_t classes_;
  std::vector<int64_t> counts_;   // [classes, classes]
  std::vector<int64_t> support_;  // [classes]
  int64_t undecided_ = 0;
};

}  // namespace dlpipe::run
