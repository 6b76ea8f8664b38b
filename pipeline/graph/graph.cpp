#include "dlpipe/pipeline/graph/graph.h"

#include <pthread.h>
#include <tbb/flow_graph.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <tuple>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/host_memory.h"
#include "dlpipe/base/mutex.h"
#include "dlpipe/base/text.h"
#include "dlpipe/base/threads.h"
#include "dlpipe/base/worker_limit.h"

namespace dlpipe::pipeline {

namespace {

namespace flow = tbb::flow;

// A batch on its way in. One message, because the trainer's thread sends it.
struct Begin {
  Portion whole;
  int32_t step = 1;
};

using PrefaultNode = flow::async_node<Portion, Portion, flow::lightweight>;

// What a batch is waited for at: a flow graph without nodes, which is done when nobody has reserved it. (A deferred task
// of a task_group does the same, but from oneTBB 2022 on it refers to memory of the thread that deferred it, and the
// consumer that closes a gate may have ended before somebody else opens it.) Opens on whatever thread.
class Gate {
 public:
  void close() {
    if (!is_open()) return;
    graph_.reserve_wait();
    open_.store(false, std::memory_order_release);
  }
  void open() noexcept {
    open_.store(true, std::memory_order_release);
    graph_.release_wait();  // from here the waiter may run on and close the gate for another batch
  }
  bool is_open() const { return open_.load(std::memory_order_acquire); }
  /// Inside the pool.
  void wait() { graph_.wait_for_all(); }

 private:
  flow::graph graph_;
  std::atomic<bool> open_{true};
};

// Names TBB's workers for top, perf and debuggers: they inherit the name of the thread that woke them first.
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

/// Throws kOutOfMemory unless the system has what oneTBB takes where it begins: threads and some memory. Where it doesn't,
/// oneTBB dereferences null (2021.8, task_scheduler_observer::observe).
void check_room(int threads) {
  throw_if_error(check_threads("loader", threads + 1));  // and the one that prefaults
  constexpr size_t kRoomBytes = size_t{16} << 20;
  void* const room = allocate_host(kRoomBytes);
  if (room == nullptr)
    throw Error(Status(ErrorCode::kOutOfMemory, concat("[loader] no memory for ", threads,
                                                       " threads; raise ulimit -v, or use fewer threads")));
  free_host(room);
}

}  // namespace

struct Graph::Impl {
  Impl(int threads, int gate_count, GraphBodies& bodies_in, FlowMeter& meter_in)
      : limit(threads),
        pool(threads, 1, tbb::task_arena::priority::low),
        names(pool),
        bodies(bodies_in),
        meter(meter_in) {
    // Graph, nodes and gates belong to the pool in which they are made.
    pool.execute([&] {
      graph.emplace();
      build();
      gates = std::vector<Gate>(static_cast<size_t>(gate_count));
      for (Gate& gate : gates) gate.close();
    });
  }

  void build();
  void prefault_loop();
  /// Whoever destroys a closed gate waits for ever.
  void open_gates() {
    pool.execute([this] {
      for (Gate& gate : gates) {
        if (!gate.is_open()) gate.open();
        gate.wait();
      }
    });
  }
  Gate& gate(int64_t sequence) { return gates[static_cast<size_t>(sequence) % gates.size()]; }

  WorkerLimit limit;  // before the first use of TBB: the workers of this process
  tbb::task_arena pool;
  WorkerNames names;
  GraphBodies& bodies;
  FlowMeter& meter;
  std::optional<flow::graph> graph;
  std::optional<flow::multifunction_node<Begin, std::tuple<Portion>>> split;
  std::optional<flow::function_node<Portion, Portion>> plan;
  std::optional<PrefaultNode> prefault;
  std::optional<flow::function_node<Portion, Portion>> work;
  std::optional<flow::multifunction_node<Portion, std::tuple<Portion>, flow::lightweight>> batch;
  std::optional<flow::function_node<Portion, flow::continue_msg, flow::lightweight>> stage;
  std::vector<Gate> gates;
  PortionQueue to_prefault;  // portions for the prefault thread
  PortionQueue ready;  // portions for the workers; a message of the work node is a permit to take the oldest
  PrefaultNode::gateway_type* gateway = nullptr;
  std::thread prefault_thread;
};

void Graph::Impl::build() {
  split.emplace(*graph, flow::unlimited, [](const Begin& begin, auto& ports) noexcept {
    Portion portion = begin.whole;
    const int32_t end = portion.first + portion.count;
    do {  // at least one: a rank's last batch may be empty
      portion.count = std::min(begin.step, end - portion.first);
      std::get<0>(ports).try_put(portion);
      portion.first += portion.count;
    } while (portion.first < end);
  });
  plan.emplace(*graph, flow::unlimited, [this](Portion portion) noexcept {
    meter.planning(true);
    bodies.plan(portion);
    meter.planning(false);
    return portion;
  });
  prefault.emplace(
      *graph, flow::unlimited, [this](const Portion& portion, PrefaultNode::gateway_type& port) noexcept {
        port.reserve_wait();  // the graph isn't drained while a portion is with the prefault thread
        meter.planned();
        to_prefault.push(portion);
      });
  gateway = &prefault->gateway();
  work.emplace(*graph, flow::unlimited, [this](Portion portion) noexcept {
    ready.try_pop(&portion);  // there are as many portions as messages
    meter.work_begins();
    bodies.work(portion, tbb::this_task_arena::current_thread_index());
    return portion;
  });
  batch.emplace(*graph, flow::unlimited, [this](const Portion& portion, auto& ports) noexcept {
    const bool is_last = bodies.batch(portion);
    meter.work_ends();  // the same thread's
    if (is_last) std::get<0>(ports).try_put(portion);
  });
  stage.emplace(*graph, flow::unlimited, [this](const Portion& portion) noexcept {
    bodies.stage(portion);
    return flow::continue_msg();
  });
  flow::make_edge(flow::output_port<0>(*split), *plan);
  flow::make_edge(*plan, *prefault);
  flow::make_edge(*prefault, *work);
  flow::make_edge(*work, *batch);
  flow::make_edge(flow::output_port<0>(*batch), *stage);
}

void Graph::Impl::prefault_loop() {
  pthread_setname_np(pthread_self(), "dlpipe-prefault");
  for (Portion portion; to_prefault.wait_pop(&portion);) {
    meter.prefaulting();
    bodies.prefault(portion);
    meter.ready();
    ready.push(portion);
    gateway->try_put(portion);
    gateway->release_wait();
  }
}

Graph::Graph(int threads, int gates, GraphBodies& bodies, FlowMeter& meter) {
  check_room(threads);
  impl_ = std::make_unique<Impl>(threads, gates, bodies, meter);
  try {
    impl_->prefault_thread = std::thread([impl = impl_.get()] { impl->prefault_loop(); });
  } catch (...) {
    impl_->open_gates();
    throw;
  }
}

Graph::~Graph() {
  drain();
  impl_->to_prefault.close();
  impl_->prefault_thread.join();
  impl_->open_gates();
}

void Graph::put(const Portion& whole, int32_t step) {
  impl_->split->try_put({whole, step});
}

void Graph::open(int64_t sequence) noexcept {
  impl_->gate(sequence).open();
}

void Graph::wait(int64_t sequence) {
  Gate& gate = impl_->gate(sequence);
  if (!gate.is_open()) impl_->pool.execute([&] { gate.wait(); });
  gate.close();
}

void Graph::drain() {
  impl_->pool.execute([this] { impl_->graph->wait_for_all(); });
}

void Graph::close_gates() {
  for (Gate& gate : impl_->gates) gate.close();
}

}  // namespace dlpipe::pipeline
