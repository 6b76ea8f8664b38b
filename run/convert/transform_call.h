// One transform of torchvision's or Albumentations', as a file names it, and the pieces of an expression that its parameters
// become. Internal to convert_augment.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/augment/arguments.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/convert/convert_augment.h"

namespace dlpipe::run {

std::string number_text(double value);

/// What is known of a recipe while it is converted.
struct Conversion {
  ConvertedAugment result;
  std::string normalize;     // it comes last here, wherever it stands there; "": none so far
  std::vector<double> mean;  // its, for ops behind it
  std::vector<double> std;
  bool is_first_albumentations = false;  // saved by a release 1.x, some of whose rules are others
  size_t placed_no_equal = 0;            // messages of the result that say their line, where there is one
  size_t placed_notes = 0;
  augment::ImageSize size = {};  // of the picture that comes to the transform at hand, where it is known
};

/// The parameters by name, or by place as the library's signature has them. Refers to both for its lifetime. A value of
/// another kind than is asked for counts as one that has no equal.
struct TransformCall {
  const formats::Json& call;  // {"name", "module", "args": [...], "kwargs": {...}}
  Conversion& conversion;
  mutable std::set<std::string, std::less<>> read = {};  // parameters that were asked for
  mutable std::set<size_t> read_places = {};

  std::string name() const { return call["name"].as_string(); }
  /// Written as albumentations' by its module ("A.Resize"), whose parameters differ from torchvision's of the same name.
  bool is_albumentations() const {
    const std::string& module = call["module"].as_string();
    return module == "A" || module.starts_with("alb");
  }
  /// From a file of Albumentations', which gives all parameters by name.
  bool is_saved() const { return call["module"].is_null(); }
  void note(const std::string& text) const;
  /// Has no equal: `given` of the parameter `name` is not what it should be.
  void cannot_read(std::string_view name, const formats::Json& given,
                   std::string_view expected = "a number") const;
  double number(std::string_view name, const formats::Json& given) const;
  /// Keeps normalize(mean,std) for the end, each "a:b:c" or one number.
  void normalize(const std::string& mean, const std::string& std) const;
  /// Notes for what is given and no rule asked for, where it isn't nothing and isn't what the op does anyway.
  void note_unread() const;
  /// Null where it isn't given. A parameter at place 99 has no place.
  const formats::Json& get(std::string_view name, size_t place = 99) const;
  double value(std::string_view name, size_t place, double fallback) const;
  /// "0.5..1.5", or one number; `fallback` where it isn't given. With `add`, one number x stands for -x..x.
  std::string range(std::string_view name, size_t place, const std::string& fallback, double scale = 1,
                    double add = 0) const;
  /// "HxW", or one number; nothing where it isn't given.
  std::optional<std::string> size(std::string_view name = "size", size_t place = 0) const;
  /// "a:b:c", or one number.
  std::string list(std::string_view name, size_t place) const;
  /// Of the array `given`; empty: it has nothing in it.
  std::string list(std::string_view name, const formats::Json& given) const;
  /// What follows other parameters begins with a comma, or is empty where it is what the op does anyway.
  std::string p(double fallback, size_t place = 99) const;
  std::string filter(size_t place = 99) const;               // of a resize
  std::string warp_filter(std::string_view fallback) const;  // of a warp, which knows two
  std::string fill(std::string_view name = "fill") const;
  /// What a warp shows from outside the picture: fill(), with a note where it is the picture mirrored there.
  std::string outside() const;
  /// Widths of a blur in pixels: Albumentations takes one number for the largest of them.
  std::string widths(std::string_view fallback) const;
  /// OpenCV's way to go on beyond an edge, its number or its name; empty where it is one colour.
  std::string border() const;
};

/// In lower case, without what stands before its last dot: "InterpolationMode.BILINEAR" is "bilinear".
std::string last_word(const std::string& text);

}  // namespace dlpipe::run
