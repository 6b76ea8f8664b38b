// Where the files of a YOLO dataset lie: its YAML, its list of classes, pictures and their labels. Looks at names alone.
// Any thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace dlpipe::data::yolo {

bool is_yaml(const std::string& path);
/// Also of "", the folder that the program is in.
std::filesystem::path full_path(const std::filesystem::path& path);
/// The split that a folder's name, or a word of it, says; "": none.
std::string split_called(const std::string& folder);

/// The YAML of a folder: data.yaml, dataset.yaml, or the only one beside images/ and labels/.
std::optional<std::filesystem::path> config_in(const std::filesystem::path& folder);
/// The list of the classes in a folder; "": none.
std::string name_list_in(const std::filesystem::path& folder);
/// Darknet's way: which folders of SRC, "" for itself, hold pictures with their labels beside them. A list of the classes
/// must be there, too: a .txt beside a picture may be anything.
std::vector<std::string> folders_of_both(const std::filesystem::path& root);
/// The label file of a picture, whose path is absolute: where it should be, or beside the picture.
std::string label_path(const std::string& picture);

/// Whether the pictures lie in folders, none of which is a split or has one of its name beside it: these are classes, and a .txt in
/// `labels` is a list.
bool holds_class_folders(const std::filesystem::path& images, const std::filesystem::path& labels);

/// A dataset by the folder of its pictures: x/images, or x/images/train, beside x/labels.
struct Around {
  std::string root;          // x
  bool is_of_split = false;  // the folder holds one split's
};

/// Nothing where the folder may be another one: class folders in it, or no labels beside it.
std::optional<Around> dataset_around(const std::string& given);

}  // namespace dlpipe::data::yolo
