#include "dlpipe/io/data/sources/archives/webdataset_samples.h"

#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>
#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/archives/tar_layout.h"

namespace dlpipe::data {

namespace {

constexpr std::array<std::string_view, 7> kPictureNames = {"image", "img", "input", "picture",
                                                           "photo", "pic", "rgb"};
constexpr std::array<std::string_view, 14> kMaskNames = {
    "seg",   "segmentation", "segmap", "mask",   "masks", "label",    "labels",
    "depth", "target",       "gt",     "normal", "edges", "semantic", "instance"};

/// All but the last piece: "" of "jpg", "seg" of "seg.png".
std::string_view name_in(std::string_view ending) {
  const size_t dot = ending.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : ending.substr(0, dot);
}

ShardPartKind kind_of(const std::string& ending) {
  const std::string name = concat("x.", ending);
  if (has_image_name(name)) return ShardPartKind::kPicture;
  const std::string last = lower_ending(name);
  if (last == "cls") return ShardPartKind::kClass;
  if (last == "json") return ShardPartKind::kJson;
  return last == "txt" ? ShardPartKind::kText : ShardPartKind::kOther;
}

template <size_t N>
bool is_among(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_called_picture(std::string_view ending) {
  return is_among(name_in(ending), kPictureNames);
}

/// Names of fields begin with a letter; what stands behind a dot in other files' names are numbers, and endings of the file
/// that they go with: 1.jpg.json.
bool is_field_name(const ShardPart& part) {
  const std::string_view name = name_in(part.ending);
  if (name.empty()) return true;
  const std::vector<std::string> pieces = split(name, '.');
  return !has_image_name(concat("x.", pieces.front())) &&
         std::all_of(pieces.begin(), pieces.end(), [](const std::string& piece) {
           return !piece.empty() && piece[0] >= 'a' && piece[0] <= 'z';
         });
}

/// Whether what shares the picture's key is called as fields of a sample are.
bool has_fields(const ShardSample& sample) {
  size_t known = 0;
  size_t named = 0;
  for (const ShardPart& part : sample.parts) {
    if (part.kind == ShardPartKind::kOther) continue;
    if (!is_field_name(part)) return false;
    ++known;
    named += name_in(part.ending).empty() ? 0 : 1;
  }
  return known > 1 && named > 0;
}

/// Whether these are a picture and what is learnt beside it, by names that people give these.
bool has_mask_beside(const ShardSample& sample) {
  const auto is_mask = [](const ShardPart& part) {
    return part.kind == ShardPartKind::kPicture && is_called_mask(part.ending);
  };
  return std::any_of(sample.parts.begin(), sample.parts.end(), is_mask) &&
         picture_of(sample, {}, false) != nullptr;
}

/// Whether two parts have one ending.
bool has_twice(const std::vector<ShardPart>& parts) {
  std::vector<std::string_view> endings;
  endings.reserve(parts.size());
  for (const ShardPart& part : parts) endings.push_back(part.ending);
  std::sort(endings.begin(), endings.end());
  return std::adjacent_find(endings.begin(), endings.end()) != endings.end();
}

}  // namespace

const ShardPart* ShardSample::part(std::string_view ending) const {
  const auto it =
      std::find_if(parts.begin(), parts.end(), [&](const ShardPart& one) { return one.ending == ending; });
  return it == parts.end() ? nullptr : &*it;
}

bool ShardSample::has(ShardPartKind kind) const {
  return std::any_of(parts.begin(), parts.end(), [&](const ShardPart& one) { return one.kind == kind; });
}

std::string_view shard_key(std::string_view name) {
  const size_t slash = name.rfind('/');
  return name.substr(0, name.find('.', slash == std::string_view::npos ? 0 : slash + 1));
}

std::vector<ShardSample> shard_samples(const TarIndex& index) {
  std::vector<ShardSample> samples;
  std::unordered_map<std::string_view, size_t> place_of;
  for (const TarMember& member : index.members) {
    const std::string_view key = shard_key(member.name);
    const auto [it, fresh] = place_of.emplace(key, samples.size());
    if (fresh) samples.push_back({key, {}, false});
    ShardSample& sample = samples[it->second];
    std::string ending = lower_text(std::string_view(member.name).substr(key.size()));
    if (!ending.empty()) ending.erase(0, 1);
    const ShardPartKind kind = kind_of(ending);
    sample.parts.push_back({std::move(ending), kind, &member});
  }
  for (ShardSample& sample : samples) sample.has_twice = has_twice(sample.parts);
  return samples;
}

bool is_called_mask(std::string_view ending) {
  std::string words(name_in(ending));
  std::replace_if(
      words.begin(), words.end(), [](char c) { return c == '-' || c == '_'; }, '.');
  const std::vector<std::string> pieces = split(words, '.');
  return std::any_of(pieces.begin(), pieces.end(),
                     [](const std::string& piece) { return is_among(piece, kMaskNames); });
}

const ShardPart* picture_of(const ShardSample& sample, std::span<const std::string> masks, bool only_masks) {
  std::vector<const ShardPart*> pictures;
  for (const ShardPart& part : sample.parts) {
    const bool is_mask = (!only_masks && is_called_mask(part.ending)) ||
                         std::find(masks.begin(), masks.end(), part.ending) != masks.end();
    if (part.kind == ShardPartKind::kPicture && !is_mask) pictures.push_back(&part);
  }
  if (pictures.size() == 1) return pictures[0];
  for (const auto is_wanted : {+[](std::string_view ending) { return name_in(ending).empty(); },
                               +[](std::string_view ending) { return is_called_picture(ending); }}) {
    const auto wanted = [&](const ShardPart* part) { return is_wanted(part->ending); };
    const auto count = std::count_if(pictures.begin(), pictures.end(), wanted);
    if (count > 0) return count == 1 ? *std::find_if(pictures.begin(), pictures.end(), wanted) : nullptr;
  }
  return nullptr;
}

// Files of class folders may share a name up to a dot by chance: dog.1.jpg and dog.2.jpg, or a.rf.8f3b.jpg and
// a.rf.c01d.jpg. Each ending of samples is that of several, and a sample has more than half of them; or they are called as a
// picture and its mask.
bool is_webdataset(const TarIndex& index) {
  const std::vector<ShardSample> samples = shard_samples(index);
  size_t pictured = 0;
  size_t with_fields = 0;
  size_t files = 0;
  bool all_masked = true;
  std::set<std::string_view> endings;
  for (const ShardSample& sample : samples) {
    if (!sample.has(ShardPartKind::kPicture)) continue;
    if (sample.has(ShardPartKind::kClass) || sample.part("json") != nullptr || sample.part("txt") != nullptr)
      return true;
    ++pictured;
    if (!has_fields(sample)) continue;
    ++with_fields;
    files += sample.parts.size();
    all_masked = all_masked && has_mask_beside(sample);
    for (const ShardPart& part : sample.parts) endings.insert(part.ending);
  }
  const bool share_endings = files >= 2 * endings.size() && 2 * files > endings.size() * with_fields;
  return with_fields > 0 && 2 * with_fields >= pictured && (all_masked || share_endings);
}

}  // namespace dlpipe::data
