#include "dlpipe/run/train/linked_data.h"

#include <algorithm>
#include <filesystem>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/collective/collective.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/run/ingest/ingest.h"
#include "dlpipe/run/input/data_paths.h"

namespace dlpipe::run {

namespace {

namespace fs = std::filesystem;

bool is_inside(const fs::path& path, const fs::path& folder) {
  std::error_code ignored;
  const fs::path inner = fs::weakly_canonical(path, ignored);
  const fs::path outer = fs::weakly_canonical(folder, ignored);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

/// Whether a folder has something in it, the run directory apart, which may just have been made there.
bool holds_something(const std::string& folder, const std::string& run_directory) {
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    if (run_directory.empty() || !is_inside(run_directory, it->path())) return true;
  }
  return false;
}

/// Whether `path` is something else than a dataset or a folder of splits. What isn't there is nothing, unless it may be
/// several: shards-{000..127}.tar.
bool is_raw(const std::string& path, const std::string& run_directory) {
  std::error_code ignored;
  if (path.empty()) return false;
  if (!fs::exists(path, ignored)) return path.find_first_of("{*?[") != std::string::npos;
  if (fs::is_directory(path, ignored) && !holds_something(path, run_directory)) return false;
  const auto splits = data::split_names(path);
  return !fs::exists(path + "/data.mdb", ignored) && (!splits.ok() || splits->empty());
}

ingest::IngestOptions link_options(const SessionOptions& session, const std::string& path,
                                   const std::string& to) {
  ingest::IngestOptions options;
  options.sources = {path};
  options.destination = to;
  options.store = ingest::Store::kLink;
  options.trust = true;
  options.jobs = session.threads;
  options.max_pixels = session.config.max_pixels;
  return options;
}

std::string counts_text(const ingest::IngestReport& report) {
  int64_t samples = 0;
  for (const ingest::IngestReport::Split& split : report.splits) samples += split.samples;
  std::string text = concat(human_count(samples), samples == 1 ? " picture" : " pictures");
  if (report.skipped.empty()) return text;
  const ingest::SkippedFile& first = report.skipped.front();
  return concat(text, "; ", report.skipped.size(), " files were skipped, the first one ",
                printable(first.path), ": ", printable(first.reason));
}

/// The dataset of links, `to`, to the pictures at `path`.
void link(const SessionOptions& session, const std::string& path, const std::string& to,
          const std::string& classes_from, const Notes& notes) {
  ingest::IngestOptions options = link_options(session, path, to);
  options.classes_from = classes_from;
  options.on_warning = [&](const std::string& warning) { tell(notes, warning); };
  tell(notes, concat(path, " is no dataset: its pictures are linked, each file is read once; `dlpipe ingest ",
                     path, " DST` makes a dataset that trains faster"));
  int64_t told_ns = now_ns();
  const auto report = ingest::ingest(options, [&](const ingest::IngestProgress& progress) {
    constexpr int64_t kInterval_ns = 5'000'000'000;
    if (now_ns() - told_ns < kInterval_ns) return;
    told_ns = now_ns();
    tell(notes, concat("linked ", human_count(progress.done), " of ", human_count(progress.total), " files"));
  });
  throw_if_error(report.status());
  tell(notes, concat("linked ", counts_text(*report), " in ", human_seconds(report->seconds), ": ", to));
}

}  // namespace

void link_pictures(SessionOptions& options, const std::string& run_directory, const Notes& notes) {
  TrainConfig& config = options.config;
  const bool data = is_raw(config.data, run_directory);
  const bool val = is_raw(config.val, run_directory);
  if (!data && !val) return;
  if (run_directory.empty())
    refuse("train", data ? config.data : config.val,
           " is no dataset, and there is no run directory to keep links to "
           "its pictures in; make one with `dlpipe ingest SRC DST --store link`");
  for (const std::string* raw : {data ? &config.data : nullptr, val ? &config.val : nullptr}) {
    if (raw != nullptr && is_inside(run_directory, *raw))
      refuse("train", "the run directory ", run_directory, " lies inside of the pictures' folder ", *raw,
             "; choose another --out");
  }
  const std::string linked = run_directory + "/linked";
  const std::string linked_val = run_directory + "/linked-val";
  const bool is_first = options.rank() == 0;
  if (data && is_first) link(options, config.data, linked, {}, notes);
  if (data) config.data = linked;
  if (val && is_first)
    link(options, config.val, linked_val, value_or_throw(training_data(config.data)), notes);
  if (val) config.val = linked_val;
  if (options.ranks != nullptr) value_or_throw(options.ranks->gather({}, "the links to the pictures"));
}

}  // namespace dlpipe::run
