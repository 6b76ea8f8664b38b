#include "io/data/sources/folders/companions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

#include "base/messages.h"
#include "base/text.h"
#include "io/data/sources/layouts.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;

/// Finds the files that belong to images by their names.
class Companions {
 public:
  explicit Companions(const std::string& root) : root_(fs::absolute(root).lexically_normal()) {
    if (!root_.has_filename()) root_ = root_.parent_path();
  }

  /// Next to the image, else where its path has another folder instead of one of its own, or in addition, the nearest one
  /// first: a/1.xml, a/xml/1.xml and Annotations/a/1.xml for a/1.jpg. "" if there is none.
  std::string of(const std::string& image, std::string_view ending) {
    const fs::path file = fs::path(image).replace_extension(ending);
    if (is_file(root_ / file)) return (root_ / file).string();
    // What is next to a root such as JPEGImages may belong to it.
    const bool has_above = is_called_images(root_.filename().string());
    const fs::path top = has_above ? root_.parent_path() : root_;
    const fs::path path = has_above ? root_.filename() / file : file;
    for (fs::path above = path.parent_path();; above = above.parent_path()) {
      std::string found = in_others(top / above, above.empty() ? path : path.lexically_relative(above));
      if (!found.empty() || above.empty()) return found;
    }
  }

 private:
  /// `rest`, or what follows its first folder, in the other folders of `above` and in the folders of these (annotations/xmls).
  std::string in_others(const fs::path& above, const fs::path& rest) {
    const fs::path own = *rest.begin();
    std::vector<fs::path> below = {rest};
    if (rest.has_parent_path()) below.push_back(rest.lexically_relative(own));
    for (const fs::path& other : folders_in(above)) {
      if (other.filename() == own) continue;
      std::vector<fs::path> folders = folders_in(other);
      folders.insert(folders.begin(), other);
      for (const fs::path& folder : folders) {
        const auto it = std::find_if(below.begin(), below.end(),
                                     [&](const fs::path& one) { return is_file(folder / one); });
        if (it != below.end()) return (folder / *it).string();
      }
    }
    return {};
  }

  /// None if there are more than a few: these are classes.
  const std::vector<fs::path>& folders_in(const fs::path& folder) {
    constexpr size_t kMost = 16;
    const auto [known, is_new] = folders_.try_emplace(folder.string());
    if (!is_new) return known->second;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      std::error_code ignored;
      if (entry.is_directory(ignored)) known->second.push_back(entry.path());
      if (known->second.size() <= kMost) continue;
      known->second.clear();
      break;
    }
    std::sort(known->second.begin(), known->second.end());
    return known->second;
  }

  fs::path root_;
  std::map<std::string, std::vector<fs::path>> folders_;
};

/// Whether each line is a class and at least four shares of the image. Captions of images are .txt, too.
bool has_rows_of_yolo(const std::vector<std::string>& lines) {
  constexpr size_t kFewest = 5;
  return std::all_of(lines.begin(), lines.end(), [](const std::string& line) {
    std::string blanks = line;
    std::replace(blanks.begin(), blanks.end(), '\t', ' ');
    std::vector<std::string> cells = split(blanks, ' ');
    std::erase(cells, "");
    return cells.size() >= kFewest && std::all_of(cells.begin(), cells.end(), [&](const std::string& cell) {
             double number = 0;
             const bool is_class = &cell == &cells.front();
             return parse_double(cell, &number) && number >= 0 &&
                    (is_class ? number == std::floor(number) : number <= 1);
           });
  });
}

/// Whether the files are labels of YOLO. Those of images without objects are empty.
bool are_labels_of_yolo(const std::vector<std::string>& files) {
  bool has_rows = false;
  for (const std::string& file : files) {
    const auto lines = lines_in_file(file);
    if (!lines.ok() || !has_rows_of_yolo(*lines)) return false;
    has_rows = has_rows || !lines->empty();
  }
  return has_rows;
}

/// "; dlpipe ingest voc DST" if the folder above `root` is a dataset that another source reads.
std::string command_above(const std::string& root, const SourceOptions& options) {
  SourceOptions above = options;
  above.path = fs::path(root).parent_path().string();
  if (above.path.empty() || !is_called_images(fs::path(root).filename().string())) return {};
  const auto record = find_source(above);
  if (!record.ok() || std::string_view((*record)->name) == "folder") return {};
  return concat("dlpipe ingest ", shell_word(above.path), " DST");
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kKinds = {
    {{".xml",
      "to read Pascal VOC's objects, put the .xml into Annotations/ and the images into JPEGImages/ next to "
      "it, in folders of the same names"},
     {".json", "to read objects, write one JSON for all images, as COCO has it"},
     {".txt",
      "to read YOLO's objects, list the classes in classes.txt above the folders with images and .txt, or in "
      "data.yaml next to images/ and labels/"}}};

}  // namespace

Status check_no_companions(const std::string& root, const SourceOptions& options,
                           const SourceListing& listing, const std::string& otherwise) {
  const size_t all = listing.entries.size();
  const size_t looked = std::min(kFilesThatDecide, all);
  Companions companions(root);
  for (const auto& [ending, what_to_do] : kKinds) {
    std::vector<std::string> files;
    for (size_t i = 0; i < looked; ++i) {
      std::string file = companions.of(listing.entries[i * all / looked].path, ending);
      if (!file.empty()) files.push_back(std::move(file));
    }
    if (files.empty() || 10 * files.size() < 9 * looked) continue;
    if (ending == ".txt" && !are_labels_of_yolo(files)) continue;
    const std::string command = command_above(root, options);
    return misuse("ingest", printable(root), ": each image has an annotation of its own, such as ",
                  printable(files.front()), ", which is lost if the folders become classes; ",
                  command.empty() ? std::string(what_to_do) : command, "; ", otherwise);
  }
  return {};
}

}  // namespace dlpipe::data
