// What may be wrong with a dataset that is stored correctly, for `dlpipe inspect --problems`: images that are hard to learn from,
// meaningless annotations, classes with few samples, and copies.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/dataset.h"
#include "dlpipe/error.h"

namespace dlpipe::data {

struct ProblemReport {
  struct Place {
    size_t split = 0;  // its number among the datasets
    int64_t sample = 0;
    std::string path;
  };
  /// A class that no sample, one sample, or few samples have: fewer than a tenth of the mean.
  struct Class {
    std::string name;
    std::string field;    // "label", a field of class indices, or a mask, whose classes are numbers
    int64_t samples = 0;  // of all splits; for a field of boxes' classes: boxes
  };
  struct Image {
    Place place;
    std::string problem;  // kUnreadable, ...
    std::string detail;
  };
  struct Alike {
    Place first, second;
    std::string same;  // "bytes", "pixels" or "look"
    bool mirrored = false;
  };
  int64_t samples = 0;
  std::vector<Class> classes;
  std::vector<Image> images;  // by problem, split and sample
  std::vector<Alike> alike;   // by second, then first
  /// Images in groups of more than 100 that look alike. If there are many, such as digits or scans, `alike` has no pairs that
  /// are only alike.
  int64_t alike_by_nature = 0;
};

/// Names of problems, in the order in which they are reported.
inline constexpr const char* kUnreadable = "unreadable";
inline constexpr const char* kOddSize =
    "odd size";  // its side (root of width x height) is a fourth of the median, or four times
inline constexpr const char* kOddShape = "odd shape";  // one side is at least three times the other
inline constexpr const char* kOneColour =
    "one colour";                                   // no wave over 32 x 32 cells has an amplitude of a level
inline constexpr const char* kDark = "dark";        // 99 % of the pixels have a luma below 80 of 255
inline constexpr const char* kBlurred = "blurred";  // hardly anything finer than 1/128 of the longer side
inline constexpr const char* kEmptyBox = "empty box";    // its area is 0
inline constexpr const char* kNotFinite = "not finite";  // a number is NaN or infinite
inline constexpr const char* kUnknownClass =
    "unknown class";  // a mask next to boxes has a number that is neither 0, a label + 1 nor 255
inline constexpr const char* kProblems[] = {kUnreadable, kOddSize,  kOddShape,  kOneColour,   kDark,
                                            kBlurred,    kEmptyBox, kNotFinite, kUnknownClass};

struct ProblemOptions {
  int threads = 0;  // 0: as many as the process may use
  int64_t max_pixels = 178'956'970;
  std::function<bool()> stop_requested;
};

/// Decodes every image once. `splits` are examined together, because copies may be in different ones. The result does not depend
/// on the number of threads. Memory: about 200 bytes per image.
Result<ProblemReport> find_problems(std::span<const std::shared_ptr<const Dataset>> splits,
                                    const ProblemOptions& options,
                                    const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace dlpipe::data
