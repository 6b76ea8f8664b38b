// A mutex with rules that clang checks: a member marked DLPIPE_GUARDED_BY(mutex_) may be used only while the
// mutex is held, and a function marked DLPIPE_REQUIRES(mutex_) may be called only then. `scripts/test --only
// locks` runs the check; for GCC the macros are empty. Costs the same as std::mutex.
//
//   class Tally {
//    public:
//     void add(int64_t n) {
//       const MutexLock lock(mutex_);
//       sum_ += n;
//     }
//
//    private:
//     Mutex mutex_;
//     int64_t sum_ DLPIPE_GUARDED_BY(mutex_) = 0;
//   };
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define DLPIPE_LOCK_RULE(...) __attribute__((__VA_ARGS__))
#else
#define DLPIPE_LOCK_RULE(...)
#endif
#define DLPIPE_GUARDED_BY(mutex) DLPIPE_LOCK_RULE(guarded_by(mutex))
/// For a pointer: guards what it points at.
#define DLPIPE_POINTEE_GUARDED_BY(mutex) DLPIPE_LOCK_RULE(pt_guarded_by(mutex))
#define DLPIPE_REQUIRES(...) DLPIPE_LOCK_RULE(requires_capability(__VA_ARGS__))

namespace dlpipe {

class DLPIPE_LOCK_RULE(capability("mutex")) Mutex {
 public:
  void lock() DLPIPE_LOCK_RULE(acquire_capability()) { mutex_.lock(); }
  void unlock() DLPIPE_LOCK_RULE(release_capability()) { mutex_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

/// Holds a mutex for its scope.
class DLPIPE_LOCK_RULE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) DLPIPE_LOCK_RULE(acquire_capability(mutex)) : lock_(mutex.mutex_) {}
  ~MutexLock() DLPIPE_LOCK_RULE(release_capability()) = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() DLPIPE_LOCK_RULE(release_capability()) { lock_.unlock(); }
  void lock() DLPIPE_LOCK_RULE(acquire_capability()) { lock_.lock(); }
  /// Waits for a notification and then holds the mutex again: `while (!ready_) lock.wait(changed_);`.
  void wait(std::condition_variable& condition) { condition.wait(lock_); }
  /// The same, but at most until `then`.
  std::cv_status wait_until(std::condition_variable& condition, std::chrono::steady_clock::time_point then) {
    return condition.wait_until(lock_, then);
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace dlpipe
