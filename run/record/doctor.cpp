#include "dlpipe/run/record/doctor.h"

#include <algorithm>
#include <cmath>

#include "dlpipe/base/dtype.h"
#include "dlpipe/base/ledger.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/shortest_decimal.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/image_layout.h"
#include "dlpipe/pipeline/plan/stage_counters.h"
#include "dlpipe/run/config/enumerated.h"
#include "dlpipe/run/record/stage_report.h"

namespace dlpipe::run {

namespace {

using formats::Json;
using pipeline::Stage;

double number(const Json& json) {
  return json.is_number() ? json.as_double() : 0;
}

/// As an option's value: "10min".
std::string duration_text(double seconds) {
  constexpr double kMinute = 60;
  if (std::fmod(seconds, kMinute) != 0) return shortest_decimal(seconds) + "s";
  return shortest_decimal(seconds / kMinute) + "min";
}

/// Reads one run; each question adds a finding or nothing.
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
                 "; `dlpipe train --resume ", shell_word(facts_.run), "` goes on with it");
    if (const std::string text = cache(); !text.empty())
      diagnosis.verdict += concat(diagnosis.verdict.ends_with('.') ? " " : ". ", text);
    std::stable_sort(findings_.begin(), findings_.end(),
                     [](const Finding& a, const Finding& b) { return a.share > b.share; });
    diagnosis.findings = std::move(findings_);
    return diagnosis;
  }

 private:
  std::string trainer() const { return has_device_ ? "the device" : "training"; }
  /// Not in a run that trained too little (kShortestJudged_ns).
  bool is_judged() const { return !(ledger_["limit"].is_string() && ledger_["limit"].as_string().empty()); }
  bool has_graph_off() const { return config_.graph == name_of(kGraphNames, GraphUse::kOff); }
  double span_share(Span span) const { return number(ledger_["spans"][span_name(span)]["share"]); }
  double device_share(Span span) const {
    return number(ledger_["device"]["spans"][span_name(span)]["share"]);
  }

  /// As a word of a command.
  std::string data() const { return config_.data.empty() ? "DATA" : shell_word(config_.data); }

  /// The pipeline's stage whose threads were busiest. The row "collective" of several processes is none of them.
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

  /// Of a run that is still going, or was killed, up to where.
  std::string condition() const {
    if (ledger_["finished"].as_bool(true)) return {};
    return concat("up to step ", human_count(ledger_["steps"].as_int()),
                  facts_.is_training ? ", as the run is still going: "
                                     : ", as the run was killed or failed (--resume goes on with it): ");
  }

  /// As the run's tables said at its end, where they did.
  std::string verdict() const {
    const Json& limit = ledger_["limit"];
    if (!is_judged()) return "training took too little time to say what limits it, the model or the data";
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

  /// What the coefficient cache did, where there was one, behind a verdict.
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
          {"the pipeline alone could give several times what it gave: its threads didn't get the CPU",
           "look for other programs (top) and a limit on cores (nproc), or give the run more cores",
           wait_share_});
      return;
    }
    if (!has_device_ && ledger_["limit"].as_string() == "model") {
      findings_.push_back(
          {"the pipeline alone could give several times what training took: the two share the cores",
           "speed up the model, or give the run more cores", wait_share_});
      return;
    }
    const std::string stage = busiest_stage();
    std::string advice = "give the pipeline more threads (--threads), or smaller crops";
    const bool is_whole_jpeg = facts_.dataset_layout == image_layout_name(data::ImageLayout::kJpeg) ||
                               facts_.dataset_layout == image_layout_name(data::ImageLayout::kRestart);
    if (stage == stage_name(Stage::kDecoder) && is_whole_jpeg)
      advice = concat("the data set's images are in layout ", facts_.dataset_layout,
                      "; crops of what `dlpipe ingest SRC DST --jpeg coefficients` makes are decoded several "
                      "times as fast");
    if (stage == stage_name(Stage::kPrefault) || stage == stage_name(Stage::kReader))
      advice = concat("storage is slow: `dlpipe bench storage ", data(),
                      "` says how slow; a faster disk, or more memory for its cache");
    if (stage == stage_name(Stage::kAugmenter))
      advice = concat("`dlpipe bench pipeline ", data(), " --augment ", shell_word(config_.augment),
                      " --batch ", config_.batch, "`, and with fewer augmentations, says which one costs");
    findings_.push_back({concat("most of the pipeline's work is in the ", stage), advice, wait_share_});
  }

  void look_at_copies() {
    if (copy_share_ < kNegligibleWait) return;
    findings_.push_back(
        {concat("the device waited ", percent(copy_share_), " of its time for copies of batches to it"),
         "`dlpipe bench h2d --device cuda` says what the link gives; smaller crops need less of it",
         copy_share_});
  }

  void look_at_launches() {
    if (gap_share_ < kNegligibleWait) return;
    findings_.push_back({concat("the device waited ", percent(gap_share_),
                                " of its time for the host to ask for the next step"),
                         has_graph_off()
                             ? "leave --graph at auto: a step is one launch then"
                             : "leave the training thread a core (fewer --threads); a larger --batch has "
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

  /// So many times as long; "" where it didn't come round in the run: what was done was done at the end or for another reason.
  std::string longer_interval(const std::string& text, double times) const {
    const Result<Interval> interval = parse_interval(text, "");
    if (!interval.ok()) return "";
    const double amount = times * interval->amount;
    switch (interval->unit) {
      case Interval::Unit::kNever:
        return "";
      case Interval::Unit::kSteps:
        return interval->amount < number(ledger_["steps"]) ? shortest_decimal(amount) + "steps" : "";
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
          {concat(facts_.quarantined_samples,
                  facts_.quarantined_samples == 1 ? " sample was" : " samples were", " bad and replaced"),
           concat("quarantine.txt in the run directory names them; `dlpipe verify ", data(),
                  " --decode` finds all"),
           0});
  }

  const Json& ledger_;
  const TrainConfig& config_;
  const MachineFacts& facts_;
  bool has_device_ = false;
  double wait_share_ = 0;  // for data
  double copy_share_ = 0;  // of a device, for what is copied to it
  double gap_share_ = 0;   // of a device, for the host
  std::vector<Finding> findings_;
};

}  // namespace

Result<Diagnosis> diagnose(const Json& ledger, const TrainConfig& config, const MachineFacts& facts) {
  if (!ledger["wall_seconds"].is_number() || !ledger["stages"].is_array())
    return Status(ErrorCode::kCorrupt,
                  "[doctor] ledger.json has no times; it isn't one that `dlpipe train` wrote");
  return Doctor(ledger, config, facts).examine();
}

}  // namespace dlpipe::run
