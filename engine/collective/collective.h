// Communication between the ranks of a run: sums over all ranks, exchanges, and notification of the others when one stops.
//
//   auto ranks = value_or_throw(Collective::create([&] { return network.transport(rank); }));
//   Collective::Handle sum = ranks->all_reduce(gradients, "gradients of step 17");
//   // ... other work, while the communication thread sums
//   throw_if_error(sum.wait());
//
// A Collective owns one communication thread, the only one that touches its Transport. It runs operations in the order
// of the calls; all ranks must call the same operations in the same order, with the same sizes. The memory passed to an
// operation must not be touched until its handle has been waited for. All functions are for one thread, except abort(),
// which may be called from any thread. With one rank the thread does nothing: operations are complete when they return.
//
// Sums are reproducible: the number of ranks is a power of two, and every element is summed along the same binary tree
// with the ranks as leaves, neighbours first: ((0 + 1) + (2 + 3)) + ... . So if each rank contributes the sum of a
// subtree, the bits are the same as when one rank sums the whole tree (tests/engine/collective).
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

#include "dlpipe/error.h"
#include "dlpipe/stats.h"
#include "engine/collective/transport.h"

namespace dlpipe::engine {

/// How values are sent: unchanged, or rounded to bf16, with half the bytes.
enum class Wire : uint8_t { kF32, kBf16 };

struct RankGroup {
  std::vector<int> members;  // rank numbers on the transport
  int rank = 0;              // this rank's number in the group

  int world() const { return static_cast<int>(members.size()); }
};

class Collective {
 public:
  using Open = std::function<Result<std::unique_ptr<Transport>>()>;
  /// Opens the transport on the communication thread and keeps both. kMisuse if the number of ranks is not a
  /// power of two.
  static Result<std::unique_ptr<Collective>> create(const Open& open);
  /// Shuts down cleanly if close() was called, else immediately.
  ~Collective();
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  int rank() const;
  int world() const;
  /// A group of these ranks, numbered in the order of `members`, which has a power of two of ranks including this one.
  /// Groups share the communication thread and its transport: the operations of all groups run in the order of this rank's
  /// calls, so ranks in several groups must call in an order that cannot deadlock. abort(), was_told(), close() and stats()
  /// apply to all ranks, regardless of the group that they are called on.
  std::unique_ptr<Collective> group(std::span<const int> members) const;

  class Handle {
   public:
    Handle() = default;
    /// Waits for the operation. The error names this rank, the operation's `what` and why it failed.
    /// Time spent here is charged to Span::kCollective of the thread's ledger.
    Status wait();

   private:
    friend class Collective;
    struct State;
    explicit Handle(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
  };

  /// Replaces `values` by their sum over all ranks. `what` is for messages: "gradients of step 17". With Wire::kBf16, every
  /// value and every sum of two along the tree is rounded to bf16. So the bits still don't depend on the number of ranks, if
  /// the sums of subtrees within a rank are rounded in the same way.
  Handle all_reduce(std::span<float> values, std::string what, Wire wire = Wire::kF32);
  /// The beginnings of the parts of some values: world() + 1 ascending offsets; the last one is the number of values.
  using Cuts = std::vector<size_t>;
  /// Cuts into parts of sizes as equal as possible.
  Cuts even_cuts(size_t count) const;
  struct Part {
    size_t begin = 0;
    size_t end = 0;
  };
  /// This rank's part. Parts are not in the order of rank numbers.
  Part part_of(const Cuts& cuts) const;
  Part part_of(size_t count) const;
  /// The first half of all_reduce: only part_of(cuts) becomes the sum, the rest is undefined.
  Handle reduce_scatter(std::span<float> values, const Cuts& cuts, std::string what, Wire wire = Wire::kF32);
  /// The second half: sends each rank's part_of(cuts) to all others.
  Handle all_gather(std::span<float> values, const Cuts& cuts, std::string what);
  Handle broadcast(std::span<std::byte> bytes, int root, std::string what);
  Handle send(int peer, std::span<const std::byte> bytes, std::string what);
  Handle receive(int peer, std::span<std::byte> bytes, std::string what);
  /// Sends and receives at the same time; either may be empty. The peer must call it with the sizes swapped, or call the
  /// matching send or receive.
  Handle exchange(int peer, std::span<const std::byte> out, std::span<std::byte> in, std::string what);
  Handle barrier(std::string what);
  /// Every rank's bytes, by rank; sizes may differ. Waits.
  Result<std::vector<std::string>> gather(std::string_view mine, std::string what);

  /// Notifies the other ranks that this rank stops, and why. Their operations fail with this reason.
  void abort(std::string_view reason) noexcept;
  /// Whether operations fail because another rank has reported that it stops.
  bool was_told() const;
  /// Call it on all ranks after the last operation. Waits.
  Status close();

  CollectiveStats stats() const;

 private:
  class Worker;
  Collective(std::shared_ptr<Worker> worker, RankGroup group);
  std::shared_ptr<Worker> worker_;
  RankGroup group_;
};

// The ranks of a run as a grid of replicas, stages and parts. The ranks of a replica compute the same samples: each has one
// stage of the model (pipeline parallelism), and a part of that stage's weights (tensor parallelism). Ranks at the same place
// in different replicas have the same weights and compute different samples (data parallelism).
//
// A value. Consecutive rank numbers are parts of one stage, then stages of one replica: they exchange the most data, and a
// launcher puts them on one machine.

struct RankGrid {
  Collective* all = nullptr;  // null: there is only this process
  // This rank with the ranks that differ from it in one coordinate; null: there are no others.
  std::shared_ptr<Collective> data = nullptr;     // other replicas
  std::shared_ptr<Collective> stages = nullptr;   // other stages of the replica, in their order
  std::shared_ptr<Collective> tensor = nullptr;   // other parts of the stage
  std::shared_ptr<Collective> replica = nullptr;  // all ranks of the replica; null: only this rank

  int rank() const { return all != nullptr ? all->rank() : 0; }
  int world() const { return all != nullptr ? all->world() : 1; }
  int data_world() const { return data != nullptr ? data->world() : 1; }
  int data_rank() const { return data != nullptr ? data->rank() : 0; }
  int stage_world() const { return stages != nullptr ? stages->world() : 1; }
  int tensor_world() const { return tensor != nullptr ? tensor->world() : 1; }
  int replica_world() const { return stage_world() * tensor_world(); }
  /// The replica of a rank, and the rank's number in it.
  int data_rank_of(int rank) const { return rank / replica_world(); }
  int replica_rank_of(int rank) const { return rank % replica_world(); }
};

/// `stages` and `tensor` are powers of two, and their product divides the number of all ranks. `all` must outlive the grid;
/// null: there is only this process.
RankGrid make_rank_grid(Collective* all, int stages, int tensor);

}  // namespace dlpipe::engine
