// Published data sets come as SRC/train/CLASS/..., SRC/val/CLASS/...: which folders of SRC are splits, and which
// classes they share. A pure function of names, so that a class that is called "train" isn't mistaken for one.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

/// "train", "val" or "test" for what people call them (Training, valid, validation, testing, ...); else "".
std::string_view split_of_name(std::string_view name);

/// The split that one word of a name is called by: "imagenet-train-000000" is of "train". "" where none is, or two are.
std::string split_in_words(std::string_view text);

/// Folders and the splits that they are, for people: "'train', 'validation' as val".
std::string splits_text(std::span<const std::pair<std::string, std::string>> folders_and_splits);

/// How to insist on what else is taken as splits, or refused.
inline constexpr std::string_view kTakesLiterally = "--no-splits takes each folder as a class";

/// A folder of SRC, with what lies directly in it, or in the only folder there where that is called as pictures are, or as itself.
struct TopFolder {
  std::string name;
  std::vector<std::string> folders;
  size_t pictures = 0;
  std::string path = {};  // of what it holds, below SRC: "val/images"; empty: its name
  std::string list = {};  // a file in it that may say its pictures' classes, below SRC
};

struct SplitLayout {
  struct Part {
    std::string split;     // "train", "val", "test"
    std::string folder;    // in SRC: "val", "val/images"
    bool is_flat = false;  // pictures without class folders, labelled by a list
  };
  std::vector<Part> parts;           // empty: the folders of SRC are classes
  std::vector<std::string> classes;  // of all parts
  std::vector<std::string> notes;    // whole messages: what was decided, what is left aside
};

/// The splits of SRC, whose folders are `top`. They are splits where at least two have a split's name, and either two
/// of these hold folders of one name, or nothing else is there; also where words of their names are splits' (seg_train), and two of
/// different splits hold folders of one name. kMisuse where they look like splits that can't be
/// made: classes that differ, two folders for one split, pictures without classes, one folder called so beside another
/// with the same classes.
/// With `has_labels`, the folders for validation and test may hold pictures without class folders.
Result<SplitLayout> find_split_layout(const std::string& source, std::span<const TopFolder> top,
                                      bool has_labels = false);

}  // namespace dlpipe::data
