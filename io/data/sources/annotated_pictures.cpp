#include "dlpipe/io/data/sources/annotated_pictures.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <unordered_set>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/typed_columns.h"

namespace dlpipe::data {

namespace {

std::vector<Field> fields_of(const AnnotatedPictures::Kinds& kinds) {
  std::vector<Field> fields = {{"boxes", FieldKind::kBoxes, DType::kF32, {4}},
                               {"box_labels", FieldKind::kLabels, DType::kI64, {}, "boxes"}};
  if (!kinds.flag.empty()) fields.push_back({kinds.flag, FieldKind::kTensor, DType::kF32, {}, "boxes"});
  if (kinds.points > 0)
    fields.push_back({"points", FieldKind::kPoints, DType::kF32, {kinds.points, 3}, "boxes"});
  return fields;
}

std::string bytes_of(std::span<const float> numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()};
}

bool leads_out(const std::string& path) {
  const std::filesystem::path parts(path);
  return parts.is_absolute() || std::find(parts.begin(), parts.end(), "..") != parts.end();
}

/// What is wrong with boxes; "" for nothing. (Numbers that are none are found where records are made.)
std::string problem_of(std::span<const float> boxes) {
  for (size_t i = 0; i + 3 < boxes.size(); i += 4) {
    if (boxes[i + 2] < boxes[i] || boxes[i + 3] < boxes[i + 1])
      return concat("box ", i / 4 + 1, " ends before it begins");
  }
  return {};
}

}  // namespace

std::string AnnotatedPictures::full(const SourceEntry& entry) const {
  const Part& part = parts_[entry.place];
  return part.folder + "/" + entry.path.substr(part.prefix.size());
}

Status AnnotatedPictures::add(std::vector<Part> parts, const Kinds& kinds,
                              std::vector<AnnotatedPicture> pictures, SourceListing& listing) {
  parts_ = std::move(parts);
  listing.fields = fields_of(kinds);
  std::unordered_set<std::string> seen;
  for (AnnotatedPicture& picture : pictures) {
    const Part& part = parts_[picture.part];
    SourceEntry entry;
    entry.path = part.prefix + picture.path;
    entry.name_begin = part.prefix.size();
    entry.split = part.split;
    entry.place = picture.part;
    entry.annotated = {picture.width, picture.height, kinds.is_relative};
    if (!seen.insert(entry.path).second)
      return Status(ErrorCode::kCorrupt, concat("[ingest] the picture ", printable(entry.path),
                                                " is described twice; do it once"));
    entry.problem = std::move(picture.problem);
    if (entry.problem.empty()) entry.problem = problem_of(picture.boxes);
    if (leads_out(picture.path)) {
      entry.problem = concat("its path leads out of ", printable(part.folder));
    } else if (const auto stamp = stamp_file(full(entry)); stamp.ok()) {
      entry.size_bytes = stamp->size_bytes;
      entry.modified_ns = stamp->modified_ns;
    } else if (entry.problem.empty()) {
      entry.problem = stamp.status().code() == ErrorCode::kNotFound
                          ? "there is no file " + printable(full(entry))
                          : std::string(without_area(stamp.status().message()));
    }
    entry.extra = {bytes_of(picture.boxes), encode_labels(picture.labels)};
    if (!kinds.flag.empty()) entry.extra.push_back(bytes_of(picture.flags));
    if (kinds.points > 0) entry.extra.push_back(bytes_of(picture.points));
    listing.entries.push_back(std::move(entry));
  }
  return {};
}

Result<std::vector<std::byte>> AnnotatedPictures::read(const SourceEntry& entry) const {
  return read_stamped_file(full(entry), {entry.size_bytes, entry.modified_ns});
}

}  // namespace dlpipe::data
