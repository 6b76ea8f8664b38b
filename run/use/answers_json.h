// What eval and predict print with `--json` and `--predictions` (docs/json.md). Pure functions.
#pragma once

#include <string>
#include <vector>

#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/use/evaluate_dataset.h"
#include "dlpipe/run/use/predictor.h"

namespace dlpipe::run {

formats::Json to_json(const Evaluation& evaluation);
/// One sample of --predictions.
formats::Json to_json(const SampleAnswer& answer, const std::vector<std::string>& classes);
formats::Json to_json(const Prediction& prediction);

}  // namespace dlpipe::run
