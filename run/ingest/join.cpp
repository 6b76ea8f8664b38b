#include "run/ingest/join.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "base/counters.h"
#include "base/file.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "dlpipe/ingest.h"
#include "io/data/dataset_writer.h"
#include "io/data/partial_directory.h"
#include "io/data/schema.h"
#include "io/data/sources/source_file.h"
#include "io/formats/atomic_file.h"
#include "io/formats/json.h"
#include "run/ingest/freeze.h"
#include "run/ingest/options.h"
#include "run/ingest/publish.h"

namespace dlpipe::ingest {

namespace {

using formats::Json;

constexpr int64_t kPartVersion = 1;
constexpr size_t kSums = 8;

std::string hash_of(std::string_view text) {
  return hex64(data::checksum64(std::as_bytes(std::span(text))));
}

/// Pixel sums as JSON integers. Like DatasetWriter's own, they are limited to 2^63, which is enough for 10^14 pixels.
Json json_of(const PartFile::Commit& commit) {
  const data::PixelSums& s = commit.sums;
  Json json = Json::array();
  json.push_back(static_cast<int64_t>(commit.end));
  json.push_back(commit.is_whole);
  for (const uint64_t value : {s.pixels, s.color_pixels, s.sum[0], s.sum[1], s.sum[2], s.sum_of_squares[0],
                               s.sum_of_squares[1], s.sum_of_squares[2]})
    json.push_back(static_cast<int64_t>(value));
  return json;
}

PartFile::Commit commit_of(const Json& json) {
  const Json::Array& items = json.items();
  if (items.size() != 2 + kSums) return {};
  std::array<uint64_t, kSums> n{};
  for (size_t i = 0; i < kSums; ++i) n[i] = static_cast<uint64_t>(items[2 + i].as_int());
  return {static_cast<uint64_t>(items[0].as_int()),
          items[1].as_bool(),
          {n[0], n[1], {n[2], n[3], n[4]}, {n[5], n[6], n[7]}}};
}

Json json_of(const PartFile& part) {
  Json warnings = Json::array();
  for (const std::string& warning : part.warnings) warnings.push_back(warning);
  Json splits = Json::array();
  for (const PartFile::Split& split : part.splits) {
    Json commits = Json::array();
    for (const PartFile::Commit& commit : split.commits) commits.push_back(json_of(commit));
    splits.push_back(Json::object({{"name", split.name},
                                   {"entries", static_cast<int64_t>(split.entries)},
                                   {"begin", static_cast<int64_t>(split.range.begin)},
                                   {"end", static_cast<int64_t>(split.range.end)},
                                   {"commits", std::move(commits)}}));
  }
  return Json::object({{"format", "dlpipe-part"},
                       {"version", kPartVersion},
                       {"part", part.part.number},
                       {"parts", part.part.count},
                       {"options", part.options},
                       {"source", part.source},
                       {"list", part.list},
                       {"map_bytes", static_cast<int64_t>(part.map_bytes)},
                       {"files", part.files},
                       {"warnings", std::move(warnings)},
                       {"splits", std::move(splits)}});
}

/// A hash of the list's properties besides options and files: the schema, how records are packed, and where transactions end.
std::string list_hash(const IngestOptions& options, const FrozenList& list) {
  data::DatasetInfo info;
  info.schema = list.schema;
  info.schema.links.reset();  // this is SRC, which is in the options
  info.class_counts.resize(list.schema.classes.size());
  std::string text = data::to_json(info);
  for (const FrozenSplit& split : list.splits) {
    for (const uint64_t end : list.borders(split, options.commit_bytes, options.commit_entries))
      text += concat(" ", end);
    text += "\n";
  }
  return hash_of(text);
}

}  // namespace

PartRange range_of(const Part& part, uint64_t entries) {
  const auto number = static_cast<uint64_t>(part.number), count = static_cast<uint64_t>(part.count);
  return {entries * (number - 1) / count, entries * number / count};
}

std::string part_text(const Part& part) {
  return concat(part.number, "/", part.count);
}

Result<Part> parse_part(const std::string& text) {
  const std::vector<std::string> pieces = split(text, '/');
  Part part;
  const bool is_sane = pieces.size() == 2 && parse_int(pieces[0], &part.number) &&
                       parse_int(pieces[1], &part.count) && part.number >= 1 && part.number <= part.count &&
                       part.count <= kMostParts;
  if (is_sane) return part;
  return misuse("ingest", "--part ", printable(text),
                "; give its number and the number of parts, such as 3/16: 1/16 to ", "16/16, and at most ",
                kMostParts);
}

Status check_part(const Part& part, const FrozenList& list) {
  if (part.count <= list.entry_count()) return {};
  return misuse("ingest", "--part ", part_text(part), ", but there are only ", list.entry_count(),
                " files; make at most that many parts");
}

Status save_part(const PartFile& part, const std::string& file) {
  Json json = json_of(part);
  json.set("checksum", hash_of(json.dump()));
  return formats::write_file(file, json.dump(1) + "\n");
}

Result<PartFile> load_part(const std::string& file) {
  DLPIPE_ASSIGN_OR_RETURN(Json json, formats::read_json(file));
  const Status damaged(ErrorCode::kCorrupt, concat("[ingest] ", file, " is corrupt; ingest this part again"));
  if (json["format"].as_string() != "dlpipe-part") return damaged;
  if (json["version"].as_int() != kPartVersion)
    return Status(ErrorCode::kUnsupported,
                  concat("[ingest] ", file, " has version ", json["version"].as_int(),
                         "; this dlpipe reads version ", kPartVersion));
  PartFile part;
  part.part = {json["part"].as_int(), json["parts"].as_int()};
  part.options = json["options"].as_string();
  part.source = json["source"].as_string();
  part.list = json["list"].as_string();
  part.map_bytes = static_cast<uint64_t>(json["map_bytes"].as_int());
  part.files = json["files"].as_int();
  for (const Json& warning : json["warnings"].items()) part.warnings.push_back(warning.as_string());
  for (const Json& split : json["splits"].items()) {
    PartFile::Split& one = part.splits.emplace_back();
    one.name = split["name"].as_string();
    one.entries = static_cast<uint64_t>(split["entries"].as_int());
    one.range = {static_cast<uint64_t>(split["begin"].as_int()),
                 static_cast<uint64_t>(split["end"].as_int())};
    for (const Json& commit : split["commits"].items()) one.commits.push_back(commit_of(commit));
  }
  if (json["checksum"].as_string() != hash_of(json_of(part).dump())) return damaged;
  return part;
}

Result<PartNotes> PartNotes::begin(const IngestOptions& options, const FrozenList& list, std::string file) {
  PartNotes notes;
  notes.file_ = std::move(file);
  if (std::error_code ignored; std::filesystem::exists(notes.file_, ignored)) {
    DLPIPE_ASSIGN_OR_RETURN(notes.part_, load_part(notes.file_));
    return notes;
  }
  const Part part = *options.part;
  IngestOptions whole = options;
  whole.part.reset();
  notes.part_ = {.part = part,
                 .options = canonical_options(whole),
                 .source = source_hash(list),
                 .list = list_hash(options, list),
                 .map_bytes = list.map_bytes,
                 .files = list.entry_count(),
                 .warnings = list.warnings,
                 .splits = {}};
  for (const FrozenSplit& split : list.splits) {
    notes.part_.splits.push_back(
        {split.name, split.entries.size(), range_of(part, split.entries.size()), {}});
  }
  return notes;
}

PartFile::Split& PartNotes::find(const std::string& split) {
  return *std::find_if(part_.splits.begin(), part_.splits.end(),
                       [&](const PartFile::Split& one) { return one.name == split; });
}

PartRange PartNotes::range(const std::string& split) {
  return find(split).range;
}

int64_t PartNotes::entry_count() const {
  int64_t count = 0;
  for (const PartFile::Split& split : part_.splits)
    count += static_cast<int64_t>(split.range.end - split.range.begin);
  return count;
}

void PartNotes::go_on(const std::string& split, uint64_t position) {
  std::erase_if(find(split).commits, [&](const PartFile::Commit& commit) { return commit.end > position; });
}

Status PartNotes::note(const std::string& split, const PartFile::Commit& commit) {
  find(split).commits.push_back(commit);
  return save_part(part_, file_);
}

namespace {

namespace fs = std::filesystem;

/// A part on disk.
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
                         is_begun ? ", only an unfinished one; run its ingest again" : ""));
  }
  if (directory.ends_with(".partial"))
    return misuse("join", printable(directory), " is unfinished; run its ingest again");
  const std::string file = concat(directory, "/", kPartName);
  if (!data::is_there(file))
    return misuse("join", printable(directory), " is not a part of an ingest: it has no ", kPartName,
                  "; make parts with `dlpipe ingest SRC PART --part 1/16`");
  auto part = load_part(file);
  if (!part.ok()) return part.status();
  return PartDirectory{std::move(directory), *std::move(part)};
}

/// The options without paths of the machine that made a part.
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

/// kMisuse if `other` does not belong to the same ingest as `first`.
Status compare_parts(const PartDirectory& first, const PartDirectory& other) {
  const auto differ = [&](std::string_view how) {
    return misuse("join", first.name(), " and ", other.name(), " do not belong to the same ingest: ", how);
  };
  if (first.file.part.count != other.file.part.count) return differ("the number of parts differs");
  const std::string difference =
      first_difference(comparable_options(first.file.options), comparable_options(other.file.options));
  if (!difference.empty()) return differ(difference);
  if (has_links(first.file)) {
    const std::string place = first_difference(first.file.options, other.file.options);
    if (!place.empty()) return differ(concat(place, "; links of all parts must lead to the same place"));
  }
  if (first.file.source != other.file.source || first.file.files != other.file.files)
    return differ("their source files or the files' sizes differ");
  if (first.file.list != other.file.list)
    return differ(
        "they estimated the sizes of some files differently, because one machine could not read these files");
  return {};
}

/// The parts sorted by number. Checks that they are complete and belong to one ingest.
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
                  " missing: ", quoted_names(missing), "; give all parts of the ingest");
  return parts;
}

/// Iterates over a part's split, entry by entry.
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
      return reader.damaged("its contents do not match its part.json");
    return reader;
  }

  const PartFile::Split& split() const { return *split_; }
  const data::Dataset& dataset() const { return *dataset_; }
  /// Makes `item` the next entry.
  void go_to(uint64_t item) {
    const auto place =
        std::lower_bound(skipped_.begin(), skipped_.end(), item,
                         [](const data::Dataset::Skipped& one, uint64_t at) { return one.place < at; });
    next_skipped_ = static_cast<size_t>(place - skipped_.begin());
    next_sample_ = static_cast<int64_t>(item - split_->range.begin - next_skipped_);
  }
  /// The file that was skipped at `item`, which must be the next entry; null if the entry is a record.
  const data::Dataset::Skipped* skipped(uint64_t item) {
    if (next_skipped_ == skipped_.size() || skipped_[next_skipped_].place != item) return nullptr;
    return &skipped_[next_skipped_++];
  }
  /// Reads the next record as stored and checks its checksum. For a link, only checks that it is one: the image's user checks the
  /// rest. Does not set pixel sums.
  Status take(data::PackedRecord& to) {
    if (next_sample_ >= dataset_->size()) return damaged("its contents do not match its part.json");
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
      return damaged(concat("sample ", next_sample_, " does not match its checksum"));
    const auto image = data::image_checksum(*dataset_, *record);
    if (!image.ok()) return damaged(image.status());
    to.image_checksum = *image;
    return {};
  }
  Status damaged(std::string_view how) const {
    return {ErrorCode::kCorrupt, concat("[join] ", part_->name(), " is corrupt: ", how,
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
  data::StoredImages images = {};  // added by this call, without linked images

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
  return {ErrorCode::kCancelled,
          concat("[join] stopped after ", progress.done, " of ", counted(progress.total, "file"),
                 "; run the same command again to continue")};
}

/// Appends the entries of one part from `begin` on to the split `number`, in the transactions of a single ingest.
Status append_part(JoinRun& run, PartReader& part, uint64_t begin, size_t number,
                   data::DatasetWriter& writer) {
  const PartFile::Split& split = part.split();
  auto commit = std::upper_bound(split.commits.begin(), split.commits.end(), begin,
                                 [](uint64_t at, const PartFile::Commit& one) { return at < one.end; });
  part.go_to(begin);
  data::PackedRecord record;
  // The writer needs the sums of each transaction; any of its records may carry them.
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
  if (error) return status_from_errno("join", concat("cannot create ", directory), error.value());
  DLPIPE_RETURN_IF_ERROR(drop_unbegun_environment(directory));
  uint64_t map_bytes = 0;  // parts may have different ones
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
            concat("[join] ", directory, " can't be continued; remove ", paths.partial, " to start over: "));
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
                                      " do not reach the end of their list; ingest them again")};
}

/// Checks that DST.partial was begun with the same parts; notes them if it is new.
Status check_begun(const Paths& paths, const PartFile& first) {
  const std::string note = concat(first.source, " ", first.list, " ", first.part.count, " ",
                                  has_links(first) ? first.options : comparable_options(first.options), "\n");
  if (!data::is_there(paths.list)) return formats::write_file(paths.list, note);
  DLPIPE_ASSIGN_OR_RETURN(const std::string was, formats::read_file(paths.list));
  if (was == note) return {};
  return misuse("join", paths.partial,
                " was started with other parts; use those, or remove it to start over");
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
                  " already exists and was not made from these parts; remove it or choose another DST");
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
        find_duplicates({"join"}, paths, paths.partial, names, run.images, options.on_warning, report));
    warn_of_no_validation("join", paths, names, options.on_warning, report);
    DLPIPE_RETURN_IF_ERROR(describe(paths, paths.partial, names, report));
    DLPIPE_RETURN_IF_ERROR(check_not_empty(partial, report));
    DLPIPE_RETURN_IF_ERROR(seal(paths, {first.options, first.source, first.files, {}}, report));
  } else {
    if (!is_made_of(read_provenance(paths.provenance), first))
      return misuse("join", paths.partial,
                    " contains the result of joining other parts; give those to finish it, or remove it");
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
