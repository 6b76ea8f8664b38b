#include "run/record/report.h"

#include <algorithm>
#include <cmath>

#include "base/counters.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/codec.h"
#include "dlpipe/dtype.h"
#include "pipeline/plan/stage_counters.h"
#include "run/config/config.h"
#include "run/config/values.h"

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

// The rate of all stages together if their threads were not used by anything else and never waited.
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

// Work that took less than the clock's own cost has no measurable rate.
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
  if (data_wait_share < 0) return {stage, concat("Speed up the ", stage, ": it limits the pipeline.")};
  const auto rate = [](double value) { return human_count(std::llround(value)) + " samples/s"; };
  const std::string waited = concat("training waited for data ", percent(data_wait_share), " of the time");
  // A pipeline that could deliver several times what training uses is not the bottleneck, even if training waits: the wait
  // comes from sharing the cores. A training that waits most of the time hardly uses them, so a faster model would not free
  // them.
  constexpr double kPlenty = 3;
  constexpr double kMost = 0.5;
  const bool has_worked = busy_ns(stats) >= kMeasurable_ns;
  const double possible = pipeline_rate(stats);
  const bool has_plenty = !has_worked || possible > kPlenty * samples_per_s;
  const std::string alone =
      has_worked ? concat(waited, ", and the pipeline alone could deliver ", rate(possible)) : waited;
  if (has_plenty && data_wait_share > kMost) {
    return {"cores", concat("Give the pipeline's threads more CPU time: ", alone, ", but it delivered ",
                            rate(samples_per_s),
                            "; other programs, a limit on cores or training's own threads used the CPU.")};
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
      concat(counted(cache.taken, "sample"), " came from the coefficient cache, which holds ",
             human_count(cache.records), " of ", counted(cache.samples, "image"), " in ",
             human_bytes(static_cast<uint64_t>(cache.bytes)), cache.is_full ? " and is full" : "");
  if (cache.unfit > 0) text += concat("; ", human_count(cache.unfit), " could not be stored in it");
  if (cache.withdrawn > 0)
    text += concat("; ", human_count(cache.withdrawn),
                   " of its records were corrupt, or their files had changed");
  return text + ".";
}

double StageReport::Communication::hidden_share() const {
  return std::clamp(1 - ratio(waited_seconds, busy_seconds), 0.0, 1.0);
}

void add_communication(const CollectiveStats& collective, const LedgerEntry& total, int64_t samples,
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
  double busy_s = 0;  // of one sample, on one core; without the prefault thread, which waits for storage
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

Json to_json(const LedgerReport& ledger, const StageReport& stages, const DeviceTimes& device, int64_t steps,
             int64_t session_steps) {
  Json rows = Json::array();
  for (const StageRow& row : stages.rows) {
    rows.push_back(Json::object({{"name", row.name},
                                 {"items", row.items},
                                 {"alone_samples_per_s", row.alone_samples_per_s},
                                 {"busy_share", row.busy_share},
                                 {"wait_share", row.wait_share}}));
  }
  Json json = Json::object({{"steps", steps},
                            {"session_steps", session_steps},
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

namespace {

using pipeline::Stage;

double number(const Json& json) {
  return json.is_number() ? json.as_double() : 0;
}

/// Formatted as an option's value: "10min".
std::string duration_text(double seconds) {
  constexpr double kMinute = 60;
  if (std::fmod(seconds, kMinute) != 0) return shortest_decimal(seconds) + "s";
  return shortest_decimal(seconds / kMinute) + "min";
}

/// Examines one run. The look_at functions add findings.
class Doctor {
 public:
  Doctor(const Json& ledger, const TrainConfig& config, const MachineFacts& facts)
      : ledger_(ledger), config_(config), facts_(facts) {
    has_device_ = number(ledger["device"]["wall_seconds"]) > 0;
    wait_share_ = has_device_ ? device_share(Span::kDataIdle) : number(ledger["data_wait_share"]);
    copy_share_ = has_device_ ? device_share(Span::kHostToDevice) : 0;
    gap_share_ = has_device_ ? device_share(Span::kLaunchGap) : 0;
  }

  Diagnosis examine() {
    if (is_judged()) {
      look_at_data();
      look_at_copies();
      look_at_launches();
      look_at_pauses();
      look_at_arithmetic();
    }
    look_at_the_rest();
    Diagnosis diagnosis;
    diagnosis.verdict = condition() + verdict();
    if (ledger_["stopped"].as_bool(false) && !facts_.is_training)
      diagnosis.verdict +=
          concat(". The run was stopped by a signal at step ", human_count(ledger_["steps"].as_int()),
                 "; `dlpipe train --resume ", shell_word(facts_.run), "` resumes it");
    if (const std::string text = cache(); !text.empty())
      diagnosis.verdict += concat(diagnosis.verdict.ends_with('.') ? " " : ". ", text);
    std::stable_sort(findings_.begin(), findings_.end(),
                     [](const Finding& a, const Finding& b) { return a.share > b.share; });
    diagnosis.findings = std::move(findings_);
    return diagnosis;
  }

 private:
  std::string trainer() const { return has_device_ ? "the device" : "training"; }
  /// False for a run that trained too little (kShortestJudged_ns).
  bool is_judged() const { return !(ledger_["limit"].is_string() && ledger_["limit"].as_string().empty()); }
  bool has_graph_off() const { return config_.graph == name_of(kGraphNames, GraphUse::kOff); }
  double span_share(Span span) const { return number(ledger_["spans"][span_name(span)]["share"]); }
  double device_share(Span span) const {
    return number(ledger_["device"]["spans"][span_name(span)]["share"]);
  }

  /// Formatted as a word of a command.
  std::string data() const { return config_.data.empty() ? "DATA" : shell_word(config_.data); }

  /// The stage of the pipeline with the busiest threads. The row "collective" of several processes is not such a stage.
  std::string busiest_stage() const {
    std::string name;
    double most = 0;
    for (const Json& stage : ledger_["stages"].items()) {
      const bool is_of_pipeline = stage["name"].as_string() != "collective";
      if (!is_of_pipeline || number(stage["busy_share"]) <= most) continue;
      most = number(stage["busy_share"]);
      name = stage["name"].as_string();
    }
    return name;
  }

  /// For a run in progress, or one that was killed: the step up to which the verdict holds.
  std::string condition() const {
    if (ledger_["finished"].as_bool(true)) return {};
    return concat("up to step ", human_count(ledger_["steps"].as_int()),
                  facts_.is_training ? ", because the run is still in progress: "
                                     : ", because the run was killed or failed (--resume continues it): ");
  }

  /// The same verdict as in the tables at the run's end, if there were any.
  std::string verdict() const {
    const Json& limit = ledger_["limit"];
    if (!is_judged()) return "training was too short to say whether the model or the data limits it";
    if (std::ranges::find(kSpanNames, limit.as_string()) != kSpanNames.end()) {
      return concat("training was not most of the run: ", limit.as_string(), " took ",
                    percent(number(ledger_["spans"][limit.as_string()]["share"])));
    }
    if (wait_share_ < std::max(copy_share_, gap_share_) &&
        wait_share_ + copy_share_ + gap_share_ >= kNegligibleWait) {
      return concat("the device waited ", percent(wait_share_ + copy_share_ + gap_share_),
                    " of its time: for data ", percent(wait_share_), ", for copies to it ",
                    percent(copy_share_), ", for the host to ask for the next step ", percent(gap_share_));
    }
    if (wait_share_ >= kNegligibleWait)
      return concat(trainer(), " waited for data ", percent(wait_share_), " of its time");
    return concat(trainer(), " hardly waited for data (", percent(wait_share_), "): the model is the limit");
  }

  /// What the coefficient cache did, if there was one; it follows the verdict.
  std::string cache() const {
    const Json& stats = ledger_["cache"];
    if (!stats.is_object()) return {};
    const auto count = [&](const char* name) { return std::llround(number(stats[name])); };
    return cache_text({.directory = "cache",
                       .samples = count("samples"),
                       .records = count("records"),
                       .bytes = count("bytes"),
                       .taken = count("taken"),
                       .unfit = count("unfit"),
                       .withdrawn = count("withdrawn"),
                       .is_full = stats["full"].as_bool()});
  }

  void look_at_data() {
    if (wait_share_ < kNegligibleWait) return;
    if (ledger_["limit"].as_string() == "cores") {
      findings_.push_back(
          {"the pipeline alone could deliver several times as much: its threads did not get enough CPU time",
           "check for other programs (top) and a limit on cores (nproc), or give the run more cores",
           wait_share_});
      return;
    }
    if (!has_device_ && ledger_["limit"].as_string() == "model") {
      findings_.push_back(
          {"the pipeline alone could deliver several times what training used: the two share the cores",
           "speed up the model, or give the run more cores", wait_share_});
      return;
    }
    const std::string stage = busiest_stage();
    std::string advice = "give the pipeline more threads (--threads), or use smaller crops";
    const bool is_whole_jpeg = facts_.dataset_layout == image_layout_name(data::ImageLayout::kJpeg) ||
                               facts_.dataset_layout == image_layout_name(data::ImageLayout::kRestart);
    if (stage == stage_name(Stage::kDecoder) && is_whole_jpeg)
      advice = concat("the dataset's images are in layout ", facts_.dataset_layout,
                      "; with `dlpipe ingest SRC DST --jpeg coefficients`, crops are decoded several "
                      "times as fast");
    if (stage == stage_name(Stage::kPrefault) || stage == stage_name(Stage::kReader))
      advice = concat("storage is slow: `dlpipe bench storage ", data(),
                      "` measures it; use a faster disk, or more memory for its cache");
    if (stage == stage_name(Stage::kAugmenter))
      advice =
          concat("`dlpipe bench pipeline ", data(), " --augment ", shell_text(config_.augment), " --batch ",
                 config_.batch, "`, also with fewer augmentations, shows which one is slow");
    findings_.push_back({concat("most of the pipeline's work is in the ", stage), advice, wait_share_});
  }

  void look_at_copies() {
    if (copy_share_ < kNegligibleWait) return;
    findings_.push_back(
        {concat("the device waited ", percent(copy_share_), " of its time for copies of batches to it"),
         "`dlpipe bench h2d --device cuda` measures the link; smaller crops need less of it", copy_share_});
  }

  void look_at_launches() {
    if (gap_share_ < kNegligibleWait) return;
    findings_.push_back(
        {concat("the device waited ", percent(gap_share_),
                " of its time for the host to ask for the next step"),
         has_graph_off() ? "leave --graph at auto, so that a step is one launch"
                         : "leave a core for the training thread (fewer --threads); a larger --batch means "
                           "fewer steps",
         gap_share_});
  }

  void look_at_pauses() {
    constexpr double kMuch = 0.1;
    const auto look_at = [&](Span span, const std::string& interval, const char* what,
                             const std::string& advice) {
      const double share = span_share(span);
      if (share <= kMuch) return;
      const std::string longer = longer_interval(interval, std::ceil(share / kMuch));
      if (!longer.empty()) findings_.push_back({concat(what, percent(share)), advice + longer, share});
    };
    look_at(Span::kValidation, config_.val_every, "validation took ", "validate less often: --val-every ");
    look_at(Span::kCheckpoint, config_.checkpoint_every, "saving checkpoints took ",
            "save less often: --checkpoint-every ");
  }

  /// The interval times a factor; "" if it was never due in the run, so that the work was done at the end or for another
  /// reason.
  std::string longer_interval(const std::string& text, double times) const {
    const Result<Interval> interval = parse_interval(text, "");
    if (!interval.ok()) return "";
    const double amount = times * interval->amount;
    switch (interval->unit) {
      case Interval::Unit::kNever:
        return "";
      case Interval::Unit::kSteps:
        return interval->amount <
                       number(ledger_[ledger_["session_steps"].is_number() ? "session_steps" : "steps"])
                   ? shortest_decimal(amount) + "steps"
                   : "";
      case Interval::Unit::kEpochs:
        return interval->amount < config_.epochs ? shortest_decimal(amount) + "epochs" : "";
      case Interval::Unit::kSeconds:
        return interval->amount < number(ledger_["wall_seconds"]) ? duration_text(amount) : "";
    }
    return "";
  }

  void look_at_arithmetic() {
    const double share = span_share(Span::kForward) + span_share(Span::kBackward);
    constexpr double kHalf = 0.5;
    if (!has_device_ && share < kHalf) return;
    if (config_.dtype == dtype_name(DType::kF32) && (has_device_ || facts_.has_bf16)) {
      findings_.push_back({concat("forward and backward ran in f32, ",
                                  has_device_ ? "on the device" : percent(share) + " of the time"),
                           "try --dtype bf16, and compare the accuracy",
                           has_device_ ? 1 - wait_share_ - copy_share_ - gap_share_ : share});
    }
    if (has_device_ && has_graph_off())
      findings_.push_back({"steps were launched kernel by kernel (--graph off)", "leave --graph at auto", 0});
  }

  void look_at_the_rest() {
    const double unaccounted = number(ledger_["unaccounted_share"]);
    if (unaccounted >= LedgerReport::kMaxUnaccounted &&
        number(ledger_["wall_seconds"]) >= LedgerReport::kShortSeconds)
      findings_.push_back({concat(percent(unaccounted), " of the time is unaccounted for"),
                           "please report it: the ledger should add up", unaccounted});
    if (facts_.quarantined_samples > 0)
      findings_.push_back(
          {concat(counted(facts_.quarantined_samples, "sample was", "samples were"), " bad and replaced"),
           concat("quarantine.txt in the run directory lists them; `dlpipe verify ", data(),
                  " --decode` finds all"),
           0});
  }

  const Json& ledger_;
  const TrainConfig& config_;
  const MachineFacts& facts_;
  bool has_device_ = false;
  double wait_share_ = 0;  // for data
  double copy_share_ = 0;  // of a device, for copies to it
  double gap_share_ = 0;   // of a device, for the host
  std::vector<Finding> findings_;
};

}  // namespace

Result<Diagnosis> diagnose(const Json& ledger, const TrainConfig& config, const MachineFacts& facts) {
  if (!ledger["wall_seconds"].is_number() || !ledger["stages"].is_array())
    return Status(ErrorCode::kCorrupt, "[doctor] ledger.json has no times; `dlpipe train` did not write it");
  return Doctor(ledger, config, facts).examine();
}

}  // namespace dlpipe::run
