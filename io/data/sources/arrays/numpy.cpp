// Images and labels as arrays: SRC is an .npz, a folder of .npy files, or the .npy of the images with its labels next to it. An
// array's name says what it contains (x_train, images, test_labels) and of which split. Images are uint8 [N,H,W], [N,H,W,C] or
// [N,C,H,W]; labels whole numbers or texts [N], rows with a single 1, rows of 0 and 1 for several classes, or numbers, which
// become the field target. Texts [K] next to labels that are numbers below K name the classes.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/codec/bitmaps.h"
#include "io/data/file_name.h"
#include "io/data/sources/arrays/npz.h"
#include "io/data/sources/layouts.h"
#include "io/data/sources/source_file.h"
#include "io/data/sources/typed_columns.h"

namespace dlpipe::data {

namespace numpy {

namespace {

namespace fs = std::filesystem;

/// The data of each sample of a split, except for its image.
struct Labels {
  std::vector<std::string> classes;           // one for each sample; empty: none
  std::vector<std::vector<int64_t>> several;  // classes of each
  std::vector<std::vector<float>> targets;    // numbers of each
};

/// The layout of the images in an array.
struct ImageForm {
  int height = 0;
  int width = 0;
  int channels = 1;
  bool channels_first = false;
};

/// kUnsupported for an array that is not of images: uint8 [N,H,W], [N,H,W,C] or [N,C,H,W] with one channel or three.
Result<ImageForm> image_form(const NpyArray& array) {
  const auto no = [&](std::string_view what) {
    return Status(ErrorCode::kUnsupported,
                  concat("[ingest] the array ", printable(array.name()), " is ", array.form(), "; ", what));
  };
  const formats::NpyHeader& header = array.header();
  if (header.kind != 'u' || header.item_bytes != 1)
    return no(header.kind == 'f'
                  ? "images must be uint8: save (255 * x).round().astype('uint8') if values are 0 to 1"
                  : "images must be uint8: save x.astype('uint8') if values are 0 to 255");
  const std::vector<uint64_t>& shape = header.shape;
  constexpr uint64_t kMostSide = 65'535;
  const auto is_colour = [](uint64_t channels) { return channels == 1 || channels == 3; };
  if (shape.size() != 3 && shape.size() != 4) return no("images must be [N,H,W], [N,H,W,C] or [N,C,H,W]");
  if (std::any_of(shape.begin() + 1, shape.end(), [](uint64_t side) { return side > kMostSide; }))
    return no(concat("images have at most ", kMostSide, " pixels on a side"));
  ImageForm form;
  form.channels_first = shape.size() == 4 && !is_colour(shape[3]) && is_colour(shape[1]);
  if (shape.size() == 4 && !is_colour(shape[3]) && !form.channels_first)
    return no("C must be 1 (grey) or 3 (red, green, blue)");
  const size_t rows = form.channels_first ? 2 : 1;
  form.height = static_cast<int>(shape[rows]);
  form.width = static_cast<int>(shape[rows + 1]);
  if (shape.size() == 4) form.channels = static_cast<int>(shape[form.channels_first ? 1 : 3]);
  return form;
}

/// Encodes the bytes of one sample with encode_raw().
std::vector<std::byte> raw_image(const ImageForm& form, std::span<const std::byte> bytes) {
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

bool holds_texts(const NpyArray& array) {
  return array.header().kind == 'S' || array.header().kind == 'U';
}

Status check_target(const NpyArray& array, std::span<const double> target, uint64_t row) {
  const auto odd = std::find_if(target.begin(), target.end(),
                                [](double v) { return !std::isfinite(static_cast<float>(v)); });
  if (odd == target.end()) return {};
  return Status(
      ErrorCode::kCorrupt,
      concat("[ingest] the array ", printable(array.name()), " holds ", *odd, " in row ", row,
             ", counted from 0; a target must be a number that f32 can hold: leave such samples out"));
}

/// kCorrupt if a label is neither a class nor a number that fits an f32.
Result<Labels> labels_of(const NpyArray& array) {
  Labels labels;
  const uint64_t columns = array.sample_elements();
  if (holds_texts(array)) {
    if (columns == 1) {
      DLPIPE_ASSIGN_OR_RETURN(labels.classes, array.texts());
      if (std::find(labels.classes.begin(), labels.classes.end(), "") != labels.classes.end())
        return Status(ErrorCode::kCorrupt, concat("[ingest] the array ", printable(array.name()),
                                                  " has an empty string, which is not a class"));
      return labels;
    }
    return Status(ErrorCode::kUnsupported, concat("[ingest] the array ", printable(array.name()), " is ",
                                                  array.form(), "; strings must be [N], one class each"));
  }
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<double> values, array.numbers());
  const auto row = [&](uint64_t i) { return std::span(values).subspan(i * columns, columns); };
  const auto all = [&](const auto& check) { return std::all_of(values.begin(), values.end(), check); };
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const bool is_whole = all([](double v) { return v == std::floor(v) && std::abs(v) <= kExact; });
  const bool is_bits = columns > 1 && all([](double v) { return v == 0 || v == 1; });
  bool is_one_hot = is_bits;
  for (uint64_t i = 0; is_one_hot && i < array.samples(); ++i)
    is_one_hot = std::count(row(i).begin(), row(i).end(), 1.0) == 1;
  for (uint64_t i = 0; i < array.samples(); ++i) {
    if (columns == 1 && is_whole) {
      labels.classes.push_back(std::to_string(static_cast<int64_t>(row(i)[0])));
    } else if (is_one_hot) {
      labels.classes.push_back(std::to_string(std::find(row(i).begin(), row(i).end(), 1.0) - row(i).begin()));
    } else if (is_bits) {
      std::vector<int64_t>& of_sample = labels.several.emplace_back();
      for (uint64_t c = 0; c < columns; ++c) {
        if (row(i)[c] == 1) of_sample.push_back(static_cast<int64_t>(c));
      }
    } else {
      DLPIPE_RETURN_IF_ERROR(check_target(array, row(i), i));
      labels.targets.emplace_back(row(i).begin(), row(i).end());
    }
  }
  return labels;
}

/// The texts of `array` if they can be names of classes, in the order of their numbers: [K], none empty or repeated. Else
/// empty.
Result<std::vector<std::string>> class_names_in(const NpyArray& array) {
  if (!holds_texts(array) || array.sample_elements() != 1) return std::vector<std::string>();
  DLPIPE_ASSIGN_OR_RETURN(std::vector<std::string> names, array.texts());
  const std::set<std::string_view> different(names.begin(), names.end());
  if (different.size() != names.size() || different.contains("")) names.clear();
  return names;
}

/// Whether the classes in `labels` are numbers below `count`; false if there are no classes.
bool are_below(const Labels& labels, size_t count) {
  const auto is_below = [&](int64_t number) { return number >= 0 && number < static_cast<int64_t>(count); };
  const bool classes_are = std::all_of(labels.classes.begin(), labels.classes.end(), [&](const auto& text) {
    int64_t number = 0;
    return parse_int(text, &number) && is_below(number);
  });
  const bool several_are = std::all_of(labels.several.begin(), labels.several.end(), [&](const auto& row) {
    return std::all_of(row.begin(), row.end(), is_below);
  });
  return classes_are && several_are && (!labels.classes.empty() || !labels.several.empty());
}

enum class Role : uint8_t { kOther, kImages, kLabels };

/// The meaning of a name like "x_train" or "test_images".
Role role_of(const std::string& name) {
  static const std::set<std::string, std::less<>> kImageNames = {
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
    if (kImageNames.contains(word)) role = Role::kImages;
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
    NpyArray images;
    ImageForm form;
    Labels labels;
  };
  Status open_arrays();
  Status open_file(const fs::path& file);
  Status add_array(Result<NpyArray> array, const fs::path& file);
  Status open_zip(const fs::path& file);
  struct Pair {
    NpyArray* images = nullptr;
    std::vector<NpyArray*> labels;  // candidates
  };
  Role role_among(const NpyArray& array) const;
  /// The use of an array that is neither images nor labels: names of classes, or none.
  Status set_aside(NpyArray& array);
  Status two_arrays(std::string_view of, const NpyArray& one, const NpyArray& other) const;
  Status choose_labels(Pair& pair);
  Status pair_up();
  Status add_split(const std::string& split, const Pair& pair, bool is_alone);
  void number(SourceListing& listing);
  void add_entries(size_t number, SourceListing& listing);
  Status add_fields(SourceListing& listing) const;

  /// Makes the elements of an array that is used readable, and takes the memory for unpacking it from the budget.
  Status load(NpyArray& array);
  /// The same, and also reserves memory for the values that are made from all its numbers or texts.
  Status take_values(NpyArray& array);

  SourceOptions options_;
  uint64_t input_bytes_ = 0;  // of all files
  std::optional<ReadBudget> budget_;
  std::vector<NpyArray> arrays_;
  std::vector<Split> splits_;
  std::vector<std::string> others_;  // arrays that are neither images nor labels
  struct ClassNames {
    std::string array;
    std::vector<std::string> names;
  };
  std::vector<ClassNames> class_names_;  // candidates
  std::vector<std::string> class_of_entry_;
};

Status NumpySource::open_file(const fs::path& file) {
  DLPIPE_ASSIGN_OR_RETURN(const ArchiveBytes bytes, ArchiveBytes::open_unpacked(file.string()));
  input_bytes_ += bytes.size_bytes();
  return add_array(NpyArray::open(bytes, file.stem().string()), file);
}

Status NumpySource::add_array(Result<NpyArray> array, const fs::path& file) {
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
    const std::string name = member.name.substr(0, member.name.size() - 4);
    DLPIPE_RETURN_IF_ERROR(add_array(NpyArray::open(bytes, member, name), file));
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
                  " .npz files; give one, such as ", printable(archives[0].string()));
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

// Arrays whose names say nothing are recognized by their shape: images have at least three dimensions.
Role NumpySource::role_among(const NpyArray& array) const {
  Role role = role_of(array.name());
  const bool has_form = array.header().shape.size() >= 3;
  if (!options_.label.empty()) {
    if (array.name() == options_.label)
      role = Role::kLabels;
    else if (role == Role::kLabels)
      role = Role::kOther;
  }
  if (role == Role::kOther && has_form && array.name() != options_.label) role = Role::kImages;
  if (role == Role::kOther && arrays_.size() == 2 && options_.label.empty()) role = Role::kLabels;
  return role;
}

Status NumpySource::load(NpyArray& array) {
  const uint64_t unpacked = array.packed_size_bytes();
  if (unpacked > 0)
    DLPIPE_RETURN_IF_ERROR(
        budget_->take(unpacked, 1,
                      concat("the uncompressed array ", short_name(array.name()), " (", human_bytes(unpacked),
                             "; numpy.savez stores arrays uncompressed)")));
  return array.load(options_);
}

Status NumpySource::take_values(NpyArray& array) {
  constexpr uint64_t kValueBytes = sizeof(double) + sizeof(std::string);
  constexpr uint64_t kSampleBytes = 64;  // a list of its own
  const std::string what = concat("the values of ", printable(array.name()), " ", array.form());
  DLPIPE_RETURN_IF_ERROR(
      budget_->take(kValueBytes + array.header().item_bytes, array.header().elements(), what));
  DLPIPE_RETURN_IF_ERROR(budget_->take(kSampleBytes, array.samples(), what));
  return load(array);
}

Status NumpySource::set_aside(NpyArray& array) {
  std::vector<std::string> names;
  if (role_of(array.name()) == Role::kLabels && holds_texts(array)) {
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
  return misuse("ingest", printable(options_.path), " has two arrays of ", of, ", ", printable(one.name()),
                " and ", printable(other.name()),
                "; give the one with the labels with --label NAME, or save only those that you need");
}

// If one of several arrays has as many rows as there are images, arrays with other numbers of rows are not the labels.
Status NumpySource::choose_labels(Pair& pair) {
  const auto fits = [&](const NpyArray* array) { return array->samples() == pair.images->samples(); };
  if (std::any_of(pair.labels.begin(), pair.labels.end(), fits)) {
    for (NpyArray* const array : pair.labels) {
      if (!fits(array)) DLPIPE_RETURN_IF_ERROR(set_aside(*array));
    }
    std::erase_if(pair.labels, [&](const NpyArray* array) { return !fits(array); });
  }
  return pair.labels.size() < 2 ? Status() : two_arrays("labels", *pair.labels[0], *pair.labels[1]);
}

Status NumpySource::pair_up() {
  std::map<std::string, Pair> pairs;
  for (NpyArray& array : arrays_) {
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
    if (pair.images != nullptr) return two_arrays("images", *pair.images, array);
    pair.images = &array;
  }
  for (const auto& [split, pair] : pairs) {
    if (pair.images != nullptr) continue;
    for (NpyArray* const array : pair.labels) DLPIPE_RETURN_IF_ERROR(set_aside(*array));
  }
  std::erase_if(pairs, [](const auto& pair) { return pair.second.images == nullptr; });
  if (pairs.empty())
    return Status(ErrorCode::kNotFound,
                  concat("[ingest] ", printable(options_.path),
                         " has no array of images, called x or images; it has: ", arrays_text(arrays_)));
  for (auto& [split, pair] : pairs) {
    DLPIPE_RETURN_IF_ERROR(choose_labels(pair));
    DLPIPE_RETURN_IF_ERROR(add_split(split, pair, pairs.size() == 1));
  }
  return {};
}

Status NumpySource::add_split(const std::string& split, const Pair& pair, bool is_alone) {
  Split one;
  one.name = split.empty() ? pair.images->name() : split;
  one.split = options_.splits && !is_alone ? split : "";
  DLPIPE_ASSIGN_OR_RETURN(one.form, image_form(*pair.images));
  if (!pair.labels.empty()) {
    NpyArray& labels = *pair.labels.front();
    if (labels.samples() != pair.images->samples())
      return Status(ErrorCode::kCorrupt,
                    concat("[ingest] the array ", printable(labels.name()), " has ",
                           counted(static_cast<int64_t>(labels.samples()), "label"), " for ",
                           counted(static_cast<int64_t>(pair.images->samples()), "image"), " in ",
                           printable(pair.images->name())));
    DLPIPE_RETURN_IF_ERROR(take_values(labels));
    DLPIPE_ASSIGN_OR_RETURN(one.labels, labels_of(labels));
  }
  DLPIPE_RETURN_IF_ERROR(budget_->take_entries(pair.images->samples(), pair.labels.empty() ? 0 : 2));
  DLPIPE_RETURN_IF_ERROR(load(*pair.images));
  one.images = *pair.images;
  splits_.push_back(std::move(one));
  return {};
}

void NumpySource::add_entries(size_t number, SourceListing& listing) {
  const Split& one = splits_[number];
  constexpr size_t kDigits = 6;
  for (uint64_t i = 0; i < one.images.samples(); ++i) {
    SourceEntry entry;
    entry.path = numbered_path(one.name, i, kDigits);
    entry.size_bytes = kRawHeaderBytes + one.images.sample_elements();
    entry.modified_ns = one.images.modified_ns();
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
                    printable(splits_[0].name), " have different types; ingest only one of them");
  }
  const Labels& labels = splits_[0].labels;
  if (!labels.several.empty()) listing.fields.push_back({"labels", FieldKind::kLabels, DType::kI64, {}});
  if (!labels.targets.empty())
    listing.fields.push_back(
        {"target", FieldKind::kTensor, DType::kF32, {static_cast<int64_t>(labels.targets[0].size())}});
  return {};
}

// Columns of bits are named by their numbers, and so are labels without an array of names.
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
        concat("[ingest] ignored because they are neither images nor labels: ", quoted_names(others_)));
  if (splits_[0].labels.classes.empty())
    warn_of_no_class(options_.path, listing);
  else if (options_.alone)
    warn_of_classes(listing);
  return listing;
}

Result<std::vector<std::byte>> NumpySource::read(const SourceEntry& entry) const {
  const Split& one = splits_[entry.place >> kArrayShift];
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes,
                          one.images.read(entry.place & ((uint64_t{1} << kArrayShift) - 1)));
  return raw_image(one.form, bytes);
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
                                   "an .npz, a folder of .npy, or the .npy of the images: arrays called x "
                                   "or images and y or labels, with train, val or "
                                   "test in their names",
                                   numpy::recognizes_numpy, numpy::open_numpy, "--label"};

}  // namespace dlpipe::data
