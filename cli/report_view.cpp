#include "dlpipe/cli/report_view.h"

#include <algorithm>
#include <vector>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/engine/metrics/metrics.h"

namespace dlpipe::cli {

namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string class_table(const run::ClassReport& report, std::span<const std::string> names) {
  Rows rows = {{"class", "samples", "predicted", "precision", "recall (top1)", "F1"}};
  const auto add = [&](const std::string& name, const std::string& samples, const std::string& predicted,
                       double precision, double recall, double f1) {
    rows.push_back({name, samples, predicted, fixed(precision, 4), fixed(recall, 4), fixed(f1, 4)});
  };
  const std::vector<run::ClassScore> scores = report.scores();
  for (size_t c = 0; c < scores.size(); ++c) {
    const run::ClassScore& score = scores[c];
    add(printable(names[c]), human_count(score.support), human_count(score.predicted), score.precision(),
        score.recall(), score.f1());
  }
  const auto has_samples = [](const run::ClassScore& score) { return score.support > 0; };
  const auto counted = static_cast<size_t>(std::count_if(scores.begin(), scores.end(), has_samples));
  const auto macro = report.macro_mean(), weighted = report.weighted_mean();
  add(counted == scores.size()
          ? "mean of classes"
          : concat("mean of the ", counted, counted == 1 ? " class" : " classes", " with samples"),
      "", "", macro.precision, macro.recall, macro.f1);
  add("mean of samples", "", "", weighted.precision, weighted.recall, weighted.f1);
  return format_table(rows);
}

std::string matrix(const run::ClassReport& report, std::span<const std::string> names) {
  Rows rows = {{"is \\ taken for"}};
  for (const std::string& name : names) rows[0].push_back(printable(name));
  for (int64_t label = 0; label < report.classes(); ++label) {
    rows.push_back({printable(names[static_cast<size_t>(label)])});
    for (int64_t c = 0; c < report.classes(); ++c)
      rows.back().push_back(std::to_string(report.count(label, c)));
  }
  return format_table(rows);
}

std::string most_frequent(const run::ClassReport& report, std::span<const std::string> names) {
  constexpr size_t kShown = 20;
  struct Confusion {
    int64_t count, label, predicted;
  };
  std::vector<Confusion> all;
  for (int64_t label = 0; label < report.classes(); ++label) {
    for (int64_t c = 0; c < report.classes(); ++c) {
      if (label != c && report.count(label, c) > 0) all.push_back({report.count(label, c), label, c});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
  Rows rows = {{"samples", "is", "taken for"}};
  for (size_t i = 0; i < std::min(kShown, all.size()); ++i) {
    rows.push_back({human_count(all[i].count), printable(names[static_cast<size_t>(all[i].label)]),
                    printable(names[static_cast<size_t>(all[i].predicted)])});
  }
  return concat("the most frequent of ", human_count(static_cast<int64_t>(all.size())),
                " confusions; --json has the whole matrix\n", format_table(rows));
}

}  // namespace

std::string metric_text(const std::string& name, double value) {
  const auto record = engine::find_metric(name);
  return record.ok() && (*record)->is_share ? fixed(100 * value, 2) + " %" : fixed(value, 4);
}

std::string report_text(const run::ClassReport& report, std::span<const std::string> names) {
  constexpr int64_t kWholeMatrix = 12;  // more columns than these are no picture any more
  std::string text = class_table(report, names) + "\n";
  const std::string whole = report.classes() <= kWholeMatrix ? matrix(report, names) : std::string();
  const bool is_shown = !whole.empty() && fits_stdout(split(whole, '\n').front());
  text += is_shown ? whole : most_frequent(report, names);
  if (report.undecided() > 0) {
    text += concat(human_count(report.undecided()),
                   " samples have no finite logits and are taken for no class\n");
  }
  return text;
}

}  // namespace dlpipe::cli
