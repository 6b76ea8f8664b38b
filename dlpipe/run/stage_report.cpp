#include "dlpipe/run/stage_report.h"

#include <algorithm>
#include <cmath>

#include "dlpipe/base/text.h"

namespace dlpipe::run {

namespace {

using formats::Json;

constexpr double kSecond = 1e9;

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

std::string percent(double share) {
  return fixed(100 * share, 1) + " %";
}

std::string advise(const SourceStats& stats, const std::vector<StageRow>& rows, double data_wait_share) {
  constexpr double kHardlyWaits = 0.05;
  const StageRow* slowest = nullptr;
  for (const StageRow& row : rows) {
    if (row.alone_img_s > 0 && (slowest == nullptr || row.busy_share > slowest->busy_share)) slowest = &row;
  }
  if (slowest == nullptr) return "Nothing was measured.";
  const bool has_trainer = data_wait_share >= 0;
  if (has_trainer && data_wait_share < kHardlyWaits) {
    return concat("Speed up the model: training waited for data only ", percent(data_wait_share),
                  " of the time; the pipeline's busiest stage, ", slowest->name, ", could give ",
                  human_count(std::llround(slowest->alone_img_s)), " img/s alone.");
  }
  std::string name = slowest->name;
  for (const StageRow& row : rows) {
    if (row.name == stats.bottleneck) name = row.name;
  }
  if (has_trainer) {
    return concat("Speed up ", name, ": training waited for data ", percent(data_wait_share),
                  " of the time, and ", name, " is the stage that limits it.");
  }
  return concat("Speed up ", name, ": it is the stage that limits the pipeline.");
}

}  // namespace

StageReport report_stages(const SourceStats& stats, double data_wait_share) {
  StageReport report;
  for (const StageStats& stage : stats.stages) {
    const auto busy = static_cast<double>(stage.busy_ns);
    const double waiting =
        static_cast<double>(stage.wait_input_ns) + static_cast<double>(stage.wait_output_ns);
    const double thread_ns = static_cast<double>(stats.wall_ns) * stage.threads;
    StageRow row;
    row.name = stage.name;
    row.items = stage.items;
    row.alone_img_s = ratio(static_cast<double>(stage.items) * stage.threads, busy / kSecond);
    row.busy_share = ratio(busy, thread_ns);
    row.wait_share = ratio(waiting, thread_ns);
    report.rows.push_back(std::move(row));
  }
  report.rate_img_s = ratio(static_cast<double>(stats.samples), static_cast<double>(stats.wall_ns) / kSecond);
  report.advice = advise(stats, report.rows, data_wait_share);
  return report;
}

LedgerReport report_ledger(const LedgerEntry& total) {
  LedgerReport report;
  const auto wall = static_cast<double>(total.wall_ns);
  for (int i = 0; i < kSpanCount; ++i) {
    const auto ns = static_cast<double>(total.span_ns[static_cast<size_t>(i)]);
    if (ns <= 0) continue;
    report.rows.push_back({std::string(span_name(static_cast<Span>(i))), ns / kSecond, ratio(ns, wall)});
  }
  std::stable_sort(report.rows.begin(), report.rows.end(),
                   [](const LedgerRow& a, const LedgerRow& b) { return a.seconds > b.seconds; });
  report.wall_seconds = wall / kSecond;
  report.unaccounted_seconds = static_cast<double>(total.unaccounted_ns()) / kSecond;
  report.unaccounted_share = ratio(static_cast<double>(total.unaccounted_ns()), wall);
  const auto span_ns = [&](Span span) {
    return static_cast<double>(total.span_ns[static_cast<size_t>(span)]);
  };
  report.data_wait_share = ratio(span_ns(Span::kDataDecode) + span_ns(Span::kDataIdle), wall);
  return report;
}

Json to_json(const LedgerReport& ledger, const StageReport& stages, int64_t steps) {
  Json spans = Json::object();
  for (const LedgerRow& row : ledger.rows) {
    spans.set(row.name, Json::object({{"seconds", row.seconds}, {"share", row.share}}));
  }
  Json rows = Json::array();
  for (const StageRow& row : stages.rows) {
    rows.push_back(Json::object({{"name", row.name},
                                 {"items", row.items},
                                 {"alone_img_s", row.alone_img_s},
                                 {"busy_share", row.busy_share},
                                 {"wait_share", row.wait_share}}));
  }
  return Json::object({{"steps", steps},
                       {"wall_seconds", ledger.wall_seconds},
                       {"spans", std::move(spans)},
                       {"unaccounted_seconds", ledger.unaccounted_seconds},
                       {"unaccounted_share", ledger.unaccounted_share},
                       {"adds_up", ledger.adds_up()},
                       {"data_wait_share", ledger.data_wait_share},
                       {"stages", std::move(rows)},
                       {"advice", stages.advice}});
}

}  // namespace dlpipe::run
