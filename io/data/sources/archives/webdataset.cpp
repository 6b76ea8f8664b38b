// Samples of WebDataset in a tar archive as a listing: their pictures, classes, texts, and masks where they are asked for.
#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/archives/tar_layout.h"
#include "dlpipe/io/data/sources/archives/webdataset_samples.h"
#include "dlpipe/io/data/sources/class_numbers.h"
#include "dlpipe/io/data/sources/picture_folder.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/typed_columns.h"

namespace dlpipe::data {

namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 6> kLabelKeys = {"label",      "class",    "cls",
                                                        "class_name", "category", "target"};

/// 'seg.png', 'jpg': the endings of a sample's pictures, or of what else is of a kind.
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
  Status check_pictures() const;
  Result<std::string> text_of(const TarMember& member) const;
  /// "" where nothing names it. `part`: what class_part() says.
  Result<std::string> class_of(const ShardSample& sample, const Result<const ShardPart*>& part) const;
  Result<std::string> class_in_json(const std::string& text) const;
  /// The file that holds a sample's class; null where it has none, kUnsupported where it has several.
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
  bool only_masks_ = true;          // all pictures are called as masks are: then they are the pictures
  bool label_is_ending_ = false;    // --label names a .cls, and no key of a .json
  std::map<std::string, int64_t> left_aside_;
};

Result<std::string> Lister::text_of(const TarMember& member) const {
  constexpr uint64_t kMost = 1 << 20;
  if (member.size_bytes > kMost)
    return Status(ErrorCode::kUnsupported,
                  concat(printable(member.name), " has more than ", human_bytes(kMost)));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes,
                          tar_.archive.read(member.begin, member.size_bytes));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<std::string> Lister::class_in_json(const std::string& text) const {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return Status(ErrorCode::kCorrupt, "its .json is no JSON object");
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
        concat("'", key, "' of its .json is neither a name nor a whole number; --label KEY names another"));
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
                           "; --label ", shell_word(found->ending), " takes one of them"));
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
      return Status(ErrorCode::kUnsupported, concat(printable(cls.name), " is not one class on one line"));
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
      entry.problem =
          concat("its .", printable(ending), " is a link in the archive, which holds no bytes of it");
    entry.extra.push_back(part == nullptr ? std::string() : refer_to_member(*part->member, tar_.archive));
  }
  return {};
}

Status Lister::add(const ShardSample& sample) {
  const ShardPart* const picture = picture_of(sample, masks_, only_masks_);
  const auto found_class = class_part(sample);
  for (const ShardPart& part : sample.parts) {
    const bool is_stored = &part == picture || (found_class.ok() && &part == *found_class) ||
                           part.kind == ShardPartKind::kJson || part.kind == ShardPartKind::kText ||
                           std::find(masks_.begin(), masks_.end(), part.ending) != masks_.end();
    if (!is_stored) ++left_aside_["." + part.ending];
  }
  if (!sample.has(ShardPartKind::kPicture)) {
    ++left_aside_["sample without a picture"];
    return {};
  }
  SourceEntry entry =
      entry_of(picture != nullptr ? *picture->member : *sample.parts.front().member, tar_.archive);
  if (sample.has_twice) entry.problem = "two files of one ending share its key";
  if (picture == nullptr)
    entry.problem = concat("it has several pictures, ", endings_text(sample, ShardPartKind::kPicture),
                           ", and none of them is clearly the one to train on");
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

// Where the archive is damaged, files of the sample before may be among those that are lost.
void Lister::mark_cut_sample() {
  if (tar_.index.problem.empty() || tar_.index.members.empty()) return;
  const std::string_view key = shard_key(tar_.index.members.back().name);
  for (SourceEntry& entry : listing_.entries) {
    if (shard_key(entry.path) == key && entry.problem.empty())
      entry.problem = "the archive is damaged behind it, and a part of it may be lost";
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
    // Captions, as image and text models learn from, or masks; a .json alone may hold the class under another key.
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
               "; --label KEY names the key of the .json that holds the class", mask_hint()));
  }
  for (size_t i = 0; i < class_of_entry_.size(); ++i) {
    SourceEntry& entry = listing_.entries[i];
    if (class_of_entry_[i].empty() && entry.problem.empty()) entry.problem = "nothing names its class";
  }
  if (tar_.options.alone) warn_of_classes(listing_, "; are there further shards?");
  warn_of_left_aside();
  return {};
}

/// How to store the masks that were left aside; "" where there are none.
std::string Lister::mask_hint() const {
  for (const auto& [ending, count] : left_aside_) {
    if (ending.ends_with(".png") && is_called_mask(ending.substr(1)))
      return concat("; if ", printable(ending), " holds class numbers, a mask: --field ",
                    shell_word(concat(ending.substr(1), ":mask")));
  }
  return {};
}

void Lister::warn_of_left_aside() {
  if (!left_aside_.empty())
    listing_.warnings.push_back(
        concat("[ingest] ", printable(tar_.name), ": left aside: ", kinds_text(left_aside_), mask_hint()));
}

Status Lister::take_field_options() {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<TypedColumn> typed, parse_typed_columns(tar_.options.fields));
  for (const TypedColumn& one : typed) {
    const std::string ending = lower_text(one.name);
    const auto is_picture = [&](const ShardSample& sample) {
      const ShardPart* const part = sample.part(ending);
      return part != nullptr && part->kind == ShardPartKind::kPicture;
    };
    const bool is_there = std::any_of(samples_.begin(), samples_.end(), is_picture);
    if (one.kind == ColumnKind::kMask && is_there) {
      masks_.push_back(ending);
      continue;
    }
    const std::string option = concat("--field ", in_quotes(one.name), " of ", printable(tar_.name), ": ");
    if (one.kind != ColumnKind::kMask && tar_.options.alone)
      return misuse("ingest", option,
                    "of a shard's files pictures become fields by ENDING:mask, and .json and .txt by "
                    "themselves; dlpipe.from_dataset takes samples with any fields");
    if (tar_.options.alone)
      return misuse("ingest", option, "no picture in it ends so; give all behind the name's first dot");
    listing_.warnings.push_back(concat("[ingest] ", option, "no picture in it ends so"));
  }
  return {};
}

/// Refuses where the picture is clear in no sample at all.
Status Lister::check_pictures() const {
  const ShardSample* unclear = nullptr;
  for (const ShardSample& sample : samples_) {
    if (!sample.has(ShardPartKind::kPicture)) continue;
    if (picture_of(sample, masks_, only_masks_) != nullptr) return {};
    if (unclear == nullptr) unclear = &sample;
  }
  if (unclear == nullptr) return {};
  return misuse(
      "ingest", printable(tar_.name), ": which picture of a sample is the one to train on? There are ",
      endings_text(*unclear, ShardPartKind::kPicture),
      "; it would be one called image or input, or one without a name (.jpg); --field ENDING:mask says "
      "which is a mask; dlpipe.from_dataset takes samples with any fields");
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
      if (part.kind == ShardPartKind::kPicture && !is_called_mask(part.ending)) only_masks_ = false;
    }
  }
  DLPIPE_RETURN_IF_ERROR(check_field_count(tar_.name, texts.size()));
  for (const auto& [dots, ending] : texts) {
    texts_.push_back(ending);
    listing_.fields.push_back(text_field(ending));
  }
  for (const std::string& ending : masks_)
    listing_.fields.push_back({ending, FieldKind::kMask, DType::kU8, {}});
  DLPIPE_RETURN_IF_ERROR(check_pictures());
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
