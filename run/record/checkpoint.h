// Checkpoints: a directory with everything that eval, predict and resume need.
//
//   checkpoints/step-000000500/    appears by one rename, after everything in it is on disk
//     model.safetensors            weights and buffers, PyTorch's names and shapes
//     optimizer.safetensors        momentum, moments
//     optimizer-3-of-4.safetensors instead of it: the part of one of four processes (--shard-optimizer)
//     ema.safetensors              with --ema: the averaged weights, which eval and predict use
//     state.json                   CheckpointState, the size and checksum of each file next to it, and its own
//   checkpoints/last, best         symbolic links for users; dlpipe reads from state.json which one is best
//   checkpoints/step-N.partial     being written, or left by a killed writer
//   checkpoints/step-N.replaced    the same step's former checkpoint, if the file system can't exchange two folders
//   checkpoints/step-N.corrupt     a checkpoint that a resumed run couldn't read and skipped
//
// One writer per run directory (ensured by the run's lock); readers may read at any time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/batch.h"
#include "dlpipe/config.h"
#include "dlpipe/error.h"
#include "dlpipe/models.h"
#include "dlpipe/module.h"
#include "io/formats/json.h"

namespace dlpipe::run {

/// The state of training, apart from tensors.
struct TrainerState {
  int64_t step = 0;  // optimizer steps done
  double best = 0;   // value of the deciding metric at best_step
  int64_t best_step = -1;
  int64_t worse_validations = 0;  // in a row, for --early-stop
  int64_t skipped_steps = 0;
  int64_t overflowed_steps = 0;  // skipped because the loss scale was too large
  double loss_scale = 0;         // with f16: of the next step; 0: the loss is not scaled
  int64_t good_steps = 0;        // with f16: since the loss scale last changed
  uint64_t parameters_chain = 0;
  int64_t validated_step = -1;  // the last validation came after this many steps
  int64_t chained_step = -1;    // parameters_chain last grew after this many
  /// The sum of the losses of the epoch's steps so far (NaN if an older program did not store it), and the number of these steps.
  /// Only steps with a finite loss count.
  double epoch_loss_sum = 0;
  int64_t epoch_loss_steps = 0;
  int64_t metrics_bytes = 0;     // of metrics.jsonl up to this step
  int64_t quarantine_bytes = 0;  // of quarantine.txt
};

struct CheckpointState {
  ModelState model;
  TrainerState trainer;
  SourceState source;
};

formats::Json to_json(const ModelState& state);
Result<ModelState> model_state_from_json(const formats::Json& json, const std::string& file);
formats::Json to_json(const CheckpointState& state);
Result<CheckpointState> checkpoint_state_from_json(const formats::Json& json, const std::string& file);

/// `json` with an additional last member "checksum", which covers all others.
formats::Json with_checksum(formats::Json json);
/// kCorrupt if `json`, read from `file`, is not a result of with_checksum(); `advice` ends the message. Files of version 1
/// without a checksum are from older programs and are accepted.
Status check_checksum(const formats::Json& json, const std::string& file, std::string_view advice);

struct CheckpointTensors {
  std::vector<engine::NamedTensor> model;
  std::vector<engine::NamedTensor> optimizer;
  std::vector<engine::NamedTensor> ema;  // empty: none
};

/// Files of one checkpoint as state.json describes them, by name.
using FileDescriptions = formats::Json;
/// Writes the optimizer's state into the directory of a checkpoint that is being written, and returns the files. If there is no
/// directory, it receives the error. For processes that each write a part.
using OptimizerWriter = std::function<Result<FileDescriptions>(const Result<std::string>& directory)>;
/// Writes part number `part` (from 0) of `parts`.
Result<FileDescriptions> write_optimizer_part(const std::string& directory, int part, int parts,
                                              const std::vector<engine::NamedTensor>& optimizer);

/// Writes `checkpoints`/step-N, points the links `last` and `best` as `state` says, and removes all earlier ones except `keep`
/// - 1 and the best. Returns the directory. On an error, existing checkpoints are unchanged. With `write_optimizer`,
/// tensors.optimizer is ignored.
Result<std::string> save_checkpoint(const std::string& checkpoints, const CheckpointState& state,
                                    const CheckpointTensors& tensors, int64_t keep,
                                    const OptimizerWriter& write_optimizer = nullptr);

struct Checkpoint {
  std::string directory;
  CheckpointState state;
  CheckpointTensors tensors;
};
/// Reads one back, verifying sizes and checksums and joining the optimizer's parts. `with_optimizer` false leaves out the
/// optimizer's state.
Result<Checkpoint> load_checkpoint(const std::string& directory, bool with_optimizer = true);

/// For the process that resumes: the latest valid checkpoint; empty if there is none at all. Later corrupt ones are renamed to
/// step-N.corrupt and reported to `note`; the links are corrected. kCorrupt if all are corrupt, and other errors if one can't
/// be read for another reason.
Result<std::optional<Checkpoint>> open_latest_checkpoint(const std::string& checkpoints,
                                                         const std::function<void(const std::string&)>& note);

/// The checkpoint that a user means: a checkpoint's directory, a file in one, or a run directory (its best; its last if nothing
/// was validated, or, with a warning, if the best is missing). kNotFound says what was looked for; kCorrupt if the latest
/// checkpoint's state.json, which records the best one, can't be used.
Result<std::string> find_checkpoint(const std::string& path);
/// The complete checkpoints of a run's checkpoints directory, latest first. kNotFound if there is no such directory.
Result<std::vector<std::string>> list_checkpoints(const std::string& checkpoints);
/// The step of one of them; -1 if the name has none.
int64_t checkpoint_step(const std::string& directory);
/// A file in this directory that another run would replace or remove: a checkpoint, complete or not, or a `last` or `best` that
/// isn't a link. "" if there is none.
Result<std::string> any_checkpoint_file(const std::string& checkpoints);

// Named tensors of the engine in safetensors files, for reading and writing, or torch.save's files, for reading only; and the
// hash over them in receipts.

/// Writes to a temporary name and renames; tensors are stored row-major without blocked layouts, with PyTorch's names and
/// shapes. `metadata` is stored in the file.
Status save_tensors(const std::string& path, std::span<const engine::NamedTensor> tensors,
                    std::map<std::string, std::string> metadata = {});
/// A file's metadata.
Result<std::map<std::string, std::string>> read_metadata(const std::string& path);
/// Names and shapes of a file's tensors; their bytes are not read.
Result<std::vector<engine::NamedShape>> list_tensors(const std::string& path);
/// All tensors of a file. kUnsupported names element types that dlpipe does not have.
Result<std::vector<engine::NamedTensor>> load_tensors(const std::string& path);

/// xxHash3-64 over names, shapes, dtypes and bytes in order, chained from `seed`.
uint64_t hash_tensors(std::span<const engine::NamedTensor> tensors, uint64_t seed);

}  // namespace dlpipe::run
