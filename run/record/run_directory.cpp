#include "dlpipe/run/record/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "dlpipe/base/aside_file.h"
#include "dlpipe/base/lock_holder.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/regular_file.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/run/input/path_kind.h"
#include "dlpipe/run/record/checkpoint.h"

namespace dlpipe::run {

namespace fs = std::filesystem;

static Status cut_file(const std::string& path, int64_t bytes) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT && bytes == 0) return {};
    return status_from_errno("run", concat("cannot look at ", path), errno);
  }
  DLPIPE_ASSIGN_OR_RETURN(const RegularFile file, RegularFile::open_to_write("run", path, O_WRONLY));
  const auto size = static_cast<int64_t>(file.stamp().size_bytes);
  if (size < bytes) {
    return {ErrorCode::kCorrupt, concat("[run] ", path, " has ", size, " bytes, its checkpoint knew ", bytes,
                                        "; it was cut since: restore it, or begin another run")};
  }
  if (::ftruncate(file.fd(), bytes) != 0) return status_from_errno("run", concat("cannot cut ", path), errno);
  return {};
}

std::string free_run_name(const std::string& name) {
  std::error_code ignored;
  std::string free = name;
  for (int number = 2; fs::exists(free, ignored); ++number) free = concat(name, "-", number);
  return free;
}

/// What is there of a run, though no config.toml is: a checkpoint, or lines in a file that a resumed run cuts; "" where nothing is. A
/// start that was stopped before its first step leaves neither.
static Result<std::string> traces_of_a_run(const RunDirectory& directory) {
  for (const std::string& log : {directory.metrics_file(), directory.quarantine_file()}) {
    std::error_code error;
    const uintmax_t logged = fs::file_size(log, error);
    if (!error && logged > 0) return log;
  }
  return any_checkpoint_file(directory.checkpoints());
}

Result<std::unique_ptr<RunDirectory>> RunDirectory::create(const std::string& path) {
  std::error_code error;
  if (fs::exists(path + "/config.toml", error)) {
    return misuse("run", path, " already holds a run; go on with `dlpipe train --resume ", shell_word(path),
                  "` or give another --out");
  }
  if (has_dataset(path))
    return misuse("run", "--out ", path, " is a dataset; give another folder, such as --out ",
                  shell_word(free_run_name("runs/a")));
  std::unique_ptr<RunDirectory> directory(new RunDirectory(path));
  DLPIPE_ASSIGN_OR_RETURN(const std::string trace, traces_of_a_run(*directory));
  if (!trace.empty()) return misuse("run", trace, " is of another run; give another --out, or move it away");
  directory->is_new_ = true;
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
                    concat("[run] ", path, " has lost its config.toml; to go on, put it back: cp ",
                           shell_word(copy), " ", shell_word(path + "/config.toml")));
    const bool has_begun = trace.empty() && fs::exists(path + "/checkpoints", error);
    return Status(
        ErrorCode::kNotFound,
        concat("[run] ", path,
               has_begun ? " holds no run yet: it was stopped before its first step; run the command "
                           "that began it once more"
                         : " holds no run (no config.toml); give a run directory"));
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
    made_lock_ = false;  // its holder's now
    return misuse("run", lock_holder(lock_fd_), " trains in ", path_, "; stop it first");
  }
  return {};
}

bool RunDirectory::is_in_use(const std::string& path) {
  const int fd = ::open((path + "/lock").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  const bool is_free = ::flock(fd, LOCK_SH | LOCK_NB) == 0;
  ::close(fd);  // and with it the lock
  return !is_free;
}

RunDirectory::~RunDirectory() {
  if (metrics_fd_ >= 0) ::close(metrics_fd_);
  std::error_code ignored;  // what isn't empty by now is somebody else's, and stays
  // While it is locked: nobody else has it, whose run would then have no lock.
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

}  // namespace dlpipe::run
