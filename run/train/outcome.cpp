#include "run/train/outcome.h"
#include "dlpipe/session.h"

#include <utility>

#include "io/formats/atomic_file.h"
#include "run/record/report.h"

namespace dlpipe::run {

using formats::Json;

double host_wait_share(const LedgerEntry& entry) {
  const auto span_ns = [&](Span span) { return entry.span_ns[static_cast<size_t>(span)]; };
  const int64_t data_ns = span_ns(Span::kDataDecode) + span_ns(Span::kDataIdle);
  const int64_t all_ns = entry.training_ns();
  return all_ns > 0 ? static_cast<double>(data_ns) / static_cast<double>(all_ns) : 0;
}

double TrainOutcome::data_wait_share() const {
  if (device.steps > 0) return device.wait_share();
  return host_wait_share(ledger);
}

StageReport TrainOutcome::stages() const {
  StageReport report = report_stages(stats, data_wait_share(), ledger.training_ns());
  weigh_training(ledger, report);
  if (collective.operations > 0) add_communication(collective, ledger, samples, report);
  return report;
}

static Json ledger_json(const TrainOutcome& outcome) {
  return to_json(report_ledger(outcome.ledger), outcome.stages(), outcome.device, outcome.steps,
                 outcome.steps - outcome.first_step);
}

Status write_ledger(const RunDirectory& directory, const TrainOutcome& outcome, bool is_over) {
  Json json = ledger_json(outcome);
  json.set("finished", is_over);
  if (outcome.stopped) json.set("stopped", true);
  return formats::write_json(directory.ledger_file(), json);
}

bool is_learnt(const TrainOutcome& outcome) {
  constexpr double kLearnt = 0.1;
  return outcome.loss <= kLearnt * outcome.first_loss;
}

static Json validation_json(const EvalReport& result) {
  Json metrics = Json::object();
  for (const auto& [name, value] : result.metrics) metrics.set(name, value);
  return Json::object({{"samples", result.samples}, {"loss", result.loss}, {"metrics", std::move(metrics)}});
}

static Json overfit_json(const TrainOutcome& outcome, Json warnings) {
  return Json::object({{"steps", outcome.steps},
                       {"first_loss", outcome.first_loss},
                       {"loss", outcome.loss},
                       {"learnt", is_learnt(outcome)},
                       {"warnings", std::move(warnings)}});
}

Json outcome_json(const TrainOutcome& outcome, const TrainConfig& config,
                  const std::vector<std::string>& warnings) {
  Json warned = Json(Json::Array(warnings.begin(), warnings.end()));
  if (config.overfit_batch > 0 && !outcome.stopped) return overfit_json(outcome, std::move(warned));
  // If this session trained no step because the run was finished, loss and validation are those of an earlier session.
  const LoggedEnd before = outcome.samples == 0 && !config.out.empty() ? logged_end(config.out) : LoggedEnd();
  Json json = Json::object({{"run", config.out},
                            {"steps", outcome.steps},
                            {"samples", outcome.samples},
                            {"seconds", outcome.seconds},
                            {"samples_per_s", static_cast<double>(outcome.samples) / outcome.seconds},
                            {"wall_seconds", static_cast<double>(outcome.ledger.wall_ns) * 1e-9},
                            {"loss", Json()},
                            {"validation", Json()},
                            {"best", Json()},
                            {"best_step", Json()},
                            {"bad_samples", outcome.stats.substituted},
                            {"stopped", outcome.stopped},
                            {"warnings", std::move(warned)},
                            {"ledger", ledger_json(outcome)}});
  if (outcome.samples > 0) json.set("loss", outcome.loss);
  if (before.loss) json.set("loss", *before.loss);
  if (outcome.last_validation)
    json.set("validation", validation_json(outcome.last_validation->result));
  else if (before.validation)
    json.set("validation", validation_json(*before.validation));
  if (outcome.best_step >= 0) json.set("best", outcome.best).set("best_step", outcome.best_step);
  return json;
}

}  // namespace dlpipe::run
