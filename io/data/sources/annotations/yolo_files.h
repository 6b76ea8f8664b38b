// YOLO's two kinds of files: the data.yaml of a dataset and the label file of a picture. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/annotations/outlines.h"

namespace dlpipe::data::yolo {

struct Config {
  std::string path;  // of the dataset; "": not said
  std::map<std::string, std::vector<std::string>>
      splits;                      // "train", "val", "test": folders or lists of pictures
  std::vector<std::string> names;  // of the classes
  int64_t points = 0;              // key points of each object; 0: none
  int64_t numbers_per_point = 3;   // 2: without whether it is visible
};

/// kCorrupt says what is wrong with it: no YAML, no names, names that are not those of 0, 1, ...
Result<Config> parse_config(std::string_view text);

struct Labels {
  std::vector<float> boxes;  // x_min, y_min, x_max, y_max, shares of the picture's width and height
  std::vector<int64_t> classes;
  std::vector<float> points;      // x, y, visible
  std::vector<Outline> outlines;  // of objects that are polygons, in shares; their boxes are around them
  int64_t confidences = 0;        // lines with one more number, of a prediction, which is left aside
};

/// `config` says how many classes (none: any) and key points there are. kCorrupt names the line.
Result<Labels> parse_labels(std::string_view text, const Config& config);

}  // namespace dlpipe::data::yolo
