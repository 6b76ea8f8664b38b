#include "io/data/sources/annotations/annotated_images.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/codec.h"
#include "io/data/sources/source_file.h"
#include "io/data/sources/typed_columns.h"

namespace dlpipe::data {

namespace {

constexpr size_t kLabelsPlace = 1;  // of box_labels among the fields

std::vector<Field> fields_of(const AnnotatedImages::Kinds& kinds) {
  if (!kinds.has_objects) return {};
  std::vector<Field> fields = {{"boxes", FieldKind::kBoxes, DType::kF32, {4}},
                               {"box_labels", FieldKind::kLabels, DType::kI64, {}, "boxes"}};
  if (!kinds.flag.empty()) fields.push_back({kinds.flag, FieldKind::kTensor, DType::kF32, {}, "boxes"});
  if (kinds.points > 0)
    fields.push_back({"points", FieldKind::kPoints, DType::kF32, {kinds.points, 3}, "boxes"});
  return fields;
}

/// An absolute path of a file in `folder` as the path from there; other paths unchanged.
std::string below(const std::string& folder, const std::string& path) {
  const std::filesystem::path given(path);
  if (!given.is_absolute()) return path;
  const auto from_folder =
      given.lexically_normal().lexically_relative(std::filesystem::absolute(folder).lexically_normal());
  return from_folder.empty() || *from_folder.begin() == ".." ? path : from_folder.string();
}

bool leads_out(const std::string& path) {
  const std::filesystem::path parts(path);
  return parts.is_absolute() || std::find(parts.begin(), parts.end(), "..") != parts.end();
}

/// The error in boxes; "" if there is none. (NaN and infinity are detected when records are made.)
std::string problem_of(std::span<const float> boxes) {
  for (size_t i = 0; i + 3 < boxes.size(); i += 4) {
    if (boxes[i + 2] < boxes[i] || boxes[i + 3] < boxes[i + 1])
      return concat("box ", i / 4 + 1, " ends before it begins");
  }
  return {};
}

}  // namespace

std::string in_words(std::span<const float> box) {
  return concat(box[0], ", ", box[1], ", ", box[2], ", ", box[3]);
}

std::string outside_of_image(std::span<const float> boxes, int64_t width, int64_t height) {
  for (size_t i = 0; i + 3 < boxes.size(); i += 4) {
    const auto box = boxes.subspan(i, 4);
    const bool has_area = box[2] > box[0] && box[3] > box[1];
    if (has_area && (box[0] >= static_cast<float>(width) || box[1] >= static_cast<float>(height) ||
                     box[2] <= 0 || box[3] <= 0))
      return concat("the box ", in_words(box), " is outside the image, which is ", width, "x", height);
  }
  return {};
}

std::string AnnotatedImages::full(const SourceEntry& entry) const {
  const Part& part = parts_[entry.place];
  return part.folder + "/" + entry.path.substr(part.prefix.size());
}

bool AnnotatedImages::takes_masks(const std::vector<AnnotatedImage>& images, SourceListing& listing) const {
  size_t outlined = 0;
  size_t boxes_alone = 0;
  bool has_files = false;
  for (const AnnotatedImage& image : images) {
    outlined += image.outlines.size();
    boxes_alone += image.labels.size() - std::min(image.labels.size(), image.outlines.size());
    has_files |= !image.mask_file.empty();
  }
  if (outlined > 0 && listing.classes.size() > kMostMaskClasses) {
    listing.warnings.push_back(concat("[ingest] ignored: ", counted(outlined, "outline"),
                                      " of objects; a mask holds at most ", kMostMaskClasses,
                                      " classes, but there are ", listing.classes.size()));
    return false;
  }
  if (outlined > 0 && boxes_alone > 0)
    listing.warnings.push_back(concat("[ingest] ", counted(boxes_alone, "object has", "objects have"),
                                      " a box", ", but no outline: masks are 255 inside the box"));
  return outlined > 0 || has_files;
}

/// Adds the boxes of objects without an outline as unknown areas: the object is somewhere in its box.
static void outline_boxes(AnnotatedImage& image) {
  std::vector<bool> is_outlined(image.labels.size());
  for (const Outline& outline : image.outlines) is_outlined[outline.object] = true;
  for (size_t i = 0; i < is_outlined.size(); ++i) {
    if (is_outlined[i]) continue;
    const float* const box = &image.boxes[4 * i];
    Outline outline;
    outline.object = i;
    outline.is_known = false;
    outline.polygons = {{box[0], box[1], box[2], box[1], box[2], box[3], box[0], box[3]}};
    image.outlines.push_back(std::move(outline));
  }
}

/// The mask's reference in the entry; "" for none. Errors in it become the image's problem.
std::string AnnotatedImages::mask_reference(AnnotatedImage& image, const Part& part) {
  if (part.masks.empty()) {
    outline_boxes(image);
    return outlines_.keep(std::move(image.outlines));
  }
  if (image.mask_file.empty()) return {};
  const auto stamp = stamp_file(part.masks + "/" + image.mask_file);
  if (stamp.ok()) return refer_to(*stamp, image.mask_file);
  if (image.problem.empty()) image.problem = without_area(stamp.status().message());
  return {};
}

Result<std::vector<std::byte>> AnnotatedImages::read_mask(const SourceEntry& entry,
                                                          std::string_view reference,
                                                          int64_t max_pixels) const {
  const Part& part = parts_[entry.place];
  if (!part.masks.empty()) {
    DLPIPE_ASSIGN_OR_RETURN(const Referred file, referred(reference));
    return read_stamped_file(part.masks + "/" + file.path, file.stamp);
  }
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> image, read(entry));
  DLPIPE_ASSIGN_OR_RETURN(const ImageInfo info, probe_image(image));
  DLPIPE_RETURN_IF_ERROR(check_pixels(info, max_pixels));
  const bool swaps = swaps_axes(info.orientation);
  const int width = swaps ? info.height : info.width;
  const int height = swaps ? info.width : info.height;
  const AnnotatedSize& annotated = entry.annotated;
  if (annotated.width != 0 && (annotated.width != width || annotated.height != height))
    return std::vector<std::byte>();
  return outlines_.mask(reference, decode_labels(entry.extra.at(kLabelsPlace)), width, height,
                        annotated.is_relative);
}

Status FilesAgain::take(const std::string& file, uint64_t bytes) {
  if (seen_.insert(file).second) {
    budget_.add_input(bytes);
    return {};
  }
  constexpr uint64_t kMemoryPerByte = 2;  // of labels
  return budget_.take(
      bytes, kMemoryPerByte,
      concat("the annotations of images that are listed more than once, such as ", printable(file), ","));
}

size_t AnnotatedImages::part_for(size_t part, size_t time) {
  const auto [known, is_new] = again_.emplace(std::pair(part, time), parts_.size());
  if (is_new) {
    Part again = parts_[part];
    again.prefix += concat("again-", time, "/");
    parts_.push_back(std::move(again));
  }
  return known->second;
}

Status AnnotatedImages::add(std::vector<Part> parts, const Kinds& kinds, std::vector<AnnotatedImage> images,
                            SourceListing& listing) {
  parts_ = std::move(parts);
  again_.clear();
  outlines_.clear();
  listing.fields = fields_of(kinds);
  const bool has_masks = takes_masks(images, listing);
  if (has_masks) listing.fields.push_back({"mask", FieldKind::kMask, DType::kU8, {}});
  if (std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.masks.empty(); }))
    listing.mask_numbers = MaskNumbers::kDrawn;
  struct Seen {
    const AnnotatedImage* first;
    size_t times = 0;
  };
  std::unordered_map<std::string, Seen> seen;
  size_t listed_again = 0;
  for (AnnotatedImage& image : images) {
    image.path = below(parts_[image.part].folder, image.path);
    const std::string path = parts_[image.part].prefix + image.path;
    Seen& before = seen.try_emplace(path, Seen{&image}).first->second;
    const bool is_again = ++before.times > 1;
    if (is_again && !(image.is_listed && before.first->is_listed && before.first->part == image.part))
      return Status(ErrorCode::kCorrupt,
                    concat("[ingest] the image ", printable(path), " is described twice",
                           image.described.empty() ? ""
                                                   : concat(", by ", printable(before.first->described),
                                                            " and by ", printable(image.described)),
                           "; describe it once"));
    listed_again += is_again ? 1 : 0;
    const size_t place = is_again ? part_for(image.part, before.times) : image.part;
    const Part& part = parts_[place];
    SourceEntry entry;
    entry.path = part.prefix + image.path;
    entry.name_begin = part.prefix.size();
    entry.split = part.split;
    entry.place = place;
    entry.annotated = {image.width, image.height, kinds.is_relative};
    std::string mask = has_masks ? mask_reference(image, part) : std::string();
    entry.problem = std::move(image.problem);
    if (entry.problem.empty()) entry.problem = problem_of(image.boxes);
    if (entry.problem.empty() && image.width > 0 && !kinds.is_relative)
      entry.problem = outside_of_image(image.boxes, image.width, image.height);
    if (leads_out(image.path)) {
      entry.problem = concat("its path leads outside of ", printable(part.folder));
    } else if (const auto stamp = stamp_file(full(entry)); stamp.ok()) {
      entry.size_bytes = stamp->size_bytes;
      entry.modified_ns = stamp->modified_ns;
    } else if (entry.problem.empty()) {
      entry.problem = stamp.status().code() == ErrorCode::kNotFound
                          ? "there is no file " + printable(full(entry))
                          : std::string(without_area(stamp.status().message()));
    }
    if (kinds.has_objects) entry.extra = {encode_numbers(image.boxes), encode_labels(image.labels)};
    if (!kinds.flag.empty()) entry.extra.push_back(encode_numbers(image.flags));
    if (kinds.points > 0) entry.extra.push_back(encode_numbers(image.points));
    if (has_masks) entry.extra.push_back(std::move(mask));
    listing.entries.push_back(std::move(entry));
  }
  if (listed_again > 0)
    listing.warnings.push_back(
        concat("[ingest] ",
               counted(static_cast<int64_t>(listed_again), "line of the lists repeats an image and",
                       "lines of the lists repeat an image, and each"),
               " adds another sample of it"));
  return {};
}

Result<std::vector<std::byte>> AnnotatedImages::read(const SourceEntry& entry) const {
  return read_stamped_file(full(entry), {entry.size_bytes, entry.modified_ns});
}

Result<ImageSets> read_image_sets(const std::filesystem::path& root, std::string_view kind) {
  const std::filesystem::path lists = root / "ImageSets" / kind;
  ImageSets splits;
  std::error_code ignored;
  const auto take = [&](const char* list, const char* split) -> Status {
    if (!std::filesystem::is_regular_file(lists / list, ignored)) return {};
    DLPIPE_ASSIGN_OR_RETURN(splits[split], lines_in_file((lists / list).string()));
    return {};
  };
  DLPIPE_RETURN_IF_ERROR(take("train.txt", "train"));
  DLPIPE_RETURN_IF_ERROR(take("val.txt", "val"));
  DLPIPE_RETURN_IF_ERROR(take("test.txt", "test"));
  if (!splits.contains("train")) DLPIPE_RETURN_IF_ERROR(take("trainval.txt", "train"));
  std::erase_if(splits, [](const auto& split) { return split.second.empty(); });
  return splits;
}

}  // namespace dlpipe::data
