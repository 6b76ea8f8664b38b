// Checkpoints: a directory that holds all that eval, predict and resume need, and nothing else is needed.
//
//   checkpoints/step-000000500/    appears by one rename, after everything in it is on disk
//     model.safetensors            weights and buffers, PyTorch's names and shapes
//     optimizer.safetensors        momentum, moments
//     optimizer-3-of-4.safetensors instead of it: what one of four processes has of them (--shard-optimizer)
//     ema.safetensors              with --ema: the averaged weights, which eval and predict take
//     state.json                   CheckpointState, the size and checksum of each file beside it, and its own
//   checkpoints/last, best         symbolic links, for people: which one is best stands in state.json
//   checkpoints/step-N.partial     being written, or left by a killed writer
//   checkpoints/step-N.replaced    the same step's former checkpoint, where the file system can't exchange two folders
//   checkpoints/step-N.damaged     what a resumed run couldn't read and went on without
//
// One writer per run directory (the run's lock sees to it); readers may come at any time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/base/batch_source.h"
#include "dlpipe/base/error.h"
#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/models/model.h"
#include "dlpipe/io/formats/json.h"

namespace dlpipe::run {

/// Where training stands, beside the tensors.
struct TrainerState {
  int64_t step = 0;  // optimizer steps done
  double best = 0;   // value of the deciding metric at best_step
  int64_t best_step = -1;
  int64_t worse_validations = 0;  // in a row, for --early-stop
  int64_t skipped_steps = 0;
  int64_t overflowed_steps = 0;  // skipped because the loss scale was too large
  double loss_scale = 0;         // with f16: of the next step; 0: the loss isn't scaled
  int64_t good_steps = 0;        // with f16: since the loss scale last changed
  uint64_t parameters_chain = 0;
  int64_t validated_step = -1;  // the last validation came after this many steps
  int64_t chained_step = -1;    // parameters_chain last grew after this many
  /// Of the epoch's steps so far whose loss is a number: their losses' sum, NaN where an older program didn't keep it, and how many.
  double epoch_loss_sum = 0;
  int64_t epoch_loss_steps = 0;
  int64_t metrics_bytes = 0;     // of metrics.jsonl up to this step
  int64_t quarantine_bytes = 0;  // of quarantine.txt
};

/// What a model is and how its inputs are made; enough to evaluate it anywhere.
struct ModelState {
  std::string model;
  engine::ModelArguments arguments;
  std::vector<std::string> classes;
  std::string val_augment;   // the whole chain, normalisation with its numbers included
  std::string tta = "none";  // views that evaluation averages over (views.h)
  std::string dtype = "f32";
  std::string loss;
  std::vector<std::string> metrics;
  std::string graph =
      {};  // of a model that no code builds: the JSON of graph/FORMAT.md; its constants are the weights
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

/// `json` with a last member "checksum", over all others.
formats::Json with_checksum(formats::Json json);
/// kCorrupt when `json`, read from `file`, is not what with_checksum() gave; `advice` ends the message. Files of
/// version 1 without one are from older programs, and pass.
Status check_checksum(const formats::Json& json, const std::string& file, std::string_view advice);

struct CheckpointTensors {
  std::vector<engine::NamedTensor> model;
  std::vector<engine::NamedTensor> optimizer;
  std::vector<engine::NamedTensor> ema;  // empty: none
};

/// Files of one checkpoint as state.json describes them, by name.
using FileDescriptions = formats::Json;
/// Writes the optimizer's state into the directory of a checkpoint that is being written and answers its files; told the
/// error where there is no directory. For processes that each write a part.
using OptimizerWriter = std::function<Result<FileDescriptions>(const Result<std::string>& directory)>;
/// Writes part number `part` (from 0) of `parts`.
Result<FileDescriptions> write_optimizer_part(const std::string& directory, int part, int parts,
                                              const std::vector<engine::NamedTensor>& optimizer);

/// Writes `checkpoints`/step-N, points the links `last` and `best` as `state` says, and removes all earlier
/// ones but `keep` - 1 and the best. Answers the directory. On an error what was there before stays as it
/// was. With `write_optimizer` tensors.optimizer isn't looked at.
Result<std::string> save_checkpoint(const std::string& checkpoints, const CheckpointState& state,
                                    const CheckpointTensors& tensors, int64_t keep,
                                    const OptimizerWriter& write_optimizer = nullptr);

struct Checkpoint {
  std::string directory;
  CheckpointState state;
  CheckpointTensors tensors;
};
/// Reads one back, sizes and checksums verified; the optimizer's parts one after another. `with_optimizer` false leaves the optimizer's state out.
Result<Checkpoint> load_checkpoint(const std::string& directory, bool with_optimizer = true);

/// For the one that goes on writing: the latest checkpoint that is whole; empty when there is none at all.
/// Later ones that are damaged are renamed to step-N.damaged, and `note` is told; the links are set right.
/// kCorrupt when all are damaged, and other errors when one can't be read for another reason.
Result<std::optional<Checkpoint>> open_latest_checkpoint(const std::string& checkpoints,
                                                         const std::function<void(const std::string&)>& note);

/// The checkpoint that a user means: a checkpoint's directory, a file in one, or a run directory (its best;
/// its last when nothing was validated, or, with a warning, when the best is gone). kNotFound says what was
/// looked for; kCorrupt that the latest checkpoint's state.json, which says which one is the best, can't be used.
Result<std::string> find_checkpoint(const std::string& path);
/// The whole checkpoints of a run's checkpoints directory, latest first. kNotFound where there is no such directory.
Result<std::vector<std::string>> list_checkpoints(const std::string& checkpoints);
/// The step of one of them; -1 where the name has none.
int64_t checkpoint_step(const std::string& directory);
/// Something in there that a run of its own would replace or remove: a checkpoint, whole or not. "" where there is nothing.
Result<std::string> any_checkpoint_file(const std::string& checkpoints);

}  // namespace dlpipe::run
