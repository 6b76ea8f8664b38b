#include "dlpipe/run/record/stage_report.h"

#include <algorithm>
#include <cmath>

#include "dlpipe/base/text.h"
#include "dlpipe/pipeline/plan/stage_counters.h"

namespace dlpipe::run {

std::string percent(double share) {
  return fixed(100 * share, 1) + " %";
}

namespace {

using formats::Json;

constexpr double kSecond = 1e9;

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

// What all stages together could give if they had the threads to themselves and waited for nothing.
double pipeline_rate(const SourceStats& stats) {
  double busy_s_per_item = 0;
  for (const StageStats& stage : stats.stages) {
    if (stage.items > 0) {
      busy_s_per_item +=
          static_cast<double>(stage.busy_ns) / kSecond / static_cast<double>(stage.items) / stage.threads;
    }
  }
  return ratio(1, busy_s_per_item);
}

// Work that took less in all than the clock's own cost gives no rate.
constexpr int64_t kMeasurable_ns = 1'000'000;

int64_t busy_ns(const SourceStats& stats) {
  int64_t sum = 0;
  for (const StageStats& stage : stats.stages) sum += stage.busy_ns;
  return sum;
}

}  // namespace

Judgement judge_speed(const SourceStats& stats, double data_wait_share, double samples_per_s) {
  const StageStats* busiest = nullptr;
  double most = 0;
  for (const StageStats& stage : stats.stages) {
    const double busy = ratio(static_cast<double>(stage.busy_ns), stage.threads);
    if (stage.items == 0 || busy <= most) continue;
    most = busy;
    busiest = &stage;
  }
  if (busiest == nullptr) return {"", "Nothing was measured."};
  std::string stage = busiest->name;
  for (const StageStats& one : stats.stages) {
    if (one.name == stats.bottleneck) stage = one.name;
  }
  if (data_wait_share < 0)
    return {stage, concat("Speed up the ", stage, ": it is the stage that limits the pipeline.")};
  const auto rate = [](double value) { return human_count(std::llround(value)) + " samples/s"; };
  const std::string waited = concat("training waited for data ", percent(data_wait_share), " of the time");
  // A pipeline that could give several times what training takes is not what limits it, whoever waits for
  // whom: the wait comes from sharing the cores. A training that waits most of the time hardly uses them, so a
  // faster model would not free them.
  constexpr double kPlenty = 3;
  constexpr double kMost = 0.5;
  const bool has_worked = busy_ns(stats) >= kMeasurable_ns;
  const double possible = pipeline_rate(stats);
  const bool has_plenty = !has_worked || possible > kPlenty * samples_per_s;
  const std::string alone =
      has_worked ? concat(waited, ", and the pipeline alone could give ", rate(possible)) : waited;
  if (has_plenty && data_wait_share > kMost) {
    return {"cores", concat("Give the pipeline's threads more of the CPU: ", alone, ", where it gave ",
                            rate(samples_per_s),
                            "; other programs, a limit on cores or training's own threads had the CPU.")};
  }
  if (has_plenty || data_wait_share < kNegligibleWait) {
    return {"model", concat("Speed up the model: ", alone,
                            has_worked ? concat(", most of its work in the ", busiest->name) : "", ".")};
  }
  return {stage, concat("Speed up the ", stage, ": ", waited, ", and this stage limits it.")};
}

void weigh_training(const LedgerEntry& run, StageReport& report) {
  if (run.training_ns() < kShortestJudged_ns) {
    report.limit = report.advice = "";
    return;
  }
  if (run.training_ns() >= run.wall_ns / 2) return;
  Span longest = Span::kStart;
  for (const Span span : {Span::kKernelSearch, Span::kValidation, Span::kCheckpoint}) {
    if (run.span_ns[static_cast<size_t>(span)] > run.span_ns[static_cast<size_t>(longest)]) longest = span;
  }
  const auto share = [&](int64_t ns) {
    return percent(static_cast<double>(ns) / static_cast<double>(run.wall_ns));
  };
  report.limit = span_name(longest);
  report.advice = concat("Training took ", share(run.training_ns()), " of the run, and ", span_name(longest),
                         " ", share(run.span_ns[static_cast<size_t>(longest)]), ".");
}

StageReport report_stages(const SourceStats& stats, double data_wait_share, int64_t training_ns) {
  StageReport report;
  for (const StageStats& stage : stats.stages) {
    const auto busy = static_cast<double>(stage.busy_ns);
    const double waiting =
        static_cast<double>(stage.wait_input_ns) + static_cast<double>(stage.wait_output_ns);
    const double thread_ns = static_cast<double>(stats.wall_ns) * stage.threads;
    StageRow row;
    row.name = stage.name;
    row.items = stage.items;
    if (stage.busy_ns >= kMeasurable_ns)
      row.alone_samples_per_s = ratio(static_cast<double>(stage.items) * stage.threads, busy / kSecond);
    row.busy_share = ratio(busy, thread_ns);
    row.wait_share = ratio(waiting, thread_ns);
    report.rows.push_back(std::move(row));
  }
  const auto taken_ns = static_cast<double>(training_ns > 0 ? training_ns : stats.wall_ns);
  report.samples_per_s = ratio(static_cast<double>(stats.samples), taken_ns / kSecond);
  const Judgement judgement = judge_speed(stats, data_wait_share, report.samples_per_s);
  report.limit = judgement.limit;
  report.advice = judgement.advice;
  report.cache = stats.cache;
  return report;
}

std::string cache_text(const CacheStats& cache) {
  if (cache.directory.empty()) return {};
  std::string text =
      concat(human_count(cache.taken), cache.taken == 1 ? " sample" : " samples",
             " came from the coefficient cache, which holds ", human_count(cache.records), " of ",
             human_count(cache.samples), " pictures in ", human_bytes(static_cast<uint64_t>(cache.bytes)),
             cache.is_full ? " and is full" : "");
  if (cache.unfit > 0) text += concat("; ", human_count(cache.unfit), " could not be taken into it");
  if (cache.withdrawn > 0)
    text += concat("; ", human_count(cache.withdrawn),
                   " of its records were damaged, or their files had changed");
  return text + ".";
}

double StageReport::Communication::hidden_share() const {
  return std::clamp(1 - ratio(waited_seconds, busy_seconds), 0.0, 1.0);
}

void add_communication(const engine::CollectiveStats& collective, const LedgerEntry& total, int64_t samples,
                       StageReport& report) {
  const double busy_s = static_cast<double>(collective.busy_ns) / kSecond;
  const double wall_s = static_cast<double>(total.wall_ns) / kSecond;
  const double waited_s =
      static_cast<double>(total.span_ns[static_cast<size_t>(Span::kCollective)]) / kSecond;
  report.communication = {busy_s, waited_s, collective.bytes_sent};
  StageRow row;
  row.name = "collective";
  row.items = samples;
  row.alone_samples_per_s = ratio(static_cast<double>(samples), busy_s);
  row.busy_share = ratio(busy_s, wall_s);
  row.wait_share = 1 - std::min(1.0, row.busy_share);
  report.rows.push_back(std::move(row));
}

double cores_for(const SourceStats& stats, double samples_per_s) {
  double busy_s = 0;  // of one sample, on one core; the prefault thread's is waiting for storage
  for (const StageStats& stage : stats.stages) {
    if (stage.items > 0 && stage.threads > 0 && stage.name != stage_name(pipeline::Stage::kPrefault))
      busy_s += static_cast<double>(stage.busy_ns) / kSecond / static_cast<double>(stage.items);
  }
  return busy_s * samples_per_s;
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
  report.data_wait_share =
      ratio(span_ns(Span::kDataDecode) + span_ns(Span::kDataIdle), static_cast<double>(total.training_ns()));
  return report;
}

static Json spans_json(const LedgerReport& ledger) {
  Json spans = Json::object();
  for (const LedgerRow& row : ledger.rows) {
    spans.set(row.name, Json::object({{"seconds", row.seconds}, {"share", row.share}}));
  }
  return spans;
}

Json to_json(const DeviceTimes& device) {
  const LedgerReport ledger = report_ledger(device.entry);
  return Json::object({{"steps", device.steps},
                       {"wall_seconds", ledger.wall_seconds},
                       {"spans", spans_json(ledger)},
                       {"unaccounted_seconds", ledger.unaccounted_seconds},
                       {"adds_up", ledger.adds_up()},
                       {"waited_seconds", device.waited_s()},
                       {"worked_seconds", device.worked_s()}});
}

Json to_json(const LedgerReport& ledger, const StageReport& stages, const DeviceTimes& device,
             int64_t steps) {
  Json rows = Json::array();
  for (const StageRow& row : stages.rows) {
    rows.push_back(Json::object({{"name", row.name},
                                 {"items", row.items},
                                 {"alone_samples_per_s", row.alone_samples_per_s},
                                 {"busy_share", row.busy_share},
                                 {"wait_share", row.wait_share}}));
  }
  Json json = Json::object({{"steps", steps},
                            {"wall_seconds", ledger.wall_seconds},
                            {"spans", spans_json(ledger)},
                            {"unaccounted_seconds", ledger.unaccounted_seconds},
                            {"unaccounted_share", ledger.unaccounted_share},
                            {"adds_up", ledger.adds_up()},
                            {"data_wait_share", ledger.data_wait_share},
                            {"stages", std::move(rows)},
                            {"limit", stages.limit},
                            {"advice", stages.advice},
                            {"communication", Json()},
                            {"cache", Json()},
                            {"device", device.steps > 0 ? to_json(device) : Json()}});
  if (stages.communication) {
    const StageReport::Communication& c = *stages.communication;
    json.set("communication", Json::object({{"busy_seconds", c.busy_seconds},
                                            {"waited_seconds", c.waited_seconds},
                                            {"hidden_share", c.hidden_share()},
                                            {"bytes_sent", c.bytes_sent}}));
  }
  if (const CacheStats& cache = stages.cache; !cache.directory.empty()) {
    json.set("cache", Json::object({{"taken", cache.taken},
                                    {"records", cache.records},
                                    {"samples", cache.samples},
                                    {"bytes", cache.bytes},
                                    {"unfit", cache.unfit},
                                    {"withdrawn", cache.withdrawn},
                                    {"busy_seconds", static_cast<double>(cache.busy_ns) / kSecond},
                                    {"full", cache.is_full}}));
  }
  return json;
}

}  // namespace dlpipe::run
