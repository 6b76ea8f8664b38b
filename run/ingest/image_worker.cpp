#include "run/ingest/image_worker.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <utility>

#include "augment/resize.h"
#include "base/counters.h"
#include "base/machine.h"
#include "base/messages.h"
#include "base/text.h"
#include "io/data/codec/bitmaps.h"
#include "io/data/codec/coef/jpeg_coefficients.h"
#include "io/data/codec/restart.h"
#include "io/data/sources/image_folder.h"

namespace dlpipe::ingest {

bool is_bad_file(const Status& status) {
  return status.code() == ErrorCode::kCorrupt || status.code() == ErrorCode::kUnsupported ||
         status.code() == ErrorCode::kPermission;
}

Status bad_file_error(std::string_view area, std::string_view item, const Status& reason) {
  return Status(reason.code(), concat("[", area, "] ", item, ": ", without_area(reason.message()),
                                      "; fix it, or leave it out with --on-error skip"));
}

int worker_threads(const IngestOptions& options) {
  return options.jobs > 0 ? options.jobs : available_threads();
}

data::DecodeLimits limits_of(const IngestOptions& options) {
  data::DecodeLimits limits;
  limits.max_pixels = options.max_pixels;
  limits.background = options.background;
  return limits;
}

static Region whole_as_seen(const data::ImageInfo& info) {
  const bool swaps = swaps_axes(info.orientation);
  return {0, 0, swaps ? info.height : info.width, swaps ? info.width : info.height};
}

ImageView decoded_view(const data::ImageInfo& info, const IngestOptions& options) {
  const Region seen = whole_as_seen(info);
  ImageView view{nullptr, seen.width, seen.height, info.channels, 0};
  if (info.has_alpha && options.background) {  // a grey image gets colour from the background
    const auto& [red, green, blue] = *options.background;
    if (red != green || green != blue) view.channels = 3;
  }
  view.stride = ptrdiff_t{view.width} * view.channels;
  return view;
}

// The path of a file relative to `root` if it is below it, else its absolute path.
static std::string below(const std::string& file, const std::string& root) {
  const std::string full =
      file.starts_with('/') ? file : std::filesystem::absolute(file).lexically_normal().string();
  const bool is_below =
      !root.empty() && full.size() > root.size() + 1 && full.starts_with(root) && full[root.size()] == '/';
  return is_below ? full.substr(root.size() + 1) : full;
}

// Without this check, boxes of another image, or of one that was scaled or rotated later, would be stored as if they were right.
static Status check_annotated(const data::AnnotatedSize& annotated, const Region& seen,
                              const data::ImageInfo& info) {
  if (annotated.width == 0 || (annotated.width == seen.width && annotated.height == seen.height)) return {};
  const bool is_turned = annotated.width == info.width && annotated.height == info.height;
  return Status(ErrorCode::kCorrupt,
                concat("its annotations are for an image of ", annotated.width, "x", annotated.height,
                       ", but the file is ", seen.width, "x", seen.height,
                       is_turned ? concat(" (by its EXIF orientation, ", int{info.orientation}, ")") : ""));
}

ImageWorker::ImageWorker(const IngestOptions& options, const data::Schema& schema, WorkCounters& counters,
                         bool looks, uint64_t decode_every)
    : options_(options),
      looks_(looks),
      decode_every_(decode_every),
      counters_(counters),
      decoder_(limits_of(options)),
      masks_(limits_of(options)),
      packer_(schema),
      fields_(schema.fields),
      links_(schema.links) {
  for (size_t i = 0; i < schema.fields.size(); ++i) {
    if (schema.fields[i].kind == data::FieldKind::kImage) image_field_ = i;
  }
}

Result<data::PackedRecord> ImageWorker::process(const data::Source& source, const data::SourceEntry& entry,
                                                uint64_t item) noexcept {
  try {
    return process_checked(source, entry, item);
  } catch (...) {
    return status_from_current_exception("ingest");
  }
}

Result<data::PackedRecord> ImageWorker::pack(std::vector<std::byte> image, Values values) noexcept {
  try {
    return pack_checked(std::move(image), std::move(values), {});
  } catch (...) {
    return status_from_current_exception("ingest");
  }
}

Status ImageWorker::decode(const std::vector<std::byte>& bytes, const data::ImageInfo& info) {
  const ScopedTimer timer(counters_.decode_ns);
  DLPIPE_RETURN_IF_ERROR(data::check_pixels(info, options_.max_pixels));
  image_ = decoded_view(info, options_);
  pixels_.resize(static_cast<size_t>(image_.stride) * image_.height);
  image_.data = pixels_.data();
  if (decode_with_coefficients(bytes, info)) return {};
  return decoder_.decode_oriented(bytes, info, whole_as_seen(info), image_);
}

bool ImageWorker::decode_with_coefficients(const std::vector<std::byte>& bytes, const data::ImageInfo& info) {
  const bool wanted = options_.jpeg != JpegLayout::kStandard && options_.jpeg != JpegLayout::kRestart &&
                      options_.store != Store::kRaw && !links_;
  has_coefficients_ = wanted && info.layout == data::ImageLayout::kJpeg && info.orientation == 1 &&
                      coefficients_.read(bytes, limits_of(options_), &image_).ok();
  return has_coefficients_;
}

void ImageWorker::shrink() {
  const double scale = static_cast<double>(options_.resize_max) / std::max(image_.width, image_.height);
  ImageView out = image_;
  out.width = std::max(1, static_cast<int>(std::lround(image_.width * scale)));
  out.height = std::max(1, static_cast<int>(std::lround(image_.height * scale)));
  out.stride = ptrdiff_t{out.width} * out.channels;
  shrunk_.resize(static_cast<size_t>(out.stride) * out.height);
  out.data = shrunk_.data();
  const auto geometry = augment::whole_resize(image_.width, image_.height, out.width, out.height);
  augment::resize(geometry, image_, out, false, resize_work_);
  image_ = out;
}

// Returns the file's own bytes if they can be kept; otherwise the recoded image, with its orientation applied, perhaps smaller.
Result<ImageWorker::Stored> ImageWorker::store(std::vector<std::byte> bytes, const data::ImageInfo& info) {
  const bool too_large =
      options_.resize_max > 0 && std::max(image_.width, image_.height) > options_.resize_max;
  if (too_large) shrink();
  const bool was_raw = info.layout == data::ImageLayout::kRaw;
  const bool to_raw = options_.store == Store::kRaw || (options_.store == Store::kAuto && was_raw);
  const bool as_png = is_composited(info) && options_.store == Store::kAuto && !too_large;
  const bool keeps = (options_.store == Store::kAuto && !is_composited(info)) ||
                     (options_.store == Store::kJpeg && info.layout == data::ImageLayout::kJpeg);
  Stored stored;
  stored.header.width = image_.width;
  stored.header.height = image_.height;
  stored.header.channels = static_cast<uint8_t>(image_.channels);
  if (keeps && !too_large) {
    stored.header.orientation = info.orientation;
    stored.header.layout = info.layout;
    stored.bytes = std::move(bytes);
  } else if (to_raw) {
    stored.header.layout = data::ImageLayout::kRaw;
    stored.bytes = data::encode_raw(image_);
  } else if (as_png) {
    stored.header.layout = data::ImageLayout::kPng;
    DLPIPE_ASSIGN_OR_RETURN(stored.bytes, data::encode_png(image_));
  } else {
    stored.header.layout = data::ImageLayout::kJpeg;
    DLPIPE_ASSIGN_OR_RETURN(stored.bytes, data::encode_jpeg(image_, options_.quality));
  }
  if (options_.jpeg != JpegLayout::kStandard && stored.header.layout == data::ImageLayout::kJpeg)
    DLPIPE_RETURN_IF_ERROR(use_jpeg_layout(keeps && !too_large, stored));
  return stored;
}

Status ImageWorker::use_jpeg_layout(bool is_source, Stored& stored) {
  const bool restart = options_.jpeg == JpegLayout::kRestart;
  const data::TileKind& tiles =
      options_.jpeg == JpegLayout::kDenseCoefficients ? data::kDenseTiles : data::kFastTiles;
  const auto coefficients = [&] {
    return is_source && has_coefficients_
               ? coefficients_.encode(stored.bytes, tiles)
               : data::encode_coefficients(stored.bytes, limits_of(options_), tiles);
  };
  Result<std::vector<std::byte>> record =
      restart ? data::encode_restart(stored.bytes, limits_of(options_)) : coefficients();
  if (!record.ok()) return {};  // it stays a JPEG; `dlpipe inspect` shows why
  const double share = static_cast<double>(record->size()) / static_cast<double>(stored.bytes.size());
  if (options_.jpeg == JpegLayout::kAuto && share > data::kMostBytesByDefault) return {};
  if (!options_.trust) {
    data::ImageInfo info;
    info.width = swaps_axes(stored.header.orientation) ? stored.header.height : stored.header.width;
    info.height = swaps_axes(stored.header.orientation) ? stored.header.width : stored.header.height;
    info.orientation = stored.header.orientation;
    const Region whole{0, 0, image_.width, image_.height};
    ImageView view = image_;
    if (!is_source) {
      expected_.resize(static_cast<size_t>(image_.stride) * static_cast<size_t>(image_.height));
      view.data = expected_.data();
      DLPIPE_RETURN_IF_ERROR(decoder_.decode_oriented(stored.bytes, info, whole, view));
    }
    decoded_.resize(static_cast<size_t>(image_.stride) * static_cast<size_t>(image_.height));
    ImageView again = image_;
    again.data = decoded_.data();
    const Status decoded = decoder_.decode_oriented(*record, info, whole, again);
    if (!decoded.ok() || std::memcmp(view.data, again.data, decoded_.size()) != 0) return {};
  }
  stored.bytes = std::move(*record);
  stored.header.layout = restart ? data::ImageLayout::kRestart : data::ImageLayout::kCoefficients;
  return {};
}

void ImageWorker::scale_places(const data::AnnotatedSize& annotated, const Region& seen, Values& values,
                               std::vector<std::vector<std::byte>>& scaled) const {
  const double width = annotated.is_relative ? 1 : seen.width;
  const double height = annotated.is_relative ? 1 : seen.height;
  scaled.reserve(values.size());
  if (image_.width == width && image_.height == height) return;
  for (size_t i = 0; i < values.size(); ++i) {
    const data::Field& field = fields_[i];
    if (field.kind != data::FieldKind::kBoxes && field.kind != data::FieldKind::kPoints) continue;
    if (values[i].empty()) continue;  // an image without objects
    const auto row = static_cast<size_t>(field.shape[field.shape.rank() - 1]);
    std::vector<float> numbers(values[i].size() / sizeof(float));
    std::memcpy(numbers.data(), values[i].data(), numbers.size() * sizeof(float));
    for (size_t k = 0; k < numbers.size(); ++k) {
      const size_t place = k % row;
      const bool is_visible = field.kind == data::FieldKind::kPoints && place == 2;
      if (is_visible) continue;
      const double scale = place % 2 == 0 ? image_.width / width : image_.height / height;
      numbers[k] = static_cast<float>(numbers[k] * scale);
    }
    const auto bytes = std::as_bytes(std::span(numbers));
    values[i] = scaled.emplace_back(bytes.begin(), bytes.end());
  }
}

Status ImageWorker::store_masks(const Region& seen, Values& values,
                                std::vector<std::vector<std::byte>>& scaled) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (fields_[i].kind != data::FieldKind::kMask || values[i].empty()) continue;
    const auto checked = [&]() -> Result<ConstImageView> {
      DLPIPE_ASSIGN_OR_RETURN(const data::ImageInfo info, data::probe_mask(values[i]));
      DLPIPE_RETURN_IF_ERROR(data::check_mask_size(info, seen.width, seen.height));
      return masks_.decode(values[i]);
    }();
    if (!checked.ok()) return checked.status().with_context(concat("field '", fields_[i].name, "': "));
    if (image_.width == seen.width && image_.height == seen.height) continue;
    std::vector<uint8_t> pixels(static_cast<size_t>(image_.width) * static_cast<size_t>(image_.height));
    const ImageView small{pixels.data(), image_.width, image_.height, 1, image_.width};
    for (int y = 0; y < small.height; ++y) {
      const auto from_y = static_cast<int>((y + 0.5) * seen.height / small.height);
      for (int x = 0; x < small.width; ++x) {
        const auto from_x = static_cast<int>((x + 0.5) * seen.width / small.width);
        small.row(y)[x] = checked->row(from_y)[from_x];
      }
    }
    DLPIPE_ASSIGN_OR_RETURN(std::vector<std::byte> png, data::encode_png(small));
    values[i] = scaled.emplace_back(std::move(png));
  }
  return {};
}

Result<data::PackedRecord> ImageWorker::process_checked(const data::Source& source,
                                                        const data::SourceEntry& entry, uint64_t item) {
  if (!entry.problem.empty()) return Status(ErrorCode::kUnsupported, entry.problem);
  const bool decodes = !links_ || (!options_.trust && !options_.late_checksums) || item % decode_every_ == 0;
  DLPIPE_ASSIGN_OR_RETURN(Read image, read(source, entry, decodes));
  if (!image_field_)
    return packer_.pack(Values{image.bytes}, {});  // tokens: what the source reads is already the record
  Values values = {{}, std::as_bytes(std::span(&entry.label, 1)), std::as_bytes(std::span(entry.name()))};
  std::vector<std::vector<std::byte>> masks;
  masks.reserve(entry.extra.size());  // values point into them
  for (const std::string& extra : entry.extra) {
    const bool is_mask = fields_.at(values.size()).kind == data::FieldKind::kMask;
    if (!is_mask || extra.empty()) {
      values.push_back(std::as_bytes(std::span(extra)));
      continue;
    }
    const ScopedTimer timer(counters_.read_ns);
    DLPIPE_ASSIGN_OR_RETURN(masks.emplace_back(), source.read_referred(entry, extra));
    values.push_back(masks.back());
  }
  if (!links_) return pack_checked(std::move(image.bytes), std::move(values), entry.annotated);
  return link_checked(source, entry, image, std::move(values), decodes);
}

Result<ImageWorker::Read> ImageWorker::read(const data::Source& source, const data::SourceEntry& entry,
                                            bool decodes) {
  const ScopedTimer timer(counters_.read_ns);
  Read read;
  if (decodes || !options_.late_checksums) {
    DLPIPE_ASSIGN_OR_RETURN(read.bytes, source.read(entry));
    return read;
  }
  DLPIPE_ASSIGN_OR_RETURN(const data::Link link, source.where(entry));
  DLPIPE_ASSIGN_OR_RETURN(data::ImageHead head, data::read_head(link, entry.modified_ns));
  return Read{std::move(head.bytes), head.info};
}

Result<data::Link> ImageWorker::link_to(const data::Source& source, const data::SourceEntry& entry) const {
  const Result<data::Link> found = source.where(entry);
  DLPIPE_RETURN_IF_ERROR(found.status());
  data::Link link{below(found->file, *links_), found->offset, found->size_bytes, found->is_whole, {}};
  if (options_.late_checksums) link.modified_ns = entry.modified_ns;
  return link;
}

Result<data::PackedRecord> ImageWorker::link_checked(const data::Source& source,
                                                     const data::SourceEntry& entry, const Read& image,
                                                     Values values, bool decodes) {
  data::ImageInfo info;
  if (image.info) {
    info = *image.info;
  } else {
    DLPIPE_ASSIGN_OR_RETURN(info, data::probe_image(image.bytes));
  }
  const Region seen = whole_as_seen(info);
  DLPIPE_RETURN_IF_ERROR(check_annotated(entry.annotated, seen, info));
  DLPIPE_RETURN_IF_ERROR(data::check_pixels(info, options_.max_pixels));
  image_ = decoded_view(info, options_);
  if (decodes) DLPIPE_RETURN_IF_ERROR(decode(image.bytes, info));
  const ScopedTimer timer(counters_.encode_ns);
  DLPIPE_ASSIGN_OR_RETURN(const data::Link link, link_to(source, entry));
  values.at(*image_field_) = image.bytes;
  std::vector<std::vector<std::byte>> scaled;
  scale_places(entry.annotated, seen, values, scaled);
  DLPIPE_RETURN_IF_ERROR(store_masks(seen, values, scaled));
  data::RecordHeader header;
  header.width = image_.width;
  header.height = image_.height;
  header.channels = static_cast<uint8_t>(image_.channels);
  header.orientation = info.orientation;
  header.layout = info.layout;
  DLPIPE_ASSIGN_OR_RETURN(data::PackedRecord record,
                          packer_.pack(values, header, data::encode_link(link), link.size_bytes));
  if (decodes) describe(record);
  return record;
}

Result<data::PackedRecord> ImageWorker::pack_checked(std::vector<std::byte> image, Values values,
                                                     const data::AnnotatedSize& annotated) {
  if (!image_field_) return packer_.pack(values, {});
  DLPIPE_ASSIGN_OR_RETURN(const data::ImageInfo info, data::probe_image(image));
  const Region seen = whole_as_seen(info);
  DLPIPE_RETURN_IF_ERROR(check_annotated(annotated, seen, info));
  DLPIPE_RETURN_IF_ERROR(decode(image, info));
  const ScopedTimer timer(counters_.encode_ns);
  DLPIPE_ASSIGN_OR_RETURN(const Stored stored, store(std::move(image), info));
  values.at(*image_field_) = stored.bytes;
  std::vector<std::vector<std::byte>> scaled;
  scale_places(annotated, seen, values, scaled);
  DLPIPE_RETURN_IF_ERROR(store_masks(seen, values, scaled));
  DLPIPE_ASSIGN_OR_RETURN(data::PackedRecord record, packer_.pack(values, stored.header));
  describe(record);
  return record;
}

void ImageWorker::describe(data::PackedRecord& record) {
  record.pixel_sums.add_image(image_);
  if (looks_) record.look = data::look_of(image_, look_work_);
}

OrderedWorkers::OrderedWorkers(int workers, Job job) : job_(std::move(job)), next_item_(job_.begin) {
  threads_ = std::make_unique<Threads>("ingest", workers, [this](int worker) { work(worker); });
  if (threads_->count() == 0) fail(threads_->join());
}

OrderedWorkers::~OrderedWorkers() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  window_moved_.notify_all();
  (void)threads_->join();
}

void OrderedWorkers::fail(const Status& status) {
  const MutexLock lock(mutex_);
  if (failure_.ok()) failure_ = status;
  stopping_ = true;
  window_moved_.notify_all();
  run_done_.notify_one();
}

OrderedWorkers::Run* OrderedWorkers::claim(MutexLock& lock) {
  constexpr uint64_t kRunCost = 64 << 10;
  constexpr uint64_t kRunItems = 64;
  while (!stopping_ && next_item_ != job_.end && !runs_.empty() &&
         cost_in_flight_ + job_.cost(next_item_) > job_.window)
    lock.wait(window_moved_);
  if (stopping_ || next_item_ == job_.end) return nullptr;
  Run& run = runs_.emplace_back();
  run.begin = run.end = next_item_;
  while (run.end < job_.end && run.end - run.begin < kRunItems && run.cost < kRunCost) {
    const uint64_t cost = job_.cost(run.end);
    if (run.end > run.begin && cost_in_flight_ + run.cost + cost > job_.window) break;
    run.cost += cost;
    ++run.end;
  }
  next_item_ = run.end;
  cost_in_flight_ += run.cost;
  return &run;
}

void OrderedWorkers::work(int worker) {
  try {
    work_until_done(worker);
  } catch (...) {  // no memory for results: without an error, the consumer would wait forever
    fail(status_from_current_exception("ingest"));
  }
}

void OrderedWorkers::work_until_done(int worker) {
  MutexLock lock(mutex_);
  while (Run* run = claim(lock)) {
    const uint64_t begin = run->begin;
    const uint64_t end = run->end;
    lock.unlock();
    std::vector<Outcome> outcomes;
    for (uint64_t item = begin; item < end; ++item) outcomes.push_back(job_.work(worker, item));
    lock.lock();
    run->outcomes = std::move(outcomes);
    run->done = true;
    if (run == &runs_.front()) run_done_.notify_one();
  }
}

OrderedWorkers::Outcome OrderedWorkers::next() {
  if (taken_ == taking_.outcomes.size()) {
    MutexLock lock(mutex_);
    cost_in_flight_ -= taking_.cost;
    taking_ = Run();
    taken_ = 0;
    window_moved_.notify_all();
    const int64_t begin_ns = now_ns();
    while (failure_.ok() && (runs_.empty() || !runs_.front().done)) lock.wait(run_done_);
    taker_wait_ns_ += now_ns() - begin_ns;
    if (!failure_.ok()) return failure_;
    taking_ = std::move(runs_.front());
    runs_.pop_front();
  }
  return std::move(taking_.outcomes[taken_++]);
}

}  // namespace dlpipe::ingest
