// Memory of a simulated device, which the host can't touch: as with a GPU's, a program that does ends by SIGSEGV. Work of the
// device has it open while it runs. Under a sanitizer it is the heap's, whose borders are watched, and open always.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace dlpipe {

class GuardedMemory {
 public:
  GuardedMemory();
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  static constexpr size_t kAlign = 256;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr bool kGuards = false;
#else
  static constexpr bool kGuards = true;
#endif
  /// Null: there is no more. Any thread.
  void* take(size_t bytes);
  void give(void* memory) noexcept;

  /// While one lives all of it is open to all threads.
  class Open {
   public:
    explicit Open(GuardedMemory& memory) : memory_(memory) { memory_.add_openings(1); }
    ~Open() { memory_.add_openings(-1); }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;

   private:
    GuardedMemory& memory_;
  };

 private:
  void add_openings(int count);
  void allow(size_t from, size_t to, bool access);

  std::mutex mutex_;
  void* mapped_ = nullptr;
  std::byte* base_ = nullptr;
  size_t top_ = 0;  // bytes from base_ that were ever given out
  int openings_ = 0;
  std::map<size_t, size_t> free_;   // bytes by offset; no two are neighbours
  std::map<size_t, size_t> taken_;  // likewise
};

}  // namespace dlpipe
