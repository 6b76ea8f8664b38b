#include "run/record/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include "base/file.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "io/formats/atomic_file.h"
#include "run/config/config.h"
#include "run/input/path_kind.h"
#include "run/record/checkpoint.h"

namespace dlpipe::run {

namespace fs = std::filesystem;

static Status cut_file(const std::string& path, int64_t bytes) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT && bytes == 0) return {};
    return status_from_errno("run", concat("cannot stat ", path), errno);
  }
  DLPIPE_ASSIGN_OR_RETURN(const RegularFile file, RegularFile::open_to_write("run", path, O_WRONLY));
  const auto size = static_cast<int64_t>(file.stamp().size_bytes);
  if (size < bytes) {
    return {ErrorCode::kCorrupt, concat("[run] ", path, " has ", size, " bytes, but its checkpoint recorded ",
                                        bytes, "; it was truncated since: restore it, or start another run")};
  }
  if (::ftruncate(file.fd(), bytes) != 0)
    return status_from_errno("run", concat("cannot truncate ", path), errno);
  return {};
}

std::string free_run_name(const std::string& name) {
  std::error_code ignored;
  std::string free = name;
  for (int number = 2; fs::exists(free, ignored); ++number) free = concat(name, "-", number);
  return free;
}

/// A file that shows that there was a run, although config.toml is missing: a checkpoint, a non-empty file of a run, or a folder
/// with the name of such a file. "" if there is none. A start that was stopped before its first step leaves none.
static Result<std::string> traces_of_a_run(const RunDirectory& directory) {
  for (const std::string& file :
       {directory.metrics_file(), directory.quarantine_file(), directory.ledger_file(),
        directory.receipt_file(), directory.kernels_file()}) {
    std::error_code error;
    if (fs::is_directory(file, error)) return file;
    const uintmax_t logged = fs::file_size(file, error);
    if (!error && logged > 0) return file;
  }
  return any_checkpoint_file(directory.checkpoints());
}

Result<std::unique_ptr<RunDirectory>> RunDirectory::create(const std::string& path) {
  std::error_code error;
  if (fs::exists(path + "/config.toml", error)) {
    return misuse("run", path, " already contains a run; continue it with `dlpipe train --resume ",
                  shell_word(path), "` or give another --out");
  }
  if (has_dataset(path))
    return misuse("run", "--out ", path, " is a dataset; give another folder, such as --out ",
                  shell_word(free_run_name("runs/a")));
  std::unique_ptr<RunDirectory> directory(new RunDirectory(path));
  DLPIPE_ASSIGN_OR_RETURN(const std::string trace, traces_of_a_run(*directory));
  if (!trace.empty())
    return misuse("run", trace,
                  " belongs to another run, or to another program; give another --out, or move it away");
  directory->is_new_ = true;
  DLPIPE_RETURN_IF_ERROR(refuse_broken_link("run", path));
  for (fs::path folder = directory->checkpoints(); !folder.empty() && !fs::exists(folder, error);
       folder = folder.parent_path())
    directory->made_folders_.push_back(folder);
  fs::create_directories(directory->checkpoints(), error);
  if (error) return status_from_errno("run", concat("cannot create ", path), error.value());
  DLPIPE_RETURN_IF_ERROR(directory->lock());
  return directory;
}

Result<std::unique_ptr<RunDirectory>> RunDirectory::reopen(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path + "/config.toml", error)) {
    DLPIPE_RETURN_IF_ERROR(refuse_other_kind("run", path, Wanted::kRun));
    DLPIPE_ASSIGN_OR_RETURN(const std::string trace, traces_of_a_run(RunDirectory(path)));
    const std::string copy = path + "/checkpoints/config.toml";
    if (!trace.empty() && fs::exists(copy, error))
      return Status(ErrorCode::kNotFound,
                    concat("[run] ", path, " has lost its config.toml; to continue, restore it: cp ",
                           shell_word(copy), " ", shell_word(path + "/config.toml")));
    const bool has_begun = trace.empty() && fs::exists(path + "/checkpoints", error);
    // If another process is just beginning the run, this reports it.
    if (has_begun) DLPIPE_RETURN_IF_ERROR(RunDirectory(path).lock());
    return Status(ErrorCode::kNotFound,
                  concat("[run] ", path,
                         has_begun ? " contains no run yet: it was stopped before its first step; repeat the "
                                     "command that started it"
                                   : " contains no run (no config.toml); give a run directory"));
  }
  std::unique_ptr<RunDirectory> directory(new RunDirectory(path));
  DLPIPE_RETURN_IF_ERROR(directory->lock());
  return directory;
}

Status RunDirectory::lock() {
  const std::string name = file("lock");
  lock_fd_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  made_lock_ = lock_fd_ >= 0;
  if (!made_lock_) {
    DLPIPE_ASSIGN_OR_RETURN(RegularFile lock, RegularFile::open_to_write("run", name, O_RDWR));
    lock_fd_ = lock.release();
  }
  lock_process_ = ::getpid();
  if (::flock(lock_fd_, LOCK_EX | LOCK_NB) != 0) {
    made_lock_ = false;  // it belongs to its holder
    return misuse("run", lock_holder(lock_fd_), " is training in ", path_, "; stop it first");
  }
  return {};
}

bool RunDirectory::is_in_use(const std::string& path) {
  const int fd = ::open((path + "/lock").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  const bool is_free = ::flock(fd, LOCK_SH | LOCK_NB) == 0;
  ::close(fd);  // also releases the lock
  return !is_free;
}

RunDirectory::~RunDirectory() {
  if (metrics_fd_ >= 0) ::close(metrics_fd_);
  std::error_code ignored;  // folders that are not empty belong to somebody else and stay
  // The file is removed while it is locked: no other process can have locked it, whose run would then be without a lock.
  if (is_new_ && made_lock_) fs::remove(file("lock"), ignored);
  if (lock_fd_ >= 0) close_locked(lock_fd_, lock_process_);
  if (!is_new_) return;
  for (const fs::path& folder : made_folders_) fs::remove(folder, ignored);
}

Status RunDirectory::cut_logs(int64_t metrics_bytes, int64_t quarantine_bytes) {
  DLPIPE_RETURN_IF_ERROR(cut_file(metrics_file(), metrics_bytes));
  metrics_bytes_ = metrics_bytes;
  return cut_file(quarantine_file(), quarantine_bytes);
}

Status RunDirectory::start_logs(int64_t step) {
  is_new_ = false;
  DLPIPE_ASSIGN_OR_RETURN(RegularFile metrics,
                          RegularFile::open_to_write("run", metrics_file(), O_WRONLY | O_APPEND));
  metrics_fd_ = metrics.release();
  DLPIPE_ASSIGN_OR_RETURN(formats::EventWriter events, formats::EventWriter::create(path_));
  events_.emplace(std::move(events));
  return events_->session_start(step + 1);  // the points of `step` itself stay
}

Status RunDirectory::log_line(const formats::Json& line) {
  const std::string text = line.dump() + "\n";
  DLPIPE_RETURN_IF_ERROR(
      write_all("run", metrics_fd_, std::as_bytes(std::span(text.data(), text.size())), metrics_file()));
  metrics_bytes_ += static_cast<int64_t>(text.size());
  return {};
}

Status RunDirectory::log_scalars(int64_t step, std::span<const formats::Scalar> scalars) {
  return events_->scalars(step, scalars);
}

Result<RunDirectory::LogSizes> RunDirectory::sync_logs() {
  LogSizes sizes{metrics_bytes_, 0};
  if (::fdatasync(metrics_fd_) != 0)
    return status_from_errno("run", concat("cannot sync ", metrics_file()), errno);
  const auto file = RegularFile::open("run", quarantine_file());
  if (file.status().code() == ErrorCode::kNotFound) return sizes;  // no bad record yet
  DLPIPE_RETURN_IF_ERROR(file.status());
  struct stat info {};
  if (::fdatasync(file->fd()) != 0 || ::fstat(file->fd(), &info) != 0)
    return status_from_errno("run", concat("cannot sync ", quarantine_file()), errno);
  sizes.quarantine_bytes = info.st_size;
  return sizes;
}

namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 20;

std::string last_line_for(std::string_view text) {
  return concat(kConfigChecksum, hex64(data::checksum64(std::as_bytes(std::span(text)))), "\n");
}

bool is_as_written(std::string_view text) {
  const size_t mark = text.rfind(kConfigChecksum);
  return mark != std::string_view::npos && last_line_for(text.substr(0, mark)) == text.substr(mark);
}

/// "lr is 0.2, was 0.1; ...", of options that may not change; "" if there is none.
std::string describe_changes(const TrainConfig& now, const TrainConfig& written) {
  constexpr int kMostNamed = 5;
  std::string text;
  int changes = 0;
  const auto compare = [&](std::string_view name, const std::string& is, const std::string& was) {
    if (is == was || ++changes > kMostNamed) return;
    text += concat(text.empty() ? "" : "; ", name, " is '", is, "', was '", was, "'");
  };
  for (const ConfigOption& option : config_options()) {
    if (!option.free_on_resume) compare(option.name, option_text(option, now), option_text(option, written));
  }
  std::map<std::string, std::string> names = written.record;
  names.insert(now.record.begin(), now.record.end());
  const auto value_in = [](const TrainConfig& config, const std::string& name) {
    const auto found = config.record.find(name);
    return found != config.record.end() ? found->second : "";
  };
  for (const auto& [name, unused] : names) compare(name, value_in(now, name), value_in(written, name));
  return changes > kMostNamed ? concat(text, "; and ", changes - kMostNamed, " more") : text;
}

}  // namespace

Status save_config(const std::string& run, const TrainConfig& config) {
  TrainConfig written = config;  // absolute, so that it means the same run from any folder
  std::error_code ignored;
  if (!written.out.empty()) written.out = fs::absolute(written.out, ignored).lexically_normal().string();
  std::string text = write_config(written);
  text += last_line_for(text);
  DLPIPE_RETURN_IF_ERROR(formats::write_file(run + "/checkpoints/config.toml", text));
  return formats::write_file(run + "/config.toml", text);
}

Result<TrainConfig> load_config(const std::string& run) {
  const std::string file = run + "/config.toml";
  const std::string copy = run + "/checkpoints/config.toml";
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, formats::read_file(file, kMostBytes));
  TrainConfig config;
  const Status readable = parse_config(text, file, config);
  const Result<std::string> copied = formats::read_file(copy, kMostBytes);
  const bool has_copy = copied.ok() && is_as_written(*copied);
  if (is_as_written(text) || (!has_copy && text.find(kConfigChecksum) == std::string::npos)) {
    if (!readable.ok()) return readable;
    return config;
  }
  const std::string how_to_go_on =
      concat(has_copy ? concat("; to continue, restore it: cp ", shell_word(copy), " ", shell_word(file))
                      : std::string(),
             "; to train with other options, start another run: dlpipe train --config ", shell_word(file),
             " --out NEW");
  if (!readable.ok()) return Status(ErrorCode::kChanged, concat(readable.message(), how_to_go_on));
  if (!has_copy) {
    return Status(ErrorCode::kChanged,
                  concat("[run] ", file,
                         " was changed since dlpipe wrote it, and the copy in checkpoints/ is "
                         "corrupt or missing",
                         how_to_go_on));
  }
  TrainConfig written;
  DLPIPE_RETURN_IF_ERROR(parse_config(*copied, copy, written));
  const std::string changes = describe_changes(config, written);
  if (changes.empty()) return config;
  return Status(
      ErrorCode::kChanged,
      concat("[run] ", file, " was changed since dlpipe wrote it: ", changes, how_to_go_on,
             "; options that may change on --resume are given on the command line: ", free_option_names(),
             ", --data (the same dataset elsewhere), --epochs (a longer run)"));
}

std::optional<TrainConfig> config_of_run(const std::string& path) {
  std::error_code ignored;
  std::filesystem::path run = path;
  if (!run.has_filename()) run = run.parent_path();
  for (int above = 0; above < 2 && !std::filesystem::exists(run / "config.toml", ignored); ++above)
    run = run.parent_path();
  TrainConfig config;
  return read_config(run / "config.toml", config).ok() ? std::optional(config) : std::nullopt;
}

std::string dataset_of_run(const std::string& path) {
  const std::optional<TrainConfig> config = config_of_run(path);
  return config && has_dataset(config->data) ? config->data : "";
}

LoggedEnd logged_end(const std::string& run) {
  LoggedEnd end;
  std::ifstream log(run + "/metrics.jsonl");
  for (std::string text; std::getline(log, text);) {
    const auto line = formats::Json::parse(text);
    if (!line.ok()) continue;
    const auto number = [](const formats::Json& value) {
      return value.is_number() ? value.as_double() : std::numeric_limits<double>::quiet_NaN();
    };
    if (line->contains("loss")) end.loss = number((*line)["loss"]);
    if (!line->contains("val_loss")) continue;
    EvalReport& report = end.validation.emplace();
    report.loss = number((*line)["val_loss"]);
    report.samples = (*line)["val_samples"].as_int();
    for (const auto& [name, value] : line->members())
      if (name.starts_with("val_") && name != "val_loss" && name != "val_samples")
        report.metrics.emplace_back(name.substr(4), number(value));
  }
  return end;
}

}  // namespace dlpipe::run
