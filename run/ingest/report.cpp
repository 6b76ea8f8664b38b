#include <map>
#include <string>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/image_codec.h"
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

/// "HEIC" where a file was skipped because of its format; else "".
static std::string foreign_format(const std::string& reason) {
  const size_t at = reason.find(data::kNoDecoder);
  if (at == std::string::npos) return {};
  const size_t begin = at + data::kNoDecoder.size();
  return reason.substr(begin, reason.find(" images", begin) - begin);
}

std::string skipped_text(const IngestReport& report) {
  if (report.skipped.empty()) return {};
  constexpr size_t kShown = 20;
  std::string text = concat(human_count(static_cast<int64_t>(report.skipped.size())),
                            report.skipped.size() == 1 ? " file skipped:" : " files skipped:");
  // Many files of one foreign format are one line.
  std::map<std::string, int64_t> foreign;
  for (const SkippedFile& file : report.skipped) {
    if (const std::string format = foreign_format(file.reason); !format.empty()) ++foreign[format];
  }
  for (const auto& [format, count] : foreign) {
    if (count > 1) text += concat("\n  ", human_count(count), " ", format, " files: no decoder");
  }
  size_t shown = 0;
  size_t others = 0;
  for (const SkippedFile& file : report.skipped) {
    if (const std::string format = foreign_format(file.reason); !format.empty() && foreign[format] > 1)
      continue;
    if (++others <= kShown) {
      text += concat("\n  ", printable(file.path), ": ", printable(file.reason));
      ++shown;
    }
  }
  if (shown < report.skipped.size())
    text += concat("\n  ... all of them: dlpipe inspect --skipped ", shell_word(report.splits[0].directory));
  return text;
}

}  // namespace dlpipe::ingest
