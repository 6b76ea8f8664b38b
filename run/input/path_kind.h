// Detects what a path is: a run, a dataset, a compiled model, an image. If another kind is required, the error says what it is
// and which command accepts it. Reads names in folders and the first bytes of files; keeps nothing open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"

namespace dlpipe::run {

/// What a command accepts.
enum class Wanted : uint8_t {
  kDataset,        // or a folder of splits
  kModel,          // --ckpt, --init: a run, a checkpoint, or a file with weights
  kCompiledModel,  // a .dlg
  kRun,
  kImage,       // an image, or a folder of images
  kRawData,     // what ingest reads
  kOptions,     // --config
  kModelName,   // --model
  kCheckpoint,  // or a run, which contains some
};

struct PathKind {
  std::string name;          // in a sentence: "a run"
  std::vector<Wanted> uses;  // what commands accept it as
  std::string advice;        // commands that accept it, with the path
  bool is(Wanted wanted) const;
};

/// nullopt for unknown kinds. If the path does not exist, the name of a built-in model is recognised.
std::optional<PathKind> kind_of(const std::string& path);
/// Whether the path is known to be of this kind.
bool is_kind(const std::string& path, Wanted wanted);
/// Whether `path` is a dataset or a folder of them, also next to a run's files. A run's links to images do not count.
bool has_dataset(const std::string& path);
/// kMisuse, "[area] PATH is a run, not a dataset; ...", if `path` is known to be another kind than required. An unknown kind
/// passes: the caller opens it and reports what is wrong.
Status refuse_other_kind(std::string_view area, const std::string& path, Wanted wanted);

/// Whether `path` is `folder` or below it, links resolved. Neither need exist.
bool is_inside(const std::string& path, const std::string& folder);

/// Whether the bytes begin like an image, whether or not it can be decoded.
bool begins_as_image(std::string_view bytes);
/// Whether the bytes begin like an image, or could do so with more bytes.
bool may_begin_as_image(std::string_view bytes);

}  // namespace dlpipe::run
