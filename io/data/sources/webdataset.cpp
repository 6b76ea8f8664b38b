// Samples of WebDataset in a tar archive: files that share a name up to its first dot are one sample.
#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/sources/picture_folder.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/tar_layout.h"

namespace dlpipe::data {

namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 3> kTexts = {"cls", "json", "txt"};
constexpr std::array<std::string_view, 6> kLabelKeys = {"label",      "class",    "cls",
                                                        "class_name", "category", "target"};

struct Part {
  std::string ending;  // all behind the first dot, in lower case
  const TarMember* member;
};

struct Sample {
  std::string_view key;
  std::vector<Part> parts;
  bool has_twice = false;

  const TarMember* part(std::string_view ending) const {
    const auto it =
        std::find_if(parts.begin(), parts.end(), [&](const Part& one) { return one.ending == ending; });
    return it == parts.end() ? nullptr : it->member;
  }
};

/// "a/b.c.jpg" -> "a/b", "c.jpg".
std::pair<std::string_view, std::string> key_and_ending(std::string_view name) {
  const size_t slash = name.rfind('/');
  const size_t dot = name.find('.', slash == std::string_view::npos ? 0 : slash + 1);
  if (dot == std::string_view::npos) return {name, ""};
  return {name.substr(0, dot), lower_text(name.substr(dot + 1))};
}

bool is_text(std::string_view ending) {
  return std::find(kTexts.begin(), kTexts.end(), ending) != kTexts.end();
}

std::vector<Sample> group(const TarIndex& index) {
  std::vector<Sample> samples;
  std::unordered_map<std::string_view, size_t> place_of;
  for (const TarMember& member : index.members) {
    auto [key, ending] = key_and_ending(member.name);
    const auto [it, fresh] = place_of.emplace(key, samples.size());
    if (fresh) samples.push_back({key, {}, false});
    Sample& sample = samples[it->second];
    sample.has_twice = sample.has_twice || sample.part(ending) != nullptr;
    sample.parts.push_back({std::move(ending), &member});
  }
  return samples;
}

/// The one picture of a sample: of several, the one without a name of its own (jpg, not seg.png).
const Part* picture_of(const Sample& sample) {
  const Part* found = nullptr;
  int64_t plain = 0;
  for (const Part& part : sample.parts) {
    if (!has_image_name("x." + part.ending)) continue;
    const bool is_plain = part.ending.find('.') == std::string::npos;
    if (is_plain && ++plain > 1) return nullptr;
    if (is_plain || found == nullptr) found = &part;
  }
  return found;
}

class Lister {
 public:
  explicit Lister(const TarContents& tar) : tar_(tar) {}
  Result<SourceListing> list();

 private:
  Result<std::string> text_of(const TarMember& member) const;
  /// "" where nothing names it.
  Result<std::string> class_of(const Sample& sample) const;
  Result<std::string> class_in_json(const std::string& text) const;
  Status add(const Sample& sample);
  void mark_cut_sample();
  Status finish();
  void warn_of_left_aside();

  const TarContents& tar_;
  SourceListing listing_;
  std::vector<std::string> class_of_entry_;
  std::vector<std::string> fields_;  // "json", "txt" where a sample has one
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
    return Status(
        ErrorCode::kUnsupported,
        concat("'", key, "' of its .json is neither a name nor a whole number; --label KEY names another"));
  }
  return std::string();
}

Result<std::string> Lister::class_of(const Sample& sample) const {
  const bool wants_json = !tar_.options.label.empty() && tar_.options.label != "cls";
  if (const TarMember* cls = sample.part("cls"); cls != nullptr && !wants_json) {
    DLPIPE_ASSIGN_OR_RETURN(const std::string text, text_of(*cls));
    const std::string name(trim(text));
    if (name.empty() || name.find_first_of("\n\r") != std::string::npos ||
        name.find('\0') != std::string::npos)
      return Status(ErrorCode::kUnsupported, concat(printable(cls->name), " is not one class on one line"));
    return name;
  }
  const TarMember* json = sample.part("json");
  if (json == nullptr) return std::string();
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, text_of(*json));
  return class_in_json(text);
}

Status Lister::add(const Sample& sample) {
  const Part* const picture = picture_of(sample);
  for (const Part& part : sample.parts) {
    if (&part != picture && !is_text(part.ending)) ++left_aside_["." + part.ending];
  }
  const bool has_picture = std::any_of(sample.parts.begin(), sample.parts.end(),
                                       [](const Part& part) { return has_image_name("x." + part.ending); });
  if (!has_picture) {
    ++left_aside_["sample without a picture"];
    return {};
  }
  SourceEntry entry =
      entry_of(picture != nullptr ? *picture->member : *sample.parts.front().member, tar_.archive);
  if (sample.has_twice) entry.problem = "two files of one ending share its key";
  if (picture == nullptr) entry.problem = "it has several pictures, and none of them is the one to train on";
  std::string name;
  auto found = class_of(sample);
  if (found.ok()) {
    name = std::move(*found);
  } else if (found.status().code() != ErrorCode::kCorrupt &&
             found.status().code() != ErrorCode::kUnsupported) {
    return found.status();
  } else {
    entry.problem = found.status().message();
  }
  for (const std::string& field : fields_) {
    const TarMember* const member = sample.part(field);
    std::string text;
    if (member != nullptr) {
      auto read = text_of(*member);
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
  listing_.entries.push_back(std::move(entry));
  class_of_entry_.push_back(std::move(name));
  return {};
}

// Where the archive is damaged, files of the sample before may be among those that are lost.
void Lister::mark_cut_sample() {
  if (tar_.index.problem.empty() || tar_.index.members.empty()) return;
  const std::string_view key = key_and_ending(tar_.index.members.back().name).first;
  for (SourceEntry& entry : listing_.entries) {
    if (key_and_ending(entry.path).first == key && entry.problem.empty())
      entry.problem = "the archive is damaged behind it, and a part of it may be lost";
  }
}

Status Lister::finish() {
  number_classes(class_of_entry_, listing_);
  if (listing_.classes.empty()) {
    const auto sound = std::find_if(listing_.entries.begin(), listing_.entries.end(),
                                    [](const SourceEntry& one) { return one.problem.empty(); });
    if (sound == listing_.entries.end()) return {};
    // Captions, as image and text models learn from; a .json alone may hold the class under another key.
    if (tar_.options.label.empty() && std::find(fields_.begin(), fields_.end(), "txt") != fields_.end()) {
      warn_of_no_class(tar_.name, listing_);
      warn_of_left_aside();
      return {};
    }
    return Status(
        ErrorCode::kNotFound,
        concat("[ingest] no class in the samples of ", printable(tar_.name), ": no .cls, and ",
               tar_.options.label.empty() ? "no 'label' or 'class' in a .json"
                                          : concat("no '", printable(tar_.options.label), "' in a .json"),
               "; --label KEY names the key of the .json that holds the class"));
  }
  for (size_t i = 0; i < class_of_entry_.size(); ++i) {
    SourceEntry& entry = listing_.entries[i];
    if (class_of_entry_[i].empty() && entry.problem.empty()) entry.problem = "nothing names its class";
  }
  if (tar_.options.alone) warn_of_classes(listing_, "; are there further shards?");
  warn_of_left_aside();
  return {};
}

void Lister::warn_of_left_aside() {
  if (!left_aside_.empty())
    listing_.warnings.push_back(
        concat("[ingest] ", printable(tar_.name), ": left aside: ", kinds_text(left_aside_)));
}

Result<SourceListing> Lister::list() {
  const std::vector<Sample> samples = group(tar_.index);
  for (const std::string_view field : {"json", "txt"}) {
    if (std::any_of(samples.begin(), samples.end(),
                    [&](const Sample& one) { return one.part(field) != nullptr; }))
      fields_.emplace_back(field);
  }
  for (const std::string& field : fields_) listing_.fields.push_back(text_field(field));
  for (const Sample& sample : samples) DLPIPE_RETURN_IF_ERROR(add(sample));
  mark_cut_sample();
  DLPIPE_RETURN_IF_ERROR(finish());
  return std::move(listing_);
}

}  // namespace

bool is_webdataset(const TarIndex& index) {
  const std::vector<Sample> samples = group(index);
  return std::any_of(samples.begin(), samples.end(), [](const Sample& sample) {
    const bool has_picture = std::any_of(sample.parts.begin(), sample.parts.end(),
                                         [](const Part& part) { return has_image_name("x." + part.ending); });
    return has_picture && std::any_of(sample.parts.begin(), sample.parts.end(),
                                      [](const Part& part) { return is_text(part.ending); });
  });
}

Result<SourceListing> list_webdataset(const TarContents& tar) {
  return Lister(tar).list();
}

}  // namespace dlpipe::data
