// Ranks of one run that work together: sums over all of them, exchanges, a word to the others when one stops.
//
//   auto ranks = value_or_throw(Collective::create([&] { return network.transport(rank); }));
//   Collective::Handle sum = ranks->all_reduce(gradients, "gradients of step 17");
//   // goes on while the communication thread works
//   throw_if_error(sum.wait());
//
// A Collective owns one communication thread, the only one that touches its Transport. Operations run there in the
// order in which they were asked for; all ranks ask for the same ones in the same order, with the same sizes. Memory
// that an operation got belongs to it until its handle was waited for. All else is for one thread, but abort(),
// which may be called from any. With one rank the thread has nothing to do: operations are over when they return.
//
// Sums are exact in this sense: with a power of two of ranks, every element is the sum along the one binary tree whose
// leaves are the ranks, neighbours first: ((0 + 1) + (2 + 3)) + ... . Each rank that holds the sum of a subtree of
// its own therefore gets the same bits as one rank that sums the whole tree by itself (tests/engine/collective).
// Recursive halving, then doubling: each rank sends 2 (n-1)/n of the bytes (Rabenseifner, "Optimization of Collective
// Reduction Operations", ICCS 2004).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/engine/collective/rank_group.h"
#include "dlpipe/engine/collective/transport.h"
#include "dlpipe/engine/collective/wire.h"

namespace dlpipe::engine {

/// What the communication thread did so far.
struct CollectiveStats {
  int64_t operations = 0;
  int64_t bytes_sent = 0;  // payload
  int64_t busy_ns = 0;     // from an operation's begin to its end, waiting for peers included
};

class Collective {
 public:
  using Open = std::function<Result<std::unique_ptr<Transport>>()>;
  /// Opens the transport on the communication thread and keeps both. kMisuse where the number of ranks is no
  /// power of two.
  static Result<std::unique_ptr<Collective>> create(const Open& open);
  /// Leaves in good order if close() was called, else at once.
  ~Collective();
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  int rank() const;
  int world() const;
  /// Some of these ranks among themselves, numbered in the order of `members`, a power of two of which this rank is one.
  /// They share the communication thread and its transport: operations of all groups run in the order in which this rank
  /// asked for them, so ranks that are in several groups ask in an order that all of these can follow. abort(), was_told(),
  /// close() and stats() are those of all ranks, whichever group they are called on.
  std::unique_ptr<Collective> group(std::span<const int> members) const;

  class Handle {
   public:
    Handle() = default;
    /// Until the operation is over: its error, which names this rank, `what` it waited for and why it can't go on.
    /// Time spent here is Span::kCollective of the thread's ledger.
    Status wait();

   private:
    friend class Collective;
    struct State;
    explicit Handle(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
  };

  /// `values` become their sum over all ranks. `what` is for messages: "gradients of step 17". With Wire::kBf16 every
  /// value is rounded to bf16, and so is every sum of two along the tree, wherever its two are: the bits still don't
  /// depend on the number of ranks that hold subtrees whose sums are rounded likewise.
  Handle all_reduce(std::span<float> values, std::string what, Wire wire = Wire::kF32);
  /// Where the parts of some values begin, world() + 1 offsets that don't fall, the last one their number.
  using Cuts = std::vector<size_t>;
  /// Parts of as equal sizes as they can be.
  Cuts even_cuts(size_t count) const;
  struct Part {
    size_t begin = 0;
    size_t end = 0;
  };
  /// The part that is this rank's. Ranks don't have theirs in the order of their numbers.
  Part part_of(const Cuts& cuts) const;
  Part part_of(size_t count) const;
  /// The first half of all_reduce: only part_of(cuts) is the sum, the rest is undefined.
  Handle reduce_scatter(std::span<float> values, const Cuts& cuts, std::string what, Wire wire = Wire::kF32);
  /// The second half: each rank's part_of(cuts) reaches all others.
  Handle all_gather(std::span<float> values, const Cuts& cuts, std::string what);
  Handle broadcast(std::span<std::byte> bytes, int root, std::string what);
  Handle send(int peer, std::span<const std::byte> bytes, std::string what);
  Handle receive(int peer, std::span<std::byte> bytes, std::string what);
  /// Both at once; either may be empty. The peer asks for the same with the sizes the other way round, or for the one of
  /// send and receive that is left.
  Handle exchange(int peer, std::span<const std::byte> out, std::span<std::byte> in, std::string what);
  Handle barrier(std::string what);
  /// Every rank's bytes, by rank, whatever their sizes. Waits.
  Result<std::vector<std::string>> gather(std::string_view mine, std::string what);

  /// Tells the others that this rank stops, and why. Their operations end with an error that says so.
  void abort(std::string_view reason) noexcept;
  /// Whether operations fail because another rank said that it stops.
  bool was_told() const;
  /// After the last operation, on all ranks. Waits.
  Status close();

  CollectiveStats stats() const;

 private:
  class Worker;
  Collective(std::shared_ptr<Worker> worker, RankGroup group);
  std::shared_ptr<Worker> worker_;
  RankGroup group_;
};

}  // namespace dlpipe::engine
