// Metrics, and the report of `eval --report`, for people.
#pragma once

#include <span>
#include <string>

#include "dlpipe/run/use/class_report.h"

namespace dlpipe::cli {

/// The value of a metric: "91.20 %" of a share of samples, "0.2911" of others.
std::string metric_text(const std::string& name, double value);

/// A table of classes, means, and the confusion matrix; of many classes only the most frequent confusions.
std::string report_text(const run::ClassReport& report, std::span<const std::string> names);

}  // namespace dlpipe::cli
