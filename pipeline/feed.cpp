#include "dlpipe/pipeline/feed.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/pipeline/device_decode.h"
#include "dlpipe/pipeline/feed_impl.h"

namespace dlpipe::pipeline {

namespace {

// The process whose threads decode: oneTBB's don't survive a fork, and it doesn't notice.
std::atomic<pid_t> first_process{0};

Status forked_status(pid_t process) {
  return misuse("loader", "this process was forked from process ", process,
                ", which has opened a loader: threads don't survive a fork, and they stay until it ends; "
                "start processes with "
                "multiprocessing's 'spawn' or 'forkserver', or open the first loader after the fork");
}

Status check_first_process() {
  const pid_t first = first_process;
  return first == 0 || first == ::getpid() ? Status() : forked_status(first);
}

/// For threads that begin now.
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
                  "this iterator ended when another one was begun, or when the loader was sent to another "
                  "place; go on with a new one");
  }
  return {};
}

// As many batches in flight as there are while one is held.
Status Feed::Impl::want_slots() {
  if (ring->held_by_consumer() >= lendable_max) {
    return misuse("loader", "all ", lendable_max,
                  " batches that there may be (slots_max) are kept; drop those that "
                  "are no longer needed, keep a copy instead of the batch, or set a larger slots_max; for a "
                  "loop without "
                  "end, open the loader with epochs=-1 (itertools.cycle keeps every batch)");
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

// What the loader lent may still be ready here.
SourceStats Feed::Impl::stats() const {
  if (ring->loader == nullptr) return last_stats;
  SourceStats stats = loader->stats();
  stats.batches = given_batches;
  stats.samples = given_samples;
  return stats;
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
    DLPIPE_ASSIGN_OR_RETURN(impl->loader, BatchStream::create(impl->setup));
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
    return std::unique_ptr<Feed>(new Feed(std::move(impl)));
  } catch (...) {  // threads and memory that the system doesn't give
    return status_from_current_exception("loader");
  }
}

Feed::~Feed() {
  Impl* const feed = impl_.get();
  if (::getpid() != feed->ring->process) {
    (void)impl_.release();  // what its threads used stays as it was
  } else if (is_decoding_for(feed->setup.get())) {
    // Python's garbage collector may run in an augmentation, and find the loader that waits for it.
    (void)impl_.release();
    try {
      std::thread([feed] {
        feed->close();
        delete feed;
      }).detach();
    } catch (...) {  // no thread is to be had: its threads go on
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
  return misuse(
      "loader",
      "an augmentation calls the loader that runs it, and each would wait for the other; call it from the "
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
        (feed.state.batch_index == 0 || feed.is_pass_given);  // after a seek into this epoch, too
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
}

bool Feed::is_closed() const {
  const MutexLock lock(impl_->ring->mutex);
  return impl_->is_closed;
}

}  // namespace dlpipe::pipeline
