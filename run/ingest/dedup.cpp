#include "run/ingest/dedup.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "base/counters.h"
#include "base/messages.h"
#include "base/text.h"
#include "base/threads.h"
#include "run/ingest/image_worker.h"

namespace dlpipe::ingest {

namespace {

/// Computes the look of a file as the ingest would store it, before --resize-max; the look is unknown if it can't be read.
class EntryLooks {
 public:
  EntryLooks(const IngestOptions& options, const data::Source& source)
      : options_(options), source_(source), decoder_(limits_of(options)) {}

  data::ImageLook look(const data::SourceEntry& entry) {
    if (!entry.problem.empty()) return {};
    const auto bytes = source_.read(entry);
    if (!bytes.ok()) return {};
    const auto info = data::probe_image(*bytes);
    if (!info.ok() || !data::check_pixels(*info, options_.max_pixels).ok()) return {};
    ImageView image = decoded_view(*info, options_);
    pixels_.resize(static_cast<size_t>(image.stride) * image.height);
    image.data = pixels_.data();
    if (!decoder_.decode_oriented(*bytes, *info, {0, 0, image.width, image.height}, image).ok()) return {};
    return data::look_of(image, work_);
  }

 private:
  const IngestOptions& options_;
  const data::Source& source_;
  data::ImageDecoder decoder_;
  std::vector<uint8_t> pixels_;
  std::vector<uint16_t> work_;
};

/// The looks of the entries in the order `by_path`.
Result<std::vector<data::ImageLook>> looks_of(const IngestOptions& options, const data::Source& source,
                                              const std::vector<data::SourceEntry>& entries,
                                              const std::vector<size_t>& by_path,
                                              const std::function<void(const IngestProgress&)>& progress) {
  std::vector<data::ImageLook> looks(entries.size());
  std::atomic<size_t> next = 0, done = 0;
  std::atomic<bool> stop = false;
  const int64_t begin_ns = now_ns();
  Threads threads("ingest", worker_threads(options), [&](int) {
    EntryLooks of_thread(options, source);
    for (size_t i = next++; i < looks.size() && !stop; i = next++, ++done)
      looks[i] = of_thread.look(entries[by_path[i]]);
  });
  DLPIPE_RETURN_IF_ERROR(threads.join([&] {
    if (options.stop_requested && options.stop_requested()) stop = true;
    if (!progress) return;
    IngestProgress now;
    now.done = static_cast<int64_t>(done);
    now.total = static_cast<int64_t>(looks.size());
    now.seconds = static_cast<double>(now_ns() - begin_ns) * 1e-9;
    now.samples_per_s = static_cast<double>(done) / now.seconds;
    now.remaining_s = done > 0 ? static_cast<double>(looks.size() - done) / now.samples_per_s : -1;
    now.limiting = "compare";
    progress(now);
  }));
  if (stop)
    return Status(ErrorCode::kCancelled,
                  concat("[ingest] stopped while --dedup compared the files; nothing is stored yet"));
  return looks;
}

}  // namespace

Result<AlikeEntries> find_alike(const IngestOptions& options, const data::Source& source,
                                data::SourceListing& listing,
                                const std::function<void(const IngestProgress&)>& progress) {
  AlikeEntries alike;
  if (options.dedup == Dedup::kOff) return alike;
  if (listing.tokens > 0) return misuse("ingest", "--dedup compares images, and SRC is text; leave it out");
  std::vector<data::SourceEntry>& entries = listing.entries;
  std::vector<size_t> by_path(entries.size());
  std::iota(by_path.begin(), by_path.end(), size_t{0});
  std::stable_sort(by_path.begin(), by_path.end(),
                   [&](size_t a, size_t b) { return entries[a].path < entries[b].path; });
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<data::ImageLook> looks,
                          looks_of(options, source, entries, by_path, progress));
  alike.pairs = data::alike_pairs(looks, worker_threads(options));
  if (data::alike_by_nature(looks.size(), alike.pairs) > 0) {
    std::erase_if(alike.pairs, [](const data::AlikePair& pair) { return !pair.same_pixels; });
    alike.warnings.push_back(
        "[ingest] many images look like more than 100 others, as digits and scans do, so --dedup treats only "
        "images with the same pixels as copies");
  }
  if (options.dedup == Dedup::kDrop) {
    const std::vector<int64_t> copies = data::copies_of(looks.size(), alike.pairs);
    alike.copy_of.assign(entries.size(), -1);
    int64_t of_other_class = 0;
    std::string example;
    for (size_t i = 0; i < copies.size(); ++i) {
      if (copies[i] < 0) continue;
      const size_t first = by_path[static_cast<size_t>(copies[i])];
      alike.copy_of[by_path[i]] = static_cast<int64_t>(first);
      data::SourceEntry& copy = entries[by_path[i]];
      if (copy.label != entries[first].label && of_other_class++ == 0)
        example = concat(printable(copy.path), " and ", printable(entries[first].path));
      copy.problem = concat(kCopyOf, printable(entries[first].path));
    }
    if (of_other_class > 0)
      alike.warnings.push_back(concat("[ingest] ", counted(of_other_class, "copy that is", "copies that are"),
                                      " left out had another class than the image that is stored: ", example,
                                      of_other_class == 1 ? "" : ", ..."));
  }
  for (data::AlikePair& pair : alike.pairs) {
    pair.first = static_cast<uint32_t>(by_path[pair.first]);
    pair.second = static_cast<uint32_t>(by_path[pair.second]);
  }
  return alike;
}

}  // namespace dlpipe::ingest
