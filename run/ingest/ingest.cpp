#include "dlpipe/run/ingest/ingest.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "dlpipe/base/aside_file.h"
#include "dlpipe/base/counter.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/partial_directory.h"
#include "dlpipe/io/data/sources/bytes/scratch_file.h"
#include "dlpipe/io/data/sources/inputs/inputs.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/run/ingest/freeze.h"
#include "dlpipe/run/ingest/frozen_list.h"
#include "dlpipe/run/ingest/image_worker.h"
#include "dlpipe/run/ingest/options.h"
#include "dlpipe/run/ingest/part.h"
#include "dlpipe/run/ingest/publish.h"
#include "dlpipe/run/ingest/split_writer.h"

namespace dlpipe::ingest {

namespace {

namespace fs = std::filesystem;

Status make_directory(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (!error) return {};
  return status_from_errno("ingest", concat("cannot make ", directory), error.value());
}

// DST inside SRC would be found by the listing as one more class. What the lines of --list and the patterns in SRC stand
// for counts, too.
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
      return misuse("ingest", paths.destination, " lies inside ", printable(given),
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

// Error where SRC holds other files now than those that DST was made of.
Status check_same_files(const IngestOptions& options, const Paths& paths, const Provenance& provenance,
                        data::Source& source) {
  if (provenance.source.empty()) return {};
  DLPIPE_ASSIGN_OR_RETURN(data::SourceListing listing, source.list());
  DLPIPE_ASSIGN_OR_RETURN(const FrozenList now, freeze(options, source, std::move(listing)));
  if (source_hash(now) == provenance.source) return {};
  return misuse(
      "ingest", paths.destination, " exists already, made of ",
      provenance.files == now.entry_count()
          ? concat("other files than ", sources_text(options), " holds now")
          : concat(provenance.files, " files; ", sources_text(options), " holds ", now.entry_count(), " now"),
      "; remove it or choose another DST");
}

// DST is there: fine if this very command made it, which was then killed after its last rename.
Result<IngestReport> already_there(const IngestOptions& options, const Paths& paths, data::Source& source) {
  const auto provenance = read_provenance(concat(paths.destination, "/", kProvenanceName));
  const std::string difference = provenance.ok()
                                     ? first_difference(provenance->options, canonical_options(options))
                                     : "it is no dataset";
  if (!difference.empty())
    return misuse("ingest", paths.destination, " exists already (", difference,
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
  return misuse("ingest", paths.partial, " was begun with other options: ", difference,
                "; use those, or remove it to begin again");
}

// What is known to end the ingest is said before anything is stored: a bad file with --on-error stop, and without a word
// about it an archive that ends too early, which may have lost nearly everything.
Status check_readable(const IngestOptions& options, const data::SourceListing& listing) {
  if (options.on_error == OnError::kSkip) return {};
  for (const data::SourceEntry& entry : listing.entries) {
    if (entry.is_rest && !entry.problem.empty())
      return Status(ErrorCode::kCorrupt, concat("[ingest] ", printable(entry.path), ": ", entry.problem,
                                                "; to do without what is lost, add --on-error skip"));
    if (options.on_error == OnError::kAuto) continue;
    if (!entry.problem.empty())
      return bad_file_error("ingest", printable(entry.path), Status(ErrorCode::kUnsupported, entry.problem));
  }
  return {};
}

// The frozen list: of the run that is being continued, or made now. Both are read back from the file, so
// that both runs go on from the same bytes.
Result<FrozenList> take_list(const IngestOptions& options, const Paths& paths, data::Source& source) {
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
  DLPIPE_ASSIGN_OR_RETURN(const FrozenList list, freeze(options, source, std::move(listing)));
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
  DLPIPE_RETURN_IF_ERROR(
      find_duplicates("ingest", paths, paths.partial, names, run.images, options.on_warning, report));
  if (!options.part && !options.late_checksums)  // of parts a join says it, of linked pictures the training
    DLPIPE_RETURN_IF_ERROR(
        warn_of_no_validation("ingest", paths, paths.partial, names, options.on_warning, report));
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
  const auto list = take_list(options, paths, *source);
  if (!list.ok()) {
    if (!partial.was_there()) DLPIPE_RETURN_IF_ERROR(partial.remove());  // nothing was frozen
    return list.status();
  }
  if (options.on_warning) {
    for (const std::string& warning : list->warnings) options.on_warning(warning);
  }
  DLPIPE_RETURN_IF_ERROR(fill(options, paths, *source, *list, progress, report));
  if (!options.part)
    DLPIPE_RETURN_IF_ERROR(check_not_empty(partial, report));  // of parts all files may be damaged
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

}  // namespace dlpipe::ingest
