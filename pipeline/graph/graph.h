// The only TBB flow graph of dlpipe: which stage follows which, on which threads, and how a trainer waits.
//
//   put(portion) -> plan -> prefault (own thread) -> work -> batch --last portion of a slot--> stage -> gate opens
//
// Threads: a pool of exactly `threads` slots, low priority, one of them reserved for the thread that waits;
// `threads` - 1 TBB workers at most, shared with a training pool; one prefault thread that only waits for
// storage. Messages are Portions: handles. The bodies are noexcept, so that no exception cancels the graph.
//
// A gate is what the consumer waits for: wait(sequence) joins the pool and works until open(sequence) was
// called. (A condition variable would hang with one thread, and with two it costs up to a third.) A gate
// serves every gates-th sequence and is closed again as soon as the consumer has passed, so that the next
// batch can be waited for before a slot was free to begin it.
#pragma once

#include <cstdint>
#include <memory>

#include "dlpipe/pipeline/graph/flow_meter.h"
#include "dlpipe/pipeline/graph/portion_queue.h"

namespace dlpipe::pipeline {

/// What the graph's nodes call. Any pool thread, many at once, except prefault: the prefault thread alone.
class GraphBodies {
 public:
  virtual ~GraphBodies() = default;
  virtual void plan(Portion& portion) noexcept = 0;
  virtual void prefault(Portion& portion) noexcept = 0;
  /// `worker` is a number below Graph::worker_count() that no other thread uses meanwhile.
  virtual void work(Portion& portion, int worker) noexcept = 0;
  /// True when this was the slot's last portion.
  virtual bool batch(const Portion& portion) noexcept = 0;
  /// The slot's batch is complete. Must lead to open(portion.sequence), now or later.
  virtual void stage(const Portion& portion) noexcept = 0;
};

class Graph {
 public:
  /// `gates`: batches at most between put and wait. All references must outlive the graph.
  Graph(int threads, int gates, GraphBodies& bodies, FlowMeter& meter);
  /// Drains, then joins the prefault thread.
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  static int worker_count(int threads) { return threads + 1; }

  /// Lets a batch, or a part of one, into the graph, as portions of `step` samples. Any thread; does not run
  /// bodies itself.
  void put(const Portion& whole, int32_t step);
  /// Opens the gate; once per batch. Any thread.
  void open(int64_t sequence) noexcept;
  /// Works for the pool until the gate is open, then closes it. The consumer's thread; every sequence once.
  void wait(int64_t sequence);
  /// Waits, working, until no portion is in the graph. Nobody may put meanwhile.
  void drain();
  /// After drain: closes gates whose batches were never waited for. The consumer's thread.
  void close_gates();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlpipe::pipeline
