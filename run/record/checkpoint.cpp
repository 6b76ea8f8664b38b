#include "run/record/checkpoint.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <map>

#include "base/file.h"
#include "base/text.h"
#include "dlpipe/log.h"
#include "dlpipe/tensor.h"
#include "io/data/checksum.h"
#include "io/formats/atomic_file.h"
#include "io/formats/safetensors.h"
#include "io/formats/weights_file.h"
#include "run/input/path_kind.h"

namespace dlpipe::run {

// ---- files of tensors

namespace {

using engine::NamedTensor;
using engine::Tensor;

Tensor plain_contiguous(const Tensor& tensor) {
  return (tensor.is_contiguous() ? tensor : tensor.contiguous_copy()).to(cpu_device());
}

Result<Shape> shape_of(const formats::WeightsFile& file, const formats::SafetensorsEntry& entry) {
  if (entry.shape.size() > static_cast<size_t>(Shape::kMaxRank)) {
    return Status(ErrorCode::kUnsupported,
                  concat("[weights] tensor '", entry.name, "' of ", file.path(), " has ", entry.shape.size(),
                         " dimensions; at most ", Shape::kMaxRank, " are supported"));
  }
  return Shape{std::span<const int64_t>(entry.shape)};
}

Result<Tensor> read_tensor(const formats::WeightsFile& file, const formats::SafetensorsEntry& entry) {
  DLPIPE_ASSIGN_OR_RETURN(const Shape shape, shape_of(file, entry));
  if (!entry.dtype) {
    return Status(ErrorCode::kUnsupported, concat("[weights] tensor '", entry.name, "' of ", file.path(),
                                                  " is ", entry.dtype_text, "; convert it to F32"));
  }
  Tensor tensor = Tensor::empty(shape, *entry.dtype);
  DLPIPE_RETURN_IF_ERROR(file.read(entry, bytes_of(tensor)));
  return tensor;
}

}  // namespace

Status save_tensors(const std::string& path, std::span<const NamedTensor> tensors,
                    std::map<std::string, std::string> metadata) {
  std::vector<Tensor> kept;  // copies of tensors that are not contiguous, until the file is written
  std::vector<formats::SafetensorsTensor> entries;
  for (const NamedTensor& named : tensors) {
    kept.push_back(plain_contiguous(named.tensor));
    const Tensor& tensor = kept.back();
    entries.push_back(
        {named.name, tensor.dtype(), {tensor.shape().begin(), tensor.shape().end()}, bytes_of(tensor)});
  }
  metadata.emplace("format", "pt");
  return formats::write_safetensors(path, entries, metadata).status();
}

Result<std::map<std::string, std::string>> read_metadata(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const formats::WeightsFile file, formats::WeightsFile::open(path));
  return file.metadata();
}

Result<std::vector<engine::NamedShape>> list_tensors(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const formats::WeightsFile file, formats::WeightsFile::open(path));
  std::vector<engine::NamedShape> shapes;
  for (const formats::SafetensorsEntry& entry : file.entries()) {
    DLPIPE_ASSIGN_OR_RETURN(const Shape shape, shape_of(file, entry));
    shapes.push_back({entry.name, shape});
  }
  return shapes;
}

Result<std::vector<NamedTensor>> load_tensors(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const formats::WeightsFile file, formats::WeightsFile::open(path));
  std::vector<NamedTensor> tensors;
  for (const formats::SafetensorsEntry& entry : file.entries()) {
    DLPIPE_ASSIGN_OR_RETURN(Tensor tensor, read_tensor(file, entry));
    tensors.push_back({entry.name, std::move(tensor)});
  }
  return tensors;
}

uint64_t hash_tensors(std::span<const NamedTensor> tensors, uint64_t seed) {
  uint64_t hash = seed;
  for (const NamedTensor& named : tensors) {
    const std::string head =
        concat(named.name, " ", dtype_name(named.tensor.dtype()), " ", named.tensor.shape().to_string());
    hash = data::checksum64(std::as_bytes(std::span(head.data(), head.size())), hash);
    hash = data::checksum64(bytes_of(plain_contiguous(named.tensor)), hash);
  }
  return hash;
}

// ---- directories

namespace fs = std::filesystem;

namespace {

using formats::Json;

constexpr std::string_view kModelFile = "model.safetensors";
constexpr std::string_view kOptimizerFile = "optimizer.safetensors";
constexpr std::string_view kOptimizerPart = "optimizer-";
constexpr std::string_view kEmaFile = "ema.safetensors";
constexpr std::string_view kStateFile = "state.json";
constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kReplaced = ".replaced";
constexpr std::string_view kDamaged = ".corrupt";
constexpr std::string_view kLast = "last";
constexpr std::string_view kBest = "best";

std::string in(const std::string& directory, std::string_view name) {
  return concat(directory, "/", name);
}

Status file_system_error(std::string_view what, const std::error_code& error) {
  return status_from_errno("checkpoint", what, error.value());
}

/// Step of "step-000000500"; -1 for anything else, including partly written ones.
int64_t step_of(const std::string& name) {
  int64_t step = -1;
  if (name.rfind(kStepPrefix, 0) != 0 || !parse_int(std::string_view(name).substr(kStepPrefix.size()), &step))
    return -1;
  return step;
}

std::string step_name(int64_t step) {
  std::string digits = std::to_string(step);
  digits.insert(0, 9 - std::min<size_t>(9, digits.size()), '0');
  return concat(kStepPrefix, digits);
}

/// Names that begin like a checkpoint's, complete or not.
Result<std::vector<std::string>> step_names(const std::string& checkpoints) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = fs::directory_iterator(checkpoints, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.starts_with(kStepPrefix)) names.push_back(std::move(name));
  }
  if (error) return file_system_error(concat("cannot list ", checkpoints), error);
  return names;
}

/// Directories of checkpoints by step, latest first.
using Steps = std::map<int64_t, std::string, std::greater<>>;

/// All complete checkpoints. If the writer was killed while replacing a step, this is the old one.
Result<Steps> find_steps(const std::string& checkpoints) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, step_names(checkpoints));
  Steps steps;
  for (std::string name : names) {
    const bool is_replaced = name.ends_with(kReplaced);
    if (is_replaced) name.resize(name.size() - kReplaced.size());
    const int64_t step = step_of(name);
    if (step < 0) continue;
    if (is_replaced)
      steps.emplace(step, in(checkpoints, name + std::string(kReplaced)));
    else
      steps.insert_or_assign(step, in(checkpoints, name));
  }
  return steps;
}

Result<Json> describe_file(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const data::FileChecksum found, data::checksum_file(path));
  return Json::object(
      {{"bytes", static_cast<int64_t>(found.size_bytes)}, {"checksum", hex64(found.checksum)}});
}

Status write_tensors(const std::string& directory, std::string_view name,
                     const std::vector<engine::NamedTensor>& values, Json& files) {
  DLPIPE_RETURN_IF_ERROR(save_tensors(in(directory, name), values));
  DLPIPE_ASSIGN_OR_RETURN(Json description, describe_file(in(directory, name)));
  files.set(name, std::move(description));
  return {};
}

Status write_files(const std::string& directory, const CheckpointState& state,
                   const CheckpointTensors& tensors, const OptimizerWriter& write_optimizer) {
  Json files = Json::object();
  if (write_optimizer) {  // first: other processes wait for it
    DLPIPE_ASSIGN_OR_RETURN(files, write_optimizer(directory));
  } else {
    DLPIPE_RETURN_IF_ERROR(write_tensors(directory, kOptimizerFile, tensors.optimizer, files));
  }
  DLPIPE_RETURN_IF_ERROR(write_tensors(directory, kModelFile, tensors.model, files));
  if (!tensors.ema.empty()) DLPIPE_RETURN_IF_ERROR(write_tensors(directory, kEmaFile, tensors.ema, files));
  Json json = to_json(state);
  json.set("files", std::move(files));
  return formats::write_json(in(directory, kStateFile), with_checksum(std::move(json)));
}

// Replaces `final`, which may be an earlier checkpoint of the same step, by `partial`. At all times, one of them exists.
Status publish(const std::string& partial, const std::string& final) {
  std::error_code error;
  if (!fs::exists(final, error)) {
    if (::rename(partial.c_str(), final.c_str()) == 0) return {};
    return status_from_errno("checkpoint", concat("cannot rename ", partial), errno);
  }
  if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE) != 0) {
    // For file systems without an atomic exchange. remove_old() removes the old one; find_steps() knows its name.
    const std::string replaced = concat(final, kReplaced);
    fs::remove_all(replaced, error);
    if (::rename(final.c_str(), replaced.c_str()) != 0)
      return status_from_errno("checkpoint", concat("cannot rename ", final), errno);
    if (::rename(partial.c_str(), final.c_str()) != 0)
      return status_from_errno("checkpoint", concat("cannot rename ", partial), errno);
    return {};
  }
  fs::remove_all(partial, error);
  return error ? file_system_error(concat("cannot remove ", partial), error) : Status();
}

// Keeps the `keep` - 1 latest of the steps before `trainer`'s, and the best.
Status remove_old(const std::string& checkpoints, int64_t keep, const TrainerState& trainer) {
  DLPIPE_ASSIGN_OR_RETURN(const Steps steps, find_steps(checkpoints));
  std::vector<std::string> leftovers;
  int64_t kept = 1;
  for (const auto& [step, path] : steps) {
    if (step >= trainer.step || kept++ < keep || step == trainer.best_step) continue;
    leftovers.push_back(path);
  }
  std::error_code error;
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, step_names(checkpoints));
  for (const std::string& name : names) {
    const bool was_replaced = name.ends_with(kReplaced) &&
                              fs::exists(in(checkpoints, name.substr(0, name.size() - kReplaced.size())));
    if (name.ends_with(kPartial) || was_replaced) leftovers.push_back(in(checkpoints, name));
  }
  for (const std::string& path : leftovers) {
    fs::remove_all(path, error);
    if (error) return file_system_error(concat("cannot remove ", path), error);
  }
  return {};
}

Result<std::vector<engine::NamedTensor>> load_checked(const std::string& directory, const Json& files,
                                                      std::string_view name) {
  const std::string path = in(directory, name);
  const auto differs = [&] {
    return Status(
        ErrorCode::kCorrupt,
        concat("[checkpoint] ", path, " does not match the state.json next to it; use another checkpoint"));
  };
  // Checks the size first, which is free, while reading a file that is far too large is expensive.
  std::error_code error;
  const uintmax_t size_bytes = fs::file_size(path, error);
  if (error) return file_system_error(concat("cannot stat ", path), error);
  if (!(Json(static_cast<int64_t>(size_bytes)) == files[name]["bytes"])) return differs();
  DLPIPE_ASSIGN_OR_RETURN(const Json found, describe_file(path));
  if (!(found == files[name])) return differs();
  return load_tensors(path);
}

Result<std::vector<engine::NamedTensor>> load_optimizer(const std::string& directory, const Json& files) {
  std::vector<engine::NamedTensor> all;
  bool has_parts = false;
  for (const auto& [name, description] : files.members()) {
    if (!name.starts_with(kOptimizerPart)) continue;
    has_parts = true;
    DLPIPE_ASSIGN_OR_RETURN(std::vector<engine::NamedTensor> part, load_checked(directory, files, name));
    std::move(part.begin(), part.end(), std::back_inserter(all));
  }
  if (has_parts) return all;
  return load_checked(directory, files, kOptimizerFile);
}

Result<Json> read_state(const std::string& directory) {
  const std::string file = in(directory, kStateFile);
  DLPIPE_ASSIGN_OR_RETURN(Json json, formats::read_json(file));
  DLPIPE_RETURN_IF_ERROR(check_checksum(json, file, "use another checkpoint"));
  return json;
}

/// The best of the checkpoints below, else the last, according to the latest state.json; the links may be older if the writer
/// was killed. "" if there is none. If that file can't be used, an older checkpoint is not used instead, because its weights
/// are not the requested ones.
Result<std::string> best_of(const std::string& checkpoints) {
  const Result<Steps> found_steps = find_steps(checkpoints);
  if (found_steps.status().code() == ErrorCode::kNotFound) return std::string();
  DLPIPE_ASSIGN_OR_RETURN(const Steps steps, found_steps);
  if (steps.empty()) return std::string();
  const std::string& latest = steps.begin()->second;
  const Result<CheckpointState> state = [&]() -> Result<CheckpointState> {
    DLPIPE_ASSIGN_OR_RETURN(const Json json, read_state(latest));
    return checkpoint_state_from_json(json, in(latest, kStateFile));
  }();
  if (!state.ok()) {
    std::string advice = "; it records which checkpoint is the run's best";
    if (steps.size() > 1)
      advice += concat(": name the one to use, such as ", std::next(steps.begin())->second);
    return Status(state.status().code(), state.status().message() + advice);
  }
  const int64_t best = state->trainer.best_step;
  if (const auto found = steps.find(best); found != steps.end()) return found->second;
  if (best >= 0) {
    log(LogLevel::kWarning, concat("the best checkpoint of ", checkpoints, " (step ", best,
                                   ") is missing; using the last one, of step ", steps.begin()->first));
  }
  return latest;
}

}  // namespace

Status point_links(const std::string& checkpoints, const TrainerState& trainer) {
  DLPIPE_RETURN_IF_ERROR(replace_by_link("checkpoint", in(checkpoints, kLast), step_name(trainer.step)));
  const std::string best = step_name(trainer.best_step);
  std::error_code error;
  if (trainer.best_step >= 0 && fs::exists(in(checkpoints, best), error))
    DLPIPE_RETURN_IF_ERROR(replace_by_link("checkpoint", in(checkpoints, kBest), best));
  return sync_directory("checkpoint", checkpoints);
}

Result<FileDescriptions> write_optimizer_part(const std::string& directory, int part, int parts,
                                              const std::vector<engine::NamedTensor>& optimizer) {
  Json files = Json::object();
  DLPIPE_RETURN_IF_ERROR(write_tensors(
      directory, concat(kOptimizerPart, part + 1, "-of-", parts, ".safetensors"), optimizer, files));
  return files;
}

static Result<std::string> make_partial(const std::string& partial) {
  std::error_code error;
  fs::remove_all(partial, error);
  fs::create_directories(partial, error);
  if (error) return file_system_error(concat("cannot create ", partial), error);
  return partial;
}

Result<std::string> save_checkpoint(const std::string& checkpoints, const CheckpointState& state,
                                    const CheckpointTensors& tensors, int64_t keep,
                                    const OptimizerWriter& write_optimizer) {
  const std::string name = step_name(state.trainer.step);
  const std::string partial = concat(checkpoints, "/", name, kPartial);
  const std::string final = in(checkpoints, name);
  Result<std::string> made = make_partial(partial);
  if (!made.ok()) {
    if (write_optimizer) (void)write_optimizer(made);
    return made;
  }
  Status written = write_files(partial, state, tensors, write_optimizer);
  if (written.ok()) written = sync_directory("checkpoint", partial);
  if (!written.ok()) {
    std::error_code error;
    fs::remove_all(partial, error);
    return written;
  }
  DLPIPE_RETURN_IF_ERROR(publish(partial, final));
  DLPIPE_RETURN_IF_ERROR(point_links(checkpoints, state.trainer));
  DLPIPE_RETURN_IF_ERROR(remove_old(checkpoints, keep, state.trainer));
  return final;
}

Result<Checkpoint> load_checkpoint(const std::string& directory, bool with_optimizer) {
  Checkpoint checkpoint;
  checkpoint.directory = directory;
  DLPIPE_ASSIGN_OR_RETURN(const Json json, read_state(directory));
  DLPIPE_ASSIGN_OR_RETURN(checkpoint.state, checkpoint_state_from_json(json, in(directory, kStateFile)));
  const Json& files = json["files"];
  DLPIPE_ASSIGN_OR_RETURN(checkpoint.tensors.model, load_checked(directory, files, kModelFile));
  if (with_optimizer) {
    DLPIPE_ASSIGN_OR_RETURN(checkpoint.tensors.optimizer, load_optimizer(directory, files));
  }
  if (files.contains(kEmaFile)) {
    DLPIPE_ASSIGN_OR_RETURN(checkpoint.tensors.ema, load_checked(directory, files, kEmaFile));
  }
  return checkpoint;
}

Result<std::vector<std::string>> list_checkpoints(const std::string& checkpoints) {
  DLPIPE_ASSIGN_OR_RETURN(const Steps steps, find_steps(checkpoints));
  std::vector<std::string> directories;
  for (const auto& [step, path] : steps) directories.push_back(path);
  return directories;
}

Result<std::string> any_checkpoint_file(const std::string& checkpoints) {
  const Result<std::vector<std::string>> names = step_names(checkpoints);
  if (names.status().code() == ErrorCode::kNotFound) return std::string();
  DLPIPE_RETURN_IF_ERROR(names.status());
  if (!names->empty()) return in(checkpoints, names->front());
  for (const std::string_view link : {kLast, kBest}) {
    std::error_code error;
    const fs::file_status status = fs::symlink_status(in(checkpoints, link), error);
    if (fs::exists(status) && !fs::is_symlink(status)) return in(checkpoints, link);
  }
  return std::string();
}

Result<std::optional<Checkpoint>> open_latest_checkpoint(
    const std::string& checkpoints, const std::function<void(const std::string&)>& note) {
  const Result<std::vector<std::string>> found = list_checkpoints(checkpoints);
  if (found.status().code() == ErrorCode::kNotFound) {
    return Status(ErrorCode::kNotFound,
                  concat(found.status().message(),
                         "; restore the run's checkpoints, or a link to them; with an empty folder "
                         "the run starts over"));
  }
  DLPIPE_RETURN_IF_ERROR(found.status());
  std::vector<std::string> damaged;
  Status first_damage;
  for (const std::string& path : *found) {
    Result<Checkpoint> loaded = load_checkpoint(path);
    if (!loaded.ok()) {
      // A failure of memory or disk says nothing about the checkpoint.
      const ErrorCode code = loaded.status().code();
      if (code != ErrorCode::kCorrupt && code != ErrorCode::kNotFound) return loaded.status();
      if (damaged.empty()) first_damage = loaded.status();
      damaged.push_back(path);
      continue;
    }
    for (const std::string& bad : damaged) {
      const std::string aside = concat(bad, kDamaged);
      std::error_code error;
      fs::remove_all(aside, error);
      fs::rename(bad, aside, error);
      if (error) return file_system_error(concat("cannot rename ", bad), error);
    }
    if (!damaged.empty()) {
      note(concat("skipping a corrupt checkpoint: ", first_damage.message(), "; continuing from ", path,
                  "; what was skipped is kept in ", damaged.front(), kDamaged));
    }
    DLPIPE_RETURN_IF_ERROR(point_links(checkpoints, loaded->state.trainer));
    return std::optional<Checkpoint>(*std::move(loaded));
  }
  if (damaged.empty()) return std::optional<Checkpoint>();
  return Status(ErrorCode::kCorrupt,
                concat(first_damage.message(), "; ",
                       damaged.size() == 1 ? std::string("the only checkpoint")
                                           : concat("all ", damaged.size(), " checkpoints"),
                       " in ", checkpoints, damaged.size() == 1 ? " is" : " are",
                       " corrupt, so the run can't continue; start another: dlpipe train --config "
                       "RUN/config.toml --out NEW"));
}

int64_t checkpoint_step(const std::string& directory) {
  std::string name = fs::path(directory).filename().string();
  if (name.ends_with(kReplaced)) name.resize(name.size() - kReplaced.size());
  return step_of(name);
}

Result<std::string> find_checkpoint(const std::string& path) {
  std::error_code error;
  const auto holds_state = [&](const std::string& directory) {
    return fs::exists(in(directory, kStateFile), error);
  };
  std::string directory = path;
  if (fs::is_regular_file(directory, error)) directory = fs::path(directory).parent_path().string();
  if (directory.empty()) directory = ".";
  if (holds_state(directory)) return directory;
  for (const std::string& checkpoints : {in(directory, "checkpoints"), directory}) {
    DLPIPE_ASSIGN_OR_RETURN(std::string best, best_of(checkpoints));
    if (!best.empty()) return best;
  }
  if (!fs::exists(path, error)) {
    DLPIPE_RETURN_IF_ERROR(refuse_other_kind("checkpoint", path, Wanted::kModel));  // or a model's name
    return Status(ErrorCode::kNotFound,
                  concat("[checkpoint] there is no ", path,
                         "; give runs/NAME, runs/NAME/checkpoints/best or a file of weights"));
  }
  DLPIPE_RETURN_IF_ERROR(refuse_other_kind("checkpoint", path, Wanted::kCheckpoint));
  return Status(ErrorCode::kNotFound, concat("[checkpoint] ", path,
                                             " is neither a checkpoint nor a run with one; give runs/NAME or "
                                             "runs/NAME/checkpoints/best"));
}

}  // namespace dlpipe::run
