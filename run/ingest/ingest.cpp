#include "dlpipe/ingest.h"
#include "run/ingest/options.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include "base/counters.h"
#include "base/file.h"
#include "base/messages.h"
#include "base/names.h"
#include "base/text.h"
#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "io/data/partial_directory.h"
#include "io/data/sources/bytes/remote.h"
#include "io/data/sources/bytes/scratch_file.h"
#include "io/data/sources/classes.h"
#include "io/data/sources/inputs/inputs.h"
#include "io/data/sources/source_file.h"
#include "io/formats/json.h"
#include "run/ingest/dedup.h"
#include "run/ingest/draw.h"
#include "run/ingest/freeze.h"
#include "run/ingest/frozen_list.h"
#include "run/ingest/image_worker.h"
#include "run/ingest/join.h"
#include "run/ingest/publish.h"
#include "run/ingest/split_writer.h"

namespace dlpipe::ingest {

using formats::Json;

static constexpr Named<Store> kStoreNames[] = {
    {"auto", Store::kAuto}, {"jpeg", Store::kJpeg}, {"raw", Store::kRaw}, {"link", Store::kLink}};
static constexpr Named<JpegLayout> kJpegNames[] = {{"auto", JpegLayout::kAuto},
                                                   {"standard", JpegLayout::kStandard},
                                                   {"restart", JpegLayout::kRestart},
                                                   {"coefficients", JpegLayout::kCoefficients},
                                                   {"coefficients-dense", JpegLayout::kDenseCoefficients}};
static constexpr Named<OnError> kOnErrorNames[] = {
    {"auto", OnError::kAuto}, {"skip", OnError::kSkip}, {"stop", OnError::kStop}};

static constexpr Named<Dedup> kDedupNames[] = {
    {"off", Dedup::kOff}, {"drop", Dedup::kDrop}, {"group", Dedup::kGroup}};

Result<Dedup> parse_dedup(const std::string& name) {
  return value_named(kDedupNames, name, "ingest", "--dedup");
}

Result<Store> parse_store(const std::string& name) {
  return value_named(kStoreNames, name, "ingest", "--store");
}

Result<JpegLayout> parse_jpeg_layout(const std::string& name) {
  return value_named(kJpegNames, name, "ingest", "--jpeg");
}

Result<OnError> parse_on_error(const std::string& name) {
  return value_named(kOnErrorNames, name, "ingest", "--on-error");
}

Result<std::array<uint8_t, 3>> parse_background(const std::string& text) {
  const std::string hex = text == "white" ? "#ffffff" : text == "black" ? "#000000" : text;
  std::array<uint8_t, 3> colour{};
  bool sane = hex.size() == 7 && hex[0] == '#';
  for (size_t i = 0; sane && i < 6; ++i) {
    const size_t digit = std::string_view("0123456789abcdef")
                             .find(static_cast<char>(std::tolower(static_cast<unsigned char>(hex[i + 1]))));
    sane = digit != std::string_view::npos;
    colour[i / 2] = static_cast<uint8_t>(colour[i / 2] * 16 + digit);
  }
  if (sane) return colour;
  return misuse("ingest", "--background ", printable(text), "; use white, black or a colour such as #ffcc00");
}

Result<std::vector<double>> parse_split(const std::string& text) {
  std::vector<double> fractions;
  double sum = 0;
  bool sane = true;
  for (const std::string& piece : split(text, ',')) {
    double value = 0;
    sane = sane && parse_double(trim(piece), &value) && value > 0 && value < 1;
    fractions.push_back(value);
    sum += value;
  }
  if (!sane || fractions.size() < 2 || fractions.size() > 3 || std::abs(sum - 1) > 1e-6)
    return misuse("ingest", "--split ", text,
                  "; give two or three fractions that sum to 1: 0.9,0.1 for train "
                  "and val, 0.8,0.1,0.1 for train, val and test");
  return fractions;
}

// Linked images are used unchanged, so options that would change them are refused.
static Status check_link(const IngestOptions& options) {
  if (options.store != Store::kLink)
    return options.late_checksums ? misuse("ingest", "late checksums are only for linked images") : Status();
  const bool keeps_jpegs = options.jpeg == JpegLayout::kAuto || options.jpeg == JpegLayout::kStandard;
  const char* other = !keeps_jpegs             ? "--jpeg"
                      : options.resize_max > 0 ? "--resize-max"
                      : options.zstd           ? "--zstd"
                      : options.background     ? "--background"
                                               : nullptr;
  if (other == nullptr) return {};
  return misuse("ingest", "--store link does not change the images; leave ", other, " or --store link out");
}

Status check_options(const IngestOptions& options) {
  const bool has_source = !options.list.empty() || !options.sources.empty();
  const bool has_empty =
      std::find(options.sources.begin(), options.sources.end(), "") != options.sources.end();
  if (!has_source || has_empty || options.destination.empty()) return misuse("ingest", "give SRC and DST");
  if (options.quality < 1 || options.quality > 100)
    return misuse("ingest", "--quality ", options.quality, "; use 1 to 100");
  if (options.resize_max < 0)
    return misuse("ingest", "--resize-max ", options.resize_max,
                  "; use a number of pixels, or 0 for no limit");
  DLPIPE_RETURN_IF_ERROR(check_link(options));
  DLPIPE_RETURN_IF_ERROR(check_limit(options.limit));
  constexpr int kMostFolds = 1000;
  if (options.folds != 0 && (options.folds < 2 || options.folds > kMostFolds))
    return misuse("ingest", "--folds ", options.folds, "; use 2 to ", kMostFolds);
  if (options.folds != 0 && !options.split.empty())
    return misuse(
        "ingest",
        "--folds numbers the samples of one dataset, and --split makes several; leave one of them out");
  if (options.dedup == Dedup::kGroup && options.split.empty() && options.folds == 0)
    return misuse("ingest",
                  "--dedup group keeps copies together in --split and --folds; add one of them, or use ",
                  "--dedup drop");
  if (options.jobs < 0 || options.jobs > 4096)
    return misuse("ingest", "--threads ", options.jobs, "; use 0 to 4096");
  if (options.max_pixels < 1) return misuse("ingest", "--max-pixels ", options.max_pixels, "; use 1 or more");
  if (options.commit_bytes == 0 || options.commit_entries < 1)
    return misuse("ingest", "the size of transactions is 0");
  constexpr uint64_t kSmallestMap = 1 << 20;
  if (options.map_bytes != 0 && options.map_bytes < kSmallestMap)
    return misuse("ingest", "--map-size ", human_bytes(options.map_bytes),
                  "; use at least 1M, or 0 to choose it automatically");
  return {};
}

std::string sources_text(const IngestOptions& options) {
  if (options.sources.empty()) return options.list;
  const size_t more = options.sources.size() - 1;
  return concat(printable(data::shown_address(options.sources[0])),
                more == 0 ? "" : concat(" and ", more, " more"));
}

std::string canonical_options(const IngestOptions& options) {
  std::error_code ignored;
  const auto absolute = [&](const std::string& path) {
    if (data::is_address(path)) return data::shown_address(path);
    return path.empty() || path == "-" ? path : std::filesystem::weakly_canonical(path, ignored).string();
  };
  Json sources = Json::array();
  for (const std::string& source : options.sources) sources.push_back(absolute(source));
  Json split = Json::array();
  for (const double fraction : options.split) split.push_back(fraction);
  Json json =
      Json::object({{"SRC", options.sources.size() == 1 ? Json(absolute(options.sources[0])) : sources},
                    {"--manifest", absolute(options.manifest)},
                    {"--classes-from", absolute(options.classes_from)},
                    {"--resize-max", options.resize_max},
                    {"--quality", options.quality},
                    {"--store", name_of(kStoreNames, options.store)},
                    {"--jpeg", name_of(kJpegNames, options.jpeg)},
                    {"--trust", options.trust},
                    {"--zstd", options.zstd},
                    {"--limit", options.limit},
                    {"--split", std::move(split)},
                    {"--no-splits", options.no_splits},
                    {"--length", options.length},
                    {"--seed", static_cast<int64_t>(options.seed)},
                    {"--max-pixels", options.max_pixels},
                    {"commit_bytes", static_cast<int64_t>(options.commit_bytes)},
                    {"commit_entries", options.commit_entries}});
  // Newer options are included only if given, so that runs of older versions compare as equal.
  if (!options.list.empty()) json.set("--list", absolute(options.list));
  if (!options.label.empty()) json.set("--label", options.label);
  if (!options.fields.empty())
    json.set("--field", Json(Json::Array(options.fields.begin(), options.fields.end())));
  if (!options.labels.empty()) json.set("--labels", absolute(options.labels));
  if (options.background) {
    const auto& [red, green, blue] = *options.background;
    json.set("--background", concat(int{red}, ",", int{green}, ",", int{blue}));
  }
  if (options.late_checksums) json.set("late_checksums", true);
  if (!options.group.empty()) json.set("--group", options.group);
  if (options.folds != 0) json.set("--folds", options.folds);
  if (!options.images.empty()) json.set("--images", absolute(options.images));
  if (options.dedup != Dedup::kOff) json.set("--dedup", name_of(kDedupNames, options.dedup));
  if (options.part) json.set("--part", concat(options.part->number, "/", options.part->count));
  return json.dump();
}

// The value as a user types it: 0.9,0.1, not [0.9,0.1].
static std::string typed(const Json& value) {
  std::string text;
  for (const Json& item : value.items()) text += concat(text.empty() ? "" : ",", item.dump());
  if (value.is_array()) return text.empty() ? "not set" : text;
  return value == Json("") || value == Json(int64_t{-1}) ? "not set" : value.dump();  // -1: all
}

std::string first_difference(const std::string& was, const std::string& is) {
  if (was == is) return {};
  const Result<Json> before = Json::parse(was);
  const Result<Json> after = Json::parse(is);
  if (!before.ok() || !after.ok() || !before->is_object()) return "options that can't be read";
  for (const auto& [name, value] : after->members()) {
    const bool is_off = value == Json(false);  // newer flags were off in older versions
    if (!before->contains(name) && is_off) continue;
    if (!before->contains(name)) return concat(name, " not set, now ", typed(value));
    if ((*before)[name] != value) return concat(name, " ", typed((*before)[name]), ", now ", typed(value));
  }
  for (const auto& [name, value] : before->members()) {
    if (!after->contains(name)) return concat(name, " ", typed(value), ", now not set");
  }
  return {};
}

namespace {

namespace fs = std::filesystem;

Status make_directory(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (!error) return {};
  return status_from_errno("ingest", concat("cannot create ", directory), error.value());
}

// kMisuse if DST is inside SRC, where the listing would find it as one more class. SRC includes the places that the lines of
// --list and the patterns in SRC expand to.
Status check_places(const IngestOptions& options, const Paths& paths) {
  std::vector<std::string> places = options.sources;
  if (options.manifest.empty()) {
    DLPIPE_ASSIGN_OR_RETURN(const data::SourceInputs all,
                            data::expand_inputs(options.sources, options.list, !options.no_splits));
    for (const data::SourceInput& input : all.inputs) {
      if (input.address.empty()) places.push_back(input.path);
    }
  }
  std::error_code ignored;
  const fs::path destination = fs::weakly_canonical(paths.destination, ignored);
  for (const std::string& given : places) {
    const fs::path source = fs::weakly_canonical(given, ignored);
    const auto [end, unused] =
        std::mismatch(source.begin(), source.end(), destination.begin(), destination.end());
    if (source == destination)
      return misuse("ingest", paths.destination, " is both SRC and DST; choose another DST, outside of SRC");
    if (end == source.end() && fs::is_directory(source, ignored))
      return misuse("ingest", paths.destination, " is inside ", printable(given),
                    "; choose a DST outside of SRC");
  }
  return {};
}

data::SourceOptions source_options(const IngestOptions& options, const Paths& paths) {
  data::SourceOptions source;
  source.manifest = options.manifest;
  source.length = options.length;
  source.splits = !options.no_splits;
  source.label = options.label;
  source.labels = options.labels;
  source.images = options.images;
  source.fields = options.fields;
  source.max_pixels = options.max_pixels;
  source.scratch = std::make_shared<data::ScratchSpace>(folder_of(paths.destination));
  source.known = options.known_sources;
  source.stop_requested = options.stop_requested;
  return source;
}

// Error if SRC now contains other files than those that DST was made from.
Status check_same_files(const IngestOptions& options, const Paths& paths, const Provenance& provenance,
                        data::Source& source) {
  if (provenance.source.empty()) return {};
  DLPIPE_ASSIGN_OR_RETURN(data::SourceListing listing, source.list());
  DLPIPE_ASSIGN_OR_RETURN(const FrozenList now, freeze(options, source, std::move(listing)));
  if (source_hash(now) == provenance.source) return {};
  return misuse("ingest", paths.destination, " already exists, made from ",
                provenance.files == now.entry_count()
                    ? concat("other files than ", sources_text(options), " contains now")
                    : concat(counted(provenance.files, "file"), "; ", sources_text(options), " holds ",
                             now.entry_count(), " now"),
                "; remove it or choose another DST");
}

// Called if DST exists, which is ok if the same command made it, for example if that was killed after its last rename.
Result<IngestReport> already_there(const IngestOptions& options, const Paths& paths, data::Source& source) {
  const auto provenance = read_provenance(concat(paths.destination, "/", kProvenanceName));
  const std::string difference = provenance.ok()
                                     ? first_difference(provenance->options, canonical_options(options))
                                     : "it is not a dataset";
  if (!difference.empty())
    return misuse("ingest", paths.destination, " already exists (", difference,
                  "); remove it or choose another DST");
  DLPIPE_RETURN_IF_ERROR(check_same_files(options, paths, *provenance, source));
  data::PartialDirectory::forget(paths.destination);
  IngestReport report;
  report.already_complete = true;
  report.files_compared = !provenance->source.empty();
  DLPIPE_RETURN_IF_ERROR(describe(paths, paths.destination, provenance->splits, report));
  return report;
}

Status check_same_options(const Paths& paths, const std::string& was, const std::string& is) {
  const std::string difference = first_difference(was, is);
  if (difference.empty()) return {};
  return misuse("ingest", paths.partial, " was started with other options: ", difference,
                "; use those, or remove it to start over");
}

// Reports errors that would end the ingest before anything is stored: a bad file with --on-error stop and, unless errors are
// skipped, a truncated archive, which may have lost nearly all of its files.
Status check_readable(const IngestOptions& options, const data::SourceListing& listing) {
  if (options.on_error == OnError::kSkip) return {};
  for (const data::SourceEntry& entry : listing.entries) {
    if (entry.is_rest && !entry.problem.empty())
      return Status(ErrorCode::kCorrupt, concat("[ingest] ", printable(entry.path), ": ", entry.problem,
                                                "; to continue without the lost files, add --on-error skip"));
    if (options.on_error == OnError::kAuto) continue;
    if (!entry.problem.empty())
      return bad_file_error("ingest", printable(entry.path), Status(ErrorCode::kUnsupported, entry.problem));
  }
  return {};
}

// The frozen list of the resumed run, or a new one. Both are read from the file, so that both runs continue from the same bytes.
Result<FrozenList> take_list(const IngestOptions& options, const Paths& paths, data::Source& source,
                             const std::function<void(const IngestProgress&)>& progress) {
  const bool resumed = data::is_there(paths.list);
  if (resumed) {
    DLPIPE_ASSIGN_OR_RETURN(FrozenList list, load_list(paths.list));
    DLPIPE_RETURN_IF_ERROR(check_same_options(paths, list.options, canonical_options(options)));
    DLPIPE_ASSIGN_OR_RETURN(const data::SourceListing now, source.list());
    DLPIPE_RETURN_IF_ERROR(check_readable(options, now));
    DLPIPE_RETURN_IF_ERROR(compare_with_source(list, now, options));
    return list;
  }
  DLPIPE_ASSIGN_OR_RETURN(data::SourceListing listing, source.list());
  DLPIPE_RETURN_IF_ERROR(check_readable(options, listing));
  DLPIPE_RETURN_IF_ERROR(data::check_class_names(listing, sources_text(options)));
  DLPIPE_ASSIGN_OR_RETURN(const FrozenList list, freeze(options, source, std::move(listing), progress));
  if (options.part) DLPIPE_RETURN_IF_ERROR(check_part(*options.part, list));
  const auto parts = static_cast<uint64_t>(options.part ? options.part->count : 1);
  DLPIPE_RETURN_IF_ERROR(check_free_space(paths.partial, list.estimated_bytes / parts));
  DLPIPE_RETURN_IF_ERROR(save_list(list, paths.list));
  return load_list(paths.list);
}

void fill_stages(const IngestRun& run, IngestReport& report) {
  const auto seconds = [](int64_t ns) { return static_cast<double>(ns) * 1e-9; };
  report.stages = {{"read", seconds(run.counters.read_ns.value())},
                   {"decode", seconds(run.counters.decode_ns.value())},
                   {"encode", seconds(run.counters.encode_ns.value())},
                   {"write", seconds(run.write_ns)}};
  report.seconds = seconds(now_ns() - run.begin_ns);
  report.limiting = run.limiting();
}

/// The advice for copies in several splits or folds.
std::string cure(const IngestOptions& options) {
  if (options.late_checksums || options.dedup != Dedup::kOff)  // training has no --dedup
    return "remove the copies";
  if (options.split.empty() && options.folds == 0)
    return "repeat the command with another DST and --dedup drop, which stores only one of them";
  return concat("repeat the command with another DST and --dedup group, which keeps them in one ",
                options.folds > 0 ? "fold" : "split", ", or --dedup drop, which stores only one of them");
}

Status fill(const IngestOptions& options, const Paths& paths, const data::Source& source,
            const FrozenList& list, const std::function<void(const IngestProgress&)>& progress,
            IngestReport& report) {
  IngestRun run{options, source, list, progress};
  run.begin_ns = run.reported_ns = now_ns();
  run.progress.total = list.entry_count();
  std::optional<PartNotes> part;
  if (options.part) {
    DLPIPE_ASSIGN_OR_RETURN(part, PartNotes::begin(options, list, concat(paths.partial, "/", kPartName)));
    run.part = &*part;
    run.progress.total = part->entry_count();
  }
  std::vector<std::string> names;
  for (const FrozenSplit& split : list.splits) {
    const std::string directory = paths.split(paths.partial, split.name);
    DLPIPE_RETURN_IF_ERROR(make_directory(directory));
    DLPIPE_RETURN_IF_ERROR(write_split(run, split, directory));
    DLPIPE_RETURN_IF_ERROR(sync_directory("ingest", directory));
    names.push_back(split.name);
  }
  run.report(true);
  fill_stages(run, report);
  report.warnings = list.warnings;
  DLPIPE_RETURN_IF_ERROR(find_duplicates({"ingest", run.looks() ? worker_threads(options) : 0, cure(options)},
                                         paths, paths.partial, names, run.images, options.on_warning,
                                         report));
  if (!options.part &&
      !options.late_checksums)  // for parts, join reports it; for linked images, training does
    warn_of_no_validation("ingest", paths, names, options.on_warning, report);
  return describe(paths, paths.partial, names, report);
}

Result<IngestReport> finish_sealed(const IngestOptions& options, const Paths& paths,
                                   data::PartialDirectory& partial) {
  DLPIPE_ASSIGN_OR_RETURN(const Provenance provenance, read_provenance(paths.provenance));
  DLPIPE_RETURN_IF_ERROR(check_same_options(paths, provenance.options, canonical_options(options)));
  IngestReport report;
  report.resumed = true;
  DLPIPE_RETURN_IF_ERROR(describe(paths, paths.partial, provenance.splits, report));
  DLPIPE_RETURN_IF_ERROR(partial.publish());
  return report;
}

Result<IngestReport> ingest_checked(const IngestOptions& options,
                                    const std::function<void(const IngestProgress&)>& progress) {
  DLPIPE_RETURN_IF_ERROR(check_options(options));
  const Paths paths(options.destination);
  DLPIPE_ASSIGN_OR_RETURN(const auto source,
                          data::open_sources(options.sources, options.list, source_options(options, paths)));
  DLPIPE_RETURN_IF_ERROR(check_places(options, paths));
  if (data::is_there(paths.destination)) return already_there(options, paths, *source);

  DLPIPE_ASSIGN_OR_RETURN(auto partial, data::PartialDirectory::claim("ingest", paths.destination));
  if (data::is_there(paths.provenance) && !data::is_there(paths.list))
    return finish_sealed(options, paths, partial);
  IngestReport report;
  report.resumed = data::is_there(paths.list);
  const auto list = take_list(options, paths, *source, progress);
  if (!list.ok()) {
    if (!partial.was_there()) DLPIPE_RETURN_IF_ERROR(partial.remove());  // nothing was frozen
    return list.status();
  }
  if (options.on_warning) {
    for (const std::string& warning : list->warnings) options.on_warning(warning);
  }
  DLPIPE_RETURN_IF_ERROR(fill(options, paths, *source, *list, progress, report));
  if (!options.part)
    DLPIPE_RETURN_IF_ERROR(check_not_empty(partial, report));  // in a part, all files may be corrupt
  DLPIPE_RETURN_IF_ERROR(seal(paths, {list->options, source_hash(*list), list->entry_count(), {}}, report));
  DLPIPE_RETURN_IF_ERROR(partial.publish());
  return report;
}

}  // namespace

Result<IngestReport> ingest(const IngestOptions& options,
                            const std::function<void(const IngestProgress&)>& progress) {
  try {
    return ingest_checked(options, progress);
  } catch (...) {
    return status_from_current_exception("ingest");
  }
}

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

/// "HEIC" if a file was skipped because of its format; else "".
static std::string foreign_format(const std::string& reason) {
  const size_t at = reason.find(data::kNoDecoder);
  if (at == std::string::npos) return {};
  const size_t begin = at + data::kNoDecoder.size();
  return reason.substr(begin, reason.find(" images", begin) - begin);
}

std::string skipped_text(const IngestReport& report) {
  if (report.skipped.empty()) return {};
  constexpr size_t kShown = 20;
  std::string text = concat(counted(static_cast<int64_t>(report.skipped.size()), "file"), " skipped:");
  const auto copies = std::ranges::count_if(
      report.skipped, [](const SkippedFile& file) { return file.reason.starts_with(kCopyOf); });
  if (copies > 0) text += concat("\n  ", counted(copies, "copy", "copies"), ": --dedup drop");
  // Several files of one foreign format share a line.
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
    if (file.reason.starts_with(kCopyOf)) continue;
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
