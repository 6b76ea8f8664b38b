#include "dlpipe/run/ingest/join.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "dlpipe/base/aside_file.h"
#include "dlpipe/base/counter.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/data/dataset_writer.h"
#include "dlpipe/io/data/partial_directory.h"
#include "dlpipe/io/data/schema.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/ingest/files.h"
#include "dlpipe/run/ingest/freeze.h"
#include "dlpipe/run/ingest/options.h"
#include "dlpipe/run/ingest/part.h"
#include "dlpipe/run/ingest/publish.h"

namespace dlpipe::ingest {

namespace {

namespace fs = std::filesystem;
using formats::Json;

/// A part as it lies on disk.
struct PartDirectory {
  std::string directory;
  PartFile file;
  std::string name() const { return concat(printable(directory), " (part ", part_text(file.part), ")"); }
};

Result<PartDirectory> open_part(std::string directory) {
  while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
  if (!data::is_there(directory)) {
    const bool is_begun = data::is_there(directory + ".partial");
    return Status(ErrorCode::kNotFound,
                  concat("[join] there is no ", printable(directory),
                         is_begun ? ", but an unfinished one; run its ingest again" : ""));
  }
  if (directory.ends_with(".partial"))
    return misuse("join", printable(directory), " is unfinished; run its ingest again");
  const std::string file = concat(directory, "/", kPartName);
  if (!data::is_there(file))
    return misuse("join", printable(directory), " is no part of an ingest, it has no ", kPartName,
                  "; make parts with `dlpipe ingest SRC PART --part 1/16`");
  auto part = load_part(file);
  if (!part.ok()) return part.status();
  return PartDirectory{std::move(directory), *std::move(part)};
}

/// Without where things lay on the machine that made a part.
std::string comparable_options(const std::string& canonical) {
  Result<Json> json = Json::parse(canonical);
  if (!json.ok()) return canonical;
  static constexpr std::array<std::string_view, 6> kPlaces = {"SRC",    "--manifest", "--classes-from",
                                                              "--list", "--labels",   "--images"};
  Json kept = Json::object();
  for (const auto& [name, value] : json->members()) {
    if (std::find(kPlaces.begin(), kPlaces.end(), name) == kPlaces.end()) kept.set(name, value);
  }
  return kept.dump();
}

bool has_links(const PartFile& part) {
  const Result<Json> json = Json::parse(part.options);
  return json.ok() && (*json)["--store"] == Json("link");
}

/// kMisuse where `other` isn't of the same ingest as `first`.
Status compare_parts(const PartDirectory& first, const PartDirectory& other) {
  const auto differ = [&](std::string_view how) {
    return misuse("join", first.name(), " and ", other.name(), " are not of one ingest: ", how);
  };
  if (first.file.part.count != other.file.part.count) return differ("another number of parts");
  const std::string difference =
      first_difference(comparable_options(first.file.options), comparable_options(other.file.options));
  if (!difference.empty()) return differ(difference);
  if (has_links(first.file)) {
    const std::string place = first_difference(first.file.options, other.file.options);
    if (!place.empty()) return differ(concat(place, "; links of all parts must lead to the same place"));
  }
  if (first.file.source != other.file.source || first.file.files != other.file.files)
    return differ("they were made of other files, or of files of other sizes");
  if (first.file.list != other.file.list)
    return differ(
        "they estimated the size of some files differently, as one machine could not read these files");
  return {};
}

/// By their numbers, whole and of one ingest.
Result<std::vector<PartDirectory>> open_parts(const std::vector<std::string>& directories) {
  if (directories.empty()) return misuse("join", "give DST and its parts: dlpipe join DST PART...");
  std::vector<PartDirectory> parts;
  for (const std::string& directory : directories) {
    DLPIPE_ASSIGN_OR_RETURN(PartDirectory part, open_part(directory));
    parts.push_back(std::move(part));
    DLPIPE_RETURN_IF_ERROR(compare_parts(parts.front(), parts.back()));
  }
  std::stable_sort(parts.begin(), parts.end(), [](const PartDirectory& a, const PartDirectory& b) {
    return a.file.part.number < b.file.part.number;
  });
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i - 1].file.part.number == parts[i].file.part.number)
      return misuse("join", printable(parts[i - 1].directory), " and ", printable(parts[i].directory),
                    " are both part ", part_text(parts[i].file.part), "; give one of them");
  }
  std::vector<std::string> missing;
  const int64_t count = parts.front().file.part.count;
  size_t at = 0;
  for (int64_t number = 1; number <= count; ++number) {
    if (at < parts.size() && parts[at].file.part.number == number)
      ++at;
    else
      missing.push_back(part_text({number, count}));
  }
  if (!missing.empty())
    return misuse("join", missing.size() == 1 ? "a part is" : concat(missing.size(), " parts are"),
                  " missing: ", quoted_names(missing), "; give all of one ingest");
  return parts;
}

/// What a split of a part holds, entry by entry.
class PartReader {
 public:
  static Result<PartReader> open(const PartDirectory& part, const std::string& directory, size_t split) {
    PartReader reader(part, part.file.splits[split]);
    auto dataset = data::Dataset::open(directory);
    if (!dataset.ok()) return reader.damaged(dataset.status());
    reader.dataset_ = *std::move(dataset);
    auto records = reader.dataset_->reader();
    if (!records.ok()) return reader.damaged(records.status());
    reader.records_ = *std::move(records);
    auto skipped = reader.dataset_->skipped();
    if (!skipped.ok()) return reader.damaged(skipped.status());
    reader.skipped_ = *std::move(skipped);
    const PartRange range = reader.split_->range;
    const uint64_t entries = range.end - range.begin;
    if (static_cast<uint64_t>(reader.dataset_->size()) + reader.skipped_.size() != entries ||
        (entries > 0 && (reader.split_->commits.empty() || reader.split_->commits.back().end != range.end)))
      return reader.damaged("it doesn't hold what its part.json says");
    return reader;
  }

  const PartFile::Split& split() const { return *split_; }
  const data::Dataset& dataset() const { return *dataset_; }
  /// The next entry is `item`.
  void go_to(uint64_t item) {
    const auto place =
        std::lower_bound(skipped_.begin(), skipped_.end(), item,
                         [](const data::Dataset::Skipped& one, uint64_t at) { return one.place < at; });
    next_skipped_ = static_cast<size_t>(place - skipped_.begin());
    next_sample_ = static_cast<int64_t>(item - split_->range.begin - next_skipped_);
  }
  /// The file that was skipped at `item`, the next entry; null: it is a record.
  const data::Dataset::Skipped* skipped(uint64_t item) {
    if (next_skipped_ == skipped_.size() || skipped_[next_skipped_].place != item) return nullptr;
    return &skipped_[next_skipped_++];
  }
  /// The next record as it is stored, compared with its checksum. Of a link only that it is one: who uses the picture
  /// compares. Pixel sums are left out.
  Status take(data::PackedRecord& to) {
    if (next_sample_ >= dataset_->size()) return damaged("it doesn't hold what its part.json says");
    DLPIPE_ASSIGN_OR_RETURN(to.header, dataset_->header(next_sample_));
    to.image_checksum = 0;
    DLPIPE_RETURN_IF_ERROR(check_record(to));
    const auto stored = records_->stored_record(next_sample_);
    if (!stored.ok()) return damaged(stored.status());
    to.stored.assign(stored->begin(), stored->end());
    ++next_sample_;
    return {};
  }

 private:
  PartReader(const PartDirectory& part, const PartFile::Split& split) : part_(&part), split_(&split) {}
  Status check_record(data::PackedRecord& to) {
    if (dataset_->links()) {
      const auto file = records_->linked_file(next_sample_);
      return file.ok() ? Status() : damaged(file.status());
    }
    const auto record = records_->record(next_sample_);
    if (!record.ok()) return damaged(record.status());
    if (!records_->is_intact(*record, to.header))
      return damaged(concat("sample ", next_sample_, " is not what its checksum says"));
    const auto image = data::image_checksum(*dataset_, *record);
    if (!image.ok()) return damaged(image.status());
    to.image_checksum = *image;
    return {};
  }
  Status damaged(std::string_view how) const {
    return {ErrorCode::kCorrupt, concat("[join] ", part_->name(), " is damaged: ", how,
                                        "; copy it again, or ingest this part again")};
  }
  Status damaged(const Status& status) const { return damaged(without_area(status.message())); }

  const PartDirectory* part_;
  const PartFile::Split* split_;
  std::shared_ptr<const data::Dataset> dataset_;
  std::unique_ptr<data::Dataset::Reader> records_;
  std::vector<data::Dataset::Skipped> skipped_;
  size_t next_skipped_ = 0;
  int64_t next_sample_ = 0;
};

struct JoinRun {
  const JoinOptions& options;
  const std::vector<PartDirectory>& parts;
  const std::function<void(const IngestProgress&)>& on_progress;
  IngestProgress progress = {};
  int64_t begin_ns = 0;
  int64_t reported_ns = 0;
  int64_t work_files = 0;
  data::StoredImages images = {};  // of this call, of datasets that aren't linked

  void report(bool now);
  Status check_stop() const;
};

void JoinRun::report(bool now) {
  constexpr int64_t kInterval_ns = 250'000'000;
  const int64_t at = now_ns();
  if (!on_progress || (!now && at - reported_ns < kInterval_ns)) return;
  reported_ns = at;
  progress.seconds = static_cast<double>(at - begin_ns) * 1e-9;
  progress.samples_per_s = static_cast<double>(work_files) / std::max(progress.seconds, 1e-9);
  progress.remaining_s =
      work_files > 0 ? static_cast<double>(progress.total - progress.done) / progress.samples_per_s : -1;
  progress.limiting = "write";
  on_progress(progress);
}

Status JoinRun::check_stop() const {
  if (!options.stop_requested || !options.stop_requested()) return {};
  return {ErrorCode::kCancelled, concat("[join] stopped after ", progress.done, " of ", progress.total,
                                        " files; run the same command again to go on")};
}

/// The entries of one part from `begin` on, of the split `number`, in the transactions of one ingest of all.
Status append_part(JoinRun& run, PartReader& part, uint64_t begin, size_t number,
                   data::DatasetWriter& writer) {
  const PartFile::Split& split = part.split();
  auto commit = std::upper_bound(split.commits.begin(), split.commits.end(), begin,
                                 [](uint64_t at, const PartFile::Commit& one) { return at < one.end; });
  part.go_to(begin);
  data::PackedRecord record;
  // The writer wants a transaction's sums, whichever of its records they come with.
  bool has_sums = false;
  for (uint64_t item = begin; item < split.range.end; ++item) {
    if (const data::Dataset::Skipped* skipped = part.skipped(item)) {
      DLPIPE_RETURN_IF_ERROR(writer.skip(item, skipped->path, skipped->reason));
      ++run.progress.skipped;
    } else {
      DLPIPE_RETURN_IF_ERROR(part.take(record));
      record.pixel_sums = has_sums ? data::PixelSums() : commit->sums;
      has_sums = true;
      run.images.add(number, writer.samples(), record.image_checksum);
      DLPIPE_RETURN_IF_ERROR(writer.add(record));
      run.progress.bytes_done += record.stored.size();
    }
    ++run.progress.done;
    ++run.work_files;
    if (item + 1 == commit->end) {
      const bool is_last = item + 1 == split.entries;
      if (is_last) DLPIPE_RETURN_IF_ERROR(writer.finish(item + 1));
      if (!is_last && commit->is_whole) DLPIPE_RETURN_IF_ERROR(writer.commit(item + 1));
      ++commit;
      has_sums = false;
    }
    run.report(false);
    DLPIPE_RETURN_IF_ERROR(run.check_stop());
  }
  return {};
}

data::Schema schema_of(const data::Dataset& dataset) {
  data::Schema schema;
  schema.fields.assign(dataset.fields().begin(), dataset.fields().end());
  schema.classes.assign(dataset.classes().begin(), dataset.classes().end());
  schema.records_per_value = dataset.records_per_value();
  schema.zstd = dataset.compressed();
  schema.links = dataset.links();
  schema.late_checksums = dataset.has_late_checksums();
  return schema;
}

Status join_split(JoinRun& run, size_t number, const Paths& paths) {
  const std::string& name = run.parts.front().file.splits[number].name;
  const std::string directory = paths.split(paths.partial, name);
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return status_from_errno("join", concat("cannot make ", directory), error.value());
  DLPIPE_RETURN_IF_ERROR(drop_unbegun_environment(directory));
  uint64_t map_bytes = 0;  // a part may have been given another one
  for (const PartDirectory& part : run.parts) map_bytes = std::max(map_bytes, part.file.map_bytes);
  std::unique_ptr<data::DatasetWriter> writer;
  run.progress.split = name;
  for (const PartDirectory& part : run.parts) {
    DLPIPE_ASSIGN_OR_RETURN(PartReader reader,
                            PartReader::open(part, paths.split(part.directory, name), number));
    if (writer == nullptr) {
      auto opened = data::DatasetWriter::open(directory, schema_of(reader.dataset()), map_bytes);
      if (!opened.ok())
        return opened.status().with_context(
            concat("[join] ", directory, " can't be continued; remove ", paths.partial, " to begin again: "));
      writer = *std::move(opened);
      const uint64_t done = writer->finished() ? part.file.splits[number].entries : writer->position();
      run.progress.done += static_cast<int64_t>(done);
      run.progress.skipped += static_cast<int64_t>(done) - writer->samples();
    }
    if (writer->finished()) return {};
    const PartRange range = reader.split().range;
    const uint64_t begin = std::max(range.begin, writer->position());
    if (begin < range.end) DLPIPE_RETURN_IF_ERROR(append_part(run, reader, begin, number, *writer));
  }
  if (writer->finished()) return sync_directory("ingest", directory);
  return {ErrorCode::kCorrupt, concat("[join] the parts of ", run.parts.front().name(),
                                      " don't reach the end of their list; ingest them again")};
}

/// What DST.partial was begun with; made where there is none.
Status check_begun(const Paths& paths, const PartFile& first) {
  const std::string note = concat(first.source, " ", first.list, " ", first.part.count, " ",
                                  has_links(first) ? first.options : comparable_options(first.options), "\n");
  if (!data::is_there(paths.list)) return formats::write_file(paths.list, note);
  DLPIPE_ASSIGN_OR_RETURN(const std::string was, formats::read_file(paths.list));
  if (was == note) return {};
  return misuse("join", paths.partial, " was begun with other parts; use those, or remove it to begin again");
}

Status check_space(const Paths& paths, const std::vector<PartDirectory>& parts) {
  uint64_t bytes = 0;
  for (const PartDirectory& part : parts) {
    for (const PartFile::Split& split : part.file.splits) {
      std::error_code ignored;
      const auto size = fs::file_size(concat(paths.split(part.directory, split.name), "/data.mdb"), ignored);
      if (!ignored) bytes += size;
    }
  }
  return check_free_space(paths.partial, bytes);
}

bool is_made_of(const Result<Provenance>& provenance, const PartFile& first) {
  return provenance.ok() && provenance->options == first.options && provenance->source == first.source &&
         provenance->files == first.files;
}

Result<IngestReport> joined_already(const Paths& paths, const PartFile& first) {
  const auto provenance = read_provenance(concat(paths.destination, "/", kProvenanceName));
  if (!is_made_of(provenance, first))
    return misuse("join", paths.destination,
                  " exists already, and is not made of these parts; remove it or choose another DST");
  data::PartialDirectory::forget(paths.destination);
  IngestReport report;
  report.already_complete = true;
  DLPIPE_RETURN_IF_ERROR(describe(paths, paths.destination, provenance->splits, report));
  return report;
}

Result<IngestReport> join_checked(const JoinOptions& options,
                                  const std::function<void(const IngestProgress&)>& progress) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<PartDirectory> parts, open_parts(options.parts));
  const PartFile& first = parts.front().file;
  const Paths paths(options.destination);
  if (data::is_there(paths.destination)) return joined_already(paths, first);

  DLPIPE_ASSIGN_OR_RETURN(auto partial, data::PartialDirectory::claim("join", paths.destination));
  IngestReport report;
  const bool is_sealed = data::is_there(paths.provenance) && !data::is_there(paths.list);
  report.resumed = is_sealed || data::is_there(paths.list);
  std::vector<std::string> names;
  for (const PartFile::Split& split : first.splits) names.push_back(split.name);
  if (!is_sealed) {
    JoinRun run{options, parts, progress};
    run.begin_ns = run.reported_ns = now_ns();
    run.progress.total = first.files;
    if (!partial.was_there()) {
      if (const Status space = check_space(paths, parts); !space.ok()) {
        DLPIPE_RETURN_IF_ERROR(partial.remove());
        return space;
      }
    }
    DLPIPE_RETURN_IF_ERROR(check_begun(paths, first));
    for (size_t split = 0; split < names.size(); ++split)
      DLPIPE_RETURN_IF_ERROR(join_split(run, split, paths));
    run.report(true);
    report.seconds = static_cast<double>(now_ns() - run.begin_ns) * 1e-9;
    report.stages = {{"write", report.seconds}};
    report.limiting = "write";
    report.warnings = first.warnings;
    DLPIPE_RETURN_IF_ERROR(
        find_duplicates("join", paths, paths.partial, names, run.images, options.on_warning, report));
    DLPIPE_RETURN_IF_ERROR(
        warn_of_no_validation("join", paths, paths.partial, names, options.on_warning, report));
    DLPIPE_RETURN_IF_ERROR(describe(paths, paths.partial, names, report));
    DLPIPE_RETURN_IF_ERROR(check_not_empty(partial, report));
    DLPIPE_RETURN_IF_ERROR(seal(paths, {first.options, first.source, first.files, {}}, report));
  } else {
    if (!is_made_of(read_provenance(paths.provenance), first))
      return misuse("join", paths.partial,
                    " holds what was joined of other parts; name those to publish it, or remove it");
    DLPIPE_RETURN_IF_ERROR(describe(paths, paths.partial, names, report));
  }
  DLPIPE_RETURN_IF_ERROR(partial.publish());
  return report;
}

}  // namespace

Result<IngestReport> join(const JoinOptions& options,
                          const std::function<void(const IngestProgress&)>& progress) {
  try {
    return join_checked(options, progress);
  } catch (...) {
    return status_from_current_exception("join");
  }
}

}  // namespace dlpipe::ingest
