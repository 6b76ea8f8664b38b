// One transform of torchvision's or Albumentations', as a file names it, and the pieces of an expression that its parameters
// become. Internal to convert_augment.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/use/convert_augment.h"

namespace dlpipe::run {

std::string number_text(double value);

/// The parameters by name, or by place as the library's signature has them. Refers to both for its lifetime.
struct TransformCall {
  const formats::Json& call;  // {"name", "args": [...], "kwargs": {...}}
  ConvertedAugment& result;

  std::string name() const { return call["name"].as_string(); }
  void note(const std::string& text) const;
  /// Null where it isn't given. A parameter at place 99 has no place.
  const formats::Json& get(std::string_view name, size_t place = 99) const;
  double value(std::string_view name, size_t place, double fallback) const;
  /// "0.5..1.5", or one number; `fallback` where it isn't given.
  std::string range(std::string_view name, size_t place, const std::string& fallback, double scale = 1,
                    double add = 0) const;
  /// "HxW", or one number; nothing where it isn't given.
  std::optional<std::string> size(std::string_view name = "size", size_t place = 0) const;
  /// "a:b:c", or one number.
  std::string list(std::string_view name, size_t place) const;
  /// What follows other parameters begins with a comma, or is empty where it is what the op does anyway.
  std::string p(double fallback, size_t place = 99) const;
  std::string filter(size_t place = 99) const;               // of a resize
  std::string warp_filter(std::string_view fallback) const;  // of a warp, which knows two
  std::string fill(std::string_view name = "fill") const;
};

/// In lower case, without what stands before its last dot: "InterpolationMode.BILINEAR" is "bilinear".
std::string last_word(const std::string& text);

}  // namespace dlpipe::run
