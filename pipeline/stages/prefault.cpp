#include "dlpipe/pipeline/stages/prefault.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "dlpipe/base/machine.h"
#include "dlpipe/base/text.h"

namespace dlpipe::pipeline {

namespace {
constexpr size_t kGranuleBytes = size_t{1} << 18;
// How long a touched granule counts as in memory. The file is small beside the memory, and the kernel drops
// pages that were used seconds ago only when memory is short; a record touched by itself could go just as
// well before it is read.
constexpr int64_t kGranuleFreshNs = 5'000'000'000;
}  // namespace

Prefault::Prefault(const Setup& setup, const MappedFile& file, data::Dataset::Reader& reader,
                   PipelineCounters& counters)
    : setup_(setup), file_(file), reader_(reader), counters_(counters[Stage::kPrefault]), window_(file) {
  const size_t bytes = file.map().size();
  const auto ceiling = static_cast<uint64_t>(setup.options.memory_bytes);
  const uint64_t memory =
      ceiling > 0 ? std::min(ceiling, available_memory_bytes()) : available_memory_bytes();
  if (bytes < memory / 4) granule_touched_ns_.resize(bytes / kGranuleBytes + 1);
}

void Prefault::make_room(std::span<SamplePlan> plans, int64_t sequence, int64_t live, int64_t most_bytes) {
  if (!granule_touched_ns_.empty()) return;  // the whole file is small beside the ceiling
  for (const SamplePlan& plan : plans) {
    for (size_t k = 0; k < plan.records(); ++k) {
      const auto stored = reader_.stored(plan.record(k).sample);
      if (stored.ok()) window_.enter(sequence, *stored);  // touch() tells what is wrong
    }
  }
  window_.shrink(live, most_bytes);
}

// How much around a touched page the kernel maps is its own affair (whole large folios, a megabyte or more
// since Linux 6.18): what counts is what came of it.
void Prefault::keep_below_ceiling() {
  const int64_t ceiling = setup_.options.memory_bytes;
  if (ceiling == 0 || !granule_touched_ns_.empty()) return;
  constexpr int64_t kMargin = 32;
  if (static_cast<int64_t>(resident_bytes()) > ceiling - ceiling / kMargin) file_.forget();
}

Status Prefault::touch(std::span<SamplePlan> plans, size_t* failed) {
  DLPIPE_RETURN_IF_ERROR(locate(plans, failed));
  portion_begin_ns_ = now_ns();
  int64_t bytes = 0;
  for (size_t i = 0; i < plans.size(); ++i) {
    *failed = i;
    for (size_t k = 0; k < plans[i].records(); ++k) {
      keep_below_ceiling();
      DLPIPE_RETURN_IF_ERROR(touch_one(plans[i].record(k)));
      bytes += static_cast<int64_t>(plans[i].record(k).stored.size());
    }
  }
  counters_.bytes.add(bytes);
  return {};
}

// Finds all records first and starts their reading, so that the disk sees many requests at once.
Status Prefault::locate(std::span<SamplePlan> plans, size_t* failed) {
  for (size_t i = 0; i < plans.size(); ++i) {
    *failed = i;
    for (size_t k = 0; k < plans[i].records(); ++k) {
      PlannedRecord& record = plans[i].record(k);
      DLPIPE_ASSIGN_OR_RETURN(record.stored, reader_.stored(record.sample));
      if (granule_touched_ns_.empty()) file_.prefetch(record.stored);
    }
  }
  return {};
}

Status Prefault::touch_one(const PlannedRecord& record) {
  auto pause = std::chrono::milliseconds(10);
  for (int attempt = 1;; ++attempt) {
    Status status = touch_once(record);
    if (status.ok()) return status;
    if (attempt == kTries) {
      return status.with_context(concat("[loader] sample ", record.sample, " of ",
                                        setup_.dataset->directory(), " could not be read in ", kTries,
                                        " attempts; check the disk, then resume: "));
    }
    std::this_thread::sleep_for(pause);
    pause *= 4;
  }
}

Status Prefault::touch_once(const PlannedRecord& record) {
  if (setup_.options.inject_read_error)
    DLPIPE_RETURN_IF_ERROR(setup_.options.inject_read_error(record.sample));
  DLPIPE_RETURN_IF_ERROR(granule_touched_ns_.empty() ? file_.populate(record.stored)
                                                     : touch_granules(record.stored));
  return reader_.load(record.stored, record.sample);
}

Status Prefault::touch_granules(std::span<const std::byte> stored) {
  if (stored.empty()) return {};
  const std::span<const std::byte> map = file_.map();
  const auto offset = static_cast<size_t>(stored.data() - map.data());
  if (stored.data() < map.data() || offset + stored.size() > map.size()) return file_.populate(stored);
  for (size_t granule = offset / kGranuleBytes; granule <= (offset + stored.size() - 1) / kGranuleBytes;
       ++granule) {
    if (granule_touched_ns_[granule] != 0 &&
        portion_begin_ns_ - granule_touched_ns_[granule] < kGranuleFreshNs)
      continue;
    const size_t begin = granule * kGranuleBytes;
    const auto pages = map.subspan(begin, std::min(kGranuleBytes, map.size() - begin));
    if (granule_touched_ns_[granule] == 0) file_.prefetch(pages);
    DLPIPE_RETURN_IF_ERROR(file_.populate(pages));
    granule_touched_ns_[granule] = portion_begin_ns_;
  }
  return {};
}

}  // namespace dlpipe::pipeline
