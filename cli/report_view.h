// The report of `eval --report` for people.
#pragma once

#include <span>
#include <string>

#include "dlpipe/run/use/class_report.h"

namespace dlpipe::cli {

/// A table of classes, means, and the confusion matrix; of many classes only the most frequent confusions.
std::string report_text(const run::ClassReport& report, std::span<const std::string> names);

}  // namespace dlpipe::cli
