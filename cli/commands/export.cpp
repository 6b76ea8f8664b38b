// `dlpipe export DST OUT`: a dataset back to files.
#include <filesystem>
#include <memory>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/dataset_arguments.h"
#include "dlpipe/cli/flags.h"
#include "dlpipe/cli/output.h"
#include "dlpipe/cli/progress_line.h"
#include "dlpipe/cli/stop_signal.h"
#include "dlpipe/io/data/export.h"
#include "dlpipe/io/formats/json.h"

namespace dlpipe::cli {

namespace {

struct Options {
  std::string directory;
  data::ExportOptions files;
  bool json = false;
};

formats::Json json_of(const std::string& split, const data::ExportReport& report) {
  return formats::Json::object({{"split", split},
                                {"directory", report.directory},
                                {"files", report.files},
                                {"bytes", static_cast<int64_t>(report.bytes)},
                                {"rewritten", report.rewritten},
                                {"renamed", static_cast<int64_t>(report.renamed.size())},
                                {"list", report.list}});
}

std::string text_of(const data::ExportReport& report) {
  std::string text =
      concat(report.directory, ": ", human_count(report.files), " files, ", human_bytes(report.bytes));
  if (report.rewritten > 0) {
    text +=
        concat("; ", human_count(report.rewritten),
               " of them with the source's pixels in other bytes: their JPEGs were no single baseline scan");
  }
  return text;
}

/// How to read back what the folders alone don't say; "" where they say all.
std::string text_of_lists(const std::vector<std::string>& lists, bool is_changed) {
  if (lists.empty()) return "";
  std::string words;
  for (const std::string& list : lists) words += concat(shell_word(list), " ");
  return concat(quoted_names(lists), lists.size() == 1 ? " says" : " say",
                " what the folders don't (fields, classes in their order): `dlpipe ingest ", words,
                is_changed ? "DATA` reads them back, changed as the warning says" : "DATA` reads all back");
}

void warn_of_changes(const data::ExportReport& report) {
  if (report.changed.empty()) return;
  std::string fields;
  for (const std::string& one : report.changed) fields += concat(fields.empty() ? "" : "; ", one);
  print_warning(concat("[export] not all fields come back from ", printable(report.directory), "/",
                       report.list, " as they are in the dataset: ", fields));
}

Status run(const Options& options) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<NamedDataset> datasets, open_all(options.directory));
  if (options.files.directory.empty())  // an unset variable: OUT/SPLIT would lie at the root
    return misuse("export", "OUT is empty; give the folder to make");
  std::error_code ignored;
  if (std::filesystem::exists(options.files.directory, ignored))
    return misuse("export", options.files.directory, " exists already; remove it or choose another");
  warn_of_lost("export", options.directory, compare_with_provenance("export", options.directory, datasets));
  const std::atomic<bool>* stop = catch_stop_signals();
  formats::Json all = formats::Json::array();
  data::ExportOptions files = options.files;
  for (const NamedDataset& one : datasets) {  // lists and folders can't be read back together
    DLPIPE_ASSIGN_OR_RETURN(const bool needs_list, data::needs_list(*one.dataset, files.limit));
    files.with_list = files.with_list || needs_list;
  }
  std::vector<std::string> lists;
  bool is_changed = false;
  Status unwritten;  // of the first dataset that has a sample of an impossible name
  for (const NamedDataset& one : datasets) {
    files.directory = options.files.directory + (one.split.empty() ? "" : "/" + one.split);
    files.stop_requested = [stop] { return stop->load(); };
    ProgressLine line;
    const auto report = data::export_files(*one.dataset, files, [&](int64_t done, int64_t total) {
      line.show("export", {done, total});
    });
    line.end();
    if (!report.ok()) return report.status();
    if (unwritten.ok()) unwritten = data::unwritten_error(*report);
    if (const std::string renamed = data::renamed_text(*report); !renamed.empty()) print_warning(renamed);
    warn_of_changes(*report);
    is_changed = is_changed || !report->changed.empty();
    if (!report->list.empty()) lists.push_back(concat(report->directory, "/", report->list));
    if (options.json)
      all.push_back(json_of(one.split, *report));
    else
      print_answer(text_of(*report));
  }
  if (options.json)
    print_answer(formats::Json::object({{"datasets", std::move(all)}}).dump());
  else if (!lists.empty())
    print_answer(text_of_lists(lists, is_changed));
  return unwritten;
}

std::function<Status()> setup(Flags& flags) {
  auto options = std::make_shared<Options>();
  flags.add_option("DATA", options->directory, "Dataset, or a folder of splits").required();
  flags.add_option("OUT", options->files.directory, "Folder to make: OUT/CLASS/FILE, or OUT/SPLIT/CLASS/FILE")
      .required();
  flags.add_option("--limit", options->files.limit, "Only the first N samples; -1: all");
  flags.add_flag("--json", options->json, "Print one JSON line");
  return [options] { return run(*options); };
}

}  // namespace

extern const CommandRecord export_command;
const CommandRecord export_command = {"export", "Write a dataset's images back to files", setup};

}  // namespace dlpipe::cli
