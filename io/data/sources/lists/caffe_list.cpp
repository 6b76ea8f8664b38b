// A list of images in Caffe's form (train.txt and val.txt of ImageNet): PATH LABEL on every line, with blanks, a tab, a comma
// or a semicolon between. The label follows the last of them, so a path may contain blanks. Paths are below --images, or below
// the folder of the list, or one next to it that contains the images. The lines are read as a manifest's (manifest.h).
#include "io/data/sources/lists/caffe_list.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <span>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "io/data/file_name.h"
#include "io/data/sources/classes.h"
#include "io/data/sources/layouts.h"
#include "io/data/sources/lists/manifest.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBetween = " \t,;";
constexpr std::string_view kIfText = "; if it is a text, rename it to .text";

std::string_view without_end(std::string_view text) {
  const size_t last = text.find_last_not_of(kBetween);
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

struct ImageLine {
  std::string path;
  std::vector<std::string> numbers;  // whole ones, 7 for 7.0
  bool has_other = false;            // something else comes after the path
};

/// nullopt if the line does not begin with an image's path.
std::optional<ImageLine> parse(std::string_view line) {
  ImageLine parsed;
  std::string_view rest = trim(line);
  while (!has_image_name(std::string(rest))) {
    const size_t before = rest.find_last_of(kBetween);
    int64_t number = 0;
    const std::string_view text = before == std::string_view::npos ? "" : rest.substr(before + 1);
    const bool is_plain = parse_int(text, &number);
    if (!is_plain && !parse_whole(text, &number)) break;
    parsed.numbers.insert(parsed.numbers.begin(), is_plain ? std::string(text) : std::to_string(number));
    rest = without_end(rest.substr(0, before));
  }
  if (has_image_name(std::string(rest))) {
    parsed.path = rest;
    return parsed;
  }
  rest = trim(line);
  for (size_t end = rest.find_first_of(kBetween); end != std::string_view::npos;
       end = rest.find_first_of(kBetween, end + 1)) {
    if (!has_image_name(std::string(rest.substr(0, end)))) continue;
    return ImageLine{std::string(rest.substr(0, end)), {}, true};
  }
  return std::nullopt;
}

/// Whether a line is an image's path or id without an ending, followed by whole numbers or alone: n01440764/n01440764_10026 1
/// of ImageNet, apple_pie/1000 of Food-101, 2008_000008 -1 of VOC.
bool is_without_ending(std::string_view line) {
  std::string_view rest = trim(line);
  bool has_number = false;
  for (size_t before = rest.find_last_of(kBetween); before != std::string_view::npos;
       before = rest.find_last_of(kBetween)) {
    int64_t number = 0;
    if (!parse_whole(rest.substr(before + 1), &number)) return false;
    has_number = true;
    rest = without_end(rest.substr(0, before));
  }
  const size_t slash = rest.find('/');
  if (slash != std::string_view::npos)
    return slash > 0 && rest.back() != '/' && rest.find("//") == std::string_view::npos &&
           rest.find('.', rest.rfind('/')) == std::string_view::npos;
  constexpr size_t kShortestId = 5;
  return has_number && rest.size() >= kShortestId &&
         rest.find_first_of("0123456789") != std::string_view::npos &&
         rest.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-") ==
             std::string_view::npos;
}

/// Where a list's images are.
struct Root {
  std::string folder;
  bool drops_slash = false;  // paths begin with a slash that means this folder
};

/// The folder below which most of the first images are: --images, or a folder next to the list.
std::optional<Root> find_root(const std::string& list, const std::string& images,
                              const std::vector<std::string>& paths) {
  const std::string stem = fs::path(list).stem().string();
  const std::vector<std::string> names = {stem, split_in_words(stem)};
  const std::vector<fs::path> folders = folders_of_images(list, images, names);
  std::vector<std::string> without_slash;
  without_slash.reserve(paths.size());
  for (const std::string& path : paths)
    without_slash.push_back(path.substr(std::min(path.find_first_not_of('/'), path.size())));
  const FolderWithMost as_given = folder_with_most(folders, paths);
  const FolderWithMost below = folder_with_most(folders, without_slash);
  if (below.found > as_given.found) return Root{below.folder, true};
  return as_given.found > 0 ? std::optional(Root{as_given.folder, false}) : std::nullopt;
}

/// The first lines that are not empty, without an incomplete last line.
std::vector<std::string> first_lines(const std::string& path) {
  constexpr size_t kMostBytes = 1 << 16;
  std::string text(kMostBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  const auto count = static_cast<size_t>(file.gcount());
  text.resize(count < kMostBytes ? count : text.rfind('\n') + 1);
  std::vector<std::string> lines;
  for (std::string& line : split(without_mark(text), '\n')) {
    if (!trim(line).empty()) lines.push_back(std::move(line));
    if (lines.size() == kFilesThatDecide) break;
  }
  return lines;
}

/// Whether a line with a count, and perhaps one with names of columns, precedes the images, as in CelebA's lists.
bool begins_with_count(std::span<const std::string> lines) {
  int64_t count = 0;
  if (lines.size() < 2 || !parse_int(trim(lines[0]), &count)) return false;
  const size_t head = parse(lines[1]) ? 1 : 2;
  return lines.size() > head &&
         std::all_of(lines.begin() + static_cast<ptrdiff_t>(head), lines.end(), [](const std::string& line) {
           const auto parsed = parse(line);
           return parsed && !parsed->has_other;
         });
}

class CaffeListSource final : public Source {
 public:
  explicit CaffeListSource(SourceOptions options) : options_(std::move(options)) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override { return rows_->read(entry); }
  Result<Link> where(const SourceEntry& entry) const override { return rows_->where(entry); }

 private:
  struct Lines {
    std::vector<ImageLine> images;
    std::vector<int64_t> numbers;  // of the lines
    size_t least = 0;              // labels on a line
    size_t most = 0;
  };
  Result<Lines> read_lines(std::string_view text) const;
  Result<Root> root_of(const Lines& lines) const;
  Status refuse_kind() const;

  SourceOptions options_;
  std::unique_ptr<ManifestSource> rows_;
};

Status CaffeListSource::refuse_kind() const {
  const ImageListKind kind = kind_of_image_list(options_.path, options_.images);
  const std::vector<std::string> lines = first_lines(options_.path);
  const std::string shown = lines.empty() ? std::string() : concat(" (", in_quotes(trim(lines.front())), ")");
  const auto refuse = [&](std::string_view without, const std::string& what_to_do) {
    return misuse("ingest", printable(options_.path), " looks like a list of images", without, shown,
                  what_to_do, kIfText);
  };
  if (kind == ImageListKind::kPlain)
    return refuse(
        " without labels",
        "; write its class after each path, such as PATH 17, or ingest the folder that has one folder "
        "per class");
  if (kind == ImageListKind::kWithoutEnding)
    return refuse(" without their endings",
                  "; ingest the folder that has one folder per class, or write a .csv with the first line "
                  "path,label and PATH,CLASS on the others, where names may omit the ending");
  if (kind == ImageListKind::kCounted)
    return refuse(
        " with a count above it, like CelebA's lists",
        "; in Python, dlpipe.from_dataset(torchvision.datasets.CelebA(...), DST) reads CelebA; in another "
        "list, remove the lines above the first image");
  if (kind == ImageListKind::kOther)
    return refuse("", concat(", but without a whole number after each; if every line is PATH,LABEL: dlpipe "
                             "ingest FOLDER DST --manifest ",
                             shell_word(options_.path)));
  return {};
}

Result<CaffeListSource::Lines> CaffeListSource::read_lines(std::string_view text) const {
  Lines lines;
  int64_t number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    std::optional<ImageLine> parsed = parse(line);
    if (!parsed || parsed->numbers.empty())
      return Status(
          ErrorCode::kCorrupt,
          concat("[ingest] ", printable(options_.path), " line ", number,
                 ": there is no whole number after the image's path; write PATH LABEL on every line"));
    const size_t count = parsed->numbers.size();
    lines.least = lines.images.empty() ? count : std::min(lines.least, count);
    lines.most = std::max(lines.most, count);
    lines.images.push_back(std::move(*parsed));
    lines.numbers.push_back(number);
  }
  return lines;
}

Result<Root> CaffeListSource::root_of(const Lines& lines) const {
  std::vector<std::string> paths;
  for (size_t i = 0; i < std::min(kFilesThatDecide, lines.images.size()); ++i)
    paths.push_back(lines.images[i].path);
  if (std::optional<Root> root = find_root(options_.path, options_.images, paths)) return *root;
  return Status(
      ErrorCode::kNotFound,
      concat("[ingest] ", printable(options_.path), " looks like a list of images with labels (",
             in_quotes(trim(first_lines(options_.path).front())),
             "), but neither this image nor the next ones are in ",
             options_.images.empty() ? "its folder or those next to it" : printable(options_.images),
             "; give the folder of its images with --images", kIfText));
}

Result<SourceListing> CaffeListSource::list() {
  DLPIPE_RETURN_IF_ERROR(refuse_kind());
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_list_text(options_.path));
  DLPIPE_ASSIGN_OR_RETURN(const Lines lines, read_lines(text));
  DLPIPE_ASSIGN_OR_RETURN(const Root root, root_of(lines));
  const bool is_label = lines.most == 1;
  const bool are_targets = !is_label && lines.least == lines.most;
  ReadList read;
  read.files = {{options_.path}};
  read.text_bytes = text.size();
  read.table.columns = {"path", is_label ? "label" : are_targets ? "target" : "labels"};
  if (is_label) read.label = 1;
  for (size_t i = 0; i < lines.images.size(); ++i) {
    const ImageLine& line = lines.images[i];
    const size_t begin = root.drops_slash ? std::min(line.path.find_first_not_of('/'), line.path.size()) : 0;
    std::string cell;
    for (const std::string& number : line.numbers) cell += concat(cell.empty() ? "" : "|", number);
    read.table.rows.push_back(
        {lines.numbers[i], {fs::path(line.path.substr(begin)).lexically_normal().string(), std::move(cell)}});
  }
  SourceOptions options = options_;
  if (!is_label) options.fields = {are_targets ? "target:numbers" : "labels:labels"};
  rows_ = std::make_unique<ManifestSource>(options_.path, root.folder, options, std::move(read));
  DLPIPE_ASSIGN_OR_RETURN(SourceListing listing, rows_->list());
  listing.warnings.insert(
      listing.warnings.begin(),
      concat("[ingest] ", printable(options_.path), " is read as a list of ",
             counted(static_cast<int64_t>(lines.images.size()), "image"), ", ",
             is_label      ? std::string("each with its label")
             : are_targets ? concat("with ", counted(static_cast<int64_t>(lines.most), "number"),
                                    " each, in the field 'target'")
                           : std::string("with several labels each, in the field 'labels'"),
             ", below ", printable(root.folder)));
  return listing;
}

int recognizes_caffe_list(const SourceOptions& options) {
  if (!options.manifest.empty() || !options.address.empty()) return 0;
  return kind_of_image_list(options.path, options.images) != ImageListKind::kNone ? 3 : 0;
}

}  // namespace

ImageListKind kind_of_image_list(const std::string& path, const std::string& images) {
  constexpr std::array<std::string_view, 3> kEndings = {"txt", "lst", "list"};
  std::error_code ignored;
  if (std::find(kEndings.begin(), kEndings.end(), lower_ending(path)) == kEndings.end() ||
      !fs::is_regular_file(path, ignored))
    return ImageListKind::kNone;
  const std::vector<std::string> lines = first_lines(path);
  if (begins_with_count(lines)) return ImageListKind::kCounted;
  if (lines.size() > 1 && std::all_of(lines.begin(), lines.end(), is_without_ending))
    return ImageListKind::kWithoutEnding;
  std::vector<std::string> paths;
  bool any_labelled = false;
  bool any_other = false;
  for (const std::string& line : lines) {
    const std::optional<ImageLine> parsed = parse(line);
    if (!parsed) return ImageListKind::kNone;
    any_labelled = any_labelled || !parsed->numbers.empty();
    any_other = any_other || parsed->has_other;
    paths.push_back(parsed->path);
  }
  // The text after a name may be a sentence, and a single line may match by chance.
  const bool is_sure = lines.size() > 1 && !any_other;
  if (lines.empty() || (!is_sure && !find_root(path, images, paths))) return ImageListKind::kNone;
  if (any_other) return ImageListKind::kOther;
  return any_labelled ? ImageListKind::kLabelled : ImageListKind::kPlain;
}

Result<std::unique_ptr<Source>> open_caffe_list(const SourceOptions& options) {
  return std::unique_ptr<Source>(std::make_unique<CaffeListSource>(options));
}

extern const SourceRecord caffe_list_source;
const SourceRecord caffe_list_source = {"caffe_list",
                                        "a .txt (.lst, .list) with an image's path and a whole number on "
                                        "every line, as Caffe's train.txt, with --images "
                                        "FOLDER or the images next to it",
                                        recognizes_caffe_list, open_caffe_list, "--images"};

}  // namespace dlpipe::data
