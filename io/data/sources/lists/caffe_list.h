// Caffe's lists of images, a path and a whole number on every line: what other code needs to know about them. Their first lines
// distinguish them from texts.
#pragma once

#include <memory>
#include <string>

#include "dlpipe/error.h"
#include "dlpipe/source.h"

namespace dlpipe::data {

enum class ImageListKind : uint8_t {
  kNone,           // a text, or not a file
  kLabelled,       // whole numbers after paths
  kPlain,          // only paths
  kOther,          // something else after each path
  kCounted,        // a count above it, like CelebA's lists
  kWithoutEnding,  // paths or ids without an ending, with or without whole numbers after them
};

/// Classifies a .txt, .lst or .list by its first lines. `images` as in SourceOptions: a single line is an image's path only if
/// the image is found.
ImageListKind kind_of_image_list(const std::string& path, const std::string& images);
/// The source for one; list() rejects anything but kLabelled and says what to do.
Result<std::unique_ptr<Source>> open_caffe_list(const SourceOptions& options);

}  // namespace dlpipe::data
