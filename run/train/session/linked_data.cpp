#include "run/train/session/linked_data.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/counters.h"
#include "base/messages.h"
#include "base/text.h"
#include "base/threads.h"
#include "dlpipe/augment.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "dlpipe/ingest.h"
#include "engine/collective/collective.h"
#include "io/data/sources/layouts.h"
#include "run/config/choices.h"
#include "run/ingest/options.h"
#include "run/input/dataset.h"
#include "run/input/path_kind.h"
#include "run/train/session/resume_rules.h"

namespace dlpipe::run {

namespace {

namespace fs = std::filesystem;

/// Whether a folder contains anything except the run directory, which may just have been created there.
bool holds_something(const std::string& folder, const std::string& run_directory) {
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    if (run_directory.empty() || !is_inside(run_directory, it->path())) return true;
  }
  return false;
}

/// Whether `path` is something other than a dataset or a folder of splits. False for a missing path, unless it may expand to
/// several: shards-{000..127}.tar. Throws if a folder can't be listed, because it may be a dataset.
bool is_raw(const std::string& path, const std::string& run_directory) {
  std::error_code ignored;
  if (path.empty()) return false;
  if (!fs::exists(path, ignored)) return is_pattern(path);
  if (value_or_throw(data::holds_dataset(path))) return false;
  return !fs::is_directory(path, ignored) || holds_something(path, run_directory);
}

ingest::IngestOptions link_options(const SessionOptions& session, const std::string& path,
                                   const std::string& to) {
  ingest::IngestOptions options;
  options.sources = {path};
  options.destination = to;
  options.known_sources = &session.registries.sources;
  options.store = ingest::Store::kLink;
  options.late_checksums = true;
  options.jobs = session.threads;
  options.max_pixels = session.config.max_pixels;
  return options;
}

std::string counts_text(const ingest::IngestReport& report) {
  int64_t samples = 0;
  for (const ingest::IngestReport::Split& split : report.splits) samples += split.samples;
  return concat(counted(samples, "image"), " in ", human_seconds(report.seconds));
}

void warn_of_skipped(const ingest::IngestReport& report, const Notes& notes) {
  if (report.skipped.empty()) return;
  const ingest::SkippedFile& first = report.skipped.front();
  warn(notes, concat(counted(static_cast<int64_t>(report.skipped.size()), "file was", "files were"),
                     " skipped, the first one ", printable(first.path), ": ", printable(first.reason)));
}

/// The images that mean and standard deviation are computed from.
std::string statistics_text(const ingest::IngestReport& report) {
  const bool has_many =
      std::any_of(report.splits.begin(), report.splits.end(), [](const ingest::IngestReport::Split& split) {
        return split.samples >= static_cast<int64_t>(2 * ingest::kDecodedLinks);
      });
  return has_many ? concat("about ", ingest::kDecodedLinks, ", evenly spread") : "all of them";
}

/// Whether a directory holds nothing but datasets of links, as link() makes them.
bool holds_only_links(const std::string& directory) {
  auto splits = data::split_names(directory);
  if (!splits.ok()) return false;
  if (splits->empty()) splits->emplace_back();
  return std::all_of(splits->begin(), splits->end(), [&](const std::string& split) {
    const auto dataset = data::Dataset::open(directory, split, data::Dataset::IdCheck::kLater);
    return dataset.ok() && (*dataset)->links().has_value();
  });
}

/// Whether a resumed run still uses the images that it began with, which `links` point to.
Status check_are_the_runs(const TrainConfig& config, const PathOption& option, const std::string& links) {
  const std::string& images = config.*option.path;
  if (option.path == &TrainConfig::data) {
    DLPIPE_ASSIGN_OR_RETURN(const std::string train, training_data(links));
    DLPIPE_RETURN_IF_ERROR(check_dataset(kDataOption, images, train, config));
    if (!config.val.empty()) return {};
  }
  DLPIPE_ASSIGN_OR_RETURN(const std::string val, validation_data(links, config.val.empty() ? "" : links));
  return check_dataset(kValOption, images, val, config);
}

/// Replaces the links of an earlier start, which lead to other images or other places, by the new links in `by`. Throws if these
/// are not the images that the run began with.
void replace(const std::string& links, const std::string& by, const TrainConfig& config,
             const PathOption& option) {
  std::error_code error;
  if (const Status same = check_are_the_runs(config, option, by); !same.ok()) {
    fs::remove_all(by, error);
    throw Error(same);
  }
  fs::remove_all(links, error);
  if (!error) fs::rename(by, links, error);
  if (error) throw Error(status_from_errno("train", concat("cannot replace ", links), error.value()));
}

/// The source that reads `path`; null if there is none.
const data::SourceRecord* source_of(const Registries& registries, const std::string& path) {
  data::SourceOptions options;
  options.path = path;
  options.known = &registries.sources;
  const auto found = data::find_source(options);
  return found.ok() ? *found : nullptr;
}

/// Whether a source that the program has added reads `path`.
bool is_of_own_source(const Registries& registries, const std::string& path) {
  const data::SourceRecord* const found = source_of(registries, path);
  const auto records = data::SourceRegistry::builtin().records();
  return found != nullptr && std::find(records.begin(), records.end(), found) == records.end();
}

void check_can_be_read(const SessionOptions& session, const std::string& path) {
  if (!is_kind(path, Wanted::kRawData) && !is_of_own_source(session.registries, path))
    throw_if_error(refuse_other_kind("dataset", path, Wanted::kDataset));
}

/// Whether `path` is a folder with one folder of images for each class, or with splits of these.
bool is_of_folders(const Registries& registries, const std::string& path) {
  const data::SourceRecord* const found = source_of(registries, path);
  return found != nullptr && std::string_view(found->name) == "folder";
}

/// Whether a folder contains several others, none of which is named like a split.
bool has_no_splits(const std::string& folder) {
  int folders = 0;
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    std::error_code ignored;
    if (!it->is_directory(ignored)) continue;
    if (!data::split_in_words(it->path().filename().string()).empty()) return false;
    ++folders;
  }
  return !error && folders > 1;
}

using Stop = std::function<bool()>;

/// Makes `to`, a dataset of links to the images that `option` names.
void link(const SessionOptions& session, const PathOption& option, const std::string& to,
          const std::string& classes_from, const Stop& stop, const Notes& notes) {
  const std::string& path = session.config.*option.path;
  ingest::IngestOptions options = link_options(session, path, to);
  options.classes_from = classes_from;
  options.stop_requested = stop;
  options.on_warning = [&](const std::string& warning) { warn(notes, warning); };
  tell(notes, concat(path,
                     " is not a dataset: its images are linked, and each file is read whole in the first "
                     "epoch; `dlpipe ingest ",
                     shell_word(path), " DST` makes a dataset that trains faster"));
  int64_t told_ns = now_ns();
  const auto on_progress = [&](const ingest::IngestProgress& progress) {
    constexpr int64_t kInterval_ns = 5'000'000'000;
    if (now_ns() - told_ns < kInterval_ns) return;
    told_ns = now_ns();
    tell(notes, concat("linked ", human_count(progress.done), " of ", counted(progress.total, "file")));
  };
  auto report = ingest::ingest(options, on_progress);
  if (report.status().code() == ErrorCode::kMisuse && holds_only_links(to)) {
    options.destination = to + ".new";
    report = ingest::ingest(options, on_progress);
    if (report.ok()) replace(to, options.destination, session.config, option);
  }
  throw_if_error(report.status());
  tell(notes, concat("linked ", counts_text(*report), ". Mean and standard deviation are those of ",
                     statistics_text(*report), ": ", to));
  warn_of_skipped(*report, notes);
}

/// Runs `work` on the first rank. Reading all files may take much longer than --peer-timeout, so the ranks keep exchanging
/// messages. All of them throw if `work` fails; the first rank reports the error.
void first_rank_works(engine::Collective& ranks, const std::function<void(const Stop&)>& work) {
  constexpr const char* kWhat = "the links to the images";
  constexpr std::string_view kDone = "done";
  constexpr std::string_view kFailed = "failed";
  if (ranks.rank() != 0) {
    while (true) {
      const std::string heard = value_or_throw(ranks.gather({}, kWhat)).front();
      if (heard == kDone) return;
      if (heard == kFailed) throw Error(Status(ErrorCode::kCancelled, "[train] the first process failed"));
    }
  }
  std::atomic<bool> stop = false;
  Threads worker("train", 1, [&](int) { work([&] { return stop.load(); }); });
  while (worker.running() > 0) {
    constexpr std::chrono::milliseconds kInterval{50};
    std::this_thread::sleep_for(kInterval);
    const Status others = ranks.gather({}, kWhat).status();
    if (others.ok()) continue;
    stop = true;
    (void)worker.join();  // it only reports that it was stopped
    throw Error(others);
  }
  const Status worked = worker.join();
  const Status others = ranks.gather(worked.ok() ? kDone : kFailed, kWhat).status();
  throw_if_error(worked);
  throw_if_error(others);
}

/// Checks --augment and --val-augment.
void check_chains(const SessionOptions& options) {
  for (const std::string* chain : {&options.config.augment, &options.config.val_augment}) {
    if (*chain == kAutoAugment) continue;
    const augment::Chain parsed =
        value_or_throw(augment::Chain::parse(*chain, options.registries.augmentations));
    const augment::OpRecord* const join = parsed.find_join();
    if (join != nullptr)
      refuse("train", "'", *chain, "' has ", join->name,
             ", which joins several images, but dlpipe trains on one class per image; leave it out");
  }
}

/// Reports errors that do not depend on the files' contents before all of them are read. `data`, `val`: whether these are to be
/// linked.
void check_before_linking(const SessionOptions& options, bool data, bool val) {
  const TrainConfig& config = options.config;
  check_chains(options);
  if (data) check_can_be_read(options, config.data);
  if (val) {
    check_can_be_read(options, config.val);
  } else if (!config.val.empty()) {
    const std::string directory = value_or_throw(validation_data(config.data, config.val));
    throw_if_error(check_dataset(kValOption, directory, directory, config));
    value_or_throw(data::Dataset::open(directory, {}, data::Dataset::IdCheck::kLater));
  }
  if (!data || !is_of_folders(options.registries, config.data)) return;
  constexpr int kColours = 3;
  const bool takes_tokens = options.model != nullptr && options.model->input == engine::ModelInput::kTokens;
  throw_if_error(check_input_kind(config.model, takes_tokens, config.data, kColours));
  if (config.val.empty() && has_no_splits(config.data)) check_early_stop(config);
}

/// `option` becomes the dataset at `links`; the run records its images.
void use_links(TrainConfig& config, const PathOption& option, const std::string& links) {
  config.record[images_key(option)] = config.*option.path;
  config.*option.path = links;
}

/// Whether the file of the first or last sample of a linked dataset exists; true if that can't be determined.
bool has_linked_files(const std::string& directory) {
  const auto dataset = data::Dataset::open(directory, {}, data::Dataset::IdCheck::kLater);
  if (!dataset.ok() || (*dataset)->size() == 0) return true;
  const auto reader = (*dataset)->reader();
  if (!reader.ok()) return true;
  for (const int64_t sample : {int64_t{0}, (*dataset)->size() - 1}) {
    const auto file = (*reader)->linked_file(sample);
    std::error_code ignored;
    if (!file.ok() || fs::exists(*file, ignored)) return true;
  }
  return false;
}

}  // namespace

std::string images_key(const PathOption& option) {
  return concat(option.name, "-images");
}

std::string links_of(const std::string& run_directory, const PathOption& option) {
  const std::string below = option.path == &TrainConfig::data ? "linked" : concat("linked-", option.name);
  return (fs::absolute(run_directory) / below).lexically_normal().string();
}

std::string folder_of_split(const std::string& images, std::string_view split) {
  std::vector<std::string> found;
  std::error_code error;
  for (auto it = fs::directory_iterator(images, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored) && data::split_in_words(it->path().filename().string()) == split)
      found.push_back(it->path().string());
  }
  return found.size() == 1 ? found.front() : "";
}

bool is_of_images(const TrainConfig& config, const PathOption& option) {
  return (option.path == &TrainConfig::data || option.path == &TrainConfig::val) &&
         is_raw(config.*option.path, config.out);
}

Status check_images_are_there(const TrainConfig& config, const PathOption& option) {
  const auto images = config.record.find(images_key(option));
  std::error_code ignored;
  if (images == config.record.end() || fs::exists(images->second, ignored)) return {};
  const auto links = training_data(config.*option.path);
  if (!links.ok() || has_linked_files(*links)) return {};
  return {ErrorCode::kNotFound, concat("[train] the run's images are not at ", images->second,
                                       " any more; give their current place with --", option.name)};
}

SessionOptions link_images(SessionOptions options, const std::string& run_directory, const Notes& notes) {
  TrainConfig& config = options.config;
  const bool data = is_raw(config.data, run_directory);
  const bool val = is_raw(config.val, run_directory);
  if (!data && !val) return options;
  if (run_directory.empty())
    refuse("train", data ? config.data : config.val,
           " is not a dataset, and there is no run directory to store links to "
           "its images in; make one with `dlpipe ingest ",
           shell_word(data ? config.data : config.val), " DST --store link`");
  for (const std::string* raw : {data ? &config.data : nullptr, val ? &config.val : nullptr}) {
    if (raw != nullptr && is_inside(run_directory, *raw))
      refuse("train", "the run directory ", run_directory, " is inside the images' folder ", *raw,
             "; choose another --out");
  }
  check_before_linking(options, data, val);
  const std::string linked = links_of(run_directory, kDataOption);
  const std::string linked_val = links_of(run_directory, kValOption);
  const auto work = [&](const Stop& stop) {
    if (data) link(options, kDataOption, linked, {}, stop, notes);
    if (val)
      link(options, kValOption, linked_val, value_or_throw(training_data(data ? linked : config.data)), stop,
           notes);
  };
  if (options.ranks.all != nullptr)
    first_rank_works(*options.ranks.all, work);
  else
    work({});
  if (data) use_links(config, kDataOption, linked);
  if (val) use_links(config, kValOption, linked_val);
  return options;
}

}  // namespace dlpipe::run
