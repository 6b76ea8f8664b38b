#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/ingest/ingest.h"

namespace dlpipe::ingest {

using formats::Json;

std::string to_json(const IngestReport& report) {
  Json datasets = Json::array(), skipped = Json::array(), warnings = Json::array(), busy = Json::object();
  for (const IngestReport::Split& split : report.splits) {
    datasets.push_back(Json::object({{"split", split.name},
                                     {"directory", split.directory},
                                     {"id", split.id},
                                     {"samples", split.samples},
                                     {"bytes", static_cast<int64_t>(split.file_bytes)}}));
  }
  for (const SkippedFile& file : report.skipped)
    skipped.push_back(Json::object().set_path("path", file.path).set("reason", file.reason));
  for (const std::string& warning : report.warnings) warnings.push_back(warning);
  for (const auto& stage : report.stages) busy.set(stage.name, stage.busy_s);
  return Json::object({{"datasets", std::move(datasets)},
                       {"classes", Json(Json::Array(report.classes.begin(), report.classes.end()))},
                       {"skipped", std::move(skipped)},
                       {"warnings", std::move(warnings)},
                       {"already_complete", report.already_complete},
                       {"resumed", report.resumed},
                       {"seconds", report.seconds},
                       {"busy_seconds", std::move(busy)},
                       {"limit", report.limiting}})
      .dump();
}

}  // namespace dlpipe::ingest
