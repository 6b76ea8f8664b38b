// Oxford-IIIT Pet as published: images/NAME.jpg, annotations/trainval.txt and test.txt with NAME CLASS SPECIES BREED on every
// line (list.txt has both), and annotations/trimaps/NAME.png with 1 for the pet, 2 for what is behind it and 3 for its edge.
// The class is the name before its last number, "Abyssinian" of "Abyssinian_100", in the order of the lists' class numbers;
// the trimap is the mask as it is.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/annotations/annotated_pictures.h"
#include "dlpipe/io/data/sources/lists/manifest_source.h"
#include "dlpipe/io/data/sources/picture_folder.h"
#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::data {

namespace oxford_pet {

namespace {

namespace fs = std::filesystem;

struct Row {
  std::string name;
  int64_t number = 0;  // of its class, from 1
  std::string breed;
};

std::optional<Row> parse_row(std::string_view line) {
  std::vector<std::string> words;
  for (std::string& word : split(trim(line), ' ')) {
    if (!word.empty()) words.push_back(std::move(word));
  }
  Row row;
  int64_t species = 0;
  int64_t breed = 0;
  if (words.size() != 4 || !parse_int(words[1], &row.number) || !parse_int(words[2], &species) ||
      !parse_int(words[3], &breed) || row.number < 1)
    return std::nullopt;
  const size_t end = words[0].rfind('_');
  if (end == std::string::npos || end == 0 || words[0].find('/') != std::string::npos) return std::nullopt;
  row.name = words[0];
  row.breed = words[0].substr(0, end);
  return row;
}

/// The lists that are there, with the split of each.
std::vector<std::pair<std::string, std::string>> lists_in(const fs::path& root, bool splits) {
  std::vector<std::pair<std::string, std::string>> lists;
  const auto take = [&](const char* name, const char* split) {
    const fs::path file = root / "annotations" / name;
    std::error_code ignored;
    if (fs::is_regular_file(file, ignored)) lists.emplace_back(file.string(), splits ? split : "");
  };
  take("trainval.txt", "train");
  take("test.txt", "test");
  if (lists.empty()) take("list.txt", "");
  return lists;
}

class OxfordPetSource final : public AnnotatedSource {
 public:
  using AnnotatedSource::AnnotatedSource;

  Result<SourceListing> list() override;

 private:
  Status read_lists();
  void say_what_was_found(SourceListing& listing) const;

  std::vector<Row> rows_;  // one for each of found_
  std::vector<AnnotatedPicture> found_;
  std::vector<AnnotatedPictures::Part> parts_;
  std::map<int64_t, std::string> breeds_;
};

Status OxfordPetSource::read_lists() {
  const fs::path root(options_.path);
  for (const auto& [file, split_name] : lists_in(root, options_.splits)) {
    parts_.push_back(
        {(root / "images").string(), "", split_name, (root / "annotations" / "trimaps").string()});
    DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_list_text(file));
    int64_t line = 0;
    for (const std::string& one : split(text, '\n')) {
      ++line;
      if (trim(one).empty() || trim(one).starts_with('#')) continue;
      const auto wrong = [&, &file = file](std::string_view what) {
        return Status(ErrorCode::kCorrupt, concat("[ingest] ", printable(file), " line ", line, ": ", what));
      };
      std::optional<Row> row = parse_row(one);
      if (!row)
        return wrong("is no NAME CLASS SPECIES BREED, as Abyssinian_100 1 1 1; download the list again");
      const auto [former, fresh] = breeds_.emplace(row->number, row->breed);
      if (!fresh && former->second != row->breed)
        return wrong(concat("calls class ", row->number, " ", in_quotes(row->breed), ", a line before it ",
                            in_quotes(former->second), "; give each class one name"));
      AnnotatedPicture picture;
      picture.path = row->name + ".jpg";
      picture.part = parts_.size() - 1;
      picture.described = concat(file, " line ", line);
      std::error_code ignored;
      if (fs::exists(fs::path(parts_.back().masks) / (row->name + ".png"), ignored))
        picture.mask_file = row->name + ".png";
      found_.push_back(std::move(picture));
      rows_.push_back(*std::move(row));
    }
  }
  return {};
}

void OxfordPetSource::say_what_was_found(SourceListing& listing) const {
  std::set<std::string> listed;
  int64_t masks = 0;
  for (const AnnotatedPicture& picture : found_) {
    listed.insert(picture.path);
    masks += picture.mask_file.empty() ? 0 : 1;
  }
  int64_t unlisted = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(options_.path) / "images", error)) {
    const std::string name = entry.path().filename().string();
    unlisted += name[0] != '.' && has_image_name(name) && !listed.contains(name) ? 1 : 0;
  }
  listing.warnings.push_back(concat(
      "[ingest] ", printable(options_.path), " is read as Oxford-IIIT Pet: ", human_count(found_.size()),
      " pictures of ", breeds_.size(), " breeds, as the lists in annotations say",
      masks == 0 ? std::string()
                 : concat("; masks of ", human_count(masks), ": 1 the pet, 2 behind it, 3 its edge")));
  if (unlisted > 0)
    listing.warnings.push_back(concat("[ingest] left aside: ", human_count(unlisted),
                                      unlisted == 1 ? " picture" : " pictures", " that no list names"));
}

Result<SourceListing> OxfordPetSource::list() {
  rows_.clear();
  found_.clear();
  parts_.clear();
  breeds_.clear();
  DLPIPE_RETURN_IF_ERROR(read_lists());
  if (found_.empty())
    return Status(ErrorCode::kNotFound,
                  concat("[ingest] the lists in ", printable(options_.path), "/annotations name no picture"));
  SourceListing listing;
  say_what_was_found(listing);
  std::map<int64_t, int64_t> label_of;
  for (const auto& [number, breed] : breeds_) {
    label_of[number] = static_cast<int64_t>(listing.classes.size());
    listing.classes.push_back(breed);
  }
  listing.has_class_order = true;
  AnnotatedPictures::Kinds kinds;
  kinds.has_objects = false;
  DLPIPE_RETURN_IF_ERROR(pictures_.add(std::move(parts_), kinds, std::move(found_), listing));
  for (size_t i = 0; i < rows_.size(); ++i) listing.entries[i].label = label_of.at(rows_[i].number);
  if (options_.alone) warn_of_classes(listing);
  return listing;
}

int recognizes_oxford_pet(const SourceOptions& options) {
  std::error_code ignored;
  const fs::path root(options.path);
  if (!options.manifest.empty() || !fs::is_directory(root / "images", ignored)) return 0;
  for (const auto& [file, split_name] : lists_in(root, true)) {
    const auto text = read_list_text(file);
    if (!text.ok()) return 0;
    for (const std::string& line : split(*text, '\n')) {
      if (trim(line).empty() || trim(line).starts_with('#')) continue;
      return parse_row(line) ? 3 : 0;
    }
  }
  return 0;
}

Result<std::unique_ptr<Source>> open_oxford_pet(const SourceOptions& options) {
  return std::unique_ptr<Source>(std::make_unique<OxfordPetSource>(options));
}

}  // namespace

}  // namespace oxford_pet

extern const SourceRecord oxford_pet_source;
const SourceRecord oxford_pet_source = {
    "oxford_pet",
    "Oxford-IIIT Pet's folder as published: images/ and annotations/ with trainval.txt and trimaps/",
    oxford_pet::recognizes_oxford_pet, oxford_pet::open_oxford_pet};

}  // namespace dlpipe::data
