#include "dlpipe/run/train/outcome_json.h"

#include <utility>

#include "dlpipe/run/record/stage_report.h"

namespace dlpipe::run {

using formats::Json;

bool is_learnt(const TrainOutcome& outcome) {
  constexpr double kLearnt = 0.1;
  return outcome.loss <= kLearnt * outcome.first_loss;
}

static Json validation_json(const TrainOutcome& outcome) {
  if (!outcome.last_validation) return {};
  const EvalReport& result = outcome.last_validation->result;
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
  const StageReport stages = outcome.stages();
  Json json = Json::object(
      {{"run", config.out},
       {"steps", outcome.steps},
       {"samples", outcome.samples},
       {"seconds", outcome.seconds},
       {"samples_per_s", static_cast<double>(outcome.samples) / outcome.seconds},
       {"wall_seconds", static_cast<double>(outcome.ledger.wall_ns) * 1e-9},
       {"loss", Json()},
       {"validation", validation_json(outcome)},
       {"best", Json()},
       {"best_step", Json()},
       {"bad_samples", outcome.stats.substituted},
       {"stopped", outcome.stopped},
       {"warnings", std::move(warned)},
       {"ledger", to_json(report_ledger(outcome.ledger), stages, outcome.device, outcome.steps)}});
  if (outcome.samples > 0) json.set("loss", outcome.loss);  // else no step has one
  if (outcome.best_step >= 0) json.set("best", outcome.best).set("best_step", outcome.best_step);
  return json;
}

}  // namespace dlpipe::run
