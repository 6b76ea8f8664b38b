// Pictures and labels as arrays: SRC is an .npz, a folder of .npy files, or the .npy of the pictures with its labels beside
// it. An array's name says what it holds (x_train, images, test_labels) and of which split. Pictures are uint8 [N,H,W],
// [N,H,W,C] or [N,C,H,W]; labels whole numbers or texts [N], rows with a single 1, rows of 0 and 1 for several classes,
// or numbers, which become the field target.
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
#include "dlpipe/io/data/sources/npy_array.h"
#include "dlpipe/io/data/sources/numpy_labels.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"
#include "dlpipe/io/data/sources/typed_columns.h"
#include "dlpipe/io/data/sources/zip_file.h"

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

/// How an array's samples are pictures.
struct PictureForm {
  int height = 0;
  int width = 0;
  int channels = 1;
  bool channels_first = false;
};

Result<PictureForm> picture_form(const NpyArray& array) {
  const auto no = [&](std::string_view what) {
    return Status(ErrorCode::kUnsupported,
                  concat("[ingest] the array ", printable(array.name()), " is ", array.form(), "; ", what));
  };
  const NpyHeader& header = array.header();
  if (header.kind != 'u' || header.item_bytes != 1)
    return no(header.kind == 'f'
                  ? "pictures are uint8: save (255 * x).round().astype('uint8') if it holds 0 to 1"
                  : "pictures are uint8: save x.astype('uint8') if it holds 0 to 255");
  const std::vector<uint64_t>& shape = header.shape;
  constexpr uint64_t kMostSide = 65'535;
  const auto is_colour = [](uint64_t channels) { return channels == 1 || channels == 3; };
  const bool has_rows = shape.size() == 3 || shape.size() == 4;
  if (!has_rows ||
      std::any_of(shape.begin() + 1, shape.end(), [](uint64_t side) { return side > kMostSide; }))
    return no("pictures are [N,H,W], [N,H,W,C] or [N,C,H,W]");
  PictureForm form;
  form.channels_first = shape.size() == 4 && !is_colour(shape[3]) && is_colour(shape[1]);
  if (shape.size() == 4 && !is_colour(shape[3]) && !form.channels_first)
    return no("C is 1 or 3, grey or red, green, blue");
  const size_t rows = form.channels_first ? 2 : 1;
  form.height = static_cast<int>(shape[rows]);
  form.width = static_cast<int>(shape[rows + 1]);
  if (shape.size() == 4) form.channels = static_cast<int>(shape[form.channels_first ? 1 : 3]);
  return form;
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
  Status pair_up();
  void add_entries(size_t number, SourceListing& listing);
  Status add_fields(SourceListing& listing) const;

  SourceOptions options_;
  std::vector<NpyArray> arrays_;
  std::vector<Split> splits_;
  std::vector<std::string> others_;  // arrays that are neither
  std::vector<std::string> class_of_entry_;
};

Status NumpySource::open_file(const fs::path& file) {
  DLPIPE_ASSIGN_OR_RETURN(const ArchiveBytes bytes, ArchiveBytes::open_unpacked(file.string()));
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
Status NumpySource::pair_up() {
  struct Pair {
    const NpyArray* pictures = nullptr;
    const NpyArray* labels = nullptr;
  };
  std::map<std::string, Pair> pairs;
  for (const NpyArray& array : arrays_) {
    const std::string split = split_in_words(array.name());
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
    if (role == Role::kOther) {
      others_.push_back(array.name());
      continue;
    }
    const NpyArray*& place = role == Role::kPictures ? pairs[split].pictures : pairs[split].labels;
    if (place != nullptr)
      return misuse("ingest", printable(options_.path), " holds two arrays of ",
                    role == Role::kPictures ? "pictures" : "labels", ", ", printable(place->name()), " and ",
                    printable(array.name()),
                    "; --label NAME names that of the labels, or save the wanted ones alone");
    place = &array;
  }
  std::erase_if(pairs, [&](const auto& pair) {
    if (pair.second.pictures == nullptr) others_.push_back(pair.second.labels->name());
    return pair.second.pictures == nullptr;
  });
  if (pairs.empty())
    return Status(ErrorCode::kNotFound,
                  concat("[ingest] ", printable(options_.path),
                         " holds no array of pictures, called x or images; it has: ", arrays_text(arrays_)));
  for (const auto& [split, pair] : pairs) {
    Split one;
    one.name = split.empty() ? pair.pictures->name() : split;
    one.split = options_.splits && pairs.size() > 1 ? split : "";
    one.pictures = *pair.pictures;
    DLPIPE_ASSIGN_OR_RETURN(one.form, picture_form(*pair.pictures));
    if (pair.labels != nullptr) {
      if (pair.labels->samples() != pair.pictures->samples())
        return Status(ErrorCode::kCorrupt,
                      concat("[ingest] the array ", printable(pair.labels->name()), " has ",
                             pair.labels->samples(), " labels for the ", pair.pictures->samples(),
                             " pictures of ", printable(pair.pictures->name())));
      DLPIPE_ASSIGN_OR_RETURN(one.labels, labels_of(*pair.labels));
    }
    splits_.push_back(std::move(one));
  }
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

Result<SourceListing> NumpySource::list() {
  arrays_.clear();
  splits_.clear();
  others_.clear();
  class_of_entry_.clear();
  DLPIPE_RETURN_IF_ERROR(open_arrays());
  DLPIPE_RETURN_IF_ERROR(pair_up());
  SourceListing listing;
  DLPIPE_RETURN_IF_ERROR(add_fields(listing));
  for (size_t i = 0; i < splits_.size(); ++i) add_entries(i, listing);
  const Labels& labels = splits_[0].labels;
  if (!labels.several.empty()) {  // bits of columns, which are called by their numbers
    int64_t most = -1;
    for (const Split& one : splits_) {
      for (const auto& row : one.labels.several) most = row.empty() ? most : std::max(most, row.back());
    }
    for (int64_t c = 0; c <= most; ++c) listing.classes.push_back(std::to_string(c));
    listing.has_class_order = true;
  } else {
    number_classes(class_of_entry_, listing);
  }
  if (!others_.empty())
    listing.warnings.push_back(
        concat("[ingest] left aside, neither pictures nor labels: ", quoted_names(others_)));
  if (labels.classes.empty())
    warn_of_no_class(options_.path, listing);
  else if (options_.alone)
    warn_of_classes(listing);
  return listing;
}

Result<std::vector<std::byte>> NumpySource::read(const SourceEntry& entry) const {
  const Split& one = splits_[entry.place >> kArrayShift];
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes,
                          one.pictures.read(entry.place & ((uint64_t{1} << kArrayShift) - 1)));
  const PictureForm& form = one.form;
  const auto* pixels = reinterpret_cast<const uint8_t*>(bytes.data());
  std::vector<uint8_t> interleaved;
  if (form.channels_first && form.channels > 1) {
    const size_t plane = static_cast<size_t>(form.height) * static_cast<size_t>(form.width);
    const auto channels = static_cast<size_t>(form.channels);
    interleaved.resize(bytes.size());
    for (size_t i = 0; i < plane; ++i) {
      for (size_t c = 0; c < channels; ++c) interleaved[channels * i + c] = pixels[c * plane + i];
    }
    pixels = interleaved.data();
  }
  return encode_raw({pixels, form.width, form.height, form.channels, ptrdiff_t{form.width} * form.channels});
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
