// The environments that samples end in: opened, committed, finished, and renamed to DST.
#include <algorithm>
#include <filesystem>

#include "dlpipe/base/aside_file.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/run/ingest/sample_writer_impl.h"

namespace dlpipe::ingest {

namespace {

namespace fs = std::filesystem;

/// Nobody knows how much will come, and what is asked for is address space only.
constexpr uint64_t kMapBytes = uint64_t{1} << 40;

}  // namespace

Status SampleWriter::Impl::open_writer(Split& split) {
  const std::string directory = paths.split(paths.partial, split.name);
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return status_from_errno("writer", concat("cannot make ", directory), error.value());
  DLPIPE_RETURN_IF_ERROR(drop_unbegun_environment(directory));
  const uint64_t map_bytes = options.ingest.map_bytes != 0 ? options.ingest.map_bytes : kMapBytes;
  DLPIPE_ASSIGN_OR_RETURN(split.writer, data::DatasetWriter::open(directory, state.schema, map_bytes));
  const bool is_named = std::ranges::find(state.splits, split.name) != state.splits.end();
  if (!is_named) state.splits.push_back(split.name);
  return {};
}

static Status no_sample_of(const std::string& split) {
  return misuse("writer", "no sample came for the split '", printable(split),
                "', which the interrupted writer had; add them, or begin again with interrupted 'restart'");
}

Status SampleWriter::Impl::save() {
  if (is_saved && saved == state) return {};
  DLPIPE_RETURN_IF_ERROR(save_state(state, paths.list));
  saved = state;
  is_saved = true;
  return {};
}

Status SampleWriter::Impl::commit(uint64_t position) {
  DLPIPE_RETURN_IF_ERROR(save());
  for (Split& split : splits) {
    if (!split.writer || split.done >= position) continue;
    DLPIPE_RETURN_IF_ERROR(split.writer->commit(position));
    split.done = position;
  }
  return {};
}

Status SampleWriter::Impl::finish_splits() {
  DLPIPE_RETURN_IF_ERROR(turn());
  DLPIPE_RETURN_IF_ERROR(drain());
  if (next == 0) return misuse("writer", "no sample was added; nothing is made");
  if (state.total >= 0 && next < static_cast<uint64_t>(state.total))
    return misuse("writer", "the interrupted writer had ended after ", state.total,
                  " samples, this one after ", next,
                  "; add the others, or begin again with interrupted 'restart'");
  for (const Split& split : splits) {
    if (!split.writer) return no_sample_of(split.name);
  }
  state.total = static_cast<int64_t>(next);
  if (state.schema.records_per_value == 0) state.schema.records_per_value = 1;
  DLPIPE_RETURN_IF_ERROR(save());
  for (Split& split : splits) {
    split.writer->set_classes(state.schema.classes);
    DLPIPE_RETURN_IF_ERROR(split.writer->finish(next));
    DLPIPE_RETURN_IF_ERROR(sync_directory("ingest", paths.split(paths.partial, split.name)));
  }
  return {};
}

Result<IngestReport> SampleWriter::Impl::publish() {
  IngestReport report;
  report.resumed = is_resumed;
  DLPIPE_RETURN_IF_ERROR(describe(paths, paths.partial, state.splits, report));
  for (const IngestReport::Split& split : report.splits) {
    if (split.samples > 0) continue;
    if (report.skipped.empty()) return no_sample_of(split.name);
    DLPIPE_RETURN_IF_ERROR(partial.remove());
    return Status(
        ErrorCode::kCorrupt,
        concat("[writer] no usable sample", split.name.empty() ? "" : concat(" in the split ", split.name),
               ": ", report.skipped.size(), " were skipped; the first: ", printable(report.skipped[0].path),
               ": ", without_area(report.skipped[0].reason)));
  }
  if (!is_sealed)
    DLPIPE_RETURN_IF_ERROR(find_duplicates("writer", paths, paths.partial, state.splits, images,
                                           options.ingest.on_warning, report));
  if (!is_sealed) DLPIPE_RETURN_IF_ERROR(seal(paths, {state.options, "", state.total, {}}, report));
  DLPIPE_RETURN_IF_ERROR(partial.publish());
  const auto seconds = [](int64_t ns) { return static_cast<double>(ns) * 1e-9; };
  report.stages = {{"decode", seconds(counters.decode_ns.value())},
                   {"encode", seconds(counters.encode_ns.value())},
                   {"write", seconds(write_ns)}};
  report.seconds = seconds(now_ns() - begin_ns);
  return report;
}

}  // namespace dlpipe::ingest
