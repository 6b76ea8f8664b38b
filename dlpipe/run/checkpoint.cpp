#include "dlpipe/run/checkpoint.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include "dlpipe/base/text.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/run/tensor_file.h"

namespace dlpipe::run {

namespace fs = std::filesystem;
using formats::Json;

namespace {

constexpr std::string_view kModelFile = "model.safetensors";
constexpr std::string_view kOptimizerFile = "optimizer.safetensors";
constexpr std::string_view kEmaFile = "ema.safetensors";
constexpr std::string_view kStateFile = "state.json";
constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kPartial = ".partial";

std::string in(const std::string& directory, std::string_view name) {
  return concat(directory, "/", name);
}

Status file_system_error(std::string_view what, const std::error_code& error) {
  return status_from_errno("checkpoint", what, error.value());
}

/// Step of "step-000000500"; -1 for anything else, so also for what is only partly written.
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

Result<Json> describe_file(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const std::string bytes, formats::read_file(path, uint64_t{1} << 40));
  return Json::object(
      {{"bytes", static_cast<int64_t>(bytes.size())},
       {"checksum", hex64(data::checksum64(std::as_bytes(std::span(bytes.data(), bytes.size()))))}});
}

Status write_files(const std::string& directory, const CheckpointState& state,
                   const CheckpointTensors& tensors) {
  Json files = Json::object();
  const auto write = [&](std::string_view name, const std::vector<engine::NamedTensor>& values) -> Status {
    DLPIPE_RETURN_IF_ERROR(save_tensors(in(directory, name), values));
    DLPIPE_ASSIGN_OR_RETURN(Json description, describe_file(in(directory, name)));
    files.set(name, std::move(description));
    return {};
  };
  DLPIPE_RETURN_IF_ERROR(write(kModelFile, tensors.model));
  DLPIPE_RETURN_IF_ERROR(write(kOptimizerFile, tensors.optimizer));
  if (!tensors.ema.empty()) DLPIPE_RETURN_IF_ERROR(write(kEmaFile, tensors.ema));
  Json json = to_json(state);
  json.set("files", std::move(files));
  return formats::write_json(in(directory, kStateFile), json);
}

// Puts `partial` in the place of `final`, which may hold an earlier checkpoint of the same step.
Status publish(const std::string& partial, const std::string& final) {
  std::error_code error;
  if (!fs::exists(final, error)) {
    if (::rename(partial.c_str(), final.c_str()) == 0) return {};
    return status_from_errno("checkpoint", concat("cannot rename ", partial), errno);
  }
  if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE) != 0) {
    // File systems without an exchange: the same step's older checkpoint goes first.
    fs::remove_all(final, error);
    if (::rename(partial.c_str(), final.c_str()) != 0) {
      return status_from_errno("checkpoint", concat("cannot rename ", partial), errno);
    }
    return {};
  }
  fs::remove_all(partial, error);
  return error ? file_system_error(concat("cannot remove ", partial), error) : Status();
}

Status point_link(const std::string& checkpoints, std::string_view link, const std::string& target) {
  const std::string partial = concat(checkpoints, "/", link, kPartial);
  ::unlink(partial.c_str());
  if (::symlink(target.c_str(), partial.c_str()) != 0) {
    return status_from_errno("checkpoint", concat("cannot create the link ", partial), errno);
  }
  if (::rename(partial.c_str(), in(checkpoints, link).c_str()) != 0) {
    return status_from_errno("checkpoint", concat("cannot rename ", partial), errno);
  }
  return {};
}

Status remove_old(const std::string& checkpoints, int64_t keep) {
  std::error_code error;
  const std::string best = fs::read_symlink(in(checkpoints, "best"), error).string();
  std::set<int64_t> steps;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(checkpoints, error)) {
    const std::string name = entry.path().filename().string();
    if (step_of(name) >= 0) steps.insert(step_of(name));
    if (name.rfind(kStepPrefix, 0) == 0 && name.ends_with(kPartial)) leftovers.push_back(entry.path());
  }
  while (static_cast<int64_t>(steps.size()) > keep) {
    const std::string name = step_name(*steps.begin());
    steps.erase(steps.begin());
    if (name != best) leftovers.emplace_back(in(checkpoints, name));
  }
  for (const fs::path& path : leftovers) {
    fs::remove_all(path, error);
    if (error) return file_system_error(concat("cannot remove ", path.string()), error);
  }
  return {};
}

Result<std::vector<engine::NamedTensor>> load_checked(const std::string& directory, const Json& files,
                                                      std::string_view name) {
  const std::string path = in(directory, name);
  DLPIPE_ASSIGN_OR_RETURN(const Json found, describe_file(path));
  if (!(found == files[name])) {
    return Status(ErrorCode::kCorrupt,
                  concat("[checkpoint] ", path,
                         " is not what state.json beside it describes; take another checkpoint"));
  }
  return load_tensors(path);
}

}  // namespace

Result<std::string> save_checkpoint(const std::string& checkpoints, const CheckpointState& state,
                                    const CheckpointTensors& tensors, int64_t keep, bool is_best) {
  const std::string name = step_name(state.trainer.step);
  const std::string partial = concat(checkpoints, "/", name, kPartial);
  const std::string final = in(checkpoints, name);
  std::error_code error;
  fs::remove_all(partial, error);
  fs::create_directories(partial, error);
  if (error) return file_system_error(concat("cannot create ", partial), error);
  Status written = write_files(partial, state, tensors);
  if (written.ok()) written = formats::sync_directory(partial);
  if (!written.ok()) {
    fs::remove_all(partial, error);
    return written;
  }
  DLPIPE_RETURN_IF_ERROR(publish(partial, final));
  DLPIPE_RETURN_IF_ERROR(point_link(checkpoints, "last", name));
  if (is_best) DLPIPE_RETURN_IF_ERROR(point_link(checkpoints, "best", name));
  DLPIPE_RETURN_IF_ERROR(formats::sync_directory(checkpoints));
  DLPIPE_RETURN_IF_ERROR(remove_old(checkpoints, keep));
  return final;
}

Result<Checkpoint> load_checkpoint(const std::string& directory, bool with_optimizer) {
  Checkpoint checkpoint;
  checkpoint.directory = directory;
  const std::string state_file = in(directory, kStateFile);
  DLPIPE_ASSIGN_OR_RETURN(const Json json, formats::read_json(state_file));
  DLPIPE_ASSIGN_OR_RETURN(checkpoint.state, checkpoint_state_from_json(json, state_file));
  const Json& files = json["files"];
  DLPIPE_ASSIGN_OR_RETURN(checkpoint.tensors.model, load_checked(directory, files, kModelFile));
  if (with_optimizer) {
    DLPIPE_ASSIGN_OR_RETURN(checkpoint.tensors.optimizer, load_checked(directory, files, kOptimizerFile));
  }
  if (files.contains(kEmaFile)) {
    DLPIPE_ASSIGN_OR_RETURN(checkpoint.tensors.ema, load_checked(directory, files, kEmaFile));
  }
  return checkpoint;
}

std::vector<std::string> list_checkpoints(const std::string& checkpoints) {
  std::set<int64_t, std::greater<>> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(checkpoints, error)) {
    if (const int64_t step = step_of(entry.path().filename().string()); step >= 0) steps.insert(step);
  }
  std::vector<std::string> directories;
  for (const int64_t step : steps) directories.push_back(in(checkpoints, step_name(step)));
  return directories;
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
    for (const char* link : {"best", "last"}) {
      if (holds_state(in(checkpoints, link))) return in(checkpoints, link);
    }
    if (const auto all = list_checkpoints(checkpoints); !all.empty()) return all.front();
  }
  return Status(ErrorCode::kNotFound, concat("[checkpoint] ", path,
                                             " is no checkpoint and no run with one; give runs/NAME or "
                                             "runs/NAME/checkpoints/best"));
}

}  // namespace dlpipe::run
