#include "dlpipe/io/data/duplicates.h"

#include <algorithm>
#include <tuple>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"

namespace dlpipe::data {

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

void StoredImages::add(size_t split, int64_t sample, uint64_t checksum) {
  constexpr size_t kMost = size_t{64} << 20;
  if (first_added_.size() <= split) first_added_.resize(split + 1, -1);
  if (first_added_[split] < 0) first_added_[split] = sample;
  if (checksum != 0 && images_.size() < kMost) images_.push_back({checksum, split, sample});
}

Status StoredImages::add_missing(size_t split, const Dataset& dataset) {
  if (dataset.has_late_checksums()) return {};
  const bool has_some = split < first_added_.size() && first_added_[split] >= 0;
  const int64_t end = has_some ? first_added_[split] : dataset.size();
  DLPIPE_ASSIGN_OR_RETURN(const auto reader, dataset.reader());
  for (int64_t sample = 0; sample < end; ++sample) {
    DLPIPE_ASSIGN_OR_RETURN(const auto record, reader->record(sample));
    DLPIPE_ASSIGN_OR_RETURN(const uint64_t checksum, image_checksum(dataset, record));
    add(split, sample, checksum);
  }
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
  ptrdiff_t left = 1024;  // files, for which a training waits
  for (auto begin = images_.begin(); begin != images_.end();) {
    const auto end = std::find_if(begin, images_.end(),
                                  [&](const Image& image) { return image.checksum != begin->checksum; });
    bool may_count = false;
    for (auto image = begin + 1; image != end && !may_count; ++image) {
      DLPIPE_ASSIGN_OR_RETURN(const RecordHeader one, splits[begin->split]->header(begin->sample));
      DLPIPE_ASSIGN_OR_RETURN(const RecordHeader other, splits[image->split]->header(image->sample));
      may_count = image->split != begin->split || other.label != one.label;
    }
    if (may_count) left -= end - begin;
    for (auto image = begin; image != end && may_count; ++image) {
      if (readers[image->split] == nullptr) {
        DLPIPE_ASSIGN_OR_RETURN(readers[image->split], splits[image->split]->reader());
      }
      image->checksum = 0;  // of what can't be read, too
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

Result<DuplicateImages> StoredImages::duplicates(std::span<const std::shared_ptr<const Dataset>> splits) {
  sort();
  // Those that are named are the first ones, whatever their checksums are.
  std::vector<DuplicateImages::Pair> of_splits, of_classes;
  for (auto begin = images_.begin(); begin != images_.end();) {
    const auto end = std::find_if(begin, images_.end(),
                                  [&](const Image& image) { return image.checksum != begin->checksum; });
    const auto pair_with = [&](const Image& other) {
      return DuplicateImages::Pair{{begin->split, begin->sample}, {other.split, other.sample}};
    };
    if (begin->split != (end - 1)->split)
      of_splits.push_back(pair_with(
          *std::find_if(begin, end, [&](const Image& image) { return image.split != begin->split; })));
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
  return found;
}

Result<std::vector<std::string>> warnings_of(const DuplicateImages& duplicates, std::string_view area,
                                             std::span<const std::string> names,
                                             std::span<const std::shared_ptr<const Dataset>> splits) {
  std::vector<std::string> warnings;
  const auto warn = [&](int64_t count, const std::vector<DuplicateImages::Pair>& pairs,
                        std::string_view where, std::string_view advice) -> Status {
    if (count == 0) return {};
    std::string text =
        concat("[", area, "] ", human_count(count), count == 1 ? " image is" : " images are", where);
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
  DLPIPE_RETURN_IF_ERROR(
      warn(duplicates.in_splits, duplicates.of_splits, " in more than one split, byte for byte: ",
           "Figures of a split hold only for images that training has not seen; remove the copies"));
  DLPIPE_RETURN_IF_ERROR(
      warn(duplicates.in_classes, duplicates.of_classes,
           " there with more than one class, byte for byte: ", "Keep each in its own class alone"));
  return warnings;
}

}  // namespace dlpipe::data
