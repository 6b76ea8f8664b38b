#include "engine/core/measured_kernels.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <limits>
#include <thread>
#include <utility>

#include "base/counters.h"
#include "base/file.h"
#include "base/text.h"
#include "dlpipe/log.h"
#include "engine/core/parallel.h"
#include "io/formats/atomic_file.h"

namespace dlpipe::engine::cpu {
namespace {

constexpr int kFewestRounds = 3;
constexpr int kMostRounds = 30;
constexpr int64_t kEnoughNs = 3'000'000;  // measuring time per candidate
// Candidates whose first time is more than this times the best are dropped.
constexpr double kHopeless = 1.5;
// A candidate replaces the rule's kernel if it takes less than this times the rule's time.
constexpr double kClearly = 0.97;

/// An exclusive lock between processes, on a file. If the file can't be created, it locks nothing.
class FileLock {
 public:
  /// Logs a wait of more than `quiet_wait_ns`, with the process that is waited for and what to do.
  FileLock(const std::string& path, int64_t most_wait_ns, int64_t quiet_wait_ns) : process_(::getpid()) {
    if (auto file = RegularFile::open_to_write("kernels", path, O_RDWR); file.ok()) fd_ = file->release();
    const int64_t begin_ns = now_ns();
    bool is_said = false;
    while (fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) return;
      const int64_t waited_ns = now_ns() - begin_ns;
      is_held_by_another_ = waited_ns >= most_wait_ns;
      if (is_held_by_another_) return;
      if (!std::exchange(is_said, is_said || waited_ns >= quiet_wait_ns) && is_said) {
        log(LogLevel::kWarning,
            concat(lock_holder(fd_), " holds ", path, " while it measures kernels: waiting for at most ",
                   human_seconds(1e-9 * static_cast<double>(most_wait_ns)),
                   "; if that process is suspended, end it, or use --kernels rules, which measures nothing"));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  ~FileLock() {
    if (fd_ >= 0) close_locked(fd_, process_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// Whether another process still held the lock after `most_wait_ns`.
  bool is_held_by_another() const { return is_held_by_another_; }

 private:
  int fd_ = -1;
  pid_t process_;  // the process that locked it
  bool is_held_by_another_ = false;
};

struct Candidate {
  KernelChoice choice;
  int64_t ns = std::numeric_limits<int64_t>::max();  // its best time
  int64_t spent_ns = 0;
};

void time_once(const std::string& key, const std::function<void()>& run, Candidate& candidate) {
  kernel_table().set(key, candidate.choice);
  const int64_t begin = now_ns();
  run();
  const int64_t ns = now_ns() - begin;
  candidate.ns = std::min(candidate.ns, ns);
  candidate.spent_ns += ns;
}

void time_all(const std::string& key, const std::function<void()>& run, std::vector<Candidate>& all) {
  int64_t best = std::numeric_limits<int64_t>::max();
  for (Candidate& candidate : all) {
    time_once(key, run, candidate);  // creates primitives and buffers
    candidate.ns = std::numeric_limits<int64_t>::max();
    time_once(key, run, candidate);
    best = std::min(best, candidate.ns);
  }
  const auto hopeless = static_cast<int64_t>(kHopeless * static_cast<double>(best));
  for (int round = 1; round < kMostRounds; ++round) {
    bool is_enough = round >= kFewestRounds;
    for (Candidate& candidate : all) {
      if (candidate.ns > hopeless) continue;
      time_once(key, run, candidate);
      is_enough = is_enough && candidate.spent_ns >= kEnoughNs;
    }
    if (is_enough) break;
  }
}

const Candidate& fastest(const std::vector<Candidate>& all) {
  const Candidate* best = &all.front();
  for (const Candidate& candidate : all) {
    const double least = best == &all.front() ? kClearly : 1.0;
    if (static_cast<double>(candidate.ns) < least * static_cast<double>(best->ns)) best = &candidate;
  }
  return *best;
}

/// "measured 1.52 ms; direct 2.31 x".
std::string reasons(const std::vector<Candidate>& all, const Candidate& chosen) {
  std::string text = concat("measured ", fixed(static_cast<double>(chosen.ns) * 1e-6, 2), " ms");
  for (const Candidate& other : all) {
    if (&other == &chosen) continue;
    text += concat("; ", other.choice.kernel, " ",
                   fixed(static_cast<double>(other.ns) / static_cast<double>(chosen.ns), 2), " x");
  }
  return text;
}

}  // namespace

void MeasuredKernels::read() {
  std::error_code ignored;  // write() reports the error
  if (path_.empty() || !std::filesystem::exists(path_, ignored)) return;
  const Result<std::string> text = formats::read_file(path_);
  const Status status = text.ok() ? known_.load(*text) : text.status();
  if (!status.ok())
    log(LogLevel::kWarning, concat(status.message(), "; the kernels in ", path_, " are measured again"));
}

void MeasuredKernels::write() {
  if (path_.empty()) return;
  const Status status = formats::write_file(path_, known_.save());
  if (status.ok() || has_said_) return;
  log(LogLevel::kWarning, concat(status.message(), "; measured kernels are not saved"));
  has_said_ = true;
}

std::optional<KernelChoice> MeasuredKernels::find(const std::string& key, const KernelTest& is_possible) {
  auto choice = known_.find(key);
  if (!choice || is_possible(*choice)) return choice;
  // Logs this only once: a new version with other slices finds many such entries.
  if (!std::exchange(has_said_of_choice_, true)) {
    log(LogLevel::kWarning, concat("'", choice->kernel, "' is not a choice for '", key, "' in ", path_,
                                   ": entries that are corrupt or from another version are measured again"));
  }
  return std::nullopt;
}

std::optional<KernelChoice> MeasuredKernels::find_known(const std::string& key,
                                                        const KernelTest& is_possible) {
  const MutexLock lock(mutex_);
  if (auto choice = known_.find(key); choice && is_possible(*choice)) return choice;
  read();  // files are replaced atomically: reading needs no lock
  if (auto choice = known_.find(key); choice && is_possible(*choice)) return choice;
  return std::nullopt;
}

KernelChoice MeasuredKernels::find_or_measure(const std::string& key,
                                              const std::function<KernelChoice()>& measure,
                                              const KernelTest& is_possible) {
  if (const auto choice = find_known(key, is_possible)) return *choice;
  if (tell_) tell_(key);
  const SpanScope span(Span::kKernelSearch);
  const int64_t begin_ns = now_ns();
  KernelChoice choice = search(key, measure, is_possible);
  search_ns_ += now_ns() - begin_ns;
  ++searches_;
  return choice;
}

KernelChoice MeasuredKernels::search(const std::string& key, const std::function<KernelChoice()>& measure,
                                     const KernelTest& is_possible) {
  const MutexLock lock(mutex_);
  if (!path_.empty()) {
    std::error_code ignored;  // write() reports the error
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  }
  const FileLock file_lock(path_.empty() ? "" : path_ + ".lock", most_wait_ns_, quiet_wait_ns_);
  if (file_lock.is_held_by_another()) {
    log(LogLevel::kWarning, concat("another process has held ", path_, ".lock for ",
                                   human_seconds(1e-9 * static_cast<double>(most_wait_ns_)),
                                   " (is it suspended?); kernels that this process measures are not saved"));
    path_.clear();
  }
  read();
  if (const auto choice = find(key, is_possible)) return *choice;
  KernelChoice choice = measure();
  known_.set(key, choice);
  write();
  return choice;
}

void measure_choices(const std::string& key, const std::function<std::vector<KernelChoice>()>& candidates,
                     const std::function<void()>& run) {
  const std::shared_ptr<MeasuredKernels> measured = kernel_table().measured();
  if (measured == nullptr || kernel_table().find(key)) return;
  static std::atomic_flag is_measuring;  // an op inside another op's run() isn't measured either
  if (is_measuring.test_and_set()) return;
  const std::unique_ptr<std::atomic_flag, void (*)(std::atomic_flag*)> at_end(
      &is_measuring, [](std::atomic_flag* flag) { flag->clear(); });
  std::vector<Candidate> all;
  for (KernelChoice& choice : candidates()) all.push_back({std::move(choice)});
  if (all.size() < 2) return;
  const auto is_candidate = [&](const KernelChoice& choice) {
    return std::any_of(all.begin(), all.end(), [&](const Candidate& one) {
      return one.choice.kernel == choice.kernel && one.choice.images == choice.images &&
             one.choice.parts == choice.parts;
    });
  };
  const auto measure = [&] {
    try {
      time_all(key, run, all);
    } catch (...) {
      kernel_table().forget(key);  // the last candidate is not a choice
      throw;
    }
    renew_worker_scratch();  // the slower candidates may have used the most scratch
    const Candidate& best = fastest(all);
    KernelChoice found = best.choice;
    found.why = reasons(all, best);
    return found;
  };
  kernel_table().set(key, measured->find_or_measure(key, measure, is_candidate));
}

}  // namespace dlpipe::engine::cpu
