// An asynchronous device made of threads: every stream runs its work in order on a thread of its own, late.
//
// Copies happen when the stream comes to them, from and to whatever then stands in memory, so that a slot or
// twin that is reused too early shows in the pixels.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "dlpipe/base/device/device.h"

namespace dlpipe {

class SimulatedDevice final : public Device {
 public:
  explicit SimulatedDevice(std::chrono::microseconds copy_time = std::chrono::microseconds(300))
      : copy_time_(copy_time) {}

  DeviceKind kind() const override { return DeviceKind::kSimulated; }
  std::string name() const override { return "simulated"; }

  Result<void*> allocate(size_t bytes) override { return take(bytes); }
  void deallocate(void* memory, size_t bytes) noexcept override { give(memory, bytes); }
  Result<void*> allocate_pinned(size_t bytes) override { return take(bytes); }
  void deallocate_pinned(void* memory, size_t bytes) noexcept override { give(memory, bytes); }

  Result<std::unique_ptr<Stream>> create_stream() override {
    return std::unique_ptr<Stream>(std::make_unique<ThreadStream>());
  }
  Result<std::unique_ptr<Event>> create_event() override {
    return std::unique_ptr<Event>(std::make_unique<CountedEvent>());
  }
  Status copy_async(void* to, const void* from, size_t bytes, CopyKind, Stream& stream) override {
    if (fail_copies) return Status(ErrorCode::kIo, "[device] simulated: the link is down");
    put(stream, [=, time = copy_time_] {
      std::this_thread::sleep_for(time);
      std::memcpy(to, from, bytes);
    });
    ++copies;
    return {};
  }
  Status record(Event& event, Stream& stream) override {
    auto mark = std::make_shared<Mark>();
    static_cast<CountedEvent&>(event).mark = mark;
    put(stream, [mark] { mark->set(); });
    return {};
  }
  Status wait(Stream& stream, const Event& event) override {
    if (auto mark = static_cast<const CountedEvent&>(event).mark) {
      put(stream, [mark] { mark->wait(); });
    }
    return {};
  }
  Result<bool> is_complete(const Event& event) override {
    const auto mark = static_cast<const CountedEvent&>(event).mark;
    return mark == nullptr || mark->done();
  }
  Status synchronize(Stream& stream) override {
    Mark mark;
    put(stream, [&mark] { mark.set(); });
    mark.wait();
    return {};
  }
  Status synchronize(const Event& event) override {
    if (auto mark = static_cast<const CountedEvent&>(event).mark) mark->wait();
    return {};
  }
  Status on_complete(Stream& stream, std::function<void()> fn) override {
    put(stream, std::move(fn));
    return {};
  }
  /// Puts work of the test's own into a stream.
  static void put(Stream& stream, std::function<void()> work) {
    static_cast<ThreadStream&>(stream).put(std::move(work));
  }

  std::atomic<int64_t> bytes_held{0};
  std::atomic<int> copies{0};
  std::atomic<bool> fail_copies{false};

 private:
  class Mark {
   public:
    void set() {
      const std::lock_guard lock(mutex_);
      done_ = true;
      changed_.notify_all();
    }
    void wait() {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return done_; });
    }
    bool done() {
      const std::lock_guard lock(mutex_);
      return done_;
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool done_ = false;
  };
  struct CountedEvent final : Event {
    std::shared_ptr<Mark> mark;  // of the last record
  };
  class ThreadStream final : public Stream {
   public:
    ThreadStream() : thread_([this] { run(); }) {}
    ~ThreadStream() override {
      put(nullptr);
      thread_.join();
    }
    void put(std::function<void()> work) {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
      filled_.notify_one();
    }

   private:
    void run() {
      while (true) {
        std::function<void()> work;
        {
          std::unique_lock lock(mutex_);
          filled_.wait(lock, [&] { return !queue_.empty(); });
          work = std::move(queue_.front());
          queue_.pop_front();
        }
        if (work == nullptr) return;
        work();
      }
    }
    std::mutex mutex_;
    std::condition_variable filled_;
    std::deque<std::function<void()>> queue_;
    std::thread thread_;
  };

  Result<void*> take(size_t bytes) {
    bytes_held += static_cast<int64_t>(bytes);
    return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  }
  void give(void* memory, size_t bytes) noexcept {
    bytes_held -= static_cast<int64_t>(bytes);
    std::free(memory);
  }

  std::chrono::microseconds copy_time_;
};

}  // namespace dlpipe
