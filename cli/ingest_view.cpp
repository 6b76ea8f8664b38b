#include "dlpipe/cli/ingest_view.h"

#include "dlpipe/base/text.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/progress_line.h"

namespace dlpipe::cli {

namespace {

void print_tables(const ingest::IngestReport& report) {
  if (const std::string skipped = ingest::skipped_text(report); !skipped.empty()) print_warning(skipped);
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
      work([&](const ingest::IngestProgress& progress) { line.show(verb, ingest_progress(progress)); },
           [&](const std::string& warning) {
             line.end();
             print_warning(warning);
           });
  line.end();
  if (!report.ok()) return report.status();
  if (json)
    print_answer(ingest::to_json(*report));
  else
    print_tables(*report);
  return {};
}

}  // namespace dlpipe::cli
