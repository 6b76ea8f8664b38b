#include "pipeline/cache_filler.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/text.h"
#include "dlpipe/error.h"

namespace dlpipe::pipeline {

namespace {

// How often a thread checks for idle time and work; later threads check less often.
constexpr int kLookMs = 1;
constexpr int kLookMostMs = 10;
constexpr int kNothingMs = 20;

/// Lets the calling thread run only if the core is otherwise idle.
void take_lowest_priority() {
  const sched_param none{};
  constexpr int kNicest = 19;
  if (sched_setscheduler(0, SCHED_IDLE, &none) != 0) (void)setpriority(PRIO_PROCESS, 0, kNicest);
}

/// Whether any image could have a coefficient record. One pass over the header table, up to the first one.
Result<bool> has_jpeg(const data::Dataset& dataset) {
  for (int64_t i = 0; i < dataset.size(); ++i) {
    DLPIPE_ASSIGN_OR_RETURN(const data::RecordHeader header, dataset.header(i));
    if (header.layout == data::ImageLayout::kJpeg) return true;
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<data::CoefficientCache>> CacheFiller::open_cache(const Setup& setup) {
  const LoaderOptions& options = setup.options;
  const data::Dataset& dataset = *setup.dataset;
  if (options.cache.empty()) {
    if (options.cache_bytes == 0) return std::unique_ptr<data::CoefficientCache>();
    return misuse("loader", "--cache-size has no effect without a cache; also give --cache");
  }
  if (!dataset.links())
    return misuse("loader", "--cache is only for linked images, but ", options.data,
                  " stores its records; leave it out");
  DLPIPE_ASSIGN_OR_RETURN(const bool has_one, has_jpeg(dataset));
  if (!has_one || setup.image_field < 0)
    return misuse("loader", "--cache stores JPEGs as coefficient records, but no image of ", options.data,
                  " is read as a JPEG; leave it out");
  data::CacheOptions cache{options.cache, dataset.id(), dataset.size(), options.cache_bytes};
  return data::CoefficientCache::open(std::move(cache));
}

Result<std::unique_ptr<CacheFiller>> CacheFiller::start(const Setup& setup, data::CoefficientCache& cache,
                                                        const FlowMeter& meter) {
  std::vector<std::unique_ptr<data::CacheCoder>> coders;
  for (int i = 0; i < setup.options.threads; ++i) {
    DLPIPE_ASSIGN_OR_RETURN(auto coder, data::CacheCoder::create(*setup.dataset, cache,
                                                                 {.max_pixels = setup.options.max_pixels}));
    coders.push_back(std::move(coder));
  }
  try {
    return std::unique_ptr<CacheFiller>(new CacheFiller(setup, cache, meter, std::move(coders)));
  } catch (...) {
    return status_from_current_exception("loader");
  }
}

CacheFiller::CacheFiller(const Setup& setup, data::CoefficientCache& cache, const FlowMeter& meter,
                         std::vector<std::unique_ptr<data::CacheCoder>> coders)
    : setup_(setup), cache_(cache), meter_(meter), coders_(std::move(coders)) {
  threads_ = std::make_unique<Threads>("loader", static_cast<int>(coders_.size()),
                                       [this](int index) { run(index); });
}

// Restore normal priority before joining.
CacheFiller::~CacheFiller() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    const sched_param usual{};
    for (const pthread_t thread : working_) (void)pthread_setschedparam(thread, SCHED_OTHER, &usual);
  }
  told_.notify_all();
  (void)threads_->join();
}

void CacheFiller::begin_work() {
  const MutexLock lock(mutex_);
  pthread_setname_np(pthread_self(), "dlpipe-coder");
  if (ends_) return;
  take_lowest_priority();
  working_.push_back(pthread_self());
}

bool CacheFiller::pause(int milliseconds) {
  const auto then = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  MutexLock lock(mutex_);
  while (!ends_ && lock.wait_until(told_, then) == std::cv_status::no_timeout) {
  }
  return !ends_;
}

// Failing to create a record is not an error: the image is read from its file, and its reader reports what is wrong with it.
void CacheFiller::run(int index) {
  begin_work();
  data::CacheCoder& coder = *coders_[static_cast<size_t>(index)];
  int wait_ms = 0;
  size_t scratch = 0;
  while (pause(wait_ms) && !cache_.is_full()) {
    wait_ms = std::min(kLookMs + index, kLookMostMs);
    if (meter_.spare_threads() <= index) continue;
    const int64_t sample = cache_.take_offer();
    if (sample < 0) {
      wait_ms = kNothingMs;
      continue;
    }
    wait_ms = 0;
    const ScopedTimer timer(busy_ns_);
    Status status;
    try {
      status = coder.code(sample);
    } catch (...) {
      status = status_from_current_exception("loader");
    }
    if (!status.ok()) unfit_.add(1);
    scratch_bytes_ += static_cast<int64_t>(coder.scratch_bytes()) - static_cast<int64_t>(scratch);
    scratch = coder.scratch_bytes();
  }
}

CacheStats CacheFiller::stats() const {
  CacheStats stats;
  stats.directory = setup_.options.cache;
  stats.samples = setup_.dataset->size();
  stats.records = cache_.records();
  stats.bytes = static_cast<int64_t>(cache_.bytes());
  stats.unfit = unfit_.value();
  stats.withdrawn = cache_.withdrawn();
  stats.busy_ns = busy_ns_.value();
  stats.is_full = cache_.is_full();
  return stats;
}

}  // namespace dlpipe::pipeline
