// A list of pictures as Caffe has it (train.txt and val.txt of ImageNet): PATH LABEL on every line, with blanks, a tab, a
// comma or a semicolon between. The label is behind the last of them, so a path may hold blanks. Paths are below --images, or below the
// folder of the list, or one beside it that holds the pictures. The lines are read as a manifest's (manifest_source.h).
// CelebA's lists begin with a line that counts the others, and mostly with one that names their numbers (celeba_lists.h).
#include "dlpipe/io/data/sources/lists/caffe_list.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <span>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/class_numbers.h"
#include "dlpipe/io/data/sources/lists/celeba_lists.h"
#include "dlpipe/io/data/sources/lists/manifest_source.h"
#include "dlpipe/io/data/sources/pictures_beside.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBetween = " \t,;";
constexpr std::string_view kIfText = "; if it is a text, change its ending to .text";

std::string_view without_end(std::string_view text) {
  const size_t last = text.find_last_not_of(kBetween);
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

struct PictureLine {
  std::string path;
  std::vector<std::string> numbers;  // whole ones, 7 for 7.0
  bool has_other = false;            // something else stands behind the path
};

/// Nothing where the line doesn't begin with a picture's path.
std::optional<PictureLine> parse(std::string_view line) {
  PictureLine parsed;
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
    return PictureLine{std::string(rest.substr(0, end)), {}, true};
  }
  return std::nullopt;
}

/// Whether a line is a picture's path or id without an ending, with whole numbers behind it or alone: n01440764/n01440764_10026 1
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

/// Where a list's pictures are.
struct Root {
  std::string folder;
  bool drops_slash = false;  // paths begin with a slash, but at this folder
};

/// The folder below which most of the first pictures are: --images, or what people have beside the list.
std::optional<Root> find_root(const std::string& list, const std::string& images,
                              const std::vector<std::string>& paths) {
  const std::string stem = fs::path(list).stem().string();
  std::vector<std::string> names = celeba::picture_folders(list);
  names.insert(names.begin(), {stem, split_in_words(stem)});
  const std::vector<fs::path> folders = folders_of_pictures(list, images, names);
  std::vector<std::string> without_slash;
  without_slash.reserve(paths.size());
  for (const std::string& path : paths)
    without_slash.push_back(path.substr(std::min(path.find_first_not_of('/'), path.size())));
  const FolderWithMost as_given = folder_with_most(folders, paths);
  const FolderWithMost below = folder_with_most(folders, without_slash);
  if (below.found > as_given.found) return Root{below.folder, true};
  return as_given.found > 0 ? std::optional(Root{as_given.folder, false}) : std::nullopt;
}

/// What stands above a list's pictures.
struct Head {
  size_t lines = 0;                // with something in them
  int64_t pictures = 0;            // that the first of them counts
  std::vector<std::string> names;  // of the numbers behind each picture; none where no line says them
};

/// A count alone, with a line of names behind it or not, and then a picture.
Head head_of(std::span<const std::string> lines) {
  Head head;
  if (lines.size() < 2 || !parse_int(trim(lines[0]), &head.pictures)) return {};
  head.lines = parse(lines[1]) ? 1 : 2;
  if (head.lines == 1) return head;
  if (lines.size() < 3 || !parse(lines[2])) return {};
  for (std::string& name : split(trim(lines[1]), ' ')) {
    if (!trim(name).empty() && name != "image_id") head.names.emplace_back(trim(name));
  }
  return head;
}

/// The first lines with something in them, and what stands above them.
struct FirstLines {
  Head head;
  std::vector<std::string> lines;
};

/// What the last line lacks where it is cut isn't known.
FirstLines first_lines(const std::string& path) {
  constexpr size_t kMostBytes = 1 << 16;
  constexpr size_t kMostHead = 2;
  std::string text(kMostBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  const auto count = static_cast<size_t>(file.gcount());
  text.resize(count < kMostBytes ? count : text.rfind('\n') + 1);
  FirstLines first;
  for (std::string& line : split(without_mark(text), '\n')) {
    if (!trim(line).empty()) first.lines.push_back(std::move(line));
    if (first.lines.size() == kFilesThatDecide + kMostHead) break;  // and what the list is
  }
  first.head = head_of(first.lines);
  first.lines.erase(first.lines.begin(), first.lines.begin() + static_cast<ptrdiff_t>(first.head.lines));
  if (first.lines.size() > kFilesThatDecide) first.lines.resize(kFilesThatDecide);
  return first;
}

class CaffeListSource final : public Source {
 public:
  explicit CaffeListSource(SourceOptions options) : options_(std::move(options)) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override { return rows_->read(entry); }
  Result<Link> where(const SourceEntry& entry) const override { return rows_->where(entry); }

 private:
  struct Lines {
    std::vector<PictureLine> pictures;
    std::vector<int64_t> numbers;  // of the lines
    size_t least = 0;              // labels on a line
    size_t most = 0;
  };
  Result<Lines> read_lines(std::string_view text, const Head& head) const;
  Result<Root> root_of(const Lines& lines) const;
  celeba::Column column_of(const Lines& lines, const Head& head, const Root& root) const;
  Status add_splits(ReadList& read, std::string& text) const;
  Status refuse_kind() const;

  SourceOptions options_;
  std::unique_ptr<ManifestSource> rows_;
};

Status CaffeListSource::refuse_kind() const {
  const PictureListKind kind = kind_of_picture_list(options_.path, options_.images);
  const std::vector<std::string> lines = first_lines(options_.path).lines;
  const std::string shown = lines.empty() ? std::string() : concat(" (", in_quotes(trim(lines.front())), ")");
  const auto refuse = [&](std::string_view without, const std::string& what_to_do) {
    return misuse("ingest", printable(options_.path), " looks like a list of pictures", without, shown,
                  what_to_do, kIfText);
  };
  if (kind == PictureListKind::kPlain)
    return refuse(
        " without labels",
        "; write each one's class behind it, as PATH 17, or ingest the folder that holds one folder "
        "per class");
  if (kind == PictureListKind::kWithoutEnding)
    return refuse(
        " without their endings",
        "; ingest the folder that holds one folder per class, or write a .csv with the first line "
        "path,label and PATH,CLASS on the others, where names without an ending find their pictures");
  if (kind == PictureListKind::kOther)
    return refuse("", concat(", but not with a whole number behind each; with PATH,LABEL on every line: "
                             "dlpipe ingest FOLDER DST --manifest ",
                             shell_word(options_.path)));
  return {};
}

Result<CaffeListSource::Lines> CaffeListSource::read_lines(std::string_view text, const Head& head) const {
  Lines lines;
  int64_t number = 0;
  size_t above = head.lines;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    if (above > 0) {
      --above;
      continue;
    }
    std::optional<PictureLine> parsed = parse(line);
    if (!parsed || parsed->numbers.empty())
      return Status(ErrorCode::kCorrupt,
                    concat("[ingest] ", printable(options_.path), " line ", number,
                           ": no whole number behind a picture's path; write PATH LABEL on every line"));
    const size_t count = parsed->numbers.size();
    if (!head.names.empty() && count != head.names.size())
      return Status(ErrorCode::kCorrupt, concat("[ingest] ", printable(options_.path), " line ", number, ": ",
                                                count, " numbers, and line 2 names ", head.names.size()));
    lines.least = lines.pictures.empty() ? count : std::min(lines.least, count);
    lines.most = std::max(lines.most, count);
    lines.pictures.push_back(std::move(*parsed));
    lines.numbers.push_back(number);
  }
  return lines;
}

Result<Root> CaffeListSource::root_of(const Lines& lines) const {
  std::vector<std::string> paths;
  for (size_t i = 0; i < std::min(kFilesThatDecide, lines.pictures.size()); ++i)
    paths.push_back(lines.pictures[i].path);
  if (std::optional<Root> root = find_root(options_.path, options_.images, paths)) return *root;
  return Status(ErrorCode::kNotFound,
                concat("[ingest] ", printable(options_.path), " looks like a list of pictures with labels (",
                       in_quotes(trim(first_lines(options_.path).lines.front())),
                       "), but neither this picture nor the next ones are in ",
                       options_.images.empty() ? "its folder or those beside it" : printable(options_.images),
                       "; name the folder of its pictures with --images", kIfText));
}

/// What the numbers become; without a field the label.
celeba::Column CaffeListSource::column_of(const Lines& lines, const Head& head, const Root& root) const {
  if (!head.names.empty()) return celeba::column_of(options_.path, head.names, root.folder);
  const bool is_partition = celeba::partition_of(options_.path) == options_.path;
  if (lines.most == 1 && !is_partition) return {"", "", "each with its label"};
  if (lines.least != lines.most)
    return {"labels", "labels", "with several labels each, in the field 'labels'"};
  return {
      "target", "numbers",
      concat("with ", lines.most, lines.most == 1 ? " number" : " numbers", " each, in the field 'target'")};
}

/// Those of CelebA's list_eval_partition.txt, where it has all of the pictures.
Status CaffeListSource::add_splits(ReadList& read, std::string& text) const {
  const std::optional<std::string> file = celeba::partition_of(options_.path);
  if (!file || !options_.splits) return {};
  DLPIPE_ASSIGN_OR_RETURN(const auto split_of, celeba::read_partition(*file));
  const bool has_all =
      std::all_of(read.table.rows.begin(), read.table.rows.end(),
                  [&](const JsonTable::Row& row) { return split_of.contains(row.cells[read.path]); });
  if (!has_all) {
    text = concat("; ", printable(*file), " doesn't have all of them, and makes no splits");
    return {};
  }
  read.split = read.table.columns.size();
  read.table.columns.emplace_back("split");
  for (JsonTable::Row& row : read.table.rows) row.cells.push_back(split_of.at(row.cells[read.path]));
  text = concat("; the splits are those of ", printable(*file),
                " (0 train, 1 val, 2 test); --no-splits makes none");
  return {};
}

Result<SourceListing> CaffeListSource::list() {
  DLPIPE_RETURN_IF_ERROR(refuse_kind());
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_list_text(options_.path));
  const Head head = first_lines(options_.path).head;
  DLPIPE_ASSIGN_OR_RETURN(const Lines lines, read_lines(text, head));
  DLPIPE_ASSIGN_OR_RETURN(const Root root, root_of(lines));
  const celeba::Column column = column_of(lines, head, root);
  const bool is_label = column.field.empty();
  ReadList read;
  read.files = {{options_.path}};
  read.text_bytes = text.size();
  read.table.columns = {"path", is_label ? "label" : column.field};
  if (is_label) read.label = 1;
  for (size_t i = 0; i < lines.pictures.size(); ++i) {
    const PictureLine& line = lines.pictures[i];
    const size_t begin = root.drops_slash ? std::min(line.path.find_first_not_of('/'), line.path.size()) : 0;
    read.table.rows.push_back({lines.numbers[i],
                               {fs::path(line.path.substr(begin)).lexically_normal().string(),
                                celeba::cell_of(column, line.numbers)}});
  }
  std::string splits;
  DLPIPE_RETURN_IF_ERROR(add_splits(read, splits));
  SourceOptions options = options_;
  if (!is_label) options.fields = {concat(column.field, ":", column.kind)};
  rows_ = std::make_unique<ManifestSource>(options_.path, root.folder, options, std::move(read));
  DLPIPE_ASSIGN_OR_RETURN(SourceListing listing, rows_->list());
  const auto count = static_cast<int64_t>(lines.pictures.size());
  listing.warnings.insert(
      listing.warnings.begin(),
      concat("[ingest] ", printable(options_.path), " is read as a list of ", human_count(count),
             " pictures, ", column.text, ", below ", printable(root.folder), splits));
  if (head.lines > 0 && head.pictures != count)
    listing.warnings.push_back(concat("[ingest] ", printable(options_.path), " line 1 counts ",
                                      human_count(head.pictures), " pictures, and it lists ",
                                      human_count(count)));
  return listing;
}

int recognizes_caffe_list(const SourceOptions& options) {
  if (!options.manifest.empty() || !options.address.empty()) return 0;
  return kind_of_picture_list(options.path, options.images) != PictureListKind::kNone ? 3 : 0;
}

}  // namespace

PictureListKind kind_of_picture_list(const std::string& path, const std::string& images) {
  constexpr std::array<std::string_view, 3> kEndings = {"txt", "lst", "list"};
  std::error_code ignored;
  if (std::find(kEndings.begin(), kEndings.end(), lower_ending(path)) == kEndings.end() ||
      !fs::is_regular_file(path, ignored))
    return PictureListKind::kNone;
  const std::vector<std::string> lines = first_lines(path).lines;
  if (lines.size() > 1 && std::all_of(lines.begin(), lines.end(), is_without_ending))
    return PictureListKind::kWithoutEnding;
  std::vector<std::string> paths;
  bool any_labelled = false;
  bool any_other = false;
  for (const std::string& line : lines) {
    const std::optional<PictureLine> parsed = parse(line);
    if (!parsed) return PictureListKind::kNone;
    any_labelled = any_labelled || !parsed->numbers.empty();
    any_other = any_other || parsed->has_other;
    paths.push_back(parsed->path);
  }
  // What stands behind a name may be a sentence, and a single line chance.
  const bool is_sure = lines.size() > 1 && !any_other;
  if (lines.empty() || (!is_sure && !find_root(path, images, paths))) return PictureListKind::kNone;
  if (any_other) return PictureListKind::kOther;
  return any_labelled ? PictureListKind::kLabelled : PictureListKind::kPlain;
}

Result<std::unique_ptr<Source>> open_caffe_list(const SourceOptions& options) {
  return std::unique_ptr<Source>(std::make_unique<CaffeListSource>(options));
}

extern const SourceRecord caffe_list_source;
const SourceRecord caffe_list_source = {"caffe_list",
                                        "a .txt (.lst, .list) with a picture's path and a whole number on "
                                        "every line, as Caffe's train.txt, or CelebA's lists, with --images "
                                        "FOLDER or the pictures beside it",
                                        recognizes_caffe_list, open_caffe_list, "--images"};

}  // namespace dlpipe::data
