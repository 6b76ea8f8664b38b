// YOLO's two kinds of files: the data.yaml of a dataset and the label file of an image. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"
#include "io/data/sources/annotations/outlines.h"

namespace dlpipe::data::yolo {

struct Config {
  std::string path;  // of the dataset; "": unknown
  std::map<std::string, std::vector<std::string>>
      splits;                      // "train", "val", "test": folders or lists of images
  std::vector<std::string> names;  // of the classes
  int64_t points = 0;              // key points of each object; 0: none
  int64_t numbers_per_point = 3;   // 2: without whether it is visible
};

/// kCorrupt says what is wrong: not YAML, no names, or names that are not numbered 0, 1, ...
Result<Config> parse_config(std::string_view text);

struct Labels {
  std::vector<float> boxes;  // x_min, y_min, x_max, y_max, shares of the image's width and height
  std::vector<int64_t> classes;
  std::vector<float> points;      // x, y, visible
  std::vector<Outline> outlines;  // of objects that are polygons, in shares; their boxes are around them
  int64_t confidences = 0;        // lines with an extra number, a prediction's confidence, which is ignored
  int64_t repeated = 0;           // lines that repeat an earlier one, which are ignored, as in Ultralytics
};

/// `config` has the number of classes (none: any) and key points. kCorrupt names the line.
Result<Labels> parse_labels(std::string_view text, const Config& config);

}  // namespace dlpipe::data::yolo
