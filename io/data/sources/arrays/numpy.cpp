// Pictures and labels as arrays: SRC is an .npz, a folder of .npy files, or the .npy of the pictures with its labels beside
// it. An array's name says what it holds (x_train, images, test_labels) and of which split. Pictures are uint8 [N,H,W],
// [N,H,W,C] or [N,C,H,W]; labels whole numbers or texts [N], rows with a single 1, rows of 0 and 1 for several classes,
// or numbers, which become the field target. Texts [K] beside labels that are numbers below K name the classes.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/raw.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/arrays/npy_array.h"
#include "dlpipe/io/data/sources/arrays/numpy_labels.h"
#include "dlpipe/io/data/sources/arrays/numpy_pictures.h"
#include "dlpipe/io/data/sources/arrays/zip_file.h"
#include "dlpipe/io/data/sources/read_budget.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"
#include "dlpipe/io/data/sources/typed_columns.h"

namespace dlpipe::data {

namespace numpy {

namespace {

namespace fs = std::filesystem;

enum class Role : uint8_t { kOther, kPictures, kLabels };

/// What a name like "x_train" or "test_images" says.
Role role_of(const std::string& name) {
  static const std::set<std::string, std::less<>> kPictureNames = {
      "x", "images", "image", "imgs", "img", "data", "pictures", "features", "pics"};
  static const std::set<std::string, std::less<>> kLabelNames = {"y",      "labels",  "label", "targets",
                                                                 "target", "classes", "class"};
  Role role = Role::kOther;
  std::string word;
  for (const char c : lower_text(name) + "_") {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      word += c;
      continue;
    }
    if (kPictureNames.contains(word)) role = Role::kPictures;
    if (kLabelNames.contains(word)) return Role::kLabels;  // image_labels
    word.clear();
  }
  return role;
}

class NumpySource final : public Source {
 public:
  explicit NumpySource(SourceOptions options) : options_(std::move(options)) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override;

 private:
  static constexpr int kArrayShift = 40;  // entry.place = split << 40 | sample
  struct Split {
    std::string name;  // as a prefix of samples' paths: "train", "images"
    std::string split;
    NpyArray pictures;
    PictureForm form;
    Labels labels;
  };
  Status open_arrays();
  Status open_file(const fs::path& file);
  Status add_array(const ArchiveBytes& bytes, const fs::path& file, const std::string& name);
  Status open_zip(const fs::path& file);
  struct Pair {
    const NpyArray* pictures = nullptr;
    std::vector<const NpyArray*> labels;  // candidates
  };
  Role role_among(const NpyArray& array) const;
  /// What an array is for that is neither pictures nor labels: names of classes, or nothing.
  Status set_aside(const NpyArray& array);
  Status two_arrays(std::string_view of, const NpyArray& one, const NpyArray& other) const;
  Status choose_labels(Pair& pair);
  Status pair_up();
  Status add_split(const std::string& split, const Pair& pair, bool is_alone);
  void number(SourceListing& listing);
  void add_entries(size_t number, SourceListing& listing);
  Status add_fields(SourceListing& listing) const;

  /// Of what is made of all its numbers or texts.
  Status take_values(const NpyArray& array);

  SourceOptions options_;
  uint64_t input_bytes_ = 0;  // of all files
  std::optional<ReadBudget> budget_;
  std::vector<NpyArray> arrays_;
  std::vector<Split> splits_;
  std::vector<std::string> others_;  // arrays that are neither
  struct ClassNames {
    std::string array;
    std::vector<std::string> names;
  };
  std::vector<ClassNames> class_names_;  // what could be such
  std::vector<std::string> class_of_entry_;
};

Status NumpySource::open_file(const fs::path& file) {
  DLPIPE_ASSIGN_OR_RETURN(const ArchiveBytes bytes, ArchiveBytes::open_unpacked(file.string()));
  input_bytes_ += bytes.size_bytes();
  return add_array(bytes, file, file.stem().string());
}

Status NumpySource::add_array(const ArchiveBytes& bytes, const fs::path& file, const std::string& name) {
  auto array = NpyArray::open(bytes, name, options_);
  if (!array.ok()) return array.status().with_context(concat("[ingest] ", printable(file.string()), ": "));
  arrays_.push_back(std::move(*array));
  return {};
}

Status NumpySource::open_zip(const fs::path& file) {
  DLPIPE_ASSIGN_OR_RETURN(const ArchiveBytes bytes, ArchiveBytes::open_unpacked(file.string()));
  input_bytes_ += bytes.size_bytes();
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<ZipMember> members, zip_members(bytes, file.string()));
  for (const ZipMember& member : members) {
    if (!member.name.ends_with(".npy")) {
      others_.push_back(member.name);
      continue;
    }
    DLPIPE_ASSIGN_OR_RETURN(const ArchiveBytes inside, member_bytes(bytes, member, file.string(), options_));
    DLPIPE_RETURN_IF_ERROR(add_array(inside, file, member.name.substr(0, member.name.size() - 4)));
  }
  return {};
}

std::vector<fs::path> files_in(const fs::path& folder, std::string_view ending) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name[0] != '.' && lower_ending(name) == ending) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Status NumpySource::open_arrays() {
  const fs::path given(options_.path);
  if (!is_folder(given)) {
    if (lower_ending(options_.path) == "npz") return open_zip(given);
    const fs::path folder = given.parent_path().empty() ? fs::path(".") : given.parent_path();
    const std::string split = split_in_words(given.stem().string());
    DLPIPE_RETURN_IF_ERROR(open_file(given));
    for (const fs::path& file : files_in(folder, "npy")) {
      const std::string stem = file.stem().string();
      const bool is_wanted = options_.label.empty() ? role_of(stem) == Role::kLabels : stem == options_.label;
      if (file.filename() != given.filename() && is_wanted && split_in_words(stem) == split)
        DLPIPE_RETURN_IF_ERROR(open_file(file));
    }
    return {};
  }
  const std::vector<fs::path> archives = files_in(given, "npz");
  if (archives.size() == 1) return open_zip(archives[0]);
  if (archives.size() > 1)
    return misuse("ingest", printable(options_.path), " holds ", archives.size(),
                  " .npz files; give one, as ", printable(archives[0].string()));
  for (const fs::path& file : files_in(given, "npy")) DLPIPE_RETURN_IF_ERROR(open_file(file));
  return {};
}

/// Names, for messages: "x_train [10, 28, 28] of uint8, ..."
std::string arrays_text(const std::vector<NpyArray>& arrays) {
  std::string text;
  for (const NpyArray& array : arrays)
    text += concat(text.empty() ? "" : ", ", printable(array.name()), " ", array.form());
  return text;
}

// Arrays that no name tells of are told by their form: pictures have three dimensions at least.
Role NumpySource::role_among(const NpyArray& array) const {
  Role role = role_of(array.name());
  const bool has_form = array.header().shape.size() >= 3;
  if (!options_.label.empty()) {
    if (array.name() == options_.label)
      role = Role::kLabels;
    else if (role == Role::kLabels)
      role = Role::kOther;
  }
  if (role == Role::kOther && has_form && array.name() != options_.label) role = Role::kPictures;
  if (role == Role::kOther && arrays_.size() == 2 && options_.label.empty()) role = Role::kLabels;
  return role;
}

Status NumpySource::take_values(const NpyArray& array) {
  constexpr uint64_t kValueBytes = sizeof(double) + sizeof(std::string);
  constexpr uint64_t kSampleBytes = 64;  // a list of its own
  const std::string what = concat("the values of ", printable(array.name()), " ", array.form());
  DLPIPE_RETURN_IF_ERROR(
      budget_->take(kValueBytes + array.header().item_bytes, array.header().elements(), what));
  return budget_->take(kSampleBytes, array.samples(), what);
}

Status NumpySource::set_aside(const NpyArray& array) {
  std::vector<std::string> names;
  if (role_of(array.name()) == Role::kLabels) {
    DLPIPE_RETURN_IF_ERROR(take_values(array));
    DLPIPE_ASSIGN_OR_RETURN(names, class_names_in(array));
  }
  if (names.empty())
    others_.push_back(array.name());
  else
    class_names_.push_back({array.name(), std::move(names)});
  return {};
}

Status NumpySource::two_arrays(std::string_view of, const NpyArray& one, const NpyArray& other) const {
  return misuse("ingest", printable(options_.path), " holds two arrays of ", of, ", ", printable(one.name()),
                " and ", printable(other.name()),
                "; --label NAME names that of the labels, or save the wanted ones alone");
}

// Of several arrays those with another number of rows aren't the labels, where one has as many as there are pictures.
Status NumpySource::choose_labels(Pair& pair) {
  const auto fits = [&](const NpyArray* array) { return array->samples() == pair.pictures->samples(); };
  if (std::any_of(pair.labels.begin(), pair.labels.end(), fits)) {
    for (const NpyArray* const array : pair.labels) {
      if (!fits(array)) DLPIPE_RETURN_IF_ERROR(set_aside(*array));
    }
    std::erase_if(pair.labels, [&](const NpyArray* array) { return !fits(array); });
  }
  return pair.labels.size() < 2 ? Status() : two_arrays("labels", *pair.labels[0], *pair.labels[1]);
}

Status NumpySource::pair_up() {
  std::map<std::string, Pair> pairs;
  for (const NpyArray& array : arrays_) {
    const Role role = role_among(array);
    if (role == Role::kOther) {
      DLPIPE_RETURN_IF_ERROR(set_aside(array));
      continue;
    }
    Pair& pair = pairs[split_in_words(array.name())];
    if (role == Role::kLabels) {
      pair.labels.push_back(&array);
      continue;
    }
    if (pair.pictures != nullptr) return two_arrays("pictures", *pair.pictures, array);
    pair.pictures = &array;
  }
  for (const auto& [split, pair] : pairs) {
    if (pair.pictures != nullptr) continue;
    for (const NpyArray* const array : pair.labels) DLPIPE_RETURN_IF_ERROR(set_aside(*array));
  }
  std::erase_if(pairs, [](const auto& pair) { return pair.second.pictures == nullptr; });
  if (pairs.empty())
    return Status(ErrorCode::kNotFound,
                  concat("[ingest] ", printable(options_.path),
                         " holds no array of pictures, called x or images; it has: ", arrays_text(arrays_)));
  for (auto& [split, pair] : pairs) {
    DLPIPE_RETURN_IF_ERROR(choose_labels(pair));
    DLPIPE_RETURN_IF_ERROR(add_split(split, pair, pairs.size() == 1));
  }
  return {};
}

Status NumpySource::add_split(const std::string& split, const Pair& pair, bool is_alone) {
  Split one;
  one.name = split.empty() ? pair.pictures->name() : split;
  one.split = options_.splits && !is_alone ? split : "";
  one.pictures = *pair.pictures;
  DLPIPE_ASSIGN_OR_RETURN(one.form, picture_form(*pair.pictures));
  if (!pair.labels.empty()) {
    const NpyArray& labels = *pair.labels.front();
    if (labels.samples() != pair.pictures->samples())
      return Status(ErrorCode::kCorrupt,
                    concat("[ingest] the array ", printable(labels.name()), " has ", labels.samples(),
                           " labels for the ", pair.pictures->samples(), " pictures of ",
                           printable(pair.pictures->name())));
    DLPIPE_RETURN_IF_ERROR(take_values(labels));
    DLPIPE_ASSIGN_OR_RETURN(one.labels, labels_of(labels));
  }
  DLPIPE_RETURN_IF_ERROR(budget_->take_entries(pair.pictures->samples(), pair.labels.empty() ? 0 : 2));
  splits_.push_back(std::move(one));
  return {};
}

void NumpySource::add_entries(size_t number, SourceListing& listing) {
  const Split& one = splits_[number];
  constexpr size_t kDigits = 6;
  for (uint64_t i = 0; i < one.pictures.samples(); ++i) {
    SourceEntry entry;
    entry.path = numbered_path(one.name, i, kDigits);
    entry.size_bytes = kRawHeaderBytes + one.pictures.sample_elements();
    entry.modified_ns = one.pictures.modified_ns();
    entry.split = one.split;
    entry.place = static_cast<uint64_t>(number) << kArrayShift | i;
    if (!one.labels.several.empty()) entry.extra.push_back(encode_labels(one.labels.several[i]));
    if (!one.labels.targets.empty()) {
      const std::vector<float>& target = one.labels.targets[i];
      entry.extra.emplace_back(reinterpret_cast<const char*>(target.data()), target.size() * sizeof(float));
    }
    listing.entries.push_back(std::move(entry));
    class_of_entry_.push_back(one.labels.classes.empty() ? "" : one.labels.classes[i]);
  }
}

// All splits have labels of one kind.
Status NumpySource::add_fields(SourceListing& listing) const {
  const auto form = [](const Labels& labels) {
    return std::tuple(!labels.classes.empty(), !labels.several.empty(),
                      labels.targets.empty() ? 0 : labels.targets[0].size());
  };
  for (const Split& one : splits_) {
    if (form(one.labels) != form(splits_[0].labels))
      return misuse("ingest", printable(options_.path), ": the labels of ", printable(one.name), " and of ",
                    printable(splits_[0].name), " are of other kinds; give one of them alone");
  }
  const Labels& labels = splits_[0].labels;
  if (!labels.several.empty()) listing.fields.push_back({"labels", FieldKind::kLabels, DType::kI64, {}});
  if (!labels.targets.empty())
    listing.fields.push_back(
        {"target", FieldKind::kTensor, DType::kF32, {static_cast<int64_t>(labels.targets[0].size())}});
  return {};
}

// Columns of bits are called by their numbers, and so are labels that no array names.
void NumpySource::number(SourceListing& listing) {
  const bool has_several = !splits_[0].labels.several.empty();
  const bool is_named =
      class_names_.size() == 1 && std::all_of(splits_.begin(), splits_.end(), [&](const Split& one) {
        return are_below(one.labels, class_names_[0].names.size());
      });
  if (is_named) {
    listing.classes = class_names_[0].names;
    for (size_t i = 0; i < class_of_entry_.size(); ++i)
      parse_int(class_of_entry_[i], &listing.entries[i].label);
    listing.warnings.push_back(
        concat("[ingest] the array ", printable(class_names_[0].array), " names the classes"));
  } else if (has_several) {
    int64_t most = -1;
    for (const Split& one : splits_) {
      for (const auto& row : one.labels.several) most = row.empty() ? most : std::max(most, row.back());
    }
    for (int64_t c = 0; c <= most; ++c) listing.classes.push_back(std::to_string(c));
  } else {
    number_classes(class_of_entry_, listing);
  }
  listing.has_class_order = is_named || has_several;
  for (const ClassNames& unused : class_names_) {
    if (!is_named) others_.push_back(unused.array);
  }
}

Result<SourceListing> NumpySource::list() {
  arrays_.clear();
  splits_.clear();
  others_.clear();
  class_names_.clear();
  class_of_entry_.clear();
  input_bytes_ = 0;
  DLPIPE_RETURN_IF_ERROR(open_arrays());
  budget_.emplace(options_, options_.path, input_bytes_);
  DLPIPE_RETURN_IF_ERROR(pair_up());
  SourceListing listing;
  DLPIPE_RETURN_IF_ERROR(add_fields(listing));
  for (size_t i = 0; i < splits_.size(); ++i) add_entries(i, listing);
  number(listing);
  if (!others_.empty())
    listing.warnings.push_back(
        concat("[ingest] left aside, neither pictures nor labels: ", quoted_names(others_)));
  if (splits_[0].labels.classes.empty())
    warn_of_no_class(options_.path, listing);
  else if (options_.alone)
    warn_of_classes(listing);
  return listing;
}

Result<std::vector<std::byte>> NumpySource::read(const SourceEntry& entry) const {
  const Split& one = splits_[entry.place >> kArrayShift];
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes,
                          one.pictures.read(entry.place & ((uint64_t{1} << kArrayShift) - 1)));
  return raw_picture(one.form, bytes);
}

int recognizes_numpy(const SourceOptions& options) {
  if (!options.manifest.empty() || options.path == "-") return 0;
  std::error_code ignored;
  const std::string ending = lower_ending(options.path);
  if (!is_folder(options.path)) return ending == "npy" || ending == "npz" ? 2 : 0;
  for (const auto& entry : fs::directory_iterator(options.path, ignored)) {
    if (entry.is_directory(ignored) && entry.path().filename().string()[0] != '.') return 0;  // classes
  }
  return files_in(options.path, "npy").empty() && files_in(options.path, "npz").empty() ? 0 : 2;
}

Result<std::unique_ptr<Source>> open_numpy(const SourceOptions& options) {
  return std::unique_ptr<Source>(std::make_unique<NumpySource>(options));
}

}  // namespace

}  // namespace numpy

extern const SourceRecord numpy_source;
const SourceRecord numpy_source = {"numpy",
                                   "an .npz, a folder of .npy, or the .npy of the pictures: arrays called x "
                                   "or images and y or labels, with train, val or "
                                   "test in their names",
                                   numpy::recognizes_numpy, numpy::open_numpy, "--label"};

}  // namespace dlpipe::data
