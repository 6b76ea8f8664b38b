#include "io/data/verify.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <tuple>

#include "base/counters.h"
#include "base/machine.h"
#include "base/messages.h"
#include "base/mutex.h"
#include "base/text.h"
#include "base/threads.h"
#include "dlpipe/codec.h"
#include "io/data/codec/mask.h"
#include "io/data/sample.h"
#include "io/data/schema.h"

namespace dlpipe::data {

namespace {

// Checks records on one thread.
class RecordVerifier {
 public:
  RecordVerifier(const Dataset& dataset, const VerifyOptions& options,
                 std::unique_ptr<Dataset::Reader> reader)
      : dataset_(dataset),
        options_(options),
        reader_(std::move(reader)),
        decoder_(limits_of(options)),
        masks_(limits_of(options)) {}

  /// `image`: the checksum of the image, if the record is good.
  Status check(int64_t sample, uint64_t& image) {
    DLPIPE_ASSIGN_OR_RETURN(const RecordHeader header, dataset_.header(sample));
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record, reader_->record(sample));
    DLPIPE_RETURN_IF_ERROR(reader_->check_packing(sample));
    if (!reader_->is_intact(record, header))
      return Status(ErrorCode::kCorrupt, "the checksum differs: the record's bytes are corrupt");
    DLPIPE_ASSIGN_OR_RETURN(const RecordView view, parse_record(dataset_, record));
    if (view.label != header.label)
      return Status(ErrorCode::kCorrupt, concat("the label is ", view.label, " in the record, but ",
                                                header.label, " in the header table"));
    if (header.label >= static_cast<int64_t>(dataset_.classes().size()) && !dataset_.classes().empty())
      return Status(ErrorCode::kCorrupt,
                    concat("label ", header.label, " of ",
                           counted(static_cast<int64_t>(dataset_.classes().size()), "class", "classes")));
    DLPIPE_RETURN_IF_ERROR(
        check_values(dataset_.fields(), view.fields, static_cast<int64_t>(dataset_.classes().size())));
    DLPIPE_RETURN_IF_ERROR(check_masks(header, view));
    if (header.layout == ImageLayout::kNone) return {};
    DLPIPE_RETURN_IF_ERROR(check_image(header, view.image));
    image = checksum64(view.image);
    return {};
  }

  /// The file of the sample's image if it is missing; else "".
  std::string gone_file(int64_t sample) {
    if (!dataset_.links()) return {};
    const auto file = reader_->linked_file(sample);
    std::error_code error;
    const bool is_gone =
        file.ok() && std::filesystem::status(*file, error).type() == std::filesystem::file_type::not_found;
    return is_gone ? *file : std::string();
  }

  std::string path_of(int64_t sample) {
    const auto record = reader_->record(sample);
    if (!record.ok()) {
      const auto file = reader_->linked_file(sample);
      return file.ok() ? *file : std::string();
    }
    const auto path = field_bytes(dataset_, *record, "path");
    return path.ok() ? std::string(reinterpret_cast<const char*>(path->data()), path->size()) : std::string();
  }

 private:
  static DecodeLimits limits_of(const VerifyOptions& options) {
    DecodeLimits limits;
    limits.max_pixels = options.max_pixels;
    return limits;
  }

  Status check_masks(const RecordHeader& header, const RecordView& view) {
    for (size_t i = 0; i < view.fields.size(); ++i) {
      const Field& field = dataset_.fields()[i];
      if (field.kind != FieldKind::kMask || view.fields[i].empty()) continue;
      const auto checked = [&]() -> Status {
        DLPIPE_ASSIGN_OR_RETURN(const ImageInfo info, probe_mask(view.fields[i]));
        if (header.layout != ImageLayout::kNone)
          DLPIPE_RETURN_IF_ERROR(check_mask_size(info, header.width, header.height));
        return options_.decode ? masks_.decode(view.fields[i]).status() : Status();
      }();
      if (!checked.ok()) return checked.with_context(concat("field '", field.name, "': "));
    }
    return {};
  }

  Status check_image(const RecordHeader& header, std::span<const std::byte> image) {
    DLPIPE_ASSIGN_OR_RETURN(const ImageInfo info, probe_image(image));
    const bool swaps = swaps_axes(info.orientation);
    const int width = swaps ? info.height : info.width;
    const int height = swaps ? info.width : info.height;
    if (info.layout != header.layout || info.orientation != header.orientation || width != header.width ||
        height != header.height || info.channels != header.channels)
      return Status(ErrorCode::kCorrupt, "the image differs from the header table");
    if (!options_.decode) return {};
    DLPIPE_RETURN_IF_ERROR(check_pixels(info, options_.max_pixels));
    const ptrdiff_t stride = ptrdiff_t{width} * info.channels;
    pixels_.resize(static_cast<size_t>(stride) * height);
    return decoder_.decode_oriented(image, info, {0, 0, width, height},
                                    {pixels_.data(), width, height, info.channels, stride});
  }

  const Dataset& dataset_;
  const VerifyOptions& options_;
  std::unique_ptr<Dataset::Reader> reader_;
  ImageDecoder decoder_;
  MaskDecoder masks_;
  std::vector<uint8_t> pixels_;
};

struct Shared {
  std::atomic<int64_t> next = 0;
  std::atomic<int64_t> done = 0;
  std::atomic<bool> stop = false;
  Mutex mutex;
  std::vector<VerifyReport::Bad> bad DLPIPE_GUARDED_BY(mutex);
};

void verify_samples(RecordVerifier& verifier, std::span<uint64_t> images, Shared& shared) {
  const auto total = static_cast<int64_t>(images.size());
  constexpr int64_t kRun = 64;
  for (int64_t begin = shared.next.fetch_add(kRun); begin < total && !shared.stop;
       begin = shared.next.fetch_add(kRun)) {
    const int64_t end = std::min(begin + kRun, total);
    for (int64_t sample = begin; sample < end; ++sample) {
      const Status status = verifier.check(sample, images[static_cast<size_t>(sample)]);
      if (status.ok()) continue;
      const MutexLock lock(shared.mutex);
      shared.bad.push_back({sample, verifier.path_of(sample), status.message(), verifier.gone_file(sample)});
    }
    shared.done += end - begin;
  }
}

Status run_threads(const Dataset& dataset, const VerifyOptions& options, std::span<uint64_t> images,
                   Shared& shared, const std::function<void(int64_t, int64_t)>& progress) {
  const int jobs = options.jobs > 0 ? options.jobs : available_threads();
  std::vector<std::unique_ptr<RecordVerifier>> verifiers;
  for (int i = 0; i < jobs; ++i) {
    DLPIPE_ASSIGN_OR_RETURN(auto reader, dataset.reader());
    verifiers.push_back(std::make_unique<RecordVerifier>(dataset, options, std::move(reader)));
  }
  Threads threads("verify", jobs, [&](int thread) {
    verify_samples(*verifiers[static_cast<size_t>(thread)], images, shared);
  });
  return threads.join([&] {
    if (progress) progress(shared.done, dataset.size());
    if (options.stop_requested && options.stop_requested()) shared.stop = true;
  });
}

}  // namespace

Result<VerifyReport> verify(const Dataset& dataset, const VerifyOptions& options,
                            const std::function<void(int64_t, int64_t)>& progress) {
  const int64_t begin_ns = now_ns();
  VerifyReport report;
  report.samples = dataset.size();
  for (int64_t sample = 0; sample < dataset.size(); ++sample) {
    DLPIPE_ASSIGN_OR_RETURN(const RecordHeader header, dataset.header(sample));
    report.bytes += header.size_bytes;
  }
  report.id_matches = dataset.check_id().ok();
  DLPIPE_RETURN_IF_ERROR(dataset.skipped().status());
  DLPIPE_ASSIGN_OR_RETURN(report.known, dataset.known_checksums());
  Shared shared;
  report.image_checksums.resize(static_cast<size_t>(dataset.size()));
  DLPIPE_RETURN_IF_ERROR(run_threads(dataset, options, report.image_checksums, shared, progress));
  if (shared.stop)
    return Status(ErrorCode::kCancelled, concat("[verify] stopped after ", shared.done.load(), " of ",
                                                counted(dataset.size(), "sample")));
  {
    const MutexLock lock(shared.mutex);
    report.bad = std::move(shared.bad);
  }
  std::sort(report.bad.begin(), report.bad.end(),
            [](const auto& a, const auto& b) { return a.sample < b.sample; });
  report.seconds = static_cast<double>(now_ns() - begin_ns) * 1e-9;
  return report;
}

namespace {

constexpr size_t kMostPairs = 3;  // that are named

/// "train 'cat/1.jpg' (cat)"
Result<std::string> text_of(const DuplicateImages::Place& place, std::span<const std::string> names,
                            std::span<const std::shared_ptr<const Dataset>> splits) {
  const Dataset& dataset = *splits[place.split];
  DLPIPE_ASSIGN_OR_RETURN(const auto reader, dataset.reader());
  DLPIPE_ASSIGN_OR_RETURN(const RecordHeader header, dataset.header(place.sample));
  DLPIPE_ASSIGN_OR_RETURN(const auto record, reader->record(place.sample));
  const auto path = field_bytes(dataset, record, "path");
  std::string text = names[place.split].empty() ? "" : concat(printable(names[place.split]), " ");
  text += path.ok() && !path->empty() ? in_quotes({reinterpret_cast<const char*>(path->data()), path->size()})
                                      : concat("sample ", place.sample);
  const auto classes = dataset.classes();
  if (header.label >= 0 && static_cast<size_t>(header.label) < classes.size())
    text += concat(" of class ", in_quotes(classes[static_cast<size_t>(header.label)]));
  return text;
}

}  // namespace

Result<uint64_t> image_checksum(const Dataset& dataset, std::span<const std::byte> record) {
  DLPIPE_ASSIGN_OR_RETURN(const auto image, image_bytes(dataset, record));
  return image.empty() ? uint64_t{0} : checksum64(image);
}

uint32_t StoredImages::part_of(size_t split, std::string_view fold) {
  return parts_.try_emplace({split, std::string(fold)}, static_cast<uint32_t>(parts_.size())).first->second;
}

void StoredImages::add(size_t split, int64_t sample, uint64_t checksum, const ImageLook& look,
                       std::string_view fold) {
  constexpr size_t kMost = size_t{64} << 20;
  if (first_added_.size() <= split) first_added_.resize(split + 1, -1);
  if (first_added_[split] < 0) first_added_[split] = sample;
  const auto number = static_cast<uint32_t>(split);
  const uint32_t part = part_of(split, fold);
  if (checksum != 0 && images_.size() < kMost) images_.push_back({checksum, number, part, sample});
  add_look({number, part, sample, checksum, look});
}

void StoredImages::add_look(const SeenImage& seen) {
  constexpr size_t kMost = size_t{16} << 20;
  if (seen.look.pixels != 0 && seen_.size() < kMost) seen_.push_back(seen);
}

Status StoredImages::add_missing(size_t split, const Dataset& dataset, int look_threads) {
  if (dataset.has_late_checksums()) return {};
  const bool has_some = split < first_added_.size() && first_added_[split] >= 0;
  const int64_t end = has_some ? first_added_[split] : dataset.size();
  DLPIPE_ASSIGN_OR_RETURN(const auto reader, dataset.reader());
  const bool has_folds =
      std::ranges::any_of(dataset.fields(), [](const Field& field) { return field.name == kFoldField; });
  std::vector<SeenImage> missing(static_cast<size_t>(end));
  for (int64_t sample = 0; sample < end; ++sample) {
    DLPIPE_ASSIGN_OR_RETURN(const auto record, reader->record(sample));
    DLPIPE_ASSIGN_OR_RETURN(const uint64_t checksum, image_checksum(dataset, record));
    std::string_view fold;
    if (has_folds) {
      DLPIPE_ASSIGN_OR_RETURN(const auto bytes, field_bytes(dataset, record, kFoldField));
      fold = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
    add(split, sample, checksum, {}, fold);
    missing[static_cast<size_t>(sample)] = {
        static_cast<uint32_t>(split), part_of(split, fold), sample, checksum, {}};
  }
  if (look_threads == 0) return {};
  DLPIPE_RETURN_IF_ERROR(decode_samples(dataset, {0, end, look_threads}, [&](const DecodedSample& decoded) {
    thread_local std::vector<uint16_t> work;
    if (decoded.image.data == nullptr) return;  // it has none, or `dlpipe verify` reports it
    missing[static_cast<size_t>(decoded.sample.number)].look = look_of(decoded.image, work);
  }));
  for (const SeenImage& seen : missing) add_look(seen);
  return {};
}

void StoredImages::sort() {
  std::sort(images_.begin(), images_.end(), [](const Image& a, const Image& b) {
    return std::tie(a.checksum, a.split, a.sample) < std::tie(b.checksum, b.split, b.sample);
  });
}

Status StoredImages::read_whole(std::span<const std::shared_ptr<const Dataset>> splits) {
  if (std::none_of(splits.begin(), splits.end(), [](const auto& one) { return one->has_late_checksums(); }))
    return {};
  sort();
  std::vector<std::unique_ptr<Dataset::Reader>> readers(splits.size());
  ptrdiff_t left = 1024;  // the most files to read, because a training waits for this
  for (auto begin = images_.begin(); begin != images_.end();) {
    const auto end = std::find_if(begin, images_.end(),
                                  [&](const Image& image) { return image.checksum != begin->checksum; });
    bool may_count = false;
    for (auto image = begin + 1; image != end && !may_count; ++image) {
      DLPIPE_ASSIGN_OR_RETURN(const RecordHeader one, splits[begin->split]->header(begin->sample));
      DLPIPE_ASSIGN_OR_RETURN(const RecordHeader other, splits[image->split]->header(image->sample));
      may_count = image->part != begin->part || other.label != one.label;
    }
    if (may_count) left -= end - begin;
    for (auto image = begin; image != end && may_count; ++image) {
      if (readers[image->split] == nullptr) {
        DLPIPE_ASSIGN_OR_RETURN(readers[image->split], splits[image->split]->reader());
      }
      image->checksum = 0;  // stays 0 if it can't be read
      if (left < 0) continue;
      const auto record = readers[image->split]->record(image->sample);
      if (record.ok()) {
        DLPIPE_ASSIGN_OR_RETURN(image->checksum, image_checksum(*splits[image->split], *record));
      }
    }
    begin = end;
  }
  std::erase_if(images_, [](const Image& image) { return image.checksum == 0; });
  return {};
}

void StoredImages::find_alike(int threads, DuplicateImages& found) {
  const AlikeImages alike = alike_images(seen_, threads);
  if (alike.by_nature > 0) return;
  size_t last = seen_.size();
  for (const AlikePair& pair : alike.pairs) {
    const SeenImage& first = seen_[pair.first];
    const SeenImage& second = seen_[pair.second];
    if (first.part == second.part || first.checksum == second.checksum || pair.second == last) continue;
    last = pair.second;
    ++found.alike;
    if (found.of_alike.size() < kMostPairs)
      found.of_alike.push_back({{first.split, first.sample}, {second.split, second.sample}});
  }
}

Result<DuplicateImages> StoredImages::duplicates(std::span<const std::shared_ptr<const Dataset>> splits,
                                                 int look_threads) {
  sort();
  // The pairs that are named are the first ones, independent of their checksums.
  std::vector<DuplicateImages::Pair> of_splits, of_classes;
  for (auto begin = images_.begin(); begin != images_.end();) {
    const auto end = std::find_if(begin, images_.end(),
                                  [&](const Image& image) { return image.checksum != begin->checksum; });
    const auto pair_with = [&](const Image& other) {
      return DuplicateImages::Pair{{begin->split, begin->sample}, {other.split, other.sample}};
    };
    const auto elsewhere =
        std::find_if(begin, end, [&](const Image& image) { return image.part != begin->part; });
    if (elsewhere != end) of_splits.push_back(pair_with(*elsewhere));
    int64_t label = -1;
    for (auto image = begin; image != end && end - begin > 1; ++image) {
      DLPIPE_ASSIGN_OR_RETURN(const RecordHeader header, splits[image->split]->header(image->sample));
      if (image == begin) label = header.label;
      if (label < 0 || header.label < 0 || header.label == label) continue;
      of_classes.push_back(pair_with(*image));
      break;
    }
    begin = end;
  }
  DuplicateImages found;
  if (parts_.size() > splits.size()) found.parts = splits.size() > 1 ? "split or fold" : "fold";
  found.in_splits = static_cast<int64_t>(of_splits.size());
  found.in_classes = static_cast<int64_t>(of_classes.size());
  const auto first_of = [](std::vector<DuplicateImages::Pair>& all) {
    const auto shown = static_cast<ptrdiff_t>(std::min(all.size(), kMostPairs));
    std::partial_sort(all.begin(), all.begin() + shown, all.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first.split, a.first.sample) < std::tie(b.first.split, b.first.sample);
    });
    return std::vector<DuplicateImages::Pair>(all.begin(), all.begin() + shown);
  };
  found.of_splits = first_of(of_splits);
  found.of_classes = first_of(of_classes);
  if (look_threads > 0) find_alike(look_threads, found);
  return found;
}

Result<std::vector<std::string>> warnings_of(const DuplicateImages& duplicates, std::string_view area,
                                             std::span<const std::string> names,
                                             std::span<const std::shared_ptr<const Dataset>> splits,
                                             std::string_view cure) {
  std::vector<std::string> warnings;
  const auto warn = [&](int64_t count, const std::vector<DuplicateImages::Pair>& pairs, std::string_view one,
                        std::string_view several, std::string_view where, std::string_view advice) -> Status {
    if (count == 0) return {};
    std::string text = concat("[", area, "] ", human_count(count), count == 1 ? one : several, where);
    for (size_t i = 0; i < pairs.size(); ++i) {
      DLPIPE_ASSIGN_OR_RETURN(const std::string first, text_of(pairs[i].first, names, splits));
      DLPIPE_ASSIGN_OR_RETURN(const std::string second, text_of(pairs[i].second, names, splits));
      text += concat(i > 0 ? "; " : "", first, " and ", second);
    }
    if (count > static_cast<int64_t>(pairs.size()))
      text += concat("; and ", human_count(count - static_cast<int64_t>(pairs.size())), " more");
    warnings.push_back(concat(text, ". ", advice));
    return {};
  };
  const std::string of_splits = concat("Metrics of a ", duplicates.parts,
                                       " are valid only for images that training has not seen; ", cure);
  DLPIPE_RETURN_IF_ERROR(warn(duplicates.in_splits, duplicates.of_splits, " image is", " images are",
                              concat(" in more than one ", duplicates.parts, ", byte for byte: "),
                              of_splits));
  DLPIPE_RETURN_IF_ERROR(warn(duplicates.alike, duplicates.of_alike, " image looks", " images look",
                              concat(" like one in another ", duplicates.parts,
                                     " (encoded again, resized, mirrored, brightened or slightly cropped): "),
                              of_splits));
  DLPIPE_RETURN_IF_ERROR(
      warn(duplicates.in_classes, duplicates.of_classes, " image is", " images are",
           " in more than one class, byte for byte: ", "Keep each image in one class only"));
  return warnings;
}

}  // namespace dlpipe::data
