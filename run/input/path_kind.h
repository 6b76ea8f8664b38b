// What lies at a path that a person gave: a run, a dataset, a compiled model, a picture. Where another kind was wanted, the
// error says what it is, and which command takes it. Reads names in folders and the first bytes of files; keeps nothing open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::run {

/// What a command takes.
enum class Wanted : uint8_t {
  kDataset,        // or a folder of splits
  kModel,          // --ckpt, --init: a run, a checkpoint, or a file with weights
  kCompiledModel,  // a .dlg
  kRun,
  kPicture,     // or a folder of pictures
  kRawData,     // what ingest reads
  kOptions,     // --config
  kModelName,   // --model
  kCheckpoint,  // or a run, which holds some
};

struct PathKind {
  std::string name;          // as a sentence says it: "a run"
  std::vector<Wanted> uses;  // as what commands take it
  std::string advice;        // commands that take it, with the path in them
  bool is(Wanted wanted) const;
};

/// Nothing where nothing is there, unless a built-in model has that name, and where it is none of the kinds that dlpipe knows.
std::optional<PathKind> kind_of(const std::string& path);
/// Whether what is there is known to be such a thing.
bool is_kind(const std::string& path, Wanted wanted);
/// Whether `path` is a dataset or a folder of them, be it beside a run's files. The links to pictures that a run keeps are none.
bool has_dataset(const std::string& path);
/// kMisuse, "[area] PATH is a run and no dataset; ...", where `path` is known as something else than what is wanted. What isn't
/// known is left to who opens it.
Status refuse_other_kind(std::string_view area, const std::string& path, Wanted wanted);

/// Whether the bytes begin as a picture's do, decodable here or not.
bool begins_as_picture(std::string_view bytes);
/// Whether they are the begin of such bytes, or with more behind them could be.
bool may_begin_as_picture(std::string_view bytes);

}  // namespace dlpipe::run
