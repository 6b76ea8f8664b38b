#include "dlpipe/cli/ingest_view.h"

#include <map>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/progress_line.h"
#include "dlpipe/io/data/codec/image_codec.h"

namespace dlpipe::cli {

namespace {

/// "HEIC" where a file was skipped because of its format; else "".
std::string foreign_format(const std::string& reason) {
  const size_t at = reason.find(data::kNoDecoder);
  if (at == std::string::npos) return {};
  const size_t begin = at + data::kNoDecoder.size();
  return reason.substr(begin, reason.find(" images", begin) - begin);
}

void print_skipped(const ingest::IngestReport& report) {
  if (report.skipped.empty()) return;
  constexpr size_t kShown = 20;
  std::string text = concat(human_count(static_cast<int64_t>(report.skipped.size())),
                            report.skipped.size() == 1 ? " file skipped:" : " files skipped:");
  // Many files of one foreign format are one line.
  std::map<std::string, int64_t> foreign;
  for (const ingest::SkippedFile& file : report.skipped) {
    if (const std::string format = foreign_format(file.reason); !format.empty()) ++foreign[format];
  }
  for (const auto& [format, count] : foreign) {
    if (count > 1) text += concat("\n  ", human_count(count), " ", format, " files: no decoder");
  }
  size_t shown = 0;
  size_t others = 0;
  for (const ingest::SkippedFile& file : report.skipped) {
    if (const std::string format = foreign_format(file.reason); !format.empty() && foreign[format] > 1)
      continue;
    if (++others <= kShown) {
      text += concat("\n  ", printable(file.path), ": ", printable(file.reason));
      ++shown;
    }
  }
  if (shown < report.skipped.size())
    text += concat("\n  ... all of them: dlpipe inspect --skipped ", shell_word(report.splits[0].directory));
  print_warning(text);
}

void print_tables(const ingest::IngestReport& report) {
  print_skipped(report);
  std::vector<std::vector<std::string>> rows = {{"dataset", "samples", "classes", "bytes", "id"}};
  for (const ingest::IngestReport::Split& split : report.splits) {
    rows.push_back({split.directory, human_count(split.samples),
                    human_count(static_cast<int64_t>(report.classes.size())), human_bytes(split.file_bytes),
                    split.id});
  }
  print_answer(format_table(rows));
  if (report.already_complete) {
    print_answer(concat("it was there already, made with the same options",
                        report.files_compared ? " of files of the same names and sizes"
                                              : "; its files were not compared, it doesn't know them"));
    return;
  }
  if (report.stages.empty()) return;
  std::string stages;
  for (const auto& stage : report.stages) stages += concat(stage.name, " ", fixed(stage.busy_s, 1), " s  ");
  print_answer(
      prose(concat(human_seconds(report.seconds), report.resumed ? " (gone on from an earlier run)" : "",
                   "; threads were busy with: ", stages, "limit: ", report.limiting)));
}

Progress ingest_progress(const ingest::IngestProgress& progress) {
  return {
      progress.done, progress.total, progress.samples_per_s, progress.remaining_s,
      concat(progress.skipped > 0 ? concat("skipped ", human_count(progress.skipped), "  ") : std::string(),
             "limit ", progress.limiting)};
}

}  // namespace

Status show_ingest(std::string_view verb, bool json, const IngestWork& work) {
  ProgressLine line;
  const auto report =
      work([&](const ingest::IngestProgress& progress) { line.show(verb, ingest_progress(progress)); });
  line.end();
  if (!report.ok()) return report.status();
  if (json)
    print_answer(ingest::to_json(*report));
  else
    print_tables(*report);
  return {};
}

}  // namespace dlpipe::cli
