#include "dlpipe/run/use/class_names.h"

#include <filesystem>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/run/input/data_paths.h"

namespace dlpipe::run {

namespace {

// A name on each line; a last line without a newline counts.
std::vector<std::string> read_names(const std::string& path) {
  constexpr uint64_t kMostBytes = 64 << 20;
  const std::string text = value_or_throw(formats::read_file(path, kMostBytes));
  std::vector<std::string> names = split(data::without_mark(text), '\n');
  if (!names.empty() && names.back().empty()) names.pop_back();
  for (std::string& name : names) name = std::string(trim(name));
  return names;
}

std::vector<std::string> names_of(const std::string& from) {
  if (!std::filesystem::is_directory(from)) return read_names(from);
  const auto dataset = value_or_throw(data::Dataset::open(value_or_throw(training_data(from))));
  return {dataset->classes().begin(), dataset->classes().end()};
}

}  // namespace

std::vector<std::string> numbered_classes(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

std::vector<std::string> class_names(const std::string& from, const std::string& weights,
                                     const std::string& counted_by, int64_t count,
                                     std::vector<std::string>& notes) {
  std::vector<std::string> names;
  if (from.empty()) {
    names = numbered_classes(count);
    notes.push_back(concat(weights, " has no class names: classes are numbers; --classes FILE names them"));
    return names;
  }
  names = names_of(from);
  if (static_cast<int64_t>(names.size()) == count) return names;
  refuse("classes", weights, " tells ", human_count(count), " classes apart (", counted_by, "), and ", from,
         " has ", human_count(static_cast<int64_t>(names.size())), ": ", quoted_names(names),
         "; give the classes that it was trained on with --classes");
}

}  // namespace dlpipe::run
