// A loader with its own thread (feed.h): what the feed and its batches share, the consumer's functions, the thread that calls
// the loader ahead of it, and batches on their way back.
//
// A thread that takes both locks takes `control` first. The ring's lock is held only for bookkeeping, never while waiting:
// every batch takes it in its destructor, on threads that may hold what a worker waits for.
#include "dlpipe/loader.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/log.h"
#include "pipeline/pipeline.h"
#include "pipeline/stages/device_decode.h"

namespace dlpipe::pipeline {

struct Feed::Ring {
  /// A batch that the consumer has dropped while its queued work still reads it.
  struct Returning {
    Batch batch;
    std::vector<std::unique_ptr<Event>> read;
  };

  const pid_t process = ::getpid();
  Device* device = nullptr;       // of the batches, or the one that the consumer copies them to
  bool is_on_host = true;         // whether the batches are
  std::condition_variable moved;  // wakes the feed's thread
  Mutex mutex;
  Loader* loader DLPIPE_GUARDED_BY(mutex) = nullptr;  // null once closed
  int64_t held DLPIPE_GUARDED_BY(mutex) = 0;          // including those in `returning`
  std::vector<Returning> returning DLPIPE_GUARDED_BY(mutex);

  int64_t held_by_consumer() const DLPIPE_REQUIRES(mutex) {
    return held - static_cast<int64_t>(returning.size());
  }
  /// Valid while the loader exists.
  void give_back(const Batch& batch, Stream* stream) DLPIPE_REQUIRES(mutex);
  /// Releases the batches that are no longer read.
  void take_returned() DLPIPE_REQUIRES(mutex);
};

struct Feed::Impl {
  struct Ready {
    Batch batch;
    SourceState state;  // after it
  };

  // Set by open().
  std::shared_ptr<const Setup> setup;
  int64_t epochs_per_pass = 1;
  const std::shared_ptr<Ring> ring = std::make_shared<Ring>();
  std::unique_ptr<Loader> loader;  // called by the feed's thread, or by the thread that has parked it
  std::unique_ptr<std::thread> thread;

  Mutex control;                              // one begin_pass, seek or close at a time
  std::condition_variable ready_or_over;      // for consumers
  std::condition_variable thread_has_parked;  // for the holder of `control`

  std::deque<Ready> ready DLPIPE_GUARDED_BY(ring->mutex);
  Status ended DLPIPE_GUARDED_BY(ring->mutex);  // why no more batches come
  bool is_closed DLPIPE_GUARDED_BY(ring->mutex) = false;
  bool is_parking DLPIPE_GUARDED_BY(ring->mutex) = false;  // the thread must stop using the loader
  bool has_parked DLPIPE_GUARDED_BY(ring->mutex) = false;
  int waiting DLPIPE_GUARDED_BY(ring->mutex) = 0;  // consumers in next()

  int64_t lendable DLPIPE_GUARDED_BY(ring->mutex) = 0;  // batches that may be held or ready
  int64_t lendable_max DLPIPE_GUARDED_BY(ring->mutex) = 0;
  int64_t wanted DLPIPE_GUARDED_BY(ring->mutex) = 0;  // requested number of lendable batches
  Status grow_status DLPIPE_GUARDED_BY(ring->mutex);

  SourceState state DLPIPE_GUARDED_BY(ring->mutex);  // after the batches that next() has returned
  int64_t pass DLPIPE_GUARDED_BY(ring->mutex) = 0;
  SourceState pass_begin DLPIPE_GUARDED_BY(ring->mutex);
  int64_t pass_end DLPIPE_GUARDED_BY(ring->mutex) = 0;  // epoch
  /// The next pass begins at the state's position.
  bool is_pass_given DLPIPE_GUARDED_BY(ring->mutex) = true;
  int64_t given_batches DLPIPE_GUARDED_BY(ring->mutex) = 0;
  int64_t given_samples DLPIPE_GUARDED_BY(ring->mutex) = 0;
  SourceStats last_stats DLPIPE_GUARDED_BY(ring->mutex);  // once closed

  // The feed's thread.
  enum class Task : uint8_t { kMakeBatch, kGrow, kLookAgain, kEnd };
  void run();
  /// Waits until there may be work, parking if requested.
  Task next_task();
  void make_batch();
  void grow();

  // Methods for the thread that holds `control`.
  /// Afterwards the thread has left the loader, and no batch is ready. Returns the state.
  SourceState park() DLPIPE_REQUIRES(control);
  /// Parks the thread and calls `to` to move the loader, which was at `from`: this ends the pass. If it fails, the loader is
  /// moved back and nothing is lost; if that fails too, there are no more batches. Returns why the loader is not at its target.
  Status move(const std::function<Status(const SourceState& from)>& to) DLPIPE_REQUIRES(control);
  /// To the first batch of `epoch`. Chain and bad samples stay those of the state: batches that were ready are discarded.
  Status move_to_epoch(int64_t epoch) DLPIPE_REQUIRES(control);
  bool is_left_early() const DLPIPE_REQUIRES(ring->mutex);
  int64_t new_pass() DLPIPE_REQUIRES(ring->mutex);

  // The consumer.
  Status check(int64_t of_pass) const DLPIPE_REQUIRES(ring->mutex);
  Status want_slots() DLPIPE_REQUIRES(ring->mutex);
  std::shared_ptr<Lent> take() DLPIPE_REQUIRES(ring->mutex);
  SourceStats stats() const DLPIPE_REQUIRES(ring->mutex);
  void close();
};

// --- the consumer

namespace {

// The process whose threads decode. oneTBB's threads do not survive a fork, and oneTBB does not detect that.
std::atomic<pid_t> first_process{0};

Status forked_status(pid_t process) {
  return misuse("loader", "this process was forked from process ", process,
                ", which had opened a loader: its threads do not survive a fork, even if the loader was "
                "closed first; start processes with multiprocessing's 'spawn' or 'forkserver', or open the "
                "first loader after the fork");
}

Status check_first_process() {
  const pid_t first = first_process;
  return first == 0 || first == ::getpid() ? Status() : forked_status(first);
}

/// Called before this process starts its threads.
Status become_first_process() {
  pid_t first = 0;
  first_process.compare_exchange_strong(first, ::getpid());
  return check_first_process();
}

}  // namespace

Status Feed::Impl::check(int64_t of_pass) const {
  if (is_closed) return misuse("loader", "the loader was closed; open another one");
  if (of_pass != pass) {
    return misuse("loader",
                  "this iterator ended when another one was started, or when the loader moved to another "
                  "position; continue with a new one");
  }
  return {};
}

// Requests slots so that as many batches are in flight as while the consumer holds only one.
Status Feed::Impl::want_slots() {
  if (ring->held_by_consumer() >= lendable_max) {
    return misuse("loader", "all ", lendable_max,
                  " allowed batches (slots_max) are held; drop those that are no longer needed, keep a copy "
                  "instead of the batch, or set a larger slots_max; for an endless loop, open the loader "
                  "with epochs=-1 (itertools.cycle keeps every batch)");
  }
  if (ring->held_by_consumer() >= lendable && !grow_status.ok()) return std::exchange(grow_status, Status());
  const int64_t in_flight = std::max(1, setup->options.slots - 1);
  wanted = std::max(wanted, std::min(ring->held + in_flight, lendable_max));
  if (wanted > lendable) ring->moved.notify_all();
  return {};
}

bool Feed::Impl::is_left_early() const {
  return !is_pass_given && state.epoch < pass_end && epochs_per_pass > 0 && !(state == pass_begin);
}

int64_t Feed::Impl::new_pass() {
  is_pass_given = false;
  pass_begin = state;
  const int64_t epochs = epochs_per_pass;
  pass_end = epochs < 0 ? std::numeric_limits<int64_t>::max() : (state.epoch / epochs + 1) * epochs;
  return ++pass;
}

std::shared_ptr<Feed::Lent> Feed::Impl::take() {
  Ready& first = ready.front();
  auto lent = std::make_shared<Lent>(ring, std::move(first.batch));
  ++ring->held;
  ++given_batches;
  given_samples += lent->batch().count;
  state = std::move(first.state);
  ready.pop_front();
  loader->note_consumer(ConsumerNews::kTakesBatch);
  ring->moved.notify_all();
  return lent;
}

// Counts the batches that the consumer received. The loader's counts include batches that are still ready here.
SourceStats Feed::Impl::stats() const {
  if (ring->loader == nullptr) return last_stats;
  SourceStats stats = loader->stats();
  stats.batches = given_batches;
  stats.samples = given_samples;
  return stats;
}

namespace {

std::atomic<int64_t> open_feeds{0};  // of the first process

}  // namespace

int64_t Feed::open_count() {
  return first_process == ::getpid() ? open_feeds.load() : 0;
}

bool is_augmenting() {
  return is_decoding_for(nullptr);
}

Feed::Feed(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Feed>> Feed::open(const FeedOptions& options) {
  DLPIPE_RETURN_IF_ERROR(check_first_process());
  if (options.epochs_per_pass == 0 || options.epochs_per_pass < -1)
    return misuse("loader", "epochs ", options.epochs_per_pass, "; use 1 or more, or -1 for no end");
  try {
    auto impl = std::make_unique<Impl>();
    LoaderOptions loader_options = options.loader;
    loader_options.epochs = -1;
    DLPIPE_ASSIGN_OR_RETURN(impl->setup, open_setup(loader_options));
    DLPIPE_RETURN_IF_ERROR(become_first_process());
    DLPIPE_ASSIGN_OR_RETURN(impl->loader, Loader::start(impl->setup));
    impl->epochs_per_pass = options.epochs_per_pass;
    impl->loader->note_consumer(ConsumerNews::kWaitsNoMore);
    const LoaderOptions& made = impl->setup->options;
    impl->ring->is_on_host = made.device->is_host();
    impl->ring->device = made.device->is_host() ? made.pinned_for : made.device;
    {
      const MutexLock lock(impl->ring->mutex);
      impl->lendable = impl->wanted = impl->loader->lendable();
      impl->lendable_max = impl->loader->lendable_max();
      impl->state = impl->pass_begin = impl->loader->state();
      impl->ring->loader = impl->loader.get();
    }
    impl->thread = std::make_unique<std::thread>([impl = impl.get()] { impl->run(); });
    ++open_feeds;
    return std::unique_ptr<Feed>(new Feed(std::move(impl)));
  } catch (...) {  // threads and memory that the system doesn't give
    return status_from_current_exception("loader");
  }
}

Feed::~Feed() {
  Impl* const feed = impl_.get();
  if (::getpid() != feed->ring->process) {
    (void)impl_.release();  // leaves everything as it is, because its threads exist only in the parent
  } else if (is_decoding_for(feed->setup.get())) {
    // Python's garbage collector may run in an augmentation and destroy the loader that waits for it.
    (void)impl_.release();
    try {
      std::thread([feed] {
        feed->close();
        delete feed;
      }).detach();
    } catch (...) {  // no thread can be started: the feed's threads keep running
    }
  } else {
    feed->close();
  }
}

Status Feed::check_process() const {
  const pid_t process = impl_->ring->process;
  return ::getpid() == process ? Status() : forked_status(process);
}

Status Feed::check_caller() const {
  DLPIPE_RETURN_IF_ERROR(check_process());
  if (!is_decoding_for(impl_->setup.get())) return {};
  return misuse("loader",
                "an augmentation calls the loader that runs it, which would deadlock; call it from the "
                "loop");
}

Result<int64_t> Feed::begin_pass() {
  Impl& feed = *impl_;
  DLPIPE_RETURN_IF_ERROR(check_caller());
  const MutexLock control(feed.control);
  int64_t next_epoch = 0;
  {
    const MutexLock lock(feed.ring->mutex);
    DLPIPE_RETURN_IF_ERROR(feed.check(feed.pass));
    if (!feed.is_left_early()) return feed.new_pass();
    next_epoch = feed.pass_end;
  }
  DLPIPE_RETURN_IF_ERROR(feed.move_to_epoch(next_epoch));
  const MutexLock lock(feed.ring->mutex);
  return feed.new_pass();
}

Result<std::shared_ptr<Feed::Lent>> Feed::next(int64_t pass) {
  while (true) {
    DLPIPE_ASSIGN_OR_RETURN(auto answer, next_within(pass, std::chrono::hours(1)));
    if (answer.has_value()) return *std::move(answer);
  }
}

Result<std::optional<std::shared_ptr<Feed::Lent>>> Feed::next_within(int64_t pass,
                                                                     std::chrono::milliseconds patience) {
  using Answer = std::optional<std::shared_ptr<Lent>>;
  Impl& feed = *impl_;
  DLPIPE_RETURN_IF_ERROR(check_caller());
  const auto until = std::chrono::steady_clock::now() + patience;
  MutexLock lock(feed.ring->mutex);
  while (true) {
    DLPIPE_RETURN_IF_ERROR(feed.check(pass));
    if (feed.state.epoch >= feed.pass_end) return Answer(nullptr);
    if (!feed.ready.empty()) return Answer(feed.take());
    DLPIPE_RETURN_IF_ERROR(feed.ended);
    DLPIPE_RETURN_IF_ERROR(feed.want_slots());
    if (feed.waiting++ == 0) feed.loader->note_consumer(ConsumerNews::kWaits);
    const bool is_late = lock.wait_until(feed.ready_or_over, until) == std::cv_status::timeout;
    if (--feed.waiting == 0 && feed.ring->loader != nullptr)
      feed.loader->note_consumer(ConsumerNews::kWaitsNoMore);
    if (is_late && feed.ready.empty() && !feed.is_closed) return Answer();
  }
}

int64_t Feed::batches_per_pass() const {
  const int64_t epochs = impl_->epochs_per_pass;
  return epochs < 0 ? -1 : epochs * impl_->setup->sampler.batches_per_epoch();
}

SourceState Feed::state() const {
  const MutexLock lock(impl_->ring->mutex);
  return impl_->state;
}

Status Feed::seek(const SourceState& state) {
  Impl& feed = *impl_;
  DLPIPE_RETURN_IF_ERROR(check_caller());
  const MutexLock control(feed.control);
  {
    const MutexLock lock(feed.ring->mutex);
    DLPIPE_RETURN_IF_ERROR(feed.check(feed.pass));
  }
  return feed.move([&](const SourceState&) { return feed.loader->seek(state); });
}

Status Feed::seek_epoch(int64_t epoch) {
  Impl& feed = *impl_;
  DLPIPE_RETURN_IF_ERROR(check_caller());
  const MutexLock control(feed.control);
  {
    const MutexLock lock(feed.ring->mutex);
    DLPIPE_RETURN_IF_ERROR(feed.check(feed.pass));
    const bool is_there =
        feed.state.epoch == epoch &&
        (feed.state.batch_index == 0 || feed.is_pass_given);  // also after a seek into this epoch
    if (is_there) {
      feed.is_pass_given = true;
      return {};
    }
  }
  return feed.move_to_epoch(epoch);
}

SourceStats Feed::stats() const {
  const MutexLock lock(impl_->ring->mutex);
  return impl_->stats();
}

int64_t Feed::held() const {
  const MutexLock lock(impl_->ring->mutex);
  return impl_->ring->held_by_consumer();
}

const Setup& Feed::setup() const {
  return *impl_->setup;
}

void Feed::close() {
  if (check_caller().ok()) impl_->close();
}

void Feed::Impl::close() {
  const MutexLock control_lock(control);
  {
    const MutexLock lock(ring->mutex);
    if (is_closed) return;
    is_closed = true;
    loader->interrupt();
    ring->moved.notify_all();
    ready_or_over.notify_all();
  }
  thread->join();
  std::vector<Ring::Returning> returning;
  {
    const MutexLock lock(ring->mutex);
    returning = std::move(ring->returning);
    ring->returning.clear();
    ring->held -= static_cast<int64_t>(returning.size());
    last_stats = stats();
    ready.clear();
    ring->loader = nullptr;
  }
  for (const Ring::Returning& one : returning) {
    for (const auto& read : one.read) (void)ring->device->synchronize(*read);
  }
  loader.reset();
  --open_feeds;
}

bool Feed::is_closed() const {
  const MutexLock lock(impl_->ring->mutex);
  return impl_->is_closed;
}

// --- the thread that calls the loader ahead of the consumer

namespace {

/// How often pending copies of the consumer are polled, while there is nothing else to do.
constexpr std::chrono::microseconds kReturning(200);

}  // namespace

void Feed::Impl::run() {
  pthread_setname_np(pthread_self(), "dlpipe-feed");
  while (true) {
    try {
      switch (next_task()) {
        case Task::kMakeBatch:
          make_batch();
          break;
        case Task::kGrow:
          grow();
          break;
        case Task::kLookAgain:
          break;
        case Task::kEnd:
          return;
      }
    } catch (...) {
      const MutexLock lock(ring->mutex);
      ended = status_from_current_exception("loader");
      ready_or_over.notify_all();
    }
  }
}

Feed::Impl::Task Feed::Impl::next_task() {
  MutexLock lock(ring->mutex);
  if (is_closed) return Task::kEnd;
  if (is_parking) {
    has_parked = true;
    thread_has_parked.notify_all();
    while (is_parking && !is_closed) lock.wait(ring->moved);
    has_parked = false;
    return Task::kLookAgain;
  }
  if (wanted > lendable && grow_status.ok()) return Task::kGrow;
  ring->take_returned();
  if (ended.ok() && ring->held + static_cast<int64_t>(ready.size()) < lendable) return Task::kMakeBatch;
  if (ring->returning.empty())
    lock.wait(ring->moved);
  else
    lock.wait_until(ring->moved, std::chrono::steady_clock::now() + kReturning);
  return Task::kLookAgain;
}

void Feed::Impl::grow() {
  Status grown = loader->grow();
  const int64_t now = loader->lendable();
  const MutexLock lock(ring->mutex);
  lendable = now;
  grow_status = std::move(grown);
  if (!grow_status.ok()) ready_or_over.notify_all();
}

void Feed::Impl::make_batch() {
  Result<std::optional<Batch>> next = loader->next();
  SourceState after = next.ok() ? loader->state() : SourceState();
  const MutexLock lock(ring->mutex);
  if (next.ok() && next->has_value()) {
    ready.push_back({**std::move(next), std::move(after)});
  } else if (next.status().code() != ErrorCode::kCancelled) {
    ended = next.ok() ? misuse("loader", "the stream of batches has ended") : next.status();
  } else {
    return;  // cancelled by park() or close()
  }
  ready_or_over.notify_all();
}

SourceState Feed::Impl::park() {
  MutexLock lock(ring->mutex);
  is_parking = true;
  loader->interrupt();
  ring->moved.notify_all();
  while (!has_parked) lock.wait(thread_has_parked);
  for (const Ready& one : ready) (void)loader->release(one.batch, nullptr);
  ready.clear();
  return state;
}

Status Feed::Impl::move(const std::function<Status(const SourceState& from)>& to) {
  const SourceState before = park();
  Status moved = to(before);
  const Status lost = moved.ok() ? Status() : loader->seek(before);  // ready batches are produced again
  const SourceState now = moved.ok() ? loader->state() : before;
  const MutexLock lock(ring->mutex);
  state = now;
  ended = lost;
  if (moved.ok()) {
    is_pass_given = true;
    ++pass;
  }
  is_parking = false;
  ring->moved.notify_all();
  ready_or_over.notify_all();
  return lost.ok() ? moved : lost;
}

Status Feed::Impl::move_to_epoch(int64_t epoch) {
  return move([this, epoch](const SourceState& from) {
    if (epoch < 0 || epoch > setup->sampler.last_epoch())
      return loader->seek_epoch(epoch);  // which returns the error
    SourceState begin = from;
    begin.epoch = epoch;
    begin.batch_index = 0;
    begin.samples_consumed = setup->sampler.consumed(epoch, 0);
    return loader->seek(begin);
  });
}

// --- borrowed batches, and their return to the loader

void Feed::Ring::give_back(const Batch& batch, Stream* stream) {
  --held;
  const Status released = loader->release(batch, stream);
  if (!released.ok()) log(LogLevel::kError, released.message());
  moved.notify_all();
}

void Feed::Ring::take_returned() {
  const auto is_under_way = [this](const std::unique_ptr<Event>& read) {
    const Result<bool> is_over = device->is_complete(*read);
    return is_over.ok() && !*is_over;
  };
  const auto is_still_read = [&](const Returning& one) {
    return std::ranges::any_of(one.read, is_under_way);
  };
  const auto over = std::stable_partition(returning.begin(), returning.end(), is_still_read);
  for (auto one = over; one != returning.end(); ++one) give_back(one->batch, nullptr);
  returning.erase(over, returning.end());
}

Status Feed::Lent::read_on(std::shared_ptr<Stream> stream, Device* reader) {
  if (ring_->device == nullptr || (batch_.ready_event == nullptr && !ring_->is_on_host))
    return misuse("loader", "batches of this loader are read by the CPU, not by a stream");
  if (batch_.ready_event != nullptr)
    DLPIPE_RETURN_IF_ERROR(ring_->device->wait(*stream, *batch_.ready_event));
  if (reader == nullptr) reader = ring_->device;
  const auto is_it = [&](const Reader& one) {
    return one.device == reader && one.stream->native() == stream->native();
  };
  if (std::ranges::none_of(readers_, is_it)) readers_.push_back({std::move(stream), reader});
  return {};
}

bool Feed::Lent::give_back() {
  // A loader on a device waits for one stream itself.
  const bool is_waited_for = readers_.empty() || (readers_.size() == 1 && !ring_->is_on_host);
  Result<std::vector<std::unique_ptr<Event>>> read = std::vector<std::unique_ptr<Event>>();
  if (!is_waited_for) read = read_until_now();  // before locking: it may wait for a device with a full queue
  const MutexLock lock(ring_->mutex);
  if (ring_->loader == nullptr) {
    --ring_->held;
    return false;
  }
  if (is_waited_for) {
    ring_->give_back(batch_, readers_.empty() ? nullptr : readers_.front().stream.get());
    return true;
  }
  if (!read.ok()) {
    log(LogLevel::kError, read.status().message());
    return false;
  }
  ring_->returning.push_back({std::move(batch_), *std::move(read)});
  ring_->moved.notify_all();
  return true;
}

Result<std::vector<std::unique_ptr<Event>>> Feed::Lent::read_until_now() {
  std::vector<std::unique_ptr<Event>> all;
  for (const Reader& reader : readers_) {
    DLPIPE_ASSIGN_OR_RETURN(auto read, reader.device->create_event());
    DLPIPE_RETURN_IF_ERROR(reader.device->record(*read, *reader.stream));
    all.push_back(std::move(read));
  }
  return all;
}

void Feed::Lent::give_back_after_waiting() {
  for (const Reader& reader : readers_) (void)reader.device->synchronize(*reader.stream);
  const MutexLock lock(ring_->mutex);
  if (ring_->loader != nullptr) ring_->give_back(batch_, nullptr);
}

Feed::Lent::~Lent() {
  if (::getpid() != ring_->process) return;  // its locks may be held by threads of the parent
  // If the loader is gone, this batch's memory is freed with it. If an event failed, the slot's reads can't be tracked.
  if (!give_back()) give_back_after_waiting();
}

}  // namespace dlpipe::pipeline
