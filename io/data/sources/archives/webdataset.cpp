// Samples of WebDataset in a tar archive: files that share a name up to its first dot, their key, are one sample. The rest of a
// name is the file's ending, and its last piece says what the file is: seg.png is an image, target.cls a class. The first
// half of this file finds out which file is what; the second half lists the images, their classes, texts, and the masks that
// --field names.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "io/data/file_name.h"
#include "io/data/sources/archives/tar.h"
#include "io/data/sources/classes.h"
#include "io/data/sources/image_folder.h"
#include "io/data/sources/source_file.h"
#include "io/data/sources/typed_columns.h"

namespace dlpipe::data {

namespace {

enum class ShardPartKind { kImage, kClass, kJson, kText, kOther };

struct ShardPart {
  std::string ending;  // everything after the first dot, in lower case
  ShardPartKind kind;
  const TarMember* member;
};

struct ShardSample {
  std::string_view key;
  std::vector<ShardPart> parts;
  bool has_twice = false;  // two files have the same ending

  const ShardPart* part(std::string_view ending) const;
  bool has(ShardPartKind kind) const;
};

constexpr std::array<std::string_view, 7> kImageNames = {"image", "img", "input", "picture",
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
  if (has_image_name(name)) return ShardPartKind::kImage;
  const std::string last = lower_ending(name);
  if (last == "cls") return ShardPartKind::kClass;
  if (last == "json") return ShardPartKind::kJson;
  return last == "txt" ? ShardPartKind::kText : ShardPartKind::kOther;
}

template <size_t N>
bool is_among(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_called_image(std::string_view ending) {
  return is_among(name_in(ending), kImageNames);
}

/// Whether the file has the name of a field. Such names begin with a letter. In other files' names, a dot is followed by a
/// number, or by the ending of the file that they belong to: 1.jpg.json.
bool is_field_name(const ShardPart& part) {
  const std::string_view name = name_in(part.ending);
  if (name.empty()) return true;
  const std::vector<std::string> pieces = split(name, '.');
  return !has_image_name(concat("x.", pieces.front())) &&
         std::all_of(pieces.begin(), pieces.end(), [](const std::string& piece) {
           return !piece.empty() && piece[0] >= 'a' && piece[0] <= 'z';
         });
}

/// Whether the files that share the image's key have names like fields of a sample.
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

/// Whether an ending names a target that is learnt together with an image: seg.png, semantic_mask.png, depth.png.
bool is_called_mask(std::string_view ending) {
  std::string words(name_in(ending));
  std::replace_if(
      words.begin(), words.end(), [](char c) { return c == '-' || c == '_'; }, '.');
  const std::vector<std::string> pieces = split(words, '.');
  return std::any_of(pieces.begin(), pieces.end(),
                     [](const std::string& piece) { return is_among(piece, kMaskNames); });
}

/// The image of a sample. Files in `masks` or named like masks don't count; with `only_masks`, those named like masks do. Of
/// several images, it is the one without a name of its own (jpg, not left.jpg), else the one named image, input, ... Null if
/// none or several fit.
const ShardPart* image_of(const ShardSample& sample, std::span<const std::string> masks, bool only_masks) {
  std::vector<const ShardPart*> images;
  for (const ShardPart& part : sample.parts) {
    const bool is_mask = (!only_masks && is_called_mask(part.ending)) ||
                         std::find(masks.begin(), masks.end(), part.ending) != masks.end();
    if (part.kind == ShardPartKind::kImage && !is_mask) images.push_back(&part);
  }
  if (images.size() == 1) return images[0];
  for (const auto is_wanted : {+[](std::string_view ending) { return name_in(ending).empty(); },
                               +[](std::string_view ending) { return is_called_image(ending); }}) {
    const auto wanted = [&](const ShardPart* part) { return is_wanted(part->ending); };
    const auto count = std::count_if(images.begin(), images.end(), wanted);
    if (count > 0) return count == 1 ? *std::find_if(images.begin(), images.end(), wanted) : nullptr;
  }
  return nullptr;
}

/// Whether the sample has an image and, judged by its name, a mask of it.
bool has_mask_beside(const ShardSample& sample) {
  const auto is_mask = [](const ShardPart& part) {
    return part.kind == ShardPartKind::kImage && is_called_mask(part.ending);
  };
  return std::any_of(sample.parts.begin(), sample.parts.end(), is_mask) &&
         image_of(sample, {}, false) != nullptr;
}

/// Whether two parts have the same ending.
bool has_twice(const std::vector<ShardPart>& parts) {
  std::vector<std::string_view> endings;
  endings.reserve(parts.size());
  for (const ShardPart& part : parts) endings.push_back(part.ending);
  std::sort(endings.begin(), endings.end());
  return std::adjacent_find(endings.begin(), endings.end()) != endings.end();
}

const ShardPart* ShardSample::part(std::string_view ending) const {
  const auto it =
      std::find_if(parts.begin(), parts.end(), [&](const ShardPart& one) { return one.ending == ending; });
  return it == parts.end() ? nullptr : &*it;
}

bool ShardSample::has(ShardPartKind kind) const {
  return std::any_of(parts.begin(), parts.end(), [&](const ShardPart& one) { return one.kind == kind; });
}

/// "a/b.c.jpg" -> "a/b".
std::string_view shard_key(std::string_view name) {
  const size_t slash = name.rfind('/');
  return name.substr(0, name.find('.', slash == std::string_view::npos ? 0 : slash + 1));
}

/// The samples, in the order of their first files. Points into `index`.
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

}  // namespace

// Files of class folders may share a name up to a dot by chance: dog.1.jpg and dog.2.jpg, or a.rf.8f3b.jpg and a.rf.c01d.jpg.
// In real samples, an ending occurs in at least two samples and a sample has more than half of the endings, both on average; or
// the files of every sample are named like an image and its mask.
bool is_webdataset(const TarIndex& index) {
  const std::vector<ShardSample> samples = shard_samples(index);
  size_t pictured = 0;
  size_t with_fields = 0;
  size_t files = 0;
  bool all_masked = true;
  std::set<std::string_view> endings;
  for (const ShardSample& sample : samples) {
    if (!sample.has(ShardPartKind::kImage)) continue;
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

namespace {

using SampleJson = nlohmann::json;

constexpr std::array<std::string_view, 6> kLabelKeys = {"label",      "class",    "cls",
                                                        "class_name", "category", "target"};

/// 'seg.png', 'jpg': the endings of a sample's images, or of other files of one kind.
std::string endings_text(const ShardSample& sample, ShardPartKind kind) {
  std::vector<std::string> endings;
  for (const ShardPart& part : sample.parts) {
    if (part.kind == kind) endings.push_back(concat(".", part.ending));
  }
  return quoted_names(endings);
}

class Lister {
 public:
  explicit Lister(const TarContents& tar) : tar_(tar), samples_(shard_samples(tar.index)) {}
  Result<SourceListing> list();

 private:
  Status take_field_options();
  Status check_images() const;
  Result<std::string> text_of(const TarMember& member) const;
  /// "" if nothing names the class. `part`: the result of class_part().
  Result<std::string> class_of(const ShardSample& sample, const Result<const ShardPart*>& part) const;
  Result<std::string> class_in_json(const std::string& text) const;
  /// The file that holds a sample's class; null if it has none, kUnsupported if it has several.
  Result<const ShardPart*> class_part(const ShardSample& sample) const;
  Status add(const ShardSample& sample);
  Status add_fields(const ShardSample& sample, SourceEntry& entry);
  void mark_cut_sample();
  Status finish();
  std::string mask_hint() const;
  void warn_of_left_aside();

  const TarContents& tar_;
  std::vector<ShardSample> samples_;
  SourceListing listing_;
  std::vector<std::string> class_of_entry_;
  std::vector<std::string> texts_;  // endings that become fields of text: json, caption.txt
  std::vector<std::string> masks_;  // endings of --field ENDING:mask
  bool only_masks_ = true;          // all images are named like masks: then they are ordinary images
  bool label_is_ending_ = false;    // --label names a .cls, and no key of a .json
  std::map<std::string, int64_t> left_aside_;
};

Result<std::string> Lister::text_of(const TarMember& member) const {
  constexpr uint64_t kMost = 1 << 20;
  if (member.size_bytes > kMost)
    return Status(ErrorCode::kUnsupported,
                  concat(short_name(member.name), " has more than ", human_bytes(kMost)));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes,
                          tar_.archive.read(member.begin, member.size_bytes));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<std::string> Lister::class_in_json(const std::string& text) const {
  const SampleJson json = SampleJson::parse(text, nullptr, false);
  if (!json.is_object()) return Status(ErrorCode::kCorrupt, "its .json is not a JSON object");
  std::vector<std::string_view> keys(kLabelKeys.begin(), kLabelKeys.end());
  if (!tar_.options.label.empty()) keys = {tar_.options.label};
  for (const std::string_view key : keys) {
    const auto it = json.find(std::string(key));
    if (it == json.end()) continue;
    if (it->is_string()) return it->get<std::string>();
    if (it->is_number_integer()) return it->dump();
    if (int64_t whole = 0; it->is_number() && parse_whole(it->dump(), &whole)) return std::to_string(whole);
    return Status(
        ErrorCode::kUnsupported,
        concat("'", key,
               "' of its .json is neither a name nor a whole number; choose another key with --label KEY"));
  }
  return std::string();
}

Result<const ShardPart*> Lister::class_part(const ShardSample& sample) const {
  const std::string& label = tar_.options.label;
  if (label_is_ending_) return sample.part(lower_text(label));
  if (!label.empty()) return nullptr;
  if (const ShardPart* plain = sample.part("cls"); plain != nullptr) return plain;
  const ShardPart* found = nullptr;
  for (const ShardPart& part : sample.parts) {
    if (part.kind != ShardPartKind::kClass) continue;
    if (found != nullptr)
      return Status(ErrorCode::kUnsupported,
                    concat("it has several classes, ", endings_text(sample, ShardPartKind::kClass),
                           "; --label ", shell_text(found->ending), " chooses one of them"));
    found = &part;
  }
  return found;
}

Result<std::string> Lister::class_of(const ShardSample& sample, const Result<const ShardPart*>& part) const {
  if (!part.ok()) return part.status();
  if (*part != nullptr) {
    const TarMember& cls = *(*part)->member;
    DLPIPE_ASSIGN_OR_RETURN(const std::string text, text_of(cls));
    const std::string name(trim(without_mark(text)));
    if (name.empty() || name.find_first_of("\n\r") != std::string::npos ||
        name.find('\0') != std::string::npos)
      return Status(ErrorCode::kUnsupported,
                    concat(short_name(cls.name), " does not hold one class on one line"));
    return name;
  }
  for (const std::string& ending : texts_) {
    const ShardPart* const json = sample.part(ending);
    if (json == nullptr || json->kind != ShardPartKind::kJson) continue;
    DLPIPE_ASSIGN_OR_RETURN(const std::string text, text_of(*json->member));
    DLPIPE_ASSIGN_OR_RETURN(std::string name, class_in_json(text));
    if (!name.empty()) return name;
  }
  return std::string();
}

Status Lister::add_fields(const ShardSample& sample, SourceEntry& entry) {
  DLPIPE_RETURN_IF_ERROR(tar_.budget.take_entries(1, texts_.size() + masks_.size()));
  for (const std::string& ending : texts_) {
    std::string text;
    if (const ShardPart* const part = sample.part(ending); part != nullptr) {
      DLPIPE_RETURN_IF_ERROR(tar_.budget.take(part->member->size_bytes, 1, "the texts of its samples"));
      auto read = text_of(*part->member);
      if (read.ok()) {
        text = std::move(*read);
      } else if (read.status().code() == ErrorCode::kUnsupported) {
        entry.problem = read.status().message();
      } else {
        return read.status();
      }
    }
    entry.extra.push_back(std::move(text));
  }
  for (const std::string& ending : masks_) {
    const ShardPart* const part = sample.part(ending);
    if (part != nullptr && part->member->is_link)
      entry.problem = concat("its .", printable(ending), " is a link in the archive, without its contents");
    entry.extra.push_back(part == nullptr ? std::string() : refer_to_member(*part->member, tar_.archive));
  }
  return {};
}

Status Lister::add(const ShardSample& sample) {
  const ShardPart* const image = image_of(sample, masks_, only_masks_);
  const auto found_class = class_part(sample);
  for (const ShardPart& part : sample.parts) {
    const bool is_stored = &part == image || (found_class.ok() && &part == *found_class) ||
                           part.kind == ShardPartKind::kJson || part.kind == ShardPartKind::kText ||
                           std::find(masks_.begin(), masks_.end(), part.ending) != masks_.end();
    if (!is_stored) ++left_aside_["." + part.ending];
  }
  if (!sample.has(ShardPartKind::kImage)) {
    ++left_aside_["sample without an image"];
    return {};
  }
  SourceEntry entry =
      entry_of(image != nullptr ? *image->member : *sample.parts.front().member, tar_.archive);
  if (sample.has_twice) entry.problem = "two files with the same ending share its key";
  if (image == nullptr)
    entry.problem = concat("it has several images, ", endings_text(sample, ShardPartKind::kImage),
                           ", and it is unclear which one to train on");
  std::string name;
  auto found = class_of(sample, found_class);
  if (found.ok()) {
    name = std::move(*found);
  } else if (found.status().code() != ErrorCode::kCorrupt &&
             found.status().code() != ErrorCode::kUnsupported) {
    return found.status();
  } else {
    entry.problem = found.status().message();
  }
  DLPIPE_RETURN_IF_ERROR(add_fields(sample, entry));
  listing_.entries.push_back(std::move(entry));
  class_of_entry_.push_back(std::move(name));
  return {};
}

// If the archive is corrupt, files of the previous sample may be among those that are lost.
void Lister::mark_cut_sample() {
  if (tar_.index.problem.empty() || tar_.index.members.empty()) return;
  const std::string_view key = shard_key(tar_.index.members.back().name);
  for (SourceEntry& entry : listing_.entries) {
    if (shard_key(entry.path) == key && entry.problem.empty())
      entry.problem = "the archive is corrupt after it, and a part of it may be lost";
  }
}

Status Lister::finish() {
  std::vector<std::string*> names;
  for (std::string& name : class_of_entry_) names.push_back(&name);
  write_whole_numbers(names);
  number_classes(class_of_entry_, listing_);
  if (listing_.classes.empty()) {
    const auto sound = std::find_if(listing_.entries.begin(), listing_.entries.end(),
                                    [](const SourceEntry& one) { return one.problem.empty(); });
    if (sound == listing_.entries.end()) return {};
    // Captions or masks can be learnt without classes. A .json alone is not enough: it may hold the class under another key.
    const bool has_captions = std::any_of(samples_.begin(), samples_.end(), [](const ShardSample& sample) {
      return sample.has(ShardPartKind::kText);
    });
    if (tar_.options.label.empty() && (has_captions || !masks_.empty())) {
      warn_of_no_class(tar_.name, listing_);
      warn_of_left_aside();
      return {};
    }
    return Status(
        ErrorCode::kNotFound,
        concat("[ingest] no class in the samples of ", printable(tar_.name), ": no .cls, and ",
               tar_.options.label.empty() ? "no 'label' or 'class' in a .json"
                                          : concat("no '", printable(tar_.options.label), "' in a .json"),
               "; give the .json's key of the class with --label KEY", mask_hint()));
  }
  for (size_t i = 0; i < class_of_entry_.size(); ++i) {
    SourceEntry& entry = listing_.entries[i];
    if (class_of_entry_[i].empty() && entry.problem.empty()) entry.problem = "it has no class";
  }
  if (tar_.options.alone) warn_of_classes(listing_, "; are there more shards?");
  warn_of_left_aside();
  return {};
}

/// How to store the masks that were ignored; "" if there are none.
std::string Lister::mask_hint() const {
  for (const auto& [ending, count] : left_aside_) {
    if (ending.ends_with(".png") && is_called_mask(ending.substr(1)))
      return concat("; if ", printable(ending), " is a mask of class numbers, add --field ",
                    shell_text(concat(ending.substr(1), ":mask")));
  }
  return {};
}

void Lister::warn_of_left_aside() {
  if (!left_aside_.empty())
    listing_.warnings.push_back(
        concat("[ingest] ", printable(tar_.name), ": ignored: ", kinds_text(left_aside_), mask_hint()));
}

Status Lister::take_field_options() {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<TypedColumn> typed, parse_typed_columns(tar_.options.fields));
  for (const TypedColumn& one : typed) {
    const std::string ending = lower_text(one.name);
    const auto is_image = [&](const ShardSample& sample) {
      const ShardPart* const part = sample.part(ending);
      return part != nullptr && part->kind == ShardPartKind::kImage;
    };
    const bool is_there = std::any_of(samples_.begin(), samples_.end(), is_image);
    if (one.kind == ColumnKind::kMask && is_there) {
      masks_.push_back(ending);
      continue;
    }
    const std::string option = concat("--field ", in_quotes(one.name), " of ", printable(tar_.name), ": ");
    if (one.kind != ColumnKind::kMask && tar_.options.alone)
      return misuse("ingest", option,
                    "in a shard, an image becomes a field with ENDING:mask; .json and .txt become fields "
                    "automatically; dlpipe.from_dataset accepts samples with any fields");
    if (tar_.options.alone)
      return misuse("ingest", option,
                    "no image in it has this ending; give everything after the first dot of the name");
    listing_.warnings.push_back(concat("[ingest] ", option, "no image in it has this ending"));
  }
  return {};
}

/// Fails if the image is ambiguous in all samples.
Status Lister::check_images() const {
  const ShardSample* unclear = nullptr;
  for (const ShardSample& sample : samples_) {
    if (!sample.has(ShardPartKind::kImage)) continue;
    if (image_of(sample, masks_, only_masks_) != nullptr) return {};
    if (unclear == nullptr) unclear = &sample;
  }
  if (unclear == nullptr) return {};
  return misuse("ingest", printable(tar_.name),
                ": which image of a sample is the one to train on? There are ",
                endings_text(*unclear, ShardPartKind::kImage),
                "; name it image or input, or give it no name (.jpg), or mark the masks with "
                "--field ENDING:mask; dlpipe.from_dataset accepts samples with any fields");
}

Result<SourceListing> Lister::list() {
  DLPIPE_RETURN_IF_ERROR(take_field_options());
  std::set<std::pair<size_t, std::string>> texts;  // json before meta.json
  for (const ShardSample& sample : samples_) {
    DLPIPE_RETURN_IF_ERROR(check_field_count(tar_.name, texts.size()));
    for (const ShardPart& part : sample.parts) {
      if (part.kind == ShardPartKind::kJson || part.kind == ShardPartKind::kText)
        texts.emplace(std::count(part.ending.begin(), part.ending.end(), '.'), part.ending);
      if (part.kind == ShardPartKind::kClass && part.ending == lower_text(tar_.options.label))
        label_is_ending_ = true;
      if (part.kind == ShardPartKind::kImage && !is_called_mask(part.ending)) only_masks_ = false;
    }
  }
  DLPIPE_RETURN_IF_ERROR(check_field_count(tar_.name, texts.size()));
  for (const auto& [dots, ending] : texts) {
    texts_.push_back(ending);
    listing_.fields.push_back(text_field(ending));
  }
  for (const std::string& ending : masks_)
    listing_.fields.push_back({ending, FieldKind::kMask, DType::kU8, {}});
  DLPIPE_RETURN_IF_ERROR(check_images());
  for (const ShardSample& sample : samples_) DLPIPE_RETURN_IF_ERROR(add(sample));
  mark_cut_sample();
  DLPIPE_RETURN_IF_ERROR(finish());
  return std::move(listing_);
}

}  // namespace

Result<SourceListing> list_webdataset(const TarContents& tar) {
  return Lister(tar).list();
}

}  // namespace dlpipe::data
