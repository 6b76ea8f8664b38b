#include "dlpipe/run/use/answers_json.h"

#include <utility>

namespace dlpipe::run {

using formats::Json;

Json to_json(const Evaluation& evaluation) {
  const EvalReport& report = evaluation.report;
  const ModelState& state = evaluation.model.state;
  Json json = Json::object({{"checkpoint", evaluation.model.path},
                            {"model", state.model},
                            {"data", evaluation.data},
                            {"step", evaluation.model.step < 0 ? Json() : Json(evaluation.model.step)},
                            {"val_augment", state.val_augment},
                            {"tta", state.tta},
                            {"samples", report.samples},
                            {"subset", evaluation.subset},
                            {"dropped", report.dropped},
                            {"loss", report.loss}});
  Json metrics = Json::object();
  for (const auto& [name, value] : report.metrics) metrics.set(name, value);
  json.set("metrics", std::move(metrics));
  json.set("samples_per_s", static_cast<double>(report.samples) / report.seconds);
  json.set("report", Json());
  if (evaluation.classes) json.set("report", evaluation.classes->to_json(state.classes));
  return json;
}

Json to_json(const SampleAnswer& answer, const std::vector<std::string>& classes) {
  Json top = Json::array();
  for (size_t i = 0; i < answer.top.size(); ++i) {
    top.push_back(
        Json::object({{"class", classes[answer.top[i]]}, {"probability", answer.probabilities[i]}}));
  }
  const bool is_decided = !answer.top.empty();
  return Json::object({{"id", answer.id}})
      .set_path("path", answer.path)
      .set("label", classes[static_cast<size_t>(answer.label)])
      .set("predicted", is_decided ? Json(classes[answer.top.front()]) : Json())
      .set("probability", is_decided ? Json(answer.probabilities.front()) : Json())
      .set("top", std::move(top))
      .set("loss", answer.loss);
}

Json to_json(const Prediction& prediction) {
  Json json = Json::object();
  json.set_path("path", prediction.path)
      .set("error", Json())
      .set("class", Json())
      .set("probability", Json())
      .set("top", Json::array());
  if (!prediction.error.empty()) return json.set("error", prediction.error);
  Json top = Json::array();
  for (const auto& [name, probability] : prediction.top) {
    top.push_back(Json::object({{"class", name}, {"probability", probability}}));
  }
  return json.set("class", prediction.top.front().first)
      .set("probability", prediction.top.front().second)
      .set("top", std::move(top));
}

}  // namespace dlpipe::run
