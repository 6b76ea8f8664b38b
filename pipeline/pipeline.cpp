// The data flow of a batch, from the slot in which it is started to the consumer and back, in order. The graph that joins the
// stages comes first, then each stage, then the consumer's side.
//
//   begin_batches -> split -> plan -> prefault -> work -> batch -- last portion --> stage -> gate -> next() -> release() -.
//        ^           pool     pool    own thread  pool    inline                    inline           the consumer         |
//        `------------------------------------------- credit: the slot is free again -------------------------------------'
//
// Messages are Portions: some samples of one slot, a handle. Stages are noexcept, so that no exception cancels the graph; an
// error is stored in the slot and passed on with the batch.
//
// Threads: a pool of exactly `threads` slots, low priority, one of them reserved for the thread that waits; `threads` - 1 TBB
// workers at most, shared with a training pool of high priority; one prefault thread that only waits for storage. With one
// thread the waiting consumer does everything. This is the only file that knows oneTBB.
#include "pipeline/pipeline.h"

#include <pthread.h>
#include <tbb/flow_graph.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/counters.h"
#include "base/text.h"
#include "base/threads.h"
#include "dlpipe/device.h"
#include "dlpipe/error.h"
#include "io/data/checksum.h"

namespace dlpipe::pipeline {

namespace {

// Nanoseconds that this thread spent in stages, to compute how much of a wait was decoding.
thread_local int64_t worked_ns = 0;

// The loaders for which this thread is in work(), the innermost first: an augmentation of one loader may read from another.
struct Decoding {
  const Setup* setup;
  const Decoding* outer;
};
thread_local const Decoding* decoding = nullptr;

// Passing a portion through the graph and the prefault thread costs a microsecond or two. With this much work
// per portion, that is less than half a percent; the work is still short compared with a batch.
constexpr double kRunNs = 500'000;
constexpr double kSmallestRunNs = 50'000;

// A batch that enters the graph.
struct Begin {
  Portion whole;
  int32_t step = 1;
};

// The gate at which the consumer waits for a batch: a flow graph without nodes, which counts as finished unless it
// is reserved. reserve_wait() closes the gate; waiting for the graph inside the pool makes the consumer decode;
// release_wait() opens the gate, on any thread. (A condition variable would hang with one thread, and costs up to a
// third with two. A deferred task of a task_group works like a gate, but from oneTBB 2022 on it refers to memory of
// the thread that deferred it, and the consumer that closed a gate may have ended before another thread opens it.)
class Gate {
 public:
  void close() {
    if (!is_open()) return;
    graph_.reserve_wait();
    open_.store(false, std::memory_order_release);
  }
  void open() noexcept {
    open_.store(true, std::memory_order_release);
    graph_.release_wait();  // from here on the waiter may continue and close the gate for another batch
  }
  bool is_open() const { return open_.load(std::memory_order_acquire); }
  /// Inside the pool.
  void wait() { graph_.wait_for_all(); }

 private:
  tbb::flow::graph graph_;
  std::atomic<bool> open_{true};
};

// Names TBB's workers for top, perf and debuggers: otherwise they inherit the name of the thread that woke them first.
class WorkerNames : public tbb::task_scheduler_observer {
 public:
  explicit WorkerNames(tbb::task_arena& pool) : tbb::task_scheduler_observer(pool) { observe(true); }
  ~WorkerNames() override { observe(false); }
  void on_scheduler_entry(bool is_worker) override {
    thread_local bool named = false;
    if (is_worker && !named) pthread_setname_np(pthread_self(), "dlpipe-worker");
    named = true;
  }
};

/// Throws kOutOfMemory unless the system can provide what oneTBB needs at its start: threads and some memory. Otherwise oneTBB
/// dereferences null (2021.8, task_scheduler_observer::observe).
void check_room(int threads) {
  throw_if_error(check_threads("loader", threads + 1));  // plus the prefault thread
  constexpr size_t kRoomBytes = size_t{16} << 20;
  void* const room = allocate_host(kRoomBytes);
  if (room == nullptr)
    throw Error(Status(ErrorCode::kOutOfMemory, concat("[loader] out of memory for ", threads,
                                                       " threads; raise ulimit -v, or use fewer threads")));
  free_host(room);
}

}  // namespace

bool is_decoding_for(const Setup* setup) {
  for (const Decoding* one = decoding; one != nullptr; one = one->outer) {
    if (setup == nullptr || one->setup == setup) return true;
  }
  return false;
}

// --- the graph: which stage follows which, on which thread, and how the consumer waits

struct Loader::Flow::Graph {
  explicit Graph(Flow& flow_in);
  /// Drains, then joins the prefault thread.
  ~Graph();
  void build();

  /// Puts a batch, or a part of one, into the graph, as portions of `step` samples. Any thread; does not run stages itself.
  void put(const Portion& whole, int32_t step) { split->try_put({whole, step}); }
  void prefault_loop();
  /// Opens the gate; once per batch. Any thread.
  void open_gate(int64_t sequence) noexcept { gate(sequence).open(); }
  /// Works for the pool until the gate is open, then closes it for a later batch: a batch can be waited for
  /// before a slot is free to start it. The consumer's thread; every sequence once.
  void wait(int64_t sequence);
  /// Waits, working, until no portion is in the graph. No put may run concurrently.
  void drain() {
    pool.execute([this] { graph->wait_for_all(); });
  }
  /// After drain: closes gates whose batches were never waited for. The consumer's thread.
  void close_gates() {
    for (Gate& one : gates) one.close();
  }
  /// Call this before destruction: destroying a closed gate would wait forever.
  void open_gates();
  /// A gate serves every gates.size()-th batch.
  Gate& gate(int64_t sequence) { return gates[static_cast<size_t>(sequence) % gates.size()]; }

  using PrefaultNode = tbb::flow::async_node<Portion, Portion, tbb::flow::lightweight>;

  Flow& flow;
  WorkerLimit limit;  // before the first use of TBB: the workers of this process
  tbb::task_arena pool;
  WorkerNames names;
  std::optional<tbb::flow::graph> graph;
  std::optional<tbb::flow::multifunction_node<Begin, std::tuple<Portion>>> split;
  std::optional<tbb::flow::function_node<Portion, Portion>> plan;
  std::optional<PrefaultNode> prefault;
  std::optional<tbb::flow::function_node<Portion, Portion>> work;
  std::optional<tbb::flow::multifunction_node<Portion, std::tuple<Portion>, tbb::flow::lightweight>> batch;
  std::optional<tbb::flow::function_node<Portion, tbb::flow::continue_msg, tbb::flow::lightweight>> stage;
  std::vector<Gate> gates;
  PortionQueue to_prefault;
  PortionQueue ready;  // for the workers
  PrefaultNode::gateway_type* gateway = nullptr;
  std::thread prefault_thread;
};

void Loader::Flow::Graph::build() {
  // A batch enters as one message, because the consumer's thread sends it; the pool divides it into portions.
  split.emplace(*graph, tbb::flow::unlimited, [](const Begin& begin, auto& ports) noexcept {
    Portion portion = begin.whole;
    const int32_t end = portion.first + portion.count;
    do {  // at least one: a rank's last batch may be empty
      portion.count = std::min(begin.step, end - portion.first);
      std::get<0>(ports).try_put(portion);
      portion.first += portion.count;
    } while (portion.first < end);
  });

  // Planning comes before a byte of a record is read: it draws every random number, so that the following stages read and
  // decode only the part of each image that is needed.
  plan.emplace(*graph, tbb::flow::unlimited, [this](Portion portion) noexcept {
    flow.meter.planning(true);
    flow.plan(portion);
    flow.meter.planning(false);
    return portion;
  });

  // Pages are loaded before they are used, on a separate thread: only that thread waits for storage, and an unreadable page is
  // an error there rather than a signal. The node only passes the portion on, and keeps the graph open until it returns. The
  // thread takes the oldest batch first (to_prefault), because planning runs on many threads and ends in any order.
  prefault.emplace(
      *graph, tbb::flow::unlimited,
      [this](const Portion& portion, PrefaultNode::gateway_type& port) noexcept {
        port.reserve_wait();  // the graph is not drained while a portion is with the prefault thread
        flow.meter.planned();
        to_prefault.push(portion);
      });
  gateway = &prefault->gateway();

  // Reading, decoding and augmenting are one node: a sample's bytes stay in one core's cache, and there is no message per
  // sample. A message here is only a permit to take the oldest portion that is ready: TBB runs tasks in its own order, but the
  // batch that the consumer needs next must be finished next. (A priority queue node would order what enters, not what is
  // started.)
  work.emplace(*graph, tbb::flow::unlimited, [this](Portion portion) noexcept {
    ready.try_pop(&portion);  // there are as many portions as messages
    flow.meter.work_begins();
    flow.work(portion, tbb::this_task_arena::current_thread_index());
    return portion;
  });

  // Counting down comes when the samples are in the slot; the portion that makes it zero finishes the batch. Lightweight: on the
  // same thread at once, without a task.
  batch.emplace(*graph, tbb::flow::unlimited, [this](const Portion& portion, auto& ports) noexcept {
    const bool is_last = flow.batch(portion);
    flow.meter.work_ends();  // the same thread's
    if (is_last) std::get<0>(ports).try_put(portion);
  });

  // Staging comes last: it moves the batch to where the consumer can use it, and then opens its gate.
  stage.emplace(*graph, tbb::flow::unlimited, [this](const Portion& portion) noexcept {
    flow.stage(portion);
    return tbb::flow::continue_msg();
  });

  tbb::flow::make_edge(tbb::flow::output_port<0>(*split), *plan);
  tbb::flow::make_edge(*plan, *prefault);
  tbb::flow::make_edge(*prefault, *work);
  tbb::flow::make_edge(*work, *batch);
  tbb::flow::make_edge(tbb::flow::output_port<0>(*batch), *stage);
}

Loader::Flow::Graph::Graph(Flow& flow_in)
    : flow(flow_in),
      limit(flow.setup->options.threads),
      pool(flow.setup->options.threads, 1, tbb::task_arena::priority::low),
      names(pool) {
  // Graph, nodes and gates belong to the pool in which they are created. There are as many gates as batches may be in flight.
  pool.execute([&] {
    graph.emplace();
    build();
    gates = std::vector<Gate>(static_cast<size_t>(stager_gates(*flow.setup)));
    close_gates();
  });
  try {
    prefault_thread = std::thread([this] { prefault_loop(); });
  } catch (...) {
    open_gates();
    throw;
  }
}

Loader::Flow::Graph::~Graph() {
  drain();
  to_prefault.close();
  prefault_thread.join();
  open_gates();
}

void Loader::Flow::Graph::prefault_loop() {
  pthread_setname_np(pthread_self(), "dlpipe-prefault");
  for (Portion portion; to_prefault.wait_pop(&portion);) {
    flow.meter.prefaulting();
    flow.prefault(portion);
    flow.meter.ready();
    ready.push(portion);
    gateway->try_put(portion);
    gateway->release_wait();
  }
}

void Loader::Flow::Graph::wait(int64_t sequence) {
  Gate& one = gate(sequence);
  if (!one.is_open()) pool.execute([&] { one.wait(); });
  one.close();
}

void Loader::Flow::Graph::open_gates() {
  pool.execute([this] {
    for (Gate& one : gates) {
      if (!one.is_open()) one.open();
      one.wait();
    }
  });
}

void Loader::Flow::open_gate(int64_t sequence) {
  graph->open_gate(sequence);
}

void Loader::Flow::start_graph() {
  check_room(setup->options.threads);
  graph = std::make_unique<Graph>(*this);
}

// --- 1. begin: free slots become batches. Slots are the only credit; the number of batches in flight is also limited, so that
// slots that grow() added for a consumer that keeps batches do not increase it.

void Loader::Flow::begin_batches() {
  while (!free_slots.empty() && next_begin < end_in_flight) {
    const int32_t slot = free_slots.back();
    free_slots.pop_back();
    begin_batch(slots[slot]);
  }
}

void Loader::Flow::begin_batch(Slot& slot) {
  if (next_begin >= end) return;
  const int64_t sequence = next_begin++;
  const BatchRange range = setup->sampler.range(sequence);
  slot.begin(sequence, range);
  const auto count = static_cast<int32_t>(range.count);
  const int32_t step = portion_samples(count);
  meter.batch_begun(std::max(1, (count + step - 1) / step));
  graph->put({.sequence = sequence, .slot = slot.index(), .first = 0, .count = count}, step);
}

// The samples of a portion: enough to outweigh the cost of its message (kRunNs), but so few that every thread gets a
// portion, as long as a portion has kSmallestRunNs of work.
int32_t Loader::Flow::portion_samples(int64_t count) const {
  const double cost_ns = std::max(1.0, sample_ns.load(std::memory_order_relaxed));
  const auto worth = static_cast<int64_t>(kRunNs / cost_ns);
  const int64_t share = (count + setup->options.threads - 1) / setup->options.threads;
  const int64_t spread = std::max(share, static_cast<int64_t>(kSmallestRunNs / cost_ns));
  return static_cast<int32_t>(std::clamp<int64_t>(std::min(worth, spread), 1, std::max<int64_t>(count, 1)));
}

// --- 2. plan: which sample, which region of it, every random number (plan/plan.h)

void Loader::Flow::plan(Portion& portion) noexcept {
  if (passes_on()) portion.failed = true;
  if (portion.failed) return;
  const int64_t begin_ns = now_ns();
  Slot& slot = slots[portion.slot];
  Status status;
  try {
    const std::span plans(slot.plans);
    status = planner.plan_portion(
        slot.meta.range, portion.first,
        plans.subspan(static_cast<size_t>(portion.first), static_cast<size_t>(portion.count)));
  } catch (...) {
    status = status_from_current_exception("loader");
  }
  portion.failed = !status.ok();
  if (portion.failed) slot.fail(slot.meta.range.first + portion.first, std::move(status));
  const int64_t took_ns = now_ns() - begin_ns;
  counters[Stage::kPlan].items.add(portion.count);
  counters[Stage::kPlan].busy_ns.add(took_ns);
  worked_ns += took_ns;
}

// --- 3. prefault: the records' pages are loaded into memory, or an error is stored (stages/prefault.h)

void Loader::Flow::prefault(Portion& portion) noexcept {
  if (portion.failed || passes_on()) return;
  const ScopedTimer timer(counters[Stage::kPrefault].busy_ns);
  Slot& slot = slots[portion.slot];
  const std::span<SamplePlan> plans(slot.plans);
  size_t failed = 0;
  Status status;
  try {
    if (const int64_t ceiling = setup->options.memory_bytes; ceiling > 0) {
      int64_t taken = resident_before + slots.size_bytes();
      for (const auto& worker : workers) taken += worker->scratch_bytes();
      if (filler != nullptr) taken += filler->scratch_bytes();
      prefaulter->make_room(
          plans.subspan(static_cast<size_t>(portion.first), static_cast<size_t>(portion.count)),
          portion.sequence, portion.sequence - slots.count() + 1, ceiling - taken);
    }
    status = prefaulter->touch(
        plans.subspan(static_cast<size_t>(portion.first), static_cast<size_t>(portion.count)), &failed);
  } catch (...) {
    status = status_from_current_exception("loader");
  }
  counters[Stage::kPrefault].items.add(portion.count);
  portion.failed = !status.ok();
  if (portion.failed)
    slot.fail(slot.meta.range.first + portion.first + static_cast<int64_t>(failed), std::move(status));
}

// --- 4. work: from record to slot, sample by sample: reader, decoder, augmenter, the other fields (stages/sample_worker.h)

void Loader::Flow::work(Portion& portion, int worker) noexcept {
  if (passes_on()) portion.failed = true;
  if (portion.failed || portion.count == 0) return;
  const double expected_ns = sample_ns.load(std::memory_order_relaxed);
  Slot& slot = slots[portion.slot];
  const Decoding here{setup.get(), decoding};
  decoding = &here;
  const int64_t took_ns = workers[static_cast<size_t>(worker)]->process(slot, portion, expected_ns);
  decoding = here.outer;
  worked_ns += took_ns;
  // Falls fast and rises slowly: a portion during which the thread was preempted is not representative.
  const double took_a_sample_ns = static_cast<double>(took_ns) / portion.count;
  const double weight = took_a_sample_ns < expected_ns ? 0.3 : 0.03;
  sample_ns.store(expected_ns + weight * (took_a_sample_ns - expected_ns), std::memory_order_relaxed);
}

// --- 5. batch: the slot counts down; its last portion finishes and hashes the batch (stages/batch.h)

bool Loader::Flow::batch(const Portion& portion) noexcept {
  const int64_t begin_ns = now_ns();
  Slot& slot = slots[portion.slot];
  bool is_last = true;
  try {
    is_last = count_down(slot, portion.count);
  } catch (...) {  // only the last portion's call can throw: it finishes the batch
    slot.fail(slot.meta.range.first, status_from_current_exception("loader"));
  }
  const int64_t took_ns = now_ns() - begin_ns;
  counters[Stage::kBatcher].items.add(portion.count);
  counters[Stage::kBatcher].busy_ns.add(took_ns);
  worked_ns += took_ns;
  return is_last;
}

// --- 6. stage: the slot unchanged, or copied to a device (stages/batch.h); the gate opens when the consumer can use it

void Loader::Flow::stage(const Portion& portion) noexcept {
  if (stopping.load(std::memory_order_relaxed)) return;  // its gate stays closed
  meter.batch_finished();
  unlocked_stager->stage(slots[portion.slot]);
}

// If a device decodes and has found corrupt tiles, those samples go through the graph again, for the host's decoder.
void Loader::Flow::again(int32_t index, std::span<const int32_t> statuses) {
  const MutexLock lock(begin_mutex);
  if (stopping) return;
  Slot& slot = slots[index];
  meter.batch_again(static_cast<int>(slot.begin_again(statuses)));
  for (size_t i = 0; i < statuses.size(); ++i) {
    if (statuses[i] == 0) continue;
    graph->put({.sequence = slot.meta.sequence,
                .slot = index,
                .first = static_cast<int32_t>(i),
                .count = 1,
                .on_host = true},
               1);
  }
}

// --- 7. next: the consumer waits and decodes meanwhile; the batch is recorded and returned

Result<std::optional<Batch>> Loader::next() {
  Flow& flow = *flow_;
  if (!flow.ended.ok()) return flow.ended;
  if (flow.next_lend >= flow.end) return std::optional<Batch>();
  {
    const MutexLock lock(flow.lend_mutex);
    if (flow.stager->lent() >= flow.stager->lendable()) {
      return misuse("loader", "next() while all ", flow.stager->lendable(),
                    " batches are held; release one first, or open the loader with more slots");
    }
  }
  if (!flow.interrupted) flow.wait_for(flow.next_lend);
  if (flow.interrupted) return Status(ErrorCode::kCancelled, "[loader] interrupted; seek to continue");
  if (!flow.has_news) flow.meter.batch_lent();
  const MutexLock lock(flow.lend_mutex);
  Batch batch = flow.stager->lend(flow.next_lend);
  flow.ended = flow.book(batch);
  if (!flow.ended.ok()) {  // the batch is not returned: a stream that seeks again needs its slot
    (void)flow.stager->release(batch, nullptr);
    return flow.ended;
  }
  ++flow.next_lend;
  {
    const MutexLock in_flight(flow.begin_mutex);
    flow.end_in_flight = flow.next_lend + stager_gates(*flow.setup);
    flow.begin_batches();
  }
  flow.lent_batches.fetch_add(1, std::memory_order_relaxed);
  flow.lent_samples.fetch_add(batch.count, std::memory_order_relaxed);
  flow.bottleneck.observe(flow.counters, flow.meter);
  return std::optional<Batch>(std::move(batch));
}

void Loader::Flow::wait_for(int64_t sequence) {
  const SpanScope span(Span::kDataIdle);
  const int64_t worked_before = worked_ns;
  const bool is_consumer = !has_news;
  meter.joins(true);
  if (is_consumer) meter.trainer_waits(true);
  graph->wait(sequence);
  meter.joins(false);
  if (is_consumer) meter.trainer_waits(false);
  Ledger* ledger = Ledger::current();
  if (ledger != nullptr) ledger->reassign(Span::kDataIdle, Span::kDataDecode, worked_ns - worked_before);
}

// Errors, chain and bad samples are recorded in the order in which batches are returned, which is the same for any thread
// count.
Status Loader::Flow::book(Batch& batch) {
  const BatchMeta& meta = stager->meta(batch);
  DLPIPE_RETURN_IF_ERROR(meta.error);
  for (size_t grain = 0; grain < chains.size(); ++grain)
    chains[grain] = data::checksum64(std::as_bytes(std::span(&meta.hashes[grain], 1)), chains[grain]);
  batch.chain = chain_of(chains);
  return book(meta.range.epoch, meta.substitutions);
}

Status Loader::Flow::book(int64_t epoch, std::span<const Substitution> substitutions) {
  Status booked = bad.book(epoch, substitutions);
  bad_count.store(bad.count(), std::memory_order_relaxed);
  return booked;
}

// --- 8. release: the slot is free again, immediately or when a device has copied it, and starts the next batch

Status Loader::release(const Batch& batch, Stream* stream) {
  const MutexLock lock(flow_->lend_mutex);
  return flow_->stager->release(batch, stream);
}

void Loader::Flow::credit(int32_t slot) {
  const MutexLock lock(begin_mutex);
  if (stopping) return;
  free_slots.push_back(slot);
  begin_batches();
}

// --- stopping the flow, and restarting it at another position

void Loader::Flow::stop() {
  {
    const MutexLock lock(begin_mutex);  // a credit has entered the graph before this, or sees `stopping`
    stopping = true;
  }
  graph->drain();
}

void Loader::Flow::restart(int64_t sequence) {
  const MutexLock lock(begin_mutex);
  meter.reset_levels();
  graph->close_gates();
  prefaulter->start_again();
  next_lend = next_begin = sequence;
  end_in_flight = sequence + stager_gates(*setup);
  stopping = interrupted = false;
  free_slots.clear();
  for (int32_t i = slots.count() - 1; i >= 0; --i) {
    if (!stager->is_lent(i)) free_slots.push_back(i);
  }
  begin_batches();
}

Loader::Flow::Flow(std::shared_ptr<const Setup> setup_in)
    : setup(std::move(setup_in)),
      planner(*setup->dataset, setup->chain, setup->sampler, setup->image_size.channels),
      checksums(setup->dataset->size()),
      meter(setup->options.threads),
      bad(setup->options.max_bad, setup->options.quarantine_file, setup->options.data),
      slots(setup->options.device->is_host() ? setup->options.slots_max : setup->options.slots),
      chains(static_cast<size_t>(setup->grains())) {
  const int64_t epochs = setup->options.epochs;
  end = epochs < 0 ? std::numeric_limits<int64_t>::max() : epochs * setup->sampler.batches_per_epoch();
}

Loader::Flow::~Flow() {
  if (graph == nullptr) return;
  stop();
  (void)unlocked_stager->reset(0);  // no copy and no callback is in flight any more
  graph.reset();
}

}  // namespace dlpipe::pipeline
